//! Rounds in time: walked, compared, and skipped.

use pipeline::{Costs, Metrics, Nanos, StageTimes};

use super::{NOTHING, Op, Place, Repeating, Step, step_of};

/// The clocks of a step that repeats. Times in nanoseconds.
pub(super) struct Rounds<'a> {
    of: &'a Repeating,
    steps: Vec<Step>,
    /// When each stage begins its first pass.
    first: Vec<Option<u64>>,
    /// When each stage is free.
    free: Vec<u64>,
    /// When values were made: rows of `of.columns` places.
    made: Vec<u64>,
    /// Microbatches of the rounds walked so far. Rounds that are skipped leave values in their places.
    moved: u32,
}

/// The state after a round, and how it came about.
struct Past {
    /// When stages are free, and when values that are still to be read were made.
    times: Vec<u64>,
    /// For each pass of the round that waits for another stage, by how much its own stage was later.
    margins: Vec<i64>,
}

/// Rounds that all times repeat.
struct Repetition {
    /// Rounds after which it begins again.
    length: usize,
    /// How often it can follow.
    times: u64,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(of: &'a Repeating, costs: &Costs) -> Self {
        let stages = of.shape.stages();
        let rows = of.shape.rows() + super::VALUES as usize;
        Self {
            of,
            steps: of.steps(costs),
            first: vec![None; stages],
            free: vec![0; stages],
            made: vec![0; rows * of.columns as usize],
            moved: 0,
        }
    }

    /// Times the whole step.
    pub(super) fn all(&mut self) {
        let of = self.of;
        self.run(&of.before, |_| {});
        // A circuit of waits takes no more microbatches than are under way: hardly more than twice the stages.
        let longest = 2 + 2 * of.shape.stages() / of.period as usize;
        let (mut done, mut walked, mut unseen) = (0, 0, 0);
        let mut past: Vec<Past> = Vec::new();
        while done < of.rounds {
            let looks = unseen == 0;
            let mut margins = Vec::new();
            match looks {
                true => self.run(&of.round, |margin| margins.push(margin)),
                false => self.run(&of.round, |_| {}),
            }
            self.moved = self.moved.wrapping_add(of.period);
            (done, walked) = (done + 1, walked + 1);
            if !looks {
                unseen -= 1;
                continue;
            }
            past.push(Past { times: self.times(), margins });
            if let Some(Repetition { length, times }) = repetition(&past, of.rounds - done) {
                self.skip(&past[past.len() - 1 - length].times, times);
                done += times * length as u64;
                past.clear();
            } else if past.len() > 2 * longest {
                past.clear();
                // Looking costs about as much as walking: the longer in vain, the rarer.
                unseen = walked / 2;
            }
        }
        self.run(&of.behind, |_| {});
    }

    /// When each stage begins and ends; busy times are left at 0.
    pub(super) fn metrics(&self) -> Metrics {
        let stages = self.first.iter().zip(&self.free).map(|(first, &free)| StageTimes {
            first_start: Nanos(first.unwrap_or(0)),
            last_end: Nanos(free),
            busy: Nanos(0),
        });
        Metrics { stages: stages.collect() }
    }

    /// Number of rounds that were not skipped.
    #[cfg(test)]
    pub(super) const fn walked(&self) -> u32 {
        self.moved / self.of.period
    }

    #[inline]
    fn index(&self, place: Place) -> usize {
        let columns = self.of.columns;
        let column = place.microbatch.wrapping_add(self.moved) & (columns - 1);
        place.row as usize * columns as usize + column as usize
    }

    /// Runs `ops`, with the margin of each that waits for another stage shown to `see`.
    #[inline]
    fn run(&mut self, ops: &[Op], mut see: impl FnMut(i64)) {
        for op in ops {
            let stage = op.stage as usize;
            let step = self.steps[step_of(op.pass)];
            let free = self.free[stage];
            let mut start = free;
            if op.needs.row != NOTHING {
                let ready = self.made[self.index(op.needs)] + step.hop;
                // All times of a step are below 2^62.
                see(free.cast_signed() - ready.cast_signed());
                start = free.max(ready);
            }
            self.first[stage].get_or_insert(start);
            let end = start + step.duration;
            self.free[stage] = end;
            let at = self.index(op.makes);
            self.made[at] = end;
        }
    }

    /// All times that the next rounds begin from.
    fn times(&self) -> Vec<u64> {
        let live = self.of.live.iter().map(|&place| self.made[self.index(place)]);
        self.free.iter().copied().chain(live).collect()
    }

    /// Lets all times grow `times` over by as much as since they were `before`.
    fn skip(&mut self, before: &[u64], times: u64) {
        let (stages, values) = before.split_at(self.free.len());
        let later = |time: &mut u64, before: u64| *time += (*time - before) * times;
        self.free.iter_mut().zip(stages).for_each(|(time, &before)| later(time, before));
        for (&place, &before) in self.of.live.iter().zip(values) {
            let at = self.index(place);
            later(&mut self.made[at], before);
        }
    }
}

/// The shortest repetition at the end of `past` that can follow at least once within `left` rounds.
fn repetition(past: &[Past], left: u64) -> Option<Repetition> {
    let last = past.len() - 1;
    (1..=last / 2).find_map(|length| {
        let [older, old, new] = [2 * length, length, 0].map(|back| &past[last - back].times);
        let mut grown = new.iter().zip(old).zip(older);
        if !grown.all(|((new, old), older)| new - old == old - older) {
            return None;
        }
        let mut times = left / length as u64;
        for back in 0..length {
            let [old, new] = [length, 0].map(|more| &past[last - back - more].margins);
            for (&old, &new) in old.iter().zip(new) {
                times = times.min(lasts(old, new)?);
            }
        }
        (times > 0).then_some(Repetition { length, times })
    })
}

/// How often a margin can change as it did from `old` to `new` without changing its sign; nothing if it has changed
/// already. Where it gets to 0, both are as late, and it does not matter which is waited for.
const fn lasts(old: i64, new: i64) -> Option<u64> {
    if old == new {
        return Some(u64::MAX);
    }
    if old.signum() != new.signum() {
        return None;
    }
    let (before, now) = (old.unsigned_abs(), new.unsigned_abs());
    Some(if now >= before { u64::MAX } else { now / (before - now) })
}
