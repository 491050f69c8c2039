//! V-Min and V-Half: a fixed building block, repeated, with warm-up and cool-down reordered.
//!
//! Source: Controllable Memory, and the authors' `zbv_greedy.py` (branch `main` of
//! sail-sg/zero-bubble-pipeline-parallelism). The passes of one microbatch on stage i start at
//!
//! | | forward down | forward up | backward up | backward down | |
//! |---|---|---|---|---|---|
//! | V-Min | i | 2p-i-1 | 2p+s+i | 4p+s-i-1 | s = 2 if 3 divides p, else 0 |
//! | V-Half | 2i | 3p-i-2 | 3p+s+2i-1 | 6p+s-i-2 | s = 3 if p is even, else 0 |
//!
//! and again six cells later for the next one.
//!
//! 1. W passes go into the next free cells; warm-up and cool-down are reordered with them.
//! 2. Everything is squeezed, W passes are taken out, and the cool-down is reordered again while
//!    they fill the free cells.
//! 3. Squeezed again; W passes go into the free cells, those of the way up first.
//!
//! All of that counts every pass as one cell, as the published runtime does, whatever passes take.

use std::convert::Infallible;

use super::super::{About, Chunks, LimitUse, Repeats};
use super::grid::Grid;
use super::reorder::{Weights, fill_weights, reorder};
use super::work::Work;
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(in crate::family) const ABOUT_MIN: About = About {
    name: "v-min",
    source: "Controllable Memory (Qi et al. 2024, arXiv 2405.15362); the authors' zbv_greedy.py",
    needs: "p at most 256, any m; optimizer without a barrier; the order is made for F = B = W",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Checked,
    repeats: Repeats::Microbatch,
    bubble: "(4p-5)/6 (F+B+W), (4p-7)/6 (F+B+W) if 3 divides p, where p >= 2, m >= p+2 and F = B = W; \
             else it grows with m",
    memory: "floor((p+4)/3) M_B",
    note: "the order equals that of the authors' code; the paper's own figures were not available",
    ..About::PLAIN
};

pub(in crate::family) const ABOUT_HALF: About = About {
    name: "v-half",
    bubble: "(3p-4)/6 (F+B+W), (3p-7)/6 (F+B+W) if 2 divides p, where p >= 3, m >= p+2 and \
             F = B = W",
    memory: "floor((p+2)/2) M_B",
    ..ABOUT_MIN
};

pub(in crate::family) fn v_min(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_MIN.name, v_min_block)
}

pub(in crate::family) fn v_half(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_HALF.name, v_half_block)
}

/// The cells of stage `i` of `p` for the first microbatch, in the order of [`Work::CHAIN`]: before
/// every pass its input, and no two passes of a stage in cells that are alike modulo six.
pub(in crate::family) trait Block: Fn(usize, usize) -> [usize; 4] {}
impl<T: Fn(usize, usize) -> [usize; 4]> Block for T {}

/// `block` repeated, reordered and squeezed, for the family called `name`.
///
/// # Errors
/// For more stages than can be reordered in reasonable time.
pub(in crate::family) fn schedule(
    problem: &Problem,
    name: &'static str,
    block: impl Block,
) -> Result<Schedule, Fault> {
    let shape = super::check(problem, name, super::MAX_STAGES)?;
    Schedule::new(shape, Placement::Vee, generate(shape, block).orders(shape))
}

pub(super) fn v_min_block(p: usize, i: usize) -> [usize; 4] {
    let shift = if p.is_multiple_of(3) { 2 } else { 0 };
    [i, 2 * p - i - 1, 2 * p + shift + i, 4 * p + shift - i - 1]
}

pub(super) fn v_half_block(p: usize, i: usize) -> [usize; 4] {
    let shift = if p.is_multiple_of(2) { 3 } else { 0 };
    [2 * i, 3 * p - i - 2, 3 * p + shift + 2 * i - 1, 6 * p + shift - i - 2]
}

pub(super) fn generate(shape: Shape, block: impl Block) -> Grid {
    let make = |microbatches| Ok(make(shape.stages(), microbatches, &block));
    let made: Result<Grid, Infallible> =
        Grid::by_repetition(shape.stages(), shape.microbatches() as usize, make);
    made.unwrap_or_else(|never| match never {})
}

fn make(stages: usize, microbatches: usize, block: &impl Block) -> Grid {
    let starts: Vec<[usize; 4]> = (0..stages).map(|i| block(stages, i)).collect();
    let grid = Grid::repeat(&starts, Work::CHAIN, microbatches);
    let squeeze = |grid: Grid| {
        // Passes move only behind their inputs, so that there is always a squeezed grid.
        let mut grid = grid.squeeze().unwrap_or(grid);
        let weights = grid.rows.iter_mut().flatten();
        weights.filter(|cell| cell.is_some_and(Work::is_weight)).for_each(|cell| *cell = None);
        grid
    };
    let once = squeeze(reorder(grid, Weights::Placed));
    let twice = squeeze(reorder(once, Weights::Filling));
    let rows = twice.rows.iter().map(|row| fill_weights(row, Work::weight)).collect();
    Grid { rows, microbatches }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeating_the_steady_state_is_the_same_as_making_all_of_it() {
        type Block = fn(usize, usize) -> [usize; 4];
        for (stages, block) in (1..=24).flat_map(|p| [(p, v_min_block as Block), (p, v_half_block)])
        {
            let microbatches = 4 * stages + 8 + [1, 7, stages][stages % 3];
            let shape = Shape::new(stages as u64, 2, microbatches as u64).unwrap();
            let whole = make(stages, microbatches, &block);
            assert!(generate(shape, block).orders(shape) == whole.orders(shape), "p = {stages}");
        }
    }
}
