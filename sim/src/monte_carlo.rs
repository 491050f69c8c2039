//! Monte Carlo studies: the distribution of the step time under noise over many replicas.

use pipeline::Metrics;
use rayon::prelude::*;
use thiserror::Error;

use crate::lanes::StepTimes;

/// The most replicas of one question; three numbers are kept of each.
pub const MAX_REPLICAS: u64 = 10_000_000;

/// Fewer replicas give no confidence interval of the mean.
const FEWEST_FOR_MEAN: usize = 5;

/// The share of intervals that may miss on either side: confidence intervals are of 95 %.
const MISS: f64 = 0.025;

/// A number of replicas that cannot be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the number of replicas must be from 1 to {MAX_REPLICAS}, not {0}")]
pub struct ReplicaCount(pub u64);

/// The distributions of step time and bubble over the replicas.
#[derive(Clone, PartialEq, Debug)]
pub struct MonteCarlo {
    /// The number of replicas run.
    pub replicas: u64,
    /// [`Metrics::span`], in nanoseconds.
    pub span: Summary<u64>,
    /// [`Metrics::makespan`], in nanoseconds.
    pub makespan: Summary<u64>,
    /// [`Metrics::bubble_rate`].
    pub bubble_rate: Summary<f64>,
    /// [`Metrics::bubble_rate_makespan`].
    pub bubble_rate_makespan: Summary<f64>,
}

/// The summary of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary<T> {
    /// Mean.
    pub mean: f64,
    /// Confidence interval of the mean at 95 %, mean -+ t s/sqrt(n) with the quantile t of
    /// Student's distribution with n-1 degrees of freedom: exact for normal values, and by the
    /// central limit theorem nearly so for many values of a finite variance. `None` for fewer than
    /// 5 values.
    pub mean_ci95: Option<[f64; 2]>,
    /// Standard deviation, with n-1; 0 for one value.
    pub stddev: f64,
    /// The smallest value.
    pub min: T,
    /// The largest value.
    pub max: T,
    /// Median.
    pub p50: Percentile<T>,
    /// The value that 95 % do not exceed.
    pub p95: Percentile<T>,
    /// The value that 99 % do not exceed.
    pub p99: Percentile<T>,
}

/// A percentile: the smallest value that at least this share of the sample does not exceed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentile<T> {
    /// The value itself.
    pub value: T,
    /// Confidence interval at 95 % or a little more, whatever the distribution: two values of the
    /// sample whose ranks follow from the binomial distribution (David and Nagaraja, *Order
    /// Statistics*, 3rd edition 2003, section 7.1). `None` where the sample is too small to have
    /// one.
    pub ci95: Option<[T; 2]>,
}

/// Checks a number of replicas before anything is done for it.
///
/// # Errors
/// If it is 0 or above [`MAX_REPLICAS`].
pub fn check(replicas: u64) -> Result<(), ReplicaCount> {
    (1..=MAX_REPLICAS).contains(&replicas).then_some(()).ok_or(ReplicaCount(replicas))
}

/// Runs `replicas` replicas, numbered from 0, in parallel. `metrics` times one of them; it must be a
/// function of the number of the replica alone, and then the results do not depend on the number of
/// threads.
///
/// # Errors
/// If `replicas` is 0 or above [`MAX_REPLICAS`].
pub fn run(
    replicas: u64,
    metrics: impl Fn(u64) -> Metrics + Sync,
) -> Result<MonteCarlo, ReplicaCount> {
    run_until(replicas, || false, metrics)
}

/// Runs replicas until `stop` returns true: the result is that of the replicas run by then, and of
/// replica 0 always. Which ones those are depends on the threads, and not on their results.
///
/// # Errors
/// If `replicas` is 0 or above [`MAX_REPLICAS`].
pub fn run_until(
    replicas: u64,
    stop: impl Fn() -> bool + Sync,
    metrics: impl Fn(u64) -> Metrics + Sync,
) -> Result<MonteCarlo, ReplicaCount> {
    run_blocks(
        (replicas, 1),
        stop,
        || (),
        |(), replica, all| {
            all.fill(Replica::of(&metrics(replica)));
        },
    )
}

/// Runs blocks of `size` replicas as [`run_until`] does single ones: `time` is given a state of its own thread, made by
/// `begin`, the number of the first replica of a block, and room for their results.
pub(crate) fn run_blocks<T>(
    (replicas, size): (u64, usize),
    stop: impl Fn() -> bool + Sync,
    begin: impl Fn() -> T + Sync + Send,
    time: impl Fn(&mut T, u64, &mut [Replica]) + Sync + Send,
) -> Result<MonteCarlo, ReplicaCount> {
    check(replicas)?;
    let mut all = vec![Replica::NOT_RUN; usize::try_from(replicas).unwrap_or(usize::MAX)];
    all.par_chunks_mut(size).enumerate().for_each_init(begin, |state, (block, all)| {
        if block == 0 || !stop() {
            time(state, (block * size) as u64, all);
        }
    });
    all.retain(|one| !one.bubble_rate.is_nan());
    let replicas = all.len() as u64;
    let times = |of: fn(&Replica) -> u64| Summary::of(all.iter().map(of).collect(), nanos);
    let rates = |of: fn(&Replica) -> f64| Summary::of(all.iter().map(of).collect(), |rate| rate);
    Ok(MonteCarlo {
        replicas,
        span: times(|one| one.span),
        makespan: times(|one| one.makespan),
        bubble_rate: rates(|one| one.bubble_rate),
        bubble_rate_makespan: rates(|one| one.bubble_rate_makespan),
    })
}

