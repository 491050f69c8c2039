//! Memory headroom for a pass that allocates at its start, F or R: the counts of passes that have ended on its stage by
//! then.
//!
//! When F of microbatch k of a chunk starts, k + 1 of its F have started and some number b of its B have ended, w of its W;
//! the stage holds M_B for each F whose B has not ended and M_W for each B whose W has not. So the counts of an order are
//! among those that fit the limit. Where the stage has two chunks both count, with B of the
//! higher before B of the lower; and of every other lane as many passes have started as are known to be before, or more.
//!
//! Of a chunk that recomputes, F takes only what it keeps of M_B, and R the rest: k + 1 have started where R of microbatch
//! k is the pass, of other lanes again what is known, and of both lanes no fewer than b.
//!
//! The stage must also have room for each next B. With b of the B of a chunk ended, B of microbatch b runs later, behind its F and
//! its R. No other B of the chunk runs until then: so it holds M_B of that microbatch, and F and R of the others that have started
//! still hold what they took. While B of the higher chunk is the next, no more B of the lower end than have of the higher,
//! so the F and R of the lower beyond those hold what they took, too. What waits for W may be gone by then.
//!
//! Where a stage has more chunks, the lowest is counted, with the chunk of the pass or, for one of the lowest itself, with
//! the highest: the memory of the rest is left out.

use super::stages::{RECOMPUTE, Stages};

/// How many B and W of a chunk have ended.
pub(super) type Ended = [usize; 2];

/// A pass that needs room, of a lane and microbatch; lanes and chunks of all stages are numbered stage by stage.
pub(super) struct Needy<'a> {
    pub(super) stages: &'a Stages,
    pub(super) lane: usize,
    pub(super) microbatch: usize,
    pub(super) limit: i128,
    /// By lane of its stage, how many passes are before it at least and at most.
    pub(super) ranges: Vec<[usize; 2]>,
}

/// The counts that fit the limit, of which one holds in every order.
pub(super) struct FeasibleCounts {
    /// The chunks that are counted, one or two, the lower first.
    pub(super) chunks: Vec<usize>,
    /// By alternative and chunk, the number of ended B, and the least number of ended W.
    pub(super) ended: Vec<Vec<Ended>>,
    /// The other lanes of F and R of these chunks, with how many of each can have started at most.
    pub(super) rivals: Vec<(usize, usize)>,
}

/// More microbatches than this, and the W of a chunk are counted as if those of the other could all be done.
const FEW: usize = 12;

