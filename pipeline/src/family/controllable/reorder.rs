//! Reordering of warm-up and cool-down: every pass there moves to the first cell that its input and
//! the peak memory of the repeated block allow.
//!
//! Source: `zbv_greedy.py` of the authors, `reorder`. Passes are taken cell by cell, in a cell stage
//! by stage. Warm-up ends at the first pass that finishes a microbatch on stage 0, cool-down begins
//! behind the last forward of the way down on stage 0; between them nothing moves.

use super::grid::{Grid, NOWHERE, Row, Table};
use super::work::Work;

/// How W passes are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    /// W are passes of their own, which move too. The n-th W stands behind the n-th backward and the W before it.
    Placed,
    /// W fill empty cells while a backward waits for its W. Only the cool-down is reordered.
    Filling,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Steady,
    CoolDown,
}

/// The chunk activations after each cell passed, and what concerns W.
#[derive(Default)]
struct Past {
    held: Vec<i32>,
    /// Cells of all backwards, ascending.
    backwards: Vec<usize>,
    /// The first cell behind the last W placed.
    behind_weights: usize,
    /// Backwards whose W is not placed.
    waiting: usize,
    counts: [usize; 6],
}

struct Reorder {
    grid: Grid,
    weights: Weights,
    most: i32,
    placed: Table<u32>,
    pasts: Vec<Past>,
}

/// Reorders `grid` and fills the W passes in; they are all [`Work::WUp`] before and after.
pub(super) fn reorder(mut grid: Grid, weights: Weights) -> Grid {
    let filled = |row: &Row| fill_weights(row, |_| Work::WUp);
    let most = match weights {
        Weights::Placed => {
            grid.rows = grid.rows.iter().map(filled).collect();
            grid.peak()
        }
        Weights::Filling => {
            grid.rows.iter().map(|row| super::grid::peak(&filled(row))).max().unwrap_or(0)
        }
    };
    let (stages, width) = (grid.rows.len(), grid.width());
    let past = |row: &Row| Past { held: Vec::with_capacity(row.len()), ..Past::default() };
    let pasts = grid.rows.iter().map(past).collect();
    let placed = Table::new(stages, grid.microbatches, NOWHERE);
    let mut reorder = Reorder { grid, weights, most, placed, pasts };
    let mut phase = Phase::WarmUp;
    for cell in 0..width {
        for stage in 0..stages {
            reorder.pass_cell(stage, cell, &mut phase);
        }
    }
    reorder.finish()
}

impl Reorder {
    fn pass_cell(&mut self, stage: usize, cell: usize, phase: &mut Phase) {
        if cell >= self.grid.rows[stage].len() {
            return;
        }
        let before = self.pasts[stage].held.last().copied().unwrap_or(0);
        self.pasts[stage].held.push(before);
        let Some(work) = self.grid.rows[stage][cell] else { return self.fill(stage, cell) };
        let count = &mut self.pasts[stage].counts[work as usize];
        let number = *count;
        *count += 1;
        let may_move = match *phase {
            Phase::WarmUp if stage == 0 && work == Work::BDown => {
                *phase = Phase::Steady;
                false
            }
            Phase::Steady if work == Work::FDown && number + 1 == self.grid.microbatches => {
                *phase = Phase::CoolDown;
                false
            }
            Phase::Steady => false,
            Phase::WarmUp => self.weights == Weights::Placed,
            Phase::CoolDown => true,
        };
        let earliest = self.earliest(stage, work, number);
        let target = match self.weights {
            _ if !may_move => cell,
            Weights::Placed => self.target_among_placed(stage, cell, work, earliest),
            Weights::Filling => self.target_among_filling(stage, cell, work, earliest),
        };
        self.place(stage, cell, work, number, target);
    }

    /// The first cell behind what the pass waits for and behind the one before it of its kind.
    fn earliest(&self, stage: usize, work: Work, number: usize) -> usize {
        let behind = |at: u32| at as usize + 1;
        if work.is_weight() {
            let past = &self.pasts[stage];
            let behind = past.backwards.get(number).map_or(0, |&at| at + 1);
            return behind.max(past.behind_weights);
        }
        let source = work.source(stage, self.grid.last());
        let source = source.map_or(0, |source| behind(self.placed.at(source, number)));
        let previous = number.checked_sub(1);
        source.max(previous.map_or(0, |number| behind(self.placed.at((stage, work), number))))
    }

