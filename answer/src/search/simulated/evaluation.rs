//! Values of orders by simulations with all keys of the question.

use std::borrow::Cow;

use cases::Case;
use pipeline::{Costs, Family, Memory, Nanos, Schedule};
use question::noise::Noise;
use search::{Evaluation, Evaluator, Figure, Objective, Statistic, replica_times, training};
use sim::straggler::Stragglers;
use sim::{Details, Replay, Simulation, SimulationError};

/// Training replicas in which candidates are compared, and in which local search compares orders.
const COMPARED: u64 = 200;
/// The same where orders are changed one by one.
const CLIMBED: u64 = 8;
/// The same for a percentile.
const CLIMBED_OF_PERCENTILE: u64 = 40;

/// An order with all that the question adds to it.
#[derive(Clone)]
pub(super) struct Candidate {
    /// The family, if it is published.
    pub(super) family: Option<Family>,
    /// The order of passes.
    pub(super) order: Schedule,
    /// The same with copies to the host and collectives of parameters.
    pub(super) prepared: Schedule,
}

/// Objective of a simulation, to be minimised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// A figure without noise.
    Figure(Figure),
    /// A statistic of the step under noise, timed by an objective.
    Statistic(Statistic, Objective),
}

/// Simulates orders of `case`.
#[derive(Clone)]
pub(super) struct Simulator<'a> {
    pub(super) case: &'a Case,
    /// The costs of the case, or the same with its microbatches in another order.
    costs: Cow<'a, Costs>,
    pub(super) goal: Goal,
    /// The noise with the seed of training replicas, which no order is validated in.
    training: Option<Stragglers>,
}

impl<'a> Simulator<'a> {
    pub(super) fn new(case: &'a Case, goal: Goal) -> Self {
        let training = case.noise.as_ref().map(|noise| training(noise.stragglers()));
        Self { case, costs: Cow::Borrowed(case.problem.costs()), goal, training }
    }

    /// The same with the work of microbatch `order[i]` in the place of that of microbatch i; itself where all are
    /// alike.
    pub(super) fn with_microbatches(&self, order: &[u32]) -> Self {
        let Some(work) = self.costs.microbatch_work() else { return self.clone() };
        let costs = (*self.costs).clone().with_microbatch_work(work.ordered(order));
        Self { costs: Cow::Owned(costs), ..self.clone() }
    }

    fn simulation<'b>(&'b self, schedule: &'b Schedule) -> Simulation<'b> {
        Simulation::new(schedule, &self.costs, self.case.problem.footprints())
            .on(self.case.hardware.as_ref())
            .measured(self.case.steady)
    }

    /// `order` prepared; `None` where the problem cannot have it.
    pub(super) fn candidate(&self, family: Option<Family>, order: Schedule) -> Option<Candidate> {
        let prepared = self.case.prepared(order.clone()).ok()?;
        Some(Candidate { family, order, prepared })
    }

    /// The figure of `schedule` without noise.
    fn figure(&self, schedule: &Schedule, figure: Figure) -> Result<Nanos, SimulationError> {
        let simulation = self.simulation(schedule);
        match figure {
            Figure::Step if self.case.hardware.is_some() => {
                Ok(simulation.record(None)?.step_time())
            }
            Figure::Span => Ok(simulation.metrics(None, &mut Replay::new())?.span()),
            Figure::Makespan | Figure::Step => {
                Ok(simulation.metrics(None, &mut Replay::new())?.makespan())
            }
        }
    }

    /// Times of the step of `schedule` in replicas of `noise`, from replica 0 on, in nanoseconds; once `stop` returns
    /// true, of as many as have been timed by then.
    pub(super) fn times(
        &self,
        schedule: &Schedule,
        noise: &Stragglers,
        (objective, replicas): (Objective, u64),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<u64>, SimulationError> {
        let simulation = self.simulation(schedule).under(noise);
        replica_times(replicas, stop, |replica| {
            let metrics = simulation.metrics(Some(replica), &mut Replay::new())?;
            Ok(objective.of(&metrics).0)
        })
    }

    /// The value of `schedule` in `replicas` training replicas, in nanoseconds.
    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    pub(super) fn value_in(
        &self,
        schedule: &Schedule,
        replicas: u64,
    ) -> Result<f64, SimulationError> {
        match (self.goal, &self.training) {
            (Goal::Statistic(statistic, objective), Some(noise)) => {
                let mut times = self.times(schedule, noise, (objective, replicas), &|| false)?;
                times.sort_unstable();
                Ok(statistic.of(&times))
            }
            (Goal::Figure(figure), _) => Ok(self.figure(schedule, figure)?.0 as f64),
            (Goal::Statistic(_, objective), None) => {
                let metrics = self.simulation(schedule).metrics(None, &mut Replay::new())?;
                Ok(objective.of(&metrics).0 as f64)
            }
        }
    }

    /// The value of `one` by which candidates are compared, in nanoseconds.
    pub(super) fn value(&self, one: &Candidate) -> Result<f64, SimulationError> {
        self.value_in(&one.prepared, COMPARED)
    }

    /// Whether `one` keeps to the limits of the question and to the memory of its devices.
    pub(super) fn keeps_to_memory(&self, one: &Candidate) -> Result<bool, SimulationError> {
        let simulation = self.simulation(&one.prepared);
        let study = simulation.study(Details::default(), &mut Replay::new())?;
        let limits = self.case.limits.as_ref();
        let over = |memory: &Memory| limits.is_some_and(|limits| memory.over(limits).is_some());
        let peaks = study.occupancy.iter().flat_map(|occupancy| &occupancy.peaks);
        Ok(!over(&study.memory) && !peaks.into_iter().any(|peak| peak.overflow.is_some()))
    }

    /// Held-out noise, that of the question.
    pub(super) fn noise(&self) -> Option<&Stragglers> {
        self.case.noise.as_ref().map(Noise::stragglers)
    }

    /// Replicas that local search evaluates an order in.
    pub(super) const fn climbed(&self) -> u64 {
        match self.goal {
            Goal::Figure(_) => 1,
            Goal::Statistic(Statistic::Mean, _) => CLIMBED,
            Goal::Statistic(Statistic::P95 | Statistic::P99, _) => CLIMBED_OF_PERCENTILE,
        }
    }
}

impl Evaluator for Simulator<'_> {
    fn evaluate(&self, schedule: &Schedule) -> Option<Evaluation> {
        let prepared = self.case.prepared(schedule.clone()).ok()?;
        let value = self.value_in(&prepared, self.climbed()).ok()?;
        let timeline = self.simulation(&prepared).timeline(None).ok()?;
        Some(Evaluation { value, timeline })
    }

    fn passes(&self) -> u64 {
        let steps = self.case.hardware.as_ref().map_or(1, |hardware| u64::from(hardware.steps));
        let passes = 3 * self.case.schedule.shape().cells() as u64;
        passes.saturating_mul(steps).saturating_mul(self.climbed() + 1)
    }

    fn fits(&self, schedule: &Schedule) -> bool {
        let one = self.candidate(None, schedule.clone());
        one.is_some_and(|one| self.keeps_to_memory(&one).unwrap_or(false))
    }
}
