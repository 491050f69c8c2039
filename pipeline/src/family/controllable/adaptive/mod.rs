//! The adaptive V: the best of all building blocks that fit into a memory limit.
//!
//! Source: Controllable Memory, section 3 and appendix A, by way of the authors'
//! `v_auto_schedule.py`. A block is the cells, modulo six, of the passes on stage 0 (the forward down
//! in cell 0, the other three anywhere), and by how much the way down moves on from one stage to the
//! next: 1 to 5 cells on the first stages, and as many or fewer on the others; the way up always
//! moves back by one. W passes go into the next free cells. Each block is repeated, squeezed,
//! rearranged in warm-up and cool-down, and timed with the costs given; the smallest span under the
//! limit is kept, the first among equals.
//!
//! Fewer than 2p microbatches are the first of 2p. Where no block fits, V-Min may. Two things are
//! not the published search: of more than 38 stages only some are tried for the change of pace,
//! and many microbatches are not all ordered for every block ([`Search::best`]).

mod fill;
mod shape;

use super::super::{About, Chunks, LimitUse};
use super::grid::{Grid, Pace, starts};
use super::work::Work;
use crate::costs::Footprint;
use crate::fault::Fault;
use crate::memory::Ledger;
use crate::order::Order;
use crate::problem::{Limit, Limits, Problem};
use crate::schedule::Schedule;
use crate::shape::Placement;
use crate::units::Bytes;

pub(in crate::family) const ABOUT: About = About {
    name: "v-adaptive",
    source: "Controllable Memory (Qi et al. 2024, arXiv 2405.15362); the authors' \
             v_auto_schedule.py",
    needs: "p at most 128, any m; optimizer without a barrier",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Shapes { default: Some(Limit::times_p(1)) },
    bubble: "at 1p: 0 where m >= 2p and F = B = W; grows as memory falls: about (6p-3k)/6 (F+B+W) at k \
             chunks",
    memory: "the limit",
    note: "spans and peaks equal those of the authors' code; the paper's figures were not available",
    ..About::PLAIN
};

/// The most stages.
const MAX_STAGES: usize = 128;
/// About how many passes the search orders.
const WORK: usize = 50_000_000;
/// About how many blocks there are with one turn, and how many more with each further one.
const BLOCKS: [usize; 2] = [230, 45];
/// How many of the best blocks are made with all microbatches, where the search was with fewer.
const FINALISTS: usize = 8;

pub(in crate::family) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = super::check(problem, ABOUT.name, MAX_STAGES)?;
    let limits = match problem.limits(Placement::Vee)? {
        Some(limits) => limits,
        None => Limits::new(shape, &[Bytes(u64::MAX)])?,
    };
    let search = Search { problem, limits };
    let grid = match search.best() {
        Some(grid) => grid,
        None => search.v_min()?,
    };
    Schedule::new(shape, Placement::Vee, grid.orders(shape))
}

/// Cells of the passes of a block modulo six, by stage, in the order of [`Work::ALL`].
type Block = Vec<[usize; 6]>;

struct Search<'a> {
    problem: &'a Problem,
    limits: Limits,
}

/// The outcome of trying a block.
enum Tried {
    Made(Grid, Pace),
    /// It takes more memory than there is.
    TooMuch,
    /// It cannot be rearranged.
    Failed,
}

