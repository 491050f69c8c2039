//! How the passes of each lane depend on those of other stages.
// Passes, slots and lanes are fewer than `MAX_PASSES`.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use crate::compiled_instance::{CompiledInstance, Lane, NONE};

/// How the passes of a lane depend on those of other stages.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) duration: i64,
    /// The duration of a pass of a whole backward.
    pub(super) whole: i64,
    /// The hop from the pass elsewhere that it waits for.
    pub(super) hop: i64,
    /// The hop to the pass elsewhere that waits for it.
    pub(super) hop_on: i64,
    /// The distance from the number of a pass to that of its predecessor on another stage; 0 if
    /// there is none.
    pub(super) remote: i32,
    /// The distance from the number of a pass to that of its successor on another stage; 0 if there
    /// is none.
    pub(super) feeds: i32,
}

impl Link {
    /// The links of all lanes; `None` if a pass of no duration feeds another stage without a hop:
    /// then a cycle of passes could go unnoticed by [`Local::find_ends`](super::Local::find_ends).
    pub(super) fn all(compiled: &CompiledInstance) -> Option<Vec<Self>> {
        let way = |from: usize, to: u32| match to {
            NONE => 0,
            to => (to as i32 - from as i32) * compiled.microbatches as i32,
        };
        let link = |(number, lane): (usize, &Lane)| Self {
            duration: lane.duration,
            whole: lane.whole.duration,
            hop: lane.hop,
            hop_on: compiled.lanes.get(lane.feeds as usize).map_or(0, |fed| fed.hop),
            remote: way(number, lane.remote),
            feeds: way(number, lane.feeds),
        };
        let links: Vec<Self> = compiled.lanes.iter().enumerate().map(link).collect();
        let lanes = compiled.lanes.iter().zip(&links);
        let shorter =
            |split: i64, whole: i64| if compiled.mixes { split.min(whole) } else { split };
        let columns = compiled.microbatches as usize;
        let shortest = |at: usize, link: &Self| match compiled
            .own
            .get(at * columns..(at + 1) * columns)
        {
            Some(own) => own.iter().map(|&[split, whole]| shorter(split, whole)).min().unwrap_or(0),
            None => shorter(link.duration, link.whole),
        };
        let ends = lanes
            .enumerate()
            .all(|(at, (lane, link))| lane.wakes == NONE || shortest(at, link) + link.hop_on > 0);
        ends.then_some(links)
    }
}
