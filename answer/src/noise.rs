//! Figures of a step, and those of many replicas, for tables and files.

use pipeline::{Metrics, Nanos};
use serde::Serialize;
use sim::monte_carlo::{MonteCarlo, Percentile, Summary};

use question::format;

/// The span and the makespan of a step in nanoseconds, and its bubble rate over each, or what stands for these.
#[derive(Serialize)]
pub struct Figures<T = u64, R = f64> {
    span_ns: T,
    makespan_ns: T,
    bubble_rate: R,
    bubble_rate_makespan: R,
}

impl From<&Metrics> for Figures {
    fn from(metrics: &Metrics) -> Self {
        Self {
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
        }
    }
}

/// The figures of a step without noise.
#[derive(Serialize)]
pub struct NoiseFree {
    bubble_rate: f64,
    bubble_rate_makespan: f64,
    span_ns: u64,
    makespan_ns: u64,
}

impl From<&Metrics> for NoiseFree {
    fn from(metrics: &Metrics) -> Self {
        Self {
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
        }
    }
}

/// The distributions over all replicas.
#[derive(Serialize)]
pub struct Distributions {
    replicas: u64,
    #[serde(flatten)]
    figures: Figures<Distribution<u64>, Distribution<f64>>,
}

impl From<&MonteCarlo> for Distributions {
    fn from(all: &MonteCarlo) -> Self {
        let figures = Figures {
            span_ns: all.span.into(),
            makespan_ns: all.makespan.into(),
            bubble_rate: all.bubble_rate.into(),
            bubble_rate_makespan: all.bubble_rate_makespan.into(),
        };
        Self { replicas: all.replicas, figures }
    }
}

/// One distribution; intervals are null where there are too few replicas for one.
#[derive(Serialize)]
struct Distribution<T> {
    mean: f64,
    stddev: f64,
    min: T,
    p50: T,
    p95: T,
    p99: T,
    max: T,
    mean_ci95: Option<[f64; 2]>,
    p50_ci95: Option<[T; 2]>,
    p95_ci95: Option<[T; 2]>,
    p99_ci95: Option<[T; 2]>,
}

impl<T> From<Summary<T>> for Distribution<T> {
    fn from(summary: Summary<T>) -> Self {
        let Summary { mean, mean_ci95, stddev, min, max, p50, p95, p99 } = summary;
        Self {
            mean,
            stddev,
            min,
            p50: p50.value,
            p95: p95.value,
            p99: p99.value,
            max,
            mean_ci95,
            p50_ci95: p50.ci95,
            p95_ci95: p95.ci95,
            p99_ci95: p99.ci95,
        }
    }
}

/// The columns of [`spans`] and [`bubbles`].
pub const COLUMNS: [&str; 5] = ["noise-free", "mean", "P50", "P95", "P99"];

/// A row about the span.
pub fn spans(noise_free: &Metrics, all: &MonteCarlo) -> [String; 5] {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let mean = |nanos: f64| format::time(Nanos(nanos.round() as u64));
    let exact = |nanos: u64| format::time(Nanos(nanos));
    row(exact(noise_free.span().0), &all.span, mean, exact)
}

/// A row about the bubble rate.
pub fn bubbles(noise_free: &Metrics, all: &MonteCarlo) -> [String; 5] {
    let rate = format::percent;
    row(rate(noise_free.bubble_rate()), &all.bubble_rate, rate, rate)
}

fn row<T: Copy>(
    noise_free: String,
    summary: &Summary<T>,
    of_mean: impl Fn(f64) -> String,
    of_value: impl Fn(T) -> String,
) -> [String; 5] {
    let percentile = |one: Percentile<T>| with_interval(one.value, one.ci95, &of_value);
    [
        noise_free,
        with_interval(summary.mean, summary.mean_ci95, &of_mean),
        percentile(summary.p50),
        percentile(summary.p95),
        percentile(summary.p99),
    ]
}

/// A figure with its 95 % confidence interval, the unit written once.
fn with_interval<T: Copy>(value: T, ends: Option<[T; 2]>, text: impl Fn(T) -> String) -> String {
    let value = text(value);
    let unit = value.find(' ').map_or("", |at| &value[at..]);
    match ends.map(|ends| ends.map(&text)) {
        Some([low, high]) => {
            format!("{value} [{}, {}]", low.strip_suffix(unit).unwrap_or(&low), high)
        }
        None => value,
    }
}
