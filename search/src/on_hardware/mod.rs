//! Searches the order whose step is short on hardware: where transfers share wires, and steps follow each other.
//!
//! The event engine evaluates orders: each candidate runs there, and the order with the best figure is the answer. The
//! engine is some hundred times too slow for a search from scratch, so searches work on a proxy, a pipeline in which no
//! link is shared. At first a transfer over a link takes its time on an idle network; then the mean time that it took in
//! the best run so far, queueing for wires included. The published schedules are evaluated too, both as `simulate`
//! orders them and with their backwards split, so that the answer is never worse than they are, nor than the order that
//! is best where no link is shared. From the best of these, a local search shifts passes and evaluates each change by
//! the engine.

mod asked;
mod between;
mod bound;
mod evaluation;
mod proxy;
mod wires;

#[cfg(test)]
mod tests;

use pipeline::{Family, Nanos, Schedule};
use sim::Hardware;
use sim::engine::{EngineError, MAX_RUN};

pub use self::asked::{Figure, OnHardware};
pub use self::bound::{ArgumentOnHardware, BoundOnHardware};
pub use self::evaluation::FiguresOnHardware;
pub use self::proxy::idle_link_times;

use self::evaluation::{Best, Evaluator};
use self::proxy::Proxy;
use crate::climb::climb;
use crate::error::SearchError;
use crate::found::{Effort, Found, Phase, Progress};
use crate::instance::Instance;
use crate::search::search;
use crate::side_by_side::Stop;

/// How often the proxy is fitted anew.
const ROUNDS: u64 = 3;

/// The result of a search on hardware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundOnHardware {
    /// The search where no link is shared.
    pub nominal_search: Found,
    /// The order with the best figure on the hardware.
    pub schedule: Schedule,
    /// Its figures.
    pub answer: FiguresOnHardware,
    /// Those of the best order of the nominal search, unless it deadlocks on the hardware.
    pub nominal: Option<FiguresOnHardware>,
    /// The published schedules that fit and do not deadlock, each in its best variant, the best first.
    pub published: Vec<(Family, FiguresOnHardware)>,
    /// Whether the nominal order is the answer.
    pub is_nominal: bool,
    /// The lower bound on the figure of any order.
    pub bound: BoundOnHardware,
    /// Figure of the answer as the last fitted proxy predicts it.
    pub proxy: Nanos,
    /// By link, the time of a transfer on an idle network.
    pub alone: Vec<Nanos>,
    /// By link, the time of a transfer in that proxy.
    pub fitted: Vec<Nanos>,
    /// How often the proxy was fitted.
    pub rounds: u64,
    /// Number of orders that the engine has run.
    pub judged: u64,
    /// Number of candidates that deadlocked: sender and receiver waited for each other.
    pub stuck: u64,
    /// Whether the caller stopped it before its effort was spent.
    pub interrupted: bool,
}

/// `instance` where a transfer takes over each link of `hardware` its time on an idle network, and with the
/// cost that stands for `figure`: the instance whose bounds hold on the hardware. Where a transfer holds up its
/// sender, the pass that makes the value takes longer by it.
#[must_use]
pub fn where_no_link_is_shared(
    instance: &Instance,
    hardware: &Hardware,
    figure: Figure,
) -> Instance {
    let asked = Instance { objective: figure.objective(hardware), ..instance.clone() };
    let alone = idle_link_times(&asked, hardware);
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
    mut progress: impl FnMut(Progress),
    stop: Stop<'_>,
) -> Result<FoundOnHardware, SearchError> {
    check(instance, on)?;
    let once = effort.limited();
    // Of every search as many steps as of the one under way.
    let all = effort.times.map(|_| 1 + ROUNDS);
    let mut tell = |searches: u64, known: Option<Nanos>, now: Progress| {
        progress(beside(now, searches, all, known));
    };
    let nominal_search = search(instance, once, |now| tell(0, None, now), stop)?;
    let mut evaluator = Evaluator::new(instance, on);
    let nominal = evaluator.order(&nominal_search.schedule)?;
    evaluator.published()?;
    for known in on.known {
        evaluator.known(known)?;
    }
    let alone = idle_link_times(instance, on.hardware);
    let plain = Instance { costs: on.asked.costs().clone(), ..instance.clone() };
    let mut proxy = Proxy::new(&plain, on.hardware, alone.clone());
    let bound = bound::of(instance, &nominal_search, on);
    let (mut rounds, mut interrupted) = (0, nominal_search.interrupted);
    while rounds < ROUNDS {
        let unproved = |best: &&Best| best.figures.value > bound.cost && !stop();
        let Some(best) = evaluator.best().filter(unproved) else { break };
        proxy = proxy.fitted(&best.links);
        let other = Effort { seed: effort.seed.wrapping_add(rounds), ..once };
        let value = Some(best.figures.value);
        // The hops of the proxy may exceed the limits of a search; the best order so far is the answer then.
        let searched = search(&proxy.instance, other, |now| tell(1 + rounds, value, now), stop);
        let Ok(found) = searched else { break };
        interrupted |= found.interrupted;
        evaluator.order(&found.schedule)?;
        rounds += 1;
    }
    improve(&mut evaluator, effort, bound.cost, stop)?;
    interrupted |= stop();
    let is_nominal = nominal.is_some() && evaluator.best_is_first();
    let (judged, stuck) = (evaluator.evaluated, evaluator.stuck);
    let (best, published) = evaluator.end()?;
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

/// The progress of all searches, of which `now` is that of one after `searches` others, and `known` the best value so far.
fn beside(now: Progress, searches: u64, all: Option<u64>, known: Option<Nanos>) -> Progress {
    let phase = if known.is_some() { Phase::OnHardware } else { Phase::Nominal };
    let before = now.of.map_or(0, |of| searches.saturating_mul(of));
    let of = all.zip(now.of).map(|(all, of)| all.saturating_mul(of));
    let (best, steps) = (known.or(now.best), before.saturating_add(now.steps));
    Progress { phase, best, bound: None, steps, of }
}

/// Refuses overlapping passes, and more of them over all steps than the engine runs.
fn check(instance: &Instance, on: &OnHardware<'_>) -> Result<(), SearchError> {
    if instance.costs.overlap().is_some() {
        return Err(SearchError::OverlappedOnHardware);
    }
    let steps = on.hardware.steps;
    let passes = (crate::check::passes(instance) as u64).saturating_mul(u64::from(steps));
    if passes > MAX_RUN {
        let error = EngineError::TooManyPasses { steps, passes };
        return Err(SearchError::OnHardware(error.into()));
    }
    Ok(())
}

/// Runs the local search by the engine from the best order: once at the effort asked for, or repeatedly until stopped.
#[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
fn improve(
    evaluator: &mut Evaluator<'_>,
    effort: Effort,
    goal: Nanos,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), SearchError> {
    let (mut seed, mut times) = (effort.seed, effort.times.unwrap_or(1));
    while let Some(best) = evaluator.best().filter(|best| best.figures.value > goal && !stop()) {
        let budget = (Effort { seed, times: Some(times) }, goal.0 as f64);
        let (better, runs) = climb(evaluator.instance(), &*evaluator, &best.schedule, budget, stop);
        evaluator.evaluated += runs;
        if let Some(better) = better {
            evaluator.order(&better)?;
        }
        if effort.times.is_some() {
            break;
        }
        (seed, times) = (seed.wrapping_add(1), times.saturating_mul(2));
    }
    Ok(())
}
