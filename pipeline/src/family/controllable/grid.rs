//! Passes of two chunks per stage in a V on a grid: one row per stage, one cell per unit of time.
//!
//! The n-th pass of a kind in a row belongs to microbatch n, so a cell says only the kind.

use super::work::Work;
use crate::costs::Costs;
use crate::order::Order;
use crate::shape::Shape;

/// The cells of the first microbatch, from a block modulo six: each pass in the first cell behind
/// its input that the block allows, and each W in the first behind its backward.
pub(super) fn starts(residues: &[[usize; 6]]) -> Vec<[usize; 6]> {
    let next = |from: usize, residue: usize| from + (residue + 6 - from % 6) % 6;
    let mut starts = vec![[0; 6]; residues.len()];
    let mut cell = 6;
    for work in Work::CHAIN {
        for step in 0..residues.len() {
            let stage = if work.descends() { step } else { residues.len() - 1 - step };
            let start = next(cell, residues[stage][work as usize]);
            cell = start + 1;
            starts[stage][work as usize] = start;
            if work.is_backward() {
                let weight = work.weight() as usize;
                starts[stage][weight] = next(cell, residues[stage][weight]);
            }
        }
    }
    starts
}

/// A stage's cells.
pub(super) type Row = Vec<Option<Work>>;

/// Something about each pass of [`Work::CHAIN`], by stage and microbatch.
pub(super) struct Table<T> {
    columns: usize,
    cells: Vec<T>,
}

impl<T: Copy> Table<T> {
    pub(super) fn new(stages: usize, microbatches: usize, empty: T) -> Self {
        Self { columns: microbatches, cells: vec![empty; 4 * stages * microbatches] }
    }

    const fn index(&self, (stage, work): (usize, Work), microbatch: usize) -> usize {
        (4 * stage + work as usize) * self.columns + microbatch
    }

    pub(super) fn at(&self, which: (usize, Work), microbatch: usize) -> T {
        self.cells[self.index(which, microbatch)]
    }

    /// W passes are not kept: no pass waits for them.
    pub(super) fn set(&mut self, which: (usize, Work), microbatch: usize, to: T) {
        if !which.1.is_weight() {
            let index = self.index(which, microbatch);
            self.cells[index] = to;
        }
    }
}

/// Rows for all stages.
#[derive(Clone)]
pub(super) struct Grid {
    pub(super) rows: Vec<Row>,
    pub(super) microbatches: usize,
}

/// Duration of a grid.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// The longest span of a stage.
    pub(super) span: u64,
    /// The duration on stage 0 of the middle third of the microbatches, rounded down.
    pub(super) third: u64,
}

/// Not yet done.
pub(super) const NEVER: u64 = u64::MAX;

/// Not yet placed.
pub(super) const NOWHERE: u32 = u32::MAX;

impl Grid {
    /// One microbatch at the cells `starts` of each stage, repeated every six cells.
    pub(super) fn repeat<const N: usize>(
        starts: &[[usize; N]],
        works: [Work; N],
        microbatches: usize,
    ) -> Self {
        let row = |starts: &[usize; N]| {
            let first = starts.iter().copied().max().unwrap_or(0);
            let mut row = vec![None; first + 6 * (microbatches - 1) + 1];
            for (&start, work) in starts.iter().zip(works) {
                row[start..].iter_mut().step_by(6).take(microbatches).for_each(|cell| {
                    *cell = Some(work);
                });
            }
            row
        };
        Self { rows: starts.iter().map(row).collect(), microbatches }
    }

    /// The orders that `make` gives for `microbatches`: for many of them by making few and
    /// repeating the steady state, where there is one of six cells on all stages.
    pub(super) fn by_repetition<E>(
        stages: usize,
        microbatches: usize,
        make: impl Fn(usize) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let few = 4 * stages + 8;
        if microbatches > few
            && let Some(grid) = make(few)?.lengthened(microbatches)
        {
            return Ok(grid);
        }
        make(microbatches)
    }

    /// The same with more microbatches, by repeating six cells in the middle.
    fn lengthened(&self, microbatches: usize) -> Option<Self> {
        let mut downs =
            self.rows[0].iter().enumerate().filter(|(_, cell)| **cell == Some(Work::FDown));
        let (middle, _) = downs.nth(self.microbatches / 2)?;
        let more = microbatches.checked_sub(self.microbatches)?;
        let row = |row: &Row| {
            let (period, next) = (row.get(middle..middle + 6)?, row.get(middle + 6..middle + 12)?);
            let all = Work::ALL.iter().all(|&work| period.contains(&Some(work)));
            if !all || period != next {
                return None;
            }
            let mut longer = Row::with_capacity(row.len() + 6 * more);
            longer.extend_from_slice(&row[..middle]);
            (0..more).for_each(|_| longer.extend_from_slice(period));
            longer.extend_from_slice(&row[middle..]);
            Some(longer)
        };
        let rows = self.rows.iter().map(row).collect::<Option<Vec<Row>>>()?;
        Some(Self { rows, microbatches })
    }

    pub(super) fn last(&self) -> usize {
        self.rows.len() - 1
    }

