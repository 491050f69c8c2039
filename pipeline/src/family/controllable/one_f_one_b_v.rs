//! 1F1B-V: the V without splitting the backward, in two thirds of the memory of 1F1B.
//!
//! Source: Controllable Memory, and the authors' `v1f1b.py`. A backward takes two cells:
//!
//! 1. Block: forwards in consecutive cells down the stages and up again; one cell of rest, and three
//!    more if 3 divides p; then backwards of two cells down and up, with three cells of rest after
//!    every third. The block is repeated every six cells.
//! 2. Cell by cell, in a cell stage by stage: a backward moves to the first two free cells behind its
//!    input and the backward before it, a forward as far towards its input as the peak memory of the
//!    repeated block allows.
//!
//! The published code counts every forward as one cell and every backward as two.

use super::super::{About, Chunks, LimitUse, Repeats};
use super::grid::{Grid, NOWHERE, Table, starts};
use super::work::Work;
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(in crate::family) const ABOUT: About = About {
    name: "1f1b-v",
    source: "Controllable Memory (Qi et al. 2024, arXiv 2405.15362); the authors' v1f1b.py",
    needs: "p at most 256, any m; the order is made for B + W = 2F",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Checked,
    whole_backwards: true,
    repeats: Repeats::Microbatch,
    bubble: "2/3 (p-1)(F+B+W) to 5/6 (p-1)(F+B+W) where m >= 2p and B+W = 2F",
    memory: "about 2/3 p M_B",
    note: "the order equals that of the authors' code; the paper's own figures were not available",
    ..About::PLAIN
};

pub(in crate::family) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = super::check(problem, ABOUT.name, super::MAX_STAGES)?;
    let starts = starts(&residues(shape.stages()));
    let make = |microbatches| Ok(early(Grid::repeat(&starts, Work::ALL, microbatches)));
    let grid: Result<Grid, Fault> =
        Grid::by_repetition(shape.stages(), shape.microbatches() as usize, make);
    let mut orders = Vec::with_capacity(shape.stages());
    for order in grid?.orders(shape) {
        let fused = |pass: &Pass| match pass.kind {
            Kind::W => None,
            Kind::B => Some(Pass { kind: Kind::BW, ..*pass }),
            _ => Some(*pass),
        };
        orders.push(order.passes().iter().filter_map(fused).collect::<Order>());
    }
    Schedule::new(shape, Placement::Vee, orders)
}

/// The cells of the block modulo six, by stage, in the order of [`Work::ALL`].
fn residues(stages: usize) -> Vec<[usize; 6]> {
    let mut block = vec![[0; 6]; stages];
    let mut now = 1;
    for (stage, cells) in block.iter_mut().enumerate() {
        cells[Work::FDown as usize] = (now + stage) % 6;
        cells[Work::FUp as usize] = (now + 2 * stages - 1 - stage) % 6;
    }
    now += 2 * stages + if stages.is_multiple_of(3) { 3 } else { 0 };
    // How many backwards since the last rest.
    let mut since = (1 + 2 * stages) % 3;
    let down = (0..stages).map(|stage| (stage, Work::BUp));
    let up = (0..stages).rev().map(|stage| (stage, Work::BDown));
    for (stage, work) in down.chain(up) {
        block[stage][work as usize] = now % 6;
        block[stage][work.weight() as usize] = (now + 1) % 6;
        since += 1;
        now += 2;
        if since == 3 {
            (since, now) = (0, now + 3);
        }
    }
    block
}

struct Early {
    grid: Grid,
    /// The most chunk activations of the repeated block.
    most: i32,
    /// Chunk activations after each cell passed, by stage.
    held: Vec<Vec<i32>>,
    placed: Table<u32>,
    counts: Vec<[usize; 6]>,
}

/// Moves every pass to an earlier cell if there is one.
fn early(mut grid: Grid) -> Grid {
    let (stages, width) = (grid.rows.len(), grid.width());
    grid.rows.iter_mut().for_each(|row| row.resize(width + 1, None));
    let mut early = Early {
        most: grid.peak(),
        held: vec![Vec::with_capacity(width); stages],
        placed: Table::new(stages, grid.microbatches, NOWHERE),
        counts: vec![[0; 6]; stages],
        grid,
    };
    for cell in 0..width {
        for stage in 0..stages {
            early.pass_cell(stage, cell);
        }
    }
    early.grid
}

impl Early {
    fn pass_cell(&mut self, stage: usize, cell: usize) {
        let held = &mut self.held[stage];
        held.push(held.last().copied().unwrap_or(0));
        let Some(work) = self.grid.rows[stage][cell] else { return };
        held[cell] += work.held();
        // A W goes where its backward goes.
        if work.is_weight() {
            return;
        }
        let number = self.counts[stage][work as usize];
        self.counts[stage][work as usize] += 1;
        let target = self.target(stage, cell, work, number);
        self.placed.set((stage, work), number, u32::try_from(target).unwrap_or(NOWHERE));
        if target == cell {
            return;
        }
        let (row, held) = (&mut self.grid.rows[stage], &mut self.held[stage]);
        row[cell] = None;
        row[target] = Some(work);
        held[target..cell].iter_mut().for_each(|held| *held += work.held());
        if work.is_backward() {
            row[cell + 1] = None;
            row[target + 1] = Some(work.weight());
            held[target + 1..].iter_mut().for_each(|held| *held -= 1);
        }
    }

    fn target(&self, stage: usize, cell: usize, work: Work, number: usize) -> usize {
        // Behind a backward comes its second cell.
        let behind = |(stage, work): (usize, Work), number: usize| {
            let at = self.placed.at((stage, work), number) as usize;
            at + if work.is_backward() { 2 } else { 1 }
        };
        let source = work.source(stage, self.grid.last());
        let source = source.map_or(0, |source| behind(source, number));
        let previous = number.checked_sub(1).map_or(0, |number| behind((stage, work), number));
        let mut from = source.max(previous);
        let row = &self.grid.rows[stage];
        if work.is_backward() {
            let mut cells = from..cell;
            return cells.find(|&at| row[at].is_none() && row[at + 1].is_none()).unwrap_or(cell);
        }
        let past = &self.held[stage][from.min(cell)..cell];
        from += past.iter().rposition(|&held| held >= self.most).map_or(0, |full| full + 1);
        (from..cell).find(|&at| row[at].is_none()).unwrap_or(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn repeating_the_steady_state_is_the_same_as_making_all_of_it() {
        for stages in 1..=24 {
            let microbatches = 4 * stages + 8 + [1, 7, stages][stages % 3];
            let shape = Shape::new(stages as u64, 2, microbatches as u64).unwrap();
            let starts = starts(&residues(stages));
            let make = |microbatches| early(Grid::repeat(&starts, Work::ALL, microbatches));
            let short = Grid::by_repetition(stages, microbatches, |few| Ok::<_, Fault>(make(few)));
            let [short, whole] = [short.unwrap(), make(microbatches)].map(|one| one.orders(shape));
            assert!(short == whole, "p = {stages}");
        }
    }
}
