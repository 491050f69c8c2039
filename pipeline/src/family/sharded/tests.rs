use proptest::prelude::*;

use super::*;
use crate::costs::{Collectives, Costs, PassTimes, ShardTimes};
use crate::memory::peak_in_flight;
use crate::pass::{Kind, Pass};
use crate::shape::Shape;
use crate::units::Nanos;

const ALL: [Sharded; 6] = [INTERLEAVED, ZB_H1, ZB_2P, ZB_V, V_MIN, DUAL_PIPE_V];
const ALGORITHMS: [Vocabulary; 2] = [Vocabulary::TwoBarriers, Vocabulary::OneBarrier];

fn problem(shape: Shape, times: &[u64; 3], hop: u64) -> Problem {
    let [forward, backward_input, backward_weight] = times.map(Nanos);
    let times = PassTimes::new(forward, backward_input, backward_weight);
    let shards = vec![ShardTimes::default(); shape.stages()];
    let costs = Costs::uniform(shape, times, Nanos(hop));
    Problem::new(shape, costs.with_shards(shards, Collectives::default())).unwrap()
}

/// Microbatches that all the families take: rounds of p, at least two of them.
fn shape(sharded: &Sharded, stages: u64, rounds: u64) -> Shape {
    let chunks = sharded.about.chunks.of(None);
    Shape::new(stages, chunks, stages * rounds).unwrap()
}

/// Where each pass of `kind` of the shard or chunk stands in `order`.
fn places(order: &crate::order::Order, kind: Kind) -> Vec<usize> {
    let passes = order.passes().iter().enumerate();
    passes.filter(|(_, pass)| pass.kind == kind).map(|(at, _)| at).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Passes of any length, no length too: whatever the clock says, nothing waits for ever; and on every
    /// stage S and T come in the same order.
    #[test]
    fn orders_are_schedules(
        which in 0..ALL.len(),
        stages in 1..=7u64,
        rounds in 2..=5u64,
        times in [0..9u64, 0..9, 0..9],
        hop in 0..4u64,
    ) {
        let shape = shape(&ALL[which], stages, rounds);
        for vocabulary in ALGORITHMS {
            let with = shape.with_vocabulary(vocabulary).unwrap();
            let schedule = ALL[which].schedule(&problem(with, &times, hop), vocabulary).unwrap();
            let of_shards = |stage: usize| -> Vec<(Kind, u32)> {
                let passes = schedule.orders()[stage].passes().iter();
                let passes = passes.filter(|pass| pass.kind.is_of_vocabulary());
                passes.map(|pass| (pass.kind, pass.microbatch)).collect()
            };
            for stage in 0..shape.stages() {
                prop_assert_eq!(of_shards(stage), of_shards(0));
            }
        }
    }

    /// Every barrier lets a microbatch live a repetition longer: a chunk of it in interleaved 1F1B, all of
    /// it in the others.
    #[test]
    fn each_barrier_holds_a_repetition_more(
        which in 0..ALL.len(),
        stages in 1..=7u64,
        rounds in 2..=6u64,
        times in [1..9u64, 1..9, 1..9],
    ) {
        let sharded = &ALL[which];
        let shape = shape(sharded, stages, rounds);
        let of_repetition = match sharded.base {
            Family::Interleaved => 1,
            _ => u32::from(shape.chunks_per_stage()),
        };
        let all = shape.microbatches() * u32::from(shape.chunks_per_stage());
        for vocabulary in ALGORITHMS {
            let barriers = vocabulary.barriers();
            let problem = problem(shape, &times, 0);
            let schedule = sharded.schedule(&problem, vocabulary).unwrap();
            let more = match sharded.base {
                Family::Interleaved => shape,
                _ => {
                    let microbatches = u64::from(shape.microbatches() + barriers);
                    let chunks = u64::from(shape.chunks_per_stage());
                    Shape::new(stages, chunks, microbatches).unwrap()
                }
            };
            let whole = Problem::new(more, problem.costs().clone()).unwrap();
            let whole = sharded.base.schedule(&whole).unwrap();
            let most = peak_in_flight(&whole).into_iter().map(|peak| peak + barriers * of_repetition);
            let most: Vec<u32> = most.map(|most| most.min(all)).collect();
            let ours = peak_in_flight(&schedule);
            prop_assert!(ours.iter().zip(&most).all(|(ours, most)| ours <= most));
            if rounds >= 4 {
                prop_assert_eq!(ours.iter().max(), most.iter().max());
            }
        }
    }
}

