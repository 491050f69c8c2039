//! Orders that are found without some keys of a question, and the published schedules, simulated with all keys.

use cases::{Case, ScheduleSource};
use pipeline::{Bytes, Hops, Limits, Nanos, Placement, Schedule};
use question::host::Work;
use question::{Diagnostic, format};
use search::{
    Effort, Figure, Found, Instance, Objective, OnHardware, Phase, Progress, SearchError,
    UnderNoise, climb, search_on_hardware, search_under_noise, where_no_link_is_shared,
};

use super::{Asked, Candidate, Done, Goal, Simulator, goal, objective, unequal};

/// Limits that orders are proposed under where a part of the activations is on the host, in percent of those given.
const PERCENT_OF_LIMIT: [u64; 4] = [125, 150, 200, 300];
/// Searches of a question: without noise, under noise, by simulation.
const SEARCHES: u64 = 3;
/// Held-out replicas of a search that only proposes orders.
const PROPOSED_IN: u64 = 100;

/// A search for candidates.
pub(super) struct Candidates<'a> {
    /// The question with all keys, and its choice made.
    pub(super) asked: Asked<'a>,
    pub(super) placement: Option<Placement>,
    /// Orders found before.
    pub(super) known: Vec<Schedule>,
    pub(super) effort: Effort,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) work: &'a dyn Work,
}

/// Orders as searches have found them.
struct Proposed {
    found: Found,
    orders: Vec<Schedule>,
    bound: Option<Nanos>,
}

