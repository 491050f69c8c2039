//! Hanayo: the two directions of Chimera as one model in waves, without a second copy.
//!
//! Source: Liu et al. 2023 (arXiv 2308.15762), which was not at hand: the order is derived from what
//! others say of it, v/2 waves over the stages as a V. A microbatch goes over the stages v times
//! forward and v times backward, each lap against the one before; it may enter every second slot.
//!
//! Slots as long as a forward and as a backward of a chunk: on stage r, the j-th microbatch of a unit
//! of p is due in lap l at slot l p + 2j + r, where the lap goes up l p + 2j + p-1-r. Laps 0 to v-1
//! are forwards, the others backwards. Laps that overlap differ in parity, and units begin every 2vp
//! slots, so no two passes want the same slot.

use super::{About, Chunks, Repeats, slots};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "hanayo",
    source: "Hanayo (Liu et al. 2023, arXiv 2308.15762)",
    needs: "any p, any m; even v = 2 waves",
    chunks: Chunks::Any { default: 2 },
    placement: Placement::Vee,
    whole_backwards: true,
    repeats: Repeats::Stages,
    bubble: "(p-1)(F+B+W)/v where p divides m and F = B+W",
    memory: "p M_B, ((v-1)p+1)/v on stage 0",
    note: "order and formulas are derived, from the waves and the bubble of chimera over 2p stages; \
           neither could be held against the paper. Where the backward is longer than the forward, \
           units of p microbatches do not interlock: with many of them 1f1b may be shorter",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let chunks = shape.chunks_per_stage();
    if !chunks.is_multiple_of(2) {
        let what = format!("an even number of chunks per stage, two for each wave, not {chunks}");
        return Err(Fault::Needs { family: ABOUT.name, key: "chunks", what });
    }
    let orders = (0..shape.stages()).map(|stage| order(shape, stage));
    Schedule::new(shape, Placement::Vee, orders.collect())
}

fn order(shape: Shape, stage: usize) -> Order {
    let chunks: Vec<u16> = Placement::Vee.chunks_of(shape, stage).collect();
    let (stages, down) = (shape.stages() as u64, stage as u64);
    let up = stages - 1 - down;
    let period = 2 * chunks.len() as u64 * stages;
    let begin = |i: u32| u64::from(i) / stages * period + 2 * (u64::from(i) % stages);
    let forwards = chunks.iter().map(|&chunk| (chunk, Pass::f as fn(u16, u32) -> Pass));
    let backwards = chunks.iter().rev().map(|&chunk| (chunk, Pass::bw as fn(u16, u32) -> Pass));
    let laps = (0u64..).zip(forwards.chain(backwards));
    slots::order(laps.flat_map(|(lap, (chunk, pass))| {
        let at = lap * stages + if lap % 2 == 0 { down } else { up };
        (0..shape.microbatches()).map(move |i| (at + begin(i), pass(chunk, i)))
    }))
}
