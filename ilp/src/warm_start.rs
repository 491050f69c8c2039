//! Warm start of the integer program from the result of a search.

use pipeline::{Nanos, Schedule};
use search::bounds::{Argument, Bound};
use search::{Found, Instance};

use crate::solve::{Answer, End, cost, fits, solve};
use crate::unsuitable::Unsuitable;

/// Takes the cheapest of the `known` orders into the result `found` of a search of `instance`, if one that fits costs less.
pub fn start_from(instance: &Instance, found: &mut Found, known: &[&Schedule]) {
    for order in known.iter().filter(|order| fits(instance, order)) {
        if let Ok(cost) = cost(instance, order)
            && cost < found.cost
        {
            (found.cost, found.schedule) = (cost, (*order).clone());
        }
    }
}

/// Solves the program of `instance`, warm-started from the result `found` of a search, and updates that with a better
/// order, and with a better bound and its proof. Returns the nodes of all trees, and how it ended; see [`solve`].
///
/// Where backwards may be whole the program is that of [`Instance::relaxed`]. Its optimum bounds every order; that it
/// is solved does not prove the order that was found, unless that costs no more.
pub fn warm_start(
    instance: &Instance,
    found: &mut Found,
    steps: u64,
    progress: impl FnMut(Nanos, Nanos, usize),
    stop: &dyn Fn() -> bool,
) -> Result<(usize, End), Unsuitable> {
    if instance.mixes() {
        return warm_start_relaxed(instance, found, steps, progress, stop);
    }
    let (known, proved) = (found.schedule.clone(), found.bound.cost);
    let Answer { schedule, cost, bound, proof, nodes, end } =
        solve(instance, known, proved, steps, progress, stop)?;
    if cost < found.cost {
        (found.schedule, found.cost) = (schedule, cost);
    }
    if let Some(proof) = proof {
        (found.bound, found.proof) = (Bound { argument: Argument::Branching, cost: bound }, proof);
    }
    Ok((nodes, end))
}

fn warm_start_relaxed(
    instance: &Instance,
    found: &mut Found,
    steps: u64,
    mut progress: impl FnMut(Nanos, Nanos, usize),
    stop: &dyn Fn() -> bool,
) -> Result<(usize, End), Unsuitable> {
    let best = found.cost;
    let tell = |_, bound, nodes| progress(best, bound, nodes);
    let (known, proved) = (found.schedule.split()?, found.bound.cost);
    let Answer { schedule, bound, proof, nodes, end, .. } =
        solve(&instance.relaxed(), known, proved, steps, tell, stop)?;
    for order in [schedule.whole()?, schedule] {
        if fits(instance, &order) && cost(instance, &order)? < found.cost {
            (found.cost, found.schedule) = (cost(instance, &order)?, order);
        }
    }
    if let Some(proof) = proof {
        (found.bound, found.proof) = (Bound { argument: Argument::Branching, cost: bound }, proof);
    }
    let end = match end {
        End::Proved if found.cost > found.bound.cost => End::Relaxed,
        end => end,
    };
    Ok((nodes, end))
}
