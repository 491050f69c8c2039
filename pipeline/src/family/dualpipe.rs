//! DualPipe and DualPipeV: microbatches from both ends, forwards beside backwards.
//!
//! Source: DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437), section 3.2.1; the orders are those of
//! the authors' code (deepseek-ai/DualPipe, `dualpipe.py` and `dualpipev.py`). DualPipe holds two
//! copies of the model, one in each direction; DualPipeV cuts it in half and lays it in a V, where
//! the way up is the other direction. Published bubble of PP stages: (PP/2-1)(F&B + B - 3W), there
//! with B the whole backward and F&B a forward beside one. Here a pair takes the sum of both, and B
//! leaves out W: (PP/2-1)(F+2B-W). Memory: PP+1 activations of a stage.
//!
//! On a stage at distance r from the end where its direction 0 begins, with h = PP/2 - 1 - r and n
//! microbatches in each direction:
//!
//! 1. 2h F0.
//! 2. r+1 times F0, F1.
//! 3. h times B1, its W, F1.
//! 4. n - PP + r + 1 times the pairs F0 B1 and F1 B0; where h = 0, the first F0 and B1 are apart.
//! 5. h times BW1, then the pair F1 B0.
//! 6. r+1 times B1, B0; W is put off from the middle on.
//! 7. h times the oldest W put off, then B0.
//! 8. The W that are left.
//!
//! Where nothing is said of W, it is done with B.

use std::collections::VecDeque;

use super::{About, Chunks};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Pass, Slot};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};

pub(super) const ABOUT: About = About {
    name: "dualpipe",
    source: "DualPipe (DeepSeek-V3, arXiv 2412.19437; order of deepseek-ai/DualPipe)",
    needs: "even p, even m >= 2p",
    placement: Placement::Mirrored,
    bubble: "(p/2-1)(F+max(B,W)-W) + max((p/2-1)F,(p/2-1)B-F) for all times; \
             or (p/2-1)(F+2B-W) where W <= F = B; \
             pairs take F+B+W; published: (p/2-1)(F&B+B-3W), B with W",
    memory: "(p+1) M_B, and two copies of the weights",
    note: "both directions meet on every stage: half of the microbatches go down, half go up",
    ..About::PLAIN
};

pub(super) const ABOUT_V: About = About {
    name: "dualpipe-v",
    source: "DualPipeV (order and formula of deepseek-ai/DualPipe)",
    needs: "any p, m >= 2p",
    chunks: Chunks::Exactly(2),
    placement: Placement::Vee,
    bubble: "((p-1)(F+max(B,W)-W) + max((p-1)F,(p-1)B-F))/2 for all times; \
             or (p-1)(F+2B-W)/2 where W <= F = B; \
             pairs take F+B+W; published: (p-1)(F&B+B-3W) of chunks, B with W",
    memory: "(2p+1)/2 M_B",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let (stages, microbatches) = (shape.stages(), shape.microbatches());
    let needs = |key, what| Err(Fault::Needs { family: ABOUT.name, key, what });
    if !stages.is_multiple_of(2) {
        return needs("stages", format!("an even number of stages, not {stages}"));
    }
    if !microbatches.is_multiple_of(2) || (microbatches as usize) < 2 * stages {
        let least = 2 * stages;
        let what = format!("an even number of microbatches from 2p = {least}, not {microbatches}");
        return needs("microbatches", what);
    }
    let half = microbatches / 2;
    let orders = (0..shape.chunks()).map(|stage| {
        let other = shape.chunks() - 1 - stage;
        let (near, far) = (stage.min(other), stage.max(other));
        // Direction 0 begins at the nearer end: it goes down in the first half of the stages.
        let begin = if stage == near { [0, half] } else { [half, 0] };
        let directions = [(near, begin[0]), (far, begin[1])].map(|(chunk, first)| Direction {
            chunk,
            forwards: first,
            backwards: first,
        });
        Rank::new(shape.chunks() / 2, near, half, directions).all()
    });
    Schedule::new(shape, Placement::Mirrored, orders.collect())
}

pub(super) fn schedule_v(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    check_v(shape, ABOUT_V.name)?;
    let orders = (0..shape.chunks() / 2).map(|stage| Rank::of_vee(shape, stage).all());
    Schedule::new(shape, Placement::Vee, orders.collect())
}

/// Whether there are microbatches enough for DualPipeV under the name `family`.
pub(super) fn check_v(shape: Shape, family: &'static str) -> Result<(), Fault> {
    let (stages, microbatches) = (shape.chunks() / 2, shape.microbatches());
    if microbatches >= 2 * u32::from(stages) {
        return Ok(());
    }
    let what = format!("at least 2p = {} microbatches, not {microbatches}", 2 * stages);
    Err(Fault::Needs { family, key: "microbatches", what })
}

