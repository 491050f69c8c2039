//! How much fits.

use std::collections::BTreeMap;

/// `count` things of one size and worth.
#[derive(Clone, Debug)]
pub(crate) struct Pile {
    pub(crate) size: i128,
    pub(crate) worth: i128,
    pub(crate) count: i128,
}

/// At least what the best choice of things that fit `room` is worth. Exact with one or two sorts;
/// with more, the least value of the dual of the choice with cuts, which is no less than it.
pub(crate) fn best_fit(piles: Vec<Pile>, room: i128) -> i128 {
    let mut sorts: BTreeMap<(i128, i128), i128> = BTreeMap::new();
    for pile in piles.into_iter().filter(|pile| pile.worth > 0 && pile.count > 0) {
        *sorts.entry((pile.size, pile.worth)).or_default() += pile.count;
    }
    let room = room.max(0);
    let sorts: Vec<Pile> =
        sorts.into_iter().map(|((size, worth), count)| Pile { size, worth, count }).collect();
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

fn fitting(pile: &Pile, room: i128) -> i128 {
    if pile.size == 0 { pile.count } else { (room / pile.size).min(pile.count) }
}

/// For any price of room, the best choice is worth no more than the room's price and what each
/// thing is worth beyond its own. The cheapest prices are those at which a sort is worth just its
/// size, and none.
fn dual(sorts: &[Pile], room: i128) -> i128 {
    let worth_at = |worth: i128, size: i128| {
        let beyond = |pile: &Pile| (pile.worth * size - worth * pile.size).max(0) * pile.count;
        (worth * room + sorts.iter().map(beyond).sum::<i128>()) / size
    };
    let prices = sorts.iter().filter(|pile| pile.size > 0);
    let priced = prices.map(|pile| worth_at(pile.worth, pile.size));
    priced.chain([worth_at(0, 1)]).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The best choice, all tried.
    fn exhaustive(piles: &[Pile], room: i128) -> i128 {
        let Some((first, rest)) = piles.split_first() else { return 0 };
        let counts = (0..=first.count).filter(|count| count * first.size <= room);
        let worth = |count| count * first.worth + exhaustive(rest, room - count * first.size);
        counts.map(worth).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_is_worth_more(
            piles in prop::collection::vec((0..6i128, 0..9i128, 0..5i128), 0..5),
            room in 0..30i128,
        ) {
            let piles: Vec<Pile> = piles
                .into_iter()
                .map(|(size, worth, count)| Pile { size, worth, count })
                .collect();
            let found = best_fit(piles.clone(), room);
            let best = exhaustive(&piles, room);
            prop_assert!(found >= best);
            if piles.len() <= 2 {
                prop_assert_eq!(found, best);
            }
        }
    }
}
