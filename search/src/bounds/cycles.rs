//! Round trips: memory makes later forwards wait until earlier microbatches have come back.

use super::line::{Line, Part, Station};

/// Lower bounds on the time from the first F to the end of the last B of a stage with one chunk,
/// and from its first F to its last pass; `None` where memory never makes a forward wait, or where
/// a stage has several chunks.
///
/// Microbatches are numbered in the order in which the stage runs them. Let F_k be the (k+1)-th
/// forward of the stage, g_k a time before which it does not start, and b_j the same for its
/// (j+1)-th B. Times count from its first F; f, b, w are those of the stage.
///
/// Where the stage recomputes, M_B stands for what is kept of it, which it holds at the least, and R takes
/// no time here: an order without its R is one of such passes, and no longer. But each B also needs the rest, which its R
/// has taken: so K, below, is the most M_B that the limit holds beside that. When F_k starts and y B have ended, the
/// (y+1)-th is still to run, behind F_k, so k + 1 - y are no more than K.
///
/// *Backwards.* Every B comes behind its own F and the round trip r: b_j >= g_j + f + r; and the time
/// b of a B behind the one before it.
///
/// *Forwards.* Before F_k starts, k F have run, some number y of B and z <= y of W. What is held
/// then, F_k's own included, is (k + 1 - y) M_B + (y - z) M_W, and must not exceed the limit. For
/// given y let z be as small as that allows. F_k starts no sooner than the soonest over all y of:
///
/// * g_{k-1} + f;
/// * for any j < y: when the (j+1)-th B starts, at most j B and j W have run, and at most K + j F,
///   with K the most M_B that the limit holds. So b_j, and then y - j B, z - j W and k - K - j F
///   (those of them that are positive).
///
/// *End.* The same with all m of each: the last B ends no sooner than any b_j and all the work that
/// must come after it, but for the W that can come after the last B.
pub(super) struct Cycles {
    /// The bound up to the end of the last B.
    pub(super) until_last_backward: u64,
    /// The bound up to the end of the last W.
    pub(super) span: u64,
    /// g_k: no F starts sooner, by microbatch.
    pub(super) forwards: Vec<u64>,
}

impl Cycles {
    pub(super) fn of(line: &Line, station: &Station, after: u64) -> Option<Self> {
        let [part] = station.parts[..] else { return None };
        let held = station.limit.checked_sub(part.recomputed)?.checked_div(part.until_backward)?;
        if held == 0 || held >= line.microbatches {
            return None;
        }
        let mut trips = Trips::new(part, station.limit, held);
        let mut forwards = Vec::with_capacity(usize::try_from(line.microbatches).unwrap_or(0));
        let mut forward = 0;
        for k in 0..line.microbatches {
            if k > 0 {
                forward = trips.next_forward(k, forward + part.f);
            }
            forwards.push(forward);
            trips.add_backward(forward + part.f + part.round);
        }
        Some(trips.end(line.microbatches, (after, forwards)))
    }
}

/// The backwards so far.
struct Trips {
    part: Part,
    limit: u64,
    /// The most M_B that the limit holds where a B runs, K.
    held: u64,
    /// b_j.
    backwards: Vec<u64>,
    /// Over b_0..b_j, the greatest b_j less j times B; B and W; B and F; all three.
    leads: Vec<[i128; 4]>,
}

impl Trips {
    fn new(part: Part, limit: u64, held: u64) -> Self {
        Self { part, limit, held, backwards: Vec::new(), leads: Vec::new() }
    }

    fn add_backward(&mut self, arrival: u64) {
        let before = self.backwards.last().map_or(0, |last| last + self.part.b);
        let start = arrival.max(before);
        let j = self.backwards.len() as i128;
        let mut leads = self.rates().map(|rate| i128::from(start) - j * rate);
        if let Some(last) = self.leads.last() {
            leads.iter_mut().zip(last).for_each(|(lead, last)| *lead = (*lead).max(*last));
        }
        self.backwards.push(start);
        self.leads.push(leads);
    }

    fn rates(&self) -> [i128; 4] {
        let Part { f, b, w, .. } = self.part;
        [b, b + w, b + f, b + w + f].map(i128::from)
    }

    /// A time before which `forwards` F, `done` B and `freed` W cannot all have ended.
    fn all_done(&self, forwards: u64, done: u64, freed: u64) -> u64 {
        let Part { f, b, w, .. } = self.part;
        let last = usize::try_from(done).ok().and_then(|done| done.checked_sub(1));
        let Some(leads) = last.and_then(|last| self.leads.get(last)) else { return 0 };
        let [b, w, f] = [(done, b), (freed, w), (forwards, f)]
            .map(|(count, time)| i128::from(count) * i128::from(time));
        let f = f - i128::from(self.held) * i128::from(self.part.f);
        // The greatest over all choices of what to count takes, for every j, what is positive.
        let ends = [leads[0] + b, leads[1] + b + w, leads[2] + b + f, leads[3] + b + w + f];
        u64::try_from(ends.into_iter().fold(0, i128::max)).unwrap_or(0)
    }

    /// The soonest start of the forward behind `k` others, no sooner than `least`.
    fn next_forward(&self, k: u64, least: u64) -> u64 {
        let Part { until_backward, until_weight, b, .. } = self.part;
        let mut soonest = None;
        for done in (k + 1).saturating_sub(self.held)..=k {
            let ended = done.checked_sub(1).and_then(|last| usize::try_from(last).ok());
            let started = ended.map_or(0, |last| self.backwards[last] + b);
            if soonest.is_some_and(|soonest: u64| soonest <= started.max(least)) {
                break;
            }
            let room = self.limit - (k + 1 - done) * until_backward;
            let waiting = room.checked_div(until_weight).unwrap_or(done);
            let start = self.all_done(k, done, done.saturating_sub(waiting)).max(least);
            soonest = Some(soonest.map_or(start, |soonest| start.min(soonest)));
        }
        soonest.unwrap_or(least)
    }

    /// `after`: the most time of W that comes after the last B; `forwards`: g_k.
    fn end(&self, microbatches: u64, (after, forwards): (u64, Vec<u64>)) -> Cycles {
        let span = self.all_done(microbatches, microbatches, microbatches);
        let last = self.backwards.last().map_or(0, |last| last + self.part.b);
        Cycles { until_last_backward: last.max(span.saturating_sub(after)), span, forwards }
    }
}