/// The passes of a stage in one direction: its chunk, and the microbatches that are next.
struct Direction {
    chunk: u16,
    forwards: u32,
    backwards: u32,
}

/// A stage while its order grows.
pub(super) struct Rank {
    /// PP/2.
    half: u32,
    /// Distance from the end where direction 0 begins, r.
    distance: u32,
    /// The number of microbatches in each direction.
    microbatches: u32,
    directions: [Direction; 2],
    /// W passes put off, oldest first.
    put_off: VecDeque<Pass>,
    order: Order,
}

impl Rank {
    fn new(half: u16, distance: u16, microbatches: u32, directions: [Direction; 2]) -> Self {
        Self {
            half: half.into(),
            distance: distance.into(),
            microbatches,
            directions,
            put_off: VecDeque::new(),
            order: Order::with_capacity(5 * microbatches as usize),
        }
    }

    /// A stage of a V, whose directions are its chunk on the way down and that on the way up.
    pub(super) fn of_vee(shape: Shape, stage: u16) -> Self {
        let chunks = [stage, shape.chunks() - 1 - stage];
        let directions = chunks.map(|chunk| Direction { chunk, forwards: 0, backwards: 0 });
        Self::new(shape.chunks() / 2, stage, shape.microbatches(), directions)
    }

    /// Its order.
    pub(super) fn into_order(self) -> Order {
        self.order
    }

    pub(super) fn forward(&mut self, direction: usize) -> Pass {
        let Direction { chunk, forwards, .. } = &mut self.directions[direction];
        *forwards += 1;
        Pass::f(*chunk, *forwards - 1)
    }

    /// A backward with its W.
    pub(super) fn backward(&mut self, direction: usize) -> Pass {
        let Direction { chunk, backwards, .. } = &mut self.directions[direction];
        *backwards += 1;
        Pass::bw(*chunk, *backwards - 1)
    }

    /// A backward whose W is put off.
    pub(super) fn half_backward(&mut self, direction: usize) -> Pass {
        let Pass { chunk, microbatch, .. } = self.backward(direction);
        self.put_off.push_back(Pass::w(chunk, microbatch));
        Pass::b(chunk, microbatch)
    }

    pub(super) fn put(&mut self, slot: impl Into<Slot>) {
        self.order.push(slot);
    }

    fn put_pair(&mut self, forward: usize, backward: usize) {
        let pair = Slot::Pair(self.forward(forward), self.backward(backward));
        self.put(pair);
    }

    pub(super) fn put_weight(&mut self) {
        if let Some(weight) = self.put_off.pop_front() {
            self.put(weight);
        }
    }

    fn all(mut self) -> Order {
        let (inner, distance) = (self.half - 1 - self.distance, self.distance);
        self.warm_up(inner, distance + 1);
        self.main(inner == 0);
        for _ in 0..inner {
            let backward = self.backward(1);
            self.put(backward);
            self.put_pair(1, 0);
        }
        self.drain(inner, distance + 1);
        self.order
    }

    /// Steps 1 to 3.
    fn warm_up(&mut self, inner: u32, both: u32) {
        let forward = |rank: &mut Self, direction| {
            let pass = rank.forward(direction);
            rank.put(pass);
        };
        (0..2 * inner).for_each(|_| forward(self, 0));
        for _ in 0..both {
            forward(self, 0);
            forward(self, 1);
        }
        for _ in 0..inner {
            let backward = self.half_backward(1);
            self.put(backward);
            self.put_weight();
            forward(self, 1);
        }
    }

    /// Step 4.
    fn main(&mut self, begins_apart: bool) {
        for i in 0..self.microbatches + self.distance + 1 - 2 * self.half {
            if i == 0 && begins_apart {
                let (forward, backward) = (self.forward(0), self.backward(1));
                self.put(forward);
                self.put(backward);
            } else {
                self.put_pair(0, 1);
            }
            self.put_pair(1, 0);
        }
    }

    /// Steps 6 to 8. Of the 2(r+1) backwards of step 6 the last r+1 put W off.
    fn drain(&mut self, inner: u32, both: u32) {
        for i in 0..2 * both {
            let direction = if i % 2 == 0 { 1 } else { 0 };
            let is_late = i >= both;
            let backward =
                if is_late { self.half_backward(direction) } else { self.backward(direction) };
            self.put(backward);
        }
        for _ in 0..inner {
            self.put_weight();
            let backward = self.half_backward(0);
            self.put(backward);
        }
        while !self.put_off.is_empty() {
            self.put_weight();
        }
    }
}
