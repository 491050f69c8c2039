//! A schedule with everything it is simulated under, and the one place that decides which clock times
//! it.
//!
//! A [`Simulation`] on a cluster is timed by the event [`engine`](crate::engine); without one by
//! [`Replay`], or, under noise, by [`timed`]. A schedule that never flushes is measured in its steady
//! state. Whoever asks says which replica of the noise is meant, and never which clock.
//!
//! ```
//! use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
//! use sim::straggler::{Jitter, Stragglers};
//! use sim::{Replay, Simulation, Details};
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let ms = Nanos(1_000_000);
//! let times = PassTimes::new(ms, ms, ms);
//! let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(10_000)))?;
//! let schedule = Family::ZbH1.schedule(&problem)?;
//! let mut noise = Stragglers::new(4, 42);
//! noise.jitter_passes(Jitter::log_normal(0.05)?);
//!
//! let simulation =
//!     Simulation::new(&schedule, problem.costs(), problem.footprints()).under(&noise);
//! let study = simulation.study(Details { run: true, ..Details::default() }, &mut Replay::new())?;
//! let causes = simulation.causes(study.kept.run().expect("it was wanted"), study.nominal.as_ref())?;
//! assert_eq!(causes.cost, study.metrics.span());
//! let all = simulation.replicas(100, || {}, || false)?;
//! assert!(all.span.min <= study.metrics.span().0 && study.metrics.span().0 <= all.span.max);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod idle;
mod links;
mod study;
mod unshared;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pipeline::{Costs, Fault, Footprints, Metrics, Nanos, Schedule, SteadyState, Timeline};
use thiserror::Error;

pub use links::FasterLinks;
pub use study::{Details, Kept, Study};

use crate::engine::{self, Durations, EngineError, Job, Run};
use crate::explain;
use crate::hardware::Hardware;
use crate::lanes::{NoisyOrder, REPLICAS};
use crate::monte_carlo::{self, MonteCarlo, Replica, ReplicaCount};
use crate::replay::Replay;
use crate::steady::Repeating;
use crate::straggler::{NoisyTiming, Stragglers};
use crate::timed::{self, Nominal, SideOps, Timing};
use links::Faster;
use unshared::UnsharedTiming;

/// Fewer replicas are timed sooner than an order is compiled for them.
const FEWEST_IN_LANES: u64 = 8;

/// Why a simulation has no result.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SimulationError {
    /// Costs or footprints of another pipeline, times too large for the clock, or a pipeline that
    /// gets stuck.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A number of replicas that cannot be run.
    #[error(transparent)]
    Replicas(#[from] ReplicaCount),
}

impl From<Fault> for SimulationError {
    fn from(fault: Fault) -> Self {
        Self::Engine(fault.into())
    }
}

/// How often the event engine has run.
#[derive(Default, Debug)]
pub struct EngineRuns(AtomicU64);

impl EngineRuns {
    /// The number of runs so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, runs: u64) {
        self.0.fetch_add(runs, Ordering::Relaxed);
    }
}

/// A schedule, how long its passes take, what it runs on, and the noise it is under. It holds no
/// results: a [`Study`] does.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    schedule: &'a Schedule,
    costs: &'a Costs,
    footprints: &'a Footprints,
    hardware: Option<&'a Hardware>,
    steady: Option<SteadyState>,
    repeating: Option<&'a Repeating>,
    noise: Option<&'a Stragglers>,
    engine_runs: Option<&'a EngineRuns>,
}

impl<'a> Simulation<'a> {
    /// One step of `schedule` without noise, where links are never shared and chunks keep
    /// `footprints`.
    #[must_use]
    pub const fn new(schedule: &'a Schedule, costs: &'a Costs, footprints: &'a Footprints) -> Self {
        Self {
            schedule,
            costs,
            footprints,
            hardware: None,
            steady: None,
            repeating: None,
            noise: None,
            engine_runs: None,
        }
    }

    /// The same on `hardware`, if there is some: the event engine times it.
    #[must_use]
    pub fn on(self, hardware: impl Into<Option<&'a Hardware>>) -> Self {
        Self { hardware: hardware.into(), ..self }
    }

    /// The same measured in the steady state, if the schedule never flushes. Hardware goes before:
    /// its steps are those of a pipeline that flushes.
    #[must_use]
    pub fn measured(self, steady: impl Into<Option<SteadyState>>) -> Self {
        Self { steady: steady.into(), ..self }
    }

    /// The same for the whole of the `repeating` step for which the schedule stands, if it stands for one. Metrics are
    /// then those of the whole step, unless there is noise or hardware; timelines and runs are those of the schedule.
    #[must_use]
    pub fn repeating(self, repeating: impl Into<Option<&'a Repeating>>) -> Self {
        Self { repeating: repeating.into(), ..self }
    }

    /// The same under `noise`, if there is some.
    #[must_use]
    pub fn under(self, noise: impl Into<Option<&'a Stragglers>>) -> Self {
        Self { noise: noise.into(), ..self }
    }

