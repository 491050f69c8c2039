//! The search as a whole: lower bounds, published orders, then chains of list scheduling and local
//! search in rounds.

use std::sync::atomic::AtomicUsize;

use pipeline::overlap::Overlap;
use pipeline::{Nanos, PassTimes};
use rayon::prelude::*;
use sim::Replay;

use crate::bounds::{self, Bound, Proof, Prover};
use crate::chain::Chain;
use crate::compiled_instance::{CompiledInstance, kinds};
use crate::error::{MAX_CHUNKS_PER_STAGE, MAX_PASSES, MAX_TIME, SearchError};
use crate::found::{Effort, Found, Progress, nanos};
use crate::halt::Halt;
use crate::instance::Instance;
use crate::overlapped;
use crate::rounds::{CHAINS, Move, Origin, Rounds, annealing};
use crate::start::{self, Named, Published, Starts};
use crate::timing::{Clock, Score};

/// Steps of proofs by windows that are allowed at once.
const FIRST_PROOFS: u64 = 4_000_000;

/// The same for a small pipeline, of which [`Prover::is_small`]: there they mostly end the search.
const SMALL_PROOFS: u64 = 16_000_000;

/// Beyond the default effort, so many steps of proofs are allowed for each step of the search; up to it, one.
const PROOFS: u64 = 2;

/// Searches for the cheapest schedule of `instance`. The result is never worse than a published
/// schedule that fits.
///
/// `progress` is called after each round. `stop` is called often, from several threads: once it
/// returns true, the search ends with the best schedule so far. As long as it returns false, the same
/// instance and effort give the same result on any number of threads.
///
/// # Errors
/// If no order fits the limits, or the instance is too large or has a mirrored placement.
pub fn search(
    instance: &Instance,
    effort: Effort,
    mut progress: impl FnMut(Progress),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    check(instance)?;
    if let Some(overlap) = instance.costs.overlap() {
        if overlap.communicates() {
            return overlapped::search(instance, effort, progress, stop);
        }
        // Without communication a pair takes the sum of its passes.
        let apart = Instance { costs: instance.costs.clone().apart(), ..instance.clone() };
        return search(&apart, effort, progress, stop);
    }
    let mut bound = bounds::best(instance);
    let compiled = CompiledInstance::of(instance);
    let mut search = Search::begin(instance, &compiled, effort, bound, Starts::All);
    let mut tell = |search: &Search<'_>, bound: Bound| {
        progress(Progress {
            best: nanos(search.best.0.cost),
            bound: bound.cost,
            steps: search.done,
            of: effort.times.map(|_| search.total),
        });
    };
    search.history.push((0, nanos(search.best.0.cost)));
    tell(&search, bound);
    let mut prover = None;
    while !search.is_over() && !stop() {
        search.round(stop);
        search.history.push((search.done, nanos(search.best.0.cost)));
        if !search.is_over() || search.best.0.cost > search.proved {
            prover = prover.or_else(|| Prover::of(instance, bound.cost));
        }
        if let Some(prover) = &mut prover {
            let first = if prover.is_small() { SMALL_PROOFS } else { FIRST_PROOFS };
            let once = Effort::default().steps(compiled.passes());
            let allowed = first.saturating_add(proof_steps(search.done, once));
            prover.prove(nanos(search.best.0.cost), allowed, stop);
            bound = prover.bound().unwrap_or(bound);
            search.proved = i64::try_from(bound.cost.0).unwrap_or(search.proved);
        }
        tell(&search, bound);
    }
    let interrupted = !search.is_over();
    let proof = prover.map(Prover::proof).unwrap_or_default();
    search.found(instance, bound, proof, interrupted)
}

/// How many more steps of proofs are allowed after so many of the search, of which the default effort has `once`.
fn proof_steps(done: u64, once: u64) -> u64 {
    let more = done.saturating_sub(once).saturating_mul(PROOFS);
    done.min(once).saturating_add(more)
}

