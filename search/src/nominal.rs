//! The search of an order by the nominal times: lower bounds, published orders, then chains of list scheduling and local
//! search in rounds.

use pipeline::{Nanos, Schedule};

use crate::bounds::{self, Bound, Proof, Prover};
use crate::chain::Chain;
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::{Effort, Found, Progress, nanos};
use crate::grid;
use crate::instance::Instance;
use crate::rounds::{Move, Origin, Rounds, annealing};
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};
use crate::start::{self, Named, Published, Starts};
use crate::timing::{Clock, Score};

/// Steps of proofs by windows that are allowed at once.
const FIRST_PROOFS: u64 = 4_000_000;

/// The same for a small pipeline, of which [`Prover::is_small`]: there they mostly end the search.
const SMALL_PROOFS: u64 = 16_000_000;

/// Beyond the default effort, so many steps of proofs are allowed for each step of the search; up to it, one.
const PROOFS: u64 = 2;

/// Searches `instance`, whose passes do not overlap, until `total` passes are placed or timed, with proofs if there is a
/// `progress`, from `known_order` on, too.
pub(crate) fn search(
    instance: &Instance,
    (mut bound, starts): (Bound, Starts),
    known_order: Option<&Schedule>,
    (seed, total): (u64, u64),
    mut progress: Option<impl FnMut(Progress)>,
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    let compiled = CompiledInstance::of(instance);
    let (mut nominal, known) = Nominal::begin((instance, &compiled), (bound, starts), total, stop);
    nominal.start_from(known_order);
    let chain = |number| Chain::new(&compiled, seed, number);
    let steps = nominal.start_on_grid(total, stop);
    let mut search = SideBySide::new(nominal, total, chain);
    search.done = steps;
    let proves = progress.is_some();
    let mut tell = |search: &SideBySide<Nominal<'_>, Chain>, bound: Bound| {
        if let Some(progress) = &mut progress {
            let (cost, of) = (search.strategy.best.0.cost, search.limit());
            progress(Progress::nominal(nanos(cost), bound.cost, (search.done, of)));
        }
    };
    tell(&search, bound);
    let mut prover = None;
    let interrupted = search.run(stop, |search| {
        if proves {
            bound = prove(search, instance, (&mut prover, bound), stop);
        }
        tell(search, bound);
    });
    let proof = prover.map(Prover::proof).unwrap_or_default();
    search.strategy.found(instance, known, (bound, proof), interrupted)
}

/// The bound that is proved after a round of `search`, which has `bound` by then.
fn prove(
    search: &mut SideBySide<Nominal<'_>, Chain>,
    instance: &Instance,
    (prover, bound): (&mut Option<Prover>, Bound),
    stop: Stop<'_>,
) -> Bound {
    let best = search.strategy.best.0.cost;
    if prover.is_none() && (!search.is_over() || best > search.strategy.proved) {
        *prover = Prover::of(instance, bound.cost);
    }
    let Some(prover) = prover else { return bound };
    let first = if prover.is_small() { SMALL_PROOFS } else { FIRST_PROOFS };
    let once = search.strategy.default_steps();
    let allowed = first.saturating_add(proof_steps(search.done, once));
    prover.prove(nanos(best), allowed, stop);
    let bound = prover.bound().unwrap_or(bound);
    let proved = &mut search.strategy.proved;
    *proved = i64::try_from(bound.cost.0).unwrap_or(*proved);
    bound
}

/// How many more steps of proofs are allowed after so many of the search, of which the default effort has `once`.
fn proof_steps(done: u64, once: u64) -> u64 {
    let more = done.saturating_sub(once).saturating_mul(PROOFS);
    done.min(once).saturating_add(more)
}

/// The search of an order by the nominal times.
struct Nominal<'a> {
    compiled: &'a CompiledInstance,
    /// The same instance with time reversed.
    reversed: CompiledInstance,
    /// Lower bound by closed-form arguments: moves aim at costs between it and the best. Bounds proved by windows do
    /// not change the moves.
    goal: i64,
    /// No order costs less.
    proved: i64,
    best: (Score, Vec<u16>),
    /// The score of the best order on a grid, until the first list schedules are known, too.
    on_grid: Option<Score>,
    rounds: Rounds,
    /// The rounds after those of the default effort, which are for an order on a grid.
    later: Option<Rounds>,
    spent: u64,
}

/// The published orders that fit, and the cheapest of those without a sequence.
type Known = (Vec<Published>, Option<Named>);

