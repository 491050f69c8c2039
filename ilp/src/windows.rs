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

use crate::line::{Home, Line};
use crate::room;

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

/// What is known.
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
}

impl Windows {
    /// The windows of all orders of `line` that cost `most` or less, before anything is concluded.
    pub(crate) fn within(line: &Line, most: i64) -> Result<Self, Contradiction> {
        let windows = Self::at_first(line, most);
        let mut both = windows.heads.iter().zip(&windows.latest);
        match both.position(|(head, latest)| head > latest) {
            Some(pass) => Err(Contradiction { pass }),
            None => Ok(windows),
        }
    }

    /// The same, where some windows may be empty.
    pub(crate) fn at_first(line: &Line, most: i64) -> Self {
        let heads = first_arrivals(line);
        let mut latest = Vec::with_capacity(line.passes());
        for (number, lane) in line.lanes.iter().enumerate() {
            let first = line.lanes_of(lane.stage).start;
            let begin = heads[line.pass(first, 0)];
            let end = if line.makespan { most } else { begin.saturating_add(most) };
            for microbatch in 0..line.microbatches {
                // Nothing comes before the first pass of a stage: it starts when it arrives.
                let is_first = number == first && microbatch == 0;
                latest.push(if is_first { begin.min(end - lane.time) } else { end - lane.time });
            }
        }
        Self {
            heads,
            latest,
            counts: counts_at_first(line),
            stale: vec![true; line.stages],
            reordered: vec![true; line.stages],
        }
    }

    /// Between which counts of passes of `lane` run before `pass`.
    pub(crate) fn range(&self, line: &Line, pass: usize, lane: usize) -> room::Range {
        self.counts[pass * line.width + line.lanes[lane].place].map(usize::from)
    }

    /// How many passes surely run before `pass`.
    pub(crate) fn surely_before(&self, line: &Line, pass: usize) -> usize {
        let counts = &self.counts[pass * line.width..(pass + 1) * line.width];
        counts.iter().map(|[fewest, _]| usize::from(*fewest)).sum()
    }

    /// Notes that at least, or at most, so many passes of `lane` run before `pass`, and what that says
    /// of those passes. Whether that is new.
    fn restrict(
        &mut self,
        line: &Line,
        pass: usize,
        lane: usize,
        [fewest, most]: room::Range,
    ) -> Result<bool, Contradiction> {
        let range = &mut self.counts[pass * line.width + line.lanes[lane].place];
        let [low, high] = *range;
        let new = [low.max(narrow(fewest)), high.min(narrow(most))];
        if new == *range {
            return Ok(false);
        }
        *range = new;
        if new[0] > new[1] {
            return Err(Contradiction { pass });
        }
        self.stale[line.lanes[lane].stage] = true;
        self.reordered[line.lanes[lane].stage] = true;
        let (own, place) = (pass / line.microbatches, pass % line.microbatches);
        // Of the passes of `lane`, those that are now behind or before `pass` know it too.
        for other in low..new[0] {
            let other = line.pass(lane, usize::from(other));
            self.restrict(line, other, own, [0, place])?;
        }
        for other in new[1]..high {
            let other = line.pass(lane, usize::from(other));
            self.restrict(line, other, own, [place + 1, line.microbatches])?;
        }
        Ok(true)
    }

    /// Notes that one pass runs before another of its stage.
    pub(crate) fn decide(&mut self, line: &Line, pair: Pair) -> Result<(), Contradiction> {
        let (lane, place) = (pair.first / line.microbatches, pair.first % line.microbatches);
        self.restrict(line, pair.second, lane, [place + 1, line.microbatches]).map(|_| ())
    }

