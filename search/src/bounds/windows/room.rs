//! Memory: the ways to make room for a forward.
//!
//! When F of microbatch k of a chunk starts, forwards 0 to k of the chunk hold memory, but for those whose B have
//! ended, y of them; these hold M_W until their W have, z of them. What is held then must fit: *some* y and z with
//! (k + 1 - y) M_B + (y - z) M_W <= limit are those of the order. So for one of the ways to choose y and the
//! least z for it, y B and z W at the least have ended.
//!
//! *Two chunks*, a the lower and c the higher in model order, both count: y_a, z_a, y_c, z_c, and of the chunk that is not
//! the one of F the number s of forwards that have started, of which some are known. B of c ends before B of a
//! starts, so y_a <= y_c; and F of a is before F of c, so y_c <= k when F of a starts.
//!
//! *Room for the way back.* If F of a starts with y_a = y_c = y, it must fit beside one M_B of c, too. *Proof.* B of a
//! of microbatch y has not ended, so none behind it has, and until it does the stage holds M_a of the microbatches y to
//! k. B of c of microbatch y comes before it and has not ended either: it ends later, and while it runs the stage holds
//! M_c of it, and of all others whose F of c have started, beside those.
//!
//! *More chunks.* What others hold is left out, which is weaker, never wrong: for F of the lowest chunk it and
//! the highest are counted, for F of another chunk it and the lowest.
//!
//! Ways are left out whose last B or W is known to be behind F or cannot end by its last start; if none is left, that is
//! a contradiction. F starts no sooner than what is before it and what one of the others asks for can be done;
//! what all of them ask for is before it; and behind it is the first forward of the other chunk
//! for which none of them has room.

use super::propagate::{End, Propagation};

/// Up to so many microbatches every split of W between two chunks is a way of its own; beyond, the W of
/// either chunk are counted as if those of the other were all done, which is weaker.
const FEW: usize = 12;

/// What a chunk holds for each microbatch: M_B and M_W.
pub(super) type Held = [u64; 2];

/// A forward that needs room, and the ways to make it that were found.
pub(super) struct Forward {
    /// The first lane of the stage, the lane of F counted from it, and the microbatch.
    first: usize,
    own: usize,
    microbatch: usize,
    /// The lanes of F of the chunks that count, the lower one first; twice the same where it is one.
    chunks: [usize; 2],
    held: [Held; 2],
    limit: u64,
    /// The last start of F.
    until: i64,
    /// When it starts at the soonest, without regard to room.
    head: i64,
    /// The same with room.
    least: i64,
    /// The fewest B and W of each chunk that a way asks for.
    common: [[usize; 2]; 2],
    /// The most forwards of the other chunk that a way has room for.
    started: usize,
}

/// So many B and W of each chunk have ended.
type Counts = [[usize; 2]; 2];

