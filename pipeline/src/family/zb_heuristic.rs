//! The automatic Zero Bubble schedule: an order built greedily for the given times and memory.
//!
//! Source: Zero Bubble, section 3.1 and the authors' `auto_schedule.py`. Built once for every
//! combination of three flags; the order with the smallest span is kept, the first among equals.
//! At 1p it costs what ZB-H1 costs, at 2p about as little as ZB-H2 or less.
//!
//! 1. Warm-up: one forward everywhere, then as many more as memory allows and the first backward,
//!    still on its way, leaves time for; then the first backward, last stage first.
//! 2. Steady and drain, for each further microbatch: a forward where one is wanted, first stage
//!    first, then a backward, last stage first. A gap before either is filled with waiting W.
//! 3. The W passes that are left.

use super::{About, Chunks, LimitUse};
use crate::costs::{Footprint, PassTimes};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass};
use crate::problem::{Limit, Limits, Problem};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "zb-heuristic",
    limit: LimitUse::Shapes { default: None },
    bubble: "falls with memory",
    memory: "the limit",
    ..ABOUT_1P
};

pub(super) const ABOUT_1P: About = About {
    name: "zb-1p",
    source: "Zero Bubble (Qi et al. 2024, arXiv 2401.10241), section 3.1",
    needs: "any p, any m; optimizer without a barrier",
    chunks: Chunks::Exactly(1),
    placement: Placement::Looped,
    limit: LimitUse::Own(Limit::times_p(1)),
    bubble: "(p-1)(F+B-W), as zb-h1, where m >= 2p and W <= min(F,B)",
    memory: "p M_B",
    ..About::PLAIN
};

pub(super) const ABOUT_2P: About = About {
    name: "zb-2p",
    limit: LimitUse::Own(Limit::times_p(2)),
    bubble: "at most (p-1)(F+B-2W), as zb-h2, where m >= 2p and W <= min(F,B)",
    memory: "2p M_B",
    ..ABOUT_1P
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let limits = problem.limits(Placement::Looped)?;
    let mut best: Option<(u64, Vec<Vec<Kind>>)> = None;
    for flags in FLAGS {
        let mut build = Build::new(problem, limits.as_ref(), flags);
        build.all();
        let span = build.span();
        if best.as_ref().is_none_or(|(least, _)| span < *least) {
            best = Some((span, build.stages.into_iter().map(|stage| stage.order).collect()));
        }
    }
    let kinds = best.map(|(_, kinds)| kinds).unwrap_or_default();
    let orders = (0..shape.chunks()).zip(kinds).map(|(stage, kinds)| number(stage, &kinds));
    Schedule::new(shape, Placement::Looped, orders.collect())
}

/// Passes of one kind on one stage go in microbatch order, so their kinds say everything.
fn number(stage: u16, kinds: &[Kind]) -> Order {
    let mut next = [0u32; Kind::ALL.len()];
    let mut order = Order::with_capacity(kinds.len());
    for &kind in kinds {
        let microbatch = next[kind as usize];
        next[kind as usize] += 1;
        order.push(Pass { kind, chunk: stage, microbatch });
    }
    order
}

/// One way of building, in the order in which the ways are tried.
#[derive(Clone, Copy)]
struct Flags {
    /// In the warm-up, stop before a forward that would end after the first backward arrives,
    /// rather than start every forward that begins before.
    allow_bubble_before_first_b: bool,
    /// Hold a forward back while the next stage is well supplied.
    prioritize_b: bool,
    /// Fill a gap shorter than W also where the stage may still idle without harm.
    no_bubble_greedy: bool,
}

const FLAGS: [Flags; 8] = {
    let mut all =
        [Flags { allow_bubble_before_first_b: true, prioritize_b: true, no_bubble_greedy: true };
            8];
    let mut i = 0;
    while i < 8 {
        all[i].allow_bubble_before_first_b = i & 4 == 0;
        all[i].prioritize_b = i & 2 == 0;
        all[i].no_bubble_greedy = i & 1 == 0;
        i += 1;
    }
    all
};

/// A stage while its order grows. Times in nanoseconds, sizes in bytes.
struct Stage {
    times: PassTimes,
    footprint: Footprint,
    /// The most it may hold.
    limit: u64,
    forwards: u32,
    backwards: u32,
    weights: u32,
    held: u64,
    start: u64,
    end: u64,
    /// Time spent waiting since the first forward.
    idle: u64,
    order: Vec<Kind>,
}

struct Build {
    stages: Vec<Stage>,
    shape: Shape,
    /// By link: to stage 1, stage 2 and so on.
    hops: Vec<u64>,
    flags: Flags,
    /// The most any stage has waited so far.
    max_idle: u64,
    /// End of each forward and backward, by stage and microbatch.
    forward_end: Vec<u64>,
    backward_end: Vec<u64>,
}

