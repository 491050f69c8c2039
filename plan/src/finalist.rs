//! A set-up of the answer, run by the event engine: transfers on wires that they share, in place of
//! the time that replay counts for them with the passes.
//!
//! A stage does nothing else until what it has made has arrived, as replay has it. The two differ
//! where values meet on a wire, and where copies to the host do: a run is never shorter than replay
//! says. But copies begin here while their stage still sends, so that a backward which waits for one may
//! run up to a transfer sooner.

use std::sync::Arc;

use pipeline::{Bytes, Costs, Fault, Memory, Metrics, Nanos, Schedule};
use sim::boundary::{self, GradientReduction, Synchronisation};
use sim::cluster::ClusterError;
use sim::engine::{
    self, Communication, Durations, EngineError, Job, Messages, NominalDurations, Protocol, Run,
};
use sim::occupancy::{Occupancy, activation_peaks};
use sim::{Hardware, Replay, Sharing};
use thiserror::Error;

use crate::costed::{Costed, Rejected, fits};
use crate::evaluate::Evaluation;
use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::limits;
use crate::memory::StageMemory;
use crate::orders::Orders;
use crate::searched;
use crate::setup::{Boundary, Setup, Unfit};
use crate::software::Options;

/// Why a set-up has no run.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FinalistError {
    /// The engine's order cannot be made, or holds more than a device has.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Its devices are not a cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The run does not finish.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<Fault> for FinalistError {
    fn from(fault: Fault) -> Self {
        Self::Rejected(Rejected::Schedule(fault))
    }
}

/// A set-up that the event engine has run, without noise.
#[derive(Clone, Debug)]
pub struct Finalist {
    /// The evaluation by replay.
    pub evaluation: Evaluation,
    /// Where its stages sit.
    pub layout: Layout,
    /// Passes without transfers; the hop is the longest transfer, which families reckon with.
    pub costs: Costs,
    /// When each stage works.
    pub metrics: Metrics,
    /// By stage, the time it waits until its output has arrived.
    pub sending: Vec<Nanos>,
    /// A step with all the time between two steps.
    pub step: Nanos,
    /// The memory that each stage holds all the time, without the part that the engine counts
    /// itself: buffers of values in flight, as far as the framework's reserve has them.
    pub resident: Vec<Bytes>,
    schedule: Arc<Schedule>,
    /// The hardware that it runs on, for a step, or for as many as it takes to know one.
    hardware: Hardware,
}

impl Inputs<'_> {
    /// `evaluation` run by the engine.
    pub fn finalist(&self, evaluation: Evaluation) -> Result<Finalist, FinalistError> {
        self.finalist_in(evaluation, &Orders::default())
    }

    /// The set-up of `known` with its order, which was made for other machines.
    pub fn again(&self, known: &Finalist) -> Result<Finalist, FinalistError> {
        self.again_with(known, known.costed().setup.options)
    }

    /// The same with the software of `options` in place of its own.
    pub fn again_with(
        &self,
        known: &Finalist,
        options: Options,
    ) -> Result<Finalist, FinalistError> {
        let orders = Orders::given(Arc::clone(&known.schedule));
        let setup = Setup { options, ..known.costed().setup };
        let layout = known.costed().layout();
        let inputs = Inputs { layout: layout.as_ref(), ..*self };
        let costed = Costed { limit: known.costed().limit, ..inputs.cost(&setup)? };
        let evaluation = self.evaluate_one(costed, &mut Replay::new(), &orders)?;
        self.finalist_in(evaluation, &orders)
    }

    /// The run that is worth its memory, of the evaluations `all` of one set-up under its limits. Only candidates for it are run, since a run is never shorter than its replay
    /// (except slightly, with copies to the host).
    pub(crate) fn settle(
        &self,
        all: Vec<Evaluation>,
        orders: &Orders<'_>,
    ) -> Result<Finalist, FinalistError> {
        let mut by_step: Vec<(usize, Evaluation)> = all.into_iter().enumerate().collect();
        by_step.sort_by_key(|(_, evaluation)| evaluation.step);
        let mut runs: Vec<(usize, Finalist)> = Vec::new();
        let mut failed = FinalistError::Rejected(Rejected::Unfit(Unfit::TooLarge));
        for (at, evaluation) in by_step {
            let fastest = runs.iter().map(|(_, run)| run.step).min();
            if fastest.is_some_and(|fastest| !limits::matters(evaluation.step, fastest)) {
                break;
            }
            match self.finalist_in(evaluation, orders) {
                Ok(run) => runs.push((at, run)),
                Err(error) => failed = error,
            }
        }
        runs.sort_by_key(|(at, _)| *at);
        let taken = limits::worth(runs.iter().map(|(_, run)| (run.costed().limit, run.step)))
            .ok_or(failed)?;
        Ok(runs.swap_remove(taken).1)
    }

    fn finalist_in(
        &self,
        evaluation: Evaluation,
        orders: &Orders<'_>,
    ) -> Result<Finalist, FinalistError> {
        let costed = &evaluation.costed;
        let layout = Layout::new(&costed.setup, self)?;
        let (cluster, seats) = layout.seated()?;
        let at = (costed.shape, costed.setup.family.about().placement);
        let hop = cluster.longest_hop(&seats, at, costed.message);
        let costs = costed.apart.clone().with_hop(hop);
        let schedule = orders.of(costed)?;
        let hardware = Hardware {
            communication: Communication {
                sharing: Sharing::Fair,
                protocol: Protocol::Eager,
                blocking: true,
            },
            messages: Messages { bytes: costed.message },
            steps: steps(self.recipe.boundary),
            boundary: crossing(self.recipe.boundary, costed),
            ..Hardware::new(cluster, seats)
        };
        let mut finalist = Finalist {
            layout,
            costs,
            metrics: evaluation.metrics.clone(),
            sending: Vec::new(),
            step: Nanos(0),
            resident: costed.resident.iter().map(StageMemory::sum).collect(),
            schedule,
            hardware,
            evaluation,
        };
        let one = engine::run(&Job { steps: 1, ..finalist.job() }, &NominalDurations)?;
        finalist.hold(&one, self.recipe.reserved)?;
        let last = finalist.steps() - 1;
        let run = if last > 0 { engine::run(&finalist.job(), &NominalDurations)? } else { one };
        finalist.metrics = run.metrics(last);
        finalist.step = run.step_time();
        finalist.sending = sending(&run, last, finalist.hardware.seats.devices().len());
        Ok(finalist)
    }
}