impl Propagation<'_> {
    /// The head of F of microbatch `k`, whose counts are in `row`, if that was `head`.
    pub(super) fn make_room(
        &mut self,
        stage: usize,
        own: usize,
        k: usize,
        head: i64,
    ) -> Result<i64, End> {
        let Some(limit) = self.passes.limits[stage] else { return Ok(head) };
        let first = stage * self.passes.width;
        let top = self.passes.width - 3;
        let chunks = if own == 0 { [0, top] } else { [0, own] };
        let held = chunks.map(|lane| self.passes.held[(first + lane) / 3]);
        let mut forward = Forward {
            first,
            own,
            microbatch: k,
            chunks,
            held,
            limit,
            until: self.windows.lasts[self.windows.at(first + own, k)],
            head,
            least: i64::MAX,
            common: [[usize::MAX; 2]; 2],
            started: 0,
        };
        if top == 0 {
            self.ways_of_one(&mut forward)?;
        } else {
            self.ways_of_two(&mut forward)?;
        }
        if forward.least == i64::MAX {
            return Err(End::Empty);
        }
        for (chunk, lane) in chunks.into_iter().enumerate() {
            for (kind, &count) in forward.common[chunk].iter().enumerate() {
                let known = &mut self.row[lane + 1 + kind];
                *known = (*known).max(u32::try_from(count).unwrap_or(u32::MAX));
            }
        }
        if top > 0 {
            self.put_behind(&forward);
        }
        Ok(head.max(forward.least))
    }

    /// Puts the forwards of the other chunk behind F for which no way has room.
    fn put_behind(&mut self, forward: &Forward) {
        let other = forward.chunks[usize::from(forward.own == 0)];
        if forward.started < self.windows.microbatches {
            let passes = self.passes;
            let pass = (forward.first + other, forward.started);
            let count = u32::try_from(forward.microbatch + 1).unwrap_or(u32::MAX);
            let known = &mut self.windows.row(passes, pass.0, pass.1)[forward.own];
            if *known < count {
                *known = count;
                self.changed = true;
            }
        }
    }

    /// By which microbatch on B or W of a chunk are behind F or cannot end in time, from `from` on.
    fn can_have(&self, forward: &Forward, lane: usize, from: usize, to: usize) -> usize {
        let global = forward.first + lane;
        let time = self.passes.lanes[global].time;
        let mut count = from;
        while count < to {
            let at = self.windows.at(global, count);
            let is_behind = self.windows.before[at * self.passes.width + forward.own] as usize
                > forward.microbatch;
            if is_behind || self.windows.heads[at] + time > forward.until {
                break;
            }
            count += 1;
        }
        count
    }

    /// What is known to have ended, and what can have, of B and W of the chunks that count.
    fn ranges(&self, forward: &Forward) -> [Counts; 2] {
        let known = forward.chunks.map(|lane| [1, 2].map(|kind| self.row[lane + kind] as usize));
        let mut most = known;
        for (chunk, lane) in forward.chunks.into_iter().enumerate() {
            for kind in 0..2 {
                most[chunk][kind] =
                    self.can_have(forward, lane + 1 + kind, known[chunk][kind], forward.microbatch);
            }
        }
        [known, most]
    }

    fn ways_of_one(&mut self, forward: &mut Forward) -> Result<(), End> {
        let [known, most] = self.ranges(forward).map(|counts| counts[0]);
        let [until_backward, until_weight] = forward.held[0];
        for done in known[0]..=most[0] {
            let taken = ((forward.microbatch + 1 - done) as u64).checked_mul(until_backward);
            let Some(room) = taken.and_then(|taken| forward.limit.checked_sub(taken)) else {
                continue;
            };
            let weights = least_done(done, until_weight, room).max(known[1]);
            if weights <= most[1] {
                self.way(forward, [[done, weights], [0, 0]])?;
            }
            if weights == known[1] {
                break;
            }
        }
        Ok(())
    }

    fn ways_of_two(&mut self, forward: &mut Forward) -> Result<(), End> {
        let [known, most] = self.ranges(forward);
        let is_lower = forward.own == forward.chunks[0];
        let other = usize::from(is_lower);
        let (own, known_started) =
            (forward.microbatch + 1, self.row[forward.chunks[other]] as usize);
        for lower in known[0][0]..=most[0][0] {
            for higher in known[1][0].max(lower)..=most[1][0] {
                let ended = [lower, higher];
                let started = known_started.max(ended[other]);
                let held = |started: usize| match is_lower {
                    true => forward.left([own - lower, started - higher]),
                    false => forward.left([started - lower, own - higher]),
                };
                // The way back of the microbatch whose B is next must fit, too.
                let next = started.max(higher + usize::from(higher == lower));
                if is_lower && held(next).is_none() {
                    continue;
                }
                let Some(room) = held(started) else { continue };
                let all = held(ended[other]).unwrap_or(room);
                self.splits(forward, ended, room, [known, most])?;
                forward.let_start(other, ended, all, most);
            }
        }
        Ok(())
    }

    /// The ways with so many B, that differ in W.
    fn splits(
        &mut self,
        forward: &mut Forward,
        ended: [usize; 2],
        room: u64,
        [known, most]: [Counts; 2],
    ) -> Result<(), End> {
        let sizes = forward.held.map(|held| held[1]);
        let [lower, higher] =
            [0, 1].map(|at| least_done(ended[at], sizes[at], room).max(known[at][1]));
        if self.passes.microbatches > FEW {
            if lower <= most[0][1] && higher <= most[1][1] {
                self.way(forward, [[ended[0], lower], [ended[1], higher]])?;
            }
            return Ok(());
        }
        for weights in lower..=most[0][1].min(ended[0].max(lower)) {
            let waiting = ended[0].saturating_sub(weights) as u64;
            let Some(rest) = room.checked_sub(waiting * sizes[0]) else { continue };
            let other = least_done(ended[1], sizes[1], rest).max(known[1][1]);
            if other <= most[1][1] {
                self.way(forward, [[ended[0], weights], [ended[1], other]])?;
            }
            if other == known[1][1] {
                break;
            }
        }
        Ok(())
    }

    /// Takes a way into account whose last passes can end in time.
    fn way(&mut self, forward: &mut Forward, counts: Counts) -> Result<(), End> {
        self.spend(1)?;
        for (common, count) in forward.common.iter_mut().flatten().zip(counts.into_iter().flatten())
        {
            *common = (*common).min(count);
        }
        if forward.least <= forward.head {
            return Ok(());
        }
        let mut end = forward.head;
        let lanes = forward.chunks.map(|lane| [lane + 1, lane + 2]);
        let asked = || lanes.into_iter().flatten().zip(counts.into_iter().flatten());
        for (lane, count) in asked().filter(|(_, count)| *count > 0) {
            let at = self.windows.at(forward.first + lane, count - 1);
            end = end.max(self.windows.heads[at] + self.passes.lanes[forward.first + lane].time);
        }
        if end >= forward.least {
            return Ok(());
        }
        let width = self.passes.width;
        self.joined.copy_from_slice(&self.row);
        for (lane, count) in asked().filter(|(_, count)| *count > 0) {
            self.joined[lane] = self.joined[lane].max(u32::try_from(count).unwrap_or(u32::MAX));
            let at = self.windows.at(forward.first + lane, count - 1) * width;
            let other = &self.windows.before[at..at + width];
            self.joined.iter_mut().zip(other).for_each(|(to, from)| *to = (*to).max(*from));
        }
        forward.least = forward.least.min(self.done(end, true)?);
        Ok(())
    }
}

