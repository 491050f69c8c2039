//! Evaluation of orders by the event engine.

use pipeline::{Bytes, Family, Memory, Nanos, Schedule};
use sim::engine::{EngineError, Run};
use sim::{Replay, Simulation, SimulationError};

use super::{Figure, OnHardware, proxy};
use crate::climb::{self, Evaluation};
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::instance::Instance;
use crate::start;
use crate::timing::Clock;

/// Figures of an order by the event engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FiguresOnHardware {
    /// Its cost where no link is shared.
    pub nominal: Nanos,
    /// The longest time from the first to the last pass of a stage, in the last step.
    pub span: Nanos,
    /// The time from the first pass of the last step to the end of its last one.
    pub makespan: Nanos,
    /// The time per step, with everything between two steps.
    pub step: Nanos,
    /// The figure that was asked for.
    pub value: Nanos,
    /// The most that any stage holds of activations.
    pub peak: Bytes,
    /// Whether a device holds more than it has.
    pub is_out_of_memory: bool,
}

impl FiguresOnHardware {
    /// Sort key of orders: those that fit their devices come first, then the figure asked for.
    const fn rank(&self) -> (bool, Nanos) {
        (self.is_out_of_memory, self.value)
    }
}

/// The best order of those that were evaluated.
pub(super) struct Best {
    pub(super) schedule: Schedule,
    pub(super) figures: FiguresOnHardware,
    /// By link, the mean time of its transfers.
    pub(super) links: Vec<Option<Nanos>>,
    /// Its number among all evaluated orders.
    number: u64,
}

impl climb::Evaluator for Evaluator<'_> {
    #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
    fn evaluate(&self, schedule: &Schedule) -> Option<Evaluation> {
        let run = self.run(schedule).ok()?;
        Some(Evaluation { value: self.value(&run).0 as f64, timeline: run.timeline })
    }

    fn passes(&self) -> u64 {
        let steps = u64::from(self.on.hardware.steps);
        (crate::check::passes(self.instance) as u64).saturating_mul(steps)
    }

    /// Whether the order fits its devices; true without a run where the best order so far does not.
    fn fits(&self, schedule: &Schedule) -> bool {
        if self.best.as_ref().is_some_and(|best| best.figures.is_out_of_memory) {
            return true;
        }
        let run = self.run(schedule);
        run.is_ok_and(|run| self.is_out_of_memory(schedule, &run).is_ok_and(|full| !full))
    }
}

