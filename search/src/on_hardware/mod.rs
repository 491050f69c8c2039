//! Searches the order whose step is short on hardware: where transfers share wires, and steps follow each other.
//!
//! The event engine is the judge: whatever is proposed runs there, and the order that does best is the answer. It
//! is some hundred times too slow for a search from scratch, so searches work on a proxy, a pipeline in which no
//! link is shared. At first a transfer takes as long over each link as while nothing else moves; then as long as
//! it took in the mean in the best run so far, waiting for its wires included. The published schedules are judged
//! too, both as `simulate` orders them and with their backwards split, and so the answer is never worse than
//! they are, nor than the order that is best where no link is shared. From the best of all these on, a local
//! search shifts passes and asks the engine itself.

mod bound;
mod climb;
mod judge;
mod proxy;
mod wires;

#[cfg(test)]
mod tests;

use pipeline::{Family, Nanos, Problem, Schedule};
use sim::Hardware;
use sim::boundary::Synchronisation;
use sim::engine::{EngineError, MAX_RUN};

pub use self::bound::{ArgumentOnHardware, BoundOnHardware};
pub use self::climb::SIDE_BY_SIDE;
pub use self::judge::Judged as JudgedOnHardware;

use self::climb::Budget;
use self::judge::{Best, Judge};
use self::proxy::Proxy;
use crate::instance::{Instance, Objective};
use crate::run::{Effort, Found, Progress, SearchError, search};

/// How often the proxy is fitted anew.
const ROUNDS: u64 = 3;

/// What of a run on hardware is to be small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// The longest time from the first to the last pass of a stage, in the last step.
    Span,
    /// The time from the first pass of the last step to the end of its last one.
    Makespan,
    /// The time per step, with everything between two steps ([`sim::engine::Run::step_time`]).
    Step,
}

impl Figure {
    /// The cost that stands for it where links are not shared: a step ends with the last pass of all where stages
    /// meet before the next, or where there is no next one, and else each stage goes on by itself.
    #[must_use]
    pub fn objective(self, hardware: &Hardware) -> Objective {
        let meets = hardware.boundary.synchronisation == Synchronisation::Barrier;
        match self {
            Self::Span => Objective::Span,
            Self::Makespan => Objective::Makespan,
            Self::Step if meets || hardware.steps == 1 => Objective::Makespan,
            Self::Step => Objective::Span,
        }
    }
}

/// What to search for on hardware.
#[derive(Clone, Copy, Debug)]
pub struct OnHardware<'a> {
    /// What the pipeline runs on.
    pub hardware: &'a Hardware,
    /// What of a run is to be small.
    pub figure: Figure,
    /// The problem for which published schedules make their orders when they are simulated.
    pub asked: &'a Problem,
    /// Orders that are judged, too. Those that do not fit the instance are left out.
    pub known: &'a [&'a Schedule],
}

/// How far a search on hardware has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgressOnHardware {
    /// Searches that have ended.
    pub searches: u64,
    /// How many there are, if the effort is limited; then the engine searches from the best order on.
    pub of: Option<u64>,
    /// How far the search under way has come.
    pub now: Progress,
    /// The figure of the best order that was judged.
    pub best: Option<Nanos>,
}

/// The result of a search on hardware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundOnHardware {
    /// The search where no link is shared.
    pub nominal_search: Found,
    /// The order that does best on the hardware.
    pub schedule: Schedule,
    /// Its figures.
    pub answer: JudgedOnHardware,
    /// Those of the best order of the nominal search, unless it gets stuck on the hardware.
    pub nominal: Option<JudgedOnHardware>,
    /// The published schedules that fit and do not get stuck, each as it does best, the best first.
    pub published: Vec<(Family, JudgedOnHardware)>,
    /// Whether the nominal order is the answer.
    pub is_nominal: bool,
    /// The lower bound on the figure of any order.
    pub bound: BoundOnHardware,
    /// What the proxy that was fitted last says of the figure of the answer.
    pub proxy: Nanos,
    /// How long a transfer takes over each link while nothing else moves.
    pub alone: Vec<Nanos>,
    /// How long it takes over each link of that proxy.
    pub fitted: Vec<Nanos>,
    /// How often the proxy was fitted.
    pub rounds: u64,
    /// How many orders the engine has run.
    pub judged: u64,
    /// How many of those that were proposed got stuck: sender and receiver waited for each other.
    pub stuck: u64,
    /// Whether it was stopped from outside before its effort was spent.
    pub interrupted: bool,
}

