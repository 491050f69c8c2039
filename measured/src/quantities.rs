//! The quantities that are measured, and how far predictions of them may be off.

use super::row::Row;

pub(super) const TIME: &str = "s per iteration";
/// The time of an iteration under ZeRO-3, which gathers and reduces in every microbatch.
pub(super) const SHARDED: &str = "s per iteration, ZeRO 3";
/// The model FLOPs utilisation that follows from the measured time.
pub(super) const MFU: &str = "MFU %, measured time";
/// The hardware FLOPs utilisation that follows from the measured time.
pub(super) const HFU: &str = "HFU %, measured time";
/// Samples by device and second.
pub(super) const SPEED: &str = "samples/GPU/s";
/// The peak of memory of the device that holds most.
pub(super) const MEMORY: &str = "peak GB";

/// The peak of memory as the allocator of the framework counts it.
pub(super) const PEAK: &str = "peak GiB";

/// Whether `quantity` says how long an iteration takes.
pub(super) fn is_step(quantity: &str) -> bool {
    [TIME, SHARDED, SPEED].contains(&quantity)
}

/// The largest errors that predictions of a quantity may have.
pub(super) struct Limits {
    pub(super) quantity: &'static str,
    /// The largest mean.
    pub(super) mean: f64,
    /// The largest error of a single measurement, if that is limited.
    pub(super) max: Option<f64>,
    /// Whether errors are differences, of percentages, rather than shares.
    pub(super) points: bool,
}

impl Limits {
    pub(super) const fn new(quantity: &'static str, mean: f64, max: Option<f64>) -> Self {
        Self { quantity, mean, max, points: false }
    }

    /// Limits of a utilisation by its definition, which allow no more than rounding.
    pub(super) const fn points(quantity: &'static str, most: f64) -> Self {
        Self { quantity, mean: most, max: Some(most), points: true }
    }

    pub(super) fn error(&self, row: &Row) -> f64 {
        if self.points { (row.predicted - row.measured) / 100.0 } else { row.error }
    }
}

impl Row {
    /// Whether it is how long an iteration takes, in seconds.
    #[must_use]
    pub fn is_time(&self) -> bool {
        [TIME, SHARDED].contains(&self.quantity)
    }
}