    /// Applies all rules until nothing changes. `stop` ends it early, with what is known by then.
    pub(crate) fn conclude(
        &mut self,
        line: &Line,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Contradiction> {
        while let Some(stage) = self.stale.iter().position(|&stale| stale) {
            if stop() {
                return Ok(());
            }
            self.stale[stage] = false;
            if std::mem::take(&mut self.reordered[stage]) {
                self.remember(line, stage)?;
                self.keep_room(line, stage)?;
                self.keep_twins_in_order(line, stage)?;
            }
            self.settle_by_time(line, stage)?;
            self.pass_on(line, stage)?;
            if !self.stale[stage] {
                self.push(line, stage)?;
                self.pull(line, stage)?;
            }
        }
        Ok(())
    }

    /// What runs before a pass runs before all that is behind it: the next of its lane, and others.
    fn remember(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        for (lane, pass) in passes(line, stage) {
            if pass % line.microbatches > 0 {
                self.follow(line, pass - 1, pass, stage)?;
            }
            for other in line.lanes_of(stage).filter(|&other| other != lane) {
                let [fewest, most] = self.range(line, pass, other);
                if fewest > 0 {
                    self.follow(line, line.pass(other, fewest - 1), pass, stage)?;
                }
                if most < line.microbatches {
                    self.follow(line, pass, line.pass(other, most), stage)?;
                }
            }
        }
        Ok(())
    }

    /// W that take as long and free as much run in the order of their B. (The k-th W of such chunks in time may be
    /// taken to be that of the k-th B: as many B have run before it, and what is held stays the same.)
    fn keep_twins_in_order(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        for &[one, other] in &line.twins[stage] {
            for [one, other] in [[one, other], [other, one]] {
                for microbatch in 0..line.microbatches {
                    let [b, w] = [one - 1, one].map(|lane| line.pass(lane, microbatch));
                    self.restrict(line, w, other, self.range(line, b, other - 1))?;
                    self.restrict(line, b, other - 1, self.range(line, w, other))?;
                }
            }
        }
        Ok(())
    }

    /// `early` runs before `late`: so does all that runs before it.
    fn follow(
        &mut self,
        line: &Line,
        early: usize,
        late: usize,
        stage: usize,
    ) -> Result<(), Contradiction> {
        let first = line.lanes_of(stage).start;
        for place in 0..line.lanes_of(stage).len() {
            let lane = first + place;
            let [fewest, own_most] = self.counts[early * line.width + place];
            let [own_fewest, most] = self.counts[late * line.width + place];
            if fewest > own_fewest {
                self.restrict(line, late, lane, [usize::from(fewest), line.microbatches])?;
            }
            if most < own_most {
                self.restrict(line, early, lane, [0, usize::from(most)])?;
            }
        }
        Ok(())
    }

    /// What is held with each pass fits the limit.
    fn keep_room(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        let Some(limits) = &line.limits else { return Ok(()) };
        let homes = &line.homes[stage];
        for (lane, pass) in passes(line, stage) {
            let room = limits[stage] - line.lanes[lane].takes;
            let counts = |windows: &Self, home: &Home| {
                let of = |lane: usize| windows.range(line, pass, lane);
                let [forwards, backwards, weights] = [0, 1, 2].map(|kind| of(home.forward + kind));
                [forwards, backwards, weights, home.again.map_or([0, 0], of)]
            };
            let least: Vec<i64> =
                homes.iter().map(|home| room::least(home.held, counts(self, home))).collect();
            let all: i64 = least.iter().sum();
            if all > room {
                return Err(Contradiction { pass });
            }
            for (home, least) in homes.iter().zip(&least) {
                let left = room - (all - least);
                let [forwards, backwards, weights, again] =
                    room::fitting(home.held, counts(self, home), left);
                for (kind, range) in [forwards, backwards, weights].into_iter().enumerate() {
                    self.restrict(line, pass, home.forward + kind, range)?;
                }
                if let Some(lane) = home.again {
                    self.restrict(line, pass, lane, again)?;
                }
            }
        }
        Ok(())
    }

    /// A pass that cannot end before another must start runs behind it.
    fn settle_by_time(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        for (lane, pass) in passes(line, stage) {
            let (time, head) = (line.lanes[lane].time, self.heads[pass]);
            for other in line.lanes_of(stage).filter(|&other| other != lane) {
                let [mut fewest, mut most] = self.range(line, pass, other);
                while fewest < most && head + time > self.latest[line.pass(other, fewest)] {
                    fewest += 1;
                }
                let their = line.lanes[other].time;
                while fewest < most
                    && self.heads[line.pass(other, most - 1)] + their > self.latest[pass]
                {
                    most -= 1;
                }
                self.restrict(line, pass, other, [fewest, most])?;
            }
        }
        Ok(())
    }

    /// What a pass hands on arrives a hop after its end.
    fn pass_on(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        for (lane, pass) in passes(line, stage) {
            let microbatch = pass % line.microbatches;
            if let Some((from, hop)) = line.lanes[lane].input {
                let from_pass = line.pass(from, microbatch);
                let arrival = self.heads[from_pass] + line.lanes[from].time + hop;
                self.raise(line, pass, arrival)?;
                let latest = self.latest[pass] - hop - line.lanes[from].time;
                self.lower(line, from_pass, latest)?;
            }
            if let Some((to, hop)) = line.lanes[lane].output {
                let to_pass = line.pass(to, microbatch);
                let arrival = self.heads[pass] + line.lanes[lane].time + hop;
                self.raise(line, to_pass, arrival)?;
                let latest = self.latest[to_pass] - hop - line.lanes[lane].time;
                self.lower(line, pass, latest)?;
            }
        }
        Ok(())
    }

    fn raise(&mut self, line: &Line, pass: usize, head: i64) -> Result<(), Contradiction> {
        if head <= self.heads[pass] {
            return Ok(());
        }
        self.heads[pass] = head;
        self.stale[line.lanes[pass / line.microbatches].stage] = true;
        if head > self.latest[pass] { Err(Contradiction { pass }) } else { Ok(()) }
    }

    fn lower(&mut self, line: &Line, pass: usize, latest: i64) -> Result<(), Contradiction> {
        if latest >= self.latest[pass] {
            return Ok(());
        }
        self.latest[pass] = latest;
        self.stale[line.lanes[pass / line.microbatches].stage] = true;
        if latest < self.heads[pass] { Err(Contradiction { pass }) } else { Ok(()) }
    }

    /// All that runs before a pass has ended when it starts; and what must have ended by some time has
    /// room until then.
    fn push(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        let mut sorted = self.seats(line, stage);
        sorted.sort_unstable_by_key(|seat| (seat.head, seat.lane, seat.microbatch));
        for until in &sorted {
            let end = sorted.iter().fold(i64::MIN, |end, seat| {
                if seat.due <= until.due { end.max(seat.head) + seat.time } else { end }
            });
            if end > until.due {
                let lane = line.lanes_of(stage).start + until.lane;
                return Err(Contradiction { pass: line.pass(lane, usize::from(until.microbatch)) });
            }
        }
        for (_, pass) in passes(line, stage) {
            let counts = &self.counts[pass * line.width..(pass + 1) * line.width];
            let end = sorted.iter().fold(i64::MIN, |end, seat| {
                let before = seat.microbatch < counts[seat.lane][0];
                if before { end.max(seat.head) + seat.time } else { end }
            });
            self.raise(line, pass, end)?;
        }
        Ok(())
    }

    /// All that runs behind a pass has time enough when it ends.
    fn pull(&mut self, line: &Line, stage: usize) -> Result<(), Contradiction> {
        let mut sorted = self.seats(line, stage);
        sorted
            .sort_unstable_by_key(|seat| (std::cmp::Reverse(seat.due), seat.lane, seat.microbatch));
        for (lane, pass) in passes(line, stage) {
            let counts = &self.counts[pass * line.width..(pass + 1) * line.width];
            let own = (line.lanes[lane].place, narrow(pass % line.microbatches));
            let begin = sorted.iter().fold(i64::MAX, |begin, seat| {
                let behind =
                    seat.microbatch >= counts[seat.lane][1] && (seat.lane, seat.microbatch) != own;
                if behind { begin.min(seat.due) - seat.time } else { begin }
            });
            if begin < i64::MAX {
                self.lower(line, pass, begin - line.lanes[lane].time)?;
            }
        }
        Ok(())
    }

    /// The passes of `stage` with their windows.
    fn seats(&self, line: &Line, stage: usize) -> Vec<Seat> {
        let seat = |(lane, pass): (usize, usize)| {
            let time = line.lanes[lane].time;
            Seat {
                head: self.heads[pass],
                due: self.latest[pass] + time,
                time,
                lane: line.lanes[lane].place,
                microbatch: narrow(pass % line.microbatches),
            }
        };
        passes(line, stage).map(seat).collect()
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

/// When each pass could start if its stage had nothing else to do.
fn first_arrivals(line: &Line) -> Vec<i64> {
    let mut heads = vec![0i64; line.passes()];
    // A trip has two legs for each chunk, and a W behind each B: so many rounds settle all.
    for _ in 0..=line.lanes.len() {
        for (number, lane) in line.lanes.iter().enumerate() {
            let before = lane.input.or_else(|| Some((lane.behind?, 0)));
            if let Some((from, hop)) = before {
                let arrival = heads[line.pass(from, 0)] + line.lanes[from].time + hop;
                (0..line.microbatches)
                    .for_each(|i| heads[number * line.microbatches + i] = arrival);
            }
        }
    }
    heads
}

fn counts_at_first(line: &Line) -> Vec<[u16; 2]> {
    let mut counts = Vec::with_capacity(line.passes() * line.width);
    for (lane, own) in line.lanes.iter().enumerate() {
        for place in 0..line.microbatches {
            for other in line.lanes_of(own.stage) {
                let [mut fewest, mut most] = [0, line.microbatches];
                if line.leads(other, lane) {
                    fewest = place + 1;
                }
                if line.leads(lane, other) {
                    most = place;
                }
                if other == lane {
                    [fewest, most] = [place; 2];
                }
                counts.push([narrow(fewest), narrow(most)]);
            }
            counts.resize(counts.len().next_multiple_of(line.width), [0; 2]);
        }
    }
    counts
}

/// The passes of `stage`, with their lanes.
pub(crate) fn passes(line: &Line, stage: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let microbatches = line.microbatches;
    line.lanes_of(stage)
        .flat_map(move |lane| (0..microbatches).map(move |i| (lane, lane * microbatches + i)))
}

/// Counts of passes are less than [`crate::MOST_PASSES`].
fn narrow(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