/// Evaluates orders by the event engine, and keeps the best.
pub(super) struct Evaluator<'a> {
    instance: &'a Instance,
    on: &'a OnHardware<'a>,
    best: Option<Best>,
    published: Vec<(Family, FiguresOnHardware)>,
    failed: Option<SimulationError>,
    pub(super) evaluated: u64,
    pub(super) stuck: u64,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(instance: &'a Instance, on: &'a OnHardware<'a>) -> Self {
        Self {
            instance,
            on,
            best: None,
            published: Vec::new(),
            failed: None,
            evaluated: 0,
            stuck: 0,
        }
    }

    /// Figures of `schedule` by the engine; `None` if it deadlocks.
    pub(super) fn order(
        &mut self,
        schedule: &Schedule,
    ) -> Result<Option<FiguresOnHardware>, SearchError> {
        self.evaluated += 1;
        let run = match self.run(schedule) {
            Ok(run) => run,
            Err(error @ SimulationError::Engine(EngineError::Stuck(_))) => {
                self.stuck += 1;
                self.failed.get_or_insert(error);
                return Ok(None);
            }
            Err(error) => return Err(SearchError::OnHardware(error)),
        };
        let figures = self.figures(schedule, &run)?;
        if self.best.as_ref().is_none_or(|best| figures.rank() < best.figures.rank()) {
            let links = proxy::measured(self.instance, &run);
            let (schedule, number) = (schedule.clone(), self.evaluated);
            self.best = Some(Best { schedule, figures, links, number });
        }
        Ok(Some(figures))
    }

    fn simulation<'b>(&'b self, schedule: &'b Schedule) -> Simulation<'b> {
        let (costs, footprints) = (self.on.asked.costs(), &self.instance.footprints);
        Simulation::new(schedule, costs, footprints).on(self.on.hardware)
    }

    /// The run of `schedule` by the engine.
    fn run(&self, schedule: &Schedule) -> Result<Run, SimulationError> {
        self.simulation(schedule).record(None)
    }

    /// The figure of `run` that is asked for.
    fn value(&self, run: &Run) -> Nanos {
        let last = self.on.hardware.steps - 1;
        match self.on.figure {
            Figure::Span => run.metrics(last).span(),
            Figure::Makespan => run.metrics(last).makespan(),
            Figure::Step => run.step_time(),
        }
    }

    /// Whether a device holds more than it has in `run`, that of `schedule`.
    fn is_out_of_memory(&self, schedule: &Schedule, run: &Run) -> Result<bool, SimulationError> {
        if self.on.hardware.capacities.is_none() {
            return Ok(false);
        }
        let occupancy = self.simulation(schedule).occupancy(run)?;
        let peaks = occupancy.map(|all| all.peaks).unwrap_or_default();
        Ok(peaks.iter().any(|peak| peak.overflow.is_some()))
    }

    fn figures(&self, schedule: &Schedule, run: &Run) -> Result<FiguresOnHardware, SearchError> {
        let Instance { costs, footprints, objective, .. } = self.instance;
        let metrics = run.metrics(self.on.hardware.steps - 1);
        let peak = Memory::of(schedule, footprints)?.peak.into_iter().max();
        let is_out_of_memory = self.is_out_of_memory(schedule, run);
        Ok(FiguresOnHardware {
            nominal: objective.of(&Replay::new().metrics(schedule, costs)?),
            span: metrics.span(),
            makespan: metrics.makespan(),
            step: run.step_time(),
            value: self.value(run),
            peak: peak.unwrap_or_default(),
            is_out_of_memory: is_out_of_memory.map_err(SearchError::OnHardware)?,
        })
    }

    /// Evaluates every published schedule that fits: in the order that it has when it is simulated, and in that for
    /// unshared links, with whole backwards and with each split in place.
    pub(super) fn published(&mut self) -> Result<(), SearchError> {
        let alone = start::problem(self.instance);
        for family in start::families(self.instance) {
            let asked = family.schedule(self.on.asked).ok();
            let made = alone.as_ref().and_then(|problem| family.schedule(problem).ok());
            let mut orders: Vec<Schedule> = Vec::new();
            for schedule in [asked, made].into_iter().flatten() {
                let both = [self.split(&schedule), self.whole(schedule)];
                for order in both.into_iter().flatten() {
                    if !orders.contains(&order) {
                        orders.push(order);
                    }
                }
            }
            let mut best: Option<FiguresOnHardware> = None;
            for order in &orders {
                let figures = self.order(order)?;
                best = best.into_iter().chain(figures).min_by_key(FiguresOnHardware::rank);
            }
            self.published.extend(best.map(|best| (family, best)));
        }
        Ok(())
    }

    /// Evaluates an order that was found for another question, if it fits.
    pub(super) fn known(&mut self, known: &Schedule) -> Result<(), SearchError> {
        let Instance { shape, placement, .. } = self.instance;
        if (known.shape(), known.placement()) == (*shape, *placement) {
            for order in [self.split(known), self.whole(known.clone())].into_iter().flatten() {
                self.order(&order)?;
            }
        }
        Ok(())
    }

    /// `schedule` with each backward split where it stands; none if that does not fit.
    fn split(&self, schedule: &Schedule) -> Option<Schedule> {
        let compiled = CompiledInstance::split(self.instance);
        let sequence = compiled.sequence(schedule)?;
        Clock::default().time(&compiled, &sequence)?;
        compiled.schedule(self.instance, &sequence).ok()
    }

    /// The instance whose orders are evaluated.
    pub(super) const fn instance(&self) -> &'a Instance {
        self.instance
    }

    /// `schedule` as it is, with R where chunks recompute; none if that does not fit.
    fn whole(&self, schedule: Schedule) -> Option<Schedule> {
        let Instance { costs, footprints, limits, .. } = self.instance;
        let schedule = schedule.recomputing(|chunk| costs.recompute(chunk).is_some()).ok()?;
        let memory = Memory::of(&schedule, footprints).ok()?;
        let fits = limits.as_ref().is_none_or(|limits| memory.over(limits).is_none());
        fits.then_some(schedule)
    }

    /// The best order so far.
    pub(super) const fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Whether no order is better than the first that was evaluated.
    pub(super) fn best_is_first(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.number == 1)
    }

    /// The best order, and the published schedules, the best first.
    ///
    /// # Errors
    /// If every order deadlocked: the error of the first one.
    pub(super) fn end(self) -> Result<(Best, Vec<(Family, FiguresOnHardware)>), SearchError> {
        let Self { best, mut published, failed, .. } = self;
        published.sort_by_key(|(_, one)| one.rank());
        match (best, failed) {
            (Some(best), _) => Ok((best, published)),
            (None, Some(error)) => Err(SearchError::OnHardware(error)),
            (None, None) => Err(SearchError::OnHardware(EngineError::Stuck(Vec::new()).into())),
        }
    }
}
