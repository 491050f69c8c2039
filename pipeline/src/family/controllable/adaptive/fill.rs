//! Empty cells are filled with later passes of the same stage.

use std::collections::VecDeque;

use super::super::grid::{Grid, NOWHERE, Row, Table};
use super::super::work::Work;

struct Fill<'a> {
    rows: &'a mut [Row],
    peak: i32,
    placed: Table<u32>,
    counts: Vec<[usize; 6]>,
    held: Vec<i32>,
    /// The cell of the next pass of each kind, [`NONE`] behind the last.
    next: Vec<[usize; 6]>,
}

/// No cell.
const NONE: usize = usize::MAX;

/// Goes through all cells, stage by stage in a cell. An empty one takes the next pass of some kind
/// whose input is there and that does not raise the peak, the nearest first.
pub(super) fn fill(grid: &mut Grid) {
    let (stages, width, peak) = (grid.rows.len(), grid.width(), grid.peak());
    grid.rows.iter_mut().for_each(|row| row.resize(width, None));
    let next = |row: &Row| Work::ALL.map(|work| next_of(row, work, 0));
    let mut fill = Fill {
        peak,
        placed: Table::new(stages, grid.microbatches, NOWHERE),
        counts: vec![[0; 6]; stages],
        held: vec![0; stages],
        next: grid.rows.iter().map(next).collect(),
        rows: &mut grid.rows,
    };
    for cell in 0..width {
        for stage in 0..stages {
            fill.pass_cell(stage, cell);
        }
    }
}

/// The first cell of `row` with `work`, from `from` on.
fn next_of(row: &Row, work: Work, from: usize) -> usize {
    row[from..].iter().position(|cell| *cell == Some(work)).map_or(NONE, |at| from + at)
}

impl Fill<'_> {
    fn pass_cell(&mut self, stage: usize, cell: usize) {
        let mut behind = cell;
        if self.rows[stage][cell].is_none() {
            let Some(from) = self.candidate(stage, cell) else { return };
            self.rows[stage].swap(cell, from);
            behind = from;
        }
        let Some(work) = self.rows[stage][cell] else { return };
        self.next[stage][work as usize] = next_of(&self.rows[stage], work, behind + 1);
        let count = &mut self.counts[stage][work as usize];
        self.placed.set((stage, work), *count, u32::try_from(cell).unwrap_or(NOWHERE));
        *count += 1;
        self.held[stage] += work.held();
    }

    /// The cell of the pass that may move to `cell`.
    fn candidate(&self, stage: usize, cell: usize) -> Option<usize> {
        let mut nearest = NONE;
        for work in Work::ALL {
            let at = self.next[stage][work as usize];
            if at < nearest
                && self.has_input(stage, cell, work)
                && (!work.is_forward() || self.has_room(stage, cell, at))
            {
                nearest = at;
            }
        }
        (nearest != NONE).then_some(nearest)
    }

    /// Whether one more chunk activation keeps to the peak from `cell` until cell `at`.
    fn has_room(&self, stage: usize, cell: usize, at: usize) -> bool {
        let mut held = self.held[stage];
        let between = self.rows[stage][cell + 1..at].iter().flatten();
        held < self.peak
            && between.map(|work| work.held()).all(|more| {
                held += more;
                held < self.peak
            })
    }

    fn has_input(&self, stage: usize, cell: usize, work: Work) -> bool {
        let number = self.counts[stage][work as usize];
        match work.source(stage, self.rows.len() - 1) {
            None => true,
            Some((at, source)) if at == stage => self.counts[stage][source as usize] > number,
            Some(source) => (self.placed.at(source, number) as usize) < cell,
        }
    }
}

/// Numbers the W passes in the order of their backwards; `None` if there are not as many of both.
pub(super) fn relabel(grid: &mut Grid) -> Option<()> {
    for row in &mut grid.rows {
        let mut waiting = VecDeque::new();
        for cell in row.iter_mut() {
            match *cell {
                Some(work) if work.is_backward() => waiting.push_back(work.weight()),
                Some(work) if work.is_weight() => *cell = Some(waiting.pop_front()?),
                _ => {}
            }
        }
        if !waiting.is_empty() {
            return None;
        }
    }
    Some(())
}
