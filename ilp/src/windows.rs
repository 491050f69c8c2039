//! Windows: when passes can start at all, and which must run before which, if no order may cost more
//! than some cost.
//!
//! Every pass has a head, before which it cannot start, and a latest start. The first pass of a stage
//! starts when it arrives. For every pass and every lane of its stage it is known between which counts
//! of that lane's passes run before it. Each rule makes a window or a range of counts smaller for a
//! reason that holds for every order within the cost, and all are applied until nothing changes; where
//! nothing is left of a window or a range, there is no such order. Rules are monotone: in which order
//! they are applied changes nothing in what is left.
//!
//! "Every order" is one whose microbatches are named as they run, and so are W that take as long and free as much: names
//! cost nothing.

use crate::compiled_instance::{CompiledInstance, Home};
use crate::memory_bounds;

/// There is no order within the cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contradiction {
    /// The pass at which that came up.
    pub(crate) pass: usize,
}

/// One pass before another of its stage, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Pair {
    pub(crate) fn turned(self) -> Self {
        Self { first: self.second, second: self.first }
    }
}

/// Start-time windows and precedence of all passes.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    pub(crate) heads: Vec<i64>,
    pub(crate) latest: Vec<i64>,
    /// By pass and lane of its stage: the fewest and the most passes of the lane before it.
    counts: Vec<[u16; 2]>,
    /// Stages where something is new.
    stale: Vec<bool>,
    /// Stages where counts are new.
    reordered: Vec<bool>,
    /// What was replaced since the first mark, oldest first.
    trail: Vec<Replaced>,
}

/// A value before it was replaced, by its index.
#[derive(Clone, Copy, Debug)]
enum Replaced {
    Head(usize, i64),
    Latest(usize, i64),
    Counts(usize, [u16; 2]),
}

impl Windows {
    /// The windows of all orders of `compiled` that cost `most` or less, before anything is concluded.
    pub(crate) fn within(compiled: &CompiledInstance, most: i64) -> Result<Self, Contradiction> {
        let windows = Self::at_first(compiled, most);
        let mut both = windows.heads.iter().zip(&windows.latest);
        match both.position(|(head, latest)| head > latest) {
            Some(pass) => Err(Contradiction { pass }),
            None => Ok(windows),
        }
    }

    /// The same, where some windows may be empty.
    pub(crate) fn at_first(compiled: &CompiledInstance, most: i64) -> Self {
        let heads = first_arrivals(compiled);
        let mut latest = Vec::with_capacity(compiled.passes());
        for (number, lane) in compiled.lanes.iter().enumerate() {
            let first = compiled.lanes_of(lane.stage).start;
            let begin = heads[compiled.pass(first, 0)];
            let end = if compiled.makespan { most } else { begin.saturating_add(most) };
            for microbatch in 0..compiled.microbatches {
                // Nothing comes before the first pass of a stage: it starts when it arrives.
                let is_first = number == first && microbatch == 0;
                latest.push(if is_first { begin.min(end - lane.time) } else { end - lane.time });
            }
        }
        Self {
            heads,
            latest,
            counts: counts_at_first(compiled),
            stale: vec![true; compiled.stages],
            reordered: vec![true; compiled.stages],
            trail: Vec::new(),
        }
    }

    /// The state that [`Self::undo`] goes back to.
    pub(crate) const fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Goes back to the state at `mark`, in which all rules were at their fixed point.
    pub(crate) fn undo(&mut self, mark: usize) {
        for replaced in self.trail.drain(mark..).rev() {
            match replaced {
                Replaced::Head(pass, head) => self.heads[pass] = head,
                Replaced::Latest(pass, latest) => self.latest[pass] = latest,
                Replaced::Counts(at, range) => self.counts[at] = range,
            }
        }
        self.stale.fill(false);
        self.reordered.fill(false);
    }

    /// Sets the window of `pass`.
    pub(crate) fn set_window(&mut self, pass: usize, [head, latest]: [i64; 2]) {
        (self.heads[pass], self.latest[pass]) = (head, latest);
    }

