//! When passes can start, and which run before which, if no order may cost more than some cost.
//!
//! Which passes of a stage run before which is a table of bits, kept closed: what is before a pass is
//! before all that is behind it. Every step concludes from what is known already:
//!
//! 1. A value arrives a hop after the end of the pass that makes it.
//! 2. A pass that cannot end before another must start runs behind it.
//! 3. A pass starts when all that runs before it has ended: no sooner than that can be done, one pass
//!    after the other, none before its earliest start. Likewise behind it.
//! 4. Passes that must all have ended at some time have room until then.
//! 5. With every pass, its stage holds no more than its limit: the numbers of F, R, B and W of each chunk before it
//!    lie within bounds, with never more B than F or R, or W than B, and the least memory over such counts must fit. Where it fits only with some other pass before it, or only without,
//!    that one is before it, or behind.
//! 6. At the start of an F or R, one of the [feasible counts](Needy::feasible_counts) of completed passes on its stage
//!    holds, less those whose last passes are behind it or cannot end in time. It starts no sooner than
//!    the passes before it together with those of one of the counts can end, behind the passes that all of them
//!    include, and before those F and R of which none of them has room for one more.
//! 7. W of two chunks of a stage that take as long and free as much run in the order of their B: of two such W the
//!    one that runs first may be taken to be that of the B that runs first. As many B have run before each W as
//!    before, those of a chunk stay in order, and what is held stays the same.

use std::ops::Range;

use super::feasible_counts::Needy;
use super::stages::{End, RECOMPUTE, Spent, Stages};

/// With more passes than this, step 5 takes too long, and is left out.
const MOST_FITTED: usize = 3_000;

/// A cost that no order exceeds: all times together are far below it.
const NEVER: i128 = 1 << 100;

/// Start-time windows and precedence of all passes.
#[derive(Clone)]
pub(crate) struct Windows {
    earliest: Vec<i128>,
    last: Vec<i128>,
    /// By pass, a bit for each pass of its stage: those before it, and those behind it.
    before: Vec<u64>,
    behind: Vec<u64>,
    /// The stages to look at.
    open: Vec<bool>,
}

impl Windows {
    /// Those of all orders that cost `most` or less; nothing if some window is empty already.
    pub(crate) fn within(stages: &Stages, most: i128) -> Option<Self> {
        let windows = Self::of(stages, most);
        windows.are_open().then_some(windows)
    }

    /// Those of all orders, without a cost limit.
    pub(super) fn alone(stages: &Stages) -> Self {
        Self::of(stages, NEVER)
    }

    fn of(stages: &Stages, most: i128) -> Self {
        let (passes, each) = (stages.passes(), stages.passes_per_stage());
        let bits = passes * each.div_ceil(64);
        let mut windows = Self {
            earliest: Vec::with_capacity(passes),
            last: Vec::with_capacity(passes),
            before: vec![0; bits],
            behind: vec![0; bits],
            open: vec![true; passes / each],
        };
        for pass in 0..passes {
            let (lane, first) = (pass / stages.microbatches, pass / each * stages.chunks);
            let begin = stages.alone[first][0];
            windows.earliest.push(stages.alone[lane / stages.kinds][lane % stages.kinds]);
            let end = if stages.makespan { most } else { begin + most };
            let last = end - stages.time(pass);
            windows.last.push(if pass % each == 0 { last.min(begin) } else { last });
        }
        (0..passes).step_by(each).for_each(|begin| windows.give(stages, begin));
        windows
    }

    fn are_open(&self) -> bool {
        self.earliest.iter().zip(&self.last).all(|(earliest, last)| earliest <= last)
    }

    /// Those of the first microbatches, the passes of `first`, without a cost limit: with what is known here
    /// of when they start at the soonest.
    pub(super) fn first_only(&self, stages: &Stages, first: &Stages) -> Self {
        let mut windows = Self::alone(first);
        for (pass, earliest) in windows.earliest.iter_mut().enumerate() {
            let (lane, microbatch) = (pass / first.microbatches, pass % first.microbatches);
            *earliest = self.earliest[lane * stages.microbatches + microbatch];
        }
        windows
    }

    /// Takes it that `pass` starts before `time`: whether its window is still open.
    pub(super) fn starts_before(&mut self, pass: usize, time: i128) -> bool {
        self.last[pass] = self.last[pass].min(time - 1);
        self.earliest[pass] <= self.last[pass]
    }

