//! Proves the optimal order of passes of a small pipeline with a constraint solver.
//!
//! Around a hundred passes are within reach. Larger pipelines are not refused, but the time given
//! runs out sooner: the lower bound proved by then holds all the same, and the best order found by
//! then is an order of the pipeline. [`solve`] takes an [`Instance`] of crate `search`, and gives an
//! [`Answer`].
//!
//! ```
//! use std::time::Duration;
//!
//! use pipeline::{Bytes, Costs, Footprint, Footprints, Nanos, PassTimes, Placement, Shape};
//! use search::{Instance, Objective};
//!
//! let shape = Shape::new(2, 1, 2)?;
//! let one = Nanos(1);
//! let times = PassTimes { forward: one, backward_input: one, backward_weight: one, backward: None };
//! let held = Footprint { until_backward: Bytes(2), until_weight: Bytes(1) };
//! let instance = Instance::new(
//!     shape,
//!     Placement::Looped,
//!     Costs::uniform(shape, times, Nanos(0)),
//!     Footprints::uniform(shape, held),
//!     None,
//!     Objective::Makespan,
//! )?;
//! let begin = std::time::Instant::now();
//! let minute = Duration::from_secs(60);
//! let answer = exact::solve(&instance, None, minute, &|| begin.elapsed(), &|| false)?;
//! assert!(answer.is_optimal());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod model;
mod scale;

use std::time::Duration;

use pipeline::overlap::Overlap;
use pipeline::{Fault, Memory, Nanos, Placement, Schedule};
use search::Instance;
use search::bounds::{Infeasible, best, check_limits};
use sim::Replay;
use thiserror::Error;

use crate::model::{Decision, decide};
use crate::scale::Scaled;

/// The most passes that a model is built for: its size grows with the square of those of a stage.
pub const MOST_PASSES: usize = 3_000;

/// The result when the solver is done, or its time is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The best order found, with its cost.
    pub found: Option<(Schedule, Nanos)>,
    /// No order costs less, where every pass runs as soon as it can.
    pub proved: Nanos,
}

impl Answer {
    /// Whether no order is better than the one found.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.found.as_ref().is_some_and(|(_, cost)| *cost == self.proved)
    }
}