    /// The same, with every run of the event engine added to `runs`.
    #[must_use]
    pub const fn counted_by(self, runs: &'a EngineRuns) -> Self {
        Self { engine_runs: Some(runs), ..self }
    }

    /// The same on the hardware, under the noise and in the steady state of `other`, its runs counted
    /// there.
    #[must_use]
    pub(crate) const fn in_place_of(self, other: &Self) -> Self {
        let Self { schedule, costs, footprints, repeating, .. } = self;
        Self { schedule, costs, footprints, repeating, ..*other }
    }

    /// The order of passes.
    #[must_use]
    pub const fn schedule(&self) -> &'a Schedule {
        self.schedule
    }

    /// Durations of passes and hops without noise.
    #[must_use]
    pub const fn costs(&self) -> &'a Costs {
        self.costs
    }

    /// The activations that chunks keep from forward to backward.
    #[must_use]
    pub const fn footprints(&self) -> &'a Footprints {
        self.footprints
    }

    /// The hardware that it runs on, if that is given.
    #[must_use]
    pub const fn hardware(&self) -> Option<&'a Hardware> {
        self.hardware
    }

    /// The replica that stands for all in tables and pictures: replica 0, if there is noise.
    #[must_use]
    pub fn shown(&self) -> Option<u64> {
        self.noise.map(|_| 0)
    }

    /// The device of each stage: its own without hardware.
    #[must_use]
    pub fn devices(&self) -> Vec<usize> {
        match self.hardware {
            Some(hardware) => hardware.seats.devices().to_vec(),
            None => (0..self.schedule.shape().stages()).collect(),
        }
    }

    /// When each stage works in `replica` of the noise, or without noise; on hardware, in the last
    /// step.
    ///
    /// # Errors
    /// If costs or footprints are those of another pipeline, the clock overflows, or the pipeline
    /// gets stuck.
    pub fn metrics(
        &self,
        replica: Option<u64>,
        replay: &mut Replay,
    ) -> Result<Metrics, SimulationError> {
        if self.hardware.is_none() && self.steady.is_none() {
            return match self.sample(replica) {
                Some(timing) => {
                    let metrics = timed::metrics(self.schedule, &timing);
                    within_clock(metrics.makespan())?;
                    Ok(metrics)
                }
                None => Ok(match self.repeating {
                    Some(repeating) => repeating.metrics(self.costs)?,
                    None => replay.metrics(self.schedule, self.costs)?,
                }),
            };
        }
        Ok(self.metrics_of(&self.walk(replica, replay)?))
    }

    /// Everything that happens in `replica` of the noise, or without noise: slots, transfers,
    /// collectives and copies; on hardware, in all steps.
    ///
    /// # Errors
    /// Those of [`Self::metrics`].
    pub fn record(&self, replica: Option<u64>) -> Result<Run, SimulationError> {
        Ok(self.completed(self.walk(replica, &mut Replay::new())?, replica))
    }

    /// When each slot runs in `replica` of the noise, or without noise; on hardware, in all steps.
    ///
    /// # Errors
    /// Those of [`Self::metrics`].
    pub fn timeline(&self, replica: Option<u64>) -> Result<Timeline, SimulationError> {
        Ok(self.walk(replica, &mut Replay::new())?.timeline)
    }

    /// Duration of a step with faster `links`, as in [`explain::Causes`]; under noise, in replica
    /// 0.
    ///
    /// # Errors
    /// Those of [`Self::metrics`].
    pub fn step(&self, links: FasterLinks) -> Result<Nanos, SimulationError> {
        if let Some(hardware) = self.hardware {
            let run = self.run_engine(hardware, self.shown(), links)?;
            return Ok(run.step_length(hardware.steps - 1));
        }
        let inner = self.unshared(self.shown());
        Ok(timed::metrics(self.schedule, &Faster { inner, links }).span())
    }

    /// How the step is distributed over `count` replicas, run in parallel; after `stop` says so, over
    /// those that were run by then. `done` is called after each.
    ///
    /// # Errors
    /// That of the first replica in number that has one, or [`SimulationError::Replicas`].
    pub fn replicas(
        &self,
        count: u64,
        done: impl Fn() + Sync,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<MonteCarlo, SimulationError> {
        let failed: Mutex<Option<(u64, SimulationError)>> = Mutex::new(None);
        let one = |replica| {
            let metrics = self.metrics(Some(replica), &mut Replay::new()).unwrap_or_else(|error| {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| replica < *first) {
                    *failed = Some((replica, error));
                }
                Metrics { stages: Vec::new() }
            });
            Replica::of(&metrics)
        };
        let order = (count >= FEWEST_IN_LANES).then(|| self.in_lanes()).flatten();
        let order = order.as_ref();
        let size = if order.is_some() { REPLICAS } else { 1 };
        let result = monte_carlo::run_blocks(
            (count, size),
            stop,
            || order.map(|order| (order, order.tables())),
            |lanes, first, all| {
                let times = lanes.as_mut().map(|(order, tables)| order.replay(tables, first));
                let times = times.unwrap_or([None; REPLICAS]);
                for ((replica, times), number) in all.iter_mut().zip(times).zip(first..) {
                    *replica = times.map_or_else(|| one(number), Replica::of);
                    done();
                }
            },
        );
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(result?),
        }
    }

    /// The order and the noise for many replicas at once, where links are not shared and times do not depend on when
    /// passes begin.
    fn in_lanes(&self) -> Option<NoisyOrder<'a>> {
        let noise = self.noise.filter(|_| self.hardware.is_none() && self.steady.is_none());
        NoisyOrder::new(self.schedule, self.costs, noise?)
    }

    /// Whether the step is one without noise where links are not shared.
    pub(crate) const fn is_replayed(&self) -> bool {
        self.hardware.is_none() && self.noise.is_none()
    }

    /// The question to the event engine, if the simulation is on hardware.
    pub(crate) fn job(&self) -> Option<Job<'a>> {
        Some(self.hardware?.job(self.schedule, self.costs, self.footprints))
    }

    /// Runs slots and copies, and everything else on hardware, in `replica`.
    fn walk(&self, replica: Option<u64>, replay: &mut Replay) -> Result<Run, SimulationError> {
        if let Some(hardware) = self.hardware {
            return Ok(self.run_engine(hardware, replica, FasterLinks::None)?);
        }
        let (timeline, beside) = match (self.sample(replica), self.schedule.has_streams()) {
            (None, false) => (replay.timeline(self.schedule, self.costs)?, SideOps::default()),
            (None, true) => {
                self.costs.check(self.schedule.shape())?;
                timed::record(self.schedule, &Nominal(self.costs), self.footprints)
            }
            (Some(timing), _) => {
                let record = timed::record(self.schedule, &timing, self.footprints);
                within_clock(Metrics::of(&record.0).makespan())?;
                record
            }
        };
        Ok(bare(timeline, beside))
    }

    /// `run`, a [`Self::walk`] of `replica`, with its transfers and collectives.
    fn completed(&self, run: Run, replica: Option<u64>) -> Run {
        if self.hardware.is_some() {
            return run;
        }
        let Run { timeline, copies, parameters, .. } = run;
        let unshared = self.unshared(replica);
        let run = explain::unshared(self.schedule, timeline, |value, from, to, made| {
            unshared.hop(value, from, to, made)
        });
        Run { copies, parameters, ..explain::with_collectives(run, self.schedule, self.costs) }
    }

    fn metrics_of(&self, run: &Run) -> Metrics {
        match (self.hardware, self.steady) {
            (Some(hardware), _) => run.metrics(hardware.steps - 1),
            (None, Some(steady)) => steady.metrics(self.schedule.shape(), &run.timeline),
            (None, None) => run.replayed_metrics(),
        }
    }

    fn run_engine(
        &self,
        hardware: &'a Hardware,
        replica: Option<u64>,
        links: FasterLinks,
    ) -> Result<Run, EngineError> {
        let job = hardware.job(self.schedule, self.costs, self.footprints);
        match replica.zip(self.noise) {
            Some((replica, noise)) => {
                let inner = noise.durations(replica, self.costs);
                self.engine(&job, &Faster { inner, links })
            }
            None => self.engine(&job, &Faster { inner: engine::NominalDurations, links }),
        }
    }

    /// One run of the event engine, counted.
    fn engine(&self, job: &Job<'_>, durations: &impl Durations) -> Result<Run, EngineError> {
        self.count_runs(1);
        engine::run(job, durations)
    }

    fn count_runs(&self, runs: u64) {
        if let Some(count) = self.engine_runs {
            count.add(runs);
        }
    }

    /// Durations in `replica` of the noise, if there is noise and links are not shared.
    fn sample(&self, replica: Option<u64>) -> Option<NoisyTiming<'a>> {
        let (replica, noise) = replica.zip(self.noise)?;
        Some(noise.sample(replica, 0).timing(self.costs))
    }

    fn unshared(&self, replica: Option<u64>) -> UnsharedTiming<'a> {
        match self.sample(replica) {
            Some(timing) => UnsharedTiming::Replica(timing),
            None => UnsharedTiming::Nominal(Nominal(self.costs)),
        }
    }
}

/// A run of slots and of the operations beside them, without transfers or collectives.
fn bare(timeline: Timeline, beside: SideOps) -> Run {
    let SideOps { copies, parameters } = beside;
    Run {
        timeline,
        transfers: Vec::new(),
        collectives: Vec::new(),
        copies,
        all_to_alls: Vec::new(),
        parameters,
        releases: Vec::new(),
        events: 0,
    }
}

/// Refuses a makespan at the end of the clock, which saturates.
fn within_clock(makespan: Nanos) -> Result<(), Fault> {
    if makespan.0 == u64::MAX { Err(Fault::Overflow { what: "the times" }) } else { Ok(()) }
}