    /// Notes that passes start no sooner than in `other`: whether all windows are still open.
    pub(super) fn raise(&mut self, other: &Self) -> bool {
        self.earliest.iter_mut().zip(&other.earliest).for_each(|(to, from)| *to = (*to).max(*from));
        self.are_open()
    }

    /// Notes that `pass` starts at `time` or later: whether its window is still open.
    pub(super) fn starts_no_sooner(&mut self, stages: &Stages, pass: usize, time: i128) -> bool {
        self.not_sooner(stages, pass, time).is_ok()
    }

    /// Notes which passes of a stage run before which in every schedule.
    fn give(&mut self, stages: &Stages, begin: usize) {
        let each = stages.passes_per_stage();
        for (pass, direct) in stages.given(begin) {
            for early in direct.into_iter().flatten() {
                let from = self.before[Self::row(stages, early)].to_vec();
                let row = &mut self.before[Self::row(stages, pass)];
                row.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
                row[(early - begin) / 64] |= 1 << ((early - begin) % 64);
            }
        }
        for pass in begin..begin + each {
            for other in begin..begin + each {
                if self.is_before(stages, pass, other) {
                    let at = Self::row(stages, pass).start + (other - begin) / 64;
                    self.behind[at] |= 1 << ((other - begin) % 64);
                }
            }
        }
    }

    /// Draws all conclusions, from `decided` too, that its first pass runs before its second: whether
    /// windows are left that do not contradict each other.
    pub(crate) fn conclude(
        &mut self,
        stages: &Stages,
        decided: Option<(usize, usize)>,
    ) -> Result<bool, Spent> {
        match self.until_nothing_changes(stages, decided) {
            Ok(()) => Ok(true),
            Err(End::Empty) => Ok(false),
            Err(End::Spent) => Err(Spent),
        }
    }

    fn until_nothing_changes(
        &mut self,
        stages: &Stages,
        decided: Option<(usize, usize)>,
    ) -> Result<(), End> {
        if let Some((one, other)) = decided {
            self.order(stages, one, other)?;
        }
        let each = stages.passes_per_stage();
        let count = self.open.len();
        while self.open.contains(&true) {
            // Forwards go down the line, backwards up.
            for stage in (0..count).chain((0..count).rev()) {
                if std::mem::take(&mut self.open[stage]) {
                    stages.spend(each * each)?;
                    self.look_at(stages, stage * each..(stage + 1) * each)?;
                }
            }
        }
        Ok(())
    }

    /// Every step for the passes of one stage.
    fn look_at(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        for pass in passes.clone() {
            self.arrive(stages, pass)?;
        }
        self.compare(stages, passes.clone())?;
        self.keep_twins(stages, passes.clone())?;
        self.fill(stages, passes.clone())?;
        self.follow(stages, passes.clone())?;
        self.precede(stages, passes.clone())?;
        self.leave_room(stages, passes.clone())?;
        if stages.passes() > MOST_FITTED {
            return Ok(());
        }
        passes.clone().try_for_each(|pass| self.fit(stages, pass))
    }

    fn row(stages: &Stages, pass: usize) -> Range<usize> {
        let words = stages.passes_per_stage().div_ceil(64);
        pass * words..(pass + 1) * words
    }

    fn is_before(&self, stages: &Stages, one: usize, other: usize) -> bool {
        has(&self.before[Self::row(stages, other)], one % stages.passes_per_stage())
    }

    /// Notes that `one` runs before `other`, and all that is before the one before all that is behind
    /// the other.
    fn order(&mut self, stages: &Stages, one: usize, other: usize) -> Result<(), End> {
        if one == other || self.is_before(stages, other, one) {
            return Err(End::Empty);
        }
        if self.is_before(stages, one, other) {
            return Ok(());
        }
        let each = stages.passes_per_stage();
        self.open[one / each] = true;
        stages.spend(each)?;
        let begin = one / each * each;
        let bit =
            |row: &mut [u64], pass: usize| row[(pass - begin) / 64] |= 1 << ((pass - begin) % 64);
        let mut early = self.before[Self::row(stages, one)].to_vec();
        bit(&mut early, one);
        let mut late = self.behind[Self::row(stages, other)].to_vec();
        bit(&mut late, other);
        for pass in begin..begin + each {
            let place = pass - begin;
            let is_in = |row: &[u64]| row[place / 64] >> (place % 64) & 1 == 1;
            let row = Self::row(stages, pass);
            if is_in(&late) {
                self.before[row.clone()].iter_mut().zip(&early).for_each(|(to, from)| *to |= from);
            }
            if is_in(&early) {
                self.behind[row].iter_mut().zip(&late).for_each(|(to, from)| *to |= from);
            }
        }
        Ok(())
    }

