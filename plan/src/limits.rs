//! Activation limits under which orders are made, and the choice of the one that is worth its memory.
//!
//! Limits are shares of p M_B, the same for every device: more memory adds orders and takes none away,
//! so no question has a slower answer with it. Searched orders have the same limits, but which set-ups
//! get one follows from the best plans, so this does not hold for them.

use pipeline::{Limit, LimitUse, Nanos};

use crate::costed::Costed;
use crate::setup::Setup;

/// Limits from 1p on, in millionths of p: each one that fits is tried. Beyond 2p nothing is gained.
const AMPLE: [u64; 4] = [1_000_000, 1_250_000, 1_500_000, 2_000_000];
/// Limits below 1p, the largest first. An order of less memory mostly takes longer; where it does not, it is taken.
const SCARCE: [u64; 6] = [875_000, 750_000, 625_000, 500_000, 375_000, 250_000];
/// The smallest limit.
pub(crate) const LEAST: Limit = Limit::TimesP { millionths: SCARCE[SCARCE.len() - 1] };
/// Inverse of the share of a step that a larger limit must save: greedy orders differ by less by
/// chance.
const WORTH: u128 = 200;

/// Whether the order of `setup` takes a limit.
pub(crate) fn are_tried(setup: &Setup) -> bool {
    setup.searched || matches!(setup.family.about().limit, LimitUse::Shapes { .. })
}

/// The limits from 1p on that fit into memory for `costed`, the smallest first, up to one that allows
/// all microbatches.
pub(crate) fn ample(costed: &Costed) -> impl Iterator<Item = Limit> {
    let all = 1_000_000 * u64::from(costed.shape.microbatches());
    let whole = |share: &u64| share.saturating_mul(costed.setup.pipeline) >= all;
    let tried = AMPLE.iter().position(whole).map_or(AMPLE.len(), |last| last + 1);
    let limits = AMPLE[..tried].iter().map(|&millionths| Limit::TimesP { millionths });
    limits.take_while(|limit| costed.holds(*limit))
}

/// The limits below 1p that fit, the largest first.
pub(crate) fn scarce(costed: &Costed) -> impl Iterator<Item = Limit> {
    let limits = SCARCE.iter().map(|&millionths| Limit::TimesP { millionths });
    limits.filter(|limit| costed.holds(*limit))
}

/// The largest limit up to `most`, or up to 1p where that is less, that fits into the memory for
/// `costed`.
pub(crate) fn largest(costed: &Costed, most: Limit) -> Option<Limit> {
    let of = |millionths: u64| Limit::TimesP { millionths };
    let most = match most {
        Limit::TimesP { millionths } => millionths.max(AMPLE[0]),
        _ => AMPLE[0],
    };
    let all = AMPLE.iter().rev().filter(|own| **own <= most).chain(&SCARCE);
    all.map(|&millionths| of(millionths)).find(|limit| costed.holds(*limit))
}

/// Which of the orders under `limits` with their steps is worth its memory: one of a larger limit than those before takes
/// their place if it is shorter by one part in [`WORTH`], one of a smaller limit if it is not longer.
pub(crate) fn worth(orders: impl IntoIterator<Item = (Option<Limit>, Nanos)>) -> Option<usize> {
    let mut taken: Option<(usize, Option<Limit>, Nanos)> = None;
    for (at, (limit, step)) in orders.into_iter().enumerate() {
        let is_taken = taken.is_none_or(|(_, other, known)| match is_smaller(limit, other) {
            true => step <= known,
            false => saves(step, known),
        });
        if is_taken {
            taken = Some((at, limit, step));
        }
    }
    taken.map(|(at, ..)| at)
}

fn is_smaller(limit: Option<Limit>, other: Option<Limit>) -> bool {
    match (limit, other) {
        (Some(Limit::TimesP { millionths: own }), Some(Limit::TimesP { millionths: other })) => {
            own < other
        }
        _ => false,
    }
}

/// Whether `step` saves enough against `known` to be worth a larger limit.
pub(crate) fn saves(step: Nanos, known: Nanos) -> bool {
    u128::from(step.0) * WORTH < u128::from(known.0) * (WORTH - 1)
}

/// Whether an order with a step of at least `least` can change the choice, where one of `known` is
/// among them.
pub(crate) fn matters(least: Nanos, known: Nanos) -> bool {
    u128::from(least.0) * (WORTH - 1) < u128::from(known.0) * WORTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_for_what_it_saves() {
        let of = |(at, &step): (u64, &u64)| (Some(Limit::times_p(at)), Nanos(step));
        let worth = |steps: &[u64]| worth((1..).zip(steps).map(of));
        assert_eq!(worth(&[]), None);
        assert_eq!(worth(&[1000]), Some(0));
        assert_eq!(worth(&[1000, 996]), Some(0));
        assert_eq!(worth(&[1000, 994]), Some(1));
        // Two small steps are not a large one, but their sum is.
        assert_eq!(worth(&[1000, 996, 993]), Some(2));
        assert_eq!(worth(&[1000, 900, 950, 899]), Some(1));
        // Less memory for the same time or less.
        let shrinking = |steps: &[u64]| super::worth((0..9).rev().zip(steps).map(of));
        assert_eq!(shrinking(&[1000, 1001, 1000, 999, 1002]), Some(3));
    }
}
