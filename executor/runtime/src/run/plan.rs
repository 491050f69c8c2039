//! The plan of a run: schedule, number of steps, boundary and links.

use std::time::Duration;

use pipeline::{Collectives, Fault, Hops, Nanos, Placement, Schedule, Slot, Timeline, Value};
use thiserror::Error;

use super::boundary::Boundary;
use super::copy_turns::{CopyTurns, PlannedCopy};
use super::update_order::obstacle;
use crate::weights::{Undo, Updates};

/// The most slots measured in one run, over all stages and steps. Bounds the memory for measurements.
pub const MAX_MEASURED: u64 = 20_000_000;

/// The longest timeout: a day.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Why a plan cannot be carried out.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum PlanError {
    #[error("steps must be at least 1")]
    NoStep,
    /// The output layer in shards, whose stages send values of several sizes.
    #[error(
        "links from device to device carry values of one size, and those between the shards of an \
         output layer (S and T) have several: run it over TCP"
    )]
    Shards,
    /// Segments that do not form whole microbatches.
    #[error(
        "{microbatches} microbatches of the schedule are not whole ones of {segments} segments"
    )]
    Segments {
        /// Segments per microbatch.
        segments: u32,
        /// Microbatches of the schedule.
        microbatches: u32,
    },
    /// Updates that cannot be made while the pipeline runs.
    #[error("weights cannot change while the pipeline runs: {what}")]
    Updates {
        /// The reason.
        what: String,
    },
    /// More steps than can be counted.
    #[error("{steps} steps with {warm_up} of warm-up are too many: at most {} in all", u32::MAX)]
    TooManySteps {
        /// Steps to measure.
        steps: u32,
        /// Steps before them.
        warm_up: u32,
    },
    /// More measurements than can be held.
    #[error(
        "{steps} steps of {slots} slots are more than can be measured in one run (at most \
         {MAX_MEASURED} slots): use at most {} steps",
        (MAX_MEASURED / slots.max(&1)).max(1)
    )]
    TooMuch {
        /// Steps to measure.
        steps: u32,
        /// Slots of each.
        slots: u64,
    },
    /// A norm that gradients cannot be clipped to.
    #[error("max norm {0}: it must be above zero")]
    MaxNorm(f64),
    /// A timeout of zero, or one that is too long.
    #[error("timeout {0:?}: it must be above zero and at most {MAX_TIMEOUT:?}")]
    Timeout(Duration),
    /// A boundary that may restart a step, over links with one fixed order of transfers.
    #[error(
        "post-validation may restart a step, in the middle of transfers that both ends have \
         agreed on: run it over TCP"
    )]
    Anew,
    /// Hops of links that the pipeline does not have.
    #[error(transparent)]
    Links(#[from] Fault),
    /// A hop longer than the timeout.
    #[error("a hop of {hop} is longer than the timeout of {timeout:?}")]
    Hop {
        /// The simulated hop.
        hop: Nanos,
        timeout: Duration,
    },
}

/// A schedule, its number of steps, and the rules of the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    schedule: Schedule,
    segments: u32,
    updates: Option<Updates>,
    steps: u32,
    warm_up: u32,
    boundary: Boundary,
    timeout: Duration,
    hops: Hops,
    collectives: Collectives,
    /// By stage.
    copies: Vec<CopyTurns>,
}

impl Plan {
    /// `steps` steps of `schedule`, all measured, without synchronization between them
    /// ([`Boundary::Asynchronous`]), with a timeout of a minute.
    pub fn new(schedule: Schedule, steps: u32) -> Result<Self, PlanError> {
        let slots = schedule.orders().iter().map(|order| order.slots().count() as u64).sum();
        if steps == 0 {
            return Err(PlanError::NoStep);
        }
        if u64::from(steps).saturating_mul(slots) > MAX_MEASURED.max(slots) {
            return Err(PlanError::TooMuch { steps, slots });
        }
        let timeout = Duration::from_secs(60);
        let boundary = Boundary::default();
        let copies = CopyTurns::of(&schedule, None);
        Ok(Self {
            schedule,
            segments: 1,
            updates: None,
            steps,
            warm_up: 0,
            boundary,
            timeout,
            hops: Hops::alike(Nanos(0)),
            collectives: Collectives::default(),
            copies,
        })
    }

