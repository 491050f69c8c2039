//! The measurements of a run of a schedule.

use pipeline::{Bytes, CopyOp, Nanos, Step};

/// A whole run as it was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Its steps, first to last.
    pub steps: Vec<Step>,
    /// By step, its copies to the host and back.
    pub copies: Vec<Vec<MeasuredCopy>>,
    /// By stage, the most activation bytes that it kept at once in a measured step, counted as
    /// [`pipeline::Memory`] and copies count them; empty where nothing is computed.
    pub peaks: Vec<Bytes>,
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

/// A copy to the host or back as it was measured. Times since the start of its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredCopy {
    /// The stage.
    pub stage: usize,
    /// The copy.
    pub op: CopyOp,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}
