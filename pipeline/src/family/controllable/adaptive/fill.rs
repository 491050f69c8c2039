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
    /// The last cell of each kind before anything moved.
    last: Vec<[usize; 6]>,
}

/// Goes through all cells, stage by stage in a cell. An empty one takes the next pass of some kind
/// whose input is there and that does not raise the peak, the nearest first.
pub(super) fn fill(grid: &mut Grid) {
    let (stages, width, peak) = (grid.rows.len(), grid.width(), grid.peak());
    grid.rows.iter_mut().for_each(|row| row.resize(width, None));
    let last = |row: &Row| {
        let mut last = [0; 6];
        let passes = row.iter().enumerate();
        passes.for_each(|(at, cell)| cell.iter().for_each(|work| last[*work as usize] = at));
        last
    };
    let mut fill = Fill {
        peak,
        placed: Table::new(stages, grid.microbatches, NOWHERE),
        counts: vec![[0; 6]; stages],
        held: vec![0; stages],
        last: grid.rows.iter().map(last).collect(),
        rows: &mut grid.rows,
    };
    for cell in 0..width {
        for stage in 0..stages {
            fill.pass_cell(stage, cell);
        }
    }
}

impl Fill<'_> {
    fn pass_cell(&mut self, stage: usize, cell: usize) {
        if self.rows[stage][cell].is_none() {
            let Some(from) = self.candidate(stage, cell) else { return };
            self.rows[stage].swap(cell, from);
        }
        let Some(work) = self.rows[stage][cell] else { return };
        let count = &mut self.counts[stage][work as usize];
        self.placed.set((stage, work), *count, u32::try_from(cell).unwrap_or(NOWHERE));
        *count += 1;
        self.held[stage] += work.held();
    }

    /// The cell of the pass that may move to `cell`.
    fn candidate(&self, stage: usize, cell: usize) -> Option<usize> {
        let last = &self.last[stage];
        let mut is_open = Work::ALL.map(|work| last[work as usize] > cell);
        let mut open = is_open.iter().filter(|&&open| open).count();
        let (mut held, mut most) = (self.held[stage], self.held[stage]);
        for (at, work) in self.rows[stage].iter().enumerate().skip(cell + 1) {
            if open == 0 {
                return None;
            }
            let Some(work) = *work else { continue };
            let before = most;
            held += work.held();
            most = most.max(held);
            if !std::mem::take(&mut is_open[work as usize]) {
                continue;
            }
            open -= 1;
            let fits = !work.is_forward() || before < self.peak;
            if fits && self.has_input(stage, cell, work) {
                return Some(at);
            }
        }
        None
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
