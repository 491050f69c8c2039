//! Statistics of a series of times: the median, its confidence interval, and outliers. No clock in here.

use std::fmt;

/// Intervals, changes and distances from the median of no more than that, in nanoseconds, count as
/// none: two events of a GPU differ by as much, each with half a microsecond (CUDA driver API,
/// `cuEventElapsedTime`), and two readings of a processor's clock by less.
pub const RESOLUTION: u64 = 1000;

/// The summary of a series of samples, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The middle sample, or the mean of the two middle ones, rounded down.
    pub median: u64,
    /// The 95 % confidence interval of the median; `None` for fewer than 6 samples, which have none.
    pub interval: Option<(u64, u64)>,
    /// Number of samples that stand out, see [`outliers`].
    pub outliers: usize,
    /// Number of samples.
    pub samples: usize,
}

impl Summary {
    /// Summarises `samples`; `None` if there are none.
    #[must_use]
    pub fn of(samples: &[u64]) -> Option<Self> {
        let sorted = sorted(samples);
        let median = median_of_sorted(&sorted)?;
        let interval =
            interval_ranks(sorted.len()).map(|(low, high)| (sorted[low - 1], sorted[high - 1]));
        let outliers = outliers(samples).len();
        Some(Self { median, interval, outliers, samples: samples.len() })
    }

    /// Half the width of the interval over the median; `None` if there is no interval.
    ///
    /// An interval of [`RESOLUTION`] or less has no width; a wider one around zero is infinitely wide.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 100 days are exact.
    pub fn half_width(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        match high - low {
            0..=RESOLUTION => Some(0.0),
            width => Some(width as f64 / 2.0 / self.median as f64),
        }
    }
}

fn sorted(samples: &[u64]) -> Vec<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted
}

fn median_of_sorted(sorted: &[u64]) -> Option<u64> {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(middle).copied(),
        _ => Some(sorted.get(middle.checked_sub(1)?)?.midpoint(sorted[middle])),
    }
}

/// The ranks, from 1, of the two samples out of `count` between which the median of the
/// distribution lies with a confidence of at least 95 %, whatever the distribution.
///
/// The ranks j and `count` + 1 - j enclose it with probability 1 - 2 P(X <= j - 1), X binomial with
/// `count` draws of one half (David and Nagaraja, Order Statistics, 3rd edition, 2003, section 7.1).
/// Beyond 1000 samples by the normal approximation: j = floor(n/2 - 0.98 sqrt(n)) (Le Boudec,
/// Performance Evaluation of Computer and Communication Systems, 2010, section 2.2).
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn interval_ranks(count: usize) -> Option<(usize, usize)> {
    const EXACT: usize = 1000;
    let n = count as f64;
    let mut rank = 0;
    if count > EXACT {
        rank = (n / 2.0 - 0.98 * n.sqrt()).floor() as usize;
    } else {
        let mut probability = 0.5f64.powi(count as i32);
        let mut below = probability;
        while below <= 0.025 && rank < count {
            rank += 1;
            probability *= (n - rank as f64 + 1.0) / rank as f64;
            below += probability;
        }
    }
    (rank > 0).then_some((rank, count + 1 - rank))
}

/// The places of the samples that stand out: those whose modified z-score,
/// 0.6745 |x - median| / MAD, is above 3.5 (Iglewicz and Hoaglin, How to Detect and Handle Outliers,
/// 1993, section 3.3); where more than half of the samples are alike, |x - median| over 1.2533 times
/// the mean absolute deviation instead, as IBM SPSS has it.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn outliers(samples: &[u64]) -> Vec<usize> {
    let Some(median) = median_of_sorted(&sorted(samples)) else { return Vec::new() };
    let away: Vec<u64> = samples.iter().map(|sample| sample.abs_diff(median)).collect();
    let mad = median_of_sorted(&sorted(&away)).unwrap_or(0) as f64;
    let mean = away.iter().map(|&one| one as f64).sum::<f64>() / away.len() as f64;
    let unit = if mad > 0.0 { mad / 0.6745 } else { 1.253_314 * mean };
    let stands_out = |&(_, away): &(usize, &u64)| *away as f64 > 3.5 * unit;
    away.iter().enumerate().filter(stands_out).map(|(place, _)| place).collect()
}

/// Whether a median can be relied on, and if not, why.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// The interval is as narrow as asked for.
    Tight,
    /// Too few samples for any interval.
    TooFew {
        /// Their number.
        samples: usize,
    },
    /// The second half of the samples is of another size than the first: the machine changed.
    Drifting {
        /// Median of the second half over that of the first, less 1.
        change: f64,
    },
    /// The interval is wider than asked for.
    Wide {
        /// Half its width over the median.
        half_width: f64,
    },
    /// The interval is narrow, but more than one sample in ten stands out: there are two speeds.
    Scattered {
        /// The share of samples that stand out.
        share: f64,
    },
}

impl Verdict {
    /// Judges `samples`, in the order in which they were taken, where half the interval over the
    /// median is to be at most `half_width`.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn of(samples: &[u64], half_width: f64) -> Self {
        let too_few = Self::TooFew { samples: samples.len() };
        let Some(summary) = Summary::of(samples) else { return too_few };
        let Some(width) = summary.half_width() else { return too_few };
        if let Some(change) = drift(samples).filter(|change| change.abs() > half_width) {
            return Self::Drifting { change };
        }
        if width > half_width {
            return Self::Wide { half_width: width };
        }
        let far = |place: &usize| samples[*place].abs_diff(summary.median) > RESOLUTION;
        let outliers = outliers(samples).into_iter().filter(far).count();
        match outliers as f64 / samples.len() as f64 {
            share if share > 0.1 => Self::Scattered { share },
            _ => Self::Tight,
        }
    }
}