/// `instance` where a transfer takes as long over each link of `hardware` as while nothing else moves, and with the
/// cost that stands for `figure`: the instance whose bounds hold on the hardware. Where a transfer holds up its
/// sender, the pass that makes the value takes longer by it.
#[must_use]
pub fn where_no_link_is_shared(
    instance: &Instance,
    hardware: &Hardware,
    figure: Figure,
) -> Instance {
    let asked = Instance { objective: figure.objective(hardware), ..instance.clone() };
    let alone = proxy::alone(&asked, hardware);
    Proxy::new(&asked, hardware, alone).instance
}

/// Searches for the order of `instance`, one [`where_no_link_is_shared`], that does best `on` hardware.
///
/// `progress` and `stop` are those of [`search`]; once `stop` returns true, the best order by then is the answer.
/// As long as it returns false, the result is the same on any number of threads.
///
/// # Errors
/// Those of [`search`], if passes overlap, if there are too many of them for the event engine in all steps, or if it
/// has no result for any order.
pub fn search_on_hardware(
    instance: &Instance,
    on: &OnHardware<'_>,
    effort: Effort,
    mut progress: impl FnMut(ProgressOnHardware),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<FoundOnHardware, SearchError> {
    if instance.costs.overlap().is_some() {
        return Err(SearchError::OverlappedOnHardware);
    }
    let steps = on.hardware.steps;
    let passes = (crate::run::passes(instance) as u64).saturating_mul(u64::from(steps));
    if passes > MAX_RUN {
        let error = EngineError::TooManyPasses { steps, passes };
        return Err(SearchError::OnHardware(error.into()));
    }
    let once = Effort { times: Some(effort.times.unwrap_or(1)), ..effort };
    let of = effort.times.map(|_| 1 + ROUNDS);
    let mut tell = |searches, best, now| progress(ProgressOnHardware { searches, of, now, best });
    let nominal_search = search(instance, once, |now| tell(0, None, now), stop)?;
    let mut judge = Judge::new(instance, on);
    let nominal = judge.order(&nominal_search.schedule)?;
    judge.published()?;
    for known in on.known {
        judge.known(known)?;
    }
    let alone = proxy::alone(instance, on.hardware);
    let plain = Instance { costs: on.asked.costs().clone(), ..instance.clone() };
    let mut proxy = Proxy::new(&plain, on.hardware, alone.clone());
    let bound = bound::of(instance, &nominal_search, on);
    let (mut rounds, mut interrupted) = (0, nominal_search.interrupted);
    while rounds < ROUNDS {
        let unproved = |best: &&Best| best.figures.value > bound.cost && !stop();
        let Some(best) = judge.best().filter(unproved) else { break };
        proxy = proxy.fitted(&best.links);
        let other = Effort { seed: effort.seed.wrapping_add(rounds), ..once };
        let value = Some(best.figures.value);
        // Longer hops may be too long for a search, and what is found by then is an answer.
        let searched = search(&proxy.instance, other, |now| tell(1 + rounds, value, now), stop);
        let Ok(found) = searched else { break };
        interrupted |= found.interrupted;
        judge.order(&found.schedule)?;
        rounds += 1;
    }
    climb(&mut judge, effort, bound.cost, stop)?;
    interrupted |= stop();
    let is_nominal = nominal.is_some() && judge.best_is_first();
    let (judged, stuck) = (judge.judged, judge.stuck);
    let (best, published) = judge.end()?;
    Ok(FoundOnHardware {
        nominal_search,
        proxy: proxy.figure(&best.schedule, on)?,
        schedule: best.schedule,
        answer: best.figures,
        nominal,
        published,
        is_nominal,
        bound,
        alone,
        fitted: proxy.links,
        rounds,
        judged,
        stuck,
        interrupted,
    })
}

/// Lets the engine search from the best order on, at the effort asked for, or again and again until it is stopped.
fn climb(
    judge: &mut Judge<'_>,
    effort: Effort,
    goal: Nanos,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), SearchError> {
    let (mut seed, mut times) = (effort.seed, effort.times.unwrap_or(1));
    while let Some(best) = judge.best().filter(|best| best.figures.value > goal && !stop()) {
        let budget = Budget { seed, times, goal };
        let (better, runs) = climb::from(judge, &best.schedule, budget, stop);
        judge.judged += runs;
        if let Some(better) = better {
            judge.order(&better)?;
        }
        if effort.times.is_some() {
            break;
        }
        (seed, times) = (seed.wrapping_add(1), times.saturating_mul(2));
    }
    Ok(())
}
