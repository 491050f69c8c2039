//! When the passes of a changing order run, and how long the chains of passes through them are.
// Passes, slots and lanes are fewer than `MAX_PASSES`.
#![allow(clippy::cast_possible_truncation)]

use super::Local;
use crate::chance::Chance;
use crate::net::{NONE, Net};
use crate::timing::Score;

/// No pass follows.
const NEVER: i64 = i64::MIN / 2;

/// How many passes are timed here, there and back, in the time in which others place one.
const QUICK: u64 = 2;

/// When passes run, as early as they can.
pub(super) struct Times {
    /// Start of each pass.
    pub(super) head: Vec<i64>,
    /// From the end of each pass to the end of the schedule, along the longest chain behind it.
    pub(super) tail: Vec<i64>,
    pub(super) score: Score,
}

impl Times {
    pub(super) fn new(net: &Net) -> Self {
        Self { head: vec![0; net.passes()], tail: vec![0; net.passes()], score: Score::WORST }
    }
}

/// Tables of one timing.
#[derive(Default)]
pub(super) struct Sorting {
    /// By lane: how many of its passes are timed.
    next: Vec<u32>,
    /// By stage: the slot to be timed next.
    at: Vec<usize>,
    /// Stages that may go on.
    ready: Vec<usize>,
    /// Slots in an order in which each comes behind all that it waits for.
    slots: Vec<u32>,
}

impl Sorting {
    fn reset(&mut self, net: &Net) {
        self.next.clear();
        self.next.resize(net.lanes.len(), 0);
        self.at.clear();
        self.at.extend((0..net.stages).map(|stage| stage * net.passes_per_stage()));
        self.ready.clear();
        self.ready.extend((0..net.stages).rev());
        self.slots.clear();
    }
}

impl Local<'_> {
    /// When what `pass` waits for from elsewhere is there.
    fn arrival(&self, pass: u32) -> i64 {
        let lane = self.lane_of(pass);
        if lane.remote == NONE {
            return 0;
        }
        let remote = self.same(pass, lane.remote);
        self.times.head[remote] + self.net.lanes[lane.remote as usize].duration + lane.hop
    }

    /// From the end of `pass` to the end of the schedule, through the pass elsewhere that waits for it.
    fn onward(&self, pass: u32) -> i64 {
        let feeds = self.lane_of(pass).feeds;
        if feeds == NONE {
            return NEVER;
        }
        let fed = &self.net.lanes[feeds as usize];
        self.times.tail[self.same(pass, feeds)] + fed.duration + fed.hop
    }

    /// When the pass in `slot` ends.
    fn end(&self, slot: usize) -> i64 {
        let pass = self.order[slot];
        self.times.head[pass as usize] + self.lane_of(pass).duration
    }

    /// When its stage is free for the pass in `slot`.
    fn free(&self, slot: usize) -> i64 {
        if self.is_first(slot) { 0 } else { self.end(slot - 1) }
    }

    /// From the end of the pass in `slot` to the end of the schedule, through its stage.
    fn behind(&self, slot: usize) -> i64 {
        if self.is_last(slot) {
            return -self.offset[self.stage_of(slot)];
        }
        let next = self.order[slot + 1];
        self.lane_of(next).duration + self.times.tail[next as usize]
    }

    /// Times all passes; `false` if they wait for each other. A step is what it takes to place one
    /// pass in a list schedule.
    pub(super) fn time(&mut self) -> bool {
        let mut sorting = std::mem::take(&mut self.sorting);
        sorting.reset(self.net);
        while let Some(stage) = sorting.ready.pop() {
            self.time_stage(stage, &mut sorting);
        }
        let whole = sorting.slots.len() == self.net.passes();
        if whole {
            for &slot in sorting.slots.iter().rev() {
                let pass = self.order[slot as usize];
                let tail = self.behind(slot as usize).max(self.onward(pass));
                self.times.tail[pass as usize] = tail;
            }
            let spans = (0..self.net.stages).map(|stage| self.span(stage));
            self.times.score = Score::of_spans(spans);
        }
        self.sorting = sorting;
        self.steps += self.net.passes() as u64 / QUICK + 1;
        whole
    }

    /// Goes on with `stage` until a pass waits for one that is not timed.
    fn time_stage(&mut self, stage: usize, sorting: &mut Sorting) {
        let mut slot = sorting.at[stage];
        let mut free = self.free(slot);
        let end = (stage + 1) * self.net.passes_per_stage();
        while slot < end {
            let pass = self.order[slot];
            let number = self.lane[pass as usize] as usize;
            let lane = self.net.lanes[number];
            if lane.remote != NONE {
                if sorting.next[lane.remote as usize] <= sorting.next[number] {
                    break;
                }
                free = free.max(self.arrival(pass));
            }
            self.times.head[pass as usize] = free;
            free += lane.duration;
            sorting.next[number] += 1;
            sorting.slots.push(slot as u32);
            if lane.wakes != NONE {
                sorting.ready.push(lane.wakes as usize);
            }
            slot += 1;
        }
        sorting.at[stage] = slot;
    }

    /// How long `stage` takes, of what counts.
    fn span(&self, stage: usize) -> i64 {
        let last = (stage + 1) * self.net.passes_per_stage() - 1;
        self.end(last) - self.offset[stage]
    }

    /// The longest chain through the slots `low` to `high`, whose passes have changed places, if
    /// nothing elsewhere changes.
    pub(super) fn estimate(&mut self, low: usize, high: usize) -> i64 {
        let mut free = self.free(low);
        self.starts.clear();
        for slot in low..=high {
            let pass = self.order[slot];
            let start = free.max(self.arrival(pass));
            self.starts.push(start);
            free = start + self.lane_of(pass).duration;
        }
        let mut behind = self.behind(high);
        let mut longest = NEVER;
        for slot in (low..=high).rev() {
            let pass = self.order[slot];
            let through = self.lane_of(pass).duration + behind.max(self.onward(pass));
            longest = longest.max(self.starts[slot - low] + through);
            behind = through;
        }
        self.steps += 1 + (high - low) as u64;
        longest
    }

    /// Follows one of the longest chains from its end.
    pub(super) fn find_joints(&mut self, chance: &mut Chance) {
        let worst = (0..self.net.stages).max_by_key(|&stage| self.span(stage)).unwrap_or(0);
        let mut pass = self.last_of(worst);
        self.joints.clear();
        loop {
            let slot = self.slot[pass as usize] as usize;
            let start = self.times.head[pass as usize];
            let lane = self.lane_of(pass);
            let joined = !self.is_first(slot) && self.end(slot - 1) == start;
            let sent = lane.remote != NONE && self.arrival(pass) == start;
            if joined && (!sent || chance.below(2) == 0) {
                self.joints.push(slot as u32);
                pass = self.order[slot - 1];
            } else if sent {
                pass = self.same(pass, lane.remote) as u32;
            } else {
                return;
            }
        }
    }
}