impl Finalist {
    /// The set-up and its costs.
    #[must_use]
    pub const fn costed(&self) -> &Costed {
        &self.evaluation.costed
    }

    /// The bytes that cross between two stages for a microbatch.
    #[must_use]
    pub const fn message(&self) -> Bytes {
        self.evaluation.costed.message
    }

    /// Relative increase of the step by the engine over the step by replay.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn over_replay(&self) -> f64 {
        self.step.0 as f64 / self.evaluation.step.0.max(1) as f64 - 1.0
    }

    /// Lower bound of a step over all orders of the same passes on the same stages within the memory of
    /// its devices: [`search::bounds::best`] plus the time between two steps. `None` where passes have features
    /// that no bound covers (two streams, shards of the vocabulary, copies to the host), or are too
    /// many to bound.
    #[must_use]
    pub fn least_step(&self) -> Option<Nanos> {
        let costed = self.costed();
        if !searched::is_known(costed) || !searched::is_small(costed) {
            return None;
        }
        searched::least(costed, None).ok()
    }

    pub fn step_under(&self, durations: &impl Durations) -> Result<Nanos, EngineError> {
        let run = engine::run(&self.job(), durations)?;
        let ends = run.releases.iter().flatten().max();
        // A clock near its end tells no time.
        if ends.is_some_and(|end| end.0 > u64::MAX / 4) {
            return Err(Fault::Overflow { what: "the times" }.into());
        }
        Ok(run.step_length(self.steps() - 1))
    }

    /// A step whose transfers run beside passes, where those of [`Finalist::step`] hold up the stage that
    /// sends.
    pub fn step_with_transfers_beside(&self) -> Result<Nanos, EngineError> {
        let mut hardware = self.hardware.clone();
        hardware.communication.blocking = false;
        let footprints = &self.evaluation.costed.footprints;
        let job = hardware.job(&self.schedule, &self.costs, footprints);
        Ok(engine::run(&job, &NominalDurations)?.step_time())
    }

    /// The order of its passes.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The passes that the engine runs to know a step.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.schedule.passes() * self.steps() as usize
    }

    /// How many steps the engine runs to know one: where stages do not meet, they begin the first
    /// together and the others as they follow each other.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.hardware.steps
    }

    /// Bubble rate: the share of a step, without the time between two steps, in which the average stage
    /// waits.
    #[must_use]
    pub fn bubble_rate(&self) -> f64 {
        match self.hardware.boundary.synchronisation {
            Synchronisation::Barrier => self.metrics.bubble_rate_makespan(),
            Synchronisation::PostValidation { .. } | Synchronisation::Asynchronous => {
                let Costed { exchange, optimizer, latency, .. } = *self.costed();
                let others = [optimizer, latency];
                let between = others.iter().fold(exchange.0, |sum, one| sum.saturating_add(one.0));
                self.metrics.bubble_rate_of(Nanos(self.step.0.saturating_sub(between)))
            }
        }
    }

    /// The boundary between two steps. At a barrier, gradients are reduced when all stages have
    /// met; under post-validation each stage reduces its own when it is done, in a part for each of
    /// its chunks, and passing the state on takes no time.
    #[must_use]
    pub const fn crossing(&self) -> &boundary::Boundary {
        &self.hardware.boundary
    }

    fn job(&self) -> Job<'_> {
        let footprints = &self.evaluation.costed.footprints;
        self.hardware.job(&self.schedule, &self.costs, footprints)
    }

    /// Follows the memory of `run`, one step, in which `reserved` of each device is for buffers.
    fn hold(&mut self, run: &Run, reserved: Bytes) -> Result<(), FinalistError> {
        let costed = &self.evaluation.costed;
        let footprints = &costed.footprints;
        // Copies to the host take other times than in replay.
        let (peaks, memory) = match self.schedule.copies() {
            None => {
                (Memory::of(&self.schedule, footprints)?.peak, costed.held_along(&self.schedule)?)
            }
            Some(_) => {
                let (schedule, timeline) = (&self.schedule, &run.timeline);
                let peaks = activation_peaks(schedule, timeline, &run.copies, footprints)?;
                let held = costed.with_activations(peaks.clone());
                (peaks, costed.with_graphs(schedule, held)?)
            }
        };
        let job = Job { steps: 1, ..self.job() };
        let occupancy = Occupancy::of(run, &job, footprints, &self.hardware.resident, None)?;
        let most = |device: usize| {
            let peaks = occupancy.peaks.iter();
            peaks.filter(|peak| peak.device == device).map(|peak| peak.bytes).max()
        };
        let mut resident = Vec::new();
        let mut needs = Vec::new();
        for (stage, held) in memory.iter().enumerate() {
            let most = most(self.hardware.seats.device(stage)).unwrap_or_default();
            // Bytes that the device holds beyond activations are in transit.
            let transit = Bytes(most.0.saturating_sub(peaks[stage].0));
            // Gradients that are held for a while count as far as they make a higher peak.
            let passing = held.sum().0.saturating_sub(self.resident[stage].0 + peaks[stage].0);
            let own =
                self.resident[stage].0 - transit.0.min(reserved.0).min(self.resident[stage].0);
            let own = own.saturating_add(passing);
            resident.push(Bytes(own));
            needs.push(Bytes(own.saturating_add(most.0)));
        }
        fits(needs.into_iter(), &self.evaluation.costed.capacities)?;
        self.resident = resident;
        self.evaluation.memory = memory;
        Ok(())
    }
}

