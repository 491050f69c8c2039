//! Upper bound of a bounded knapsack: the most work whose activations fit under a memory limit at once.

/// A type of items: size and worth of each, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct ItemType {
    pub(super) bytes: u64,
    pub(super) worth: u64,
    pub(super) count: u64,
}

impl ItemType {
    /// How many of them fit in `room` bytes.
    pub(super) fn fitting(&self, room: u64) -> u64 {
        room.checked_div(self.bytes).map_or(self.count, |fit| fit.min(self.count))
    }
}

/// An upper bound on the worth of `items` that fit in `room` bytes. Exact for one or two types; for more it is the
/// fractional knapsack, in which one item may be cut.
pub(super) fn knapsack_bound(items: impl Iterator<Item = ItemType>, room: u64) -> u64 {
    let mut kinds: Vec<ItemType> = Vec::new();
    for item in items.filter(|item| item.worth > 0 && item.count > 0) {
        match kinds.iter_mut().find(|kind| (kind.bytes, kind.worth) == (item.bytes, item.worth)) {
            Some(kind) => kind.count += item.count,
            None => kinds.push(item),
        }
    }
    match &mut kinds[..] {
        [] => 0,
        [one] => one.fitting(room) * one.worth,
        [one, other] => of_two(one, other, room),
        many => fractional(many, room),
    }
}

fn of_two(one: &ItemType, other: &ItemType, room: u64) -> u64 {
    // Enumerates the count of the type of which fewer fit.
    let (few, many) =
        if one.fitting(room) <= other.fitting(room) { (one, other) } else { (other, one) };
    let worth =
        |count: u64| count * few.worth + many.fitting(room - count * few.bytes) * many.worth;
    (0..=few.fitting(room)).map(worth).max().unwrap_or(0)
}

fn fractional(kinds: &mut [ItemType], mut room: u64) -> u64 {
    let density = |one: &ItemType, other: &ItemType| {
        let [left, right] = [(one, other), (other, one)]
            .map(|(worth, bytes)| u128::from(worth.worth) * u128::from(bytes.bytes));
        right.cmp(&left)
    };
    kinds.sort_by(density);
    let mut worth = 0u64;
    for kind in kinds {
        let whole = kind.fitting(room);
        worth += whole * kind.worth;
        room -= whole * kind.bytes;
        if whole < kind.count {
            // Worth is whole, so what is cut off a nanosecond is never worth anything.
            let cut = u128::from(kind.worth) * u128::from(room) / u128::from(kind.bytes);
            return worth + u64::try_from(cut).unwrap_or(kind.worth);
        }
    }
    worth
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The best choice, all tried.
    fn exhaustive(items: &[ItemType], room: u64) -> u64 {
        let Some((first, rest)) = items.split_first() else { return 0 };
        let counts = (0..=first.count).filter(|count| count * first.bytes <= room);
        let worth = |count| count * first.worth + exhaustive(rest, room - count * first.bytes);
        counts.map(worth).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_is_worth_more(
            items in prop::collection::vec((0..6u64, 0..9u64, 0..5u64), 0..5),
            room in 0..30u64,
        ) {
            let items: Vec<ItemType> = items
                .into_iter()
                .map(|(bytes, worth, count)| ItemType { bytes, worth, count })
                .collect();
            let found = knapsack_bound(items.iter().copied(), room);
            let best = exhaustive(&items, room);
            prop_assert!(found >= best);
            if items.len() <= 2 {
                prop_assert_eq!(found, best);
            }
        }
    }
}
