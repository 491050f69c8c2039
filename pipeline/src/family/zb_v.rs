//! ZB-V: two chunks per stage in a V, so that the stage that starts the model also ends it.
//!
//! Source: Zero Bubble (arXiv version), section 6, and the authors' `v_schedule.py`. No bubble
//! where F = B = W, in the memory of 1F1B. Built greedily, once for each choice of where a gap
//! shorter than W is filled, and again while knowing how much each stage could afford to wait pays
//! off; the order with the smallest span is kept, the first among equals.
//!
//! A stage works on a chunk on the way down (model chunks 0..p-1) and on one on the way up (p..2p-1):
//!
//! 1. Warm-up, until the first forward has come back up: forwards down while it is under way.
//! 2. Warm-up, until every stage has as many forwards as the one before it.
//! 3. Steady and drain, 2m times: a backward on every stage, then a forward on every stage. A gap
//!    before either is filled with waiting W, oldest first.
//! 4. The W passes that are left.

use std::collections::VecDeque;

use super::{About, Chunks, LimitUse};
use crate::costs::{Costs, Footprints};
use crate::fault::Fault;
use crate::memory::Ledger;
use crate::pass::{Kind, Pass};
use crate::problem::{Limit, Problem};
use crate::schedule::{Order, Schedule};
use crate::shape::{Placement, Shape};
use crate::units::Bytes;

pub(super) const ABOUT: About = About {
    name: "zb-v",
    source: "Zero Bubble (Qi et al. 2024, arXiv 2401.10241v1), section 6",
    needs: "any p, any m; optimizer without a barrier",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Shapes { default: Some(Limit::times_p(1)) },
    bubble: "0 where F = B = W",
    memory: "p M_B, or the limit",
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let limit = problem.limit(Placement::Vee)?.unwrap_or(Bytes(u64::MAX));
    let mut best: Option<Built> = None;
    for fill in FILLS {
        let built = build_repeatedly(problem, limit, fill)?;
        if best.as_ref().is_none_or(|best| built.span < best.span) {
            best = Some(built);
        }
    }
    let orders = best.map(|best| best.orders).unwrap_or_default();
    Schedule::new(problem.shape(), Placement::Vee, orders)
}

/// Whether a gap shorter than W, too long to wait, is filled before a forward, and before a
/// backward on the way up.
#[derive(Clone, Copy)]
struct Fill {
    forward: bool,
    backward: bool,
}

const FILLS: [Fill; 4] = [
    Fill { backward: true, forward: true },
    Fill { backward: true, forward: false },
    Fill { backward: false, forward: true },
    Fill { backward: false, forward: false },
];

struct Built {
    orders: Vec<Order>,
    idle: Vec<u64>,
    span: u64,
}

/// Builds, and builds again allowing each stage the wait it had before, while that helps.
fn build_repeatedly(problem: &Problem, limit: Bytes, fill: Fill) -> Result<Built, Fault> {
    let mut allowance = vec![0; problem.shape().stages()];
    let mut least_idle = u64::MAX;
    let mut best: Option<Built> = None;
    loop {
        let built = Build::new(problem, limit, fill, &allowance).all()?;
        let max_idle = built.idle.iter().copied().max().unwrap_or(0);
        let improved = max_idle < least_idle;
        least_idle = max_idle;
        allowance = built.idle.iter().map(|idle| max_idle - idle).collect();
        let kept = match best {
            Some(best) if best.span <= built.span => best,
            _ => built,
        };
        if !improved {
            return Ok(kept);
        }
        best = Some(kept);
    }
}

/// The way through the model: down the stages first, then up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Down,
    Up,
}
use Way::{Down, Up};

/// A stage while its order grows. Times in nanoseconds.
#[derive(Default)]
struct Stage {
    /// Forwards and backwards done, by way.
    forwards: [u32; 2],
    backwards: [u32; 2],
    /// W passes whose B is done, oldest first.
    waiting: VecDeque<Pass>,
    memory: Ledger,
    start: u64,
    end: u64,
    /// Time spent waiting since the first forward.
    idle: u64,
    order: Order,
}

impl Stage {
    fn done(&self, kind: Kind, way: Way) -> u32 {
        if kind == Kind::F { self.forwards[way as usize] } else { self.backwards[way as usize] }
    }

    fn all_forwards(&self) -> u32 {
        self.forwards.iter().sum()
    }
}

struct Build<'a> {
    stages: Vec<Stage>,
    shape: Shape,
    costs: &'a Costs,
    footprints: &'a Footprints,
    limit: Bytes,
    fill: Fill,
    /// How much longer than other stages each may wait.
    allowance: &'a [u64],
    /// The most any stage has waited so far.
    max_idle: u64,
    /// End of the pass that makes each value, by row and microbatch.
    made: Vec<u64>,
}

