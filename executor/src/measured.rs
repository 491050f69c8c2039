//! The measurements of a run of a schedule.

use pipeline::Step;

/// A whole run as it was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Its steps, first to last.
    pub steps: Vec<Step>,
    /// In how many steps, warm-up included, updates made on trust were taken back.
    pub rollbacks: u32,
    /// In how many steps, warm-up included, the update was left out for a NaN or an infinity.
    pub skipped: u32,
    /// Allocations that can hold up a device, made by all stages in the steps measured: times are to
    /// be trusted if there were none.
    pub allocations: u64,
    /// The losses of all updates of the steps measured, where weights change while the pipeline runs;
    /// the loss of a step is then that of its last update.
    pub losses: Vec<f64>,
}
