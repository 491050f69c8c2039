//! Draws all conclusions from windows, until nothing changes or they contradict each other.
//!
//! 1. *Line.* A value arrives a hop after the end of the pass that makes it.
//! 2. *Pairs.* A pass that cannot end before another of its stage must start runs behind it. What is before
//!    a pass is before all that are behind it.
//! 3. *Sets.* A pass starts when all that run before it have ended: no sooner than that can be done one pass
//!    after the other, none before its head. Likewise from behind.
//! 4. *Memory.* F, and R, starts when one of the [ways to make room for it](super::room) can be done.
//! 5. *Overload.* Passes whose windows lie within a time have room there ([`super::overload`]).

use super::overload;
use super::passes::Passes;
use super::state::{Empty, Windows};

/// Why no more is concluded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Windows contradict each other.
    Empty,
    /// All the work that may be done is done, or the caller wants to stop.
    Spent,
}

impl From<Empty> for End {
    fn from(Empty: Empty) -> Self {
        Self::Empty
    }
}

/// A pass of the stage under propagation.
#[derive(Clone, Copy)]
struct Seen {
    /// Its head, or the time by which it has ended.
    key: i64,
    time: i64,
    /// Its lane, counted from the first of the stage.
    lane: u32,
    microbatch: u32,
}

/// The state of a propagation; what it keeps only saves allocations.
pub(super) struct Propagation<'a> {
    pub(super) passes: &'a Passes,
    pub(super) windows: Windows,
    /// Steps that may still be made.
    pub(super) left: u64,
    /// Whether the caller wants to stop.
    stop: &'a dyn Fn() -> bool,
    /// Stages to look at.
    open: Vec<bool>,
    /// The passes of a stage, sorted.
    sorted: Vec<Seen>,
    /// Where each stands there.
    places: Vec<u32>,
    /// By pass of the stage and lane, the first of the lane that is behind the pass.
    behind: Vec<u32>,
    /// The counts of a pass, and those with a way.
    pub(super) row: Vec<u32>,
    pub(super) joined: Vec<u32>,
    pub(super) changed: bool,
}

impl<'a> Propagation<'a> {
    pub(super) fn new(
        passes: &'a Passes,
        windows: Windows,
        left: u64,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let each = passes.width * windows.microbatches;
        Self {
            passes,
            windows,
            left,
            stop,
            open: vec![true; passes.stages()],
            sorted: Vec::with_capacity(each),
            places: vec![0; each],
            behind: vec![0; each * passes.width],
            row: vec![0; passes.width],
            joined: vec![0; passes.width],
            changed: false,
        }
    }

    /// Leaves out all stages but one until something changes there.
    pub(super) fn look_only_at(&mut self, stage: usize) {
        self.open.fill(false);
        self.open[stage] = true;
    }

    /// Looks at stages down and up the line until nothing changes.
    pub(super) fn run(&mut self) -> Result<(), End> {
        let stages = self.passes.stages();
        while self.open.contains(&true) {
            for stage in (0..stages).chain((0..stages).rev()) {
                if !std::mem::take(&mut self.open[stage]) {
                    continue;
                }
                if (self.stop)() {
                    return Err(End::Spent);
                }
                self.look_at(stage)?;
            }
        }
        Ok(())
    }

    fn look_at(&mut self, stage: usize) -> Result<(), End> {
        self.changed = false;
        self.pull(stage);
        self.forward(stage)?;
        self.backward(stage)?;
        self.overload(stage)?;
        self.wake(stage);
        let each = (self.passes.width * self.windows.microbatches) as u64;
        self.spend(each * self.passes.width as u64)
    }

    pub(super) fn spend(&mut self, steps: u64) -> Result<(), End> {
        self.left = self.left.checked_sub(steps).ok_or(End::Spent)?;
        Ok(())
    }

    /// Marks the stages that need propagation again.
    fn wake(&mut self, stage: usize) {
        let width = self.passes.width;
        self.open[stage] |= self.changed;
        for lane in stage * width..(stage + 1) * width {
            let count = self.windows.microbatches;
            if let Some((to, takes)) = self.passes.lanes[lane].output {
                let later = |k: usize| {
                    let [from, to] = [lane, to].map(|lane| self.windows.at(lane, k));
                    self.windows.heads[from] + takes > self.windows.heads[to]
                };
                if !self.open[to / width] && (0..count).any(later) {
                    self.open[to / width] = true;
                }
            }
            if let Some((from, takes)) = self.passes.lanes[lane].input {
                let sooner = |k: usize| {
                    let [from, to] = [from, lane].map(|lane| self.windows.at(lane, k));
                    self.windows.lasts[to] - takes < self.windows.lasts[from]
                };
                if !self.open[from / width] && (0..count).any(sooner) {
                    self.open[from / width] = true;
                }
            }
        }
    }