impl<'a> Build<'a> {
    fn new(problem: &'a Problem, limit: Bytes, fill: Fill, allowance: &'a [u64]) -> Self {
        let shape = problem.shape();
        let passes = 6 * shape.microbatches() as usize;
        let stage = |_| Stage { order: Order::with_capacity(passes), ..Stage::default() };
        Self {
            stages: (0..shape.stages()).map(stage).collect(),
            shape,
            costs: problem.costs(),
            footprints: problem.footprints(),
            limit,
            fill,
            allowance,
            max_idle: 0,
            made: vec![0; 2 * shape.cells()],
        }
    }

    fn all(mut self) -> Result<Built, Fault> {
        self.first_forward_round_trip()?;
        self.even_out_forwards()?;
        for _ in 0..2 * self.shape.microbatches() {
            self.backward_everywhere()?;
            self.forward_everywhere()?;
        }
        for stage in 0..self.stages.len() {
            while self.put_weight(stage) {}
        }
        let span = self.stages.iter().map(|stage| stage.end - stage.start).max().unwrap_or(0);
        let idle = self.stages.iter().map(|stage| stage.idle).collect();
        let orders = self.stages.into_iter().map(|stage| stage.order).collect();
        Ok(Built { orders, idle, span })
    }

    /// Phase 1. Stage 0 must keep room for what its successors will need, hence 2 + 2 i.
    fn first_forward_round_trip(&mut self) -> Result<(), Fault> {
        let last = self.stages.len() - 1;
        (0..=last).try_for_each(|i| self.put(i, Kind::F, Down))?;
        self.put(last, Kind::F, Up)?;
        for i in (0..last).rev() {
            let back = self.arrival(i, Kind::F, Up).unwrap_or(0);
            let [down, up] = [Down, Up].map(|way| self.chunk(i, way));
            let forward = self.costs.of(Pass::f(down, 0)).0;
            let unit = [down, up].map(|chunk| self.footprints.of(chunk).until_backward).into_iter();
            let room = unit.max().unwrap_or_default() * (2 + 2 * i as u64);
            while self.stages[i].memory.held + room <= self.limit
                && self.stages[i].end + forward <= back
                && self.has_left(i, Kind::F, Down)
            {
                (0..=i).try_for_each(|j| self.put(j, Kind::F, Down))?;
            }
            self.put(i, Kind::F, Up)?;
        }
        Ok(())
    }

    /// Phase 2.
    fn even_out_forwards(&mut self) -> Result<(), Fault> {
        let mut way = Down;
        for i in 1..self.stages.len() {
            while self.stages[i].all_forwards() < self.stages[i - 1].all_forwards() {
                for j in (i..self.stages.len()).rev() {
                    if self.has_left(j, Kind::F, way) {
                        self.put(j, Kind::F, way)?;
                    }
                }
                way = if way == Down { Up } else { Down };
            }
        }
        Ok(())
    }

    /// Phase 3, backwards: on the way down the model they travel up the stages, last stage first.
    fn backward_everywhere(&mut self) -> Result<(), Fault> {
        let ways: Vec<Way> = (0..self.stages.len()).map(|i| self.way_of_backward(i)).collect();
        let stages = 0..self.stages.len();
        for i in stages.clone().rev().filter(|&i| ways[i] == Down) {
            self.fill_gap(i, Kind::B, Down, true);
            self.put(i, Kind::B, Down)?;
        }
        for i in stages.filter(|&i| ways[i] == Up) {
            self.fill_gap(i, Kind::B, Up, self.fill.backward);
            self.put(i, Kind::B, Up)?;
        }
        Ok(())
    }

    fn way_of_backward(&self, i: usize) -> Way {
        let stage = &self.stages[i];
        let (down, up) = (stage.done(Kind::B, Down), stage.done(Kind::B, Up));
        if down >= up {
            return Up;
        }
        let exhausted = up >= self.shape.microbatches();
        if exhausted || self.is_ready(i, Kind::B, Down) { Down } else { Up }
    }

    /// Phase 3, forwards.
    fn forward_everywhere(&mut self) -> Result<(), Fault> {
        for i in 0..self.stages.len() {
            if let Some(way) = self.way_of_forward(i) {
                self.make_room(i, Kind::F, way)?;
                self.fill_gap(i, Kind::F, way, self.fill.forward);
                self.put(i, Kind::F, way)?;
            }
        }
        Ok(())
    }

    fn way_of_forward(&self, i: usize) -> Option<Way> {
        let stage = &self.stages[i];
        let (down, up) = (stage.done(Kind::F, Down), stage.done(Kind::F, Up));
        if up >= self.shape.microbatches() {
            return None;
        }
        if up >= down {
            return Some(Down);
        }
        if self.is_ready(i, Kind::F, Up) {
            return Some(Up);
        }
        (self.has_left(i, Kind::F, Down) && self.is_ready(i, Kind::F, Down)).then_some(Down)
    }

    fn chunk(&self, stage: usize, way: Way) -> u16 {
        let stage = u16::try_from(stage).unwrap_or(u16::MAX);
        if way == Down { stage } else { self.shape.chunks() - 1 - stage }
    }

