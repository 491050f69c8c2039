//! The instance of a search: pipeline, costs, limits and objective.

use std::borrow::Cow;

use pipeline::{
    Costs, Fault, Footprint, Footprints, Limits, Metrics, Nanos, PassTimes, Placement, Shape,
};
use sim::lanes::StepTimes;

/// The quantity that the search minimises.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Objective {
    /// The longest time from the first to the last pass of a stage, where every pass starts as soon as it can
    /// ([`Metrics::span`]). Where stages are not synchronised between steps a step takes no longer; it takes less
    /// where a stage can begin later without delaying another one.
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

    /// The cost of a schedule whose step takes `times`.
    pub(crate) const fn of_step(self, times: &StepTimes) -> Nanos {
        match self {
            Self::Span => times.span,
            Self::Makespan => times.makespan,
        }
    }
}

/// A pipeline, what its passes cost and hold, what each stage may hold, and the objective to minimise.
/// Backwards are split; where a whole one can be better ([`Instance::mixes`]), each is split or whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Stages, chunks, microbatches.
    pub shape: Shape,
    /// Where the chunks live: looped (one chunk per stage, or interleaved), or in a V.
    pub placement: Placement,
    /// Durations of passes and hops; the chunks that have a time of R recompute.
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

    /// Whether each backward may be split or whole: BW takes another time than B and W one after the other, or
    /// a split backward holds more. Else a whole one is no better than B and, at once, W.
    #[must_use]
    pub fn mixes(&self) -> bool {
        let mut held = (0..self.shape.chunks()).map(|chunk| self.footprints.of(chunk));
        let holds_more = held.any(|one| one.until_weight > one.until_backward);
        self.costs.overlap().is_none() && (holds_more || self.costs.has_whole())
    }

    /// The instance without whole backwards that no order of this one undercuts; itself where all backwards are split
    /// ([`Self::mixes`]). B takes min(B, BW), W what is left
    /// of BW, at most W, and no more of the activations is left for W than B held.
    ///
    /// *Proof.* In an order of this instance, let each BW be a B and right behind it a W, of the times above: both
    /// together take no more than BW did, and the gradient is there no later. A B or W of its own takes no
    /// longer, either. So the order of B and W can be timed so that no pass ends later; and at no point of it is
    /// more held, for what was freed at the end of BW is freed then, too.
    #[must_use]
    pub fn relaxed(&self) -> Cow<'_, Self> {
        if !self.mixes() {
            return Cow::Borrowed(self);
        }
        let chunk = |times: &PassTimes| {
            let whole = times.whole_backward();
            let backward_input = times.backward_input.min(whole);
            let backward_weight = times.backward_weight.min(whole - backward_input);
            PassTimes::new(times.forward, backward_input, backward_weight)
        };
        let held = (0..self.shape.chunks()).map(|chunk| {
            let held = self.footprints.of(chunk);
            Footprint { until_weight: held.until_weight.min(held.until_backward), ..held }
        });
        let costs = self.costs.clone().with_chunks(self.costs.chunks().iter().map(chunk).collect());
        let footprints = self.footprints.clone().with_chunks(held.collect());
        Cow::Owned(Self { costs, footprints, ..self.clone() })
    }
}
