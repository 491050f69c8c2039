//! How long the samples are.

mod fitted;

use std::f64::consts::TAU;
use std::sync::Arc;

use rand::distr::OpenClosed01;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

use crate::error::{FsdpError, count};
use crate::packing::MAX_LENGTH;

pub use self::fitted::Summary;

/// A distribution of sample lengths in tokens, or a list of them.
///
/// Exponentials, logarithms and roots are those of `libm`, so that a seed gives the same lengths on
/// every machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Lengths(Law);

#[derive(Clone, PartialEq, Debug)]
enum Law {
    Uniform { least: u32, most: u32 },
    LogNormal { mu: f64, sigma: f64, most: u32 },
    LongTail { least: u32, most: u32, tail: f64 },
    Drawn(Arc<[u32]>),
    InOrder(Arc<[u32]>),
    Shuffled { lengths: Arc<[u32]>, most: u32 },
}

impl Lengths {
    /// From 8000 to 64000 tokens with a long tail of index 1, which is like the lengths of LongAlign.
    pub const LONG_CONTEXT: Self = Self(Law::LongTail { least: 8_000, most: 64_000, tail: 1.0 });

    /// Every length from `least` to `most` is as likely as the others.
    pub fn uniform(least: u32, most: u32) -> Result<Self, FsdpError> {
        range(least, most)?;
        Ok(Self(Law::Uniform { least, most }))
    }

    /// Log-normal: half of the samples are shorter than `median`, and `sigma` is the standard
    /// deviation of the logarithm; what is longer than `most` is cut to `most`.
    pub fn log_normal(median: u32, sigma: f64, most: u32) -> Result<Self, FsdpError> {
        range(median, most)?;
        if !(0.0..=10.0).contains(&sigma) {
            let (what, range) = ("sigma of a log-normal distribution", "from 0 to 10");
            return Err(FsdpError::Number { what, given: sigma, range });
        }
        Ok(Self(Law::LogNormal { mu: libm::log(f64::from(median)), sigma, most }))
    }

    /// A long tail, as the lengths of long-context data sets have it: Pareto between `least` and
    /// `most` with tail index `tail` (Johnson, Kotz and Balakrishnan, *Continuous Univariate
    /// Distributions* 1, chapter 20): the smaller the index, the more long samples.
    pub fn long_tail(least: u32, most: u32, tail: f64) -> Result<Self, FsdpError> {
        range(least, most)?;
        if !(0.01..=100.0).contains(&tail) {
            let (what, range) = ("the index of a long tail", "from 0.01 to 100");
            return Err(FsdpError::Number { what, given: tail, range });
        }
        Ok(Self(Law::LongTail { least, most, tail }))
    }

    /// One of `lengths`, each as likely as the others.
    pub fn drawn_from(lengths: Vec<u32>) -> Result<Self, FsdpError> {
        listed(lengths).map(Law::Drawn).map(Self)
    }

    /// `lengths` one after the other, minibatch after minibatch, and then from the start again.
    pub fn in_order(lengths: Vec<u32>) -> Result<Self, FsdpError> {
        listed(lengths).map(Law::InOrder).map(Self)
    }

    /// The longest sample there may be.
    #[must_use]
    pub fn longest(&self) -> u32 {
        match &self.0 {
            Law::Uniform { most, .. }
            | Law::LogNormal { most, .. }
            | Law::LongTail { most, .. }
            | Law::Shuffled { most, .. } => *most,
            Law::Drawn(lengths) | Law::InOrder(lengths) => {
                lengths.iter().copied().max().unwrap_or(1)
            }
        }
    }

    /// The lengths of the `samples` of minibatch number `minibatch`. More samples begin with the
    /// same lengths.
    #[must_use]
    pub fn draw(&self, seed: u64, minibatch: u64, samples: usize) -> Vec<u32> {
        if let Law::InOrder(lengths) = &self.0 {
            let all = lengths.len();
            let before = u128::from(minibatch) * samples as u128 % all as u128;
            let before = usize::try_from(before).unwrap_or(0);
            return (0..samples).map(|sample| lengths[(before + sample) % all]).collect();
        }
        let mut rng = stream(seed, minibatch);
        if let Law::Shuffled { lengths, .. } = &self.0 {
            return fitted::shuffled(lengths, &mut rng, samples);
        }
        (0..samples).map(|_| self.one(&mut rng)).collect()
    }

