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
pub use self::validation::{Difference, replica_times};

use self::anneal::{Chain, Cooling, Timed};
use self::draws::Draws;
use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::error::{MAX_PASSES_UNDER_NOISE, SearchError};
use crate::found::{Effort, Found, Progress};
use crate::instance::Instance;
use crate::rounds::CHAINS;
use crate::run::search;

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

/// How far a search under noise has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ProgressUnderNoise {
    /// A nominal search that proposes orders.
    Nominal(Progress),
    /// Local search: the statistic of the best order in the replicas searched, and the passes timed so far, in
    /// blocks of replicas.
    Local {
        /// The statistic, in nanoseconds.
        best: f64,
        /// The passes timed so far.
        steps: u64,
        /// The number at which it ends, if its effort is limited.
        of: Option<u64>,
    },
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
    mut progress: impl FnMut(ProgressUnderNoise),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<FoundUnderNoise, SearchError> {
    let once = Effort { times: Some(effort.times.unwrap_or(1)), ..effort };
    if instance.costs.overlap().is_some() {
        return Err(SearchError::OverlappedUnderNoise);
    }
    let compiled = CompiledInstance::split(instance);
    if compiled.passes() > MAX_PASSES_UNDER_NOISE {
        return Err(SearchError::TooLargeUnderNoise(compiled.passes()));
    }
    let nominal = search(instance, once, |now| progress(ProgressUnderNoise::Nominal(now)), stop)?;
    let trained = training(under.noise);
    let mut interrupted = nominal.interrupted;
    let alike = |known: &&&Schedule| {
        (known.shape(), known.placement()) == (instance.shape, instance.placement)
    };
    let known = under.known.iter().filter(alike);
    let mut proposed: Vec<Vec<u16>> = known.filter_map(|known| compiled.sequence(known)).collect();
    let draws = Draws::new(instance, &compiled, &trained, 0..blocks(under.statistic, &compiled));
    let mut tell = |now| progress(ProgressUnderNoise::Nominal(now));
    let expected = propose::all(
        (instance, &compiled),
        (&nominal, &draws),
        once,
        &mut proposed,
        &mut tell,
        stop,
    )?;
    let mut search = Search::new(&compiled, &draws, under.statistic, effort);
    search.begin(&proposed);
    while !search.is_over() && !stop() {
        search.round(stop);
        let (steps, of) = (search.done, effort.times.map(|_| search.total));
        progress(ProgressUnderNoise::Local { best: search.best(), steps, of });
    }
    interrupted |= !search.is_over();
    let chosen = choose(instance, &compiled, &trained, under.statistic, search.pool);
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

/// The state of the local search.
struct Search<'a> {
    chains: Vec<Chain<'a>>,
    /// The orders worth judging, the best first.
    pool: Vec<Timed>,
    pass: f64,
    done: u64,
    total: u64,
    round: usize,
    rounds: u64,
}

/// The temperatures of each chain, in mean pass durations: first and last.
const TEMPERATURES: [(f64, f64); CHAINS] =
    [(0.03, 0.001), (0.1, 0.002), (0.01, 0.0005), (0.003, 0.0002)];
/// The rounds of the default effort, after each of which all chains restart from the best order.
const ROUNDS: usize = 6;
/// How often the length of a round doubles, each time after that many rounds.
const LONGEST: usize = 8;
/// The most orders that are chosen from.
const POOL: usize = 16;

impl<'a> Search<'a> {
    fn new(
        compiled: &'a CompiledInstance,
        draws: &'a Draws<'a>,
        statistic: Statistic,
        effort: Effort,
    ) -> Self {
        let chance = |number: usize| Chance::new(effort.seed, 1 << 32 | number as u64);
        let chain = |number| Chain::new(compiled, draws, statistic, chance(number));
        let once = 160_000_000 + 20_000 * compiled.passes() as u64;
        let total = effort.times.map_or(u64::MAX, |times| once.saturating_mul(times));
        Self {
            chains: (0..CHAINS).map(chain).collect(),
            pool: Vec::new(),
            pass: compiled.mean_pass(),
            done: 0,
            total,
            round: 0,
            rounds: total.min(once) / ROUNDS as u64,
        }
    }

    /// Times all that was proposed.
    fn begin(&mut self, proposed: &[Vec<u16>]) {
        let chain = &mut self.chains[0];
        for sequence in proposed {
            if let Some(energy) = chain.energy(sequence) {
                self.pool.push(Timed { energy, sequence: sequence.clone() });
            }
        }
        self.keep();
    }

    fn best(&self) -> f64 {
        self.pool.first().map_or(0.0, |one| one.energy)
    }

    fn is_over(&self) -> bool {
        self.done >= self.total || self.pool.is_empty()
    }

    /// Keeps the best orders, each once.
    fn keep(&mut self) {
        self.pool.sort_by(|a, b| {
            a.energy.total_cmp(&b.energy).then_with(|| a.sequence.cmp(&b.sequence))
        });
        self.pool.dedup_by(|a, b| a.sequence == b.sequence);
        self.pool.truncate(POOL);
    }

    /// Lets all chains anneal: at first from different orders, then from the best.
    fn round(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let steps = self.rounds << (self.round / ROUNDS).min(LONGEST);
        let steps = steps.min(self.total - self.done).div_ceil(CHAINS as u64).max(1);
        let (pool, pass, round) = (&self.pool, self.pass, self.round);
        let one = |(number, chain): (usize, &mut Chain<'_>)| {
            let (hot, cold) = TEMPERATURES[(number + round) % CHAINS];
            let start = match round {
                0 => &pool[number.min(pool.len() - 1)],
                _ => &pool[0],
            };
            chain.anneal(start, Cooling { hot: hot * pass, cold: cold * pass, steps }, stop)
        };
        let found: Vec<(Timed, u64)> = self.chains.par_iter_mut().enumerate().map(one).collect();
        for (timed, steps) in found {
            self.done += steps;
            self.pool.push(timed);
        }
        self.keep();
        self.round += 1;
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
        let energy = |one: Timed| {
            let mut chain = Chain::new(compiled, &draws, statistic, Chance::new(0, 0));
            let energy = chain.energy(&one.sequence).unwrap_or(f64::INFINITY);
            Timed { energy, ..one }
        };
        pool = pool.into_par_iter().map(energy).collect();
        // Stable: of equals the one that was better in the search.
        pool.sort_by(|a, b| a.energy.total_cmp(&b.energy));
        pool.truncate(pool.len().div_ceil(2));
        from += count;
        count = (2 * count).min(most);
    }
    pool.pop().map(|one| one.sequence)
}