    /// Fills `sorted` with the passes of `stage` by `key`.
    fn sort(&mut self, stage: usize, key: impl Fn(&Windows, usize, i64) -> i64) {
        let count = self.windows.microbatches;
        let lanes = stage * self.passes.width..(stage + 1) * self.passes.width;
        self.sorted.clear();
        for (local, lane) in (0u32..).zip(lanes) {
            let time = self.passes.lanes[lane].time;
            for (microbatch, k) in (0u32..).zip(0..count) {
                let key = key(&self.windows, self.windows.at(lane, k), time);
                self.sorted.push(Seen { key, time, lane: local, microbatch });
            }
        }
        self.sorted.sort_by_key(|one| one.key);
        for place in 0..self.sorted.len() {
            self.note_place(place);
        }
    }

    fn note_place(&mut self, place: usize) {
        let Seen { lane, microbatch, .. } = self.sorted[place];
        let at = lane as usize * self.windows.microbatches + microbatch as usize;
        self.places[at] = u32::try_from(place).unwrap_or(u32::MAX);
    }

    /// Step 1: what arrives from other stages, and what they wait for.
    fn pull(&mut self, stage: usize) {
        let count = self.windows.microbatches;
        for lane in stage * self.passes.width..(stage + 1) * self.passes.width {
            let own = self.windows.at(lane, 0);
            if let Some((from, takes)) = self.passes.lanes[lane].input {
                let from = self.windows.at(from, 0);
                for k in 0..count {
                    let arrival = self.windows.heads[from + k] + takes;
                    self.changed |= arrival > self.windows.heads[own + k];
                    self.windows.heads[own + k] = arrival.max(self.windows.heads[own + k]);
                }
            }
            if let Some((to, takes)) = self.passes.lanes[lane].output {
                let to = self.windows.at(to, 0);
                for k in 0..count {
                    let needed = self.windows.lasts[to + k] - takes;
                    self.changed |= needed < self.windows.lasts[own + k];
                    self.windows.lasts[own + k] = needed.min(self.windows.lasts[own + k]);
                }
            }
        }
    }

    /// Raises heads in their order.
    fn forward(&mut self, stage: usize) -> Result<(), End> {
        self.sort(stage, |windows, at, _| windows.heads[at]);
        let mut place = 0;
        while place < self.sorted.len() {
            let Seen { key, time, lane, microbatch } = self.sorted[place];
            let (own, k) = (lane as usize, microbatch as usize);
            let global = stage * self.passes.width + own;
            let at = self.windows.at(global, k);
            self.close(stage, own, k, key + time)?;
            let mut head = self.done(key, false)?;
            if self.passes.lanes[global].takes {
                head = self.make_room(stage, own, k, head)?;
            }
            if self.windows.row(self.passes, global, k) != &self.row[..] {
                self.changed = true;
                let row = at * self.passes.width;
                self.windows.before[row..row + self.passes.width].copy_from_slice(&self.row);
            }
            if head > self.windows.lasts[at] {
                return Err(End::Empty);
            }
            if head == key {
                place += 1;
                continue;
            }
            self.windows.heads[at] = head;
            self.changed = true;
            self.move_up(place, head);
        }
        Ok(())
    }

    /// Gives the pass at `place` of `sorted` a greater key.
    fn move_up(&mut self, mut place: usize, key: i64) {
        let mut one = self.sorted[place];
        one.key = key;
        while let Some(&next) = self.sorted.get(place + 1).filter(|next| next.key < key) {
            self.sorted[place] = next;
            self.note_place(place);
            place += 1;
        }
        self.sorted[place] = one;
        self.note_place(place);
    }

    /// Step 2: fills `row` with the counts of what runs before a pass that ends at `end` or later.
    fn close(&mut self, stage: usize, own: usize, k: usize, end: i64) -> Result<(), End> {
        let (width, count) = (self.passes.width, self.windows.microbatches);
        let first = stage * width;
        let at = self.windows.at(first + own, k) * width;
        self.row.copy_from_slice(&self.windows.before[at..at + width]);
        for lane in (0..width).filter(|&lane| lane != own) {
            let lasts = self.windows.at(first + lane, 0);
            let mut before = self.row[lane] as usize;
            while before < count && self.windows.lasts[lasts + before] < end {
                before += 1;
            }
            self.row[lane] = u32::try_from(before).unwrap_or(u32::MAX);
        }
        for lane in 0..width {
            self.join_row(first, lane);
        }
        if self.row[own] as usize > k { Err(End::Empty) } else { Ok(()) }
    }

    /// Joins to `row` what is before the last of a lane that it holds.
    fn join_row(&mut self, first: usize, lane: usize) {
        let Some(last) = (self.row[lane] as usize).checked_sub(1) else { return };
        let width = self.passes.width;
        let at = self.windows.at(first + lane, last) * width;
        let other = &self.windows.before[at..at + width];
        self.row.iter_mut().zip(other).for_each(|(to, from)| *to = (*to).max(*from));
    }

