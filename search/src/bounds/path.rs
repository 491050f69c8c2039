//! Bounds that follow microbatches along the line, without looking at how passes fit together.

use super::line::{Line, Station};
use super::tail::Tail;

/// The idle time of `station` before its first B, at the least.
///
/// *Proof.* Nothing but F and R can run before the first B, and no memory comes back: the stage can fill
/// the time from its first F to its first B with no more of them than its limit holds at once.
pub(super) fn idle_before_backwards(line: &Line, station: &Station) -> u64 {
    let most = station.most_before_backwards(line.microbatches);
    station.first_backward.saturating_sub(most)
}

/// A lower bound on the time from the first F of `station` to the end of its last B.
///
/// *Proof.* In this time the stage does all its work but for the W that come after the last B, and
/// it idles before its first B ([`idle_before_backwards`]) and between its last F and its last B
/// ([`Tail`]). Where memory makes a B come before the last F these two do not overlap; else only
/// one of them counts.
pub(super) fn until_last_backward(line: &Line, station: &Station, tail: &Tail) -> u64 {
    let idle = idle_before_backwards(line, station);
    let work = i128::from(station.work) + i128::from(idle);
    let least = if station.is_short(line.microbatches) {
        work - tail.after_less_idle
    } else {
        (work - i128::from(tail.after)).max(work - i128::from(idle) - tail.after_less_idle)
    };
    u64::try_from(least).unwrap_or(0)
}

/// The cost as stage `from` sees it, if `via` takes at least `inner` from its first F to the end of
/// its last B.
///
/// *Proof.* The first F of `via` is of a microbatch that has run on `from` before, and on all
/// chunks between. The last B of `via` is of one whose B and W on `from` are still to come, behind
/// those of all chunks between.
pub(super) fn seen_from(line: &Line, from: usize, via: usize, inner: u64) -> u64 {
    let [near, far] = [from, via].map(|stage| &line.stations[stage]);
    let there = far.down - near.down;
    let back = far.back - near.back;
    line.cost_of_span(near, there + inner + back + near.first().w)
}
