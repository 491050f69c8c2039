//! Searches the order whose step is short under noise: in the mean, or but for the worst few per cent.
//!
//! Orders are proposed by nominal searches: for the times as given, for the mean times under the noise, and
//! with longer hops, which leave room between stages; the published orders are proposed too. Local search
//! then shifts passes, and times every order in the same replicas. What it finds is chosen in further
//! replicas, half of the orders dropping out whenever the number of replicas doubles. The choice is validated against
//! the nominal order in held-out replicas of the noise: unless it is significantly better, the nominal order is the
//! answer.

mod anneal;
mod bound;
mod draws;
mod propose;
mod statistic;
mod validation;
mod walk;

#[cfg(test)]
mod tests;

use pipeline::{Family, Nanos, Schedule};
use rayon::prelude::*;
use sim::monte_carlo::Summary;
use sim::straggler::Stragglers;

pub use self::bound::{BoundUnderNoise, bound_under_noise};
pub use self::statistic::Statistic;
pub use self::validation::{Difference, HeldOut, HeldOutOrders, replica_times};

use self::anneal::{Timed, Timer};
use self::draws::Draws;
use crate::annealing::Cooling;
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::error::{MAX_PASSES_UNDER_NOISE, SearchError};
use crate::found::{Effort, Found, Phase, Progress};
use crate::instance::Instance;
use crate::search::search;
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn};

/// A search under noise: the noise, the objective and the starting orders.
#[derive(Clone, Copy, Debug)]
pub struct UnderNoise<'a> {
    /// Distribution of the durations around the costs.
    pub noise: &'a Stragglers,
    /// Objective to minimise: a statistic of the step times, each timed by the objective of the instance.
    pub statistic: Statistic,
    /// Number of held-out replicas in which orders are validated.
    pub replicas: u64,
    /// Further starting orders. Those that do not fit the instance are skipped.
    pub known: &'a [&'a Schedule],
}

/// An order with the distribution of its step times over held-out replicas.
#[derive(Clone, PartialEq, Debug)]
pub struct ValidatedOrder {
    /// The order.
    pub schedule: Schedule,
    /// Its cost without noise.
    pub nominal: Nanos,
    /// The distribution of its step times.
    pub times: Summary<u64>,
    /// The statistic of the objective, in nanoseconds.
    pub value: f64,
    /// Confidence interval of that at 95 %.
    pub ci95: Option<[f64; 2]>,
}

/// The result of a search under noise.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundUnderNoise {
    /// The nominal search.
    pub nominal_search: Found,
    /// The answer.
    pub answer: ValidatedOrder,
    /// The best order of the nominal search.
    pub nominal: ValidatedOrder,
    /// The best order of a search for the mean times under the noise, if that search ran.
    pub expected: Option<ValidatedOrder>,
    /// The published order of least statistic under the noise.
    pub published: Option<(Family, ValidatedOrder)>,
    /// How much more the nominal order costs than the best robust one, which is the answer where that is
    /// beyond chance.
    pub robust_gain: Difference,
    /// How much more the published order costs than the answer.
    pub published_gain: Option<Difference>,
    /// Whether no order was found that beats the nominal one beyond chance.
    pub is_nominal: bool,
    /// A lower bound on the objective, if one is proved.
    pub bound: Option<BoundUnderNoise>,
    /// Number of held-out replicas in which orders were validated.
    pub replicas: u64,
    /// Whether the caller stopped it before its effort was spent.
    pub interrupted: bool,
}

/// Searches for the order of `instance` of least statistic `under` noise.
///
/// `progress` and `stop` are those of [`search`]; once `stop` returns true, the best order so far is validated.
/// As long as it returns false, the result is the same on any number of threads.
///
/// # Errors
/// Those of [`search`], if passes overlap, if there are more than [`MAX_PASSES_UNDER_NOISE`], or if the clock
/// overflows under the noise.
pub fn search_under_noise(
    instance: &Instance,
    under: &UnderNoise<'_>,
    effort: Effort,
    mut progress: impl FnMut(Progress),
    stop: Stop<'_>,
) -> Result<FoundUnderNoise, SearchError> {
    let once = effort.limited();
    if instance.costs.overlap().is_some() {
        return Err(SearchError::OverlappedUnderNoise);
    }
    let compiled = CompiledInstance::split(instance);
    if compiled.passes() > MAX_PASSES_UNDER_NOISE {
        return Err(SearchError::TooLargeUnderNoise(compiled.passes()));
    }
    let nominal = search(instance, once, &mut progress, stop)?;
    let trained = training(under.noise);
    let alike = |known: &&&Schedule| {
        (known.shape(), known.placement()) == (instance.shape, instance.placement)
    };
    let known = under.known.iter().filter(alike);
    let mut proposed: Vec<Vec<u16>> = known.filter_map(|known| compiled.sequence(known)).collect();
    let draws = Draws::new(instance, &compiled, &trained, 0..blocks(under.statistic, &compiled));
    let expected = propose::all(
        (instance, &compiled),
        (&nominal, &draws),
        once,
        &mut proposed,
        &mut progress,
        stop,
    )?;
    let mut search = begin((&compiled, &draws), under.statistic, effort, &proposed);
    let stopped = search.run(stop, |search| progress(progress_of(search)));
    let interrupted = nominal.interrupted || stopped;
    let chosen = choose(instance, &compiled, &trained, under.statistic, search.strategy.pool);
    let parts = (nominal, expected, chosen);
    validation::orders(instance, &compiled, under, parts, (stop, interrupted))
}

/// `noise` in the replicas that orders are chosen in, which are distinct from the held-out ones of its own seed.
pub fn training(noise: &Stragglers) -> Stragglers {
    noise.clone().with_seed(noise.seed() ^ 0x7472_6169_6e69_6e67)
}

