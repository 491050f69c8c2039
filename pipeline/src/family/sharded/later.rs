//! An order whose backwards come some repetitions later.
//!
//! It is read off the order of as many microbatches more: their last forwards and their first backwards
//! are left out, and what is the backward of microbatch j + k there is that of j here. What was done in
//! order there is done in order here, so no passes wait for each other; and each stage holds k
//! microbatches more than there, at most.

use super::super::Family;
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Shape;

/// The order that `base` makes of `problem` in `shape`, whose output layer is whole, with the backwards
/// `by` repetitions later. A memory limit of the problem is ignored.
pub(super) fn later(
    problem: &Problem,
    shape: Shape,
    by: u32,
    base: Family,
) -> Result<Schedule, Fault> {
    let [stages, chunks] = [shape.stages() as u64, shape.chunks_per_stage().into()];
    let more = Shape::new(stages, chunks, u64::from(shape.microbatches()) + u64::from(by))?;
    let longer = Problem::new(more, problem.costs().clone())?;
    let longer = base.schedule(&longer.with_footprints(problem.footprints().clone())?)?;
    let orders = longer.orders().iter().map(|order| renumbered(order, shape.microbatches(), by));
    Schedule::new(shape, longer.placement(), orders.collect())
}

/// `order` with its forwards of the first `microbatches`, and the backwards of those from `by` on as the
/// backwards of those from 0 on.
fn renumbered(order: &Order, microbatches: u32, by: u32) -> Order {
    let keep = |pass: Pass| match pass.kind {
        Kind::F => (pass.microbatch < microbatches).then_some(pass),
        _ => pass.microbatch.checked_sub(by).map(|microbatch| Pass { microbatch, ..pass }),
    };
    let slot = |slot| match slot {
        Slot::One(pass) => keep(pass).map(Slot::One),
        Slot::Pair(first, second) => match (keep(first), keep(second)) {
            (Some(first), Some(second)) => Some(Slot::Pair(first, second)),
            (first, second) => first.or(second).map(Slot::One),
        },
    };
    order.slots().filter_map(slot).collect()
}