/// The time that all passes and hops take one after the other.
fn serial_time(instance: &Instance) -> Nanos {
    let Instance { shape, costs, .. } = instance;
    let hops = costs.hops().longest().0.saturating_mul(2);
    let chunk = |(chunk, times): (u16, &PassTimes)| {
        let PassTimes { forward, backward_input, backward_weight, .. } = *times;
        let again = costs.recompute(chunk).unwrap_or_default();
        let parts = [forward.0, backward_input.0, backward_weight.0, again.0];
        parts.into_iter().fold(hops, u64::saturating_add)
    };
    let microbatch = (0..).zip(costs.chunks()).map(chunk).fold(0, u64::saturating_add);
    Nanos(microbatch.saturating_mul(u64::from(shape.microbatches())))
}

/// The number of passes of an order of `instance`.
pub(crate) fn passes(instance: &Instance) -> usize {
    kinds(instance.costs.has_recompute()) * instance.shape.cells()
}

/// Searches an instance that can be searched until so many passes are placed or timed, from the published orders among
/// `starts`. `bound` is one of its lower bounds; nothing more is proved.
pub(crate) fn search_within(
    instance: &Instance,
    (bound, starts): (Bound, Starts),
    (seed, total): (u64, u64),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, SearchError> {
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        let slots = total.saturating_mul(overlapped::QUICK);
        return overlapped::search_within(instance, (seed, slots), |_| {}, stop);
    }
    let compiled = CompiledInstance::of(instance);
    let effort = Effort { times: None, seed };
    let rounds = Rounds::of(&compiled, total);
    let begun = Search::begin(instance, &compiled, effort, bound, starts);
    let mut search = Search { total, rounds, ..begun };
    while !search.is_over() && !stop() {
        search.round(stop);
    }
    search.history.push((search.done, nanos(search.best.0.cost)));
    let interrupted = !search.is_over();
    search.found(instance, bound, Proof::default(), interrupted)
}

/// Whether `instance` is one that can be searched.
pub(crate) fn check(instance: &Instance) -> Result<(), SearchError> {
    if instance.placement == pipeline::Placement::Mirrored {
        return Err(SearchError::Mirrored);
    }
    let passes = passes(instance);
    if passes > MAX_PASSES {
        return Err(SearchError::TooLarge(passes));
    }
    let chunks = instance.shape.chunks_per_stage();
    if chunks > MAX_CHUNKS_PER_STAGE {
        return Err(SearchError::TooManyChunks(chunks));
    }
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        if chunks > overlapped::MAX_CHUNKS {
            return Err(SearchError::TooManyPairs(chunks));
        }
        if instance.costs.has_recompute() {
            return Err(SearchError::Recomputed);
        }
    }
    let time = serial_time(instance);
    if time > MAX_TIME {
        return Err(SearchError::TooLong(time));
    }
    Ok(bounds::check_limits(instance)?)
}

/// The state of a running search.
struct Search<'a> {
    compiled: &'a CompiledInstance,
    /// The same instance with time reversed.
    reversed: CompiledInstance,
    /// Lower bound by closed-form arguments: moves aim at costs between it and the best. Bounds proved by windows do
    /// not change the moves.
    goal: i64,
    /// No order costs less.
    proved: i64,
    best: (Score, Vec<u16>),
    named: Option<Named>,
    published: Vec<Published>,
    chains: Vec<Chain>,
    rounds: Rounds,
    round: u32,
    done: u64,
    total: u64,
    history: Vec<(u64, Nanos)>,
}