impl Build {
    fn new(problem: &Problem, limits: Option<&Limits>, flags: Flags) -> Self {
        let shape = problem.shape();
        let stage = |(chunk, &times): (u16, &PassTimes)| Stage {
            times,
            footprint: problem.footprints().of(chunk),
            limit: limits.map_or(u64::MAX, |limits| limits.of(usize::from(chunk)).0),
            forwards: 0,
            backwards: 0,
            weights: 0,
            held: 0,
            start: 0,
            end: 0,
            idle: 0,
            order: Vec::with_capacity(3 * shape.microbatches() as usize),
        };
        let hops = problem.costs().hops();
        Self {
            stages: (0..).zip(problem.costs().chunks()).map(stage).collect(),
            shape,
            hops: (1..shape.stages()).map(|to| hops.between(to - 1, to).0).collect(),
            flags,
            max_idle: 0,
            forward_end: vec![0; shape.cells()],
            backward_end: vec![0; shape.cells()],
        }
    }

    fn last(&self) -> usize {
        self.stages.len() - 1
    }

    fn cell(&self, stage: usize, microbatch: u32) -> usize {
        stage * self.shape.microbatches() as usize + microbatch as usize
    }

    fn span(&self) -> u64 {
        self.stages.iter().map(|stage| stage.end - stage.start).max().unwrap_or(0)
    }

    fn all(&mut self) {
        self.warm_up();
        for _ in 1..self.shape.microbatches() {
            let wanted = self.wanted_forwards();
            for j in (0..self.stages.len()).filter(|&j| wanted[j]) {
                self.make_room(j, Kind::F);
                self.fill_gap(j, Kind::F);
                self.put(j, Kind::F);
            }
            for j in (0..self.stages.len()).rev() {
                self.make_room(j, Kind::B);
                self.fill_gap(j, Kind::B);
                if j == 0 && self.stages[0].forwards == self.shape.microbatches() {
                    self.put_waiting_weights(0);
                }
                self.put(j, Kind::B);
            }
        }
        (0..self.stages.len()).for_each(|j| self.put_waiting_weights(j));
    }

    /// Phase 1.
    fn warm_up(&mut self) {
        (0..self.stages.len()).for_each(|j| self.put(j, Kind::F));
        let mut more = self.forwards_before_first_backward();
        for j in 1..more.len() {
            // A stage that has taken all forwards need not stay behind its predecessor.
            while more[j] > 0
                && more[j] >= more[j - 1]
                && self.stages[j].forwards + more[j] < self.shape.microbatches()
            {
                more[j] -= 1;
            }
            more[j] = more[j].min(more[j - 1]);
        }
        for (j, &count) in more.iter().enumerate() {
            (0..count).for_each(|_| self.put(j, Kind::F));
        }
        (0..self.stages.len()).rev().for_each(|j| self.put(j, Kind::B));
    }

    /// How many forwards beyond the first fit on each stage, in memory (with the B that follows)
    /// and in time, before the gradient of microbatch 0 arrives.
    fn forwards_before_first_backward(&self) -> Vec<u32> {
        let mut more = vec![0u32; self.stages.len()];
        let last = &self.stages[self.last()];
        let mut arrival = last.end + last.times.backward_input.0;
        for j in (0..self.last()).rev() {
            arrival += self.hops[j];
            let stage = &self.stages[j];
            let forward = stage.times.forward.0;
            let Footprint { until_backward, until_weight } = stage.footprint;
            let growth = until_weight.0.saturating_sub(until_backward.0);
            let (mut end, mut held) = (stage.end, stage.held);
            while stage.forwards + more[j] < self.shape.microbatches() {
                held += until_backward.0;
                let late = match self.flags.allow_bubble_before_first_b {
                    true => end + forward > arrival,
                    false => end >= arrival,
                };
                if held + growth > stage.limit || late {
                    break;
                }
                end += forward;
                more[j] += 1;
            }
            arrival = end.max(arrival) + stage.times.backward_input.0;
        }
        more
    }

    /// Which stages do a forward next: one that does not holds up all before it.
    fn wanted_forwards(&self) -> Vec<bool> {
        let mut wanted: Vec<bool> = (0..self.stages.len()).map(|j| self.wants_forward(j)).collect();
        for j in (0..self.last()).rev() {
            wanted[j] &= wanted[j + 1];
        }
        wanted
    }

