//! Tests of training on pipelines.

use pipeline::{Costs, Family, MicrobatchWork, Nanos, PassTimes, Problem, Shape, Work};
use proptest::prelude::*;
use sim::Replay;

use super::*;
use crate::CostModel;

/// `[F, B, W]` nanoseconds of a token in each chunk.
fn pipelines(schedule: Family, stages: u64, chunks: &[[u64; 3]]) -> Pipelines {
    #[allow(clippy::cast_precision_loss)]
    let cost = |nanos: u64| PassCost { squares: 0.0, tokens: nanos as f64 / SECOND };
    let chunk = |&[f, b, w]: &[u64; 3]| ChunkCosts {
        forward: cost(f),
        backward_input: cost(b),
        backward_weight: cost(w),
    };
    Pipelines {
        replicas: 1,
        stages,
        schedule,
        chunks: chunks.iter().map(chunk).collect(),
        hop_latency: Nanos(0),
        hop_token: 0.0,
        exchange: Nanos(0),
    }
}

/// Microbatches of one sample each.
fn packing(lengths: &[u32], method: Method, limit: u64) -> Packing {
    Packing::new(method, lengths, 1, limit, CostModel::linear(Nanos(1)).unwrap()).unwrap()
}

#[test]
fn equal_microbatches_take_the_closed_form() {
    let lengths = [100; 6];
    let packing = packing(&lengths, Method::LocalSort, 100);
    let mut three = pipelines(Family::OneFOneB, 3, &[[1, 2, 1]; 3]);
    // (m + p - 1)(F + B + W), and F alone.
    let update = three.update(&packing, &lengths).unwrap();
    assert_eq!((update.time, update.busy), (Nanos(8 * 400), 6 * 400));
    let forward = three.forward(&packing, &lengths).unwrap();
    assert_eq!((forward.time, forward.busy), (Nanos(8 * 100), 6 * 100));
    // Of two chunks each the bubble is half as long.
    three = pipelines(Family::Interleaved, 3, &[[1, 2, 1]; 6]);
    assert_eq!(three.update(&packing, &lengths).unwrap().time, Nanos(12 * 400 + 2 * 400));
    assert_eq!(three.forward(&packing, &lengths).unwrap().time, Nanos(12 * 100 + 2 * 100));
    // Two hops there, and two back where no microbatch hides them.
    three = pipelines(Family::OneFOneB, 3, &[[1, 2, 1]; 3]);
    (three.hop_latency, three.hop_token, three.exchange) = (Nanos(7), 2e-9, Nanos(1_000));
    let one = &lengths[..1];
    let update = three.update(&super::tests::packing(one, Method::LocalSort, 100), one).unwrap();
    assert_eq!(update.time, Nanos(3 * 400 + 4 * 207 + 1_000));
}

#[test]
fn small_microbatches_stand_at_both_ends() {
    let lengths = [50, 10, 40, 20, 30];
    let packing = packing(&lengths, Method::LbMicro, 50);
    let sizes = sizes(packing.method(), &packing.devices()[0], &lengths);
    let tokens: Vec<f64> = sizes.iter().map(|size| size.tokens).collect();
    assert_eq!(tokens, [50.0, 50.0, 50.0]);
    let packing = super::tests::packing(&lengths, Method::LocalSort, 50);
    let each: Vec<Vec<u32>> = packing.devices()[0].iter().rev().cloned().collect();
    let sizes = super::sizes(Method::LbMicro, &each, &lengths);
    let tokens: Vec<f64> = sizes.iter().map(|size| size.tokens).collect();
    assert_eq!(tokens, [10.0, 30.0, 50.0, 40.0, 20.0]);
}

#[test]
fn attention_grows_with_the_square() {
    let mut one = pipelines(Family::OneFOneB, 1, &[[0, 0, 0]]);
    one.chunks[0].forward.squares = 1e-9;
    let lengths = [30, 40];
    let both = packing(&lengths, Method::LbMicro, 70);
    assert_eq!(both.devices()[0].len(), 1);
    assert_eq!(one.update(&both, &lengths).unwrap().time, Nanos(900 + 1_600));
}

#[test]
fn times_that_the_clock_cannot_tell_are_refused() {
    let mut one = pipelines(Family::OneFOneB, 1, &[[1, 1, 1]]);
    one.chunks[0].forward.tokens = 1e9;
    let lengths = [1 << 20];
    let packing = packing(&lengths, Method::LbMicro, 1 << 20);
    assert_eq!(one.update(&packing, &lengths), Err(FsdpError::Overflow));
    one.chunks[0].forward.tokens = f64::NAN;
    assert_eq!(one.forward(&packing, &lengths), Err(FsdpError::Overflow));
}

proptest! {
    /// A step costs what a replay of the order costs whose microbatches have the work of their tokens.
    #[test]
    fn an_update_is_a_replay_with_unequal_work(
        lengths in prop::collection::vec(1..3_000u32, 1..12),
        each in prop::collection::vec([1..9u64, 1..9u64, 1..9u64], 6),
        stages in 1..4u64,
        at in 0..3usize,
    ) {
        let schedule = [Family::OneFOneB, Family::ZbH1, Family::Interleaved][at];
        let per_stage = if schedule == Family::Interleaved { 2 } else { 1 };
        let count = usize::try_from(stages).unwrap();
        let chunks = &each[..usize::try_from(stages * per_stage).unwrap()];
        let pipelines = pipelines(schedule, stages, chunks);
        let packing = packing(&lengths, Method::LocalSort, 3_000);
        let update = pipelines.update(&packing, &lengths).unwrap();

        let sizes = sizes(packing.method(), &packing.devices()[0], &lengths);
        let shape = Shape::new(stages, per_stage, sizes.len() as u64).unwrap();
        let thousand = |&[f, b, w]: &[u64; 3]| {
            PassTimes::new(Nanos(f * 1_000), Nanos(b * 1_000), Nanos(w * 1_000))
        };
        let work = sizes.iter().map(|size| Work::alike(size.tokens / 1_000.0).unwrap());
        let costs = Costs::new(chunks.iter().map(thousand).collect(), Nanos(0))
            .with_microbatch_work(MicrobatchWork::new(work.collect()));
        // An order that depends on times is made for the mean microbatch.
        let problem = Problem::new(shape, costs.clone().of_mean_microbatch()).unwrap();
        let schedule = schedule.schedule(&problem).unwrap();
        let metrics = Replay::new().metrics(&schedule, &costs).unwrap();
        prop_assert_eq!(update.time, metrics.makespan());

        // Forwards alone need the longest stage and the longest microbatch, and no more than one after the other.
        let forward = pipelines.forward(&packing, &lengths).unwrap();
        let tokens: u64 = lengths.iter().map(|&tokens| u64::from(tokens)).sum();
        let all: u64 = chunks.iter().map(|chunk| chunk[0] * tokens).sum();
        let stage = |stage: usize| -> u64 {
            chunks.iter().skip(stage).step_by(count).map(|chunk| chunk[0] * tokens).sum()
        };
        let longest = (0..count).map(stage).max().unwrap();
        let most = u64::from(*lengths.iter().max().unwrap());
        let path: u64 = chunks.iter().map(|chunk| chunk[0] * most).sum();
        prop_assert!((longest.max(path)..=all).contains(&forward.time.0));
        prop_assert!(forward.time <= update.time);
        prop_assert_eq!(forward.busy, u128::from(all / stages));
    }
}