    /// The same with microbatches in `segments` parts of their sequences, one for each microbatch of
    /// the schedule.
    pub fn with_segments(self, segments: u32) -> Result<Self, PlanError> {
        let microbatches = self.schedule.shape().microbatches();
        if segments == 0 || !microbatches.is_multiple_of(segments) {
            return Err(PlanError::Segments { segments, microbatches });
        }
        Ok(Self { segments, ..self })
    }

    /// The same with weights that change while the pipeline runs: a step is then a run of several
    /// updates that ends with a flush. No boundary lies between the updates.
    pub fn with_updates(self, updates: Updates) -> Result<Self, PlanError> {
        if let Some(what) = obstacle(&self.schedule, updates) {
            return Err(PlanError::Updates { what });
        }
        Self { updates: Some(updates), ..self }.meets_nobody()
    }

    fn meets_nobody(self) -> Result<Self, PlanError> {
        if self.updates.is_some() && self.boundary != Boundary::Asynchronous {
            let what = "stages that update while others run meet at no boundary".to_owned();
            return Err(PlanError::Updates { what });
        }
        Ok(self)
    }

    /// The same after `warm_up` steps that are not measured.
    pub fn with_warm_up(self, warm_up: u32) -> Result<Self, PlanError> {
        match self.steps.checked_add(warm_up) {
            None => Err(PlanError::TooManySteps { steps: self.steps, warm_up }),
            Some(_) => Ok(Self { warm_up, ..self }),
        }
    }

    /// The same with `boundary` between steps.
    pub fn with_boundary(self, boundary: Boundary) -> Result<Self, PlanError> {
        match boundary.max_norm() {
            Some(max_norm) if max_norm.is_nan() || max_norm <= 0.0 => {
                Err(PlanError::MaxNorm(max_norm))
            }
            _ => Self { boundary, ..self }.meets_nobody(),
        }
    }

