//! Searches an order where microbatches differ: which microbatch goes when, and the order of passes for that, in turn.

use pipeline::{MicrobatchWork, Nanos, Schedule};
use sim::Replay;

use crate::bounds::{self, Bound};
use crate::check::passes;
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::{Effort, Found, Progress};
use crate::instance::Instance;
use crate::microbatch_order::{order_microbatches, starts};
use crate::run::run;
use crate::side_by_side::Stop;
use crate::start::{self, Published, Starts};
use crate::timing::Clock;

/// The part of the effort, one of so many, that each order of microbatches to start from gets.
const FIRST: u64 = 16;
/// The part that each turn of microbatches and passes gets.
const TURN: u64 = 6;
/// The turns.
const TURNS: u32 = 2;

/// An order of passes for microbatch `microbatches[i]` in the place of its microbatch i.
struct Dealt {
    microbatches: Vec<u32>,
    found: Found,
}

/// Searches as [`search`](crate::search) does, with the bound of [`bounds`] for microbatches of `work` that differ.
pub(crate) fn search(
    (instance, work): (&Instance, &MicrobatchWork),
    effort: Effort,
    mut progress: impl FnMut(Progress),
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    let bound = bounds::best(instance);
    let (count, once) = (passes(instance), effort.limited());
    let search = Unequal { instance, work, bound, seed: effort.seed };
    let (all, part) = (effort.steps(count), |part| once.steps(count) / part);
    let mut tell = |best: Nanos, spent: u64| {
        let of = (all < u64::MAX).then_some(all);
        progress(Progress::nominal(best, bound.cost, (spent.min(all), of)));
    };
    let given = starts(&weights(instance)).into_iter();
    let firsts = given.map(|order| search.passes(order, None, (part(FIRST), &mut |_| {}), stop));
    let firsts = firsts.collect::<Result<Vec<_>, _>>()?;
    let mut spent = part(FIRST) * firsts.len() as u64;
    let Some(mut best) = firsts.into_iter().min_by_key(|one| one.found.cost) else {
        return Err(SearchError::TooLarge(count));
    };
    for _ in 0..TURNS {
        tell(best.found.cost, spent);
        if best.found.cost == bound.cost || stop() {
            break;
        }
        let Some(order) = search.dealt(&best, once, stop) else { break };
        let known = Some(&best.found.schedule);
        let next = search.passes(order, known, (part(TURN), &mut |_| {}), stop)?;
        spent += part(TURN);
        if next.found.cost >= best.found.cost {
            break;
        }
        best = next;
    }
    let cost = best.found.cost;
    let mut hear = |now: Progress| tell(now.best.unwrap_or(cost).min(cost), spent + now.steps);
    let (order, known) = (best.microbatches.clone(), Some(&best.found.schedule));
    let last = search.passes(order, known, (all.saturating_sub(spent), &mut hear), stop)?;
    let interrupted = last.found.interrupted;
    // An order that the search cannot write down is not a start.
    let last = if best.found.cost < last.found.cost { best } else { last };
    let schedule = last.found.schedule.with_microbatches(&last.microbatches)?;
    let published = search.published();
    Ok(Found { schedule, bound, published, interrupted, ..last.found })
}

/// A search of one instance.
struct Unequal<'a> {
    instance: &'a Instance,
    work: &'a MicrobatchWork,
    bound: Bound,
    seed: u64,
}

impl Unequal<'_> {
    /// The instance with its microbatches in another order.
    fn ordered(&self, microbatches: &[u32]) -> Instance {
        let costs = self.instance.costs.clone();
        let costs = costs.with_microbatch_work(self.work.ordered(microbatches));
        Instance { costs, ..self.instance.clone() }
    }

    /// The best order of passes for `microbatches`, from `known` on, too.
    fn passes(
        &self,
        microbatches: Vec<u32>,
        known: Option<&Schedule>,
        (steps, progress): (u64, &mut dyn FnMut(Progress)),
        stop: Stop<'_>,
    ) -> Result<Dealt, SearchError> {
        let instance = self.ordered(&microbatches);
        let from = (self.bound, Starts::Quick);
        let found = run(&instance, from, known, (self.seed, steps), Some(progress), stop)?;
        Ok(Dealt { microbatches, found })
    }

    /// The published schedules that fit, with the microbatches as they come.
    fn published(&self) -> Vec<Published> {
        let (compiled, mut clock) = (CompiledInstance::of(self.instance), Clock::default());
        let all = start::published(self.instance, Starts::All, &compiled, &mut clock);
        all.into_iter().map(|(one, ..)| one).collect()
    }

    /// A better order of microbatches in the passes of `best`, if one is found.
    fn dealt(&self, best: &Dealt, effort: Effort, stop: Stop<'_>) -> Option<Vec<u32>> {
        let now = self.ordered(&best.microbatches);
        let work = now.costs.microbatch_work()?;
        let schedule = &best.found.schedule;
        #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
        let evaluate = |order: &[u32]| {
            let costs = now.costs.clone().with_microbatch_work(work.ordered(order));
            let metrics = Replay::new().metrics(schedule, &costs).ok()?;
            Some(now.objective.of(&metrics).0 as f64)
        };
        let (order, ..) = order_microbatches(&weights(&now), &evaluate, effort, stop)?;
        Some(order.iter().map(|&at| best.microbatches[at as usize]).collect())
    }
}

