//! The room for a forward: what has ended on its stage when it starts.
//!
//! When F of microbatch k of a chunk starts, k + 1 of its F have started and some number b of its B have ended, w of its W;
//! the stage holds M_B for each F whose B has not ended and M_W for each B whose W has not. So the counts of an order are
//! among those that fit the limit. Where the stage has two chunks both count, with B of the
//! higher before B of the lower, and of the chunk of which F is not, as many F have started as are known to
//! be before F, or more.
//!
//! F of the lower chunk also leaves room for the next to come back: if as many B of either chunk have
//! ended, then B of the higher chunk of the next microbatch is still to run. B of the lower chunk of the
//! microbatch, and all behind it, run after that; so while it runs all that the stage holds for the lower chunk now
//! it still holds, beside M_B of the higher for that microbatch and for every other whose F there is known to be
//! before F.
//!
//! Where a stage has more chunks, the lowest is counted, with the chunk of F or, for F of the lowest itself, with
//! the highest: what others hold is left out.

use super::stages::Stages;

/// How many B and W of a chunk have ended.
pub(super) type Ended = [usize; 2];

/// An F that needs room, of chunk and microbatch; chunks of all stages are numbered stage by stage.
pub(super) struct Needy<'a> {
    pub(super) stages: &'a Stages,
    pub(super) chunk: usize,
    pub(super) microbatch: usize,
    pub(super) limit: i128,
    /// By line of its stage, how many passes are before it at least and at most.
    pub(super) ranges: Vec<[usize; 2]>,
}

/// The counts of which one holds.
#[derive(Default)]
pub(super) struct Rooms {
    /// The chunks that are counted, one or two.
    pub(super) chunks: Vec<usize>,
    /// For each chunk so many B, and so many W or more.
    pub(super) ended: Vec<Vec<Ended>>,
    /// How many F of the other chunk can have started at most, where two are counted.
    pub(super) started: usize,
}

/// More microbatches than this, and the W of a chunk are counted as if those of the other could all be done.
const FEW: usize = 12;

impl Needy<'_> {
    /// The counts that fit.
    pub(super) fn rooms(&self) -> Rooms {
        let lowest = self.chunk / self.stages.chunks * self.stages.chunks;
        let highest = lowest + self.stages.chunks - 1;
        match self.chunk {
            only if lowest == highest => self.of_one(only),
            chunk if chunk == lowest => self.of_two([lowest, highest], 1),
            chunk => self.of_two([lowest, chunk], 0),
        }
    }

    /// How many F, B or W of a chunk are before F, at least and at most.
    fn range(&self, chunk: usize, kind: usize) -> [usize; 2] {
        self.ranges[3 * (chunk % self.stages.chunks) + kind]
    }

    /// The least count of W, as known and as needed, with so many B ended and what is left for the others.
    fn weights(&self, chunk: usize, ended: usize, left: i128) -> usize {
        let size = self.stages.held[chunk][1];
        let waiting = if size == 0 { i128::MAX } else { left / size };
        let needed = ended.saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX));
        needed.max(self.range(chunk, 2)[0])
    }

    fn of_one(&self, chunk: usize) -> Rooms {
        let mut rooms = Rooms { chunks: vec![chunk], started: usize::MAX, ..Rooms::default() };
        let [least, most] = self.range(chunk, 1);
        for ended in least..=most.min(self.microbatch) {
            let left = self.limit - self.active(chunk, self.microbatch + 1, ended);
            let weights = self.weights(chunk, ended, left);
            if left >= 0 && weights <= self.range(chunk, 2)[1] {
                rooms.ended.push(vec![[ended, weights]]);
            }
        }
        rooms
    }

    /// What the F that have started hold before their B have ended.
    fn active(&self, chunk: usize, started: usize, ended: usize) -> i128 {
        started.saturating_sub(ended) as i128 * self.stages.held[chunk][0]
    }

    /// `other` is the place of the chunk of which F is not.
    fn of_two(&self, chunks: [usize; 2], other: usize) -> Rooms {
        let mut rooms = Rooms { chunks: chunks.to_vec(), ..Rooms::default() };
        let own = 1 - other;
        let known = self.range(chunks[other], 0)[0];
        let [lower, higher] = chunks.map(|chunk| self.range(chunk, 1));
        for low in lower[0]..=lower[1].min(self.microbatch) {
            for high in higher[0].max(low)..=higher[1].min(self.microbatch) {
                let ended = [low, high];
                let beside = self.limit - self.active(chunks[own], self.microbatch + 1, ended[own]);
                let left = beside - self.active(chunks[other], known, ended[other]);
                let next = if low == high { known.max(high + 1) } else { known };
                let returns =
                    other == 0 || beside >= self.active(chunks[other], next, ended[other]);
                if left < 0 || !returns {
                    continue;
                }
                self.split(&mut rooms, chunks, ended, left);
                let waiting = |at: usize| {
                    let most = self.range(chunks[at], 2)[1];
                    ended[at].saturating_sub(most) as i128 * self.stages.held[chunks[at]][1]
                };
                let free = beside - waiting(0) - waiting(1);
                let size = self.stages.held[chunks[other]][0];
                let more =
                    if size == 0 { usize::MAX } else { usize::try_from(free / size).unwrap_or(0) };
                if free >= 0 {
                    rooms.started = rooms.started.max(more.saturating_add(ended[other]));
                }
            }
        }
        rooms
    }

    /// Adds the counts of W with which so many B fit.
    fn split(&self, rooms: &mut Rooms, chunks: [usize; 2], ended: [usize; 2], left: i128) {
        let most = chunks.map(|chunk| self.range(chunk, 2)[1]);
        let first = self.weights(chunks[0], ended[0], left);
        if self.stages.all_microbatches > FEW {
            let second = self.weights(chunks[1], ended[1], left);
            if first <= most[0] && second <= most[1] {
                rooms.ended.push(vec![[ended[0], first], [ended[1], second]]);
            }
            return;
        }
        for weights in first..=most[0].min(ended[0]) {
            let waiting = (ended[0] - weights) as i128 * self.stages.held[chunks[0]][1];
            let second = self.weights(chunks[1], ended[1], left - waiting);
            if waiting <= left && second <= most[1] {
                rooms.ended.push(vec![[ended[0], weights], [ended[1], second]]);
            }
        }
    }
}
