//! Seq1F1B: 1F1B over segments of the sequence, so that filling takes 1/k of the time.
//!
//! Source: Sun et al. 2024 (arXiv 2406.03488); the order is that of a published implementation
//! (sail-sg/zero-bubble-pipeline-parallelism, branch `main`, `seq1f1b.py`). Bubble
//! (p-1)(F+B+W)/k where segments take equal times. Memory of stage 0: p-1+k segments.
//!
//! Each k microbatches of the shape are the segments of one. Attention makes the forward of a segment
//! need those of the segments before it on the same stage, and its backward those of the segments
//! behind it. Forwards go in order and backwards against it, so every stage's own order keeps that.
//!
//! 1. Warm-up: p-2-r + k segment forwards on stage r, or all there are.
//! 2. Steady: one forward, one backward.
//! 3. Drain: the backwards that are left.

use super::{About, Choice, Repeats};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "seq1f1b",
    source: "Seq1F1B (Sun et al. 2024, arXiv 2406.03488); order of a published implementation",
    choice: Choice::Segments { default: 2 },
    whole_backwards: true,
    repeats: Repeats::Segments,
    bubble: "in k segments: (p-1)(F+B+W)/k for all times",
    memory: "(p-1+k)/k M_B",
    note: "segments are taken to cost and to hold 1/k of a microbatch each; its passes count \
           segments, m k of them. The formulas are derived, not read in the source",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let (shape, segments) = (problem.shape(), problem.segments());
    let all = shape.microbatches();
    if !all.is_multiple_of(segments) {
        let what = format!("whole microbatches: {all} is not a multiple of {segments} segments");
        return Err(Fault::Needs { family: ABOUT.name, key: "segments", what });
    }
    let orders = (0..shape.chunks()).map(|stage| order(shape, stage, segments));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

fn order(shape: Shape, stage: u16, segments: u32) -> Order {
    let all = shape.microbatches();
    let behind = u32::from(shape.chunks() - 1 - stage);
    let warm_up = (behind + segments - 1).min(all);
    let backward = |i: u32| {
        let first = i / segments * segments;
        Pass::bw(stage, first + (segments - 1 - i % segments))
    };
    let mut order = Order::with_capacity(2 * all as usize);
    (0..warm_up).for_each(|i| order.push(Pass::f(stage, i)));
    for i in 0..all {
        if i < all - warm_up {
            order.push(Pass::f(stage, warm_up + i));
        }
        order.push(backward(i));
    }
    order
}
