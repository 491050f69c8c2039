//! A search that goes on as a program.

use pipeline::Nanos;
use search::bounds::{Argument, Bound};
use search::{Found, Instance};

use crate::solve::{Answer, End, Unsuitable, solve};

/// Solves the program of `instance` from what a search has `found`, and keeps there what is better: the order, and the
/// bound with its proof. Gives the nodes of all trees, and how it ended; see [`solve`].
///
/// # Errors
/// [`Unsuitable`] instances.
pub fn go_on(
    instance: &Instance,
    found: &mut Found,
    steps: u64,
    progress: impl FnMut(Nanos, Nanos, usize),
    stop: &dyn Fn() -> bool,
) -> Result<(usize, End), Unsuitable> {
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
