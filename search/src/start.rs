//! The orders that a search starts from: every published family that fits, and the serial order.

use pipeline::{
    Bytes, Choice, Chunks, Family, Fault, Limit, Memory, Nanos, Problem, Schedule, Semantics,
};
use sim::Replay;

use crate::compiled_instance::CompiledInstance;
use crate::instance::Instance;
use crate::side_by_side::Stop;
use crate::timing::{Clock, Score};

/// A schedule that was published, on the same costs and under the same limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// The family.
    pub family: Family,
    /// The cost of its order, the passes of a pair one after the other. Where BW takes B + W, each whole
    /// backward is split in B and W in place.
    pub cost: Nanos,
    /// The most that any stage holds of activations.
    pub peak: Bytes,
}

/// Which published orders a search starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Starts {
    /// All that fit.
    All,
    /// Those that are made at once: not the one that tries all building blocks there are, which takes
    /// longer than a short search.
    Quick,
}

impl Starts {
    fn has(self, family: Family) -> bool {
        self == Self::All || family != Family::VAdaptive
    }
}

/// The cheapest of the named schedules that fit and that no sequence stands for.
pub(crate) type Named = (Nanos, Schedule);

/// A published schedule, its score, and the sequence of its order.
pub(crate) type Start = (Published, Score, Vec<u16>);

/// As [`published`], and the cheapest of those without a sequence; once `stop` returns true, only those made by then. A sequence costs no more than the schedule itself:
/// passes of a pair run one after the other, and whole backwards are whole where that can be better.
pub(crate) fn published_and_named(
    instance: &Instance,
    starts: Starts,
    compiled: &CompiledInstance,
    clock: &mut Clock,
    stop: Stop<'_>,
) -> (Vec<Start>, Option<Named>) {
    let Some(problem) = problem(instance) else { return (Vec::new(), None) };
    let (mut all, mut named): (Vec<_>, Option<Named>) = (Vec::new(), None);
    for family in families(instance).filter(|family| starts.has(*family)) {
        if !all.is_empty() && stop() {
            break;
        }
        let Ok(schedule) = family.schedule(&problem) else { continue };
        if let Some(start) = start_of((instance, compiled), family, &schedule, clock) {
            all.push(start);
        } else if let Some((cost, _)) = own_cost(instance, &schedule)
            && named.as_ref().is_none_or(|(best, _)| cost < *best)
        {
            named = Some((cost, schedule));
        }
    }
    (all, named)
}

/// The cost of `schedule` as it is, and the most that any stage holds, if it fits the limits.
pub(crate) fn own_cost(instance: &Instance, schedule: &Schedule) -> Option<(Nanos, Bytes)> {
    let memory = Memory::of(schedule, &instance.footprints).ok()?;
    let fits = instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none());
    let metrics = Replay::new().metrics(schedule, &instance.costs).ok().filter(|_| fits)?;
    let peak = memory.peak.into_iter().max().unwrap_or_default();
    Some((instance.objective.of(&metrics), peak))
}

/// `schedule` with its cost, or `known` if that is cheaper.
pub(crate) fn cheaper(
    instance: &Instance,
    schedule: Schedule,
    known: Option<Named>,
) -> Result<Named, Fault> {
    let cost = instance.objective.of(&Replay::new().metrics(&schedule, &instance.costs)?);
    Ok(known.filter(|(known, _)| *known < cost).unwrap_or((cost, schedule)))
}

fn start_of(
    (instance, compiled): (&Instance, &CompiledInstance),
    family: Family,
    schedule: &Schedule,
    clock: &mut Clock,
) -> Option<Start> {
    let sequence = compiled.sequence(schedule)?;
    let score = clock.time(compiled, &sequence)?;
    let cost = Nanos(u64::try_from(score.cost).unwrap_or(0));
    let memory = Memory::of(schedule, &instance.footprints).ok()?;
    let peak = memory.peak.into_iter().max().unwrap_or_default();
    Some((Published { family, cost, peak }, score, sequence))
}

/// Every one of the [`families`] among `starts` that fits the limits of `instance`, with the sequence of its order.
pub(crate) fn published(
    instance: &Instance,
    starts: Starts,
    compiled: &CompiledInstance,
    clock: &mut Clock,
) -> Vec<Start> {
    published_and_named(instance, starts, compiled, clock, &|| false).0
}

/// The families with the placement and the chunks of `instance`. None of them cuts microbatches.
pub(crate) fn families(instance: &Instance) -> impl Iterator<Item = Family> {
    let fits = |family: &Family| {
        let about = family.about();
        let chunks = u64::from(instance.shape.chunks_per_stage());
        let cuts = matches!(about.choice, Choice::Segments { .. });
        let can = match about.chunks {
            Chunks::Exactly(exactly) => u64::from(exactly) == chunks,
            Chunks::Any { .. } => true,
        };
        let alike = about.semantics == Semantics::Synchronous && about.choice != Choice::Offload;
        about.placement == instance.placement && can && !cuts && alike
    };
    Family::ALL.into_iter().filter(fits)
}

/// The problem that the families are given to find an order for `instance`: that of the mean microbatch.
pub(crate) fn problem(instance: &Instance) -> Option<Problem> {
    let costs = instance.costs.clone().of_mean_microbatch();
    let problem = Problem::new(instance.shape, costs).ok()?;
    let problem = problem.with_footprints(instance.footprints.clone()).ok()?;
    let Some(limits) = &instance.limits else { return Some(problem) };
    let limits: Vec<Limit> = limits.by_stage().iter().map(|&limit| Limit::Bytes(limit)).collect();
    problem.with_limits(&limits).ok()
}

/// One microbatch after the other, each R before its B and each W behind it, whole backwards where they may be: it
/// needs the least memory of all orders.
pub(crate) fn one_by_one(compiled: &CompiledInstance) -> Vec<u16> {
    let chunks = compiled.chunks;
    let again = |chunk| compiled.recomputes.then_some(3 * chunks + chunk);
    let back = (0..chunks)
        .rev()
        .flat_map(|chunk| again(chunk).into_iter().chain([chunks + chunk, 2 * chunks + chunk]));
    let once: Vec<u16> =
        (0..chunks).chain(back).map(|lane| compiled.code(lane, compiled.mixes)).collect();
    once.repeat(compiled.microbatches as usize * compiled.stages)
}