    pub(super) fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn work(&self, stage: usize, cell: usize) -> Option<Work> {
        self.rows[stage].get(cell).copied().flatten()
    }

    /// Calls `visit` with every pass, cell by cell; in a cell what descends goes from the first
    /// stage to the last and what ascends from the last to the first. Stops where `visit` fails.
    fn visit(&self, mut visit: impl FnMut(usize, Work) -> Option<()>) -> Option<()> {
        let mut ascending = Vec::with_capacity(self.rows.len());
        for cell in 0..self.width() {
            for stage in 0..self.rows.len() {
                match self.work(stage, cell) {
                    Some(work) if work.descends() => visit(stage, work)?,
                    Some(work) => ascending.push((stage, work)),
                    None => {}
                }
            }
            while let Some((stage, work)) = ascending.pop() {
                visit(stage, work)?;
            }
        }
        Some(())
    }

    /// Every pass as early as the order of its stage and its input allow, all taking one cell;
    /// `None` if a pass stands before its input.
    pub(super) fn squeeze(&self) -> Option<Self> {
        let (stages, last) = (self.rows.len(), self.last());
        let mut rows: Vec<Row> =
            self.rows.iter().map(|row| Vec::with_capacity(row.len())).collect();
        let mut placed = Table::new(stages, self.microbatches, NOWHERE);
        let mut counts = vec![[0usize; 6]; stages];
        self.visit(|stage, work| {
            let microbatch = counts[stage][work as usize];
            counts[stage][work as usize] += 1;
            let row = &mut rows[stage];
            let mut cell = row.len();
            if !work.is_weight() {
                if microbatch >= self.microbatches {
                    return None;
                }
                if let Some(source) = work.source(stage, last) {
                    let ready = Some(placed.at(source, microbatch)).filter(|&at| at != NOWHERE)?;
                    cell = cell.max(ready as usize + 1);
                }
                placed.set((stage, work), microbatch, u32::try_from(cell).ok()?);
            }
            row.resize(cell, None);
            row.push(Some(work));
            Some(())
        })?;
        Some(Self { rows, microbatches: self.microbatches })
    }

    /// The most chunk activations on any stage.
    pub(super) fn peak(&self) -> i32 {
        self.rows.iter().map(|row| peak(row)).max().unwrap_or(0)
    }

    /// Duration of the grid under `costs`; `None` if it is not a whole schedule whose passes
    /// stand behind their inputs.
    pub(super) fn pace(&self, shape: Shape, costs: &Costs) -> Option<Pace> {
        let (stages, last) = (self.rows.len(), self.last());
        let mut ends = Table::new(stages, self.microbatches, NEVER);
        let mut counts = vec![[0usize; 6]; stages];
        let mut clock = vec![(NEVER, 0u64); stages];
        let time = |stage| Work::ALL.map(|work| costs.of(work.pass(shape, stage, 0)).0);
        let times: Vec<[u64; 6]> = (0..stages).map(time).collect();
        // From the stage before, from the stage itself, and from the one behind.
        let hop = |from: usize, to: usize| costs.hops().between(from, to).0;
        let hops = |stage| [hop(usize::saturating_sub(stage, 1), stage), 0, hop(stage + 1, stage)];
        let hops: Vec<[u64; 3]> = (0..stages).map(hops).collect();
        for cell in 0..self.width() {
            for stage in 0..stages {
                let Some(work) = self.work(stage, cell) else { continue };
                let microbatch = counts[stage][work as usize];
                counts[stage][work as usize] += 1;
                if microbatch >= self.microbatches {
                    return None;
                }
                let (start, end) = &mut clock[stage];
                if let Some(source) = work.source(stage, last) {
                    let hop = hops[stage][source.0 + 1 - stage];
                    let made = Some(ends.at(source, microbatch)).filter(|&end| end != NEVER)?;
                    *end = (*end).max(made + hop);
                }
                *start = (*start).min(*end);
                *end += times[stage][work as usize];
                ends.set((stage, work), microbatch, *end);
            }
        }
        if counts.iter().flatten().any(|&count| count != self.microbatches) {
            return None;
        }
        let span = clock.iter().map(|&(start, end)| end - start).max().unwrap_or(0);
        let third = self.microbatches / 3;
        let done = |microbatch: usize| ends.at((0, Work::BDown), microbatch);
        Some(Pace { span, third: done(2 * third) - done(third) })
    }

    /// The order of every stage.
    pub(super) fn orders(&self, shape: Shape) -> Vec<Order> {
        let order = |(stage, row): (usize, &Row)| {
            let mut counts = [0u32; 6];
            let mut order = Order::with_capacity(6 * self.microbatches);
            for &work in row.iter().flatten() {
                order.push(work.pass(shape, stage, counts[work as usize]));
                counts[work as usize] += 1;
            }
            order
        };
        self.rows.iter().enumerate().map(order).collect()
    }
}

/// The most chunk activations along `row`.
pub(super) fn peak(row: &[Option<Work>]) -> i32 {
    let (mut held, mut peak) = (0, 0);
    for work in row.iter().flatten() {
        held += work.held();
        peak = peak.max(held);
    }
    peak
}
