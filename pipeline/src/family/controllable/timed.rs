//! V-Min and V-Half in the order that suits the times given.
//!
//! Our own: the published orders are made for F = B = W, and every stage keeps to its order whatever
//! it has to wait for. Here a stage that is free does, of all passes whose input is there, the one
//! that stands first in the published order. Forwards keep their order among themselves and wait
//! where the stage holds as many chunk activations as it ever does in the published order: so memory
//! is never more, and no stages can wait for each other, since what stands first of all that is left
//! can always be done. The published order is kept where it is as fast, and for more than 20 million
//! passes, where the search for a better one takes long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::About;
use super::greedy::{self, Block};
use super::grid::{Grid, NEVER, Row, Table, peak};
use super::work::Work;
use crate::costs::{Costs, Hops};
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

/// The most passes that are reordered.
const MOST_PASSES: usize = 20_000_000;

pub(in crate::family) const ABOUT_MIN: About = About {
    name: "v-min-timed",
    source: "own: v-min with every stage free to run ahead of its order, for the times given",
    needs: "p at most 256, any m; optimizer without a barrier",
    uses_times: true,
    bubble: "that of v-min or less",
    memory: "that of v-min",
    note: "",
    ..greedy::ABOUT_MIN
};

pub(in crate::family) const ABOUT_HALF: About = About {
    name: "v-half-timed",
    source: "own: v-half with every stage free to run ahead of its order, for the times given",
    bubble: "that of v-half or less",
    memory: "that of v-half",
    ..ABOUT_MIN
};

pub(in crate::family) fn v_min(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_MIN.name, greedy::v_min_block)
}

pub(in crate::family) fn v_half(problem: &Problem) -> Result<Schedule, Fault> {
    schedule(problem, ABOUT_HALF.name, greedy::v_half_block)
}

fn schedule(problem: &Problem, name: &'static str, block: impl Block) -> Result<Schedule, Fault> {
    let shape = super::check(problem, name, super::MAX_STAGES)?;
    let published = greedy::generate(shape, block);
    let grid = match faster(&published, shape, problem.costs()) {
        Some(grid) => grid,
        None => published,
    };
    Schedule::new(shape, Placement::Vee, grid.orders(shape))
}

/// The same in another order, if that is faster.
fn faster(published: &Grid, shape: Shape, costs: &Costs) -> Option<Grid> {
    if 3 * shape.cells() > MOST_PASSES {
        return None;
    }
    let mut run = Run::new(published, shape, costs);
    run.all();
    let span = run.stages.iter().map(|stage| stage.free - stage.start).max()?;
    let rows = run.stages.into_iter().map(|stage| stage.row).collect();
    let is_faster = published.pace(shape, costs).is_some_and(|pace| span < pace.span);
    is_faster.then_some(Grid { rows, microbatches: published.microbatches })
}

/// A stage while its order grows. Times in nanoseconds.
struct Stage {
    /// Where each pass stands in the published order, by kind and microbatch.
    places: [Vec<u32>; 6],
    /// The forwards in the published order.
    forwards: Vec<Work>,
    times: [u64; 6],
    /// The most chunk activations it may hold.
    most: i32,
    counts: [usize; 6],
    held: i32,
    start: u64,
    free: u64,
    row: Row,
}

impl Stage {
    fn new(row: &Row, times: [u64; 6]) -> Self {
        let mut places: [Vec<u32>; 6] = Default::default();
        for (place, &work) in (0..).zip(row.iter().flatten()) {
            places[work as usize].push(place);
        }
        let works = row.iter().copied().flatten();
        Self {
            places,
            forwards: works.filter(|work| work.is_forward()).collect(),
            times,
            most: peak(row),
            counts: [0; 6],
            held: 0,
            start: NEVER,
            free: 0,
            row: Row::with_capacity(row.len()),
        }
    }

    /// Whether it may take the next forward of that kind.
    fn takes(&self, work: Work) -> bool {
        let next = self.counts[Work::FDown as usize] + self.counts[Work::FUp as usize];
        self.held < self.most && self.forwards.get(next) == Some(&work)
    }
}

struct Run {
    stages: Vec<Stage>,
    ends: Table<u64>,
    hops: Hops,
    /// When which stage may find something to do.
    calls: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Run {
    fn new(published: &Grid, shape: Shape, costs: &Costs) -> Self {
        let rows = published.rows.iter().enumerate();
        let stages = rows.map(|(stage, row)| {
            Stage::new(row, Work::ALL.map(|work| costs.of(work.pass(shape, stage, 0)).0))
        });
        Self {
            stages: stages.collect(),
            ends: Table::new(shape.stages(), published.microbatches, NEVER),
            hops: costs.hops().clone(),
            calls: BinaryHeap::from([Reverse((0, 0))]),
        }
    }

    fn all(&mut self) {
        while let Some(Reverse((now, stage))) = self.calls.pop() {
            if self.stages[stage].free <= now
                && let Some(work) = self.choice(stage, now)
            {
                self.run(stage, work, now);
            }
        }
    }

    /// Of all passes that can begin, the one that stands first in the published order.
    fn choice(&self, stage: usize, now: u64) -> Option<Work> {
        let here = &self.stages[stage];
        let ready = |work: &Work| {
            let number = here.counts[*work as usize];
            if number == here.places[*work as usize].len()
                || (work.is_forward() && !here.takes(*work))
            {
                return false;
            }
            match work.source(stage, self.stages.len() - 1) {
                None => true,
                Some((at, source)) if at == stage => here.counts[source as usize] > number,
                Some((at, source)) => {
                    let hop = self.hops.between(at, stage).0;
                    self.ends.at((at, source), number).saturating_add(hop) <= now
                }
            }
        };
        let place = |work: &Work| here.places[*work as usize][here.counts[*work as usize]];
        Work::ALL.into_iter().filter(ready).min_by_key(place)
    }

    fn run(&mut self, stage: usize, work: Work, now: u64) {
        let last = self.stages.len() - 1;
        let here = &mut self.stages[stage];
        let end = now + here.times[work as usize];
        self.ends.set((stage, work), here.counts[work as usize], end);
        here.counts[work as usize] += 1;
        here.held += work.held();
        here.start = here.start.min(now);
        here.free = end;
        here.row.push(Some(work));
        self.calls.push(Reverse((end, stage)));
        let next = if work.descends() { Some(stage + 1) } else { stage.checked_sub(1) };
        if let Some(next) = next.filter(|&next| next <= last && !work.is_weight()) {
            let hop = self.hops.between(stage, next).0;
            self.calls.push(Reverse((end + hop, next)));
        }
    }
}
