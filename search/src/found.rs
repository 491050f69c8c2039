//! The effort, the progress and the result of a search.

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
    /// The same where it is limited, else the default effort: of a search that is only a part of another.
    #[must_use]
    pub fn limited(self) -> Self {
        Self { times: self.times.or(Some(1)), ..self }
    }

    /// The number of steps in all, of which the default effort has `once`.
    pub(crate) fn total(self, once: u64) -> u64 {
        self.times.map_or(u64::MAX, |times| once.saturating_mul(times))
    }

    /// The number of passes to be placed or timed in all, for a pipeline of `passes`.
    pub(crate) fn steps(self, passes: usize) -> u64 {
        self.total(6_000_000 + 150 * passes as u64)
    }
}

/// How far a search has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The search that is under way.
    pub phase: Phase,
    /// The best so far, by what that search makes small; `None` where nothing fits yet.
    pub best: Option<Nanos>,
    /// The lower bound on the cost of any order, in a search by the nominal times.
    pub bound: Option<Nanos>,
    /// The steps so far: passes placed or timed, in a joint search choices tried.
    pub steps: u64,
    /// The number at which the search ends, if its effort is limited.
    pub of: Option<u64>,
}

/// The best cost of a search after a number of its steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Milestone {
    /// The steps: passes placed or timed, of a joint search choices tried.
    pub steps: u64,
    /// The best cost.
    pub cost: Nanos,
    /// The lower bound on the cost of any order, where one was known.
    pub bound: Option<Nanos>,
}

/// The objective of a search, or of one that is a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The cost of an order by the nominal times.
    Nominal,
    /// The statistic of an order under noise, in the replicas that are searched.
    UnderNoise,
    /// The figure of an order by the event engine.
    OnHardware,
    /// The cost of a choice with its order.
    Jointly,
}

impl Progress {
    /// That of a search by the nominal times, after so many steps of so many.
    pub(crate) const fn nominal(
        best: Nanos,
        bound: Nanos,
        (steps, of): (u64, Option<u64>),
    ) -> Self {
        Self { phase: Phase::Nominal, best: Some(best), bound: Some(bound), steps, of }
    }
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
