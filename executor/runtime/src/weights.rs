//! How weights are updated while a pipeline runs, and how an update is undone.

use pipeline::Schedule;

/// How an update is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Undo {
    /// By the inverse of the rule: no memory, exact but for rounding. An update with gradients that
    /// are NaN or infinite cannot be undone this way.
    #[default]
    Inverse,
    /// From a copy of weights and moments made before each update: exact, at their memory.
    Snapshot,
}

/// How a pipeline that never flushes updates its weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Updates {
    /// Microbatches whose gradients each update has.
    pub microbatches: u32,
    /// The version of the weights that a microbatch uses.
    pub versions: Versions,
}

/// The version of the weights that a microbatch uses, forward and backward alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Versions {
    /// The newest version of its stage at its forward (weight stashing, PipeDream): stage r of p
    /// holds up to p - r versions.
    Stashed,
    /// The version before the one that the preceding update makes, the same on all stages
    /// (PipeDream-2BW): W(t+1) = W(t) - the update by the gradients at W(t-1). Two versions are
    /// held.
    DoubleBuffered,
}

impl Updates {
    /// Updates of one step of `schedule`.
    #[must_use]
    pub const fn per_step(self, schedule: &Schedule) -> u32 {
        schedule.shape().microbatches() / self.microbatches
    }

    /// The most versions that `stage` of `stages` holds.
    #[must_use]
    pub fn most_versions(self, stage: usize, stages: usize) -> usize {
        match self.versions {
            Versions::Stashed => stages.saturating_sub(stage),
            Versions::DoubleBuffered => 2,
        }
    }
}