    fn has_left(&self, stage: usize, kind: Kind, way: Way) -> bool {
        self.stages[stage].done(kind, way) < self.shape.microbatches()
    }

    /// The neighbour that hands `stage` the input of its next pass, unless it does so itself.
    fn source(&self, stage: usize, kind: Kind, way: Way) -> Option<usize> {
        let last = self.stages.len() - 1;
        match (kind, way) {
            (Kind::F, Down) | (Kind::B, Up) => stage.checked_sub(1),
            _ => (stage < last).then_some(stage + 1),
        }
    }

    /// Whether the neighbour has done its part for the next pass, if there is one.
    fn is_ready(&self, stage: usize, kind: Kind, way: Way) -> bool {
        let next = self.stages[stage].done(kind, way);
        self.source(stage, kind, way).is_none_or(|from| self.stages[from].done(kind, way) > next)
    }

    /// When the neighbour's part for the next pass arrives, if there is a neighbour.
    fn arrival(&self, stage: usize, kind: Kind, way: Way) -> Option<u64> {
        let from = self.source(stage, kind, way)?;
        let microbatch = self.stages[stage].done(kind, way);
        let theirs = Pass { kind, chunk: self.chunk(from, way), microbatch };
        let row = theirs.makes()?.row(self.shape.chunks());
        Some(self.made[self.cell(row, microbatch)] + self.costs.hop().0)
    }

    fn cell(&self, row: usize, microbatch: u32) -> usize {
        row * self.shape.microbatches() as usize + microbatch as usize
    }

    /// Runs waiting W passes while they end before the next pass can begin; then, if `fill`, one
    /// more if the gap is longer than this stage can afford to wait.
    fn fill_gap(&mut self, i: usize, kind: Kind, way: Way, fill: bool) {
        let Some(arrival) = self.arrival(i, kind, way) else { return };
        while let Some(&weight) = self.stages[i].waiting.front()
            && self.stages[i].end + self.costs.of(weight).0 <= arrival
        {
            self.put_weight(i);
        }
        let stage = &self.stages[i];
        let may_wait = self.max_idle.max(self.allowance[i]) - stage.idle;
        if fill && arrival > stage.end + may_wait {
            self.put_weight(i);
        }
    }

    /// Runs waiting W passes until the next pass fits into memory.
    fn make_room(&mut self, i: usize, kind: Kind, way: Way) -> Result<(), Fault> {
        while let Err(fault) = self.fits(i, self.next(i, kind, way)) {
            if !self.put_weight(i) {
                return Err(fault);
            }
        }
        Ok(())
    }

    fn next(&self, stage: usize, kind: Kind, way: Way) -> Pass {
        let microbatch = self.stages[stage].done(kind, way);
        Pass { kind, chunk: self.chunk(stage, way), microbatch }
    }

    fn fits(&self, stage: usize, pass: Pass) -> Result<Ledger, Fault> {
        let mut after = self.stages[stage].memory;
        after.peak = Bytes(0);
        after.run(pass, self.footprints);
        let (needs, limit) = (after.peak, self.limit);
        if needs <= limit {
            return Ok(after);
        }
        Err(Fault::Infeasible { family: ABOUT.name, stage, pass, needs, limit })
    }

    /// Runs the oldest waiting W, if there is one.
    fn put_weight(&mut self, i: usize) -> bool {
        let stage = &mut self.stages[i];
        let Some(weight) = stage.waiting.pop_front() else { return false };
        stage.memory.run(weight, self.footprints);
        stage.order.push(weight);
        stage.end += self.costs.of(weight).0;
        true
    }

    /// Runs the next pass of `kind` on `way` as soon as its input is there.
    fn put(&mut self, i: usize, kind: Kind, way: Way) -> Result<(), Fault> {
        if kind == Kind::B {
            self.make_room(i, kind, way)?;
        }
        let pass = self.next(i, kind, way);
        let memory = self.fits(i, pass)?;
        let arrival = self.arrival(i, kind, way).unwrap_or(0);
        let stage = &mut self.stages[i];
        let begin = stage.end.max(arrival);
        match stage.all_forwards() {
            0 => stage.start = begin,
            _ => stage.idle += begin - stage.end,
        }
        stage.memory = memory;
        stage.end = begin + self.costs.of(pass).0;
        stage.order.push(pass);
        let count = if kind == Kind::F { &mut stage.forwards } else { &mut stage.backwards };
        count[way as usize] += 1;
        if kind == Kind::B {
            stage.waiting.push_back(Pass { kind: Kind::W, ..pass });
        }
        self.max_idle = self.max_idle.max(stage.idle);
        if let Some(value) = pass.makes() {
            let end = self.stages[i].end;
            let cell = self.cell(value.row(self.shape.chunks()), pass.microbatch);
            self.made[cell] = end;
        }
        Ok(())
    }
}
