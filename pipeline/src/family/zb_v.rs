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
//!
//! Steps of the published code that have no effect are left out: a way to fill gaps that never
//! occurs, an allowance that changes no decision, and the rest of an order that is neither short
//! enough nor says how much to allow.

mod repetition;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{About, Chunks, LimitUse, Repeats};
use crate::costs::{Footprint, Hops, PassTimes};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::Kind;
use crate::problem::{Limit, Limits, Problem};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};
use crate::units::Bytes;

pub(super) use repetition::period;

pub(super) const ABOUT: About = About {
    name: "zb-v",
    source: "Zero Bubble (Qi et al. 2024, arXiv 2401.10241v1), section 6",
    needs: "any p, any m; optimizer without a barrier",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    limit: LimitUse::Shapes { default: Some(Limit::times_p(1)) },
    repeats: Repeats::AsBuilt,
    bubble: "0 where m >= 2p and F = B = W",
    memory: "p M_B, or the limit",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let limits = match problem.limits(Placement::Vee)? {
        Some(limits) => limits,
        None => Limits::new(problem.shape(), &[Bytes(u64::MAX)])?,
    };
    let search = Search { problem, limits: &limits, work: work(problem), best: None };
    let orders = search.all()?;
    Schedule::new(problem.shape(), Placement::Vee, orders)
}

/// The total work of each stage, in nanoseconds.
fn work(problem: &Problem) -> Vec<u64> {
    let shape = problem.shape();
    let sum = |chunk: u16| {
        let times = problem.costs().chunks()[usize::from(chunk)];
        (times.forward + times.backward_input + times.backward_weight).0
    };
    let both = |stage| Placement::Vee.chunks_of(shape, stage).map(sum).sum::<u64>();
    (0..shape.stages()).map(|stage| both(stage) * u64::from(shape.microbatches())).collect()
}

/// Whether a gap shorter than W, too long to wait, is filled before a forward, and before a
/// backward on the way up.
#[derive(Clone, Copy, Default)]
struct Fill {
    forward: bool,
    backward: bool,
}

impl Fill {
    /// Whether `other` has the same effect where only the questions `asked` arose.
    const fn is_like(self, other: Self, asked: Self) -> bool {
        (!asked.forward || self.forward == other.forward)
            && (!asked.backward || self.backward == other.backward)
    }

    const fn or(self, other: Self) -> Self {
        Self { forward: self.forward || other.forward, backward: self.backward || other.backward }
    }
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
    /// Which gaps came up that may be filled or not.
    asked: Fill,
    /// The allowances of each stage, from the first to below the second, that decide all the same.
    same: Vec<(u64, u64)>,
}

/// The order with the smallest span so far.
struct Search<'a> {
    problem: &'a Problem,
    limits: &'a Limits,
    /// The work of each stage, a lower bound on its span.
    work: Vec<u64>,
    best: Option<Built>,
}

impl Search<'_> {
    fn all(mut self) -> Result<Vec<Order>, Fault> {
        let least = self.work.iter().copied().max().unwrap_or(0);
        let mut tried: Vec<(Fill, Fill)> = Vec::new();
        for fill in FILLS {
            if tried.iter().any(|(known, asked)| known.is_like(fill, *asked)) {
                continue;
            }
            let asked = self.build_repeatedly(fill)?;
            if self.best_span() <= least {
                break;
            }
            tried.push((fill, asked));
        }
        Ok(self.best.map(|best| best.orders).unwrap_or_default())
    }

    fn best_span(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| best.span)
    }

    /// Builds, and builds again allowing each stage the wait it had before, while that helps. Which
    /// gaps came up.
    fn build_repeatedly(&mut self, fill: Fill) -> Result<Fill, Fault> {
        let mut allowance = vec![0; self.work.len()];
        let mut least_idle = u64::MAX;
        let mut asked = Fill::default();
        loop {
            let bar = Bar { idle: least_idle, span: self.best_span() };
            let build = Build::new(self.problem, self.limits, fill, &allowance, &self.work);
            let built = match build.all(bar)? {
                Ok(built) => built,
                Err(Hopeless { asked: more }) => return Ok(asked.or(more)),
            };
            asked = asked.or(built.asked);
            let max_idle = built.idle.iter().copied().max().unwrap_or(0);
            let improved = max_idle < least_idle;
            least_idle = max_idle;
            allowance = built.idle.iter().map(|idle| max_idle - idle).collect();
            let mut decided = allowance.iter().zip(&built.same);
            let is_same = decided.all(|(allowed, (from, below))| (from..below).contains(&allowed));
            if built.span < self.best_span() {
                self.best = Some(built);
            }
            if !improved || is_same {
                return Ok(asked);
            }
        }
    }
}

/// The idle time of the stage that waits most, and the span, that an order must stay below to be of
/// use.
#[derive(Clone, Copy)]
struct Bar {
    idle: u64,
    span: u64,
}

