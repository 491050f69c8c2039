use pipeline::{
    Bytes, Costs, Encoder, EncoderKind, Family, Nanos, PassTimes, Problem, Schedule, Shape,
};

use super::{Beside, EncoderOperation, EncoderStep, ModelOrder};
use crate::graph::Orders;

/// 1F1B of two stages and two microbatches, F of 10 and BW of 20, behind an encoder of 4 + 6 in two layers.
fn case() -> (Problem, Schedule, Encoder) {
    let shape = Shape::new(2, 1, 2).unwrap();
    let times = PassTimes::new(Nanos(10), Nanos(12), Nanos(8));
    let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(1))).unwrap();
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let times = PassTimes::new(Nanos(4), Nanos(3), Nanos(3));
    (problem, schedule, Encoder::new(times, 2, Nanos(5), Bytes(7)).unwrap())
}

fn step(problem: &Problem, schedule: &Schedule, encoder: &Encoder) -> EncoderStep {
    let (costs, footprints) = (problem.costs(), problem.footprints());
    let beside = Beside { schedule, costs, footprints, encoder, limits: None };
    EncoderStep::new(&beside, ModelOrder::Kept).unwrap()
}

/// Both forwards first, microbatch 1 on the second stage; backwards at the end.
fn orders(step: &EncoderStep) -> Orders {
    step.graph.orders_by(|&number| match step.operations[number as usize] {
        EncoderOperation::Encoder(run) if run.kind == EncoderKind::Forward => (0, number),
        EncoderOperation::Slot(_) => (1, number),
        EncoderOperation::Encoder(_) => (2, number),
    })
}

#[test]
fn operations_begin_as_soon_as_they_can() {
    let (problem, schedule, encoder) = case();
    let step = step(&problem, &schedule, &encoder);
    let timeline = step.timeline(&orders(&step)).unwrap();
    let times = |stage: usize| -> Vec<[u64; 2]> {
        timeline.stages[stage].iter().map(|span| [span.start.0, span.end.0]).collect()
    };
    // By hand. Stage 0: encoder of 0, F0, F1 (its encoder is there at 9), BW0 when the gradient is, BW1, backward of 0.
    let first = [[0, 4], [4, 14], [14, 24], [46, 66], [76, 96], [96, 102]];
    // Stage 1: encoder of 1, F0 at 15, BW0, F1, BW1, and the backward of 1 when BW1 of stage 0 has ended and its
    // gradient is sent.
    let second = [[0, 4], [15, 25], [25, 45], [45, 55], [55, 75], [101, 107]];
    assert_eq!((times(0), times(1)), (first.to_vec(), second.to_vec()));
    assert_eq!(timeline.step(), Nanos(107));
    assert_eq!(timeline.busy(), 4 * 30 + 20);
    assert_eq!(step.stages(&orders(&step)), [0, 1]);
}

#[test]
fn orders_that_lack_layers_or_wait_for_each_other_have_no_timeline() {
    let (problem, schedule, encoder) = case();
    let step = step(&problem, &schedule, &encoder);
    let with = |change: fn(&mut Vec<u32>)| {
        let mut changed = orders(&step);
        change(&mut changed.operations[0]);
        step.timeline(&changed)
    };
    assert!(with(|_| ()).is_some());
    assert!(with(|order| order.truncate(order.len() - 1)).is_none());
    // A forward stands behind the pass that waits for it, and a backward before the one that it waits for.
    assert!(with(|order| order.swap(1, 2)).is_none());
    assert!(with(|order| order.reverse()).is_none());
}

#[test]
fn stages_hold_activations_until_the_backward() {
    let (problem, schedule, encoder) = case();
    let step = step(&problem, &schedule, &encoder);
    let alone = pipeline::Memory::of(&schedule, problem.footprints()).unwrap().peak;
    assert_eq!(step.held(&orders(&step)), [alone[0] + Bytes(7), alone[1] + Bytes(7)]);
}