impl Forward {
    /// What is left of the limit beside so many microbatches before their B.
    fn left(&self, counts: [usize; 2]) -> Option<u64> {
        let taken = |at: usize| (counts[at] as u64).checked_mul(self.held[at][0]);
        self.limit.checked_sub(taken(0)?.checked_add(taken(1)?)?)
    }

    /// Notes how many forwards of the `other` chunk can have started where so many B have ended, as many W as can,
    /// and `room` is left beside its own chunk.
    fn let_start(&mut self, other: usize, ended: [usize; 2], room: u64, most: Counts) {
        let waiting = |chunk: usize| {
            let waiting = ended[chunk].saturating_sub(most[chunk][1]) as u64;
            waiting.saturating_mul(self.held[chunk][1])
        };
        let Some(room) = room.checked_sub(waiting(0).saturating_add(waiting(1))) else { return };
        let more = room
            .checked_div(self.held[other][0])
            .map_or(usize::MAX, |more| usize::try_from(more).unwrap_or(usize::MAX));
        self.started = self.started.max(more.saturating_add(ended[other]));
    }
}

/// How many of `ended` W must be done where `room` is left for the others.
fn least_done(ended: usize, size: u64, room: u64) -> usize {
    let waiting = room.checked_div(size);
    waiting
        .map_or(0, |waiting| ended.saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX)))
}
