//! Chimera: two copies of the model in opposite directions, each filling the bubbles of the other.
//!
//! Source: Li and Hoefler 2021 (arXiv 2107.06925), by way of others' descriptions. Units of p
//! microbatches, p/2 in each direction, follow each other; each direction is 1F1B. Idle share
//! (p-2)/(2m+p-2), that is a bubble of (p/2-1)(F+B+W) where F = B+W. Memory: p/2+1
//! microbatches at the ends to p in the middle.
//!
//! Slots as long as a forward and as a backward: the j-th microbatch of a unit runs forward on the
//! s-th stage of its direction at slot s + 2j, and backward at 2p-1-s + 2j. Units begin every 2p
//! slots. p is even, so the directions never want the same slot.

use super::{About, slots};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "chimera",
    source: "Chimera (Li and Hoefler 2021, arXiv 2107.06925), direct concatenation",
    needs: "even p, any m",
    placement: Placement::Mirrored,
    whole_backwards: true,
    bubble: "(p/2-1)(F+B+W) where p divides m, and F = B+W or p = 2",
    memory: "p M_B in the middle, (p/2+1) M_B at the ends, and two copies of the weights",
    note: "formulas from a secondary copy of the paper's table 2; the order is derived from its \
           description and has their bubble and memory. Where the backward is longer than the \
           forward, units of p microbatches do not interlock: forward doubling and backward \
           halving, made for that, are not offered",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let stages = shape.stages();
    if !stages.is_multiple_of(2) {
        let what = format!("an even number of stages, not {stages}");
        return Err(Fault::Needs { family: ABOUT.name, key: "stages", what });
    }
    let orders = (0..shape.chunks()).map(|stage| order(shape, stage));
    Schedule::new(shape, Placement::Mirrored, orders.collect())
}

fn order(shape: Shape, stage: u16) -> Order {
    let (microbatches, last) = (shape.microbatches(), shape.chunks() - 1);
    let stages = u64::from(shape.chunks());
    let down = microbatches.div_ceil(2);
    let begin = move |i: u32| {
        let (unit, j) = (u64::from(i) / (stages / 2), u64::from(i) % (stages / 2));
        2 * (unit * stages + j)
    };
    let directions = [(stage, 0..down), (last - stage, down..microbatches)];
    slots::order(directions.into_iter().flat_map(|(chunk, members)| {
        let forward = u64::from(chunk);
        let backward = 2 * stages - 1 - forward;
        let due = move |at: u64, pass: fn(u16, u32) -> Pass| {
            (0..).zip(members.clone()).map(move |(i, m)| (at + begin(i), pass(chunk, m)))
        };
        let forwards = due(forward, Pass::f);
        forwards.chain(due(backward, Pass::bw))
    }))
}
