//! Searches of questions with keys that no search of orders takes into account by itself: noise on a cluster, replicas
//! that divide parameters, copies to the host, pairs on a cluster, a choice of layers under noise.
//!
//! Orders are found without these keys. They and the published schedules are simulated with all keys, local search by
//! the same simulation goes on from the best, and under noise the choice is validated in replicas that nothing was
//! chosen in. A simulation of the answer with the same keys has its value.

mod candidates;
mod evaluation;
mod unequal;

use cases::{Case, SearchKind, Searched};
use pipeline::{Family, Hops, Nanos, Schedule};
use question::Diagnostic;
use question::hardware::COPYING;
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use search::bounds::Proof;
use search::{
    Figure, Found, FoundUnderNoise, HeldOut, HeldOutOrders, Instance, Objective, Statistic,
    bound_under_noise,
};

use self::candidates::Candidates;
use self::evaluation::{Candidate, Goal, Simulator};
use super::{Asked, Improvements, SearchRow, joint};

/// How many searches where no link is shared one by simulation takes about as long as.
pub(super) const SEARCHES: u128 = 12;

/// Orders chosen by simulations of all keys.
pub struct Simulated {
    /// The keys that searches of orders leave out.
    pub keys: Vec<&'static str>,
    /// The values without noise; under noise those of the search under noise stand for them.
    pub figures: Option<SimulatedFigures>,
    /// Number of orders simulated.
    pub simulated: u64,
}

/// Values of orders by simulations without noise.
pub struct SimulatedFigures {
    /// Of the answer.
    pub value: Nanos,
    /// Of the best order found without the keys, if it keeps to its memory.
    pub nominal: Option<Nanos>,
    /// Of the best published schedule.
    pub published: Option<(Family, Nanos)>,
    /// No order of the set-up has less, if that is proved.
    pub bound: Option<Nanos>,
    /// Whether no order is better than that found without the keys.
    pub is_nominal: bool,
}

/// The keys of `setting` that its search leaves out and simulates; none where one kind of search takes all into account.
pub(super) fn keys(setting: &Setting, keys: &SearchKeys) -> Vec<&'static str> {
    let on_hardware = cases::is_on_hardware(setting);
    let kind = match keys.statistic() {
        _ if !keys.vary.is_empty() => SearchKind::Nominal,
        Some(_) => SearchKind::UnderNoise,
        None if on_hardware => SearchKind::OnHardware,
        None => SearchKind::Nominal,
    };
    let mut beyond = cases::beyond(setting, kind);
    // Searches that take another key into account by simulation alone find orders of the mean microbatch.
    if kind == SearchKind::Nominal && (!keys.vary.is_empty() || !beyond.is_empty()) {
        beyond.extend(setting.keys.of_unequal_microbatches());
    }
    if !keys.vary.is_empty() && keys.statistic().is_some() {
        let noise = ["slowdown", "slowdown-profile", "jitter", "stall"];
        beyond.extend(setting.keys.given().filter(|key| noise.contains(key)));
    }
    beyond
}

/// Objective of the search of `setting`.
fn goal(keys: &SearchKeys, setting: &Setting) -> Goal {
    match keys.statistic() {
        Some(statistic) => Goal::Statistic(statistic, cases::objective_under_noise(setting)),
        None => Goal::Figure(keys.figure().unwrap_or(Figure::Span)),
    }
}

/// The time that stands for `goal` where no link is shared.
fn objective(goal: Goal, case: &Case) -> Objective {
    match (goal, &case.hardware) {
        (Goal::Statistic(_, objective), _) => objective,
        (Goal::Figure(figure), Some(hardware)) => figure.objective(hardware),
        (Goal::Figure(Figure::Makespan), None) => Objective::Makespan,
        (Goal::Figure(Figure::Span | Figure::Step), None) => Objective::Span,
    }
}

