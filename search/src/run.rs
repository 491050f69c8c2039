//! The search as a whole: lower bounds, published orders, then chains of list scheduling and local
//! search in rounds.

use pipeline::overlap::Overlap;
use pipeline::{Nanos, PassTimes, Schedule};

use crate::bounds::{self, Bound, Proof, Prover};
use crate::chain::Chain;
use crate::compiled_instance::{CompiledInstance, kinds};
use crate::error::{MAX_CHUNKS_PER_STAGE, MAX_PASSES, MAX_TIME, SearchError};
use crate::found::{Effort, Found, Progress, nanos};
use crate::instance::Instance;
use crate::overlapped;
use crate::rounds::{Move, Origin, Rounds, annealing};
use crate::side_by_side::{CHAINS, SideBySide, Stop, Strategy, Turn, keep_better};
use crate::start::{self, Named, Published, Starts};
use crate::timing::{Clock, Score};
use crate::unequal;

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
    progress: impl FnMut(Progress),
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    check(instance)?;
    if let Some(work) = instance.costs.microbatch_work() {
        return unequal::search((instance, work), effort, progress, stop);
    }
    if instance.costs.overlap().is_some_and(|overlap| !overlap.communicates()) {
        // Without communication a pair takes the sum of its passes.
        let apart = Instance { costs: instance.costs.clone().apart(), ..instance.clone() };
        return search(&apart, effort, progress, stop);
    }
    let from = (bounds::best(instance), Starts::All);
    run(instance, from, None, (effort.seed, effort.steps(passes(instance))), Some(progress), stop)
}

/// Searches an instance that can be searched until `total` passes are placed or timed, from the published orders among
/// `starts`. `bound` is one of its lower bounds; nothing more is proved.
pub(crate) fn search_within(
    instance: &Instance,
    (bound, starts): (Bound, Starts),
    (seed, total): (u64, u64),
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    run(instance, (bound, starts), None, (seed, total), None::<fn(Progress)>, stop)
}

/// The same, with proofs if there is a `progress`, from `known` on, too.
pub(crate) fn run(
    instance: &Instance,
    (mut bound, starts): (Bound, Starts),
    known_order: Option<&Schedule>,
    (seed, total): (u64, u64),
    mut progress: Option<impl FnMut(Progress)>,
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        return overlapped::search(instance, bound, (seed, total), progress, stop);
    }
    let compiled = CompiledInstance::of(instance);
    let (mut nominal, known) = Nominal::begin((instance, &compiled), (bound, starts), total);
    nominal.start_from(known_order);
    let chain = |number| Chain::new(&compiled, seed, number);
    let mut search = SideBySide::new(nominal, total, chain);
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
    let once = Effort::default().steps(search.strategy.compiled.passes());
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

/// The time that all passes and hops take one after the other.
fn serial_time(instance: &Instance) -> Nanos {
    let Instance { shape, costs, .. } = instance;
    let hops = costs.hops().longest().0.saturating_mul(2);
    let costs = costs.clone().of_mean_microbatch();
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
    rounds: Rounds,
}

/// The published orders that fit, and the cheapest of those without a sequence.
type Known = (Vec<Published>, Option<Named>);

impl<'a> Nominal<'a> {
    /// A search that starts from the best of the published orders and the serial one.
    fn begin(
        (instance, compiled): (&Instance, &'a CompiledInstance),
        (bound, starts): (Bound, Starts),
        total: u64,
    ) -> (Self, Known) {
        let mut clock = Clock::default();
        let serial = start::one_by_one(compiled);
        let score = clock.time(compiled, &serial).unwrap_or(Score::WORST);
        let mut best = (score, serial);
        let (starts, named) = start::published_and_named(instance, starts, compiled, &mut clock);
        let published = starts.into_iter().map(|(one, score, sequence)| {
            keep_better(&mut best, &(score, sequence));
            one
        });
        let known = (published.collect(), named);
        let goal = i64::try_from(bound.cost.0).unwrap_or(i64::MAX / 4);
        let (reversed, rounds) = (compiled.reversed(), Rounds::of(compiled, total));
        (Self { compiled, reversed, goal, proved: goal, best, rounds }, known)
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
        spent[..to].iter().sum::<u64>().max(1)
    }

    fn is_done(&self, _: u32) -> bool {
        self.best.0.cost <= self.proved
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
