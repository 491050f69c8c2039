//! What a search may do, how far it has come, and what it has found.

use pipeline::{Nanos, Schedule};

use crate::bounds::{Bound, Proof};
use crate::start::Published;

/// How long to search, counted in passes placed or timed rather than in seconds, so that the result
/// is the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// A multiple of the default effort; `None` searches until it is stopped.
    pub times: Option<u64>,
    /// The seed of all random numbers of the search.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { times: Some(1), seed: 0 }
    }
}

impl Effort {
    /// The number of passes to be placed or timed in all, for a pipeline of `passes`.
    pub(crate) fn steps(self, passes: usize) -> u64 {
        let once = 6_000_000 + 150 * passes as u64;
        self.times.map_or(u64::MAX, |times| once.saturating_mul(times))
    }
}

/// How far a search has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The cost of the best order so far.
    pub best: Nanos,
    /// The lower bound on the cost of any order.
    pub bound: Nanos,
    /// The number of passes placed or timed so far.
    pub steps: u64,
    /// The number at which the search ends, if its effort is limited.
    pub of: Option<u64>,
}

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The best schedule found.
    pub schedule: Schedule,
    /// Its cost under the objective of the instance, timed by [`Replay`](sim::Replay).
    pub cost: Nanos,
    /// The highest lower bound on the cost of any schedule, and the argument for it.
    pub bound: Bound,
    /// Evidence for the argument besides the stages that it names; empty for most arguments.
    pub proof: Proof,
    /// The published schedules that fit the limits, in the order of [`pipeline::Family::ALL`].
    pub published: Vec<Published>,
    /// The best cost after the published orders and after each round, each with the steps so far.
    pub history: Vec<(u64, Nanos)>,
    /// Whether it was stopped from outside before its effort was spent.
    pub interrupted: bool,
}

impl Found {
    /// The optimality gap: the excess of the cost over the lower bound, as a fraction of the cost.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn gap(&self) -> f64 {
        if self.cost.0 == 0 {
            0.0
        } else {
            (self.cost - self.bound.cost).0 as f64 / self.cost.0 as f64
        }
    }

    /// Whether the cost equals the lower bound, which proves the schedule optimal.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound.cost
    }

    /// The cheapest of the published schedules that fit.
    #[must_use]
    pub fn best_published(&self) -> Option<Published> {
        self.published.iter().copied().min_by_key(|one| one.cost)
    }
}

/// A time of the search, none of which is below zero.
pub(crate) fn nanos(time: i64) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(0))
}
