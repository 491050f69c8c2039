//! The search where passes are segments on two streams: which forward should meet which backward.
//!
//! It starts from the published schedules that fit, and from list schedules of pairs under policies drawn at
//! random; then slots are moved, paired, taken apart and split by simulated annealing.

mod changes;
mod list_scheduler;
mod slots;

use pipeline::{Memory, Schedule};
use rayon::prelude::*;
use sim::Replay;

use self::list_scheduler::Policy;
use self::slots::{Clock, Doing, Slots, Table};
use crate::Instance;
use crate::bounds::{self, Bound};
use crate::chance::Chance;
use crate::error::SearchError;
use crate::found::{Effort, Found, Progress, nanos};
use crate::rounds::CHAINS;
use crate::start::{self, Published};
use crate::timing::Score;

pub(crate) use self::slots::MAX_CHUNKS;

/// Number of slots that are timed in the time in which another search places or times one pass.
pub(crate) const QUICK: u64 = 30;
/// Number of slots that may be timed in the time that a list schedule takes for one.
const LIST: u64 = 8;
/// The rounds of a search of default effort.
const ROUNDS: u64 = 12;
/// After how many slots it is asked whether to stop: a millisecond.
const ASKED: u64 = 100_000;
/// The part of the list schedules whose policy is drawn anew rather than near the best, one in so many.
const ANEW: usize = 3;
/// The annealing of each chain: first and last temperature, in mean slots, and the weight of the mean stage
/// beside the worst.
const ANNEALING: [(f64, f64, f64); CHAINS] =
    [(0.1, 0.005, 0.3), (0.03, 0.003, 0.1), (0.3, 0.01, 1.0), (0.05, 0.002, 0.3)];

/// One of the searches that run side by side.
struct Chain {
    chance: Chance,
    clock: Clock,
    best: (Score, Slots),
    policy: (Score, Policy),
}

/// The state of a running search.
struct Search {
    table: Table,
    goal: i64,
    best: (Score, Slots),
    chains: Vec<Chain>,
    round: u32,
    done: u64,
    total: u64,
}

/// Searches as [`search`](crate::search) does, for an instance whose passes communicate.
///
/// # Errors
/// If the order found is none.
pub(crate) fn search(
    instance: &Instance,
    effort: Effort,
    progress: impl FnMut(Progress),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    let passes = 3 * instance.shape.cells();
    let total = effort.steps(passes).saturating_mul(QUICK);
    search_within(instance, (effort.seed, total), progress, stop)
}

/// Searches from a seed until so many slots are timed.
pub(crate) fn search_within(
    instance: &Instance,
    (seed, total): (u64, u64),
    mut progress: impl FnMut(Progress),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    let bound = bounds::best(instance);
    let known = published(instance);
    let mut search = Search::begin(Table::of(instance), &known, (seed, total), bound);
    let mut history = vec![(0, nanos(search.best.0.cost))];
    let mut tell = |search: &Search| {
        progress(Progress {
            best: nanos(search.best.0.cost),
            bound: bound.cost,
            steps: search.done / QUICK,
            of: (total < u64::MAX).then_some(total / QUICK),
        });
    };
    tell(&search);
    while !search.is_over() && !stop() {
        search.round(stop);
        history.push((search.done / QUICK, nanos(search.best.0.cost)));
        tell(&search);
    }
    let interrupted = !search.is_over();
    let Instance { shape, placement, costs, objective, .. } = instance;
    let orders = search.table.orders(&search.best.1);
    let schedule = Schedule::new(*shape, *placement, orders)?;
    let cost = objective.of(&Replay::new().metrics(&schedule, costs)?);
    let best = known.iter().min_by_key(|(one, _)| one.cost).filter(|(one, _)| one.cost < cost);
    let (schedule, cost) = match best {
        Some((one, schedule)) => (schedule.clone(), one.cost),
        None => (schedule, cost),
    };
    let published = known.into_iter().map(|(one, _)| one).collect();
    Ok(Found {
        schedule,
        cost,
        bound,
        proof: bounds::Proof::default(),
        published,
        history,
        interrupted,
    })
}

/// The published schedules that fit, as they are, each with its cost.
fn published(instance: &Instance) -> Vec<(Published, Schedule)> {
    let Some(problem) = start::problem(instance) else { return Vec::new() };
    let timed = start::families(instance).filter_map(|family| {
        let schedule = family.schedule(&problem).ok()?;
        let memory = Memory::of(&schedule, &instance.footprints).ok()?;
        if instance.limits.as_ref().is_some_and(|limits| memory.over(limits).is_some()) {
            return None;
        }
        let metrics = Replay::new().metrics(&schedule, &instance.costs).ok()?;
        let cost = instance.objective.of(&metrics);
        let peak = memory.peak.into_iter().max().unwrap_or_default();
        Some((Published { family, cost, peak }, schedule))
    });
    timed.collect()
}

/// One microbatch after the other: it needs the least memory of all orders.
fn one_by_one(table: &Table) -> Slots {
    let back = table.chunks().rev().flat_map(|chunk| [Doing::b(chunk, false), Doing::w(chunk)]);
    let once: Vec<Doing> = table.chunks().map(Doing::f).chain(back).collect();
    vec![once.repeat(table.compiled.microbatches as usize); table.compiled.stages]
}

