//! Swaps of two items that even out parts.

use std::cmp::Ordering;

use super::{Parts, sum};

/// The gain below which a swap is not worth making, in the unit of the costs.
const EPSILON: f64 = 1e-6;

/// Swaps items between the largest part and another, or else the smallest and another, as long as
/// that leaves both sums in between: the first such swap in the order of the items of the largest
/// (smallest) part, then of the parts by size, then of their items; and then all anew.
///
/// Each swap shrinks the sum of the squares of the sums, so this ends; where rounding has it
/// otherwise, after [`most_swaps`]. The result has the largest part first.
pub(super) fn balance(costs: &[f64], parts: Parts) -> Parts {
    let mut state = State::new(costs, parts);
    for _ in 0..most_swaps(costs.len()) {
        let Some([one, other]) = state.swap_of_largest().or_else(|| state.swap_of_smallest())
        else {
            break;
        };
        state.exchange(one, other);
    }
    let State { mut parts, ranked, .. } = state;
    ranked.into_iter().map(|part| std::mem::take(&mut parts[part].items)).collect()
}

/// Many times what is ever needed where sums are exact.
const fn most_swaps(items: usize) -> usize {
    1_000_000 + 1_000 * items
}

struct Part {
    /// In the order in which they came in; an item that is swapped leaves its place to the other.
    items: Vec<u32>,
    sum: f64,
    /// The smallest number of an item: settles the order of equal sums.
    first: u32,
}

impl Part {
    fn new(costs: &[f64], items: Vec<u32>) -> Self {
        let first = items.iter().copied().min().unwrap_or(0);
        Self { sum: sum(costs, &items), first, items }
    }

    /// The largest part comes first; of equal ones, that whose first item comes later.
    fn order(&self, other: &Self) -> Ordering {
        other.sum.total_cmp(&self.sum).then(other.first.cmp(&self.first))
    }
}

/// A place in a part.
#[derive(Clone, Copy)]
struct Place {
    part: usize,
    item: usize,
}

/// Parts, and all items by cost: what may be swapped for an item lies in a window around it, which
/// is narrow as soon as the parts are nearly even.
struct State<'a> {
    costs: &'a [f64],
    parts: Vec<Part>,
    /// The parts from the largest to the smallest, and the place of each among them.
    ranked: Vec<usize>,
    rank: Vec<usize>,
    /// The part of each item.
    part_of: Vec<usize>,
    /// The items by ascending cost, and these costs.
    by_cost: Vec<u32>,
    ascending: Vec<f64>,
}

impl<'a> State<'a> {
    fn new(costs: &'a [f64], parts: Parts) -> Self {
        let parts: Vec<Part> = parts.into_iter().map(|items| Part::new(costs, items)).collect();
        let mut part_of = vec![0; costs.len()];
        for (number, part) in parts.iter().enumerate() {
            part.items.iter().for_each(|&item| part_of[item as usize] = number);
        }
        let mut by_cost: Vec<u32> = (0u32..).take(costs.len()).collect();
        by_cost.sort_by(|&a, &b| costs[a as usize].total_cmp(&costs[b as usize]));
        let ascending = by_cost.iter().map(|&item| costs[item as usize]).collect();
        let mut ranked: Vec<usize> = (0..parts.len()).collect();
        ranked.sort_by(|&a, &b| parts[a].order(&parts[b]));
        let mut rank = vec![0; parts.len()];
        ranked.iter().enumerate().for_each(|(place, &part)| rank[part] = place);
        Self { costs, parts, ranked, rank, part_of, by_cost, ascending }
    }