    /// Step 3: when the passes that `row` counts, or `joined`, can be done; `least` if that is later.
    pub(super) fn done(&mut self, least: i64, joined: bool) -> Result<i64, End> {
        let counts = if joined { &self.joined } else { &self.row };
        let count = self.windows.microbatches;
        let (mut work, mut top) = (0, None);
        for (lane, &before) in counts.iter().enumerate() {
            if let Some(last) = (before as usize).checked_sub(1) {
                let place = self.places[lane * count + last] as usize;
                work += i64::from(before) * self.sorted[place].time;
                top = top.max(Some(place));
            }
        }
        let Some(top) = top else { return Ok(least) };
        let (mut done, mut sum, mut steps) = (least, 0, 0);
        for one in self.sorted[..=top].iter().rev() {
            if one.key + work <= done {
                break;
            }
            steps += 1;
            if one.microbatch < counts[one.lane as usize] {
                sum += one.time;
                done = done.max(one.key + sum);
            }
        }
        self.spend(steps)?;
        Ok(done)
    }

    /// Lowers last starts, from the latest on.
    fn backward(&mut self, stage: usize) -> Result<(), End> {
        self.find_behind(stage);
        self.sort(stage, |windows, at, time| windows.lasts[at] + time);
        let mut place = self.sorted.len();
        while let Some(now) = place.checked_sub(1) {
            let Seen { key, time, lane, microbatch } = self.sorted[now];
            let (own, k) = (lane as usize, microbatch as usize);
            let global = stage * self.passes.width + own;
            let until = self.begun(own, k, key)?;
            let at = self.windows.at(global, k);
            if self.windows.heads[at] + time > until {
                return Err(End::Empty);
            }
            if until == key {
                place = now;
                continue;
            }
            self.windows.lasts[at] = until - time;
            self.changed = true;
            self.move_down(now, until);
        }
        Ok(())
    }

    /// Gives the pass at `place` of `sorted` a smaller key.
    fn move_down(&mut self, mut place: usize, key: i64) {
        let mut one = self.sorted[place];
        one.key = key;
        while place > 0 && self.sorted[place - 1].key > key {
            self.sorted[place] = self.sorted[place - 1];
            self.note_place(place);
            place -= 1;
        }
        self.sorted[place] = one;
        self.note_place(place);
    }

    /// Fills `behind` from the counts of what is before.
    fn find_behind(&mut self, stage: usize) {
        let (width, count) = (self.passes.width, self.windows.microbatches);
        for own in 0..width {
            for lane in 0..width {
                let mut behind = 0;
                for k in 0..count {
                    let before = |j: usize| {
                        let at = self.windows.at(stage * width + lane, j);
                        self.windows.before[at * width + own] as usize
                    };
                    while behind < count && before(behind) <= k {
                        behind += 1;
                    }
                    self.behind[(own * count + k) * width + lane] =
                        u32::try_from(behind).unwrap_or(u32::MAX);
                }
            }
        }
    }

    /// Step 3 backwards: when the passes behind a pass must begin; `most` if that is sooner.
    fn begun(&mut self, own: usize, k: usize, most: i64) -> Result<i64, End> {
        let (width, count) = (self.passes.width, self.windows.microbatches);
        let at = (own * count + k) * width;
        let behind = &self.behind[at..at + width];
        let (mut work, mut low) = (0, usize::MAX);
        for (lane, &first) in behind.iter().enumerate() {
            let first = first as usize;
            if first < count {
                let place = self.places[lane * count + first] as usize;
                work += i64::try_from(count - first).unwrap_or(0) * self.sorted[place].time;
                low = low.min(place);
            }
        }
        let (mut begun, mut sum, mut steps) = (most, 0, 0);
        for one in self.sorted.get(low..).unwrap_or_default() {
            if one.key - work >= begun {
                break;
            }
            steps += 1;
            if one.microbatch >= behind[one.lane as usize] {
                sum += one.time;
                begun = begun.min(one.key - sum);
            }
        }
        self.spend(steps)?;
        Ok(begun)
    }

    /// Step 5.
    fn overload(&mut self, stage: usize) -> Result<(), End> {
        if self.lateness(stage) > 0 { Err(End::Empty) } else { Ok(()) }
    }

    /// By how much the passes of `stage` are late at the least, even if they may be interrupted.
    pub(super) fn lateness(&self, stage: usize) -> i64 {
        let count = self.windows.microbatches;
        let lanes = stage * self.passes.width..(stage + 1) * self.passes.width;
        let jobs = lanes.flat_map(|lane| {
            let time = self.passes.lanes[lane].time;
            (0..count).map(move |k| (lane, k, time))
        });
        let job = |(lane, k, time)| {
            let at = self.windows.at(lane, k);
            (self.windows.heads[at], self.windows.lasts[at] + time, time)
        };
        overload::lateness(jobs.map(job).collect())
    }
}