/// Searches the best order of a question, whose `left_out` keys no search of orders takes into account, from the earlier
/// ones of other limits on, too.
pub(super) fn row(asked: &Asked<'_>, left_out: Vec<&'static str>) -> Result<SearchRow, Diagnostic> {
    let Asked { context, scenario, keys, .. } = *asked;
    let stop = asked.stop();
    let jointly = jointly(asked)?;
    let chosen = jointly.as_ref().and_then(|row| row.chosen.as_ref());
    let (setting, placement) = match (&jointly, chosen) {
        (Some(row), Some(chosen)) => {
            (with_left_out(&chosen.setting, asked.setting), Some(row.searched.instance.placement))
        }
        _ => (asked.setting.clone(), keys.placement()),
    };
    let times = Some(keys.effort.unwrap_or(1));
    let known = asked.same().chain(&jointly).map(|row| row.searched.found.schedule.clone());
    let search = Candidates {
        known: known.collect(),
        asked: Asked { setting: &setting, ..*asked },
        placement,
        effort: asked.effort(times),
        stop: &stop,
        work: &*context.host().begin(1, ""),
    };
    let copies = left_out.iter().any(|key| COPYING.contains(key));
    let mut done = search.run()?;
    if copies {
        done.forget_limits();
    }
    done.found.interrupted |= stop();
    asked.warn_of_clock(times, done.found.interrupted);
    let (answer, figures, under_noise) = settle(scenario, &setting, &done, (copies, &stop))?;
    let simulated = Simulated { keys: left_out, figures, simulated: done.simulated };
    let searched = Searched { under_noise, ..done.searched(answer) };
    let mut row = SearchRow::of(searched, None, keys.objective, &setting)?;
    row.simulated = Some(simulated);
    row.chosen = jointly.and_then(|row| row.chosen).map(|chosen| chosen.simulated(setting));
    Ok(row)
}

/// The choice of a joint search without the keys, if something is varied.
fn jointly(asked: &Asked<'_>) -> Result<Option<SearchRow>, Diagnostic> {
    if asked.keys.vary.is_empty() {
        return Ok(None);
    }
    // Its order is none of this search yet.
    let (keys, seen) = (&nominal_keys(asked.keys, asked.setting), &Improvements::unheard());
    joint::row(&Asked { keys, seen, ..*asked }).map(Some)
}

/// `keys` with a time where no link is shared, for the search of a choice.
fn nominal_keys(keys: &SearchKeys, setting: &Setting) -> SearchKeys {
    use question::search::ObjectiveArg;
    let objective = match (keys.objective(), cases::objective_under_noise(setting)) {
        (Some(_), _) => keys.objective,
        (None, Objective::Span) => ObjectiveArg::Span,
        (None, Objective::Makespan) => ObjectiveArg::Makespan,
    };
    SearchKeys { objective, ..keys.clone() }
}

/// The setting of a choice with the keys of `asked` that its scenario leaves out.
fn with_left_out(chosen: &Setting, asked: &Setting) -> Setting {
    let mut keys = chosen.keys.clone();
    keys.hardware = asked.keys.hardware.clone();
    keys.microbatch_work = asked.keys.microbatch_work.clone();
    keys.microbatch_work_file = asked.keys.microbatch_work_file.clone();
    keys.microbatch_lengths = asked.keys.microbatch_lengths.clone();
    Setting::new(asked.name.clone(), keys)
}

/// The cost of `order` where no link is shared.
fn nominal_cost(instance: &Instance, order: &Schedule) -> Option<Nanos> {
    let metrics = sim::Replay::new().metrics(order, &instance.costs).ok()?;
    Some(instance.objective.of(&metrics))
}

/// Candidates with their values, and what they were found in.
struct Done {
    case: Case,
    goal: Goal,
    instance: Instance,
    found: Found,
    /// The order found without the keys first, then the rest, each with its value in nanoseconds.
    candidates: Vec<(Candidate, f64)>,
    /// Whether the first of them keeps to its memory.
    nominal_fits: bool,
    bound: Option<Nanos>,
    simulated: u64,
}

impl Done {
    /// Drops the limits: an order that copies may hold more than its limit, so that bounds under it do not hold.
    fn forget_limits(&mut self) {
        self.instance.limits = None;
        self.found.bound = search::bounds::best(&self.instance);
        self.found.proof = Proof::default();
    }

    /// `answer` with its case and its cost where no link is shared.
    fn searched(self, answer: Candidate) -> Searched {
        let Self { case, instance, found, .. } = self;
        let cost = nominal_cost(&instance, &answer.order).unwrap_or(found.cost);
        let case = Case { schedule: answer.prepared, ..case };
        Searched::nominal(case, instance, Found { schedule: answer.order, cost, ..found })
    }

