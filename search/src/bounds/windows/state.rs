//! Start-time windows of passes, and the precedence known between the passes of a stage.

use std::cmp::Ordering;

use super::passes::{AGAIN, NEVER, Passes};

/// Infeasible windows: no order satisfies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Empty;

/// The window of every pass, and the passes that run before it on its stage.
///
/// The passes of a lane run in order. So those of a lane that run before some pass are its first ones, and a
/// count for each lane of the stage says which.
#[derive(Clone)]
pub(super) struct Windows {
    /// Number of microbatches that the windows cover.
    pub(super) microbatches: usize,
    /// By lane and microbatch, the earliest start of the pass (head).
    pub(super) heads: Vec<i64>,
    /// By lane and microbatch, the latest start of the pass.
    pub(super) lasts: Vec<i64>,
    /// By pass and lane of its stage, how many of the lane run before the pass.
    pub(super) before: Vec<u32>,
}

impl Windows {
    /// Windows and precedence that hold in every order of the first `microbatches`, without a cost limit.
    pub(super) fn of(passes: &Passes, microbatches: usize) -> Self {
        let count = passes.lanes.len() * microbatches;
        let mut windows = Self {
            microbatches,
            heads: vec![0; count],
            lasts: vec![NEVER; count],
            before: vec![0; count * passes.width],
        };
        for lane in 0..passes.lanes.len() {
            for microbatch in 0..microbatches {
                windows.give(passes, lane, microbatch);
            }
        }
        windows
    }

    /// Notes what runs before a pass in every order.
    fn give(&mut self, passes: &Passes, lane: usize, microbatch: usize) {
        let [own, kind] = [lane % passes.width, lane % passes.kinds];
        let (k, all) = (microbatch, microbatch + 1);
        let row = self.row(passes, lane, microbatch);
        let counts = row.chunks_exact_mut(passes.kinds).enumerate();
        for (chunk, counts) in counts {
            let count = match (kind, chunk.cmp(&(own / passes.kinds))) {
                (_, Ordering::Less) => [all, 0, 0, 0],
                (0, Ordering::Equal) => [k, 0, 0, 0],
                (0 | AGAIN, Ordering::Greater) => [0; 4],
                (AGAIN, Ordering::Equal) => [all, 0, 0, k],
                (1, Ordering::Equal) => [all, k, 0, all],
                (_, Ordering::Equal) => [all, all, k, all],
                (_, Ordering::Greater) => [all, all, 0, all],
            };
            for (to, count) in counts.iter_mut().zip(count) {
                *to = u32::try_from(count).unwrap_or(u32::MAX);
            }
        }
    }

    /// The place of a pass.
    pub(super) fn at(&self, lane: usize, microbatch: usize) -> usize {
        lane * self.microbatches + microbatch
    }

    /// The counts of what runs before a pass.
    pub(super) fn row(&mut self, passes: &Passes, lane: usize, microbatch: usize) -> &mut [u32] {
        let at = self.at(lane, microbatch) * passes.width;
        &mut self.before[at..at + passes.width]
    }

    /// Notes that `one` is before `other`, of the same stage, each given as lane and microbatch.
    pub(super) fn put_before(
        &mut self,
        passes: &Passes,
        one: (usize, usize),
        other: (usize, usize),
    ) {
        let count = u32::try_from(one.1 + 1).unwrap_or(u32::MAX);
        let known = &mut self.row(passes, other.0, other.1)[one.0 % passes.width];
        *known = (*known).max(count);
    }

    /// The windows of orders that cost `most` or less, from those that cost [`NEVER`] or less: all that follows
    /// from the cost alone moves with it.
    pub(super) fn within(mut self, passes: &Passes, most: i64) -> Self {
        for last in &mut self.lasts {
            *last -= NEVER - most;
        }
        self.begin(passes);
        self
    }

    /// The first F of every stage starts when it arrives: it is the first pass there, and of all stages before.
    pub(super) fn begin(&mut self, passes: &Passes) {
        for stage in 0..passes.stages() {
            let first = self.at(stage * passes.width, 0);
            self.lasts[first] = passes.begins[stage];
        }
    }

    /// The same for the first `microbatches` alone, with nothing that follows from a cost.
    pub(super) fn prefix(&self, passes: &Passes, microbatches: usize) -> Self {
        let lanes = 0..passes.lanes.len();
        let mut windows = Self {
            microbatches,
            heads: Vec::with_capacity(lanes.len() * microbatches),
            lasts: vec![NEVER; lanes.len() * microbatches],
            before: Vec::with_capacity(lanes.len() * microbatches * passes.width),
        };
        for lane in lanes {
            let [from, to] = [self.at(lane, 0), self.at(lane, 0) + microbatches];
            windows.heads.extend_from_slice(&self.heads[from..to]);
            let rows = from * passes.width..to * passes.width;
            windows.before.extend_from_slice(&self.before[rows]);
        }
        windows.begin(passes);
        windows
    }
}