impl Candidates<'_> {
    /// Finds candidates, simulates them, and improves the best.
    pub(super) fn run(self) -> Result<Done, Diagnostic> {
        let (placement, Asked { context, scenario, setting, keys, .. }) =
            (self.placement, self.asked);
        let serial = self.any_order()?;
        let case = cases::case_of_order(context, scenario, setting, placement, serial)?;
        let goal = goal(keys, setting);
        let objective = objective(goal, &case);
        let asked = cases::searchable(context, scenario, setting, placement, objective)?;
        let instance = match &case.hardware {
            Some(hardware) => where_no_link_is_shared(&asked, hardware, figure(goal, objective)),
            None => asked,
        };
        let proposed = self.proposed(&case, &instance, goal, objective);
        let Proposed { found, orders, bound } =
            proposed.map_err(|error| cases::explain_search(scenario, setting, &error))?;
        let (candidates, nominal_fits) = self.candidates(&case, goal, &found, orders)?;
        let simulated = candidates.len() as u64;
        let done = Done { case, goal, instance, found, candidates, nominal_fits, bound, simulated };
        Ok(self.improved(done))
    }

    /// An order of the pipeline, from which a case is made.
    fn any_order(&self) -> Result<Schedule, Diagnostic> {
        let (placement, Asked { context, scenario, setting, .. }) = (self.placement, self.asked);
        if let Some(known) = self.known.first() {
            return Ok(known.clone());
        }
        let instance = cases::searchable(context, scenario, setting, placement, Objective::Span)?;
        let effort = Effort { times: Some(0), ..self.effort };
        let found = search::search(&instance, effort, |_| {}, self.stop);
        Ok(found.map_err(|error| cases::explain_search(scenario, setting, &error))?.schedule)
    }

    /// Searches orders without the keys that are simulated.
    fn proposed(
        &self,
        case: &Case,
        instance: &Instance,
        goal: Goal,
        objective: Objective,
    ) -> Result<Proposed, SearchError> {
        let plain = instance.costs.overlap().is_none();
        let known: Vec<&Schedule> = self.known.iter().collect();
        let hardware = case.hardware.as_ref().filter(|_| plain);
        let mut proposed = match hardware {
            Some(hardware) => {
                let figure = figure(goal, objective);
                let on = OnHardware { hardware, figure, asked: &case.problem, known: &known };
                let tell = |now| self.tell(0, "on the hardware", now);
                let found = search_on_hardware(instance, &on, self.effort, tell, self.stop)?;
                let fitted = Hops::placed(instance.shape, instance.placement, &found.fitted);
                let costs = instance.costs.clone();
                let costs = fitted.map_or(costs.clone(), |hops| costs.with_hops(hops));
                let fitted = Instance { costs, ..instance.clone() };
                let nominal = found.nominal_search;
                let proposed = Proposed {
                    orders: vec![found.schedule, nominal.schedule.clone()],
                    found: nominal,
                    bound: Some(found.bound.cost),
                };
                self.robust(case, &fitted, goal, proposed)?
            }
            None => {
                let tell = |now| self.tell(0, "no link shared", now);
                let found = search::search(instance, self.effort, tell, self.stop)?;
                let holds = case.hardware.is_none()
                    || matches!(goal, Goal::Figure(Figure::Span | Figure::Makespan));
                let bound = holds.then_some(found.bound.cost);
                let proposed = Proposed { orders: vec![found.schedule.clone()], found, bound };
                match plain {
                    true => self.robust(case, instance, goal, proposed)?,
                    false => proposed,
                }
            }
        };
        let at = (instance.shape, instance.placement);
        let known = self.known.iter().filter(|one| (one.shape(), one.placement()) == at);
        proposed.orders.extend(known.cloned());
        let costs = case.problem.costs();
        if costs.microbatch_work().is_some() {
            // The search was one of mean microbatches.
            let asked = Instance { costs: costs.clone(), ..instance.clone() };
            proposed.bound = case.hardware.is_none().then(|| search::bounds::best(&asked).cost);
        }
        if case.problem.copies_to_host() {
            proposed.orders.extend(self.beyond_limits(instance)?);
        }
        Ok(proposed)
    }

    /// Orders that hold more than the limits, as they may where a part of the activations is on the host.
    fn beyond_limits(&self, instance: &Instance) -> Result<Vec<Schedule>, SearchError> {
        let Some(limits) = &instance.limits else { return Ok(Vec::new()) };
        let relaxed = PERCENT_OF_LIMIT.into_iter().map(|percent| {
            let more = |limit: &Bytes| Bytes(limit.0.saturating_mul(percent) / 100);
            let limits: Vec<Bytes> = limits.by_stage().iter().map(more).collect();
            Limits::new(instance.shape, &limits).ok()
        });
        let one = |limits| {
            let relaxed = Instance { limits, ..instance.clone() };
            let found = search::search(&relaxed, self.effort, |_| {}, self.stop)?;
            Ok(found.schedule)
        };
        relaxed.map(one).collect()
    }

    /// `proposed` with the order found for `instance` under the noise, if that is asked for.
    fn robust(
        &self,
        case: &Case,
        instance: &Instance,
        goal: Goal,
        mut proposed: Proposed,
    ) -> Result<Proposed, SearchError> {
        let noise = case.noise.as_ref().map(question::noise::Noise::stragglers);
        if let (Goal::Statistic(statistic, _), Some(noise)) = (goal, noise) {
            let under = UnderNoise { noise, statistic, replicas: PROPOSED_IN, known: &[] };
            let tell = |now: Progress| {
                if now.phase == Phase::Nominal {
                    self.tell(1, "under noise, no link shared", now);
                }
            };
            match search_under_noise(instance, &under, self.effort, tell, self.stop) {
                Ok(found) => {
                    proposed.orders.push(found.answer.schedule);
                    proposed.orders.extend(found.expected.map(|one| one.schedule));
                }
                // Simulations still compare the rest.
                Err(SearchError::TooLargeUnderNoise(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(proposed)
    }

    /// The candidates with their values, the best order found without the keys first, if it fits.
    fn candidates(
        &self,
        case: &Case,
        goal: Goal,
        found: &Found,
        orders: Vec<Schedule>,
    ) -> Result<(Vec<(Candidate, f64)>, bool), Diagnostic> {
        let simulator = Simulator::new(case, goal);
        let own = orders.into_iter().filter_map(|order| simulator.candidate(None, order));
        let published =
            found.published.iter().filter_map(|one| self.published(&simulator, one.family));
        let mut kept: Vec<(Candidate, f64)> = Vec::new();
        let (mut first, mut fits, mut failed) = (true, false, None);
        for one in own.chain(published) {
            let is_first = std::mem::take(&mut first);
            if kept
                .iter()
                .any(|(other, _)| other.family == one.family && other.prepared == one.prepared)
            {
                continue;
            }
            match simulator
                .keeps_to_memory(&one)
                .and_then(|keeps| Ok((keeps, simulator.value(&one)?)))
            {
                Ok((true, value)) => {
                    fits |= is_first;
                    kept.push((one, value));
                }
                Ok((false, _)) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if kept.is_empty() => Err(case.error(&error)),
            _ => Ok((kept, fits)),
        }
    }

    /// The order of a published schedule, as it is simulated with all keys.
    fn published(&self, simulator: &Simulator<'_>, family: pipeline::Family) -> Option<Candidate> {
        let rule = ScheduleSource::Family(family);
        let made =
            cases::case(self.asked.context, self.asked.scenario, self.asked.setting, &rule).ok()?;
        let (shape, placement) = (made.schedule.shape(), made.schedule.placement());
        let order = Schedule::new(shape, placement, made.schedule.orders().to_vec()).ok()?;
        let one = simulator.candidate(Some(family), order)?;
        (one.prepared == made.schedule).then_some(one)
    }

    /// Local search by simulations from the best candidate.
    fn improved(&self, mut done: Done) -> Done {
        let Some((best, value)) = done.best(|_| true) else { return done };
        let simulator = Simulator::new(&done.case, done.goal);
        #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
        let goal = done.bound.map_or(0.0, |bound| bound.0 as f64);
        self.show(2, "by simulation", super::nanos(*value));
        self.asked.seen.see(super::nanos(*value), None, done.simulated);
        if done.instance.costs.overlap().is_some() || best.prepared.copies().is_some() {
            return done;
        }
        let budget = (self.effort, goal);
        let (better, runs) = match done.case.problem.costs().work_by_microbatch() {
            Some(work) => unequal::improve(&done, &work, budget, self.stop),
            None => climb(&done.instance, &simulator, &best.order, budget, self.stop),
        };
        let better = better.and_then(|order| simulator.candidate(None, order));
        let better = better.and_then(|one| {
            let value = simulator.value(&one).ok()?;
            simulator.keeps_to_memory(&one).ok()?.then_some((one, value))
        });
        done.simulated += runs;
        if let Some((_, value)) = &better {
            self.asked.seen.see(super::nanos(*value), None, done.simulated);
        }
        done.candidates.extend(better);
        done
    }

    /// Shows how far search number `number` has come.
    fn tell(&self, number: u64, name: &str, now: Progress) {
        if let Some(best) = now.best {
            self.show(number, name, best);
        }
    }

    fn show(&self, number: u64, name: &str, best: Nanos) {
        self.work.set_length(SEARCHES);
        self.work.set_position(number);
        self.work.set_message(format!("searches, {name}, best {}", format::time(best)));
    }
}

/// The figure of a run that `goal` asks for without noise.
const fn figure(goal: Goal, objective: Objective) -> Figure {
    match (goal, objective) {
        (Goal::Figure(figure), _) => figure,
        (Goal::Statistic(..), Objective::Span) => Figure::Span,
        (Goal::Statistic(..), Objective::Makespan) => Figure::Makespan,
    }
}
