//! Memory propagation: the counts of completed B and W that leave headroom for a pass that allocates at its start,
//! F or R.
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
//! *Recomputation.* Where a chunk recomputes, M_B is what F keeps and the rest, which R takes. Then (s - y) of the former
//! and (r - y) of the latter are held, s and r the numbers of F and R that have started: k + 1 of the lane of the pass
//! that needs room, of other lanes as many as are known to be before it, and never fewer than y. R of a may start when more
//! than k of B of c have ended.
//!
//! *Room for the next B*, where any chunk recomputes. Where y B of a chunk have ended, that of microbatch y is still to
//! run, and its R runs before it: then the chunk holds M_B of it, and of the others no less than now, but for what waits for W.
//! So that must fit. Of c too much may be gone until the next B of a; but until the next B of c no more than y_c of a have
//! ended, so what a holds of the others counts there.
//!
//! *More chunks.* What others hold is left out, which is weaker, never wrong: for a pass of the lowest chunk it and
//! the highest are counted, for a pass of another chunk it and the lowest.
//!
//! Ways are left out whose last B or W is known to be behind the pass or cannot end by its last start; if none is left, that
//! is a contradiction. The pass starts no sooner than what is before it and what one of the others asks for can be done;
//! what all of them ask for is before it; and behind it is the first forward of the other chunk, and the first of every
//! other lane of F or R where any chunk recomputes, for which none of them has room.

use super::passes::{AGAIN, Held};
use super::propagate::{End, Propagation};

/// Up to so many microbatches every split of W between two chunks is a way of its own; beyond, the W of
/// either chunk are counted as if those of the other were all done, which is weaker.
const FEW: usize = 12;

/// A pass that allocates memory, and the feasible counts found for it.
pub(super) struct Needy {
    /// The first lane of the stage, the lane of the pass counted from it, and the microbatch.
    first: usize,
    own: usize,
    microbatch: usize,
    /// The lanes of F of the chunks that count, the lower one first; twice the same where it is one.
    chunks: [usize; 2],
    /// Which of them is that of the pass.
    home: usize,
    held: [Held; 2],
    limit: u64,
    is_one: bool,
    /// Whether any chunk recomputes.
    again: bool,
    /// By chunk, the fewest F and R that have started, the pass among them.
    started: [[usize; 2]; 2],
    /// The last start of the pass.
    until: i64,
    /// When it starts at the soonest, without regard to room.
    head: i64,
    /// The same with room.
    least: i64,
    /// The fewest B and W of each chunk that a way asks for, chunk by chunk.
    common: [usize; 4],
    /// By chunk, the most F and R that a way has room for.
    fitting: [[usize; 2]; 2],
}

/// So many B and W of each chunk have ended.
type Counts = [[usize; 2]; 2];

