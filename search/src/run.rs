//! The search: bounds, known orders, then chains of list schedules and local search in rounds.

use std::sync::atomic::AtomicUsize;

use pipeline::{Fault, Nanos, PassTimes, Schedule};
use rayon::prelude::*;
use sim::Replay;
use thiserror::Error;

use crate::bounds::{self, Bound, Infeasible};
use crate::chain::{Chain, Halt};
use crate::course::{CHAINS, Course, Origin, Step, plan};
use crate::instance::Instance;
use crate::net::Net;
use crate::start::{self, Published};
use crate::timing::{Clock, Score};

/// The most passes of a pipeline that is searched: its tables take about 1 GB.
pub const MAX_PASSES: usize = 4_000_000;

/// The most chunks of a stage: three kinds of passes of each are numbered in 16 bits.
pub const MAX_CHUNKS_PER_STAGE: u16 = u16::MAX / 3;

/// The longest that all passes and hops of a pipeline may take one after the other, 4.6 years: times
/// that are weighed still fit.
pub const MAX_TIME: Nanos = Nanos(u64::MAX / 128);

/// How long to search, counted in passes placed or timed, so that it is the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// How many times the default; `None` for as long as it is let.
    pub times: Option<u64>,
    /// Seed of all chance.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { times: Some(1), seed: 0 }
    }
}

impl Effort {
    /// Passes placed or timed in all, for a pipeline of `passes`.
    fn steps(self, passes: usize) -> u64 {
        let once = 6_000_000 + 150 * passes as u64;
        self.times.map_or(u64::MAX, |times| once.saturating_mul(times))
    }
}

/// How far a search is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The cost of the best order so far.
    pub best: Nanos,
    /// What no order undercuts.
    pub bound: Nanos,
    /// Passes placed or timed.
    pub steps: u64,
    /// Of how many, if that is limited.
    pub of: Option<u64>,
}

/// What a search came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The best schedule met.
    pub schedule: Schedule,
    /// What it costs, by [`Replay`].
    pub cost: Nanos,
    /// What no schedule undercuts, and why.
    pub bound: Bound,
    /// The published schedules that fit, as they are listed.
    pub published: Vec<Published>,
    /// The best cost after the known orders and after each round, each with the steps so far.
    pub history: Vec<(u64, Nanos)>,
    /// Whether it was stopped from outside before its effort was spent.
    pub interrupted: bool,
}

impl Found {
    /// How much more it costs than the bound, as a part of the cost.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn gap(&self) -> f64 {
        if self.cost.0 == 0 {
            0.0
        } else {
            (self.cost - self.bound.cost).0 as f64 / self.cost.0 as f64
        }
    }

    /// Whether no schedule is better.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound.cost
    }

    /// The best of the published schedules that fit.
    #[must_use]
    pub fn best_published(&self) -> Option<Published> {
        self.published.iter().copied().min_by_key(|one| one.cost)
    }
}

/// Why there is no search.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SearchError {
    /// No order fits.
    #[error(transparent)]
    Infeasible(#[from] Infeasible),
    /// More passes than [`MAX_PASSES`].
    #[error("{0} passes are too many to search: at most {MAX_PASSES}")]
    TooLarge(usize),
    /// More chunks per stage than [`MAX_CHUNKS_PER_STAGE`].
    #[error("{0} chunks per stage are too many to search: at most {MAX_CHUNKS_PER_STAGE}")]
    TooManyChunks(u16),
    /// Passes and hops that take more than [`MAX_TIME`] one after the other.
    #[error("passes and hops take {0} one after the other, too long to search: at most {MAX_TIME}")]
    TooLong(Nanos),
    /// A mirrored placement.
    #[error("orders are searched for looped chunks and for a V, not for two directions at once")]
    Mirrored,
    /// The pipeline itself is wrong.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Searches the best schedule for `instance`; never a worse one than any published that fits.
///
/// `progress` is told after each round. `stop` is asked often, from several threads: once it says
/// so, the best so far is the result. Without it the same instance and effort give the same
/// result on any number of threads.
///
/// # Errors
/// If no order fits the limits, or the pipeline is one that is not searched.
pub fn search(
    instance: &Instance,
    effort: Effort,
    mut progress: impl FnMut(Progress),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    check(instance)?;
    let bound = bounds::best(instance);
    let net = Net::of(instance);
    let mut search = Search::begin(instance, &net, effort, bound);
    let mut tell = |search: &Search<'_>| {
        progress(Progress {
            best: nanos(search.best.0.cost),
            bound: bound.cost,
            steps: search.done,
            of: effort.times.map(|_| search.total),
        });
    };
    search.history.push((0, nanos(search.best.0.cost)));
    tell(&search);
    while !search.is_over() && !stop() {
        search.round(stop);
        search.history.push((search.done, nanos(search.best.0.cost)));
        tell(&search);
    }
    let interrupted = !search.is_over();
    search.found(instance, bound, interrupted)
}