/// The results kept of a replica.
#[derive(Clone, Copy)]
pub(crate) struct Replica {
    span: u64,
    makespan: u64,
    bubble_rate: f64,
    bubble_rate_makespan: f64,
}

impl Replica {
    /// One that was left out: no bubble rate is NaN.
    const NOT_RUN: Self =
        Self { span: 0, makespan: 0, bubble_rate: f64::NAN, bubble_rate_makespan: f64::NAN };

    pub(crate) fn of(times: impl Into<StepTimes>) -> Self {
        let times = times.into();
        Self {
            span: times.span.0,
            makespan: times.makespan.0,
            bubble_rate: times.bubble_rate_of(times.span),
            bubble_rate_makespan: times.bubble_rate_of(times.makespan),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn nanos(nanos: u64) -> f64 {
    nanos as f64
}

impl<T: Copy + PartialOrd> Summary<T> {
    /// Sums up `values`, of which `number` makes numbers.
    ///
    /// # Panics
    /// Without values.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn of(mut values: Vec<T>, number: impl Fn(T) -> f64) -> Self {
        // Sorted, so that the sum does not depend on the order of the values.
        values.sort_unstable_by(|a, b| number(*a).total_cmp(&number(*b)));
        let n = values.len();
        let numbers = || values.iter().map(|&value| number(value));
        let mean = numbers().sum::<f64>() / n as f64;
        let squares: f64 = numbers().map(|value| (value - mean) * (value - mean)).sum();
        let stddev = (squares / n.saturating_sub(1).max(1) as f64).sqrt();
        let margin = student(n.saturating_sub(1)) * stddev / (n as f64).sqrt();
        Self {
            mean,
            mean_ci95: (n >= FEWEST_FOR_MEAN).then_some([mean - margin, mean + margin]),
            stddev,
            min: values[0],
            max: values[n - 1],
            p50: Percentile::of(&values, 0.50),
            p95: Percentile::of(&values, 0.95),
            p99: Percentile::of(&values, 0.99),
        }
    }
}

impl<T: Copy> Percentile<T> {
    /// The percentile of `sorted`, at least one value, for the share `q`.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn of(sorted: &[T], q: f64) -> Self {
        let rank = (q * sorted.len() as f64).ceil() as usize;
        let interval = ranks(sorted.len(), q);
        Self {
            value: sorted[rank.clamp(1, sorted.len()) - 1],
            ci95: interval.map(|interval| interval.map(|rank| sorted[rank - 1])),
        }
    }
}

/// The ranks, from 1, of the two of `n` values between which the quantile `q` lies with 95 %.
///
/// With K the number of values below the quantile, binomial over n and q, the quantile lies between
/// the values of rank l and u if l <= K < u: the largest l with P(K < l) <= 2.5 % and the smallest
/// u with P(K >= u) <= 2.5 % will do.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn ranks(n: usize, q: f64) -> Option<[usize; 2]> {
    let values = n as f64;
    // Probabilities ten standard deviations below the mean are negligible.
    let first = (values * q - 10.0 * (values * q * (1.0 - q)).sqrt()).max(0.0) as usize;
    let log_choose = |k: f64| {
        libm::lgamma(values + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(values - k + 1.0)
    };
    let below = first as f64;
    let log_weight = log_choose(below) + below * libm::log(q) + (values - below) * libm::log1p(-q);
    let (mut weight, mut sum) = (libm::exp(log_weight), 0.0);
    let mut lower = None;
    for k in first..n {
        sum += weight;
        if sum <= MISS {
            lower = Some(k + 1);
        }
        if sum >= 1.0 - MISS {
            return Some([lower?, k + 1]);
        }
        weight *= (n - k) as f64 / (k + 1) as f64 * q / (1.0 - q);
    }
    None
}

/// The 97.5 % quantile of Student's distribution, expanded about that of the normal (Abramowitz and
/// Stegun, *Handbook of Mathematical Functions*, 26.7.5): good to 0.1 % from 4 degrees of freedom.
#[allow(clippy::cast_precision_loss)]
fn student(freedom: usize) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let v = freedom.max(1) as f64;
    // Horner in z^2, for the system's powers differ from machine to machine; then in 1/v.
    let s = Z * Z;
    let terms = [
        Z * (s + 1.0) / 4.0,
        Z * ((5.0 * s + 16.0) * s + 3.0) / 96.0,
        Z * (((3.0 * s + 19.0) * s + 17.0) * s - 15.0) / 384.0,
        Z * ((((79.0 * s + 776.0) * s + 1482.0) * s - 1920.0) * s - 945.0) / 92_160.0,
    ];
    Z + terms.into_iter().rev().fold(0.0, |sum, term| (sum + term) / v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::{Nanos, StageTimes};
    use rand::distr::Open01;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::SplitMix64;

    use crate::straggler::normal_quantile;

    fn step(nanos: u64) -> Metrics {
        let [first_start, last_end] = [Nanos(10), Nanos(10 + nanos)];
        Metrics { stages: vec![StageTimes { first_start, last_end, busy: Nanos(50) }] }
    }

    #[test]
    fn a_known_sample() {
        // 100, 101, .. 199 in a scrambled order: 37 and 100 are coprime.
        let result = run(100, |replica| step(100 + replica * 37 % 100)).unwrap();
        let Summary { mean, stddev, min, max, p50, p95, p99, .. } = result.span;
        assert_eq!((mean, min, max), (149.5, 100, 199));
        assert_eq!([p50.value, p95.value, p99.value], [149, 194, 198]);
        // n (n^2-1) / 12 / (n-1) for consecutive numbers.
        assert!((stddev - (100.0 * 101.0 / 12.0_f64).sqrt()).abs() < 1e-9);
        // t with 99 degrees of freedom is 1.9842.
        let [low, high] = result.span.mean_ci95.unwrap();
        assert!((high - mean - 1.9842 * stddev / 10.0).abs() < 1e-3);
        assert!((low + high - 2.0 * mean).abs() < 1e-9);
        assert_eq!(result.makespan.min, 110);
        assert!((result.bubble_rate.min - 0.5).abs() < 1e-12);
        // The textbook's ranks for the median of 100 values: 40 and 61.
        assert_eq!(p50.ci95, Some([139, 160]));
        assert_eq!(p99.ci95, None);
    }

    #[test]
    fn one_replica_says_little() {
        let Summary { mean, mean_ci95, stddev, p50, p99, .. } = run(1, |_| step(7)).unwrap().span;
        assert_eq!((mean, mean_ci95, stddev), (7.0, None, 0.0));
        assert_eq!((p50, p99), (Percentile { value: 7, ci95: None }, p50));
    }

    #[test]
    fn too_few_and_too_many() {
        for count in [0, MAX_REPLICAS + 1, u64::MAX] {
            assert_eq!(run(count, |_| step(1)), Err(ReplicaCount(count)));
        }
    }

    #[test]
    fn quantiles_of_student() {
        // From the table in the Handbook, 26.10.
        for (freedom, t) in [(4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)] {
            assert!((student(freedom) - t).abs() < 1.1e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn ranks_at_the_edges() {
        // P(K = 0) = 2^-n and P(K = n) = 2^-n must be at most 2.5 %: 6 values or more.
        assert_eq!((ranks(5, 0.5), ranks(6, 0.5)), (None, Some([1, 6])));
        // The median's, from binomial coefficients summed exactly.
        for (n, interval) in [(10, [2, 9]), (20, [6, 15]), (25, [8, 18]), (50, [18, 33])] {
            assert_eq!(ranks(n, 0.5), Some(interval));
        }
        // 0.99^n <= 2.5 % from n = 368 on.
        assert_eq!(ranks(367, 0.99), None);
        assert!(ranks(368, 0.99).is_some());
        // Far out the normal limit holds: n q -+ 1.96 sqrt(n q (1-q)).
        let [lower, upper] = ranks(10_000_000, 0.95).unwrap();
        assert!(lower.abs_diff(9_500_000 - 1351) <= 2, "{lower}");
        assert!(upper.abs_diff(9_500_000 + 1351) <= 2, "{upper}");
    }

    /// 2,000 samples of 400 normal values: an interval that covers with 95 % misses 100 of them,
    /// give or take five standard deviations, 5 sqrt(2000 x 0.95 x 0.05) = 49. Those of
    /// percentiles may cover a little more, for ranks are whole.
    #[test]
    fn intervals_cover_what_they_should() {
        let quantiles = [0.0, 1.644_854, 2.326_348];
        let mut misses = [0; 4];
        for seed in 0..2000 {
            let mut rng = SplitMix64::seed_from_u64(seed);
            let values = (0..400).map(|_| normal_quantile(rng.sample(Open01))).collect();
            let summary: Summary<f64> = Summary::of(values, |value| value);
            let outside =
                |[low, high]: [f64; 2], truth: f64| usize::from(truth < low || truth > high);
            misses[0] += outside(summary.mean_ci95.unwrap(), 0.0);
            let percentiles = [summary.p50, summary.p95, summary.p99];
            for (at, (percentile, truth)) in percentiles.iter().zip(quantiles).enumerate() {
                misses[at + 1] += outside(percentile.ci95.unwrap(), truth);
            }
        }
        assert!(misses[0].abs_diff(100) < 49, "{misses:?}");
        assert!(misses[1..].iter().all(|&missed| missed < 149 && missed > 20), "{misses:?}");
    }
}
