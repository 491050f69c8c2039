//! The instance of a search: pipeline, costs, limits and objective.

use pipeline::{Costs, Fault, Footprints, Limits, Metrics, Nanos, Placement, Shape};

/// The quantity that the search minimises.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Objective {
    /// The longest time from the first to the last pass of a stage: the time per step where the
    /// stages are not synchronised between steps ([`Metrics::span`]).
    #[default]
    Span,
    /// The end of the last pass of any stage ([`Metrics::makespan`]).
    Makespan,
}

impl Objective {
    /// The cost of a schedule with `metrics`.
    #[must_use]
    pub fn of(self, metrics: &Metrics) -> Nanos {
        match self {
            Self::Span => metrics.span(),
            Self::Makespan => metrics.makespan(),
        }
    }
}

/// A pipeline whose backwards are split, what its passes cost and hold, what each stage may hold,
/// and what is to be small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Stages, chunks, microbatches.
    pub shape: Shape,
    /// Where the chunks live: looped (one chunk per stage, or interleaved), or in a V.
    pub placement: Placement,
    /// How long passes and hops take; the chunks that have a time of R recompute.
    pub costs: Costs,
    /// The activations that each microbatch holds in each chunk.
    pub footprints: Footprints,
    /// The memory limit of each stage, if there is one.
    pub limits: Option<Limits>,
    /// The quantity to minimise.
    pub objective: Objective,
}

impl Instance {
    /// Puts the parts together.
    ///
    /// # Errors
    /// If costs or footprints are those of another pipeline, or overflow, or if the forward of a chunk keeps
    /// only a part that is not recomputed.
    pub fn new(
        shape: Shape,
        placement: Placement,
        costs: Costs,
        footprints: Footprints,
        limits: Option<Limits>,
        objective: Objective,
    ) -> Result<Self, Fault> {
        costs.check(shape)?;
        costs.hops().check_placed(shape, placement)?;
        footprints.check(shape)?;
        let lost =
            |&chunk: &u16| footprints.kept(chunk).is_some() && costs.recompute(chunk).is_none();
        if let Some(chunk) = (0..shape.chunks()).find(lost) {
            return Err(Fault::NotRecomputed { chunk });
        }
        Ok(Self { shape, placement, costs, footprints, limits, objective })
    }
}
