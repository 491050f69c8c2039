//! The ways to make room for a forward: what must have ended on its stage when it starts.
//!
//! When F of microbatch k starts, k forwards of its chunk have run before it, some number y of its B and
//! z of its W: all in order. It needs (k + 1 - y) M_B + (y - z) M_W of the limit. So one of the *ways*
//! holds: at least y B and z W have ended, for a pair (y, z) that fits and of which neither is greater than
//! it must be for the other.
//!
//! *Two chunks.* Let a be the lower and c the higher chunk of the stage in model order. B of c ends before
//! B of a starts, so y_c >= y_a; F of a is before F of c, so when F of a starts y_c <= k. A way is then
//! (y_a, y_c, z_a, z_c).
//!
//! *Room for the way back.* When F_a of microbatch k starts with exactly y of the B_a ended, either
//! (k + 1 - y) M_a + M_c fits, or B_c of microbatch y has ended. *Proof.* B_a of y has not ended, so none behind
//! it has, and the stage holds M_a of the microbatches y to k until it does. B_c of y ends before it
//! starts. If that has not ended when F_a of k starts, it ends later, and while it runs the stage holds M_c of
//! microbatch y beside them.
//!
//! *More chunks.* What others hold is left out, which makes the ways weaker, never wrong: for F of the
//! lowest chunk it and the highest are counted, for F of another chunk it and the lowest.

/// What a chunk holds for each microbatch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) until_backward: u64,
    pub(super) until_weight: u64,
}

/// A way to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// The chunks of the stage that are counted; twice the same where it is one.
    pub(super) chunks: [u16; 2],
    /// So many B of each have ended.
    pub(super) backwards: [u32; 2],
    /// So many W of each have ended.
    pub(super) weights: [u32; 2],
}

impl Way {
    /// Whether it asks for no more than `other` of anything.
    fn asks_less(&self, other: &Self) -> bool {
        let no_more = |one: [u32; 2], other: [u32; 2]| one[0] <= other[0] && one[1] <= other[1];
        no_more(self.backwards, other.backwards) && no_more(self.weights, other.weights)
    }
}

/// Up to so many microbatches every split of W between two chunks is a way of its own; beyond, the W of
/// either chunk are counted as if those of the other were all done, which is weaker.
const MOST_SPLIT: usize = 12;

/// The ways by chunk and microbatch; `None` if they are more than `most`.
pub(super) fn ways(
    chunks: &[Chunk],
    limit: u64,
    microbatches: usize,
    most: usize,
) -> Option<Vec<Vec<Way>>> {
    let (mut found, mut count) = (Vec::new(), 0);
    for chunk in 0..chunks.len() {
        for microbatch in 0..microbatches {
            let forward =
                Forward { chunks, limit, chunk, microbatch, split: microbatches <= MOST_SPLIT };
            let mut ways = forward.ways();
            // Beyond, what asks for more than another way does no harm but takes time.
            if forward.split {
                let all = ways.clone();
                let mut at = 0;
                ways.retain(|way| {
                    at += 1;
                    let beats = |(other, one): (usize, &Way)| {
                        one.asks_less(way) && (!way.asks_less(one) || other < at - 1)
                    };
                    !all.iter().enumerate().any(beats)
                });
            }
            count += ways.len();
            if count > most {
                return None;
            }
            found.push(ways);
        }
    }
    Some(found)
}

/// A forward that needs room.
struct Forward<'a> {
    chunks: &'a [Chunk],
    limit: u64,
    chunk: usize,
    microbatch: usize,
    split: bool,
}

impl Forward<'_> {
    fn ways(&self) -> Vec<Way> {
        let top = self.chunks.len() - 1;
        match (self.chunk, top) {
            (_, 0) => self.of_one(),
            (0, _) => self.of_two(0, top),
            (chunk, _) => self.of_two(0, chunk),
        }
    }

    /// What is left of the limit beside `count` microbatches before their B.
    fn left(&self, counts: [usize; 2], of: [usize; 2]) -> Option<u64> {
        let taken = |at: usize| (counts[at] as u64).checked_mul(self.chunks[of[at]].until_backward);
        self.limit.checked_sub(taken(0)?.checked_add(taken(1)?)?)
    }

    /// How many of `ended` W must be done where `room` is left for the others.
    fn weights(&self, chunk: usize, ended: usize, room: u64) -> usize {
        let waiting = room.checked_div(self.chunks[chunk].until_weight);
        waiting.map_or(0, |waiting| ended.saturating_sub(usize::try_from(waiting).unwrap_or(ended)))
    }

    fn of_one(&self) -> Vec<Way> {
        let (mut ways, k) = (Vec::new(), self.microbatch);
        for done in 0..=k {
            let Some(room) = self.left([k + 1 - done, 0], [0, 0]) else { continue };
            let weights = self.weights(0, done, room);
            ways.push(way([0, 0], [done, 0], [weights, 0]));
            if weights == 0 {
                break;
            }
        }
        ways
    }

    fn of_two(&self, low: usize, high: usize) -> Vec<Way> {
        let (mut ways, k) = (Vec::new(), self.microbatch);
        let of = [low, high];
        for lower in 0..=k {
            // F of the higher chunk is held beside those of the lower one; else there must be room for it.
            let both = |higher: usize| match self.chunk == low {
                true => [k + 1 - lower, usize::from(higher == lower)],
                false => [k + 1 - lower, k + 1 - higher],
            };
            for higher in lower..=k {
                if self.left(both(higher), of).is_none() {
                    continue;
                }
                let held = if self.chunk == low { [k + 1 - lower, 0] } else { both(higher) };
                let Some(room) = self.left(held, of) else { continue };
                let ended = [lower, higher];
                let more = self.splits(of, ended, room);
                let free = more.contains(&[0, 0]);
                ways.extend(more.into_iter().map(|weights| way(of, ended, weights)));
                if free {
                    break;
                }
            }
        }
        ways
    }

    /// The W of two chunks that must be done where `room` is left.
    fn splits(&self, of: [usize; 2], ended: [usize; 2], room: u64) -> Vec<[usize; 2]> {
        if !self.split {
            return vec![[0, 1].map(|at| self.weights(of[at], ended[at], room))];
        }
        let mut splits = Vec::new();
        for lower in 0..=ended[0] {
            let waiting = (ended[0] - lower) as u64;
            let taken = waiting.checked_mul(self.chunks[of[0]].until_weight);
            let Some(rest) = taken.and_then(|taken| room.checked_sub(taken)) else { continue };
            splits.push([lower, self.weights(of[1], ended[1], rest)]);
        }
        splits
    }
}

fn way(chunks: [usize; 2], backwards: [usize; 2], weights: [usize; 2]) -> Way {
    let narrow = |counts: [usize; 2]| counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let chunks = chunks.map(|chunk| u16::try_from(chunk).unwrap_or(u16::MAX));
    Way { chunks, backwards: narrow(backwards), weights: narrow(weights) }
}
