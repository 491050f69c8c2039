//! Parts of a log in which a step takes another time each: before and after a restart, a failure, or other data.
//!
//! A step changes between two iterations if the medians of the iterations before and behind, five to ten on each side,
//! differ by more than `NEAR`, and by more than `FAR` times the distance from their medians within which four in
//! five of either side lie. Slow growth is not a change by that rule, nor are fewer slow iterations than a fifth of a side.

use super::steady::{NEAR, Timed, median, middle};

/// Distances of four in five iterations beyond which two medians are apart: more than steady growth, of 2.5, has.
const FAR: f64 = 4.0;

/// A part of a log.
#[derive(Clone, PartialEq, Debug)]
pub struct Regime {
    /// The place of its first iteration among all of the log.
    pub start: usize,
    /// The numbers of its first and of its last iteration.
    pub numbers: [u64; 2],
    /// The median of its steps, in seconds.
    pub step: f64,
}

impl Regime {
    pub(super) fn in_words(&self) -> String {
        let Self { numbers: [from, to], step, .. } = self;
        format!("{step:.3} s in iterations {from} to {to}")
    }
}

/// The regimes of those of `steps` at the places `own`, in their order.
pub(super) fn regimes(steps: &[Timed], own: &[usize]) -> Vec<Regime> {
    let times: Vec<f64> = own.iter().map(|&at| steps[at].seconds).collect();
    let mut ends = changes(&times);
    ends.push(times.len());
    let number = |at: usize| steps[own[at]].number.unwrap_or(own[at] as u64 + 1);
    let mut from = 0;
    let regime = |end: usize| {
        let (start, numbers) = (*own.get(from)?, [number(from), number(end - 1)]);
        let step = median(&times[from..end])?;
        from = end;
        Some(Regime { start, numbers, step })
    };
    ends.into_iter().map_while(regime).collect()
}

/// The places at which `times` change.
fn changes(times: &[f64]) -> Vec<usize> {
    let width = (times.len() / 6).clamp(5, 10);
    let mut all = Vec::new();
    // Of neighbouring places, the one whose sides lie closest to their medians.
    let mut best: Option<(usize, f64)> = None;
    for at in width..=times.len().saturating_sub(width) {
        let cost = change(&times[at - width..at], &times[at..at + width]);
        match (cost, best) {
            (Some(cost), Some((_, least))) if cost >= least => {}
            (Some(cost), _) => best = Some((at, cost)),
            (None, _) => all.extend(best.take().map(|(at, _)| at)),
        }
    }
    all.extend(best.map(|(at, _)| at));
    all
}

/// The sum of distances from the medians of both sides, if these are apart.
fn change(before: &[f64], behind: &[f64]) -> Option<f64> {
    let [(left, near_left), (right, near_right)] = [middle(before)?, middle(behind)?];
    let least = (FAR * near_left.max(near_right)).max(NEAR * left.min(right));
    let cost =
        |times: &[f64], middle: f64| times.iter().map(|one| (one - middle).abs()).sum::<f64>();
    ((left - right).abs() > least).then(|| cost(before, left) + cost(behind, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around `middle`, off by at most `share` of it, of a fixed sequence.
    fn noisy(middle: f64, share: f64, count: usize) -> Vec<f64> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1_u32 << 23) - 1.0
        };
        (0..count).map(|_| middle * (1.0 + share * next())).collect()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        for (before, behind) in [(15, 15), (5, 6), (40, 12), (300, 10), (10, 300)] {
            for noise in [0.0, 0.02, 0.05] {
                let times = [noisy(20.0, noise, before), noisy(35.0, noise, behind)].concat();
                assert_eq!(changes(&times), [before], "{before} {behind} {noise}");
            }
        }
        let there_and_back = [noisy(1.0, 0.01, 30), noisy(1.2, 0.01, 12), noisy(1.0, 0.01, 30)];
        assert_eq!(changes(&there_and_back.concat()), [30, 42]);
    }

    #[test]
    fn noise_growth_and_single_steps_are_no_change() {
        for noise in [0.001, 0.02, 0.05, 0.1, 0.2] {
            assert_eq!(changes(&noisy(1.0, noise, 3_000)), [0; 0], "{noise}");
        }
        for (count, growth) in [(12, 0.05), (39, 0.02), (40, 0.1), (300, 0.01)] {
            let times: Vec<f64> = (0..count).map(|at| 1.0 + growth * f64::from(at)).collect();
            assert_eq!(changes(&times), [0; 0], "{count} {growth}");
        }
        let slow = |every: usize| (0..60).map(move |at| if at % every < 2 { 3.0 } else { 1.0 });
        assert_eq!(changes(&slow(30).collect::<Vec<_>>()), [0; 0]);
        let alternating: Vec<f64> = (0..40).map(|at| [0.8, 1.6][at % 2]).collect();
        assert_eq!(changes(&alternating), [0; 0]);
        assert_eq!(changes(&[1.0; 4]), [0; 0]);
    }
}
