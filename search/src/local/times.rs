//! Times of the passes of a changing order, and lengths of the longest chains through them.
// Passes, slots and lanes are fewer than `MAX_PASSES`.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use super::Local;
use super::links::Link;
use crate::chance::Chance;
use crate::marks::Toward;
use crate::timing::Score;

/// No pass follows.
const NEVER: i64 = i64::MIN / 2;

/// The number of passes timed again here in the time in which list scheduling places one.
const QUICK: u64 = 2;

impl Local<'_> {
    #[inline]
    fn link(&self, pass: u32) -> Link {
        let mut link = self.links[self.lane[pass as usize] as usize];
        let whole = self.compiled.mixes && self.whole[pass as usize];
        if let Some(own) = self.compiled.own.get(pass as usize) {
            link.duration = own[usize::from(whole)];
        } else if whole {
            link.duration = link.whole;
        }
        link
    }

    /// The arrival of the value that `pass` needs from another stage.
    #[inline]
    fn arrival(&self, pass: u32, link: Link) -> i64 {
        match link.remote {
            0 => 0,
            way => self.end[pass.wrapping_add_signed(way) as usize] + link.hop,
        }
    }

    /// The time from the end of `pass` to the end of the schedule, through its successor on another
    /// stage.
    #[inline]
    fn onward(&self, pass: u32, link: Link) -> i64 {
        match link.feeds {
            0 => NEVER,
            way => self.rest[pass.wrapping_add_signed(way) as usize] + link.hop_on,
        }
    }

    /// The time at which the stage is free for the pass in `slot`.
    #[inline]
    fn free(&self, slot: usize) -> i64 {
        if self.is_first(slot) { 0 } else { self.end[self.order[slot - 1] as usize] }
    }

    /// The time from the end of the pass in `slot` to the end of the schedule, through its own
    /// stage.
    #[inline]
    fn behind(&self, slot: usize) -> i64 {
        if self.is_last(slot) {
            return -self.offset[self.stage_of(slot)];
        }
        self.rest[self.order[slot + 1] as usize]
    }

    /// The time of `stage` that counts for the objective.
    fn span(&self, stage: usize) -> i64 {
        self.end[self.last_of(stage) as usize] - self.offset[stage]
    }

    /// Recomputes the score of the order.
    pub(super) fn measure(&mut self) {
        self.score = Score::of_spans((0..self.compiled.stages).map(|stage| self.span(stage)));
    }

    /// Finds when passes end after those in the slots `low` to `high` have changed places, and
    /// notes what changes; `false` if they wait for each other.
    pub(super) fn find_ends(&mut self, low: usize, high: usize) -> bool {
        let above = high + usize::from(!self.is_last(high));
        (low..=above).for_each(|slot| self.marks.mark(slot));
        let most = 2 * self.compiled.passes();
        while let Some(slot) = self.marks.take(Toward::End) {
            let pass = self.order[slot];
            let link = self.link(pass);
            let end = self.free(slot).max(self.arrival(pass, link)) + link.duration;
            let before = std::mem::replace(&mut self.end[pass as usize], end);
            if end == before {
                continue;
            }
            self.moved.push((pass, before));
            if !self.is_last(slot) {
                let next = self.order[slot + 1];
                let start = self.end[next as usize] - self.link(next).duration;
                if end > start || before == start {
                    self.marks.mark(slot + 1);
                }
            }
            if link.feeds != 0 {
                let fed = pass.wrapping_add_signed(link.feeds);
                let start = self.end[fed as usize] - self.link(fed).duration;
                if end + link.hop_on > start || before + link.hop_on == start {
                    self.marks.mark(self.slot[fed as usize] as usize);
                }
            }
            if self.moved.len() > most {
                self.marks.clear();
                return false;
            }
        }
        self.steps += 1 + self.moved.len() as u64 / QUICK;
        true
    }

    /// Puts ends back as they were before [`Local::find_ends`].
    pub(super) fn restore_ends(&mut self) {
        while let Some((pass, before)) = self.moved.pop() {
            self.end[pass as usize] = before;
        }
    }

    /// Finds how long the chains from passes on are after those in the slots `low` to `high` have
    /// changed places.
    pub(super) fn find_rests(&mut self, low: usize, high: usize) {
        let below = low - usize::from(!self.is_first(low));
        (below..=high).for_each(|slot| self.marks.mark(slot));
        let mut count = 0;
        while let Some(slot) = self.marks.take(Toward::Begin) {
            let pass = self.order[slot];
            let link = self.link(pass);
            let rest = self.behind(slot).max(self.onward(pass, link)) + link.duration;
            let before = std::mem::replace(&mut self.rest[pass as usize], rest);
            if rest == before {
                continue;
            }
            count += 1;
            if !self.is_first(slot) {
                let previous = self.order[slot - 1];
                let tail = self.rest[previous as usize] - self.link(previous).duration;
                if rest > tail || before == tail {
                    self.marks.mark(slot - 1);
                }
            }
            if link.remote != 0 {
                let remote = pass.wrapping_add_signed(link.remote);
                let tail = self.rest[remote as usize] - self.link(remote).duration;
                if rest + link.hop > tail || before + link.hop == tail {
                    self.marks.mark(self.slot[remote as usize] as usize);
                }
            }
        }
        self.steps += 1 + count / QUICK;
    }

    /// The longest chain through the slots `low` to `high`, whose passes have changed places, if
    /// nothing elsewhere changes.
    pub(super) fn estimate(&mut self, low: usize, high: usize) -> i64 {
        let mut free = self.free(low);
        self.ends.clear();
        for slot in low..=high {
            let pass = self.order[slot];
            let link = self.link(pass);
            free = free.max(self.arrival(pass, link)) + link.duration;
            self.ends.push(free);
        }
        let mut behind = self.behind(high);
        let mut longest = NEVER;
        for slot in (low..=high).rev() {
            let pass = self.order[slot];
            let link = self.link(pass);
            let tail = behind.max(self.onward(pass, link));
            longest = longest.max(self.ends[slot - low] + tail);
            behind = tail + link.duration;
        }
        self.steps += 1 + (high - low) as u64 / QUICK;
        longest
    }

    /// Whether the pass in `slot` starts when that of the slot before ends, on a longest chain.
    pub(super) fn is_joint(&self, slot: usize) -> bool {
        let pass = self.order[slot];
        let start = self.end[pass as usize] - self.link(pass).duration;
        let through = start + self.rest[pass as usize];
        through == self.score.cost && !self.is_first(slot) && self.free(slot) == start
    }

    /// Follows one of the longest chains from its end.
    pub(super) fn find_joints(&mut self, chance: &mut Chance) {
        let worst = (0..self.compiled.stages).max_by_key(|&stage| self.span(stage)).unwrap_or(0);
        let mut pass = self.last_of(worst);
        self.joints.clear();
        loop {
            let slot = self.slot[pass as usize] as usize;
            let link = self.link(pass);
            let start = self.end[pass as usize] - link.duration;
            let joined = !self.is_first(slot) && self.free(slot) == start;
            let sent = link.remote != 0 && self.arrival(pass, link) == start;
            if joined && (!sent || chance.below(2) == 0) {
                self.joints.push(slot as u32);
                pass = self.order[slot - 1];
            } else if sent {
                pass = pass.wrapping_add_signed(link.remote);
            } else {
                return;
            }
        }
    }
}