impl Propagation<'_> {
    /// The head of the pass of microbatch `k` in lane `own`, whose counts are in `row`, if that was `head`.
    pub(super) fn make_room(
        &mut self,
        stage: usize,
        own: usize,
        k: usize,
        head: i64,
    ) -> Result<i64, End> {
        let Some(limit) = self.passes.limits[stage] else { return Ok(head) };
        let mut needy = self.needy([stage, own, k], limit, head);
        if needy.is_one {
            self.ways_of_one(&mut needy)?;
        } else {
            self.ways_of_two(&mut needy)?;
        }
        if needy.least == i64::MAX {
            return Err(End::Empty);
        }
        for (lane, count) in needy.asked_lanes().into_iter().zip(needy.common) {
            let known = &mut self.row[lane];
            *known = (*known).max(u32::try_from(count).unwrap_or(u32::MAX));
        }
        if needy.again {
            needy.rivals().for_each(|(chunk, kind)| self.put_behind(&needy, chunk, kind));
        } else if !needy.is_one {
            self.put_behind(&needy, 1 - needy.home, 0);
        }
        Ok(head.max(needy.least))
    }

    /// The state of the pass of a stage, lane and microbatch before any feasible counts are added.
    fn needy(&self, [stage, own, k]: [usize; 3], limit: u64, head: i64) -> Needy {
        let kinds = self.passes.kinds;
        let (first, top) = (stage * self.passes.width, self.passes.width - kinds);
        let forward = own - own % kinds;
        let home = usize::from(forward > 0);
        let chunks = if forward == 0 { [0, top] } else { [0, forward] };
        let again = kinds > AGAIN;
        let before = |lane: usize| self.row[lane] as usize;
        let mut started =
            chunks.map(|lane| [before(lane), if again { before(lane + AGAIN) } else { 0 }]);
        started[home][usize::from(own > forward)] = k + 1;
        Needy {
            first,
            own,
            microbatch: k,
            chunks,
            home,
            held: chunks.map(|lane| self.passes.held[(first + lane) / kinds]),
            limit,
            is_one: top == 0,
            again,
            started,
            until: self.windows.lasts[self.windows.at(first + own, k)],
            head,
            least: i64::MAX,
            common: [usize::MAX; 4],
            fitting: [[0; 2]; 2],
        }
    }

    /// Puts the F of a chunk, or its R, behind the pass for which no way has room.
    fn put_behind(&mut self, needy: &Needy, chunk: usize, kind: usize) {
        let fitting = needy.fitting[chunk][kind];
        if fitting < self.windows.microbatches {
            let passes = self.passes;
            let lane = needy.first + needy.chunks[chunk] + AGAIN * kind;
            let count = u32::try_from(needy.microbatch + 1).unwrap_or(u32::MAX);
            let known = &mut self.windows.row(passes, lane, fitting)[needy.own];
            if *known < count {
                *known = count;
                self.changed = true;
            }
        }
    }

    /// By which microbatch on B or W of a chunk are behind the pass or cannot end in time, from `from` on.
    fn can_have(&self, needy: &Needy, lane: usize, from: usize, to: usize) -> usize {
        let global = needy.first + lane;
        let time = self.passes.lanes[global].time;
        let mut count = from;
        while count < to {
            let at = self.windows.at(global, count);
            let is_behind =
                self.windows.before[at * self.passes.width + needy.own] as usize > needy.microbatch;
            if is_behind || self.windows.heads[at] + time > needy.until {
                break;
            }
            count += 1;
        }
        count
    }

    /// By chunk that counts, the fewest and the most B and W that can have ended when the pass starts.
    fn ranges(&self, needy: &Needy) -> [Counts; 2] {
        let known = needy.chunks.map(|lane| [1, 2].map(|kind| self.row[lane + kind] as usize));
        let mut most = known;
        for (chunk, lane) in needy.chunks.into_iter().enumerate() {
            let is_ahead = chunk > needy.home && needy.is_recompute();
            let to = if is_ahead { self.windows.microbatches } else { needy.microbatch };
            for kind in 0..2 {
                most[chunk][kind] = self.can_have(needy, lane + 1 + kind, known[chunk][kind], to);
            }
        }
        [known, most]
    }

    fn ways_of_one(&mut self, needy: &mut Needy) -> Result<(), End> {
        let [known, most] = self.ranges(needy);
        let until_weight = needy.held[0].until_weight;
        let mut is_settled = false;
        for done in known[0][0]..=most[0][0] {
            let ended = [done; 2];
            if needy.again && !needy.lets_return(ended, self.windows.microbatches) {
                continue;
            }
            let Some(room) = needy.left(&needy.started, ended) else { continue };
            let weights = least_done(done, until_weight, room).max(known[0][1]);
            if weights <= most[0][1] && !is_settled {
                self.way(needy, [[done, weights], [0, 0]])?;
            }
            is_settled |= weights == known[0][1];
            if needy.again {
                needy.rivals().for_each(|rival| needy.let_start(rival, ended, &most));
            } else if is_settled {
                break;
            }
        }
        Ok(())
    }

    fn ways_of_two(&mut self, needy: &mut Needy) -> Result<(), End> {
        let [known, most] = self.ranges(needy);
        for lower in known[0][0]..=most[0][0] {
            for higher in known[1][0].max(lower)..=most[1][0] {
                let ended = [lower, higher];
                let returns = match needy.again {
                    true => needy.lets_return(ended, self.windows.microbatches),
                    false => needy.home == 1 || lower < higher || needy.lets_come_back(ended),
                };
                if !returns {
                    continue;
                }
                let Some(room) = needy.left(&needy.started, ended) else { continue };
                self.splits(needy, ended, room, [known, most])?;
                if needy.again {
                    needy.rivals().for_each(|rival| needy.let_start(rival, ended, &most));
                } else {
                    needy.let_start((1 - needy.home, 0), ended, &most);
                }
            }
        }
        Ok(())
    }

    /// The ways with so many B, that differ in W.
    fn splits(
        &mut self,
        needy: &mut Needy,
        ended: [usize; 2],
        room: u64,
        [known, most]: [Counts; 2],
    ) -> Result<(), End> {
        let sizes = needy.held.map(|held| held.until_weight);
        let [lower, higher] =
            [0, 1].map(|at| least_done(ended[at], sizes[at], room).max(known[at][1]));
        if self.passes.microbatches > FEW {
            if lower <= most[0][1] && higher <= most[1][1] {
                self.way(needy, [[ended[0], lower], [ended[1], higher]])?;
            }
            return Ok(());
        }
        for weights in lower..=most[0][1].min(ended[0].max(lower)) {
            let waiting = ended[0].saturating_sub(weights) as u64;
            let Some(rest) = room.checked_sub(waiting * sizes[0]) else { continue };
            let other = least_done(ended[1], sizes[1], rest).max(known[1][1]);
            if other <= most[1][1] {
                self.way(needy, [[ended[0], weights], [ended[1], other]])?;
            }
            if other == known[1][1] {
                break;
            }
        }
        Ok(())
    }

    /// Takes a way into account whose last passes can end in time.
    fn way(&mut self, needy: &mut Needy, counts: Counts) -> Result<(), End> {
        self.spend(1)?;
        let [[b, w], [other_b, other_w]] = counts;
        let counts = [b, w, other_b, other_w];
        for (common, count) in needy.common.iter_mut().zip(counts) {
            *common = (*common).min(count);
        }
        if needy.least <= needy.head {
            return Ok(());
        }
        let mut end = needy.head;
        let lanes = needy.asked_lanes();
        let asked = || lanes.into_iter().zip(counts);
        for (lane, count) in asked().filter(|(_, count)| *count > 0) {
            let at = self.windows.at(needy.first + lane, count - 1);
            end = end.max(self.windows.heads[at] + self.passes.lanes[needy.first + lane].time);
        }
        if end >= needy.least {
            return Ok(());
        }
        let width = self.passes.width;
        self.joined.copy_from_slice(&self.row);
        for (lane, count) in asked().filter(|(_, count)| *count > 0) {
            self.joined[lane] = self.joined[lane].max(u32::try_from(count).unwrap_or(u32::MAX));
            let at = self.windows.at(needy.first + lane, count - 1) * width;
            let other = &self.windows.before[at..at + width];
            self.joined.iter_mut().zip(other).for_each(|(to, from)| *to = (*to).max(*from));
        }
        needy.least = needy.least.min(self.done(end, true)?);
        Ok(())
    }
}

