//! V-Half with the output layer in shards over all stages.
//!
//! Source: Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288), section 5: one S and one T
//! per microbatch go into the block of V-Half, and every barrier makes a microbatch live one
//! repetition longer. Here the backwards of the block stand six cells later for each barrier; warm-up
//! and cool-down are reordered as without S and T, which take no cell: all stages do S of a microbatch
//! when its forward has ended, and T when that of the next one has, or the backward begins.

use super::super::vocabulary::with_shards;
use super::super::{About, Chunks, LimitUse};
use super::greedy::{generate, v_half_block};
use super::grid::Grid;
use super::work::Work;
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape, Vocabulary};

pub(in crate::family) const ABOUT_1: About = About {
    name: "v-half-vocab-1",
    source: "Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288)",
    needs: "p at most 256, any m; times of S and T (vocab-s, vocab-t); optimizer without a \
            barrier; the order is made for F = B = W",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Checked,
    vocabulary: Vocabulary::TwoBarriers,
    bubble: "that of v-half, longer by about a repetition for each barrier",
    memory: "floor((p+6)/2) M_B",
    note: "v-half with the output layer over all stages (algorithm 1: a barrier behind S and one \
           behind T); the authors' order was not at hand",
    ..About::PLAIN
};

pub(in crate::family) const ABOUT_2: About = About {
    name: "v-half-vocab-2",
    vocabulary: Vocabulary::OneBarrier,
    memory: "floor((p+4)/2) M_B",
    note: "v-half with the output layer over all stages (algorithm 2: one barrier, behind S); not \
           among the authors' published runs, and their order was not at hand",
    ..ABOUT_1
};

pub(in crate::family) fn schedule_1(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_1.name, Vocabulary::TwoBarriers)
}

pub(in crate::family) fn schedule_2(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_2.name, Vocabulary::OneBarrier)
}

fn schedule(
    problem: &Problem,
    family: &'static str,
    vocabulary: Vocabulary,
) -> Result<Schedule, Fault> {
    super::check(problem, family, super::MAX_STAGES)?;
    let shape = with_shards(problem, family, vocabulary)?;
    let delay = 6 * vocabulary.barriers() as usize;
    let grid = generate(shape, |p: usize, i: usize| {
        let [forward_down, forward_up, backward_up, backward_down] = v_half_block(p, i);
        [forward_down, forward_up, backward_up + delay, backward_down + delay]
    });
    Schedule::new(shape, Placement::Vee, insert(&grid, shape))
}

/// The orders of `grid`, with the S and T of every shard between the cells.
fn insert(grid: &Grid, shape: Shape) -> Vec<Order> {
    let cells = |wanted: Work| {
        let row = grid.rows.first().into_iter().flatten().enumerate();
        let found = row.filter(move |(_, work)| **work == Some(wanted));
        found.map(|(cell, _)| cell).collect::<Vec<_>>()
    };
    // The last chunk lies on the first stage: its forward ends, and its backward begins, there.
    let ends: Vec<usize> = cells(Work::FUp).into_iter().map(|cell| cell + 1).collect();
    let begins = cells(Work::BUp);
    // On every stage the same order, by the cell in front of which they go: T of the microbatch before
    // goes first, then S, then T of the same one where its backward cannot wait.
    let mut between = Vec::with_capacity(2 * ends.len());
    for (microbatch, (&end, &begin)) in (0..shape.microbatches()).zip(ends.iter().zip(&begins)) {
        let next = ends.get(microbatch as usize + 1).copied().unwrap_or(usize::MAX);
        between.push(((end, 2 * u64::from(microbatch)), Kind::S, microbatch));
        between.push(((next.min(begin), 2 * u64::from(microbatch) + 1), Kind::T, microbatch));
    }
    between.sort_unstable_by_key(|&(due, ..)| due);
    let stages = 0..u16::try_from(grid.rows.len()).unwrap_or(u16::MAX);
    stages.map(|stage| order(grid, shape, stage, &between)).collect()
}

fn order(grid: &Grid, shape: Shape, stage: u16, between: &[((usize, u64), Kind, u32)]) -> Order {
    let mut order = Order::with_capacity(8 * shape.microbatches() as usize);
    let mut between = between.iter().peekable();
    let mut counts = [0u32; 6];
    let shard = |&(_, kind, microbatch): &_| Pass { kind, chunk: stage, microbatch };
    for (cell, work) in grid.rows[usize::from(stage)].iter().enumerate() {
        while let Some(one) = between.next_if(|((due, _), ..)| *due <= cell) {
            order.push(shard(one));
        }
        if let Some(work) = *work {
            order.push(work.pass(shape, usize::from(stage), counts[work as usize]));
            counts[work as usize] += 1;
        }
    }
    between.for_each(|one| order.push(shard(one)));
    order
}
