//! The boundary between two steps: who waits for whom before weights change, and how it is decided
//! whether they do.

use pipeline::{Kind, Schedule, Slot};

use crate::worker::Norm;

/// How the optimizer steps of the stages depend on each other.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Boundary {
    /// No stage waits for another, as in PipeDream: each steps when its passes are done, without
    /// clipping.
    #[default]
    Asynchronous,
    /// All stages meet: none steps before the norm over all is known. Gradients are clipped to
    /// `max_norm`; the update is skipped where one is NaN or infinite.
    Barrier {
        /// The largest norm over all gradients; infinity for no clipping.
        max_norm: f64,
    },
    /// Optimizer post-validation (Zero Bubble, section 4): a partial norm travels from the first
    /// stage to the last, and each stage steps when it has passed, if it is fine so far; the full
    /// norm travels back during the next warm-up. Where it asks for clipping or is bad, every stage
    /// takes its step back, steps as [`Boundary::Barrier`] would have, and begins the new step anew.
    PostValidation {
        /// The largest norm over all gradients; infinity for no clipping.
        max_norm: f64,
    },
}

impl Boundary {
    /// The largest norm of gradients, if they are clipped at all.
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
    /// Step with the gradients times this.
    Step(f64),
    /// Leave the weights as they are.
    Skip,
}

impl Verdict {
    /// The verdict over gradients of this norm.
    pub(crate) fn over(norm: Norm, max_norm: f64) -> Self {
        if norm.is_bad || !norm.squares.is_finite() {
            return Self::Skip;
        }
        Self::Step(norm.clip(max_norm))
    }

    /// Whether gradients are taken as they are: what post-validation bets on.
    pub(crate) fn is_plain(self) -> bool {
        self == Self::Step(1.0)
    }
}

/// A message between stages about a norm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Round {
    /// The share of one stage, to stage 0.
    Share,
    /// The norm over all, from stage 0.
    Total,
    /// The norm over the sender and all stages before it, to the next stage.
    Partial,
    /// The norm over all, from the next stage.
    Final,
}

impl Round {
    /// Whether `from` tells `to` this, in a pipeline of `stages` with this boundary.
    pub(crate) fn is_told(
        self,
        boundary: Boundary,
        (from, to): (usize, usize),
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

/// Before which slot of its next step a stage must know the full norm, at the latest: before the
/// forward number min(2 (p - 1 - stage), m - 1) of its first chunk (Zero Bubble's code), and before
/// the first pass that adds to a gradient, since taking a step back needs the old ones.
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
