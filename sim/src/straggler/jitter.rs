//! Random factors: how much longer or shorter than usual one pass or hop takes.

use std::sync::Arc;

use pipeline::Nanos;
use rand::RngExt;
use rand::distr::OpenClosed01;
use rand_xoshiro::SplitMix64;

use super::error::StragglerError;
use super::factor;
use super::normal::standard_normal;

/// A distribution of factors. Its mean is 1, so that noise makes a pass neither longer nor shorter
/// on average; only [`Jitter::factors`] keeps the mean of what was measured.
///
/// Exponentials, logarithms and roots are those of `libm`, not of the system, so that a seed gives
/// the same factors on every machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Jitter(Law);

#[derive(Clone, PartialEq, Debug)]
enum Law {
    Normal { spread: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Pareto { tail: f64, least: f64 },
    Samples(Arc<[f64]>),
}

/// The widest normal: cut at almost three standard deviations.
const WIDEST_NORMAL: f64 = 0.34;

impl Jitter {
    /// Normal around 1 with standard deviation `spread`, cut at 0 and at 2: the cuts lie
    /// symmetrically, so the mean stays 1. The spread left after the cut is less by 2 % at most.
    ///
    /// # Errors
    /// If `spread` is not from 0 to 0.34.
    pub fn normal(spread: f64) -> Result<Self, StragglerError> {
        let legal = (0.0..=WIDEST_NORMAL).contains(&spread);
        legal.then_some(Self(Law::Normal { spread })).ok_or(StragglerError::NormalSpread(spread))
    }

    /// Log-normal with mean 1 and coefficient of variation `spread`: the factor is exp(mu + sigma Z)
    /// with sigma^2 = ln(1 + spread^2) and mu = -sigma^2/2 (Johnson, Kotz and Balakrishnan,
    /// *Continuous Univariate Distributions* 1, chapter 14).
    ///
    /// # Errors
    /// If `spread` is not from 0 to 10.
    pub fn log_normal(spread: f64) -> Result<Self, StragglerError> {
        if !(0.0..=10.0).contains(&spread) {
            return Err(StragglerError::LogNormalSpread(spread));
        }
        let variance = libm::log1p(spread * spread);
        Ok(Self(Law::LogNormal { mu: -variance / 2.0, sigma: libm::sqrt(variance) }))
    }

    /// Pareto with tail index `tail`: the factor exceeds x with probability (least/x)^tail, where
    /// least = (tail-1)/tail gives mean 1 (the same source, chapter 20). Its variance is infinite
    /// for a tail of 2 and below.
    ///
    /// # Errors
    /// If `tail` is not above 1, where there is no mean, or above 1000.
    pub fn pareto(tail: f64) -> Result<Self, StragglerError> {
        let legal = tail > 1.0 && tail <= 1000.0;
        let law = Law::Pareto { tail, least: (tail - 1.0) / tail };
        legal.then_some(Self(law)).ok_or(StragglerError::ParetoTail(tail))
    }

    /// One of `samples`, each as likely as the others. Their mean is kept: factors that were
    /// measured against a nominal time may well have another mean than 1.
    ///
    /// # Errors
    /// Without samples, or with one that is not a factor.
    pub fn factors(samples: Vec<f64>) -> Result<Self, StragglerError> {
        if samples.is_empty() {
            return Err(StragglerError::NoSamples);
        }
        samples.iter().try_for_each(|&sample| factor(sample).map(drop))?;
        Ok(Self(Law::Samples(samples.into())))
    }

    /// One of `samples` divided by their mean.
    ///
    /// # Errors
    /// Without samples, or with one that is zero or far from the others.
    #[allow(clippy::cast_precision_loss)]
    pub fn durations(samples: &[Nanos]) -> Result<Self, StragglerError> {
        let sum: u128 = samples.iter().map(|sample| u128::from(sample.0)).sum();
        let mean = sum as f64 / samples.len().max(1) as f64;
        Self::factors(samples.iter().map(|sample| sample.0 as f64 / mean).collect())
    }

    /// The mean of the factors that are drawn, within a millionth; nothing for a Pareto law of so heavy a
    /// tail that numbers of 53 bits miss more than that of its mean.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self) -> Option<f64> {
        match &self.0 {
            Law::Normal { .. } | Law::LogNormal { .. } => Some(1.0),
            // The part of the mean beyond the quantile 1 - u is u^(1 - 1/tail): of 2^-53 at most 2^-26.
            Law::Pareto { tail, .. } => (*tail >= 2.0).then_some(1.0),
            Law::Samples(samples) => Some(samples.iter().sum::<f64>() / samples.len() as f64),
        }
    }