    fn wants_forward(&self, j: usize) -> bool {
        let stage = &self.stages[j];
        if stage.forwards >= self.shape.microbatches() {
            return false;
        }
        let Some(next) = self.stages.get(j + 1).filter(|_| self.flags.prioritize_b) else {
            return true;
        };
        if stage.forwards < next.forwards + 2 {
            return true;
        }
        let next_done =
            next.end + next.times.forward.0 + next.times.backward_input.0 + self.hops[j];
        if stage.end >= next_done {
            return false;
        }
        let with_room = stage.end + stage.times.forward.0 + self.weights_for_room(stage);
        with_room <= next_done || next_done - stage.end > self.max_idle - stage.idle
    }

    /// The time of the W passes that must run before another forward fits into memory.
    fn weights_for_room(&self, stage: &Stage) -> u64 {
        let mut held = stage.held + stage.footprint.until_backward.0;
        let mut weights = 0;
        while held > stage.limit && stage.weights + weights < stage.backwards {
            held -= stage.footprint.until_weight.0;
            weights += 1;
        }
        u64::from(weights) * stage.times.backward_weight.0
    }

    /// Runs waiting W passes until a pass of `kind` fits into memory. It will: a stage never has
    /// more microbatches between F and B than the warm-up found room for.
    fn make_room(&mut self, j: usize, kind: Kind) {
        while self.held_after(j, kind) > self.stages[j].limit && self.has_waiting_weights(j) {
            self.put(j, Kind::W);
        }
    }

    /// Runs waiting W passes until the input of the next pass of `kind` arrives; the last may end
    /// later, unless the stage can afford to wait and the flags prefer that.
    fn fill_gap(&mut self, j: usize, kind: Kind) {
        let Some(arrival) = self.arrival(j, kind) else { return };
        let weight = self.stages[j].times.backward_weight.0;
        while self.has_waiting_weights(j) && self.stages[j].end + weight <= arrival {
            self.put(j, Kind::W);
        }
        let stage = &self.stages[j];
        if !self.has_waiting_weights(j) || stage.end >= arrival {
            return;
        }
        if self.flags.no_bubble_greedy || arrival - stage.end > self.max_idle - stage.idle {
            self.put(j, Kind::W);
        }
    }

    fn has_waiting_weights(&self, j: usize) -> bool {
        self.stages[j].weights < self.stages[j].backwards
    }

    fn put_waiting_weights(&mut self, j: usize) {
        while self.has_waiting_weights(j) {
            self.put(j, Kind::W);
        }
    }

    /// When the input of the next pass of `kind` arrives from the neighbour, if it has one.
    fn arrival(&self, j: usize, kind: Kind) -> Option<u64> {
        let stage = &self.stages[j];
        match kind {
            Kind::F if j > 0 => {
                Some(self.forward_end[self.cell(j - 1, stage.forwards)] + self.hops[j - 1])
            }
            Kind::B if j < self.last() => {
                Some(self.backward_end[self.cell(j + 1, stage.backwards)] + self.hops[j])
            }
            _ => None,
        }
    }

    fn held_after(&self, j: usize, kind: Kind) -> u64 {
        let Stage { held, footprint, .. } = &self.stages[j];
        match kind {
            Kind::F => held + footprint.until_backward.0,
            Kind::B | Kind::BW => held + footprint.until_weight.0 - footprint.until_backward.0,
            Kind::W => held - footprint.until_weight.0,
            Kind::S | Kind::T | Kind::R => *held,
        }
    }

    /// Runs the next pass of `kind` on stage `j`, as soon as its input is there.
    fn put(&mut self, j: usize, kind: Kind) {
        let held = self.held_after(j, kind);
        let arrival = self.arrival(j, kind);
        let (forwards, backwards) = (self.stages[j].forwards, self.stages[j].backwards);
        let (forward_cell, backward_cell) = (self.cell(j, forwards), self.cell(j, backwards));
        let stage = &mut self.stages[j];
        let begin = stage.end.max(arrival.unwrap_or(0));
        match forwards {
            0 => stage.start = begin,
            _ => stage.idle += begin - stage.end,
        }
        stage.held = held;
        stage.order.push(kind);
        match kind {
            Kind::F => {
                stage.end = begin + stage.times.forward.0;
                stage.forwards += 1;
                self.forward_end[forward_cell] = stage.end;
            }
            Kind::B | Kind::BW => {
                stage.end = begin + stage.times.backward_input.0;
                stage.backwards += 1;
                self.backward_end[backward_cell] = stage.end;
            }
            Kind::W => {
                stage.end = begin + stage.times.backward_weight.0;
                stage.weights += 1;
            }
            Kind::S | Kind::T | Kind::R => {}
        }
        self.max_idle = self.max_idle.max(stage.idle);
    }
}
