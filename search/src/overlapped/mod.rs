//! The search where passes are segments on two streams: which forward should meet which backward.
//!
//! It starts from the published schedules that fit, and from list schedules of pairs under policies drawn at
//! random; then slots are moved, paired, taken apart and split by simulated annealing.

mod changes;
mod list_scheduler;
mod slots;

use pipeline::Schedule;

use self::changes::Pairs;
use self::list_scheduler::Policy;
use self::slots::{Clock, Doing, Slots, Table};
use crate::annealing::{self, Cooling};
use crate::bounds::{Bound, Proof};
use crate::chance::Chance;
use crate::error::SearchError;
use crate::found::{Found, Progress, nanos};
use crate::instance::Instance;
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};
use crate::start::{self, Published};
use crate::timing::Score;

/// Number of slots that are timed in the time in which another search places or times one pass.
const QUICK: u64 = 30;
/// Number of slots that may be timed in the time that a list schedule takes for one.
const LIST: u64 = 8;
/// The rounds of a search of default effort.
const ROUNDS: u64 = 12;
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

/// The search of an order of slots.
struct Overlapped {
    table: Table,
    goal: i64,
    best: (Score, Slots),
    /// The slots that may be timed, if they are limited.
    limit: Option<u64>,
}

/// Searches the cheapest order for an instance whose passes communicate, until so many passes could be
/// placed or timed.
///
/// # Errors
/// If the order found is none.
pub(crate) fn search(
    instance: &Instance,
    bound: Bound,
    (seed, total): (u64, u64),
    mut progress: Option<impl FnMut(Progress)>,
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    let known = published(instance);
    let mut search = begin(Table::of(instance), &known, (seed, total), bound);
    let mut tell = |search: &SideBySide<Overlapped, Chain>| {
        if let Some(progress) = &mut progress {
            let (cost, of) = (search.strategy.best.0.cost, search.limit().map(|all| all / QUICK));
            progress(Progress::nominal(nanos(cost), bound.cost, (search.done / QUICK, of)));
        }
    };
    tell(&search);
    let interrupted = search.run(stop, |search| tell(search));
    let orders = search.strategy.table.orders(&search.strategy.best.1);
    let schedule = Schedule::new(instance.shape, instance.placement, orders)?;
    let best = known.iter().min_by_key(|(one, _)| one.cost);
    let best = best.map(|(one, schedule)| (one.cost, schedule.clone()));
    let (cost, schedule) = start::cheaper(instance, schedule, best)?;
    let published = known.into_iter().map(|(one, _)| one).collect();
    Ok(Found { schedule, cost, bound, proof: Proof::default(), published, interrupted })
}

/// The published schedules that fit, as they are, each with its cost.
fn published(instance: &Instance) -> Vec<(Published, Schedule)> {
    let Some(problem) = start::problem(instance) else { return Vec::new() };
    let timed = start::families(instance).filter_map(|family| {
        let schedule = family.schedule(&problem).ok()?;
        let (cost, peak) = start::own_cost(instance, &schedule)?;
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

/// A search that starts from the best of the published orders and the serial one; each chain from a
/// published order of its own, if there are as many.
fn begin(
    table: Table,
    known: &[(Published, Schedule)],
    (seed, total): (u64, u64),
    bound: Bound,
) -> SideBySide<Overlapped, Chain> {
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
    let slots = total.saturating_mul(QUICK);
    let limit = (slots < u64::MAX).then_some(slots);
    SideBySide::new(Overlapped { table, goal, best: best.clone(), limit }, slots, chain)
}

impl Strategy<Chain> for Overlapped {
    fn steps(&self, round: u32, left: u64) -> u64 {
        let each = self.limit.map_or(40_000_000 << round.min(4), |total| total / ROUNDS);
        each.min(left).div_ceil(CHAINS as u64).max(1)
    }

    /// Every third round each chain makes list schedules; in the others it anneals, from its own best order or
    /// from the best of all in turn.
    fn search(&self, chain: &mut Chain, turn: &Turn<'_>) -> u64 {
        let begin = chain.clock.steps;
        match turn.round % 3 {
            0 => chain.lists(&self.table, self.goal, turn),
            one => {
                if one == 2 {
                    keep_better(&mut chain.best, &self.best);
                }
                chain.anneal(&self.table, self.goal, turn);
            }
        }
        chain.clock.steps - begin
    }

    fn gather(&mut self, _: u32, chains: &mut [Chain], spent: &[u64]) -> u64 {
        chains.iter().for_each(|chain| keep_better(&mut self.best, &chain.best));
        spent.iter().sum::<u64>().max(1)
    }

    fn is_done(&self, _: u32) -> bool {
        self.best.0.cost <= self.goal
    }
}

impl Chain {
    /// Makes list schedules until the steps of `turn` are spent.
    fn lists(&mut self, table: &Table, goal: i64, turn: &Turn<'_>) {
        let end = self.clock.steps + turn.steps;
        let passes = table.compiled.passes() as u64;
        while self.clock.steps < end && self.best.0.cost > goal && !turn.is_over() {
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
    }

    /// Anneals from the best order until the steps of `turn` are spent.
    fn anneal(&mut self, table: &Table, goal: i64, turn: &Turn<'_>) {
        let (hot, cold, weight) = ANNEALING[(turn.number + turn.round as usize) % CHAINS];
        let slot = table.compiled.mean_pass() * (1.0 + weight);
        let cooling = Cooling { hot: slot * hot, ratio: cold / hot, steps: turn.steps };
        let Self { chance, clock, best, .. } = self;
        let mut pairs = Pairs::new(table, clock, best.clone(), (goal, weight));
        annealing::anneal(&mut pairs, (chance, cooling), best, &|| turn.is_over());
    }
}

#[cfg(test)]
mod tests;