impl Search<'_> {
    /// The fastest schedule that fits. Where there are more than 4p microbatches, and more than 64,
    /// the blocks are compared by what they take with 3p, or 48, and how that grows, and the best of
    /// them made whole.
    fn best(&self) -> Option<Grid> {
        let shape = self.problem.shape();
        let (stages, microbatches) = (shape.stages(), shape.microbatches() as usize);
        let is_long = microbatches > (4 * stages).max(64);
        let tried = if is_long { (3 * stages).max(48) } else { microbatches };
        let mut blocks = Vec::new();
        for pattern in patterns() {
            for (ahead, behind) in (1..=5).flat_map(|k| (1..=k).map(move |l| (k, l))) {
                let turns = if ahead == behind { vec![1] } else { turns(stages) };
                for turn in turns {
                    let Some(block) = block(pattern, [ahead, behind], turn, stages) else {
                        continue;
                    };
                    match self.grid(&block, tried) {
                        Tried::TooMuch => break,
                        Tried::Failed => {}
                        Tried::Made(_, Pace { span, third }) => {
                            let more = u128::from(third) * (microbatches - tried) as u128;
                            let estimate = u128::from(span) * (tried / 3).max(1) as u128 + more;
                            blocks.push((estimate, block));
                        }
                    }
                }
            }
        }
        blocks.sort_by_key(|&(estimate, _)| estimate);
        if tried == microbatches {
            blocks.truncate(1);
        }
        self.fastest(&blocks, microbatches)
    }

    /// The fastest of the first blocks that make a schedule that fits.
    fn fastest(&self, blocks: &[(u128, Block)], microbatches: usize) -> Option<Grid> {
        let stages = self.problem.shape().stages();
        let make = |block| {
            let make = |microbatches| match self.grid(block, microbatches) {
                Tried::Made(grid, _) => Ok(grid),
                tried => Err(tried),
            };
            let grid = Grid::by_repetition(stages, microbatches, make).ok()?;
            let span = grid.pace(self.problem.shape(), self.problem.costs())?.span;
            (self.over(&grid).is_none()).then_some((span, grid))
        };
        let passes = 6 * stages * microbatches;
        let made = blocks.iter().filter_map(|(_, block)| make(block));
        let finalists = made.take((WORK / passes).clamp(1, FINALISTS));
        finalists.min_by_key(|&(span, _)| span).map(|(_, grid)| grid)
    }

    /// The schedule of a block for the first `microbatches`.
    fn grid(&self, block: &Block, microbatches: usize) -> Tried {
        let stages = block.len();
        let padded = microbatches.max(2 * stages);
        let grid = Grid::repeat(&starts(block), Work::ALL, padded);
        let peak = grid.peak();
        if peak > 2 * i32::try_from(stages).unwrap_or(i32::MAX)
            || (padded == microbatches && self.least(peak) > self.highest())
        {
            return Tried::TooMuch;
        }
        let Some(grid) = self.rearranged(&grid, peak, microbatches) else { return Tried::Failed };
        if usize::try_from(grid.peak()).is_ok_and(|peak| peak > self.room())
            && self.over(&grid).is_some()
        {
            return Tried::TooMuch;
        }
        match grid.pace(self.problem.shape(), self.problem.costs()) {
            Some(pace) => Tried::Made(grid, pace),
            None => Tried::Failed,
        }
    }

    fn rearranged(&self, grid: &Grid, peak: i32, microbatches: usize) -> Option<Grid> {
        let stages = grid.rows.len();
        let mut grid = shape::warm_up(grid.squeeze()?)?.squeeze()?;
        let mut most = peak;
        if microbatches < grid.microbatches {
            let padded_peak = grid.peak();
            if padded_peak > most {
                return None;
            }
            grid = shape::shorten(grid, microbatches);
            if microbatches <= stages && 2 * microbatches <= self.room() {
                let roomy = padded_peak.min(2 * i32::try_from(stages).ok()?);
                grid = shape::delay_weights(grid, roomy);
            }
            grid = grid.squeeze()?;
            most = grid.peak();
        }
        grid = shape::cool_down(grid)?;
        fill::fill(&mut grid);
        fill::relabel(&mut grid)?;
        (grid.peak() <= most).then_some(grid)
    }

    fn footprints(&self) -> impl Iterator<Item = Footprint> {
        let footprints = self.problem.footprints();
        (0..self.problem.shape().chunks()).map(|chunk| footprints.of(chunk))
    }

    /// The least that `count` chunk activations take.
    fn least(&self, count: i32) -> Bytes {
        let least =
            self.footprints().map(|held| held.until_backward.0.min(held.until_weight.0)).min();
        Bytes(least.unwrap_or(0).saturating_mul(u64::try_from(count).unwrap_or(0)))
    }

    /// The limit of the stage that may hold most.
    fn highest(&self) -> Bytes {
        self.limits.by_stage().iter().copied().max().unwrap_or_default()
    }

    /// How many chunk activations fit on any stage at least.
    fn room(&self) -> usize {
        let lowest = self.limits.by_stage().iter().copied().min().unwrap_or_default();
        let most =
            self.footprints().map(|held| held.until_backward.0.max(held.until_weight.0)).max();
        usize::try_from(lowest.0 / most.unwrap_or(0).max(1)).unwrap_or(usize::MAX)
    }

    /// The first stage that needs more than the limit, with the pass that does and how much.
    fn over(&self, grid: &Grid) -> Option<Fault> {
        let footprints = self.problem.footprints();
        let orders = grid.orders(self.problem.shape());
        let over = |(stage, order): (usize, &Order)| {
            let mut ledger = Ledger::default();
            order.passes().iter().find_map(|&pass| {
                ledger.run(pass, footprints);
                let needs = ledger.peak;
                let (family, limit) = (ABOUT.name, self.limits.of(stage));
                let fault = Fault::Infeasible { family, stage, pass, needs, limit };
                (needs > limit).then_some(fault)
            })
        };
        orders.iter().enumerate().find_map(over)
    }

    fn v_min(&self) -> Result<Grid, Fault> {
        let grid = super::greedy::generate(self.problem.shape(), super::greedy::v_min_block);
        match self.over(&grid) {
            Some(fault) => Err(fault),
            None => Ok(grid),
        }
    }
}

