//! STP, synergistic tensor and pipeline parallelism: a V whose forwards are braided with backwards.
//!
//! Source: Qi et al. 2025 (arXiv 2510.27257); the order is that of the authors' code (MICLAB-BUPT/STP,
//! `stp/schedule.py`), formulas those of the table in its README. Published bubble of pipeline stages without the time
//! of all-reduces: (p-1)(F+B-W) of chunks, which is that of this order where F = B = W; for other times its bubble is
//! larger. Published memory: 3p activations of a chunk, without that of the forward that runs beside a backward.
//!
//! On stage r, with n = p - 1 - r stages after it, F0 and B0 on the way down, F1 and B1 on the way up:
//!
//! 1. 2n F0.
//! 2. r+1 times F0, F1.
//! 3. r+1 F0. The authors braid two at a time.
//! 4. n times the pair F1 B1, F0, the oldest W. The authors braid F0 with that W.
//! 5. 2(m-3p+1) + 1 + 2r pairs, F1 BW1 and F0 BW0 by turns; W is put off in the last r.
//! 6. 2p-2-r times BW0, the pair F1 B1.
//! 7. r+1 times BW0, BW1.
//! 8. BW0, then n times the two oldest W, BW0.
//! 9. The W that are left.
//!
//! Two forwards, and a forward with W, are passes one after the other here: only a forward and a backward share
//! streams ([`crate::overlap`]). Without hops neither takes longer than as a pair.

use super::dualpipe::Rank;
use super::{About, Chunks};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Slot;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "stp",
    source: "STP (Qi et al. 2025, arXiv 2510.27257; order of MICLAB-BUPT/STP)",
    needs: "any p, m >= 3p-1",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    overlaps_lone: true,
    bubble: "(p-1)(2max(F,W)+max(B,W)+max(F,B)-3W)/2 for all times; \
             or (p-1)(F+B-W)/2, as published, where F = B = W; pairs take F+B+W",
    memory: "(3p+1)/2 M_B until B, up to (4p-1)/2 M_B on the last stage until W; published: 3p chunks",
    note: "the authors' code accepts m >= 2p, but orders microbatches that do not exist where m < 3p-1; \
           two forwards, or a forward and a W, which the paper braids too, run one after the other here",
    ..About::PLAIN
};

/// The way down the V, and the way up.
const DOWN: usize = 0;
const UP: usize = 1;

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let (stages, microbatches) = (shape.chunks() / 2, shape.microbatches());
    let Some(more) = (microbatches + 1).checked_sub(3 * u32::from(stages)) else {
        let least = 3 * u32::from(stages) - 1;
        let what = format!("at least 3p-1 = {least} microbatches, not {microbatches}");
        return Err(Fault::Needs { family: ABOUT.name, key: "microbatches", what });
    };
    let order = |stage| {
        let [before, after] = [stage, stages - 1 - stage].map(u32::from);
        order(Rank::of_vee(shape, stage), [before, after], more)
    };
    Schedule::new(shape, Placement::Vee, (0..stages).map(order).collect())
}

/// The order of a stage with `before` stages before it and `after` after it, for `more` microbatches than 3p-1.
fn order(mut rank: Rank, [before, after]: [u32; 2], more: u32) -> Order {
    warm_up(&mut rank, before, after);
    let pairs = 2 * more + 1 + 2 * before;
    for i in 0..pairs {
        let direction = if i % 2 == 0 { UP } else { DOWN };
        put_pair(&mut rank, direction, i + before < pairs);
    }
    for _ in 0..before + 2 * after {
        put_backward(&mut rank, DOWN);
        put_pair(&mut rank, UP, false);
    }
    drain(&mut rank, before, after);
    rank.into_order()
}

/// Steps 1 to 4.
fn warm_up(rank: &mut Rank, before: u32, after: u32) {
    (0..2 * after).for_each(|_| put_forward(rank, DOWN));
    for _ in 0..=before {
        put_forward(rank, DOWN);
        put_forward(rank, UP);
    }
    (0..=before).for_each(|_| put_forward(rank, DOWN));
    for _ in 0..after {
        put_pair(rank, UP, false);
        put_forward(rank, DOWN);
        rank.put_weight();
    }
}

/// Steps 7 to 9.
fn drain(rank: &mut Rank, before: u32, after: u32) {
    for _ in 0..=before {
        put_backward(rank, DOWN);
        put_backward(rank, UP);
    }
    put_backward(rank, DOWN);
    for _ in 0..after {
        rank.put_weight();
        rank.put_weight();
        put_backward(rank, DOWN);
    }
    (0..2 * before).for_each(|_| rank.put_weight());
}

fn put_forward(rank: &mut Rank, direction: usize) {
    let forward = rank.forward(direction);
    rank.put(forward);
}

/// A backward with its W.
fn put_backward(rank: &mut Rank, direction: usize) {
    let backward = rank.backward(direction);
    rank.put(backward);
}

/// A forward and a backward of one chunk, the backward with its W or without.
fn put_pair(rank: &mut Rank, direction: usize, is_whole: bool) {
    let forward = rank.forward(direction);
    let backward = if is_whole { rank.backward(direction) } else { rank.half_backward(direction) };
    rank.put(Slot::Pair(forward, backward));
}