    fn not_sooner(&mut self, stages: &Stages, pass: usize, time: i128) -> Result<(), End> {
        if time > self.earliest[pass] {
            self.earliest[pass] = time;
            self.open[pass / stages.passes_per_stage()] = true;
            if let Some(taker) = stages.takers[pass / stages.microbatches] {
                self.open[taker] = true;
            }
        }
        if self.earliest[pass] > self.last[pass] { Err(End::Empty) } else { Ok(()) }
    }

    fn not_later(&mut self, stages: &Stages, pass: usize, time: i128) -> Result<(), End> {
        if time < self.last[pass] {
            self.last[pass] = time;
            self.open[pass / stages.passes_per_stage()] = true;
        }
        if self.earliest[pass] > self.last[pass] { Err(End::Empty) } else { Ok(()) }
    }

    /// Step 1.
    fn arrive(&mut self, stages: &Stages, pass: usize) -> Result<(), End> {
        let (lane, microbatch) = (pass / stages.microbatches, pass % stages.microbatches);
        let (chunk, kind) = (lane / stages.kinds, lane % stages.kinds);
        let Some(Some((from, hop))) = stages.inputs[chunk].get(kind).copied() else {
            return Ok(());
        };
        let from = from + microbatch;
        let takes = stages.time(from) + hop;
        self.not_sooner(stages, pass, self.earliest[from] + takes)?;
        self.not_later(stages, from, self.last[pass] - takes)
    }

    /// Step 2.
    fn compare(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        for one in passes.clone() {
            let end = self.earliest[one] + stages.time(one);
            for other in passes.clone() {
                if one != other && end > self.last[other] {
                    self.order(stages, other, one)?;
                }
            }
        }
        Ok(())
    }

    /// Step 7.
    fn keep_twins(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        let m = stages.microbatches;
        let first = passes.start / m / stages.kinds;
        let chunks = first..first + stages.chunks;
        let pairs = chunks.clone().flat_map(|one| chunks.clone().map(move |other| (one, other)));
        for (one, other) in pairs.filter(|&(one, other)| stages.are_twins(one, other)) {
            for (b, its_b) in (0..m * m).map(|at| (at / m, at % m)) {
                let [b, its_b] = [stages.lane(one, 1) * m + b, stages.lane(other, 1) * m + its_b];
                let [w, its_w] = [b + m, its_b + m];
                if self.is_before(stages, b, its_b) {
                    self.order(stages, w, its_w)?;
                } else if self.is_before(stages, w, its_w) {
                    self.order(stages, b, its_b)?;
                }
            }
        }
        Ok(())
    }

    /// Step 3, forwards in time.
    fn follow(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        let mut sorted = self.seen(stages, passes.clone());
        sorted.sort_by_key(|one| one.earliest);
        for pass in passes {
            let row = &self.before[Self::row(stages, pass)];
            let done = sorted.iter().filter(|one| has(row, one.place));
            let done = done.fold(i128::MIN, |done, one| done.max(one.earliest) + one.time);
            self.not_sooner(stages, pass, done)?;
        }
        Ok(())
    }

    /// Step 3, backwards in time.
    fn precede(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        let mut sorted = self.seen(stages, passes.clone());
        sorted.sort_by_key(|one| -one.until);
        for pass in passes {
            let row = &self.behind[Self::row(stages, pass)];
            let begin = sorted.iter().filter(|one| has(row, one.place));
            let begin = begin.fold(i128::MAX, |begin, one| begin.min(one.until) - one.time);
            if begin < i128::MAX {
                self.not_later(stages, pass, begin - stages.time(pass))?;
            }
        }
        Ok(())
    }

    /// Step 4.
    fn fill(&self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        let mut sorted = self.seen(stages, passes);
        sorted.sort_by_key(|one| one.earliest);
        for last in &sorted {
            let within = sorted.iter().filter(|one| one.until <= last.until);
            let done = within.fold(i128::MIN, |done, one| done.max(one.earliest) + one.time);
            if done > last.until {
                return Err(End::Empty);
            }
        }
        Ok(())
    }

