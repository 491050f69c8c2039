//! How much work fits beside a memory limit.

/// Alike things to be held: what each takes, what it is worth, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: u64,
    pub(super) worth: u64,
    pub(super) count: u64,
}

impl Load {
    /// How many of them fit.
    pub(super) fn fitting(&self, room: u64) -> u64 {
        room.checked_div(self.bytes).map_or(self.count, |fit| fit.min(self.count))
    }
}

/// No choice of `loads` that takes `room` or less is worth more. Exact for one or two different
/// loads; beyond that one of them may be cut, which can only add worth.
pub(super) fn most(loads: impl Iterator<Item = Load>, room: u64) -> u64 {
    let mut kinds: Vec<Load> = Vec::new();
    for load in loads.filter(|load| load.worth > 0 && load.count > 0) {
        match kinds.iter_mut().find(|kind| (kind.bytes, kind.worth) == (load.bytes, load.worth)) {
            Some(kind) => kind.count += load.count,
            None => kinds.push(load),
        }
    }
    match &mut kinds[..] {
        [] => 0,
        [one] => one.fitting(room) * one.worth,
        [one, other] => most_of_two(one, other, room),
        many => most_with_a_cut(many, room),
    }
}

fn most_of_two(one: &Load, other: &Load, room: u64) -> u64 {
    // The fewer of the two are counted through.
    let (few, many) =
        if one.fitting(room) <= other.fitting(room) { (one, other) } else { (other, one) };
    let worth =
        |count: u64| count * few.worth + many.fitting(room - count * few.bytes) * many.worth;
    (0..=few.fitting(room)).map(worth).max().unwrap_or(0)
}

fn most_with_a_cut(kinds: &mut [Load], mut room: u64) -> u64 {
    let density = |one: &Load, other: &Load| {
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
    fn exhaustive(loads: &[Load], room: u64) -> u64 {
        let Some((first, rest)) = loads.split_first() else { return 0 };
        let counts = (0..=first.count).filter(|count| count * first.bytes <= room);
        let worth = |count| count * first.worth + exhaustive(rest, room - count * first.bytes);
        counts.map(worth).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_is_worth_more(
            loads in prop::collection::vec((0..6u64, 0..9u64, 0..5u64), 0..5),
            room in 0..30u64,
        ) {
            let loads: Vec<Load> = loads
                .into_iter()
                .map(|(bytes, worth, count)| Load { bytes, worth, count })
                .collect();
            let found = most(loads.iter().copied(), room);
            let best = exhaustive(&loads, room);
            prop_assert!(found >= best);
            if loads.len() <= 2 {
                prop_assert_eq!(found, best);
            }
        }
    }
}
