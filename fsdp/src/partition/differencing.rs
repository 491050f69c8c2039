//! The largest differencing method for any number of parts.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Counts, Parts};

/// Items that will end in the same part.
#[derive(Debug)]
struct Group {
    sum: f64,
    /// In the order in which they came in: the sum was added up in that order.
    items: Vec<u32>,
}

impl Group {
    /// Takes in the items of `other` one by one: floats do not add up the same in another order.
    fn take(&mut self, other: Self, costs: &[f64]) {
        for item in other.items {
            self.sum += costs[item as usize];
            self.items.push(item);
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let by_count = || self.items.len().cmp(&other.items.len());
        let by_items = || self.items.cmp(&other.items);
        self.sum.total_cmp(&other.sum).then_with(by_count).then_with(by_items)
    }
}

/// A partial solution: the groups that hold items, largest first; the others are empty.
#[derive(Debug)]
struct Partial {
    groups: Vec<Group>,
    /// Largest minus smallest sum, counting the empty groups.
    spread: f64,
}

impl Partial {
    fn new(mut groups: Vec<Group>, parts: usize) -> Self {
        groups.sort_by(|a, b| b.cmp(a));
        let sum = |group: Option<&Group>| group.map_or(0.0, |group| group.sum);
        let smallest = if groups.len() < parts { 0.0 } else { sum(groups.last()) };
        let spread = sum(groups.first()) - smallest;
        Self { groups, spread }
    }

    /// Joins the largest group of one with the smallest of the other, and so on.
    fn merge(self, other: Self, costs: &[f64], parts: usize) -> Self {
        let mut groups = self.groups;
        // The groups behind those of `self` are empty: what comes there stays as it is.
        let mut alone = Vec::new();
        for (from_last, group) in other.groups.into_iter().enumerate() {
            match groups.get_mut(parts - 1 - from_last) {
                Some(one) => one.take(group, costs),
                None => alone.push(group),
            }
        }
        groups.append(&mut alone);
        Self::new(groups, parts)
    }
}

impl Ord for Partial {
    fn cmp(&self, other: &Self) -> Ordering {
        let largest =
            |partial: &Self, with: &Self| match (partial.groups.first(), with.groups.first()) {
                (Some(one), Some(other)) => one.cmp(other),
                (one, other) => one.is_some().cmp(&other.is_some()),
            };
        self.spread.total_cmp(&other.spread).then_with(|| largest(self, other))
    }
}

impl PartialOrd for Partial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Partial {}

/// Cuts `costs` into `parts`: the two partial solutions with the largest spread become one, until
/// there is only one. With equal counts the partial solutions begin as runs of `parts` neighbours
/// of the sorted costs, one item for each part.
pub(super) fn parts(costs: &[f64], parts: usize, counts: Counts) -> Parts {
    let mut items: Vec<u32> = (0u32..).take(costs.len()).collect();
    let cost = |item: u32| costs[item as usize];
    items.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(a.cmp(&b)));
    let run = match counts {
        Counts::Equal => parts,
        Counts::Free => 1,
    };
    let group = |&item: &u32| Group { sum: cost(item), items: vec![item] };
    let partials =
        items.chunks(run).map(|run| Partial::new(run.iter().map(group).collect(), parts));
    let mut heap: BinaryHeap<Partial> = partials.collect();
    while let Some(first) = heap.pop() {
        let Some(second) = heap.pop() else {
            return first.groups.into_iter().map(|group| group.items).collect();
        };
        heap.push(first.merge(second, costs, parts));
    }
    Vec::new()
}