    /// Sets the ranges of the counts before `pass`, one for each lane of its stage.
    pub(crate) fn set_counts(
        &mut self,
        compiled: &CompiledInstance,
        pass: usize,
        counts: impl Iterator<Item = [u16; 2]>,
    ) {
        let own = &mut self.counts[pass * compiled.width..(pass + 1) * compiled.width];
        own.iter_mut().zip(counts).for_each(|(range, counts)| *range = counts);
    }

    /// Forgets how the windows came to be, and takes the rules of the stages with open passes for stale.
    pub(crate) fn restart(&mut self, compiled: &CompiledInstance) {
        self.trail.clear();
        let is_open = compiled.open.iter().map(|open| !open.is_empty());
        for (stage, is_open) in is_open.enumerate() {
            (self.stale[stage], self.reordered[stage]) = (is_open, is_open);
        }
    }

    /// Between which counts of passes of `lane` run before `pass`.
    pub(crate) fn range(
        &self,
        compiled: &CompiledInstance,
        pass: usize,
        lane: usize,
    ) -> memory_bounds::Range {
        self.counts[pass * compiled.width + compiled.lanes[lane].place].map(usize::from)
    }

    /// Number of passes that surely run before `pass`.
    pub(crate) fn surely_before(&self, compiled: &CompiledInstance, pass: usize) -> usize {
        let counts = &self.counts[pass * compiled.width..(pass + 1) * compiled.width];
        counts.iter().map(|[fewest, _]| usize::from(*fewest)).sum()
    }

    /// Restricts the number of passes of `lane` that run before `pass`, and propagates the order to those passes.
    /// Returns whether the range changed.
    fn restrict(
        &mut self,
        compiled: &CompiledInstance,
        pass: usize,
        lane: usize,
        [fewest, most]: memory_bounds::Range,
    ) -> Result<bool, Contradiction> {
        let at = pass * compiled.width + compiled.lanes[lane].place;
        let range = &mut self.counts[at];
        let [low, high] = *range;
        let new = [low.max(narrow(fewest)), high.min(narrow(most))];
        if new == *range {
            return Ok(false);
        }
        *range = new;
        self.trail.push(Replaced::Counts(at, [low, high]));
        if new[0] > new[1] {
            return Err(Contradiction { pass });
        }
        self.stale[compiled.lanes[lane].stage] = true;
        self.reordered[compiled.lanes[lane].stage] = true;
        let (own, place) = (pass / compiled.microbatches, pass % compiled.microbatches);
        // Of the passes of `lane`, those that are now behind or before `pass` know it too.
        for other in low..new[0] {
            let other = compiled.pass(lane, usize::from(other));
            self.restrict(compiled, other, own, [0, place])?;
        }
        for other in new[1]..high {
            let other = compiled.pass(lane, usize::from(other));
            self.restrict(compiled, other, own, [place + 1, compiled.microbatches])?;
        }
        Ok(true)
    }

    /// Fixes the order of a pair of passes of a stage.
    pub(crate) fn decide(
        &mut self,
        compiled: &CompiledInstance,
        pair: Pair,
    ) -> Result<(), Contradiction> {
        let (lane, place) =
            (pair.first / compiled.microbatches, pair.first % compiled.microbatches);
        self.restrict(compiled, pair.second, lane, [place + 1, compiled.microbatches]).map(|_| ())
    }