    /// The passes of a stage with their windows.
    fn seen(&self, stages: &Stages, passes: Range<usize>) -> Vec<Seen> {
        let seen = |(place, pass): (usize, usize)| {
            let time = stages.time(pass);
            Seen { place, earliest: self.earliest[pass], until: self.last[pass] + time, time }
        };
        passes.enumerate().map(seen).collect()
    }

    /// Step 6.
    fn leave_room(&mut self, stages: &Stages, passes: Range<usize>) -> Result<(), End> {
        let each = stages.passes_per_stage();
        let Some(limits) = &stages.limits else { return Ok(()) };
        let limit = limits[passes.start / each];
        let mut sorted = self.seen(stages, passes.clone());
        sorted.sort_by_key(|one| one.earliest);
        let lanes = passes.start / stages.microbatches..passes.end / stages.microbatches;
        for lane in lanes.filter(|lane| lane % stages.kinds == 0 || stages.takes(*lane) > 0) {
            for microbatch in 0..stages.microbatches {
                self.leave_room_for(stages, &sorted, [lane, microbatch], limit)?;
            }
        }
        Ok(())
    }

    /// Step 6 for a pass of a lane of F or R; `sorted` are the passes of its stage by earliest start.
    fn leave_room_for(
        &mut self,
        stages: &Stages,
        sorted: &[Seen],
        [lane, microbatch]: [usize; 2],
        limit: i128,
    ) -> Result<(), End> {
        let pass = lane * stages.microbatches + microbatch;
        let width = stages.kinds * stages.chunks;
        let first = lane / width * width;
        let lanes = first..first + width;
        let ranges = lanes.map(|lane| self.count_in_time(stages, lane, pass)).collect();
        let needy = Needy { stages, lane, microbatch, limit, ranges };
        let feasible = needy.feasible_counts();
        stages.spend(feasible.ended.len())?;
        let place = |chunk: usize, kind: usize, count: usize| {
            (count > 0).then(|| stages.lane(chunk, 1 + kind) * stages.microbatches + count - 1)
        };
        let mut soonest: Option<i128> = None;
        for ended in &feasible.ended {
            let chunks = feasible.chunks.iter().zip(ended);
            let lasts: Vec<usize> = chunks
                .flat_map(|(&chunk, &[b, w])| [place(chunk, 0, b), place(chunk, 1, w)])
                .flatten()
                .collect();
            let end = self.done_after(stages, sorted, pass, &lasts, soonest)?;
            soonest = Some(soonest.map_or(end, |soonest| soonest.min(end)));
        }
        let Some(soonest) = soonest else { return Err(End::Empty) };
        self.not_sooner(stages, pass, soonest)?;
        for (at, &chunk) in feasible.chunks.iter().enumerate() {
            for kind in 0..2 {
                let fewest = feasible.ended.iter().map(|ended| ended[at][kind]).min().unwrap_or(0);
                if let Some(last) = place(chunk, kind, fewest) {
                    self.order(stages, last, pass)?;
                }
            }
        }
        let rivals = feasible.rivals.iter().filter(|(_, started)| *started < stages.microbatches);
        let mut firsts = rivals.map(|(lane, started)| lane * stages.microbatches + started);
        firsts.try_for_each(|rival| self.order(stages, pass, rival))
    }

    /// When all that is before `pass` can be done and `lasts` with all that is before them, or `known` if that is not
    /// sooner.
    fn done_after(
        &self,
        stages: &Stages,
        sorted: &[Seen],
        pass: usize,
        lasts: &[usize],
        known: Option<i128>,
    ) -> Result<i128, End> {
        let ends = lasts.iter().map(|&last| self.earliest[last] + stages.time(last));
        let end = ends.fold(self.earliest[pass], i128::max);
        if let Some(known) = known.filter(|&known| known <= end || known <= self.earliest[pass]) {
            return Ok(known);
        }
        let mut row = self.before[Self::row(stages, pass)].to_vec();
        for &last in lasts {
            let behind = &self.before[Self::row(stages, last)];
            row.iter_mut().zip(behind).for_each(|(to, from)| *to |= from);
            let place = last % stages.passes_per_stage();
            row[place / 64] |= 1 << (place % 64);
        }
        stages.spend(sorted.len())?;
        let before = sorted.iter().filter(|one| has(&row, one.place));
        Ok(end.max(before.fold(i128::MIN, |done, one| done.max(one.earliest) + one.time)))
    }

