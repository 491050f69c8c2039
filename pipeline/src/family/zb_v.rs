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
//! 2. Warm-up, until every stage has as many forwards as the one before it, and more of them on the
//!    way up.
//! 3. Steady and drain, 2m times: a backward on every stage, then a forward on every stage. A gap
//!    before either is filled with waiting W, oldest first.
//! 4. The W passes that are left.
//!
//! The published procedure gives up where the input of a pass it has chosen is not made yet, or
//! memory is full. Here that pass waits for a later round, and a forward on the way down leaves
//! room for one on the way up: where M_W <= M_B, every shape ends under every limit that holds one
//! microbatch. In the published settings nothing waits, and the orders are the published ones.

mod steps;

use std::collections::VecDeque;

use super::{About, Chunks, LimitUse};
use crate::costs::{Costs, Footprints};
use crate::fault::Fault;
use crate::pass::{Kind, Pass};
use crate::problem::{Limit, Limits, Problem};
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
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let limits = match problem.limits(Placement::Vee)? {
        Some(limits) => limits,
        None => Limits::new(problem.shape(), &[Bytes(u64::MAX)])?,
    };
    let mut best: Option<Built> = None;
    for fill in FILLS {
        let built = build_repeatedly(problem, &limits, fill)?;
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
fn build_repeatedly(problem: &Problem, limits: &Limits, fill: Fill) -> Result<Built, Fault> {
    let mut allowance = vec![0; problem.shape().stages()];
    let mut least_idle = u64::MAX;
    let mut best: Option<Built> = None;
    loop {
        let built = Build::new(problem, limits, fill, &allowance).all()?;
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

impl Way {
    const fn other(self) -> Self {
        match self {
            Down => Up,
            Up => Down,
        }
    }
}

/// A stage while its order grows. Times in nanoseconds.
#[derive(Default)]
struct Stage {
    /// Forwards and backwards done, by way.
    forwards: [u32; 2],
    backwards: [u32; 2],
    /// W passes whose B is done, oldest first.
    waiting: VecDeque<Pass>,
    held: Bytes,
    /// The part of `held` that the waiting W passes free.
    held_by_waiting: Bytes,
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
    limits: &'a Limits,
    fill: Fill,
    /// How much longer than other stages each may wait.
    allowance: &'a [u64],
    /// The most any stage has waited so far.
    max_idle: u64,
    /// End of the pass that makes each value, by row and microbatch; [`NOT_MADE`] before.
    made: Vec<u64>,
}

const NOT_MADE: u64 = u64::MAX;

impl<'a> Build<'a> {
    fn new(problem: &'a Problem, limits: &'a Limits, fill: Fill, allowance: &'a [u64]) -> Self {
        let shape = problem.shape();
        let passes = 6 * shape.microbatches() as usize;
        let stage = |_| Stage { order: Order::with_capacity(passes), ..Stage::default() };
        Self {
            stages: (0..shape.stages()).map(stage).collect(),
            shape,
            costs: problem.costs(),
            footprints: problem.footprints(),
            limits,
            fill,
            allowance,
            max_idle: 0,
            made: vec![NOT_MADE; shape.value_cells()],
        }
    }

    fn all(mut self) -> Result<Built, Fault> {
        self.first_forward_round_trip()?;
        self.even_out_forwards();
        while self.backward_everywhere() | self.forward_everywhere() {}
        for stage in 0..self.stages.len() {
            while self.put_weight(stage) {}
        }
        let span = self.stages.iter().map(|stage| stage.end - stage.start).max().unwrap_or(0);
        let idle = self.stages.iter().map(|stage| stage.idle).collect();
        let orders = self.stages.into_iter().map(|stage| stage.order).collect();
        Ok(Built { orders, idle, span })
    }

    /// Phase 1. Stage i keeps room for what phase 2 gives to the stages behind it, hence 2 + 2 i.
    fn first_forward_round_trip(&mut self) -> Result<(), Fault> {
        let last = self.stages.len() - 1;
        for i in 0..=last {
            self.room_for(i, self.next(i, Kind::F, Down))?;
            self.put(i, Kind::F, Down);
        }
        self.put(last, Kind::F, Up);
        for i in (0..last).rev() {
            let back = self.arrival(i, Kind::F, Up).unwrap_or(0);
            let [down, up] = [Down, Up].map(|way| self.chunk(i, way));
            let forward = self.costs.of(Pass::f(down, 0)).0;
            let unit = self.until_backward(down).max(self.until_backward(up));
            let room = unit.0.saturating_mul(2 + 2 * i as u64);
            while self.stages[i].held.0.saturating_add(room) <= self.limits.of(i).0
                && self.stages[i].end + forward <= back
                && self.has_left(i, Kind::F, Down)
                && (0..=i).all(|j| self.room_for(j, self.next(j, Kind::F, Down)).is_ok())
            {
                (0..=i).for_each(|j| self.put(j, Kind::F, Down));
            }
            self.put(i, Kind::F, Up);
        }
        Ok(())
    }

    /// Phase 2. A stage must be ahead of the one before it on the way up, which waits for it.
    fn even_out_forwards(&mut self) {
        let mut way = Down;
        for i in 1..self.stages.len() {
            let mut in_vain = 0;
            while self.is_behind(i) && in_vain < 2 {
                in_vain += 1;
                for j in (i..self.stages.len()).rev() {
                    if self.can_forward(j, way) {
                        self.put(j, Kind::F, way);
                        in_vain = 0;
                    }
                }
                way = way.other();
            }
        }
    }

    fn is_behind(&self, i: usize) -> bool {
        let [before, here] = [&self.stages[i - 1], &self.stages[i]];
        let up = |stage: &Stage| stage.done(Kind::F, Up);
        here.all_forwards() < before.all_forwards()
            || (up(here) <= up(before) && up(before) < self.shape.microbatches())
    }

    /// Phase 3, backwards: on the way down the model they travel up the stages, last stage first.
    fn backward_everywhere(&mut self) -> bool {
        let ways: Vec<Way> = (0..self.stages.len()).map(|i| self.way_of_backward(i)).collect();
        let down = (0..self.stages.len()).rev().filter(|&i| ways[i] == Down);
        let up = (0..self.stages.len()).filter(|&i| ways[i] == Up);
        let mut any = false;
        for i in down.chain(up) {
            let ready = |way: &Way| self.is_ready(i, Kind::B, *way);
            let Some(way) = [ways[i], ways[i].other()].into_iter().find(ready) else { continue };
            self.fill_gap(i, Kind::B, way, way == Down || self.fill.backward);
            self.put(i, Kind::B, way);
            any = true;
        }
        any
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
    fn forward_everywhere(&mut self) -> bool {
        let mut any = false;
        for i in 0..self.stages.len() {
            let way = self.way_of_forward(i).filter(|&way| self.can_forward(i, way));
            let Some(way) = way else { continue };
            self.make_room(i, self.next(i, Kind::F, way));
            self.fill_gap(i, Kind::F, way, self.fill.forward);
            self.put(i, Kind::F, way);
            any = true;
        }
        any
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
        Some(Down)
    }
}
