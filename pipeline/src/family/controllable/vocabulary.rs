//! V-Half with the output layer in shards over all stages.
//!
//! Source: Vocabulary Parallelism (Yeung et al. 2024, arXiv 2411.05288), section 5: one S and one T
//! per microbatch go into the block of V-Half, and every barrier makes a microbatch live one
//! repetition longer. Here the backwards of the block stand six cells later for each barrier; warm-up
//! and cool-down are reordered as without S and T, which take no cell: all stages do S of a microbatch
//! when its forward has ended, and T when that of the next one has, or the backward begins.

use super::super::sharded::insert;
use super::super::vocabulary::with_shards;
use super::super::{About, Chunks, LimitUse};
use super::greedy::{generate, v_half_block};
use super::grid::Grid;
use super::work::Work;
use crate::fault::Fault;
use crate::order::Order;
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
           behind T); the authors run it without rearranging warm-up and cool-down, which takes longer",
    ..About::PLAIN
};

pub(in crate::family) const ABOUT_2: About = About {
    name: "v-half-vocab-2",
    vocabulary: Vocabulary::OneBarrier,
    memory: "floor((p+4)/2) M_B",
    note: "v-half with the output layer over all stages (algorithm 2: one barrier, behind S); not \
           among the authors' published runs; they run it without rearranging warm-up and cool-down",
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
    Schedule::new(shape, Placement::Vee, orders(&grid, shape))
}

/// The orders of `grid`, with the S and T of every shard between the cells.
fn orders(grid: &Grid, shape: Shape) -> Vec<Order> {
    let cell = |cell: usize| cell as u64;
    let cells = |wanted: Work| {
        let row = grid.rows.first().into_iter().flatten().enumerate();
        row.filter(move |(_, work)| **work == Some(wanted)).map(move |(at, _)| cell(at))
    };
    // The last chunk lies on the first stage: its forward ends, and its backward begins, there.
    let ends: Vec<u64> = cells(Work::FUp).map(|cell| cell + 1).collect();
    let begins: Vec<u64> = cells(Work::BUp).collect();
    let slots = grid.rows.iter().zip(grid.orders(shape)).map(|(row, order)| {
        let taken = row.iter().enumerate().filter(|(_, work)| work.is_some());
        taken.map(|(at, _)| cell(at)).zip(order.slots()).collect()
    });
    insert(slots.collect(), &ends, &begins)
}