    /// Swaps two items, and puts their parts where they belong now.
    fn exchange(&mut self, one: Place, other: Place) {
        let mut ranks = [self.rank[one.part], self.rank[other.part]];
        ranks.sort_unstable();
        self.ranked.remove(ranks[1]);
        self.ranked.remove(ranks[0]);
        let [first, second] = [one, other].map(|place| self.parts[place.part].items[place.item]);
        for (place, item) in [(one, second), (other, first)] {
            let mut items = std::mem::take(&mut self.parts[place.part].items);
            items[place.item] = item;
            self.parts[place.part] = Part::new(self.costs, items);
            self.part_of[item as usize] = place.part;
        }
        let [mut from, mut until] = ranks;
        for part in [one.part, other.part] {
            let moved = &self.parts[part];
            let is_larger = |&other: &usize| self.parts[other].order(moved).is_lt();
            let rank = self.ranked.partition_point(is_larger);
            self.ranked.insert(rank, part);
            // The part inserted first may have moved by one.
            (from, until) = (from.min(rank), (until + 1).max(rank));
        }
        let until = until.min(self.ranked.len() - 1);
        for rank in from..=until {
            self.rank[self.ranked[rank]] = rank;
        }
    }

    /// The first item of the largest part and one of another that it may be swapped for.
    fn swap_of_largest(&self) -> Option<[Place; 2]> {
        let (largest, smallest) = (*self.ranked.first()?, *self.ranked.last()?);
        let (most, least) = (self.parts[largest].sum, self.parts[smallest].sum);
        for (item, &moved) in self.parts[largest].items.iter().enumerate() {
            let moved = self.costs[moved as usize];
            let stays_above = |cost: f64| most - moved + cost > least + EPSILON;
            let is_lighter = |cost: f64| moved - cost > EPSILON;
            let stays_below = |sum: f64, cost: f64| sum - cost + moved + EPSILON < most;
            let from = self.ascending.partition_point(|&cost| !stays_above(cost));
            let until = self.ascending.partition_point(|&cost| is_lighter(cost));
            if let Some(other) = self.first_of(from, until, largest, stays_below) {
                return Some([Place { part: largest, item }, other]);
            }
        }
        None
    }

    /// The first item of the smallest part and one of another that it may be swapped for.
    fn swap_of_smallest(&self) -> Option<[Place; 2]> {
        let (largest, smallest) = (*self.ranked.first()?, *self.ranked.last()?);
        let (most, least) = (self.parts[largest].sum, self.parts[smallest].sum);
        for (item, &moved) in self.parts[smallest].items.iter().enumerate() {
            let moved = self.costs[moved as usize];
            let is_heavier = |cost: f64| cost - moved > EPSILON;
            let stays_below = |cost: f64| least - moved + cost + EPSILON < most;
            let stays_above = |sum: f64, cost: f64| sum - cost + moved > least + EPSILON;
            let from = self.ascending.partition_point(|&cost| !is_heavier(cost));
            let until = self.ascending.partition_point(|&cost| stays_below(cost));
            if let Some(other) = self.first_of(from, until, smallest, stays_above) {
                return Some([Place { part: smallest, item }, other]);
            }
        }
        None
    }

    /// Of the items number `from` to `until` by cost, outside the part `but`, which `fit` the sum
    /// of their part: the first of the largest part that has one.
    fn first_of(
        &self,
        from: usize,
        until: usize,
        but: usize,
        fit: impl Fn(f64, f64) -> bool,
    ) -> Option<Place> {
        let window = from..until.max(from);
        let fitting = window.clone().filter(|&place| {
            let part = self.part_of[self.by_cost[place] as usize];
            part != but && fit(self.parts[part].sum, self.ascending[place])
        });
        let rank = fitting.map(|place| self.rank[self.part_of[self.by_cost[place] as usize]]).min();
        let part = self.ranked[rank?];
        let Part { items, sum, .. } = &self.parts[part];
        let in_window = |cost: f64| {
            let (least, most) = (self.ascending[window.start], self.ascending[window.end - 1]);
            (least..=most).contains(&cost)
        };
        let item = items.iter().position(|&item| {
            let cost = self.costs[item as usize];
            in_window(cost) && fit(*sum, cost)
        });
        Some(Place { part, item: item? })
    }
}
