//! The rule behind 1F1B, ZB-H1 and ZB-H2: one forward, one backward, with delayed W.
//!
//! Source: the hand-made schedules of the Zero Bubble paper (section 2, figures 2 and 3), here with
//! any number of microbatches. Stage r of p, with k forwards of head start per stage:
//!
//! 1. Warm-up: k (p - 1 - r) forwards, or all there are.
//! 2. Steady and drain: for each microbatch a forward while there are any, then its backward. A W
//!    follows once k (p - 1) microbatches are under way, so W lags B by k r microbatches.
//! 3. The W passes that are left.

use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

/// How the backward is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Backward {
    Fused,
    Split,
}

/// The schedule with `head_start` forwards (k) per stage of distance from the last one.
pub(super) fn schedule(
    problem: &Problem,
    head_start: u32,
    backward: Backward,
) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let orders = (0..shape.chunks()).map(|stage| order(shape, stage, head_start, backward));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

fn order(shape: Shape, stage: u16, head_start: u32, backward: Backward) -> Order {
    let microbatches = shape.microbatches();
    let last = shape.chunks() - 1;
    let warm_up = head_start * u32::from(last - stage);
    let under_way = head_start * u32::from(last);
    let mut order = Order::with_capacity(3 * microbatches as usize);
    for i in 0..warm_up.min(microbatches) {
        order.push(Pass::f(stage, i));
    }
    let mut weights = 0..microbatches;
    for i in 0..microbatches {
        if warm_up + i < microbatches {
            order.push(Pass::f(stage, warm_up + i));
        }
        if backward == Backward::Fused {
            order.push(Pass::bw(stage, i));
            continue;
        }
        order.push(Pass::b(stage, i));
        if warm_up + i >= under_way {
            weights.by_ref().take(1).for_each(|w| order.push(Pass::w(stage, w)));
        }
    }
    if backward == Backward::Split {
        weights.for_each(|w| order.push(Pass::w(stage, w)));
    }
    order
}