impl Needy<'_> {
    /// The counts that fit.
    pub(super) fn feasible_counts(&self) -> FeasibleCounts {
        let chunks = self.counted();
        let lanes = chunks.iter().flat_map(|&chunk| self.takers(chunk));
        let rivals = lanes.filter(|&lane| lane != self.lane).map(|lane| (lane, 0)).collect();
        let mut feasible = FeasibleCounts { ended: Vec::new(), rivals, chunks };
        let backwards = |chunk: &usize| self.range(self.stages.lane(*chunk, 1));
        let ranges: Vec<[usize; 2]> = feasible.chunks.iter().map(backwards).collect();
        for low in ranges[0][0]..=ranges[0][1] {
            match ranges.get(1) {
                None => self.add(&mut feasible, &[low]),
                Some(&[fewest, most]) => {
                    (fewest.max(low)..=most).for_each(|high| self.add(&mut feasible, &[low, high]));
                }
            }
        }
        feasible
    }

    /// The chunks that are counted.
    fn counted(&self) -> Vec<usize> {
        let chunk = self.lane / self.stages.kinds;
        let lowest = chunk / self.stages.chunks * self.stages.chunks;
        let highest = lowest + self.stages.chunks - 1;
        match chunk {
            only if lowest == highest => vec![only],
            chunk if chunk == lowest => vec![lowest, highest],
            chunk => vec![lowest, chunk],
        }
    }

    /// The lanes of a chunk whose passes take memory when they start.
    fn takers(&self, chunk: usize) -> impl Iterator<Item = usize> {
        let kinds = [0, RECOMPUTE].into_iter().filter(|&kind| kind < self.stages.kinds);
        kinds.map(move |kind| self.stages.lane(chunk, kind))
    }

    /// Number of passes of a lane that are before the pass, at least and at most.
    fn range(&self, lane: usize) -> [usize; 2] {
        self.ranges[lane % self.ranges.len()]
    }

    /// Number of passes of a lane that have started at the least.
    fn started(&self, lane: usize) -> usize {
        if lane == self.lane { self.microbatch + 1 } else { self.range(lane)[0] }
    }

    /// Bytes of a chunk for microbatches whose B has not ended, where `ended` B have, and `at_least` as many F and R have
    /// started.
    fn active(&self, chunk: usize, ended: usize, at_least: usize) -> i128 {
        let of = |lane: usize| self.held(lane, self.started(lane).max(at_least), ended);
        self.takers(chunk).map(of).sum()
    }

    /// Bytes that `started` passes of a lane hold where `ended` B have ended.
    fn held(&self, lane: usize, started: usize, ended: usize) -> i128 {
        started.saturating_sub(ended) as i128 * self.stages.takes(lane)
    }

    /// Adds the counts with `ended` B, if they fit.
    fn add(&self, feasible: &mut FeasibleCounts, ended: &[usize]) {
        let held = |at: usize| self.active(feasible.chunks[at], ended[at], 0);
        let left = self.limit - (0..ended.len()).map(held).sum::<i128>();
        if left < 0 || !self.has_room_for_next(&feasible.chunks, ended) {
            return;
        }
        self.split(feasible, ended, left);
        let waiting = feasible.chunks.iter().zip(ended).map(|(&chunk, &ended)| {
            let [_, most] = self.range(self.stages.lane(chunk, 2));
            ended.saturating_sub(most) as i128 * self.stages.held[chunk][2]
        });
        let free = left - waiting.sum::<i128>();
        for (lane, most) in &mut feasible.rivals {
            let (lane, size) = (*lane, self.stages.takes(*lane));
            let chunk = lane / self.stages.kinds;
            let at = feasible.chunks.iter().position(|&one| one == chunk).unwrap_or(0);
            // Beside all but what the lane itself holds.
            let beside = free + self.held(lane, self.started(lane), ended[at]);
            if beside >= 0 {
                let more = beside.checked_div(size).unwrap_or(i128::MAX);
                let more = usize::try_from(more).unwrap_or(usize::MAX);
                *most = (*most).max(more.saturating_add(ended[at]));
            }
        }
    }

    /// Whether the next B of each chunk fits, where `ended` have ended.
    fn has_room_for_next(&self, chunks: &[usize], ended: &[usize]) -> bool {
        (0..chunks.len()).filter(|&at| ended[at] < self.stages.microbatches).all(|at| {
            let next = ended[at];
            let below = chunks[..at].iter().map(|&chunk| self.active(chunk, next, 0));
            self.active(chunks[at], next, next + 1) + below.sum::<i128>() <= self.limit
        })
    }

    /// The least count of W, known and required, with `ended` B and `left` bytes for the W that wait.
    fn weights(&self, chunk: usize, ended: usize, left: i128) -> usize {
        let size = self.stages.held[chunk][2];
        let waiting = left.checked_div(size).unwrap_or(i128::MAX);
        let needed = ended.saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX));
        needed.max(self.range(self.stages.lane(chunk, 2))[0])
    }

    /// Adds the counts of W with which `ended` B fit.
    fn split(&self, feasible: &mut FeasibleCounts, ended: &[usize], left: i128) {
        let most = |at: usize| self.range(self.stages.lane(feasible.chunks[at], 2))[1];
        let weights = |at: usize, left: i128| self.weights(feasible.chunks[at], ended[at], left);
        let first = weights(0, left);
        if ended.len() == 1 || self.stages.all_microbatches > FEW {
            let counts: Vec<Ended> =
                (0..ended.len()).map(|at| [ended[at], weights(at, left)]).collect();
            if (0..ended.len()).all(|at| counts[at][1] <= most(at)) {
                feasible.ended.push(counts);
            }
            return;
        }
        let splits = (first..=most(0).min(ended[0])).filter_map(|one| {
            let rest = left - (ended[0] - one) as i128 * self.stages.held[feasible.chunks[0]][2];
            let other = weights(1, rest);
            (rest >= 0 && other <= most(1)).then(|| vec![[ended[0], one], [ended[1], other]])
        });
        let splits: Vec<Vec<Ended>> = splits.collect();
        feasible.ended.extend(splits);
    }
}