    /// The same with this timeout: the longest that a stage waits for another. After it, the run
    /// ends and names the awaited stage.
    pub fn with_timeout(self, timeout: Duration) -> Result<Self, PlanError> {
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            return Err(PlanError::Timeout(timeout));
        }
        let hops = self.hops.clone();
        Self { timeout, ..self }.with_hops(hops)
    }

    /// The same over links with `hop` more latency: a value can be used no sooner than `hop` after
    /// it was made.
    pub fn with_hop(self, hop: Nanos) -> Result<Self, PlanError> {
        self.with_hops(Hops::alike(hop))
    }

    /// The same where every link has its own additional latency of `hops`.
    pub fn with_hops(self, hops: Hops) -> Result<Self, PlanError> {
        hops.check_placed(self.schedule.shape(), self.schedule.placement())?;
        let hop = hops.longest();
        if Duration::from_nanos(hop.0) > self.timeout {
            return Err(PlanError::Hop { hop, timeout: self.timeout });
        }
        Ok(Self { hops, ..self })
    }

    /// The same where collective values, and the last chunk's output where the output layer is in
    /// shards, take the times of `collectives` instead of a hop.
    pub fn with_collectives(self, collectives: Collectives) -> Result<Self, PlanError> {
        let Collectives { broadcast, statistics, hidden_gradient } = collectives;
        let hop = broadcast.max(statistics).max(hidden_gradient);
        if Duration::from_nanos(hop.0) > self.timeout {
            return Err(PlanError::Hop { hop, timeout: self.timeout });
        }
        Ok(Self { collectives, ..self })
    }

    /// The same where copies to the host free memory, and copies back allocate it, in the order
    /// `planned` among the slots of `timeline`, so that the activations of each stage take the
    /// planned bytes. Without it, a copy is done before the slot that follows.
    #[must_use]
    pub fn with_copies(self, timeline: &Timeline, planned: &[PlannedCopy]) -> Self {
        let copies = CopyTurns::of(&self.schedule, Some((timeline, planned)));
        Self { copies, ..self }
    }

    /// The schedule to run.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Segments per microbatch: 1 where sequences are whole.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// The updates while the pipeline runs, if there are any.
    #[must_use]
    pub const fn updates(&self) -> Option<Updates> {
        self.updates
    }

    /// Number of losses of updates per step, beside its own.
    pub(crate) fn updates_of_step(&self) -> usize {
        self.updates.map_or(0, |updates| updates.per_step(&self.schedule) as usize)
    }

    /// Whole microbatches of a step.
    #[must_use]
    pub const fn microbatches(&self) -> u32 {
        self.schedule.shape().microbatches() / self.segments
    }

    /// Number of measured steps.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Number of warm-up steps.
    #[must_use]
    pub const fn warm_up(&self) -> u32 {
        self.warm_up
    }

    /// Number of all steps.
    #[must_use]
    pub const fn all_steps(&self) -> u32 {
        self.warm_up + self.steps
    }

    /// The boundary between two steps.
    #[must_use]
    pub const fn boundary(&self) -> Boundary {
        self.boundary
    }

    /// The longest that a stage waits for another.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time added to the latency of every transfer, by link.
    #[must_use]
    pub const fn hops(&self) -> &Hops {
        &self.hops
    }

    /// The time added to the latency of a transfer of `value`.
    #[must_use]
    pub fn delay(&self, value: Value) -> Nanos {
        let shape = self.schedule.shape();
        match value {
            _ if value.is_collective(shape) => self.collectives.of(value),
            // With one barrier it comes with the statistics.
            Value::HiddenGradient { .. } => self.collectives.statistics,
            Value::Output { chunk, microbatch } => self.way(chunk, microbatch),
            Value::Gradient { chunk, microbatch } => {
                chunk.checked_sub(1).map_or(Nanos(0), |below| self.way(below, microbatch))
            }
            Value::Statistics { .. } => self.hops.longest(),
        }
    }

    /// The time added between the stages of `chunk` and the next.
    fn way(&self, chunk: u16, microbatch: u32) -> Nanos {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let stage = |chunk| placement.stage(shape, chunk, microbatch);
        if chunk + 1 == shape.chunks() {
            return Nanos(0);
        }
        self.hops.between(stage(chunk), stage(chunk + 1))
    }

    /// Whether any transfer has additional latency.
    pub(crate) fn has_delays(&self) -> bool {
        self.hops.longest() > Nanos(0) || self.collectives != Collectives::default()
    }

    pub(crate) fn copies(&self, stage: usize) -> &CopyTurns {
        &self.copies[stage]
    }

    /// The other stage that holds the weights of `stage`, if there is one.
    pub(crate) const fn twin(&self, stage: usize) -> Option<usize> {
        self.schedule.placement().twin(self.schedule.shape(), stage)
    }

    /// How updates must be undone where `asked` would do for weights on one stage. One of two
    /// stages with the same weights may update optimistically where the other does not: their
    /// weights stay equal to the bit only if an update is undone exactly.
    #[must_use]
    pub fn undo(&self, asked: Undo) -> Undo {
        let validates = matches!(self.boundary, Boundary::PostValidation { .. });
        match self.schedule.placement() {
            Placement::Mirrored if validates => Undo::Snapshot,
            _ => asked,
        }
    }

    pub(crate) fn slots(&self, stage: usize) -> Vec<Slot> {
        self.schedule.orders()[stage].slots().collect()
    }
}
