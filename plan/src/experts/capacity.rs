//! Capacity of experts: rows that an expert takes, and rows that are dropped or padded.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::model::{Experts, number};

/// The most tokens that an expert takes of each device, as Megatron-LM has it
/// (`--moe-expert-capacity-factor`): those over it are dropped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Capacity factor: rows of an expert over those with tokens spread evenly.
    pub factor: f64,
    /// Whether each expert gets so many rows however few choose it
    /// (`--moe-pad-expert-input-to-capacity`).
    pub padded: bool,
}

impl Capacity {
    /// Rows that an expert takes of a device with `tokens`, of which none comes twice.
    pub(super) fn rows(self, experts: Experts, tokens: f64) -> f64 {
        let even = tokens * number(experts.top_k) / number(experts.count);
        (even * self.factor).ceil().min(tokens)
    }
}

/// Rows that an expert gets of the tokens of one device, each of which chooses it or not.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Moments {
    /// Rows that are kept, in the mean.
    pub(super) kept: f64,
    /// The variance of how many choose it.
    pub(super) chosen: f64,
    /// The covariance of those that choose it and those that are kept.
    pub(super) both: f64,
    /// The variance of those that are kept.
    pub(super) spread: f64,
}

impl Moments {
    /// Moments of an expert that a `share` of `tokens` chooses and that takes at most `most`: a normal
    /// distribution, cut off at `most`.
    pub(super) fn of(share: f64, tokens: f64, most: Option<f64>) -> Self {
        let (mean, chosen) = (tokens * share, tokens * share * (1.0 - share).max(0.0));
        let deviation = chosen.sqrt();
        let all = Self { kept: mean, chosen, both: chosen, spread: chosen };
        let Some(most) = most else { return all };
        if deviation <= 0.0 {
            return Self { kept: mean.min(most), ..Self::default() };
        }
        let above = (most - mean) / deviation;
        let density = libm::exp(-above * above / 2.0) / (2.0 * PI).sqrt();
        let below = libm::erfc(-above * FRAC_1_SQRT_2) / 2.0;
        // Of the normal z, with u = min(z, above): the means of u and of its square.
        let first = above * (1.0 - below) - density;
        let second = below - above * density + above * above * (1.0 - below);
        Self {
            kept: mean + deviation * first,
            chosen,
            both: chosen * below,
            spread: chosen * (second - first * first).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::SplitMix64;

    use super::*;

    /// 400 tokens that choose an expert once in eight times, which takes 50, or more or fewer.
    #[test]
    fn moments_are_those_of_tokens_that_are_counted() {
        let mut chance = SplitMix64::seed_from_u64(3);
        let draws = 20_000;
        let chosen: Vec<f64> = (0..draws)
            .map(|_| number((0..400).filter(|_| chance.random_bool(0.125)).count() as u64))
            .collect();
        for most in [40.0, 47.0, 50.0, 55.0, 80.0] {
            let kept: Vec<f64> = chosen.iter().map(|rows| rows.min(most)).collect();
            let mean = |all: &[f64]| all.iter().sum::<f64>() / f64::from(draws);
            let covariance = |a: &[f64], b: &[f64]| {
                let both: Vec<f64> = a.iter().zip(b).map(|(a, b)| a * b).collect();
                mean(&both) - mean(a) * mean(b)
            };
            let own = Moments::of(0.125, 400.0, Some(most));
            assert!((own.kept - mean(&kept)).abs() < 0.15, "{most}: {own:?} {}", mean(&kept));
            for (own, counted) in
                [(own.both, covariance(&kept, &chosen)), (own.spread, covariance(&kept, &kept))]
            {
                assert!((own - counted).abs() < 2.0, "{most}: {own} {counted}");
            }
        }
        // A capacity that never fills changes nothing.
        let [free, ample] = [None, Some(400.0)].map(|most| Moments::of(0.125, 400.0, most));
        assert!((free.spread - ample.spread).abs() < 1e-9 && (free.kept - ample.kept).abs() < 1e-9);
        assert_eq!(Moments::of(1.0, 400.0, Some(50.0)).kept, 50.0);
    }

    #[test]
    fn a_capacity_is_whole_rows() {
        let experts = Experts { count: 8, top_k: 2, shared: 0 };
        let of = |factor| Capacity { factor, padded: false }.rows(experts, 100.0);
        assert_eq!([of(1.0), of(1.01), of(4.0), of(9.0)], [25.0, 26.0, 100.0, 100.0]);
    }
}