/// What all passes and hops take one after the other.
fn serial_time(instance: &Instance) -> Nanos {
    let Instance { shape, costs, .. } = instance;
    let hops = costs.hop().0.saturating_mul(2);
    let chunk = |times: &PassTimes| {
        let PassTimes { forward, backward_input, backward_weight } = *times;
        [forward.0, backward_input.0, backward_weight.0].into_iter().fold(hops, u64::saturating_add)
    };
    let microbatch = costs.chunks().iter().map(chunk).fold(0, u64::saturating_add);
    Nanos(microbatch.saturating_mul(u64::from(shape.microbatches())))
}

fn check(instance: &Instance) -> Result<(), SearchError> {
    if instance.placement == pipeline::Placement::Mirrored {
        return Err(SearchError::Mirrored);
    }
    let passes = 3 * instance.shape.cells();
    if passes > MAX_PASSES {
        return Err(SearchError::TooLarge(passes));
    }
    let chunks = instance.shape.chunks_per_stage();
    if chunks > MAX_CHUNKS_PER_STAGE {
        return Err(SearchError::TooManyChunks(chunks));
    }
    let time = serial_time(instance);
    if time > MAX_TIME {
        return Err(SearchError::TooLong(time));
    }
    Ok(bounds::check_limits(instance)?)
}

fn nanos(time: i64) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(0))
}

/// A search on its way.
struct Search<'a> {
    net: &'a Net,
    /// The net with time running back.
    reversed: Net,
    goal: i64,
    best: (Score, Vec<u16>),
    published: Vec<Published>,
    chains: Vec<Chain>,
    course: Course,
    round: u32,
    done: u64,
    total: u64,
    history: Vec<(u64, Nanos)>,
}

impl<'a> Search<'a> {
    /// With the best of the known orders.
    fn begin(instance: &Instance, net: &'a Net, effort: Effort, bound: Bound) -> Self {
        let mut clock = Clock::default();
        let serial = start::one_by_one(net);
        let score = clock.time(net, &serial).unwrap_or(Score::WORST);
        let mut best = (score, serial);
        let mut published = Vec::new();
        for (one, score, sequence) in start::published(instance, net, &mut clock) {
            published.push(one);
            if score < best.0 {
                best = (score, sequence);
            }
        }
        let goal = i64::try_from(bound.cost.0).unwrap_or(i64::MAX / 4);
        let chains = (0..CHAINS).map(|number| Chain::new(net, effort.seed, number));
        let total = effort.steps(net.passes());
        Self {
            net,
            reversed: net.reversed(),
            goal,
            best,
            published,
            chains: chains.collect(),
            course: Course::of(net, total),
            round: 0,
            done: 0,
            total,
            history: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.best.0.cost <= self.goal || self.done >= self.total
    }

    /// Lets every chain do the [`Step`] of the round. Rounds become longer up to a point.
    fn round(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let step = self.course.step(self.round);
        let steps = self.course.steps(self.round);
        let steps = steps.min((self.total - self.done).div_ceil(CHAINS as u64));
        let solved = AtomicUsize::new(usize::MAX);
        let reversed = &self.reversed;
        let (net, goal, best, round) = (self.net, self.goal, &self.best, self.round);
        let one = |(number, chain): (usize, &mut Chain)| {
            let halt = Halt { stop, solved: &solved, number };
            let from = |origin: Origin| (origin == Origin::Best).then_some(&best.1[..]);
            match step {
                Step::Begin | Step::Climb => {
                    if step == Step::Begin {
                        chain.begin_anew(net);
                    }
                    chain.climb((net, reversed), (goal, best.0.cost), steps, &halt)
                }
                Step::Echo(origin) => {
                    chain.echo((net, reversed), (from(origin), goal), steps, &halt)
                }
                Step::Anneal(origin) => {
                    let plan = plan(net, goal, steps, round, number);
                    chain.anneal(net, from(origin), plan, &halt)
                }
            }
        };
        let chains = self.chains.par_iter_mut().enumerate();
        let steps: Vec<u64> = chains.map(one).collect();
        // Behind the first chain that reaches the goal, chains end when they hear of it.
        let solver = self.chains.iter().position(|chain| chain.best.0.cost <= goal);
        let heard = solver.map_or(CHAINS, |number| number + 1);
        self.done += steps[..heard].iter().sum::<u64>().max(1);
        let winner = match solver {
            Some(number) => Some(&self.chains[number]),
            None => self.chains.iter().min_by_key(|chain| chain.best.0),
        };
        if let Some(chain) = winner.filter(|chain| chain.best.0 < self.best.0) {
            self.best.clone_from(&chain.best);
        }
        self.round += 1;
    }

    fn found(
        self,
        instance: &Instance,
        bound: Bound,
        interrupted: bool,
    ) -> Result<Found, SearchError> {
        let Instance { shape, placement, costs, objective, .. } = instance;
        let orders = self.net.orders(&self.best.1, *shape, *placement);
        let schedule = Schedule::new(*shape, *placement, orders)?;
        let cost = objective.of(&Replay::new().metrics(&schedule, costs)?);
        let Self { published, history, .. } = self;
        Ok(Found { schedule, cost, bound, published, history, interrupted })
    }
}
