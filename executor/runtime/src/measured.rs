//! The measurements of a run of a schedule.

use pipeline::{Bytes, CopyOp, Nanos, Step};

/// A whole run as it was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Its steps, first to last.
    pub steps: Vec<Step>,
    /// By step, its copies to the host and back.
    pub copies: Vec<Vec<MeasuredCopy>>,
    /// By stage, the peak of activation bytes in a measured step, counted as [`pipeline::Memory`]
    /// and copies count them; empty where nothing is computed.
    pub peaks: Vec<Bytes>,
    /// Steps, warm-up included, whose optimistic update was rolled back.
    pub rollbacks: u32,
    /// Steps, warm-up included, whose update was skipped because of a NaN or an infinity.
    pub skipped: u32,
    /// Allocations that can stall a device, made by all stages in the measured steps: times are
    /// reliable if there were none.
    pub allocations: u64,
    /// By stage, the passes that the host bounds in the measured steps; empty where passes run on
    /// the host, whose clock times them.
    pub host_bound: Vec<HostBound>,
    /// The losses of all updates of the steps measured, where weights change while the pipeline runs;
    /// the loss of a step is then that of its last update.
    pub losses: Vec<f64>,
}

/// Passes of a stage that its device could begin before the host had launched all of their kernels:
/// such a pass lasts as long as the host takes, and the idle time within counts as work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostBound {
    /// Number of such passes.
    pub bound: u64,
    /// Passes counted. The first pass of each step is left out: it cannot be launched before the
    /// step begins.
    pub passes: u64,
}

impl HostBound {
    /// The sums of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { bound: self.bound + other.bound, passes: self.passes + other.passes }
    }

    /// The share of passes that are host-bound: from 0 to 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share(self) -> f64 {
        if self.passes == 0 { 0.0 } else { self.bound as f64 / self.passes as f64 }
    }
}

/// The host's overhead for stages on a device of its own: kernel launches, and transfers between
/// stages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overheads {
    /// Kernel launches of one thread per second.
    pub launches_per_second: f64,
    /// Number of threads, one for each stage of the process.
    pub threads: usize,
    /// Kernel launches of all these threads together per second.
    pub launches_per_second_together: f64,
    /// Latency of a small value from one stage to the next; `None` with one stage.
    pub hand_over: Option<Nanos>,
}

/// A copy to the host or back as it was measured. Times since the start of its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredCopy {
    pub stage: usize,
    pub op: CopyOp,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}