/// An order that was given up.
struct Hopeless {
    asked: Fill,
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
struct Stage {
    /// Its chunks, by way.
    chunks: [Chunk; 2],
    limit: Bytes,
    /// Forwards and backwards done, by way.
    forwards: [u32; 2],
    backwards: [u32; 2],
    /// W passes whose B is done, by way and microbatch, oldest first.
    waiting: VecDeque<(Way, u32)>,
    held: Bytes,
    /// The part of `held` that the waiting W passes free.
    held_by_waiting: Bytes,
    end: u64,
    /// Time spent waiting since the first forward.
    idle: u64,
    /// The allowances, from the first to below the second, that decide as this one did.
    same: (u64, u64),
    order: Order,
}

/// The times and the activations of a chunk.
#[derive(Clone, Copy)]
struct Chunk {
    at: u16,
    times: PassTimes,
    holds: Footprint,
}

impl Stage {
    fn new(problem: &Problem, limits: &Limits, stage: usize) -> Self {
        let shape = problem.shape();
        let down = u16::try_from(stage).unwrap_or(u16::MAX);
        let chunks = [down, shape.chunks() - 1 - down].map(|at| Chunk {
            at,
            times: problem.costs().chunks()[usize::from(at)],
            holds: problem.footprints().of(at),
        });
        Self {
            chunks,
            limit: limits.of(stage),
            forwards: [0; 2],
            backwards: [0; 2],
            waiting: VecDeque::new(),
            held: Bytes(0),
            held_by_waiting: Bytes(0),
            end: 0,
            idle: 0,
            same: (0, u64::MAX),
            order: Order::with_capacity(6 * shape.microbatches() as usize),
        }
    }

    fn chunk(&self, way: Way) -> Chunk {
        self.chunks[way as usize]
    }

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
    hops: &'a Hops,
    fill: Fill,
    /// How much longer than other stages each may wait.
    allowance: &'a [u64],
    /// The total work of each stage.
    work: &'a [u64],
    /// The most any stage has waited so far.
    max_idle: u64,
    /// The longest span so far: the sum of work and idle time of a stage.
    span: u64,
    /// Which gaps came up that may be filled or not.
    asked: Fill,
    /// The ways of the backwards of a round.
    ways: Vec<Way>,
    /// End of the pass that makes each value, by microbatch, kind, way and stage: what is asked for
    /// one after the other lies side by side.
    made: Vec<u64>,
}

impl<'a> Build<'a> {
    fn new(
        problem: &'a Problem,
        limits: &'a Limits,
        fill: Fill,
        allowance: &'a [u64],
        work: &'a [u64],
    ) -> Self {
        let shape = problem.shape();
        Self {
            stages: (0..shape.stages()).map(|stage| Stage::new(problem, limits, stage)).collect(),
            shape,
            hops: problem.costs().hops(),
            fill,
            allowance,
            work,
            max_idle: 0,
            span: work.iter().copied().max().unwrap_or(0),
            asked: Fill::default(),
            ways: Vec::new(),
            made: vec![0; shape.value_cells()],
        }
    }

    /// The whole order, unless it turns out to be of no use.
    fn all(mut self, bar: Bar) -> Result<Result<Built, Hopeless>, Fault> {
        self.first_forward_round_trip()?;
        self.even_out_forwards();
        while self.backward_everywhere() | self.forward_everywhere() {
            if self.max_idle >= bar.idle && self.span >= bar.span {
                return Ok(Err(Hopeless { asked: self.asked }));
            }
        }
        Ok(Ok(self.built()))
    }

    /// The order with the W passes that are left.
    fn built(mut self) -> Built {
        for stage in &mut self.stages {
            while stage.put_weight() {}
        }
        let idle = self.stages.iter().map(|stage| stage.idle).collect();
        let same = self.stages.iter().map(|stage| stage.same).collect();
        let orders = self.stages.into_iter().map(|stage| stage.order).collect();
        Built { orders, idle, span: self.span, asked: self.asked, same }
    }

    /// Phase 1. Stage i keeps room for what phase 2 gives to the stages behind it, hence 2 + 2 i.
    fn first_forward_round_trip(&mut self) -> Result<(), Fault> {
        let last = self.stages.len() - 1;
        for i in 0..=last {
            self.room_for(i, Down)?;
            self.put(i, Kind::F, Down);
        }
        self.put(last, Kind::F, Up);
        for i in (0..last).rev() {
            let back = self.arrival(i, Kind::F, Up).unwrap_or(0);
            let [down, up] = self.stages[i].chunks;
            let unit = down.holds.until_backward.max(up.holds.until_backward);
            let room = unit.0.saturating_mul(2 + 2 * i as u64);
            while self.stages[i].held.0.saturating_add(room) <= self.stages[i].limit.0
                && self.stages[i].end + down.times.forward.0 <= back
                && self.has_left(i, Kind::F, Down)
                && (0..=i).all(|j| self.room_for(j, Down).is_ok())
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
        let mut ways = std::mem::take(&mut self.ways);
        ways.clear();
        ways.extend((0..self.stages.len()).map(|i| self.way_of_backward(i)));
        let down = (0..self.stages.len()).rev().filter(|&i| ways[i] == Down);
        let up = (0..self.stages.len()).filter(|&i| ways[i] == Up);
        let mut any = false;
        for i in down.chain(up) {
            let ready = |way: &Way| self.is_ready(i, Kind::B, *way);
            let Some(way) = [ways[i], ways[i].other()].into_iter().find(ready) else { continue };
            let arrival = self.arrival(i, Kind::B, way);
            self.fill_gap(i, Kind::B, way, arrival);
            self.put_behind(i, Kind::B, way, arrival);
            any = true;
        }
        self.ways = ways;
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
            self.make_room(i, Kind::F, way);
            let arrival = self.arrival(i, Kind::F, way);
            self.fill_gap(i, Kind::F, way, arrival);
            self.put_behind(i, Kind::F, way, arrival);
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
