//! The end of a step: how much work the memory limit leaves a stage after its last forward.

use super::knapsack_bound::{ItemType, knapsack_bound};
use super::line::{Line, Part, Station};

/// The end of a stage: what is left to do, and how much waiting that makes.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    /// Idle time between the last F and the last B, at the least.
    pub(super) idle: u64,
    /// The most time of W that can come after the last B.
    pub(super) after: u64,
    /// The time of W after the last B, less the idle time between the last F and the last B, at
    /// the most.
    pub(super) after_less_idle: i128,
}

impl Tail {
    /// Counts what memory leaves.
    ///
    /// The last F of a stage is one of its last chunk (the *top*) and, as microbatches are alike
    /// and may be named in the order in which they run, of the last microbatch, x. The last B is
    /// that of x in the stage's first chunk. Let r be the time from the end of that F to the end
    /// of that B that x spends elsewhere: in later chunks and on hops, and at least so long.
    ///
    /// *What is left.* When that F starts, x holds M_B in each of the stage's chunks. Every other
    /// microbatch has run all its F there, so in each chunk it holds M_B and has B and W to come,
    /// or holds M_W and has W to come, or is done. All that must fit beside x: the work of other
    /// microbatches that is left is at most the `v` that [`most`] finds.
    ///
    /// *Idle.* Between the two passes the stage can do that work and the W of x but for its last,
    /// whose B is the last. Of the time r it idles at least what all that leaves over.
    ///
    /// *After.* While the last B runs, M_B of x in the first chunk is held, and just after it M_W;
    /// all W that come after it, but its own, fit beside that.
    ///
    /// *After, less idle.* Let d be what is done of the work left (that of others and the W of x)
    /// between the two passes. Then v + w - d comes after, and the stage idles max(0, r - d): the
    /// difference is at most v + w - r, whatever d.
    ///
    /// *Recomputation.* Where R is among the passes this counts no idle time: it may be what is done
    /// meanwhile.
    pub(super) fn of(line: &Line, station: &Station) -> Self {
        if station.recomputes() {
            let after = station.first().w + Self::others_after(line, station);
            return Self { idle: 0, after, after_less_idle: after.into() };
        }
        let others = line.microbatches - 1;
        let first = station.first();
        let held: u64 = station.parts.iter().map(|part| part.until_backward).sum();
        let items = station.parts.iter().flat_map(|part| outstanding(part, others));
        let one: u64 = station.parts.iter().map(|part| part.b + part.w).sum();
        let left = knapsack_bound(items, station.limit.saturating_sub(held)).min(one * others);
        let own: u64 = station.parts.iter().map(|part| part.w).sum();
        let after = first.w + Self::others_after(line, station);
        let after_less_idle = i128::from(left + own) - i128::from(station.last_round);
        Self {
            idle: station.last_round.saturating_sub(left + own - first.w),
            after,
            after_less_idle: after_less_idle.min(after.into()),
        }
    }

    /// The most time of W that can come after the last B, but for its own.
    fn others_after(line: &Line, station: &Station) -> u64 {
        let first = station.first();
        let items = station.parts.iter().enumerate().map(|(place, part)| ItemType {
            bytes: part.until_weight,
            worth: part.w,
            count: if place == 0 { line.microbatches - 1 } else { line.microbatches },
        });
        let beside = (first.until_backward + first.recomputed).max(first.until_weight);
        knapsack_bound(items, station.limit.saturating_sub(beside))
    }
}

/// The two ways in which one of `count` microbatches can be unfinished in a chunk.
fn outstanding(part: &Part, count: u64) -> [ItemType; 2] {
    [
        ItemType { bytes: part.until_backward, worth: part.b + part.w, count },
        ItemType { bytes: part.until_weight, worth: part.w, count },
    ]
}
