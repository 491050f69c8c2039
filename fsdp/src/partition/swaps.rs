//! Swaps of two items that even out parts.

use std::cmp::Ordering;

use super::{Parts, sum};

/// What is not worth a swap, in the unit of the costs.
const EPSILON: f64 = 1e-6;

/// A part with what is asked of it over and over.
struct Part {
    /// In the order in which they came in; an item that is swapped leaves its place to the other.
    items: Vec<u32>,
    /// Their costs, ascending.
    costs: Vec<f64>,
    sum: f64,
    /// The smallest number of an item.
    first: u32,
}

impl Part {
    fn new(costs: &[f64], items: Vec<u32>) -> Self {
        let mut own: Vec<f64> = items.iter().map(|&item| costs[item as usize]).collect();
        own.sort_unstable_by(f64::total_cmp);
        let first = items.iter().copied().min().unwrap_or(0);
        Self { sum: sum(costs, &items), costs: own, first, items }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.sum.total_cmp(&other.sum).then(self.first.cmp(&other.first))
    }
}

/// A place in a list of parts.
#[derive(Clone, Copy)]
struct Place {
    part: usize,
    item: usize,
}

/// Swaps items between the largest part and another, or else the smallest and another, as long as
/// one makes the larger smaller without making it the smallest, and the like: the first such swap
/// in the order of parts and items, then all anew.
///
/// Each swap shrinks the sum of the squares of the sums, so this ends; where rounding has it
/// otherwise, after [`most_swaps`].
pub(super) fn balance(costs: &[f64], parts: Parts) -> Parts {
    let mut parts: Vec<Part> = parts.into_iter().map(|items| Part::new(costs, items)).collect();
    for _ in 0..most_swaps(costs.len()) {
        parts.sort_by(|a, b| b.cmp(a));
        let swap = swap_of_largest(costs, &parts).or_else(|| swap_of_smallest(costs, &parts));
        let Some([one, other]) = swap else { break };
        exchange(costs, &mut parts, one, other);
    }
    parts.into_iter().map(|part| part.items).collect()
}

/// Many times what is ever needed where sums are exact.
const fn most_swaps(items: usize) -> usize {
    1_000 + 64 * items
}

fn exchange(costs: &[f64], parts: &mut [Part], one: Place, other: Place) {
    let [first, second] = [one, other].map(|place| parts[place.part].items[place.item]);
    for (place, item) in [(one, second), (other, first)] {
        let mut items = std::mem::take(&mut parts[place.part].items);
        items[place.item] = item;
        parts[place.part] = Part::new(costs, items);
    }
}

/// The first item of the largest part and one of another that it may be swapped for.
fn swap_of_largest(costs: &[f64], parts: &[Part]) -> Option<[Place; 2]> {
    let (largest, smallest) = (parts.first()?, parts.last()?);
    let (most, least) = (largest.sum, smallest.sum);
    for (item, &moved) in largest.items.iter().enumerate() {
        let moved = costs[moved as usize];
        for (part, other) in parts.iter().enumerate().skip(1) {
            let lighter = |cost: f64| moved - cost > EPSILON;
            let worth = |cost: f64| {
                other.sum - cost + moved + EPSILON < most && most - moved + cost > least + EPSILON
            };
            // Of the costs that leave both sums in between, the smallest is lighter if any is.
            let from = other.costs.partition_point(|&cost| !worth(cost));
            if other.costs.get(from).is_some_and(|&cost| lighter(cost)) {
                let fits = |cost| lighter(cost) && worth(cost);
                return Some([
                    Place { part: 0, item },
                    Place { part, item: find(costs, other, fits)? },
                ]);
            }
        }
    }
    None
}

/// The first item of the smallest part and one of another that it may be swapped for.
fn swap_of_smallest(costs: &[f64], parts: &[Part]) -> Option<[Place; 2]> {
    let (last, (largest, smallest)) = (parts.len() - 1, (parts.first()?, parts.last()?));
    let (most, least) = (largest.sum, smallest.sum);
    for (item, &moved) in smallest.items.iter().enumerate() {
        let moved = costs[moved as usize];
        for (part, other) in parts[..last].iter().enumerate() {
            let heavier = |cost: f64| cost - moved > EPSILON;
            let worth = |cost: f64| {
                other.sum - cost + moved > least + EPSILON && least - moved + cost + EPSILON < most
            };
            // Of the costs that leave both sums in between, the largest is heavier if any is.
            let until = other.costs.partition_point(|&cost| worth(cost));
            if until > 0 && heavier(other.costs[until - 1]) {
                let fits = |cost| heavier(cost) && worth(cost);
                return Some([
                    Place { part: last, item },
                    Place { part, item: find(costs, other, fits)? },
                ]);
            }
        }
    }
    None
}

/// The place in `part` of the first item whose cost `fits`.
fn find(costs: &[f64], part: &Part, fits: impl Fn(f64) -> bool) -> Option<usize> {
    part.items.iter().position(|&item| fits(costs[item as usize]))
}
