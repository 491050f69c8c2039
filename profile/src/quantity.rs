//! A measured time.

use pipeline::Nanos;

use crate::statistics::{Summary, Verdict};

/// A time that was measured again and again, with all samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantity {
    samples: Vec<u64>,
    summary: Summary,
}

impl Quantity {
    /// From samples in nanoseconds, in the order taken; `None` without any.
    #[must_use]
    pub fn of(samples: Vec<u64>) -> Option<Self> {
        let summary = Summary::of(&samples)?;
        Some(Self { samples, summary })
    }

    /// The median, which predictions use.
    #[must_use]
    pub const fn median(&self) -> Nanos {
        Nanos(self.summary.median)
    }

    /// The mean, rounded down: for what adds up, as overheads do, of which a few are far above the median.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        let sum: u128 = self.samples.iter().map(|&one| u128::from(one)).sum();
        let mean = sum / (self.samples.len() as u128).max(1);
        Nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Half the 95 % confidence interval of the mean, in nanoseconds: 1.96 standard errors; infinite for one sample.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Times as floats lose nothing that matters to an interval.
    pub fn half_width_of_mean(&self) -> f64 {
        let count = self.samples.len() as f64;
        let mean = self.samples.iter().map(|&one| one as f64).sum::<f64>() / count;
        let squares = self.samples.iter().map(|&one| (one as f64 - mean).powi(2)).sum::<f64>();
        if count < 2.0 { f64::INFINITY } else { 1.96 * (squares / (count - 1.0) / count).sqrt() }
    }

    /// The summary of the samples.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// All samples in nanoseconds, in the order taken.
    #[must_use]
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Whether it can be relied on.
    #[must_use]
    pub fn verdict(&self, half_width: f64) -> Verdict {
        Verdict::of(&self.samples, half_width)
    }
}