/// Why a pipeline is not modelled.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Unsuitable {
    /// Microbatches that take different ways.
    #[error("the chunks are mirrored: only looped chunks and a V are modelled")]
    Mirrored,
    /// Passes that take no time, or none beside the longest: the order of such is not seen by the
    /// clock.
    #[error(
        "pass times must all be above zero, and the longest less than about a million times the shortest"
    )]
    Instant,
    /// Chunks that recompute.
    #[error("chunks recompute their activations: R is not modelled")]
    Recompute,
    /// Pairs of passes that share the two streams of a device.
    #[error("pairs of passes that overlap on two streams are not modelled")]
    Overlapped,
    /// Too many passes.
    #[error("{passes} passes: at most {MOST_PASSES} are modelled")]
    TooLarge {
        /// How many there are.
        passes: usize,
    },
    /// No order fits the limits.
    #[error(transparent)]
    Infeasible(#[from] Infeasible),
    /// Costs or footprints that are not those of the pipeline.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Searches for the best order of `instance` for about `time`, and proves how good an order can be.
/// `known` is an order to begin with, if there is one. `clock` says how much time has passed since some
/// moment, and `stop` is called often: once it returns true, the result is that known by then.
///
/// The question put to the solver is "is there an order of this cost or less?". The first is for
/// the cost that [`best`] shows to be a bound: a yes settles it. Then the room between what is
/// proved and what is found is halved again and again; where an answer takes too long, the next
/// question is one that is easier to deny.
///
/// # Errors
/// [`Unsuitable`] pipelines.
pub fn solve(
    instance: &Instance,
    known: Option<Schedule>,
    time: Duration,
    clock: &dyn Fn() -> Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Answer, Unsuitable> {
    let passes = 3 * instance.shape.cells();
    if instance.placement == Placement::Mirrored {
        return Err(Unsuitable::Mirrored);
    }
    if instance.costs.has_recompute() {
        return Err(Unsuitable::Recompute);
    }
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        return Err(Unsuitable::Overlapped);
    }
    if passes > MOST_PASSES {
        return Err(Unsuitable::TooLarge { passes });
    }
    check_limits(instance)?;
    let scaled = Scaled::of(instance).ok_or(Unsuitable::Instant)?;
    let deadline = clock() + time;
    let mut answer = Answer { found: None, proved: best(instance).cost };
    if let Some(known) = known {
        keep(instance, &mut answer, known)?;
    }
    let mut asked = scaled.ticks_down(answer.proved);
    let mut hardest = scaled.longest();
    let over = || stop() || clock() >= deadline;
    while !answer.is_optimal() && asked <= hardest && !over() {
        let until = deadline.min(clock() + time / 4);
        let late = || stop() || clock() >= until;
        match decide(instance, &scaled, asked, &late) {
            Decision::Order(order) => {
                if !keep(instance, &mut answer, order)? {
                    // Sizes or times were rounded, and the order does not hold without that.
                    hardest = asked.saturating_sub(1);
                }
            }
            Decision::None => answer.proved = answer.proved.max(scaled.above(asked)),
            Decision::Unknown => hardest = asked.saturating_sub(1),
        }
        let low = scaled.ticks_down(answer.proved);
        let high = match &answer.found {
            Some((_, cost)) => hardest.min(scaled.ticks_down(*cost - Nanos(1))),
            None => hardest,
        };
        hardest = high;
        if high < low {
            break;
        }
        asked = low + (high - low) / 2;
    }
    Ok(answer)
}

/// Keeps `order` if it fits the limits and is better than what was found; says whether it is.
fn keep(instance: &Instance, answer: &mut Answer, order: Schedule) -> Result<bool, Fault> {
    let memory = Memory::of(&order, &instance.footprints)?;
    if instance.limits.as_ref().is_some_and(|limits| memory.over(limits).is_some()) {
        return Ok(false);
    }
    let cost = instance.objective.of(&Replay::new().metrics(&order, &instance.costs)?);
    let better = answer.found.as_ref().is_none_or(|(_, found)| cost < *found);
    if better {
        answer.found = Some((order, cost));
    }
    Ok(better)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pipeline::{
        Bytes, Costs, Footprint, Footprints, Kind, Limits, Order, Pass, PassTimes, Shape,
    };
    use proptest::prelude::*;
    use search::Objective;
    use search::bounds::all;

    use super::*;

    #[allow(clippy::disallowed_methods)] // Whoever asks the solver has a clock.
    fn clock() -> impl Fn() -> Duration {
        let begin = std::time::Instant::now();
        move || begin.elapsed()
    }

    /// One chunk per stage, or two in a V where `vee`: times and sizes by chunk, over and over.
    fn instance(
        (vee, [p, m]): (bool, [u64; 2]),
        times: &[[u64; 3]],
        held: &[[u64; 2]],
        hop: u64,
        room: u64,
        objective: Objective,
    ) -> Instance {
        let shape = Shape::new(p, if vee { 2 } else { 1 }, m).unwrap();
        let placement = if vee { Placement::Vee } else { Placement::Looped };
        let chunks = usize::from(shape.chunks());
        let times = times.iter().cycle().take(chunks).map(|one| {
            let [forward, backward_input, backward_weight] = one.map(Nanos);
            PassTimes { forward, backward_input, backward_weight, backward: None }
        });
        let held = held.iter().cycle().take(chunks).map(|one| {
            let [until_backward, until_weight] = one.map(Bytes);
            Footprint { until_backward, until_weight }
        });
        let footprints = Footprints::new(held.collect());
        let smallest = footprints.least_peaks(shape, placement);
        let limits: Vec<Bytes> = smallest.iter().map(|one| *one + Bytes(room)).collect();
        let limits = Some(Limits::new(shape, &limits).unwrap());
        let costs = Costs::new(times.collect(), Nanos(hop));
        Instance::new(shape, placement, costs, footprints, limits, objective).unwrap()
    }

    /// All orders of one stage with one chunk, memory aside.
    fn words(stage: u16, m: u32, done: [u32; 3], word: &mut Vec<Pass>, found: &mut Vec<Order>) {
        if done == [m; 3] {
            found.push(word.iter().copied().collect());
        }
        for (at, kind) in [Kind::F, Kind::B, Kind::W].into_iter().enumerate() {
            let limit = if at == 0 { m } else { done[at - 1] };
            if done[at] < limit {
                let mut next = done;
                next[at] += 1;
                word.push(Pass { kind, chunk: stage, microbatch: done[at] });
                words(stage, m, next, word, found);
                word.pop();
            }
        }
    }

    /// The least cost of all orders of two stages with one chunk each.
    fn exhaustive(instance: &Instance) -> Nanos {
        let m = instance.shape.microbatches();
        let [first, second] = [0, 1].map(|stage| {
            let mut found = Vec::new();
            words(stage, m, [0; 3], &mut Vec::new(), &mut found);
            found
        });
        let pairs = first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
        let cost = |(one, other): (&Order, &Order)| {
            let orders = vec![one.clone(), other.clone()];
            let schedule = Schedule::new(instance.shape, instance.placement, orders).ok()?;
            let memory = Memory::of(&schedule, &instance.footprints).unwrap();
            if memory.over(instance.limits.as_ref().unwrap()).is_some() {
                return None;
            }
            let metrics = Replay::new().metrics(&schedule, &instance.costs).unwrap();
            Some(instance.objective.of(&metrics))
        };
        pairs.filter_map(cost).min().unwrap()
    }

    fn objective() -> impl Strategy<Value = Objective> {
        prop_oneof![Just(Objective::Span), Just(Objective::Makespan)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_optimum_of_two_stages_is_that_of_all_orders(
            m in 1..4u64,
            times in [[1..9u64, 1..9u64, 1..9u64], [1..9u64, 1..9u64, 1..9u64]],
            held in [[0..7u64, 0..5u64], [0..7u64, 0..5u64]],
            (hop, room, objective) in (0..5u64, 0..16u64, objective()),
            unit in prop::sample::select(vec![1u64, 1000]),
        ) {
            let times = times.map(|one| one.map(|time| time * unit));
            let asked =
                instance((false, [2, m]), &times, &held, hop * unit, room, objective);
            let answer = solve(&asked, None, Duration::from_secs(60), &clock(), &|| false).unwrap();
            prop_assert!(answer.is_optimal(), "{answer:?}");
            prop_assert_eq!(answer.proved, exhaustive(&asked));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn no_bound_is_above_an_optimum(
            layout in prop::sample::select(
                &[(false, [3, 5]), (false, [4, 4]), (false, [3, 6]), (false, [4, 8]), (true, [2, 3]), (true, [3, 2])][..]
            ),
            times in prop::collection::vec([1..9u64, 1..9u64, 1..7u64], 1..4),
            held in prop::collection::vec([1..7u64, 0..5u64], 1..4),
            (hop, room, objective) in (0..4u64, 0..24u64, objective()),
        ) {
            let asked = instance(layout, &times, &held, hop, room, objective);
            let answer = solve(&asked, None, Duration::from_secs(2), &clock(), &|| false).unwrap();
            // What is found is an order, so its cost is no less than any bound, optimal or not.
            if let Some((_, cost)) = &answer.found {
                for bound in all(&asked) {
                    prop_assert!(bound.cost <= *cost, "{bound:?} is above {cost}");
                }
                prop_assert!(answer.proved <= *cost);
            }
        }
    }

    #[test]
    fn rounded_times_prove_less_and_never_too_much() {
        // Times without a common divisor, too long to be counted one by one.
        let times = [[1_000_000_007, 1_500_000_001, 700_000_001]];
        let asked = instance((false, [2, 3]), &times, &[[3, 1]], 100_000_007, 3, Objective::Span);
        let answer = solve(&asked, None, Duration::from_secs(20), &clock(), &|| false).unwrap();
        let optimum = exhaustive(&asked);
        let (_, cost) = answer.found.unwrap();
        assert!(answer.proved <= optimum && optimum <= cost);
        assert!(cost.0 - answer.proved.0 < 1_000, "{cost} {}", answer.proved);
    }

    #[test]
    fn a_solver_that_is_stopped_knows_what_it_was_told() {
        let asked = instance((false, [3, 6]), &[[3, 2, 2]], &[[3, 1]], 1, 6, Objective::Span);
        let hour = Duration::from_secs(3600);
        let known = solve(&asked, None, Duration::from_secs(2), &clock(), &|| false).unwrap().found;
        let (order, cost) = known.unwrap();
        let answer = solve(&asked, Some(order.clone()), hour, &clock(), &|| true).unwrap();
        assert_eq!(answer.found, Some((order, cost)));
        assert_eq!(answer.proved, best(&asked).cost);
    }

    #[test]
    fn what_cannot_be_modelled_is_said() {
        let second = Duration::from_secs(1);
        let zero = instance((false, [2, 2]), &[[0, 1, 1]], &[[1, 1]], 0, 9, Objective::Span);
        assert_eq!(solve(&zero, None, second, &clock(), &|| false), Err(Unsuitable::Instant));
        let large = instance((false, [8, 200]), &[[1, 1, 1]], &[[1, 1]], 0, 9, Objective::Span);
        assert_eq!(
            solve(&large, None, second, &clock(), &|| false),
            Err(Unsuitable::TooLarge { passes: 4_800 })
        );
        let one = instance((false, [2, 2]), &[[1, 1, 1]], &[[2, 1]], 0, 0, Objective::Span);
        let limits = Some(Limits::new(one.shape, &[Bytes(1)]).unwrap());
        let refused = solve(&Instance { limits, ..one }, None, second, &clock(), &|| false);
        assert!(matches!(refused, Err(Unsuitable::Infeasible(_))), "{refused:?}");
    }
}