impl Search {
    /// A search that starts from the best of the published orders and the serial one; each chain from a
    /// published order of its own, if there are as many.
    fn begin(
        table: Table,
        known: &[(Published, Schedule)],
        (seed, total): (u64, u64),
        bound: Bound,
    ) -> Self {
        let mut clock = Clock::default();
        let serial = one_by_one(&table);
        let known = known.iter().filter_map(|(_, schedule)| table.slots(schedule));
        let timed = known.chain([serial.clone()]).filter_map(|slots| {
            let score = clock.time(&table, &slots)?;
            Some((score, slots))
        });
        let mut starts: Vec<(Score, Slots)> = timed.collect();
        starts.sort_by_key(|(score, _)| *score);
        let worst = (Score::WORST, serial);
        let best = starts.first().unwrap_or(&worst).clone();
        let chain = |number: usize| Chain {
            chance: Chance::new(seed, 1 + number as u64),
            clock: Clock::default(),
            best: starts.get(number).unwrap_or(&best).clone(),
            policy: (Score::WORST, Policy::draw(&mut Chance::new(seed, 0), 1, 1)),
        };
        let goal = i64::try_from(bound.cost.0).unwrap_or(i64::MAX / 4);
        let chains = (0..CHAINS).map(chain).collect();
        Self { table, goal, best, chains, round: 0, done: 0, total }
    }

    fn is_over(&self) -> bool {
        self.best.0.cost <= self.goal || self.done >= self.total
    }

    /// Every third round each chain makes list schedules; in the others it anneals, from its own best order or
    /// from the best of all in turn.
    fn round(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let each = match self.total {
            u64::MAX => 40_000_000 << self.round.min(4),
            total => total / ROUNDS,
        };
        let steps = each.min(self.total - self.done).div_ceil(CHAINS as u64).max(1);
        let (table, goal, best, round) = (&self.table, self.goal, &self.best, self.round);
        let one = |(number, chain): (usize, &mut Chain)| {
            let halt = Halt { steps, goal, stop };
            match round % 3 {
                0 => chain.lists(table, &halt),
                turn => {
                    if turn == 2 && chain.best.0 > best.0 {
                        chain.best.clone_from(best);
                    }
                    let set = ANNEALING[(number + round as usize) % CHAINS];
                    chain.anneal(table, set, &halt)
                }
            }
        };
        let steps: Vec<u64> = self.chains.par_iter_mut().enumerate().map(one).collect();
        self.done = self.done.saturating_add(steps.iter().sum::<u64>().max(1));
        let winner = self.chains.iter().min_by_key(|chain| chain.best.0);
        if let Some(chain) = winner.filter(|chain| chain.best.0 < self.best.0) {
            self.best.clone_from(&chain.best);
        }
        self.round += 1;
    }
}

/// When a chain ends its round.
struct Halt<'a> {
    steps: u64,
    goal: i64,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Chain {
    /// Makes list schedules until the steps are spent; gives those it took.
    fn lists(&mut self, table: &Table, halt: &Halt<'_>) -> u64 {
        let begin = self.clock.steps;
        let passes = table.compiled.passes() as u64;
        while self.clock.steps - begin < halt.steps
            && self.best.0.cost > halt.goal
            && !(halt.stop)()
        {
            let anew = self.policy.0 == Score::WORST || self.chance.below(ANEW) == 0;
            let policy = match anew {
                true => {
                    Policy::draw(&mut self.chance, table.compiled.stages, table.compiled.chunks)
                }
                false => self.policy.1.near(&mut self.chance),
            };
            if let Some(slots) = list_scheduler::schedule(table, policy)
                && let Some(score) = self.clock.time(table, &slots)
            {
                if score <= self.policy.0 {
                    self.policy = (score, policy);
                }
                if score < self.best.0 {
                    self.best = (score, slots);
                }
            }
            self.clock.steps += LIST * passes;
        }
        self.clock.steps - begin
    }

    /// Tries changes until the steps are spent; worse orders are taken with a probability that falls as it
    /// cools down. Gives the steps it took.
    #[allow(clippy::cast_precision_loss)] // Rounding of times does not matter to a search.
    fn anneal(
        &mut self,
        table: &Table,
        (hot, cold, weight): (f64, f64, f64),
        halt: &Halt<'_>,
    ) -> u64 {
        let (begin, mut ask) = (self.clock.steps, 0);
        let stages = table.compiled.stages as f64;
        let energy = |score: Score| score.cost as f64 + weight * score.sum as f64 / stages;
        let slot = table.compiled.mean_pass() * (1.0 + weight);
        let (mut now, mut slots) = self.best.clone();
        while self.clock.steps - begin < halt.steps && self.best.0.cost > halt.goal {
            let spent = self.clock.steps - begin;
            if spent >= ask {
                if (halt.stop)() {
                    break;
                }
                ask = spent + ASKED;
            }
            self.clock.steps += 1;
            let Some((stage, old)) = changes::change(&mut slots, &mut self.chance) else {
                continue;
            };
            let cooled = spent as f64 / halt.steps as f64;
            let temperature = slot * hot * (cold / hot).powf(cooled);
            let score = self.clock.time(table, &slots);
            let taken =
                score.filter(|score| self.chance.takes(energy(*score) - energy(now), temperature));
            match taken {
                Some(score) => now = score,
                None => slots[stage] = old,
            }
            if now < self.best.0 {
                self.best.0 = now;
                self.best.1.clone_from(&slots);
            }
        }
        self.clock.steps - begin
    }
}

#[cfg(test)]
mod tests;