impl<'a> Nominal<'a> {
    /// A search that starts from the best of the published orders and the serial one.
    fn begin(
        (instance, compiled): (&Instance, &'a CompiledInstance),
        (bound, starts): (Bound, Starts),
        total: u64,
        stop: Stop<'_>,
    ) -> (Self, Known) {
        let mut clock = Clock::default();
        let serial = start::one_by_one(compiled);
        let score = clock.time(compiled, &serial).unwrap_or(Score::WORST);
        let mut best = (score, serial);
        let (starts, named) =
            start::published_and_named(instance, starts, compiled, &mut clock, stop);
        let published = starts.into_iter().map(|(one, score, sequence)| {
            keep_better(&mut best, &(score, sequence));
            one
        });
        let known = (published.collect(), named);
        let time = |cost: Nanos| i64::try_from(cost.0).unwrap_or(i64::MAX / 4);
        let (goal, proved) = (time(bounds::aim(instance, bound)), time(bound.cost));
        let (reversed, rounds) = (compiled.reversed(), Rounds::of(compiled, total));
        let (on_grid, later, spent) = (None, None, 0);
        (Self { compiled, reversed, goal, proved, best, on_grid, rounds, later, spent }, known)
    }

    /// Starts from `known`, too, if it is better.
    fn start_from(&mut self, known: Option<&Schedule>) {
        let sequence = known.and_then(|known| self.compiled.sequence(known));
        if let Some(sequence) = sequence
            && let Some(score) = Clock::default().time(self.compiled, &sequence)
        {
            keep_better(&mut self.best, &(score, sequence));
        }
    }

    /// Starts from orders on a grid, too; gives the steps spent of `total`.
    fn start_on_grid(&mut self, total: u64, stop: Stop<'_>) -> u64 {
        if self.is_done(0) {
            return 0;
        }
        let (on_grid, steps) = grid::best(self.compiled, total, stop);
        if let Some(on_grid) = on_grid {
            self.on_grid = Some(on_grid.0);
            keep_better(&mut self.best, &on_grid);
            if total > self.default_steps() {
                let first = Rounds::of(self.compiled, self.default_steps());
                self.later = Some(std::mem::replace(&mut self.rounds, first));
            }
        }
        self.spent = steps;
        steps
    }

    /// The steps of the default effort.
    fn default_steps(&self) -> u64 {
        Effort::default().steps(self.compiled.passes())
    }

    /// Decides after `round` on the rounds that follow.
    fn change_rounds(&mut self, round: u32) {
        let is_opened = self.rounds.opens_with(round);
        let is_on_grid = is_opened && self.on_grid.take() == Some(self.best.0);
        if is_on_grid {
            self.rounds.improve_best();
        } else if (is_opened || self.spent >= self.default_steps())
            && let Some(rounds) = self.later.take()
        {
            self.rounds = rounds.begun_at(round + 1);
        }
    }

    /// The cost at which `round` ends.
    fn aim(&self, round: u32) -> i64 {
        match self.rounds.at(round) {
            Move::Anneal(_) => self.proved,
            Move::Restart | Move::ListSchedules | Move::ForwardBackward(_) => self.goal,
        }
    }

    fn found(
        self,
        instance: &Instance,
        (published, named): Known,
        (bound, proof): (Bound, Proof),
        interrupted: bool,
    ) -> Result<Found, SearchError> {
        let schedule = self.compiled.schedule(instance, &self.best.1)?;
        // An order that the search cannot write down may still be the best.
        let (cost, schedule) = start::cheaper(instance, schedule, named)?;
        Ok(Found { schedule, cost, bound, proof, published, interrupted })
    }
}

impl Strategy<Chain> for Nominal<'_> {
    /// Rounds become longer up to a point.
    fn steps(&self, round: u32, left: u64) -> u64 {
        self.rounds.steps(round).min(left.div_ceil(CHAINS as u64))
    }

    /// Every chain makes the [`Move`] of the round.
    fn search(&self, chain: &mut Chain, turn: &Turn<'_>) -> u64 {
        let (one, both) = (self.rounds.at(turn.round), (self.compiled, &self.reversed));
        let goal = self.aim(turn.round);
        let from = |origin: Origin| (origin == Origin::Best).then_some(&self.best.1[..]);
        match one {
            Move::Restart | Move::ListSchedules => {
                if one == Move::Restart {
                    chain.begin_anew(self.compiled);
                }
                chain.climb(both, (goal, self.best.0.cost), turn)
            }
            Move::ForwardBackward(origin) => {
                chain.forward_backward(both, (from(origin), goal), turn)
            }
            Move::Anneal(origin) => {
                let annealing = annealing(self.compiled, turn);
                chain.anneal(self.compiled, (from(origin), goal), annealing, turn)
            }
        }
    }

    fn gather(&mut self, round: u32, chains: &mut [Chain], spent: &[u64]) -> u64 {
        let goal = self.aim(round);
        let solver = chains.iter().position(|chain| chain.best.0.cost <= goal);
        // Behind the first chain that reaches the goal, chains end when they hear of it.
        let (from, to) = solver.map_or((0, chains.len()), |number| (number, number + 1));
        chains[from..to].iter().for_each(|chain| keep_better(&mut self.best, &chain.best));
        let spent = spent[..to].iter().sum::<u64>().max(1);
        self.spent = self.spent.saturating_add(spent);
        self.change_rounds(round);
        spent
    }

    fn is_done(&self, _: u32) -> bool {
        self.best.0.cost <= self.proved
    }
}
