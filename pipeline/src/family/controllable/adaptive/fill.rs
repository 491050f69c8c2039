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
    /// The cells of each kind before anything moved. The next one of a kind is where its next pass is: what
    /// moved was the next of its kind.
    cells: Vec<[Vec<u32>; 6]>,
}

/// Goes through all cells, stage by stage in a cell. An empty one takes the next pass of some kind
/// whose input is there and that does not raise the peak, the nearest first.
pub(super) fn fill(grid: &mut Grid) {
    let (stages, width, peak) = (grid.rows.len(), grid.width(), grid.peak());
    grid.rows.iter_mut().for_each(|row| row.resize(width, None));
    let cells = |row: &Row| {
        let mut cells: [Vec<u32>; 6] =
            std::array::from_fn(|_| Vec::with_capacity(grid.microbatches));
        for (at, work) in (0..).zip(row) {
            work.iter().for_each(|work| cells[*work as usize].push(at));
        }
        cells
    };
    let mut fill = Fill {
        peak,
        placed: Table::new(stages, grid.microbatches, NOWHERE),
        counts: vec![[0; 6]; stages],
        held: vec![0; stages],
        cells: grid.rows.iter().map(cells).collect(),
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
        let mut nearest: Option<(u32, Work)> = None;
        let (cells, counts) = (&self.cells[stage], &self.counts[stage]);
        for work in Work::ALL {
            let Some(&at) = cells[work as usize].get(counts[work as usize]) else { continue };
            let is_near = nearest.is_none_or(|(nearest, _)| at < nearest);
            if is_near
                && self.has_input(stage, cell, work)
                && self.has_room(stage, cell, (work, at))
            {
                nearest = Some((at, work));
            }
        }
        nearest.map(|(at, _)| at as usize)
    }

    /// Whether the pass at cell `at` may move to `cell`: a forward as long as no pass before it brings its stage to
    /// the peak.
    fn has_room(&self, stage: usize, cell: usize, (work, at): (Work, u32)) -> bool {
        if !work.is_forward() {
            return true;
        }
        let mut held = self.held[stage];
        let between = self.rows[stage][cell + 1..at as usize].iter().flatten();
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