/// The cells of stage 0 in the order of [`Work::CHAIN`]: all that begin with a forward down.
fn patterns() -> impl Iterator<Item = [usize; 4]> {
    let cells = || 1..6;
    let all =
        cells().flat_map(move |a| cells().flat_map(move |b| cells().map(move |c| [0, a, b, c])));
    all.filter(|[_, a, b, c]| a != b && a != c && b != c)
}

/// The stages at which the pace of the way down may change: all, or evenly spaced ones where trying
/// all takes too long.
fn turns(stages: usize) -> Vec<usize> {
    let all = stages.saturating_sub(1);
    let blocks = WORK / (18 * stages * stages);
    let count = (blocks.saturating_sub(BLOCKS[0]) / BLOCKS[1]).clamp(1, all.max(1)).min(all);
    (0..count).map(|i| 1 + i * all / count).collect()
}

/// The block that begins with `pattern` and whose way down moves on by `steps[0]` cells up to stage
/// `turn`, then by `steps[1]`; `None` if two passes fall into one cell.
fn block(pattern: [usize; 4], steps: [usize; 2], turn: usize, stages: usize) -> Option<Block> {
    let mut block = Block::with_capacity(stages);
    let mut cells = pattern;
    block.push(with_weights(cells)?);
    for stage in 1..stages {
        let step = if stage <= turn { steps[0] } else { steps[1] };
        for (cell, work) in cells.iter_mut().zip(Work::CHAIN) {
            *cell = (*cell + if work.descends() { step } else { 5 }) % 6;
        }
        block.push(with_weights(cells)?);
    }
    Some(block)
}

fn with_weights([f_down, f_up, b_up, b_down]: [usize; 4]) -> Option<[usize; 6]> {
    let mut taken = [false; 6];
    for cell in [f_down, f_up, b_up, b_down] {
        if std::mem::replace(&mut taken[cell], true) {
            return None;
        }
    }
    let mut weight = |backward: usize| {
        let cell = (backward..backward + 6).map(|cell| cell % 6).find(|&cell| !taken[cell])?;
        taken[cell] = true;
        Some(cell)
    };
    Some([f_down, f_up, b_up, b_down, weight(b_up)?, weight(b_down)?])
}
