use pipeline::{
    Bytes, Costs, Encoder, EncoderKind, EncoderOrder, EncoderRun, EncoderSlot, Family, Nanos,
    PassTimes, Problem, Schedule, Shape,
};

use super::EncoderReplay;

/// 1F1B of two stages and two microbatches, F of 10 and BW of 20, behind an encoder of 4 + 6 in two layers.
fn case() -> (Problem, Schedule, Encoder) {
    let shape = Shape::new(2, 1, 2).unwrap();
    let times = PassTimes::new(Nanos(10), Nanos(12), Nanos(8));
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(1))).unwrap();
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let times = PassTimes::new(Nanos(4), Nanos(3), Nanos(3));
    (problem, schedule, Encoder::new(times, 2, Nanos(5), Bytes(7)).unwrap())
}

fn slot(before: usize, kind: EncoderKind, microbatch: u32, first: u32, layers: u32) -> EncoderSlot {
    EncoderSlot { before, run: EncoderRun { kind, microbatch, first, layers } }
}

/// Both forwards first, microbatch 1 on the second stage; backwards at the end.
fn order() -> EncoderOrder {
    use EncoderKind::{Backward, Forward};
    EncoderOrder {
        stages: vec![
            vec![slot(0, Forward, 0, 0, 2), slot(4, Backward, 0, 0, 2)],
            vec![slot(0, Forward, 1, 0, 1), slot(0, Forward, 1, 1, 1), slot(4, Backward, 1, 0, 2)],
        ],
    }
}

#[test]
fn operations_begin_as_soon_as_they_can() {
    let (problem, schedule, encoder) = case();
    let replay = EncoderReplay::new(&schedule, problem.costs(), &encoder).unwrap();
    let timeline = replay.timeline(&order()).unwrap();
    let times = |stage: usize| -> Vec<[u64; 2]> {
        timeline.stages[stage].iter().map(|span| [span.start.0, span.end.0]).collect()
    };
    // By hand. Stage 0: encoder of 0, F0, F1 (its encoder is there at 9), BW0 when the gradient is, BW1, backward of 0.
    let first = [[0, 4], [4, 14], [14, 24], [46, 66], [76, 96], [96, 102]];
    // Stage 1: encoder of 1 layer by layer, F0 at 15, BW0, F1, BW1, and the backward of 1 when BW1 of stage 0 has ended
    // and its gradient is sent.
    let second = [[0, 2], [2, 4], [15, 25], [25, 45], [45, 55], [55, 75], [101, 107]];
    assert_eq!((times(0), times(1)), (first.to_vec(), second.to_vec()));
    assert_eq!(timeline.step(), Nanos(107));
    assert_eq!(timeline.busy(), 4 * 30 + 20);
}

#[test]
fn orders_that_lack_layers_or_wait_for_each_other_have_no_timeline() {
    use EncoderKind::{Backward, Forward};
    let (problem, schedule, encoder) = case();
    let replay = EncoderReplay::new(&schedule, problem.costs(), &encoder).unwrap();
    let with = |change: &dyn Fn(&mut EncoderOrder)| {
        let mut changed = order();
        change(&mut changed);
        replay.timeline(&changed)
    };
    assert!(with(&|_| ()).is_some());
    // A layer lacks, appears twice, or on another stage.
    assert!(with(&|order| order.stages[1].retain(|one| one.run.first == 0)).is_none());
    assert!(with(&|order| order.stages[0].insert(1, slot(0, Forward, 0, 0, 2))).is_none());
    assert!(
        with(&|order| {
            let moved = order.stages[1].pop().unwrap();
            order.stages[0].push(moved);
        })
        .is_none()
    );
    // A forward stands behind the pass that waits for it, and a backward before the one that it waits for.
    assert!(with(&|order| order.stages[0][0].before = 1).is_none());
    let early = |order: &mut EncoderOrder| {
        order.stages[0].remove(1);
        order.stages[0].insert(1, slot(0, Backward, 0, 0, 2));
    };
    assert!(with(&early).is_none());
    // No such microbatch, and no layers at all.
    assert!(with(&|order| order.stages[0][0].run.microbatch = 9).is_none());
    assert!(with(&|order| order.stages[0][0].run.layers = u32::MAX).is_none());
    assert!(replay.timeline(&EncoderOrder::default()).is_none());
}

#[test]
fn stages_hold_activations_until_the_backward() {
    let (problem, schedule, encoder) = case();
    let held = super::held(&schedule, problem.footprints(), &encoder, &order());
    let alone = pipeline::Memory::of(&schedule, problem.footprints()).unwrap().peak;
    assert_eq!(held, [alone[0] + Bytes(7), alone[1] + Bytes(7)]);
}