/// How many steps the engine runs to know one under `boundary`.
const fn steps(boundary: Boundary) -> u32 {
    match boundary {
        Boundary::Barrier => 1,
        Boundary::PostValidation => 3,
    }
}

/// The boundary between two steps of `costed` under `boundary`: see [`Finalist::crossing`].
fn crossing(boundary: Boundary, costed: &Costed) -> boundary::Boundary {
    let Costed { exchange, optimizer, latency, shape, .. } = *costed;
    let optimizer = optimizer + latency;
    let none = boundary::Boundary { optimizer, ..boundary::Boundary::default() };
    match boundary {
        Boundary::Barrier => boundary::Boundary { exchange, ..none },
        Boundary::PostValidation => {
            let chunks = u64::from(shape.chunks_per_stage());
            let time = Nanos(exchange.0.div_ceil(chunks));
            boundary::Boundary {
                reduction: GradientReduction { time, overlapped: false },
                synchronisation: Synchronisation::PostValidation {
                    failing: Vec::new(),
                    rollback: Nanos(0),
                },
                ..none
            }
        }
    }
}

/// By stage, how long values of step `step` take from when they are made until they arrive.
fn sending(run: &Run, step: u32, stages: usize) -> Vec<Nanos> {
    let mut all = vec![Nanos(0); stages];
    for transfer in run.transfers.iter().filter(|transfer| transfer.step == step) {
        all[transfer.from] += transfer.end - transfer.made;
    }
    all
}
