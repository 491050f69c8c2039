//! Random factors: how much longer or shorter than usual one pass or hop takes.

use std::sync::Arc;

use pipeline::Nanos;

use super::error::StragglerError;
use super::factor;

/// A distribution of factors. Its mean is 1, so that noise makes a pass neither longer nor shorter
/// on average; only [`Jitter::factors`] keeps the mean of what was measured.
///
/// Factors are drawn by a table of quantiles, which has the same bits on every machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Jitter(Law);

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Law {
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

    /// The mean of the factors that are drawn; nothing for a Pareto law of so heavy a tail that numbers of 53 bits
    /// miss more than a millionth of its mean.
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

    /// A factor that none of those drawn is below by more than a millionth, 0 if they come as close to it as can be.
    #[must_use]
    pub fn least(&self) -> f64 {
        match &self.0 {
            Law::Normal { .. } | Law::LogNormal { .. } => 0.0,
            Law::Pareto { least, .. } => *least,
            Law::Samples(samples) => samples.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }

    pub(super) const fn law(&self) -> &Law {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