/// The relative change from the first half of `samples` to the second, if their intervals lie apart.
#[allow(clippy::cast_precision_loss)]
fn drift(samples: &[u64]) -> Option<f64> {
    let (first, second) = samples.split_at(samples.len() / 2);
    let (first, second) = (Summary::of(first)?, Summary::of(second)?);
    let ((low, high), (next_low, next_high)) = (first.interval?, second.interval?);
    let apart =
        (high < next_low || next_high < low) && first.median.abs_diff(second.median) > RESOLUTION;
    apart.then(|| second.median as f64 / first.median as f64 - 1.0)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tight => f.write_str("tight"),
            Self::TooFew { samples } => write!(f, "too few samples ({samples})"),
            Self::Drifting { change } => write!(f, "drifting ({:+.1} %)", 100.0 * change),
            Self::Wide { half_width } => write!(f, "wide (+-{:.1} %)", 100.0 * half_width),
            Self::Scattered { share } => write!(f, "scattered ({:.0} % outliers)", 100.0 * share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pseudo-random numbers below 2^31, the same on every machine (Knuth's MMIX generator).
    fn noise(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        for (count, ranks) in [
            (6, (1, 6)),
            (8, (1, 8)),
            (9, (2, 8)),
            (10, (2, 9)),
            (20, (6, 15)),
            (50, (18, 33)),
            (70, (27, 44)),
        ] {
            assert_eq!(interval_ranks(count), Some(ranks), "{count}");
        }
        assert!((0..6).all(|count| interval_ranks(count).is_none()));
        // The approximation meets the exact ranks where it takes over.
        let (exact, approximate) = (interval_ranks(1000), interval_ranks(1001));
        let ((low, _), (next, _)) = (exact.unwrap(), approximate.unwrap());
        assert!(low.abs_diff(next) <= 1, "{low} {next}");
    }

    #[test]
    fn the_interval_holds_the_true_median_nineteen_times_in_twenty() {
        let true_median = 1 << 30;
        let covered = (0..1000)
            .filter(|&seed| {
                let samples = noise(seed * 7919 + 1, 40);
                let (low, high) = Summary::of(&samples[8..]).unwrap().interval.unwrap();
                (low..=high).contains(&true_median)
            })
            .count();
        // 32 samples: ranks 10 and 23 cover 0.9799 of the time.
        assert!((950..=998).contains(&covered), "{covered}");
    }

    #[test]
    fn known_series() {
        let summary = Summary::of(&[5, 1, 9, 3, 7, 11, 13]).unwrap();
        assert_eq!((summary.median, summary.interval), (7, Some((1, 13))));
        assert_eq!(Summary::of(&[4, 1]).unwrap().median, 2);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1, 2, 3]).unwrap().interval, None);
    }

    #[test]
    fn what_stands_out_is_flagged() {
        let mut samples = vec![100, 101, 99, 102, 98, 100, 101, 99, 100, 103];
        assert!(outliers(&samples).is_empty());
        samples.push(900);
        assert_eq!(outliers(&samples), [10]);
        // Alike but for one: the median deviation is zero.
        let mut alike = vec![50; 20];
        assert!(outliers(&alike).is_empty());
        alike[3] = 80;
        assert_eq!(outliers(&alike), [3]);
    }

    #[test]
    fn verdicts() {
        let constant = vec![100_000; 30];
        assert_eq!(Verdict::of(&constant, 0.02), Verdict::Tight);
        assert_eq!(Verdict::of(&constant[..5], 0.02), Verdict::TooFew { samples: 5 });
        let drifting: Vec<u64> = (0..60).map(|k| 100_000 + 500 * k).collect();
        let Verdict::Drifting { change } = Verdict::of(&drifting, 0.02) else { panic!() };
        assert!((0.10..0.17).contains(&change), "{change}");
        let halves: Vec<u64> =
            (0..60).map(|k| if k % 2 == 0 { 100_000 } else { 150_000 }).collect();
        assert!(
            matches!(Verdict::of(&halves, 0.02), Verdict::Wide { half_width } if half_width > 0.1)
        );
        let mostly: Vec<u64> =
            (0..60).map(|k| if k % 5 == 0 { 150_000 } else { 100_000 + k % 3 }).collect();
        assert!(matches!(Verdict::of(&mostly, 0.02), Verdict::Scattered { share } if share == 0.2));
        assert_eq!(Verdict::of(&[0; 10], 0.02), Verdict::Tight);
        let around_zero = |unit: u64| [0, 0, 0, 0, 0, 7, 0, 9, 0, 8].map(|one| unit * one);
        assert!(matches!(Verdict::of(&around_zero(1000), 0.02), Verdict::Wide { .. }));
        assert_eq!(Verdict::of(&around_zero(100), 0.02), Verdict::Tight);
        let nearly_all_zero = |unit: u64| {
            let mut samples = [0; 17];
            samples[3..5].fill(unit);
            samples
        };
        assert!(matches!(Verdict::of(&nearly_all_zero(5000), 0.02), Verdict::Scattered { .. }));
        assert_eq!(Verdict::of(&nearly_all_zero(500), 0.02), Verdict::Tight);
    }

    proptest! {
        #[test]
        fn the_median_lies_within_its_interval(samples in prop::collection::vec(0..1u64 << 50, 1..80)) {
            let summary = Summary::of(&samples).unwrap();
            let (low, high) = summary.interval.unwrap_or((summary.median, summary.median));
            prop_assert!(low <= summary.median && summary.median <= high);
            prop_assert!(summary.outliers * 2 <= samples.len());
        }
    }
}