    /// Number of passes of `lane` that run before `pass`, at least and at most; at most those that can have ended by its
    /// last start.
    fn count_in_time(&self, stages: &Stages, lane: usize, pass: usize) -> [usize; 2] {
        let [surely, perhaps] = self.count(stages, lane, pass);
        let first = lane * stages.microbatches;
        let late = |&count: &usize| {
            let other = first + count;
            self.earliest[other] + stages.time(other) > self.last[pass]
        };
        [surely, (surely..perhaps).find(late).unwrap_or(perhaps)]
    }

    /// Step 5, for the memory held with `pass`.
    fn fit(&mut self, stages: &Stages, pass: usize) -> Result<(), End> {
        let each = stages.passes_per_stage();
        let Some(limit) = stages.limits.as_ref().map(|limits| limits[pass / each]) else {
            return Ok(());
        };
        let lanes = stages.kinds * stages.chunks;
        let first_lane = pass / each * lanes;
        let own = pass / stages.microbatches;
        let [kept, rest, waiting] = stages.held[own / stages.kinds];
        let turned = (waiting - rest - kept).max(0);
        let room = limit - [kept, turned, 0, rest][own % stages.kinds];
        let mut counts: Vec<[usize; 2]> =
            (0..lanes).map(|lane| self.count(stages, first_lane + lane, pass)).collect();
        let chunks = first_lane / stages.kinds;
        if least(stages, chunks, &counts) > room {
            return Err(End::Empty);
        }
        for lane in 0..lanes {
            let [surely, perhaps] = counts[lane];
            let other = |count: usize| (first_lane + lane) * stages.microbatches + count;
            for count in surely..perhaps {
                // Were it behind, so were the rest of its lane.
                counts[lane] = [surely, count];
                if least(stages, chunks, &counts) > room {
                    self.order(stages, other(count), pass)?;
                }
                counts[lane] = [count + 1, perhaps];
                if least(stages, chunks, &counts) > room {
                    self.order(stages, pass, other(count))?;
                }
            }
            counts[lane] = [surely, perhaps];
        }
        Ok(())
    }

    /// Number of passes of `lane` that run before `pass`, at least and at most. They run in order.
    fn count(&self, stages: &Stages, lane: usize, pass: usize) -> [usize; 2] {
        let (m, each) = (stages.microbatches, stages.passes_per_stage());
        let row = Self::row(stages, pass);
        let [before, behind] = [&self.before[row.clone()], &self.behind[row]];
        let own = pass % each;
        let first = lane * m % each;
        let places = first..first + m;
        let surely = places.clone().filter(|&place| has(before, place)).count();
        let open = |&place: &usize| place != own && !has(behind, place);
        [surely, places.filter(open).count()]
    }
}

/// A pass of a stage.
struct Seen {
    /// Its place on the stage.
    place: usize,
    /// Its earliest start.
    earliest: i128,
    /// When it must have ended.
    until: i128,
    time: i128,
}

/// Whether a row of bits has that of `place`.
fn has(row: &[u64], place: usize) -> bool {
    row[place / 64] >> (place % 64) & 1 == 1
}

/// The least memory that a stage holds, whose chunks are those from `chunks` on, where `counts` bounds the number of
/// passes of each lane that have run.
fn least(stages: &Stages, chunks: usize, counts: &[[usize; 2]]) -> i128 {
    let of = |(place, lanes): (usize, &[[usize; 2]])| {
        let sizes = stages.held[chunks + place];
        let [[forwards, _], [fewest, many], [_, weights]] = [lanes[0], lanes[1], lanes[2]];
        let again = lanes.get(RECOMPUTE).map_or(0, |[again, _]| *again);
        let with = |backwards: usize| {
            let active = [forwards, again].map(|started| started.saturating_sub(backwards));
            let counts = [active[0], active[1], backwards.saturating_sub(weights)];
            counts.into_iter().zip(sizes).map(|(count, size)| count as i128 * size).sum::<i128>()
        };
        (fewest..=many).map(with).min().unwrap_or(0)
    };
    counts.chunks_exact(stages.kinds).enumerate().map(of).sum()
}
