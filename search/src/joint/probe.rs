//! The worth of a choice: the memory that it lacks, or the cost of an order that is quickly found for it.

use pipeline::Nanos;

use super::Choice;
use super::copied::{Copied, Outcome, TURNS, relaxed};
use crate::bounds;
use crate::check;
use crate::error::SearchError;
use crate::found::Found;
use crate::instance::Instance;
use crate::run::search_within;
use crate::start::Starts;

/// Number of times that each pass is placed or timed where a choice is tried.
pub(super) const QUICK: u64 = 120;
/// The same where a choice is among the best.
pub(super) const CLOSE: u64 = 2_000;

/// A choice that was tried.
#[derive(Clone)]
pub(super) struct Tried {
    pub(super) choice: Choice,
    pub(super) worth: Worth,
}

/// Result of trying a choice.
#[derive(Clone)]
pub(super) enum Worth {
    /// Infeasible: bytes that it lacks, summed over all stages.
    Lacks(u64),
    /// Pruned: its lower bound is no lower than a known cost.
    Bounded,
    /// An order was found for it.
    Found(Box<(Instance, Found)>),
}

impl Tried {
    /// Cost of the order found for it.
    pub(super) fn cost(&self) -> Option<Nanos> {
        match &self.worth {
            Worth::Found(found) => Some(found.1.cost),
            Worth::Lacks(_) | Worth::Bounded => None,
        }
    }

    /// Sort key, the smallest first; `None` for a choice from which the search does not continue.
    pub(super) fn rank(&self) -> Option<(u64, Nanos)> {
        match &self.worth {
            Worth::Lacks(bytes) => Some((*bytes, Nanos(0))),
            Worth::Bounded => None,
            Worth::Found(found) => Some((0, found.1.cost)),
        }
    }
}

/// Tries `choice`, whose instance is `instance` and whose chunks go to the host where `hosted` says so, where an order
/// that costs `known` is there already: each of its passes is placed or timed `effort` times.
///
/// # Errors
/// If the instance cannot be searched, for another reason than its limits.
pub(super) fn try_choice(
    choice: Choice,
    (instance, hosted): (Instance, &[bool]),
    known: Option<Nanos>,
    (effort, seed, starts): (u64, u64, Starts),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Tried, SearchError> {
    let copies = hosted.iter().any(|hosted| *hosted);
    let least = if copies { relaxed(&instance, hosted) } else { instance.clone() };
    match check::check(&least) {
        Ok(()) => {}
        Err(SearchError::Infeasible(_)) => {
            return Ok(Tried { worth: Worth::Lacks(lacking(&least)), choice });
        }
        Err(error) => return Err(error),
    }
    let bound = bounds::best(&least);
    if known.is_some_and(|known| bound.cost >= known) {
        return Ok(Tried { choice, worth: Worth::Bounded });
    }
    let steps = effort.saturating_mul(check::passes(&instance) as u64);
    let found = match copies {
        false => search_within(&instance, (bound, starts), (seed, steps), stop)?,
        true => {
            match Copied::of((&instance, hosted), bound, TURNS[0]).search((seed, steps), stop)? {
                Outcome::Found(found) => *found,
                Outcome::Lacks(bytes) => return Ok(Tried { choice, worth: Worth::Lacks(bytes) }),
            }
        }
    };
    Ok(Tried { choice, worth: Worth::Found(Box::new((instance, found))) })
}

/// By how many bytes the least that the stages hold exceeds their limits, at least one.
fn lacking(instance: &Instance) -> u64 {
    let Some(limits) = &instance.limits else { return 1 };
    let least = bounds::smallest_limit(instance).into_iter().zip(limits.by_stage());
    let lacks = least.map(|(least, limit)| least.0.saturating_sub(limit.0));
    lacks.fold(0, u64::saturating_add).max(1)
}

/// The work of each stage for one microbatch: all passes of its chunks, R among them.
pub(super) fn work(instance: &Instance) -> Vec<u64> {
    let Instance { shape, placement, costs, .. } = instance;
    let mut work = vec![0_u64; shape.stages()];
    for (chunk, times) in (0..).zip(costs.chunks()) {
        let again = costs.recompute(chunk).unwrap_or_default().0;
        let own = [times.forward.0, times.least_backward().0, again];
        let stage = &mut work[placement.stage(*shape, chunk, 0)];
        *stage = own.into_iter().fold(*stage, u64::saturating_add);
    }
    work
}
