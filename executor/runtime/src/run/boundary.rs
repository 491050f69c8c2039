//! The boundary between two steps: which stages wait for each other before the optimizer step, and
//! whether the step is made.

use pipeline::{Kind, Schedule, Slot};

use crate::worker::Norm;

/// How the optimizer steps of the stages depend on each other.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Boundary {
    /// No stage waits for another, as in PipeDream: each stage updates after its last pass, without
    /// clipping.
    #[default]
    Asynchronous,
    /// A barrier over all stages: no stage updates before the global norm is known. Gradients are
    /// clipped to `max_norm`; the update is skipped where one is NaN or infinite.
    Barrier {
        /// The largest norm over all gradients; infinity for no clipping.
        max_norm: f64,
    },
    /// Optimizer post-validation (Zero Bubble, section 4): a partial norm travels from the first
    /// stage to the last, and each stage updates optimistically after it has received it, if it is
    /// within bounds so far; the global norm travels back during the next warm-up. Where it
    /// requires clipping or is not finite, every stage rolls its update back, updates as
    /// [`Boundary::Barrier`] would have, and restarts the new step.
    PostValidation {
        /// The largest norm over all gradients; infinity for no clipping.
        max_norm: f64,
    },
}

impl Boundary {
    /// The largest norm of gradients, if they are clipped.
    pub(crate) const fn max_norm(self) -> Option<f64> {
        match self {
            Self::Asynchronous => None,
            Self::Barrier { max_norm } | Self::PostValidation { max_norm } => Some(max_norm),
        }
    }
}

/// The decision about an update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// Update with the gradients times this factor.
    Step(f64),
    /// Skip the update.
    Skip,
}

impl Verdict {
    /// The decision for gradients of this norm.
    pub(crate) fn over(norm: Norm, max_norm: f64) -> Self {
        if norm.is_bad || !norm.squares.is_finite() {
            return Self::Skip;
        }
        Self::Step(norm.clip(max_norm))
    }

    /// Whether gradients are used without scaling: the assumption of an optimistic update.
    pub(crate) fn is_plain(self) -> bool {
        self == Self::Step(1.0)
    }
}

/// A message between stages about a norm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Round {
    /// The norm of one stage, to stage 0.
    Share,
    /// The global norm, from stage 0.
    Total,
    /// The norm over the sender and all stages before it, to the next stage.
    Partial,
    /// The global norm, from the next stage.
    Final,
}

impl Round {
    /// Whether `from` sends `to` this message, in a pipeline of `stages` with this boundary.
    pub(crate) fn is_expected(
        self,
        boundary: Boundary,
        from: usize,
        to: usize,
        stages: usize,
    ) -> bool {
        let inside = from < stages && to < stages && from != to;
        let right = match (boundary, self) {
            (Boundary::Barrier { .. }, Self::Share) => to == 0,
            (Boundary::Barrier { .. }, Self::Total) => from == 0,
            (Boundary::PostValidation { .. }, Self::Partial) => from + 1 == to,
            (Boundary::PostValidation { .. }, Self::Final) => to + 1 == from,
            _ => false,
        };
        inside && right
    }
}

/// The slot of its next step before which a stage must know the global norm, at the latest: before
/// the forward number min(2 (p - 1 - stage), m - 1) of its first chunk (Zero Bubble's code), and
/// before the first pass that adds to a gradient, since a rollback needs the old gradients.
pub(crate) fn validate_before(schedule: &Schedule, stage: usize, slots: &[Slot]) -> usize {
    let shape = schedule.shape();
    let warm_up = 2 * (shape.stages() - 1 - stage);
    let forwards = warm_up.min(shape.microbatches() as usize - 1);
    let first_chunk = schedule.placement().chunks_of(shape, stage).next().unwrap_or(0);
    let mut seen = 0;
    slots
        .iter()
        .position(|slot| {
            let before = seen;
            seen += slot.passes().filter(|p| p.kind == Kind::F && p.chunk == first_chunk).count();
            let reached = before <= forwards && seen > forwards;
            reached || slot.passes().any(|pass| pass.kind != Kind::F)
        })
        .unwrap_or(0)
}
