//! The columns of a sweep: their names, which stay the same, and what they hold.
//!
//! A sweep has the columns of its axes and of what its keys ask for, in this order: always the
//! metrics; whether it is asynchronous, where a schedule is; what the step is without noise, where
//! noise is asked; the distributions, where replicas are; what the hardware went through, where there
//! is some. A column is named like the path in what `debubble simulate --json` prints.

use super::axis::Axis;
use crate::keys::HardwareKeys;
use crate::noise;

/// The type of the values of a column, unless they are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// A whole number.
    Whole,
    /// A number.
    Decimal,
    /// `true` or `false`.
    Truth,
    /// Anything.
    Text,
}

use ColumnKind::{Decimal, Text, Truth, Whole};

type Named = (&'static str, ColumnKind);

const BEFORE: [Named; 2] = [("index", Whole), ("setting", Text)];
const METRICS: [Named; 14] = [
    ("schedule", Text),
    ("stages", Whole),
    ("microbatches", Whole),
    ("chunks", Whole),
    ("bubble_rate", Decimal),
    ("bubble_rate_makespan", Decimal),
    ("span_ns", Whole),
    ("makespan_ns", Whole),
    ("work_ns", Whole),
    ("peak_stage", Whole),
    ("peak_activation_bytes", Whole),
    ("peak_microbatches", Decimal),
    ("peak_in_flight", Whole),
    ("fits", Truth),
];
const ASYNCHRONOUS: Named = ("asynchronous", Truth);
const NOISE_FREE: [Named; 4] = [
    ("noise_free_bubble_rate", Decimal),
    ("noise_free_bubble_rate_makespan", Decimal),
    ("noise_free_span_ns", Whole),
    ("noise_free_makespan_ns", Whole),
];
const REPLICAS: Named = ("replicas", Whole);
/// The quantities with a distribution.
const MEASURES: [Named; 4] = [
    ("span_ns", Whole),
    ("makespan_ns", Whole),
    ("bubble_rate", Decimal),
    ("bubble_rate_makespan", Decimal),
];
/// The statistics of a distribution, and whether each is one of its values.
const STATISTICS: [(&str, bool); 15] = [
    ("mean", false),
    ("mean_ci95_low", false),
    ("mean_ci95_high", false),
    ("stddev", false),
    ("min", true),
    ("p50", true),
    ("p50_ci95_low", true),
    ("p50_ci95_high", true),
    ("p95", true),
    ("p95_ci95_low", true),
    ("p95_ci95_high", true),
    ("p99", true),
    ("p99_ci95_low", true),
    ("p99_ci95_high", true),
    ("max", true),
];
const HARDWARE: [Named; 10] = [
    ("step_ns", Whole),
    ("steps", Whole),
    ("busiest_wire", Text),
    ("busiest_wire_used", Decimal),
    ("peak_device", Whole),
    ("peak_device_bytes", Whole),
    ("peak_device_at_ns", Whole),
    ("out_of_memory_device", Whole),
    ("out_of_memory_at_ns", Whole),
    ("out_of_memory_by_bytes", Whole),
];
const ERROR: Named = ("error", Text);

/// How many columns each group has.
pub const METRICS_COUNT: usize = METRICS.len();

/// The names of the metrics, which every row has.
pub fn metrics() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|(name, _)| *name)
}

/// Likewise.
pub const NOISE_FREE_COUNT: usize = NOISE_FREE.len();
/// Likewise, without the number of replicas.
pub const DISTRIBUTIONS_COUNT: usize = MEASURES.len() * STATISTICS.len();
/// Likewise, without the time and the number of steps.
pub const HARDWARE_COUNT: usize = HARDWARE.len();

/// Which columns the rows of a sweep have.
#[derive(Clone, Debug)]
pub struct Columns {
    /// By axis, whether it has a column of its own.
    pub axes: Vec<bool>,
    /// Whether some schedule is asynchronous.
    pub asynchronous: bool,
    /// Whether some question has noise.
    pub noise: bool,
    /// Whether some question has replicas.
    pub replicas: bool,
    /// Whether some question has hardware.
    pub hardware: bool,
    names: Vec<String>,
}

impl Columns {
    /// Those of a sweep over `axes`, in which `asks` says whether some question has one of the keys.
    pub(super) fn of(axes: &[Axis], asynchronous: bool, asks: impl Fn(&[&str]) -> bool) -> Self {
        let noise = asks(&noise::KEYS);
        let replicas = asks(&["replicas"]);
        let hardware = asks(HardwareKeys::NAMES);
        let own: Vec<Option<String>> = axes.iter().map(own_column).collect();
        let mut names: Vec<String> = BEFORE.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.extend(own.iter().flatten().cloned());
        let mut add = |all: &[Named]| names.extend(all.iter().map(|(name, _)| (*name).to_owned()));
        add(&METRICS);
        if asynchronous {
            add(&[ASYNCHRONOUS]);
        }
        if noise {
            add(&NOISE_FREE);
        }
        if replicas {
            add(&[REPLICAS]);
            names.extend(distributions().map(|(name, _)| name));
        }
        let mut add = |all: &[Named]| names.extend(all.iter().map(|(name, _)| (*name).to_owned()));
        if hardware {
            add(&HARDWARE);
        }
        add(&[ERROR]);
        let axes = own.iter().map(Option::is_some).collect();
        Self { axes, asynchronous, noise, replicas, hardware, names }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The line of their names.
    pub fn header(&self) -> Vec<u8> {
        let mut line = self.names.join(",").into_bytes();
        line.push(b'\n');
        line
    }
}

fn distributions() -> impl Iterator<Item = (String, ColumnKind)> {
    MEASURES.into_iter().flat_map(|(measure, kind)| {
        STATISTICS.into_iter().map(move |(statistic, is_value)| {
            (format!("{measure}_{statistic}"), if is_value { kind } else { Decimal })
        })
    })
}

/// The name of the column of `axis`; `None` where another column says the same.
fn own_column(axis: &Axis) -> Option<String> {
    match &axis.key[..] {
        "schedule" | "stages" | "microbatches" | "replicas" | "steps" => None,
        // What a schedule with chunks of its own makes of it stands under `chunks`.
        "chunks" => Some("chunks_asked".to_owned()),
        key => Some(key.to_owned()),
    }
}

/// The column with the values of `axis`.
pub fn column_of(axis: &Axis) -> String {
    own_column(axis).unwrap_or_else(|| axis.key.clone())
}

/// The type of the column `name`; `None` for that of an axis, whose values decide it.
pub fn kind(name: &str) -> Option<ColumnKind> {
    let mut all = BEFORE.into_iter().chain(METRICS).chain(NOISE_FREE).chain(HARDWARE);
    let fixed = all.find(|(one, _)| *one == name).map(|(_, kind)| kind);
    let rest = || match name {
        "replicas" | "chunks_asked" => Some(Whole),
        "asynchronous" => Some(Truth),
        "error" => Some(Text),
        _ => distributions().find(|(one, _)| one == name).map(|(_, kind)| kind),
    };
    fixed.or_else(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_axis_is_called_like_another_column() {
        for key in crate::keys::Keys::NAMES.iter().chain(HardwareKeys::NAMES) {
            let shared = ["schedule", "stages", "microbatches", "chunks", "replicas", "steps"];
            assert_eq!(kind(key).is_some(), shared.contains(key), "{key}");
        }
        assert_eq!(kind("span_ns_p95"), Some(Whole));
        assert_eq!(kind("span_ns_mean"), Some(Decimal));
        assert_eq!(kind("bubble_rate_makespan_max"), Some(Decimal));
    }
}