    fn one(&self, rng: &mut SplitMix64) -> u32 {
        match &self.0 {
            Law::Uniform { least, most } => rng.random_range(*least..=*most),
            Law::LogNormal { mu, sigma, most } => {
                // Box and Muller, 1958.
                let [radius, angle]: [f64; 2] = [0; 2].map(|_| rng.sample(OpenClosed01));
                let normal = libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle);
                whole(libm::exp(mu + sigma * normal), 1, *most)
            }
            Law::LongTail { least, most, tail } => {
                let uniform: f64 = rng.sample(OpenClosed01);
                let [from, to] = [*least, *most].map(f64::from);
                let beyond = libm::pow(from / to, *tail);
                let left = 1.0 - uniform * (1.0 - beyond);
                whole(from * libm::pow(left, -1.0 / tail), *least, *most)
            }
            Law::Drawn(lengths) | Law::InOrder(lengths) | Law::Shuffled { lengths, .. } => {
                lengths[rng.random_range(0..lengths.len())]
            }
        }
    }
}

/// The random numbers of one minibatch.
fn stream(seed: u64, minibatch: u64) -> SplitMix64 {
    let of_seed = SplitMix64::seed_from_u64(seed).next_u64();
    let of_minibatch = SplitMix64::seed_from_u64(of_seed ^ minibatch).next_u64();
    SplitMix64::seed_from_u64(of_minibatch)
}

/// The nearest whole number from `least` to `most`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped before.
fn whole(length: f64, least: u32, most: u32) -> u32 {
    length.round().clamp(f64::from(least), f64::from(most)) as u32
}

fn range(least: u32, most: u32) -> Result<(), FsdpError> {
    count("the longest sample in tokens", u64::from(most), 1, MAX_LENGTH)?;
    count("the shortest sample in tokens, or the median,", u64::from(least), 1, u64::from(most))?;
    Ok(())
}

fn listed(lengths: Vec<u32>) -> Result<Arc<[u32]>, FsdpError> {
    count("the number of lengths", lengths.len() as u64, 1, 1 << 26)?;
    for &length in &lengths {
        count("the tokens of a sample", u64::from(length), 1, MAX_LENGTH)?;
    }
    Ok(lengths.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Lengths; 4] {
        [
            Lengths::uniform(10, 1_000).unwrap(),
            Lengths::log_normal(4_000, 1.0, 64_000).unwrap(),
            Lengths::long_tail(1_000, 64_000, 1.0).unwrap(),
            Lengths::drawn_from(vec![3, 5, 7]).unwrap(),
        ]
    }

    #[test]
    fn a_seed_and_a_minibatch_have_one_draw() {
        for lengths in all() {
            let drawn = lengths.draw(1, 2, 100);
            assert_eq!(drawn, lengths.draw(1, 2, 200)[..100]);
            assert_ne!(drawn, lengths.draw(1, 3, 100));
            assert_ne!(drawn, lengths.draw(2, 2, 100));
            assert!(drawn.iter().all(|&length| (1..=lengths.longest()).contains(&length)));
        }
    }

    /// The share of samples shorter than `than` among many.
    #[allow(clippy::cast_precision_loss)]
    fn shorter(lengths: &Lengths, than: u32) -> f64 {
        let drawn = lengths.draw(7, 0, 100_000);
        drawn.iter().filter(|&&length| length < than).count() as f64 / 100_000.0
    }

    #[test]
    fn quantiles_are_those_of_the_formulas() {
        let [uniform, log_normal, long_tail, _] = all();
        assert!((shorter(&uniform, 505) - 0.5).abs() < 0.01);
        assert!((shorter(&log_normal, 4_000) - 0.5).abs() < 0.01);
        // One standard deviation above the median: e times as long.
        assert!((shorter(&log_normal, 10_873) - 0.841).abs() < 0.01);
        // P(X < x) = (1 - L/x) / (1 - L/H) for a tail index of 1.
        assert!((shorter(&long_tail, 4_000) - 0.75 / (1.0 - 1.0 / 64.0)).abs() < 0.01);
    }

    #[test]
    fn a_list_in_order_begins_anew() {
        let list = Lengths::in_order(vec![1, 2, 3]).unwrap();
        assert_eq!([list.draw(0, 0, 2), list.draw(9, 1, 2)], [[1, 2], [3, 1]]);
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert!(Lengths::uniform(0, 5).is_err() && Lengths::uniform(6, 5).is_err());
        assert!(Lengths::uniform(1, u32::MAX).is_err());
        assert!(Lengths::log_normal(10, f64::NAN, 20).is_err());
        assert!(Lengths::long_tail(10, 20, -1.0).is_err());
        assert!(Lengths::drawn_from(Vec::new()).is_err());
        assert!(Lengths::in_order(vec![1, 0]).is_err());
    }
}
