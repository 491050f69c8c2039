//! The neighbourhood of a choice, for callers that search orders themselves: the neighbours of least cost, by orders
//! that are quickly found.

use pipeline::Nanos;

use super::{Choice, Jointly, Outer};
use crate::error::SearchError;
use crate::instance::Instance;
use crate::side_by_side::Stop;
use crate::start::Starts;

/// Effort spent on the neighbourhood of a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourhoodEffort {
    /// Number of choices tried besides the starting ones.
    pub choices: u64,
    /// Number of these for which orders are made; a choice pruned by its lower bound does not count.
    pub orders: u64,
    /// Number of times that each pass of a choice is placed or timed, at least one.
    pub effort: u64,
    /// A known cost: a choice is pruned if its lower bound is no lower.
    pub known: Option<Nanos>,
}

/// A choice for which an order was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The choice.
    pub choice: Choice,
    /// Durations and memory of its passes.
    pub instance: Instance,
    /// The cost of an order that was quickly found for it.
    pub cost: Nanos,
}

/// The best choices of a short joint search, the cheapest first: by orders that are quickly found, so that costs
/// compare with each other rather than with that of an order searched in full. The choice that the question makes
/// stands among them if it fits and is among the best.
///
/// As long as `stop` returns false, the same question and effort give the same result on any number of threads.
///
/// # Errors
/// If an instance is too large to be searched.
pub fn probe_neighbourhood(
    jointly: &Jointly<'_>,
    effort: NeighbourhoodEffort,
    stop: Stop<'_>,
) -> Result<Vec<Neighbour>, SearchError> {
    let mut silent = |_| {};
    let mut outer = Outer::of(jointly, (effort, Starts::Quick), &mut silent, stop);
    outer.begin()?;
    outer.try_neighbours()?;
    let found = outer.best.into_iter().filter_map(|one| match one.worth {
        super::Worth::Found(found) => {
            let (instance, order) = *found;
            Some(Neighbour { choice: one.choice, instance, cost: order.cost })
        }
        super::Worth::Lacks(_) | super::Worth::Bounded => None,
    });
    Ok(found.collect())
}