    /// A factor that none of those drawn is below, 0 if they come as close to it as can be.
    #[must_use]
    pub fn least(&self) -> f64 {
        match &self.0 {
            Law::Normal { .. } | Law::LogNormal { .. } => 0.0,
            Law::Pareto { least, .. } => *least,
            Law::Samples(samples) => samples.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }

    /// Draws a factor.
    pub(super) fn draw(&self, rng: &mut SplitMix64) -> f64 {
        match self {
            Self(Law::Normal { spread }) => loop {
                let drawn = 1.0 + spread * standard_normal(rng);
                if drawn > 0.0 && drawn < 2.0 {
                    return drawn;
                }
            },
            Self(Law::LogNormal { mu, sigma }) => libm::exp(mu + sigma * standard_normal(rng)),
            Self(Law::Pareto { tail, least }) => {
                let uniform: f64 = rng.sample(OpenClosed01);
                least * libm::exp(-libm::log(uniform) / tail)
            }
            Self(Law::Samples(samples)) => samples[rng.random_range(0..samples.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const DRAWS: u32 = 200_000;

    fn draws(jitter: &Jitter) -> Vec<f64> {
        let mut rng = SplitMix64::seed_from_u64(7);
        let mut all: Vec<f64> = (0..DRAWS).map(|_| jitter.draw(&mut rng)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / f64::from(DRAWS)
    }

    fn spread(all: &[f64]) -> f64 {
        let mean = mean(all);
        (all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / f64::from(DRAWS)).sqrt()
    }

    /// The share of `all` below `x` must be `share`: within five standard errors,
    /// 5 sqrt(q (1-q) / n) <= 5 x 0.5 / sqrt(200 000) = 0.0056.
    fn assert_below(all: &[f64], x: f64, share: f64) {
        let below = all.partition_point(|&one| one < x);
        let below = f64::from(u32::try_from(below).unwrap()) / f64::from(DRAWS);
        assert!((below - share).abs() < 0.0056, "{below} below {x}, not {share}");
    }

    #[test]
    fn normal() {
        let all = draws(&Jitter::normal(0.2).unwrap());
        // Five standard errors of the mean, 5 x 0.2 / sqrt(200 000).
        assert!((mean(&all) - 1.0).abs() < 0.0023);
        // That of a standard deviation is s / sqrt(2n): 5 x 0.2 / sqrt(400 000).
        assert!((spread(&all) - 0.2).abs() < 0.0016);
        for (z, share) in [(-1.644_85, 0.05), (0.0, 0.5), (1.0, 0.841_34), (1.644_85, 0.95)] {
            assert_below(&all, 1.0 + 0.2 * z, share);
        }
        let widest = draws(&Jitter::normal(0.34).unwrap());
        assert!(widest[0] > 0.0 && *widest.last().unwrap() < 2.0);
        // The variance of a normal cut at +-a is 1 - 2 a phi(a) / (2 Phi(a) - 1); a = 1/0.34 gives
        // 0.969, hence a spread of 0.34 sqrt(0.969) = 0.3346.
        assert!((spread(&widest) - 0.3346).abs() < 0.0027);
    }

    #[test]
    fn log_normal() {
        let all = draws(&Jitter::log_normal(0.5).unwrap());
        assert!((mean(&all) - 1.0).abs() < 5.0 * 0.5 / f64::from(DRAWS).sqrt());
        // sigma^2 = ln 1.25 = 0.22314: the median is exp(-0.11157), 95 % lie below
        // exp(-0.11157 + 1.64485 x 0.47238).
        assert_below(&all, (-0.111_57_f64).exp(), 0.5);
        assert_below(&all, (-0.111_57_f64 + 1.644_85 * 0.472_38).exp(), 0.95);
    }

    #[test]
    fn pareto() {
        let all = draws(&Jitter::pareto(4.0).unwrap());
        // The variance is least^2 tail / ((tail-1)^2 (tail-2)); with least = (tail-1)/tail that is
        // 1 / (tail (tail-2)) = 1/8.
        assert!((mean(&all) - 1.0).abs() < 5.0 * 0.125_f64.sqrt() / f64::from(DRAWS).sqrt());
        assert!(all[0] >= 0.75);
        // Quantile q is 0.75 (1-q)^(-1/4).
        for q in [0.1, 0.5, 0.9, 0.99] {
            assert_below(&all, 0.75 * (1.0_f64 - q).powf(-0.25), q);
        }
    }

    #[test]
    fn samples() {
        let all = draws(&Jitter::factors(vec![1.0, 1.0, 1.0, 3.0]).unwrap());
        assert_below(&all, 2.0, 0.75);
        let all = draws(&Jitter::durations(&[Nanos(10), Nanos(30)]).unwrap());
        assert_eq!((all[0], *all.last().unwrap()), (0.5, 1.5));
        assert_below(&all, 1.0, 0.5);
    }

    #[test]
    fn means_and_least_factors_are_those_drawn() {
        let samples = Jitter::factors(vec![0.5, 1.0, 3.0]).unwrap();
        let laws = [
            (Jitter::normal(0.3).unwrap(), 0.0),
            (Jitter::log_normal(0.3).unwrap(), 0.0),
            (Jitter::pareto(4.0).unwrap(), 0.75),
            (samples, 0.5),
        ];
        for (jitter, least) in laws {
            let all = draws(&jitter);
            // Five standard errors.
            let margin = 5.0 * spread(&all) / f64::from(DRAWS).sqrt();
            assert!((mean(&all) - jitter.mean().unwrap()).abs() < margin);
            assert!(jitter.least() == least && all[0] >= least * (1.0 - 1e-9));
        }
        assert_eq!(Jitter::pareto(1.5).unwrap().mean(), None);
    }

    #[test]
    fn hostile_parameters_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1e300] {
            assert!(Jitter::normal(bad).is_err());
            assert!(Jitter::log_normal(bad).is_err());
            assert!(Jitter::pareto(bad).is_err());
            assert!(Jitter::factors(vec![1.0, bad]).is_err());
        }
        assert!(Jitter::pareto(1.0).is_err() && Jitter::pareto(0.0).is_err());
        assert!(Jitter::factors(vec![0.0]).is_err());
        assert_eq!(Jitter::factors(vec![]), Err(StragglerError::NoSamples));
        assert_eq!(Jitter::durations(&[]), Err(StragglerError::NoSamples));
        assert!(Jitter::durations(&[Nanos(0), Nanos(0)]).is_err());
    }

    #[test]
    fn extreme_but_legal_parameters_give_positive_factors() {
        for jitter in [
            Jitter::log_normal(10.0),
            Jitter::pareto(1.000_000_1),
            Jitter::pareto(1000.0),
            Jitter::normal(0.0),
        ] {
            assert!(draws(&jitter.unwrap()).iter().all(|one| *one > 0.0 && one.is_finite()));
        }
    }
}