    /// Propagates all rules to a fixed point; `stop` ends it early, with sound windows.
    pub(crate) fn conclude(
        &mut self,
        compiled: &CompiledInstance,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Contradiction> {
        while let Some(stage) = self.stale.iter().position(|&stale| stale) {
            if stop() {
                return Ok(());
            }
            self.stale[stage] = false;
            if std::mem::take(&mut self.reordered[stage]) {
                self.close_transitively(compiled, stage)?;
                self.fit_memory(compiled, stage)?;
                self.keep_twins_in_order(compiled, stage)?;
            }
            self.settle_by_time(compiled, stage)?;
            self.propagate_arrivals(compiled, stage)?;
            if !self.stale[stage] {
                self.push(compiled, stage)?;
                self.pull(compiled, stage)?;
            }
        }
        Ok(())
    }

    /// Transitive closure: a predecessor of a pass precedes all its successors, the next of its lane among them.
    fn close_transitively(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
    ) -> Result<(), Contradiction> {
        for (lane, pass) in passes(compiled, stage) {
            if pass % compiled.microbatches > 0 {
                self.follow(compiled, pass - 1, pass, stage)?;
            }
            for other in compiled.lanes_of(stage).filter(|&other| other != lane) {
                let [fewest, most] = self.range(compiled, pass, other);
                if fewest > 0 {
                    self.follow(compiled, compiled.pass(other, fewest - 1), pass, stage)?;
                }
                if most < compiled.microbatches {
                    self.follow(compiled, pass, compiled.pass(other, most), stage)?;
                }
            }
        }
        Ok(())
    }

    /// W that take as long and free as much run in the order of their B. (The k-th W of such chunks in time may be
    /// taken to be that of the k-th B: as many B have run before it, and what is held stays the same.)
    fn keep_twins_in_order(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
    ) -> Result<(), Contradiction> {
        for &[one, other] in &compiled.twins[stage] {
            for [one, other] in [[one, other], [other, one]] {
                for (_, w) in passes(compiled, stage).filter(|(lane, _)| *lane == one) {
                    let b = w - compiled.microbatches;
                    self.restrict(compiled, w, other, self.range(compiled, b, other - 1))?;
                    self.restrict(compiled, b, other - 1, self.range(compiled, w, other))?;
                }
            }
        }
        Ok(())
    }

    /// `early` runs before `late`: so does all that runs before it.
    fn follow(
        &mut self,
        compiled: &CompiledInstance,
        early: usize,
        late: usize,
        stage: usize,
    ) -> Result<(), Contradiction> {
        let first = compiled.lanes_of(stage).start;
        for place in 0..compiled.lanes_of(stage).len() {
            let lane = first + place;
            let [fewest, own_most] = self.counts[early * compiled.width + place];
            let [own_fewest, most] = self.counts[late * compiled.width + place];
            if fewest > own_fewest {
                self.restrict(compiled, late, lane, [usize::from(fewest), compiled.microbatches])?;
            }
            if most < own_most {
                self.restrict(compiled, early, lane, [0, usize::from(most)])?;
            }
        }
        Ok(())
    }

    /// The memory held at the start of each pass fits the limit.
    fn fit_memory(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
    ) -> Result<(), Contradiction> {
        let Some(limits) = &compiled.limits else { return Ok(()) };
        let homes = &compiled.homes[stage];
        for (lane, pass) in passes(compiled, stage) {
            let room = limits[stage] - compiled.lanes[lane].takes;
            let counts = |windows: &Self, home: &Home| {
                let of = |lane: usize| windows.range(compiled, pass, lane);
                let [forwards, backwards, weights] = [0, 1, 2].map(|kind| of(home.forward + kind));
                [forwards, backwards, weights, home.again.map_or([0, 0], of)]
            };
            let least: Vec<i64> = homes
                .iter()
                .map(|home| memory_bounds::least(home.held, counts(self, home)))
                .collect();
            let all: i64 = least.iter().sum();
            if all > room {
                return Err(Contradiction { pass });
            }
            for (home, least) in homes.iter().zip(&least) {
                let left = room - (all - least);
                let [forwards, backwards, weights, again] =
                    memory_bounds::fitting(home.held, counts(self, home), left);
                for (kind, range) in [forwards, backwards, weights].into_iter().enumerate() {
                    self.restrict(compiled, pass, home.forward + kind, range)?;
                }
                if let Some(lane) = home.again {
                    self.restrict(compiled, pass, lane, again)?;
                }
            }
        }
        Ok(())
    }

    /// A pass that cannot end before another must start runs behind it.
    fn settle_by_time(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
    ) -> Result<(), Contradiction> {
        for (lane, pass) in passes(compiled, stage) {
            let (time, head) = (compiled.lanes[lane].time, self.heads[pass]);
            for other in compiled.lanes_of(stage).filter(|&other| other != lane) {
                let [mut fewest, mut most] = self.range(compiled, pass, other);
                while fewest < most && head + time > self.latest[compiled.pass(other, fewest)] {
                    fewest += 1;
                }
                let their = compiled.lanes[other].time;
                while fewest < most
                    && self.heads[compiled.pass(other, most - 1)] + their > self.latest[pass]
                {
                    most -= 1;
                }
                self.restrict(compiled, pass, other, [fewest, most])?;
            }
        }
        Ok(())
    }

    /// The output of a pass arrives a hop after its end.
    fn propagate_arrivals(
        &mut self,
        compiled: &CompiledInstance,
        stage: usize,
    ) -> Result<(), Contradiction> {
        for (lane, pass) in passes(compiled, stage) {
            let microbatch = pass % compiled.microbatches;
            if let Some((from, hop)) = compiled.lanes[lane].input {
                let from_pass = compiled.pass(from, microbatch);
                let arrival = self.heads[from_pass] + compiled.lanes[from].time + hop;
                self.raise(compiled, pass, arrival)?;
                let latest = self.latest[pass] - hop - compiled.lanes[from].time;
                self.lower(compiled, from_pass, latest)?;
            }
            if let Some((to, hop)) = compiled.lanes[lane].output {
                let to_pass = compiled.pass(to, microbatch);
                let arrival = self.heads[pass] + compiled.lanes[lane].time + hop;
                self.raise(compiled, to_pass, arrival)?;
                let latest = self.latest[to_pass] - hop - compiled.lanes[lane].time;
                self.lower(compiled, pass, latest)?;
            }
        }
        Ok(())
    }

    fn raise(
        &mut self,
        compiled: &CompiledInstance,
        pass: usize,
        head: i64,
    ) -> Result<(), Contradiction> {
        if head <= self.heads[pass] {
            return Ok(());
        }
        self.trail.push(Replaced::Head(pass, self.heads[pass]));
        self.heads[pass] = head;
        self.stale[compiled.lanes[pass / compiled.microbatches].stage] = true;
        if head > self.latest[pass] { Err(Contradiction { pass }) } else { Ok(()) }
    }

    fn lower(
        &mut self,
        compiled: &CompiledInstance,
        pass: usize,
        latest: i64,
    ) -> Result<(), Contradiction> {
        if latest >= self.latest[pass] {
            return Ok(());
        }
        self.trail.push(Replaced::Latest(pass, self.latest[pass]));
        self.latest[pass] = latest;
        self.stale[compiled.lanes[pass / compiled.microbatches].stage] = true;
        if latest < self.heads[pass] { Err(Contradiction { pass }) } else { Ok(()) }
    }

    /// All that runs before a pass has ended when it starts; and what must have ended by some time has
    /// room until then.
    fn push(&mut self, compiled: &CompiledInstance, stage: usize) -> Result<(), Contradiction> {
        let mut sorted = self.seats(compiled, stage);
        sorted.sort_unstable_by_key(|seat| (seat.head, seat.lane, seat.microbatch));
        for until in &sorted {
            let end = sorted.iter().fold(i64::MIN, |end, seat| {
                if seat.due <= until.due { end.max(seat.head) + seat.time } else { end }
            });
            if end > until.due {
                let lane = compiled.lanes_of(stage).start + until.lane;
                return Err(Contradiction {
                    pass: compiled.pass(lane, usize::from(until.microbatch)),
                });
            }
        }
        for (_, pass) in passes(compiled, stage) {
            let counts = &self.counts[pass * compiled.width..(pass + 1) * compiled.width];
            let end = sorted.iter().fold(i64::MIN, |end, seat| {
                let before = seat.microbatch < counts[seat.lane][0];
                if before { end.max(seat.head) + seat.time } else { end }
            });
            self.raise(compiled, pass, end)?;
        }
        Ok(())
    }

    /// All that runs behind a pass has time enough when it ends.
    fn pull(&mut self, compiled: &CompiledInstance, stage: usize) -> Result<(), Contradiction> {
        let mut sorted = self.seats(compiled, stage);
        sorted
            .sort_unstable_by_key(|seat| (std::cmp::Reverse(seat.due), seat.lane, seat.microbatch));
        for (lane, pass) in passes(compiled, stage) {
            let counts = &self.counts[pass * compiled.width..(pass + 1) * compiled.width];
            let own = (compiled.lanes[lane].place, narrow(pass % compiled.microbatches));
            let begin = sorted.iter().fold(i64::MAX, |begin, seat| {
                let behind =
                    seat.microbatch >= counts[seat.lane][1] && (seat.lane, seat.microbatch) != own;
                if behind { begin.min(seat.due) - seat.time } else { begin }
            });
            if begin < i64::MAX {
                self.lower(compiled, pass, begin - compiled.lanes[lane].time)?;
            }
        }
        Ok(())
    }

    /// The passes of `stage` with their windows.
    fn seats(&self, compiled: &CompiledInstance, stage: usize) -> Vec<Seat> {
        let seat = |(lane, pass): (usize, usize)| {
            let time = compiled.lanes[lane].time;
            Seat {
                head: self.heads[pass],
                due: self.latest[pass] + time,
                time,
                lane: compiled.lanes[lane].place,
                microbatch: narrow(pass % compiled.microbatches),
            }
        };
        passes(compiled, stage).map(seat).collect()
    }
}

/// A pass among those of its stage, and its window.
struct Seat {
    head: i64,
    /// When it must have ended.
    due: i64,
    time: i64,
    /// Its lane among those of the stage.
    lane: usize,
    microbatch: u16,
}

/// Earliest start of each pass on unlimited stages: dependencies and hops only.
pub(crate) fn first_arrivals(compiled: &CompiledInstance) -> Vec<i64> {
    let mut heads = vec![0i64; compiled.passes()];
    // A trip has two legs for each chunk, and a W behind each B: so many rounds settle all.
    for _ in 0..=compiled.lanes.len() {
        for (number, lane) in compiled.lanes.iter().enumerate() {
            let before = lane.input.or_else(|| Some((lane.behind?, 0)));
            if let Some((from, hop)) = before {
                let arrival = heads[compiled.pass(from, 0)] + compiled.lanes[from].time + hop;
                (0..compiled.microbatches)
                    .for_each(|i| heads[number * compiled.microbatches + i] = arrival);
            }
        }
    }
    heads
}

fn counts_at_first(compiled: &CompiledInstance) -> Vec<[u16; 2]> {
    let mut counts = Vec::with_capacity(compiled.passes() * compiled.width);
    for (lane, own) in compiled.lanes.iter().enumerate() {
        for place in 0..compiled.microbatches {
            let lanes = compiled.lanes_of(own.stage);
            counts.extend(lanes.map(|other| range_at_first(compiled, [lane, place], other)));
            counts.resize(counts.len().next_multiple_of(compiled.width), [0; 2]);
        }
    }
    counts
}

/// Between which counts of passes of `other` run before the pass of microbatch `place` of `lane` in every order.
pub(crate) fn range_at_first(
    compiled: &CompiledInstance,
    [lane, place]: [usize; 2],
    other: usize,
) -> [u16; 2] {
    let [mut fewest, mut most] = [0, compiled.microbatches];
    if compiled.leads(other, lane) {
        fewest = place + 1;
    }
    if compiled.leads(lane, other) {
        most = place;
    }
    if other == lane {
        [fewest, most] = [place; 2];
    }
    [fewest, most].map(narrow)
}

/// The open passes of `stage`, with their lanes.
pub(crate) fn passes(
    compiled: &CompiledInstance,
    stage: usize,
) -> impl Iterator<Item = (usize, usize)> {
    compiled.open[stage].iter().copied()
}

/// Counts of passes are less than [`crate::MOST_PASSES`].
fn narrow(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
