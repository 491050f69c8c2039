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
    /// By stage, how far the host kept ahead of its device in the steps measured; empty where passes
    /// run on the host, whose clock times them.
    pub host_bound: Vec<HostBound>,
    /// The losses of all updates of the steps measured, where weights change while the pipeline runs;
    /// the loss of a step is then that of its last update.
    pub losses: Vec<f64>,
}

/// Passes of a stage that its device could begin before the host had launched all of their kernels:
/// such a pass lasts as long as the host takes, and the idle time within counts as work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostBound {
    /// How many of them there are.
    pub bound: u64,
    /// Of so many passes. The first of each step is not counted: it cannot be launched before the
    /// step begins.
    pub passes: u64,
}

impl HostBound {
    /// Both as one.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { bound: self.bound + other.bound, passes: self.passes + other.passes }
    }

    /// The share of passes that are bound by the host: from 0 to 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share(self) -> f64 {
        if self.passes == 0 { 0.0 } else { self.bound as f64 / self.passes as f64 }
    }
}

/// The cost of the host for stages on a device of its own: of launches, and of handing values on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overheads {
    /// Kernels that one thread launches in a second.
    pub launches_per_second: f64,
    /// A thread for each stage of the process: how many.
    pub threads: usize,
    /// Kernels that they launch in a second, all together.
    pub launches_per_second_together: f64,
    /// How long a small value takes from one stage to the next; `None` of one stage.
    pub hand_over: Option<Nanos>,
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
