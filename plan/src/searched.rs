//! Orders that are searched for one set-up: for the times of its own passes and hops, and the memory that its
//! stages have left for activations.

use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::{Bytes, Fault, Hops, Limit, Limits, Nanos, Schedule};
use search::{Effort, Instance, Objective, Progress, SearchError, bounds};

use crate::costed::Costed;
use crate::memory::StageMemory;

/// The instance to search: the passes of `costed` as replay times them, and for each stage the smaller
/// of [`Costed::limit`] and the memory left for activations on its device.
pub(crate) fn instance(costed: &Costed) -> Result<Instance, Fault> {
    instance_under(costed, costed.limit)
}

fn instance_under(costed: &Costed, limit: Option<Limit>) -> Result<Instance, Fault> {
    let placement = costed.setup.family.about().placement;
    let held = costed.held_by_microbatch();
    let one = held.by_stage(costed.shape, placement);
    let most = one.into_iter().max().unwrap_or_default();
    let limit = limit.map_or(Bytes(u64::MAX), |limit| limit.bytes(costed.shape, most));
    let without = costed.with_activations(vec![Bytes(0); costed.shape.stages()]);
    let left =
        |(has, held): (&Bytes, &StageMemory)| limit.min(Bytes(has.0.saturating_sub(held.sum().0)));
    let limits: Vec<Bytes> = costed.capacities.iter().zip(&without).map(left).collect();
    Instance::new(
        costed.shape,
        placement,
        costed.costs.clone(),
        held.into_owned(),
        Some(Limits::new(costed.shape, &limits)?),
        costed.boundary.objective(),
    )
}

/// Lower bound of a step of `costed` on its wires over all orders under `limit`: [`bounds::best`] of
/// the work that no run can avoid, where replay may count a little more.
pub(crate) fn least(costed: &Costed, limit: Option<Limit>) -> Result<Nanos, Fault> {
    let instance = instance_under(costed, limit)?;
    let hops = shortest_hops(costed)?;
    let instance = Instance { costs: instance.costs.clone().with_hops(hops), ..instance };
    let passes = bounds::best(&instance).cost;
    Ok(costed.step_of(Nanos(passes.0.saturating_sub(sent_last(costed).0))))
}

/// How long values travel at least. Where they do so beside passes, replay has the longest way of all for each,
/// which is more than the wires of near stages take.
fn shortest_hops(costed: &Costed) -> Result<Hops, Fault> {
    let Costed { shape, sends, costs, .. } = costed;
    if costs.hops().longest() == Nanos(0) {
        return Ok(costs.hops().clone());
    }
    let placement = costed.setup.family.about().placement;
    let stages = (0..shape.chunks()).map(|chunk| placement.stage(*shape, chunk, 0));
    let stages: Vec<usize> = stages.collect();
    let mut links: Vec<Option<Nanos>> = vec![None; shape.stages()];
    for (chunk, ends) in stages.windows(2).enumerate().filter(|(_, ends)| ends[0] != ends[1]) {
        let time = sends[chunk][0].min(sends[chunk + 1][1]);
        let link = &mut links[Hops::link(ends[0], ends[1])];
        *link = Some(link.map_or(time, |known| known.min(time)));
    }
    // No value crosses the link from the last stage back to the first but in loops.
    let links: Vec<Nanos> = links.into_iter().flatten().collect();
    Hops::placed(*shape, placement, &links)
}

/// Time of the send after the last backward of a stage that is not split: between steps without a
/// barrier it overlaps with the optimizer, but replay counts it with the pass.
fn sent_last(costed: &Costed) -> Nanos {
    let Costed { setup, boundary, costs, .. } = costed;
    let is_last = !setup.searched && setup.family.has_whole_backwards();
    let is_counted = costs.hops().longest() == Nanos(0);
    match boundary.objective() {
        Objective::Span if is_last && is_counted => {
            costed.sends.iter().map(|[_, before]| *before).max().unwrap_or_default()
        }
        Objective::Span | Objective::Makespan => Nanos(0),
    }
}

/// Most passes of a pipeline whose order is searched among many set-ups, or bounded: a few seconds of
/// work.
const MAX_PASSES: usize = 200_000;

/// Whether `costed` has few enough passes to be searched among many set-ups.
pub(crate) fn is_small(costed: &Costed) -> bool {
    3 * costed.shape.cells() <= MAX_PASSES
}

/// A search ends with a round behind which the order takes at most one part in so many more than the bound.
const CLOSE: u64 = 1000;
/// And with that behind which one part in so many of the default effort is spent: what the rest of it gains
/// is little beside what formulas are off by.
const SPENT: u64 = 2;

/// Value that a bound must undercut for another search beside an order that costs `known` to be worth
/// it: the search would end as close to its own bound.
pub(crate) const fn worth_a_search(known: Nanos) -> Nanos {
    Nanos(known.0 - known.0 / CLOSE)
}

/// The best order that a search finds for `instance`, or has found when `stop` ends it.
pub(crate) fn order(
    instance: &Instance,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Schedule, Fault> {
    // Told between rounds alone, so that the end is the same on any number of threads.
    let enough = AtomicBool::new(false);
    let progress = |Progress { best, bound, steps, of, .. }: Progress| {
        let close =
            |(best, bound): (Nanos, Nanos)| best.0.saturating_sub(bound.0) <= bound.0 / CLOSE;
        let is_close = best.zip(bound).is_some_and(close);
        let is_spent = of.is_some_and(|of| steps >= of / SPENT);
        enough.store(is_close || is_spent, Ordering::Relaxed);
    };
    let stop = || enough.load(Ordering::Relaxed) || stop();
    let found = search::search(instance, Effort::default(), progress, &stop);
    found.map(|found| found.schedule).map_err(|error| match error {
        SearchError::Fault(fault) => fault,
        other => Fault::Needs { family: search::NAME, key: "microbatches", what: needs(&other) },
    })
}

/// The change to the question that would resolve `error`, in words.
fn needs(error: &SearchError) -> String {
    match error {
        SearchError::Infeasible(lacks) => format!("more memory: {lacks}"),
        SearchError::TooLarge(_) | SearchError::TooLargeUnderNoise(_) | SearchError::TooLong(_) => {
            format!("fewer microbatches: {error}")
        }
        SearchError::TooManyChunks(_) | SearchError::TooManyPairs(_) => {
            format!("fewer chunks: {error}")
        }
        SearchError::Recomputed
        | SearchError::Mirrored
        | SearchError::OverlappedUnderNoise
        | SearchError::OverlappedOnHardware
        | SearchError::OnHardware(_)
        | SearchError::Fault(_) => {
            format!("another pipeline: {error}")
        }
    }
}

/// Whether a search knows all that the passes of `costed` do: neither segments on two streams, nor shards of
/// the vocabulary, nor copies to the host.
pub(crate) fn is_known(costed: &Costed) -> bool {
    costed.costs.overlap().is_none() && !costed.shape.has_shards() && !costed.setup.copies()
}