    /// The best candidate of those that `among` holds for, with its value.
    fn best(&self, among: impl Fn(&Candidate) -> bool) -> Option<&(Candidate, f64)> {
        let among = self.candidates.iter().filter(|(one, _)| among(one));
        among.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// The answer, with its figures or its times under noise. `copies`: whether activations may be copied to the host,
/// which bounds of orders without copies do not hold for.
fn settle(
    scenario: &Scenario,
    setting: &Setting,
    done: &Done,
    (copies, stop): (bool, &(dyn Fn() -> bool + Sync)),
) -> Result<(Candidate, Option<SimulatedFigures>, Option<FoundUnderNoise>), Diagnostic> {
    let none = || {
        let message = "no order that was found keeps to its memory when all keys are simulated";
        scenario.error(setting, None, message.to_owned()).with_help("give a higher --memory-limit")
    };
    let (best, value) = done.best(|_| true).ok_or_else(none)?;
    let nominal = done.candidates.first().filter(|_| done.nominal_fits);
    let published = done.best(|one| one.family.is_some());
    match done.goal {
        Goal::Figure(_) => {
            let is_nominal = nominal.is_some_and(|(_, nominal)| nominal <= value);
            let figures = SimulatedFigures {
                value: nanos(*value),
                nominal: nominal.map(|(_, value)| nanos(*value)),
                published: published.and_then(|(one, value)| Some((one.family?, nanos(*value)))),
                bound: done.bound.filter(|_| !copies),
                is_nominal,
            };
            let answer = nominal.filter(|_| is_nominal).map_or(best, |(one, _)| one);
            Ok((answer.clone(), Some(figures), None))
        }
        Goal::Statistic(statistic, objective) => {
            let others = [nominal, published].map(|one| one.map(|(one, _)| one));
            let goal = (statistic, objective);
            let (answer, found) = validated(done, (best, others), goal, (copies, stop))?;
            Ok((answer, None, Some(found)))
        }
    }
}

/// Validates, in the replicas of the question, the best candidate, the order found without the keys, and the best
/// published schedule: the first is the answer if it is better than the second beyond chance.
fn validated(
    done: &Done,
    (best, [nominal, published]): (&Candidate, [Option<&Candidate>; 2]),
    (statistic, objective): (Statistic, Objective),
    (copies, stop): (bool, &(dyn Fn() -> bool + Sync)),
) -> Result<(Candidate, FoundUnderNoise), Diagnostic> {
    let simulator = Simulator::new(&done.case, done.goal);
    let noise = simulator.noise().ok_or_else(|| Diagnostic::new("the question has no noise"))?;
    let replicas = done.case.noise.as_ref().and_then(|noise| noise.replicas);
    let replicas = replicas.unwrap_or(cases::REPLICAS);
    let held = |one: &Candidate| {
        let times = simulator.times(&one.prepared, noise, (objective, replicas), stop);
        let times = times.map_err(|error| done.case.error(&error))?;
        let nominal = nominal_cost(&done.instance, &one.order).unwrap_or_default();
        Ok::<_, Diagnostic>(HeldOut { schedule: one.order.clone(), nominal, times })
    };
    let base = nominal.unwrap_or(best);
    let published = published.and_then(|one| Some((one.family?, one)));
    let orders = HeldOutOrders {
        nominal: held(base)?,
        chosen: nominal.map(|_| held(best)).transpose()?,
        expected: None,
        published: published.map(|(family, one)| Ok((family, held(one)?))).transpose()?,
    };
    let free = done.instance.costs.clone().with_hops(Hops::alike(Nanos(0)));
    let free = Instance { costs: free, ..done.instance.clone() };
    let unequal = done.case.problem.costs().microbatch_work().is_some();
    let provable = !copies && !unequal && done.instance.costs.overlap().is_none();
    let bound = provable.then(|| bound_under_noise(&free, noise, statistic)).flatten();
    let asked = (replicas, done.found.interrupted);
    let found = orders.judged(done.found.clone(), statistic, bound, asked);
    let answer = if found.is_nominal { base } else { best };
    Ok((answer.clone(), found))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A whole number of nanoseconds.
fn nanos(value: f64) -> Nanos {
    Nanos(value.round() as u64)
}
