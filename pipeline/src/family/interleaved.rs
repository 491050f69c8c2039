//! Interleaved 1F1B: v chunks per stage, looped, so that filling takes 1/v of the time.
//!
//! Source: Narayanan et al. 2021, section 2.2 (m a multiple of p); torch.distributed.pipelining,
//! `Interleaved1F1B`, for other m. Bubble (p-1)(F+B+W)/v. Memory of stage 0:
//! p + (p-1)/v microbatches.
//!
//! Microbatches go in rounds of g (g = p where p divides m): a round passes chunk after chunk.
//!
//! 1. Warm-up: (v-1) g + 2 (p-1-r) forwards on stage r, or all there are.
//! 2. Steady: one forward, one backward.
//! 3. Drain: the backwards that are left.

use super::{About, Chunks, LimitUse};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "1f1b-i",
    source: "Interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473; torch Interleaved1F1B)",
    needs: "m a multiple of p, or of floor(m/p)",
    chunks: Chunks::Any { default: 2 },
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    in_megatron: true,
    torch_class: Some("Interleaved1F1B"),
    bubble: "(p-1)(F+B+W)/v",
    memory: "(p + (p-1)/v) M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    ahead(problem.shape(), 0)
}

/// The same with `more` forwards of chunks in the warm-up, so that every backward comes as many pairs
/// of a forward and a backward later.
pub(super) fn ahead(shape: Shape, more: u32) -> Result<Schedule, Fault> {
    let (rounds, microbatches) = (rounds(shape), shape.microbatches());
    if !microbatches.is_multiple_of(rounds) {
        let below = microbatches / rounds * rounds;
        let what = format!(
            "microbatches that fall into {rounds} equal rounds (a multiple of {rounds} = \
             floor(m/p)): {microbatches} do not, {below} or {} would",
            microbatches.next_multiple_of(rounds)
        );
        return Err(Fault::Needs { family: ABOUT.name, key: "microbatches", what });
    }
    let orders = (0..shape.stages()).map(|stage| order(shape, stage, more));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

/// How many times p or more microbatches go through a chunk.
fn rounds(shape: Shape) -> u32 {
    (shape.microbatches() / u32::try_from(shape.stages()).unwrap_or(u32::MAX)).max(1)
}

/// How many forwards of chunks `stage` runs before those that alternate with backwards, with `more` of them.
pub(super) fn warm_up(shape: Shape, stage: usize, more: u32) -> u32 {
    let (per_stage, last) = (u32::from(shape.chunks_per_stage()), shape.stages() - 1);
    let round = shape.microbatches() / rounds(shape);
    let behind = u32::try_from(last - stage).unwrap_or(u32::MAX);
    ((per_stage - 1) * round + 2 * behind + more).min(per_stage * shape.microbatches())
}

fn order(shape: Shape, stage: usize, more: u32) -> Order {
    let (per_stage, round) =
        (u32::from(shape.chunks_per_stage()), shape.microbatches() / rounds(shape));
    let total = per_stage * shape.microbatches();
    let warm_up = warm_up(shape, stage, more);
    let chunks: Vec<u16> = Placement::Looped.chunks_of(shape, stage).collect();
    let lap = |k: u32| (k / round % per_stage) as usize;
    let microbatch = |k: u32| k / (round * per_stage) * round + k % round;
    let forward = |k: u32| Pass::f(chunks[lap(k)], microbatch(k));
    let backward = |k: u32| Pass::bw(chunks[chunks.len() - 1 - lap(k)], microbatch(k));
    let mut order = Order::with_capacity(2 * total as usize);
    (0..warm_up).for_each(|k| order.push(forward(k)));
    for k in 0..total {
        if warm_up + k < total {
            order.push(forward(warm_up + k));
        }
        order.push(backward(k));
    }
    order
}