/// The work of each microbatch of `instance`.
fn weights(instance: &Instance) -> Vec<Nanos> {
    instance.costs.work_by_microbatch().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pipeline::{
        Bytes, Costs, Footprint, Footprints, Limits, Memory, PassTimes, Placement, Shape, Work,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::instance::Objective;

    /// Four stages that hold 1p, and microbatches of these factors.
    fn instance(factors: &[f64], chunks: u64) -> Instance {
        let shape = Shape::new(4, chunks, factors.len() as u64).unwrap();
        let times = PassTimes::new(Nanos(1_000), Nanos(1_100), Nanos(900));
        let work = factors.iter().map(|&one| Work::alike(one).unwrap()).collect();
        let costs = Costs::uniform(shape, times, Nanos(50));
        let costs = costs.with_microbatch_work(MicrobatchWork::new(work));
        let held = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
        let limits = Limits::new(shape, &[Bytes(4 * chunks)]).unwrap();
        let placement = if chunks == 2 { Placement::Vee } else { Placement::Looped };
        let footprints = Footprints::uniform(shape, held);
        Instance::new(shape, placement, costs, footprints, Some(limits), Objective::Span).unwrap()
    }

    fn found(instance: &Instance, times: u64) -> Found {
        let effort = Effort { times: Some(times), seed: 0 };
        crate::search(instance, effort, |_| {}, &|| false).unwrap()
    }

    #[test]
    fn an_order_costs_as_much_as_its_replay_and_keeps_to_its_limit() {
        for chunks in [1, 2] {
            let asked = instance(&[1.0, 0.5, 2.0, 1.0, 0.7, 1.6, 1.0, 0.4], chunks);
            let found = found(&asked, 1);
            let metrics = Replay::new().metrics(&found.schedule, &asked.costs).unwrap();
            assert_eq!(found.cost, asked.objective.of(&metrics));
            assert!(found.bound.cost <= found.cost);
            let memory = Memory::of(&found.schedule, &asked.footprints).unwrap();
            assert_eq!(memory.over(asked.limits.as_ref().unwrap()), None);
            // Better than every published schedule with the microbatches as they come.
            let published = found.best_published().unwrap();
            assert!(found.cost < published.cost, "{chunks}: {} {published:?}", found.cost);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// No order that is found undercuts a bound, with any limit.
        #[test]
        fn no_order_undercuts_its_bound(
            factors in prop::collection::vec(0.2f64..3.0, 1..7),
            times in prop::array::uniform3(1u64..40),
            (hop, limit, chunks) in (0u64..10, 2u64..6, 1u64..3),
            is_span: bool,
        ) {
            let shape = Shape::new(3, chunks, factors.len() as u64).unwrap();
            let [forward, input, weight] = times.map(Nanos);
            let work = factors.iter().map(|&one| Work::alike(one).unwrap()).collect();
            let costs = Costs::uniform(shape, PassTimes::new(forward, input, weight), Nanos(hop));
            let costs = costs.with_microbatch_work(MicrobatchWork::new(work));
            let placement = if chunks == 2 { Placement::Vee } else { Placement::Looped };
            let footprints = Footprints::uniform(shape, Footprint { until_backward: Bytes(1), until_weight: Bytes(1) });
            let limits = Limits::new(shape, &[Bytes(limit * chunks)]).unwrap();
            let objective = if is_span { Objective::Span } else { Objective::Makespan };
            let asked = Instance::new(shape, placement, costs, footprints, Some(limits), objective).unwrap();
            let found = found(&asked, 1);
            prop_assert!(found.bound.cost <= found.cost, "{:?} {:?}", found.bound, found.cost);
        }
    }

    #[test]
    fn a_search_gives_the_same_order_again() {
        let asked = instance(&[3.0, 1.0, 1.0, 0.2, 1.5, 0.3], 1);
        assert_eq!(found(&asked, 1), found(&asked, 1));
    }

    /// Where all have the same work, it is the search of microbatches that are alike.
    #[test]
    fn equal_work_costs_no_more_than_alike_microbatches() {
        let unequal = instance(&[1.0; 8], 1);
        let costs = unequal.costs.clone().of_mean_microbatch();
        let alike = Instance { costs, ..unequal.clone() };
        assert_eq!(found(&unequal, 1).cost, found(&alike, 1).cost);
    }

    /// The way of the long one down and up again is nearly all of the step.
    #[test]
    fn one_long_microbatch_hides_the_others() {
        let asked = instance(&[1.0, 1.0, 1.0, 20.0, 1.0, 1.0, 1.0, 1.0], 1);
        let found = found(&asked, 2);
        let gap = found.gap();
        assert!(gap < 0.07, "{gap} {} {:?}", found.cost, found.bound);
    }
}