/// One after the other in the order of p = 1: F, S, T of the one before; the backward k microbatches
/// later.
#[test]
fn one_stage_by_hand() {
    let shape = Shape::new(1, 1, 3).unwrap();
    let [two, one] = ALGORITHMS.map(|vocabulary| {
        let schedule = ZB_H1.schedule(&problem(shape, &[1, 1, 1], 0), vocabulary).unwrap();
        schedule.to_string()
    });
    assert_eq!(
        two,
        "vocabulary 1\nF0.0 S0.0 F0.1 T0.0 S0.1 F0.2 T0.1 S0.2 B0.0 W0.0 T0.2 B0.1 W0.1 B0.2 W0.2\n"
    );
    assert_eq!(
        one,
        "vocabulary 2\nF0.0 S0.0 F0.1 T0.0 S0.1 B0.0 W0.0 F0.2 T0.1 S0.2 B0.1 W0.1 T0.2 B0.2 W0.2\n"
    );
}

/// A forward and a backward of DualPipeV stay beside each other, k microbatches further apart.
#[test]
fn pairs_stay_pairs() {
    let shape = Shape::new(3, 2, 9).unwrap();
    let given = problem(shape, &[1, 1, 1], 0);
    let pairs = |schedule: &Schedule| -> Vec<(Pass, Pass)> {
        let slots = schedule.orders()[0].slots();
        let pair = |slot| match slot {
            crate::pass::Slot::Pair(first, second) => Some((first, second)),
            crate::pass::Slot::One(_) => None,
        };
        slots.filter_map(pair).collect()
    };
    let longer = Shape::new(3, 2, 10).unwrap();
    let whole = Problem::new(longer, given.costs().clone()).unwrap();
    let whole = pairs(&Family::DualPipeV.schedule(&whole).unwrap());
    let shards = pairs(&DUAL_PIPE_V.schedule(&given, Vocabulary::OneBarrier).unwrap());
    let later = whole.into_iter().filter_map(|(first, second)| {
        let microbatch = second.microbatch.checked_sub(1)?;
        (first.microbatch < 9).then_some((first, Pass { microbatch, ..second }))
    });
    assert!(shards.len() > 4);
    assert_eq!(shards, later.collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_is_said_in_the_name_of_the_family() {
    let needs = |sharded: &Sharded, shape: Shape| {
        let problem = problem(shape, &[1, 1, 1], 0);
        sharded.schedule(&problem, Vocabulary::TwoBarriers).unwrap_err().to_string()
    };
    let said = needs(&DUAL_PIPE_V, Shape::new(4, 2, 7).unwrap());
    assert!(
        said.starts_with("dualpipe-v-vocab-1 needs at least 2p = 8 microbatches, not 7"),
        "{said}"
    );
    let said = needs(&V_MIN, Shape::new(300, 2, 9).unwrap());
    assert!(said.starts_with("v-min-vocab-1 needs at most 256 stages"), "{said}");
}

#[test]
fn a_stage_does_every_s_and_t_once() {
    let shape = Shape::new(4, 2, 8).unwrap();
    let schedule = ZB_V.schedule(&problem(shape, &[2, 3, 2], 1), Vocabulary::TwoBarriers).unwrap();
    for order in schedule.orders() {
        let [s, t] = [Kind::S, Kind::T].map(|kind| places(order, kind));
        assert_eq!((s.len(), t.len()), (8, 8));
        // T of a microbatch stands right before S of the next, or sooner.
        assert!(t.iter().zip(&s[1..]).all(|(t, s)| t < s));
    }
}