/// Number of blocks of replicas that are searched: more where a percentile rests on few of them, fewer where the
/// pipeline is so large that their tables would fill the memory.
fn blocks(statistic: Statistic, compiled: &CompiledInstance) -> usize {
    let wanted = match statistic {
        Statistic::Mean => 4,
        Statistic::P95 => 8,
        Statistic::P99 => 16,
    };
    wanted.min(most_blocks(compiled))
}

/// Number of blocks of replicas that fit into some 250 MB.
fn most_blocks(compiled: &CompiledInstance) -> usize {
    const CELLS: usize = 1 << 19;
    (CELLS / compiled.passes().max(1)).max(1)
}

/// The local search.
struct Robust {
    /// The orders worth judging, the best first.
    pool: Vec<Timed>,
    /// The mean pass, in nanoseconds.
    pass: f64,
    /// The steps of the first rounds of all chains.
    first: u64,
}

/// One of the searches that run side by side, with the best order that it found last.
struct Chain<'a> {
    timer: Timer<'a>,
    chance: Chance,
    found: Option<Timed>,
}

/// The temperatures of each chain, in mean pass durations: first and last.
const TEMPERATURES: [(f64, f64); CHAINS] =
    [(0.03, 0.001), (0.1, 0.002), (0.01, 0.0005), (0.003, 0.0002)];
/// The rounds of the default effort, after each of which all chains restart from the best order.
const ROUNDS: u32 = 6;
/// How often the length of a round doubles, each time after that many rounds.
const LONGEST: u32 = 8;
/// The most orders that are chosen from.
const POOL: usize = 16;

/// A search that starts from all that was proposed, timed.
fn begin<'a>(
    (compiled, draws): (&'a CompiledInstance, &'a Draws<'a>),
    statistic: Statistic,
    effort: Effort,
    proposed: &[Vec<u16>],
) -> SideBySide<Robust, Chain<'a>> {
    let mut timer = Timer::new(compiled, draws, statistic);
    let timed = |sequence: &Vec<u16>| Some((timer.energy(sequence)?, sequence.clone()));
    let pool = proposed.iter().filter_map(timed).collect();
    let once = 160_000_000 + 20_000 * compiled.passes() as u64;
    let total = effort.total(once);
    let first = total.min(once) / u64::from(ROUNDS);
    let mut robust = Robust { pool, pass: compiled.mean_pass(), first };
    robust.keep();
    SideBySide::new(robust, total, |number| Chain {
        timer: Timer::new(compiled, draws, statistic),
        chance: Chance::new(effort.seed, 1 << 32 | number as u64),
        found: None,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // No time is below zero.
fn progress_of(search: &SideBySide<Robust, Chain<'_>>) -> Progress {
    let best = search.strategy.pool.first().map(|(energy, _)| Nanos(energy.round() as u64));
    let (steps, of) = (search.done, search.limit());
    Progress { phase: Phase::UnderNoise, best, bound: None, steps, of }
}

impl Robust {
    /// Keeps the best orders, each once.
    fn keep(&mut self) {
        self.pool.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        self.pool.dedup_by(|a, b| a.1 == b.1);
        self.pool.truncate(POOL);
    }
}

impl<'a> Strategy<Chain<'a>> for Robust {
    fn steps(&self, round: u32, left: u64) -> u64 {
        let steps = self.first << (round / ROUNDS).min(LONGEST);
        steps.min(left).div_ceil(CHAINS as u64).max(1)
    }

    /// All chains anneal: at first from different orders, then from the best.
    fn search(&self, chain: &mut Chain<'a>, turn: &Turn<'_>) -> u64 {
        let temperatures = TEMPERATURES[(turn.number + turn.round as usize) % CHAINS];
        let start = if turn.round == 0 { turn.number.min(self.pool.len() - 1) } else { 0 };
        let cooling = Cooling::between(temperatures, self.pass, turn.steps);
        let Chain { timer, chance, found } = chain;
        let (best, steps) = timer.anneal(&self.pool[start], chance, cooling, &|| turn.is_over());
        *found = Some(best);
        steps
    }

    fn gather(&mut self, _: u32, chains: &mut [Chain<'a>], spent: &[u64]) -> u64 {
        self.pool.extend(chains.iter_mut().filter_map(|chain| chain.found.take()));
        self.keep();
        spent.iter().sum()
    }

    fn is_done(&self, _: u32) -> bool {
        self.pool.is_empty()
    }
}

/// The order of `pool` that does best in replicas that were not searched: half of them drop out whenever the
/// number of replicas doubles.
fn choose(
    instance: &Instance,
    compiled: &CompiledInstance,
    trained: &Stragglers,
    statistic: Statistic,
    mut pool: Vec<Timed>,
) -> Option<Vec<u16>> {
    let used = blocks(statistic, compiled);
    let most = most_blocks(compiled).min(32);
    let (mut from, mut count) = (used, used.max(4).min(most));
    while pool.len() > 1 {
        let draws = Draws::new(instance, compiled, trained, from..from + count);
        let energy = |(_, sequence): Timed| {
            let energy = Timer::new(compiled, &draws, statistic).energy(&sequence);
            (energy.unwrap_or(f64::INFINITY), sequence)
        };
        pool = pool.into_par_iter().map(energy).collect();
        // Stable: of equals the one that was better in the search.
        pool.sort_by(|a, b| a.0.total_cmp(&b.0));
        pool.truncate(pool.len().div_ceil(2));
        from += count;
        count = (2 * count).min(most);
    }
    pool.pop().map(|(_, sequence)| sequence)
}