impl Needy {
    /// Whether it is an R.
    fn is_recompute(&self) -> bool {
        self.own > self.chunks[self.home]
    }

    /// The lanes of B and W of the chunks that count.
    fn asked_lanes(&self) -> [usize; 4] {
        let [lower, higher] = self.chunks;
        [lower + 1, lower + 2, higher + 1, higher + 2]
    }

    /// Bytes held by a chunk for microbatches whose B has not ended, with the given numbers of F and R started and of
    /// B ended; `None` on overflow.
    #[inline]
    fn taken(&self, chunk: usize, [forwards, again]: [usize; 2], ended: usize) -> Option<u64> {
        let Held { kept, rest, .. } = self.held[chunk];
        let active = (forwards.saturating_sub(ended) as u64).checked_mul(kept)?;
        if rest == 0 {
            return Some(active);
        }
        (again.saturating_sub(ended) as u64).checked_mul(rest)?.checked_add(active)
    }

    /// Bytes left under the limit beside the microbatches whose B has not ended; `None` if the limit is exceeded.
    #[inline]
    fn left(&self, started: &Counts, ended: [usize; 2]) -> Option<u64> {
        let left = self.limit.checked_sub(self.taken(0, started[0], ended[0])?)?;
        if self.is_one {
            Some(left)
        } else {
            left.checked_sub(self.taken(1, started[1], ended[1])?)
        }
    }

    /// Whether the next B of each chunk that has one, of so many microbatches, fits, too.
    fn lets_return(&self, ended: [usize; 2], microbatches: usize) -> bool {
        let next = |chunk: usize| self.started[chunk].map(|count| count.max(ended[chunk] + 1));
        let [lower, higher] = [0, 1].map(next);
        if self.taken(0, lower, ended[0]).is_none_or(|taken| taken > self.limit) {
            return false;
        }
        let is_last = self.is_one || ended[1] == microbatches;
        is_last || self.left(&[self.started[0], higher], [ended[1]; 2]).is_some()
    }

    /// Whether the way back of the microbatch whose B are next in both chunks fits, too.
    fn lets_come_back(&self, ended: [usize; 2]) -> bool {
        let next = self.started[1][0].max(ended[1] + 1);
        self.left(&[self.started[0], [next, 0]], ended).is_some()
    }

    /// The chunks and kinds, F or R, of the other lanes that need room.
    fn rivals(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let own = (self.home, usize::from(self.is_recompute()));
        let chunks = if self.is_one { 0..1 } else { 0..2 };
        chunks.flat_map(|chunk| [(chunk, 0), (chunk, 1)]).filter(move |&rival| rival != own)
    }

    /// Notes how many F of a chunk, or R, can have started where so many B have ended, and as many W as can.
    fn let_start(&mut self, (chunk, kind): (usize, usize), ended: [usize; 2], most: &Counts) {
        let mut started = self.started;
        started[chunk][kind] = 0;
        let waiting = |chunk: usize| {
            let waiting = ended[chunk].saturating_sub(most[chunk][1]) as u64;
            waiting.saturating_mul(self.held[chunk].until_weight)
        };
        let waiting = if self.is_one { waiting(0) } else { waiting(0).saturating_add(waiting(1)) };
        let room = self.left(&started, ended).and_then(|room| room.checked_sub(waiting));
        let Some(room) = room else { return };
        let size = if kind == 0 { self.held[chunk].kept } else { self.held[chunk].rest };
        let more = room
            .checked_div(size)
            .map_or(usize::MAX, |more| usize::try_from(more).unwrap_or(usize::MAX));
        let fitting = &mut self.fitting[chunk][kind];
        *fitting = (*fitting).max(more.saturating_add(ended[chunk]));
    }
}

/// How many of `ended` W must be done where `room` is left for the others.
fn least_done(ended: usize, size: u64, room: u64) -> usize {
    let waiting = room.checked_div(size);
    waiting
        .map_or(0, |waiting| ended.saturating_sub(usize::try_from(waiting).unwrap_or(usize::MAX)))
}