impl<'a> Search<'a> {
    /// A search that starts from the best of the published orders and the serial one.
    fn begin(
        instance: &Instance,
        compiled: &'a CompiledInstance,
        effort: Effort,
        bound: Bound,
        starts: Starts,
    ) -> Self {
        let mut clock = Clock::default();
        let serial = start::one_by_one(compiled);
        let score = clock.time(compiled, &serial).unwrap_or(Score::WORST);
        let mut best = (score, serial);
        let mut published = Vec::new();
        let (starts, named) = start::published_and_named(instance, starts, compiled, &mut clock);
        for (one, score, sequence) in starts {
            published.push(one);
            if score < best.0 {
                best = (score, sequence);
            }
        }
        let goal = i64::try_from(bound.cost.0).unwrap_or(i64::MAX / 4);
        let chains = (0..CHAINS).map(|number| Chain::new(compiled, effort.seed, number));
        let total = effort.steps(compiled.passes());
        Self {
            compiled,
            reversed: compiled.reversed(),
            goal,
            proved: goal,
            best,
            named,
            published,
            chains: chains.collect(),
            rounds: Rounds::of(compiled, total),
            round: 0,
            done: 0,
            total,
            history: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.best.0.cost <= self.proved || self.done >= self.total
    }

    /// Lets every chain make the [`Move`] of this round. Rounds become longer up to a point.
    fn round(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let move_of_all = self.rounds.at(self.round);
        let steps = self.rounds.steps(self.round);
        let steps = steps.min((self.total - self.done).div_ceil(CHAINS as u64));
        let solved = AtomicUsize::new(usize::MAX);
        let reversed = &self.reversed;
        let (compiled, best, round) = (self.compiled, &self.best, self.round);
        let goal = match move_of_all {
            Move::Anneal(_) => self.proved,
            Move::Restart | Move::ListSchedules | Move::ForwardBackward(_) => self.goal,
        };
        let one = |(number, chain): (usize, &mut Chain)| {
            let halt = Halt { stop, solved: &solved, number };
            let from = |origin: Origin| (origin == Origin::Best).then_some(&best.1[..]);
            match move_of_all {
                Move::Restart | Move::ListSchedules => {
                    if move_of_all == Move::Restart {
                        chain.begin_anew(compiled);
                    }
                    chain.climb((compiled, reversed), (goal, best.0.cost), steps, &halt)
                }
                Move::ForwardBackward(origin) => {
                    chain.forward_backward((compiled, reversed), (from(origin), goal), steps, &halt)
                }
                Move::Anneal(origin) => {
                    let annealing = annealing(compiled, goal, steps, round, number);
                    chain.anneal(compiled, from(origin), annealing, &halt)
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
        proof: Proof,
        interrupted: bool,
    ) -> Result<Found, SearchError> {
        let schedule = self.compiled.schedule(instance, &self.best.1)?;
        let cost = instance.objective.of(&Replay::new().metrics(&schedule, &instance.costs)?);
        let Self { published, history, named, .. } = self;
        // An order that the search cannot write down may still be the best.
        let (cost, schedule) = match named {
            Some(named) if named.0 < cost => named,
            _ => (cost, schedule),
        };
        Ok(Found { schedule, cost, bound, proof, published, history, interrupted })
    }
}

#[cfg(test)]
mod tests {
    use pipeline::{Bytes, Costs, Footprint, Footprints, Kind, Limits, Placement, Shape};

    use super::*;
    use crate::Objective;

    /// The order found with R under a limit fits it, is no worse than the published ones, and is near its bound.
    #[test]
    fn recomputation_is_placed_by_the_search() {
        let shape = Shape::new(3, 1, 6).unwrap();
        let one = Nanos(10);
        let times = PassTimes::new(one, one, one);
        let costs = Costs::uniform(shape, times, Nanos(3)).with_recompute(vec![Some(one); 3]);
        let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(6) };
        let footprints = Footprints::uniform(shape, held).with_kept(vec![Some(Bytes(2)); 3]);
        let limits = Limits::new(shape, &[Bytes(60)]).unwrap();
        let instance = Instance::new(
            shape,
            Placement::Looped,
            costs,
            footprints,
            Some(limits.clone()),
            Objective::Span,
        )
        .unwrap();
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        let memory = pipeline::Memory::of(&found.schedule, &instance.footprints).unwrap();
        assert_eq!(memory.over(&limits), None);
        assert!(found.bound.cost <= found.cost);
        assert!(found.cost <= found.best_published().unwrap().cost);
        let recomputed = found.schedule.orders().iter().flat_map(|order| order.passes());
        assert_eq!(recomputed.filter(|pass| pass.kind == Kind::R).count(), 18);
        // Each stage does 6 (F + B + W + R), and more than that is shown.
        assert!(found.bound.cost > Nanos(240), "{:?}", found.bound);
        // The path shows 242; that F comes in whole ones shows nothing where R may fill what is left.
        let gap = found.cost - found.bound.cost;
        assert!(50 * gap.0 <= found.bound.cost.0, "{} {}", found.cost, found.schedule);
    }
}
