//! Upper bound of a bounded knapsack.

use std::collections::BTreeMap;

/// `count` items of one size and worth.
#[derive(Clone, Debug)]
pub(crate) struct ItemType {
    pub(crate) size: i128,
    pub(crate) worth: i128,
    pub(crate) count: i128,
}

/// An upper bound on the worth of the items that fit in `room`. Exact for one or two types; for more, the optimum of
/// the dual of the linear relaxation.
pub(crate) fn knapsack_bound(items: Vec<ItemType>, room: i128) -> i128 {
    let mut sorts: BTreeMap<(i128, i128), i128> = BTreeMap::new();
    for item in items.into_iter().filter(|item| item.worth > 0 && item.count > 0) {
        *sorts.entry((item.size, item.worth)).or_default() += item.count;
    }
    let room = room.max(0);
    let sorts: Vec<ItemType> =
        sorts.into_iter().map(|((size, worth), count)| ItemType { size, worth, count }).collect();
    match &sorts[..] {
        [] => 0,
        [one] => fitting(one, room) * one.worth,
        [one, other] => {
            let rest = |taken: i128| fitting(other, room - taken * one.size) * other.worth;
            let all = 0..=fitting(one, room);
            all.map(|taken| taken * one.worth + rest(taken)).max().unwrap_or(0)
        }
        many => dual(many, room),
    }
}

fn fitting(item: &ItemType, room: i128) -> i128 {
    if item.size == 0 { item.count } else { (room / item.size).min(item.count) }
}

/// For any price per unit of room, the optimum is at most the price of the room plus the excess of the worth of each
/// item over its own price. The dual optimum is at a price equal to the worth per size of some type, or at zero.
fn dual(sorts: &[ItemType], room: i128) -> i128 {
    let worth_at = |worth: i128, size: i128| {
        let beyond = |item: &ItemType| (item.worth * size - worth * item.size).max(0) * item.count;
        (worth * room + sorts.iter().map(beyond).sum::<i128>()) / size
    };
    let prices = sorts.iter().filter(|item| item.size > 0);
    let priced = prices.map(|item| worth_at(item.worth, item.size));
    priced.chain([worth_at(0, 1)]).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The best choice, all tried.
    fn exhaustive(items: &[ItemType], room: i128) -> i128 {
        let Some((first, rest)) = items.split_first() else { return 0 };
        let counts = (0..=first.count).filter(|count| count * first.size <= room);
        let worth = |count| count * first.worth + exhaustive(rest, room - count * first.size);
        counts.map(worth).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_is_worth_more(
            items in prop::collection::vec((0..6i128, 0..9i128, 0..5i128), 0..5),
            room in 0..30i128,
        ) {
            let items: Vec<ItemType> = items
                .into_iter()
                .map(|(size, worth, count)| ItemType { size, worth, count })
                .collect();
            let found = knapsack_bound(items.clone(), room);
            let best = exhaustive(&items, room);
            prop_assert!(found >= best);
            if items.len() <= 2 {
                prop_assert_eq!(found, best);
            }
        }
    }
}
