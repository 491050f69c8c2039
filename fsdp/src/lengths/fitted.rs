//! Lengths of a log-normal law that have the mean and the longest that a run reports.

use rand::RngExt;
use rand_xoshiro::SplitMix64;
use sim::straggler::normal_quantile;

use super::{Law, Lengths, whole};
use crate::error::{FsdpError, count};
use crate::packing::MAX_LENGTH;

/// The largest sigma of a law that is tried.
const WIDEST: f64 = 10.0;
/// Quantiles by which a law is fitted.
const FITTED: u64 = 1 << 13;
/// Halvings of the range in which the parameter lies.
const HALVINGS: u32 = 60;

/// The lengths of the samples of a step, in tokens, as a run reports them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    pub mean: f64,
    /// The longest sample, and the share of samples of just that length where it is a limit, else 0; `None` where it
    /// is not known.
    pub longest: Option<(u32, f64)>,
}

impl Lengths {
    /// `samples` lengths with the mean and the longest of `summary`: the quantiles of a log-normal law, whose sigma
    /// follows from both; without a longest it is `sigma`, and lengths are cut to `most`. Every draw has all of them, in
    /// another order. The longest sample that there may be is `most`.
    pub fn of_summary(
        summary: Summary,
        sigma: f64,
        most: u32,
        samples: u64,
    ) -> Result<Self, FsdpError> {
        count("the longest sample in tokens", u64::from(most), 1, MAX_LENGTH)?;
        count("the number of lengths", samples, 1, 1 << 20)?;
        let longest = summary.longest.map_or(most, |(longest, _)| longest.clamp(1, most));
        let top = f64::from(longest);
        if !(1.0..=top).contains(&summary.mean) {
            let (what, range) = ("the mean of lengths", "from 1 to the longest");
            return Err(FsdpError::Number { what, given: summary.mean, range });
        }
        // The probability from which on samples are the longest.
        let share = summary.longest.map_or(0.0, |(_, share)| share.clamp(0.0, 1.0));
        let highest = normal_quantile((1.0 - share).min(centre(samples - 1, samples)).max(1e-9));
        let length = |quantile: f64, parameter: f64| match summary.longest {
            Some(_) => top * libm::exp(parameter * (quantile - highest).min(0.0)),
            None => (parameter * libm::exp(sigma * quantile)).min(top),
        };
        let parts = samples.min(FITTED);
        let quantiles: Vec<f64> = (0..parts).map(|at| normal_quantile(centre(at, parts))).collect();
        let mean = |parameter: f64| {
            let sum: f64 = quantiles.iter().map(|&quantile| length(quantile, parameter)).sum();
            sum / f64::from(u32::try_from(parts).unwrap_or(u32::MAX))
        };
        // The mean falls with sigma, and grows with the median.
        let falls = summary.longest.is_some();
        let [mut low, mut high] = [0.0, if falls { WIDEST } else { top }];
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            match (mean(middle) > summary.mean) == falls {
                true => low = middle,
                false => high = middle,
            }
        }
        let one = |at| whole(length(normal_quantile(centre(at, samples)), low), 1, longest);
        Ok(Self(Law::Shuffled { lengths: (0..samples).map(one).collect(), most }))
    }
}

/// The middle of part `at` of `parts` equal parts of all samples.
#[allow(clippy::cast_precision_loss)] // Some 10^6.
fn centre(at: u64, parts: u64) -> f64 {
    (at as f64 + 0.5) / parts as f64
}

/// The first `samples` of `lengths` in a random order, which begins anew behind the last (Fisher and Yates, 1938).
pub(super) fn shuffled(lengths: &[u32], rng: &mut SplitMix64, samples: usize) -> Vec<u32> {
    let mut all = lengths.to_vec();
    for at in (1..all.len()).rev() {
        all.swap(at, rng.random_range(0..=at));
    }
    all.into_iter().cycle().take(samples).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mean: f64, longest: Option<(u32, f64)>, samples: usize) -> Vec<u32> {
        let summary = Summary { mean, longest };
        let lengths = Lengths::of_summary(summary, 0.9, 4_096, samples as u64).unwrap();
        assert_eq!(lengths.longest(), 4_096);
        lengths.draw(3, 1, samples)
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean(lengths: &[u32]) -> f64 {
        lengths.iter().map(|&one| f64::from(one)).sum::<f64>() / lengths.len() as f64
    }

    #[test]
    fn mean_longest_and_share_are_those_of_the_run() {
        for (own, longest) in [
            (825.0, Some((2_497, 0.0))),
            (325.0, Some((1_024, 0.004))),
            (1_267.0, Some((3_072, 0.2))),
            (1_000.0, Some((1_000, 1.0))),
            (700.0, None),
        ] {
            let lengths = drawn(own, longest, 1_152);
            assert!((mean(&lengths) / own - 1.0).abs() < 2e-3, "{own}: {}", mean(&lengths));
            let Some((longest, share)) = longest else { continue };
            assert_eq!(lengths.iter().max(), Some(&longest));
            let at_most = lengths.iter().filter(|&&one| one == longest).count();
            #[allow(clippy::cast_precision_loss)]
            let own_share = at_most as f64 / 1_152.0;
            assert!((own_share - share).abs() < 3e-3, "{own_share} {share}");
        }
    }

    #[test]
    fn draws_have_all_lengths_in_another_order() {
        let summary = Summary { mean: 500.0, longest: Some((2_000, 0.01)) };
        let lengths = Lengths::of_summary(summary, 0.9, 4_096, 100).unwrap();
        let [mut one, mut other] = [0, 1].map(|step| lengths.draw(5, step, 100));
        assert_ne!(one, other);
        assert_eq!(lengths.draw(5, 0, 150)[..100], one);
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other);
    }

    #[test]
    fn means_that_cannot_be_are_refused() {
        for mean in [0.0, f64::NAN, 3_000.0] {
            let summary = Summary { mean, longest: Some((2_000, 0.0)) };
            assert!(Lengths::of_summary(summary, 0.9, 4_096, 10).is_err(), "{mean}");
        }
        let summary = Summary { mean: 5.0, longest: None };
        assert!(Lengths::of_summary(summary, 0.9, 4_096, 0).is_err());
    }
}