    /// The first free cell from `earliest` where a forward keeps all cells up to `cell` in bounds.
    fn target_among_placed(&self, stage: usize, cell: usize, work: Work, earliest: usize) -> usize {
        let mut from = earliest;
        if work.is_forward() {
            let held = &self.pasts[stage].held[earliest.min(cell)..cell];
            from += held.iter().rposition(|&held| held >= self.most).map_or(0, |full| full + 1);
        }
        let row = &self.grid.rows[stage];
        (from..cell).find(|&at| row[at].is_none()).unwrap_or(cell)
    }

    /// The same where W passes give way: one that does runs in the next empty cell, or later.
    fn target_among_filling(
        &self,
        stage: usize,
        cell: usize,
        work: Work,
        earliest: usize,
    ) -> usize {
        let (row, held) = (&self.grid.rows[stage], &self.pasts[stage].held);
        let mut target = earliest;
        while target < cell {
            let displaces = match row[target] {
                Some(Work::WUp) => true,
                None => false,
                Some(_) => {
                    target += 1;
                    continue;
                }
            };
            let (mut more, mut delayed) = (work.held(), displaces);
            more += i32::from(displaces);
            let full = (target..cell).find(|&at| {
                if delayed && row[at].is_none() {
                    (more, delayed) = (more - 1, false);
                }
                held[at] + more > self.most && more > 0
            });
            match full {
                None => return target,
                Some(full) => target = full + 1,
            }
        }
        cell
    }

    fn place(&mut self, stage: usize, cell: usize, work: Work, number: usize, target: usize) {
        let row = &mut self.grid.rows[stage];
        let past = &mut self.pasts[stage];
        let displaced = target < cell && row[target].is_some();
        row[cell] = None;
        row[target] = Some(work);
        let more = work.held() + i32::from(displaced);
        if more != 0 {
            past.held[target..=cell].iter_mut().for_each(|held| *held += more);
        }
        if work.is_backward() {
            let at = past.backwards.partition_point(|&at| at < target);
            past.backwards.insert(at, target);
        }
        if work.is_weight() {
            past.behind_weights = target + 1;
        }
        let at = u32::try_from(target).unwrap_or(NOWHERE);
        self.placed.set((stage, work), number, at);
        if self.weights == Weights::Filling {
            // Of the W passes that wait at `cell`, only these wait in the cells before it.
            let mut more = usize::from(displaced) + usize::from(work.is_backward());
            past.waiting += more;
            let mut free = target;
            while more > 0 && free + 1 < cell {
                free += 1;
                if self.grid.rows[stage][free].is_none() {
                    self.fill(stage, free);
                    more -= 1;
                }
            }
            self.fill(stage, cell);
        }
    }

    /// Runs a waiting W in the cell if that is empty and W passes fill cells.
    fn fill(&mut self, stage: usize, cell: usize) {
        let (row, past) = (&mut self.grid.rows[stage], &mut self.pasts[stage]);
        if self.weights == Weights::Filling && past.waiting > 0 && row[cell].is_none() {
            row[cell] = Some(Work::WUp);
            past.waiting -= 1;
            past.held[cell..].iter_mut().for_each(|held| *held -= 1);
        }
    }

    fn finish(mut self) -> Grid {
        for (row, past) in self.grid.rows.iter_mut().zip(self.pasts) {
            row.extend(std::iter::repeat_n(Some(Work::WUp), past.waiting));
        }
        self.grid
    }
}

/// Puts the W of every backward into the next free cells, those of the way up first; `weight` maps a backward to its
/// W.
pub(super) fn fill_weights(row: &Row, weight: impl Fn(Work) -> Work) -> Row {
    let mut filled = Row::with_capacity(row.len());
    let mut waiting = [0usize; 2];
    let up = |work: Work| usize::from(work != Work::WUp);
    let names = [weight(Work::BUp), weight(Work::BDown)];
    let backwards = row.iter().flatten().filter(|work| work.is_backward()).count();
    let mut cells = row.iter().copied().chain(std::iter::repeat(None));
    let mut placed = 0;
    while placed < backwards || filled.len() < row.len() {
        let mut cell = cells.next().flatten();
        match cell {
            Some(work) if work.is_backward() => waiting[up(weight(work))] += 1,
            Some(_) => {}
            None => {
                if let Some(next) = waiting.iter().position(|&count| count > 0) {
                    waiting[next] -= 1;
                    placed += 1;
                    cell = Some(names[next]);
                }
            }
        }
        filled.push(cell);
    }
    filled
}
