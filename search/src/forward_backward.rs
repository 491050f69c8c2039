//! Forward-backward improvement (justification): an order is list-scheduled again with its own times
//! as priorities, in turn with time reversed and with time as it is.
// Passes, slots and lanes are fewer than `MAX_PASSES`; rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::chance::Chance;
use crate::compiled_instance::CompiledInstance;
use crate::list_scheduler::{Next, Rule, State};
use crate::timing::{Clock, Score};

/// A priority rule for list scheduling that follows the times of an earlier schedule.
#[derive(Default)]
pub(crate) struct FollowTimes {
    /// The desired start of each pass: lane by lane, one column per microbatch.
    at: Vec<i64>,
    /// By lane, the shift of the desired starts.
    shift: Vec<i64>,
    /// By stage, the earliest start of its first pass.
    begin: Vec<i64>,
    /// By stage, the idle time that it may spend in all.
    budget: Vec<i64>,
    /// The weight of the desired start against the earliest possible one, in parts of [`WHOLE`].
    weight: i64,
    /// Whether a pass that fits into the wait for another one runs before it.
    fills: bool,
    /// Whether the backward of each B and W is whole; empty where none is.
    whole: Vec<bool>,
}

/// The weight at which the desired starts alone decide.
const WHOLE: i64 = 16;
/// The weights of the desired starts to draw from where stages have one chunk.
const CLOSE: [i64; 6] = [16, 15, 14, 12, 8, 4];
/// The same where stages have several chunks: there is more to choose from, and early starts count
/// for more.
const LOOSE: [i64; 6] = [14, 8, 4, 4, 2, 1];

impl Rule for FollowTimes {
    fn commits(&self) -> bool {
        false
    }

    fn whole(&self) -> &[bool] {
        &self.whole
    }

    #[inline]
    fn choose(
        &self,
        compiled: &CompiledInstance,
        state: &State,
        stage: usize,
        now: i64,
    ) -> Option<Next> {
        let begin = stage * compiled.width;
        let room = compiled.limit[stage] - state.held[stage];
        let (now, latest) = match state.placed[stage] {
            0 => (now.max(self.begin[stage]), i64::MAX),
            _ => {
                let patience = (self.budget[stage] - state.idle[stage]).max(0);
                (now, state.free[stage].saturating_add(patience))
            }
        };
        let mut best: Option<(bool, i64, Next)> = None;
        let mut filler: Option<(i64, i64, Next)> = None;
        for lane in begin..begin + compiled.width {
            let Some(start) = state.start(compiled, now, lane) else { continue };
            let one = &compiled.lanes[lane];
            let effect = state.effect(compiled, lane);
            let taken = effect.taken();
            if taken > 0 && taken + one.reserve > room {
                continue;
            }
            let column = lane * compiled.microbatches as usize + state.next[lane] as usize;
            let wish = self.at[column] + self.shift[lane];
            let key = (WHOLE - self.weight) * start + self.weight * wish;
            let next = Next { lane, start };
            if best.is_none_or(|(late, other, _)| (start > latest, key) < (late, other)) {
                best = Some((start > latest, key, next));
            }
            let end = start + effect.duration;
            if taken <= 0 && filler.is_none_or(|(other, key_of, _)| (end, key) < (other, key_of)) {
                filler = Some((end, key, next));
            }
        }
        let (_, _, next) = best?;
        match filler {
            Some((end, _, filler)) if self.fills && end <= next.start => Some(filler),
            _ => Some(next),
        }
    }
}

impl FollowTimes {
    /// Follows the desired starts `at`, with backwards split.
    pub(crate) fn exactly(compiled: &CompiledInstance, at: Vec<i64>) -> Self {
        Self {
            at,
            shift: vec![0; compiled.lanes.len()],
            begin: vec![0; compiled.stages],
            budget: vec![i64::MAX / 4; compiled.stages],
            weight: WHOLE,
            fills: true,
            whole: Vec::new(),
        }
    }

    /// Shifts the desired starts of one lane on neighbouring stages.
    fn shift_lane(&mut self, compiled: &CompiledInstance, wide: f64, chance: &mut Chance) {
        let (lane, first) = (chance.below(compiled.width), chance.below(compiled.stages));
        let count = 1 + chance.below(compiled.stages);
        let by = chance.between(-wide, wide) as i64;
        for stage in first..(first + count).min(compiled.stages) {
            self.shift[stage * compiled.width + lane] = by;
        }
    }

    /// Takes over which backwards are whole, and when those passes start.
    fn follow_whole(&mut self, compiled: &CompiledInstance, clock: &Clock, way: Direction) {
        self.whole.clear();
        if !compiled.mixes {
            return;
        }
        let columns = compiled.microbatches as usize;
        for lane in clock.whole.chunks_exact(columns) {
            match way {
                Direction::Backward => self.whole.extend(lane.iter().rev()),
                Direction::Forward => self.whole.extend(lane),
            }
        }
        if way == Direction::Forward {
            for (at, _) in self.whole.iter().enumerate().filter(|(_, whole)| **whole) {
                let duration = |whole| compiled.effect(at / columns, at % columns, whole).duration;
                self.at[at] += duration(false) - duration(true);
            }
        }
    }

    /// Makes the backwards of some neighbouring stages and microbatches whole, or splits them.
    fn change_whole(&mut self, compiled: &CompiledInstance, chance: &mut Chance) {
        let columns = compiled.microbatches as usize;
        let (first, begin) = (chance.below(compiled.stages), chance.below(columns));
        let [stages, count] = [compiled.stages, columns].map(|all| 1 + chance.below(all));
        let (chunk, whole) = (chance.below(compiled.chunks), chance.below(2) == 0);
        for stage in first..(first + stages).min(compiled.stages) {
            for kind in [1, 2] {
                let lane = stage * compiled.width + kind * compiled.chunks + chunk;
                let from = lane * columns;
                self.whole[from + begin..from + (begin + count).min(columns)].fill(whole);
            }
        }
    }

    /// Shifts the desired starts of some microbatches, in all lanes or in one lane of each stage.
    fn shift_band(&mut self, compiled: &CompiledInstance, wide: f64, chance: &mut Chance) {
        let (columns, lane) = (compiled.microbatches as usize, chance.below(compiled.width));
        let by = chance.between(-wide, wide) as i64;
        let all = chance.below(2) == 0;
        let begin = chance.below(columns);
        let count = 1 + chance.below(columns);
        for (at, times) in self.at.chunks_exact_mut(columns).enumerate() {
            if all || at % compiled.width == lane {
                times[begin..(begin + count).min(columns)].iter_mut().for_each(|time| *time += by);
            }
        }
    }

    /// Repeats the desired starts of one period several times, and then those of the rest as they were.
    /// Good orders below 1p are periodic: a period is mostly the time in which the first stage starts
    /// as many microbatches as it can hold, so an improvement of one period is one of all.
    fn repeat(&mut self, compiled: &CompiledInstance, chance: &mut Chance) {
        let columns = compiled.microbatches as usize;
        let held = compiled.held(0).min(columns);
        let period = if chance.below(2) == 0 { held } else { 1 + chance.below(held) };
        if period >= columns {
            return;
        }
        let begin = chance.below(columns - period);
        let times = 1 + chance.below((columns - begin).div_ceil(period));
        let (first, next) = (self.at[begin], self.at[begin + period]);
        // Desired starts far behind the end would overflow when they are weighted.
        if (next - first).saturating_mul(times as i64) > i64::MAX / 64 {
            return;
        }
        let end = (begin + (times + 1) * period).min(columns - 1);
        let later = next + times as i64 * (next - first) - self.at[end];
        for lane in self.at.chunks_exact_mut(columns) {
            let from = lane.partition_point(|&time| time < next).max(period);
            for column in from..columns {
                lane[column] = match column < from + times * period {
                    true => lane[column - period] + next - first,
                    false => lane[column] + later,
                };
            }
        }
    }
}

/// The random choices for one application of forward-backward improvement.
#[derive(Clone, Copy)]
pub(crate) struct Variation {
    weight: i64,
    fills: bool,
    budget: f64,
    wide: f64,
}

impl Variation {
    /// Follows the times of the earlier schedule exactly.
    pub(crate) const UNVARIED: Self = Self { weight: WHOLE, fills: true, budget: 1.0, wide: 0.0 };

    pub(crate) fn new(compiled: &CompiledInstance, chance: &mut Chance) -> Self {
        let weights = if compiled.chunks == 1 { CLOSE } else { LOOSE };
        Self {
            weight: weights[chance.below(weights.len())],
            fills: chance.below(2) == 0,
            budget: [1.0, 0.9, 0.5, 4.0][chance.below(4)],
            wide: [0.0, 0.1, 0.5, 1.5, 4.0][chance.below(5)],
        }
    }
}

/// The direction of time in which an order is scheduled again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the last pass to the first, in the reversed instance: passes run as late as they can.
    Backward,
    /// From the first pass to the last: passes run as early as they can.
    Forward,
}

/// The buffers of forward-backward improvement, allocated once.
#[derive(Default)]
pub(crate) struct ForwardBackward {
    rule: FollowTimes,
    state: State,
    /// The order that the last application produced.
    pub(crate) sequence: Vec<u16>,
}

impl ForwardBackward {
    /// Schedules the order that `clock` has timed again in direction `way`, aiming at the cost
    /// `target`, and times the result with `clock`. Returns its score and the number of passes placed
    /// and timed.
    pub(crate) fn run(
        &mut self,
        (compiled, reversed): (&CompiledInstance, &CompiledInstance),
        clock: &mut Clock,
        way: Direction,
        (target, draw): (i64, Variation),
        chance: &mut Chance,
    ) -> (Option<Score>, u64) {
        self.follow(compiled, clock, way, target);
        self.vary(compiled, target, draw, chance);
        let through = if way == Direction::Backward { reversed } else { compiled };
        let whole = self.state.run(through, &self.rule);
        let steps = self.state.placed().max(1);
        if whole.is_none() {
            return (None, steps);
        }
        self.sequence.clone_from(&self.state.sequence);
        if way == Direction::Backward {
            self.sequence.chunks_exact_mut(compiled.passes_per_stage()).for_each(<[u16]>::reverse);
        }
        (clock.time(compiled, &self.sequence), steps + compiled.passes() as u64)
    }

    /// Takes the times of `clock`, seen in direction `way`, as desired starts.
    fn follow(&mut self, compiled: &CompiledInstance, clock: &Clock, way: Direction, target: i64) {
        let columns = compiled.microbatches as usize;
        let rule = &mut self.rule;
        rule.at.clear();
        rule.begin.clear();
        let end = |stage: usize| target + if compiled.makespan { 0 } else { clock.first[stage] };
        let last = (0..compiled.stages).map(end).max().unwrap_or(0);
        for (lane, ends) in clock.ends.chunks_exact(columns).enumerate() {
            let duration = |number| compiled.effect(lane, number, false).duration;
            match way {
                Direction::Backward => rule.at.extend(ends.iter().rev().map(|end| last - end)),
                Direction::Forward => {
                    let starts = ends.iter().enumerate().map(|(at, end)| end - duration(at));
                    rule.at.extend(starts);
                }
            }
        }
        rule.follow_whole(compiled, clock, way);
        rule.begin.extend((0..compiled.stages).map(|stage| match way {
            Direction::Backward => last - end(stage),
            Direction::Forward => 0,
        }));
    }

    /// Sets weights, idle time and random shifts of the desired starts.
    fn vary(
        &mut self,
        compiled: &CompiledInstance,
        target: i64,
        draw: Variation,
        chance: &mut Chance,
    ) {
        let wide = draw.wide * compiled.mean_pass();
        let rule = &mut self.rule;
        (rule.weight, rule.fills) = (draw.weight, draw.fills);
        let idle = |&work: &i64| ((target - work).max(0) as f64 * draw.budget) as i64;
        rule.budget.clear();
        rule.budget.extend(compiled.work.iter().map(idle));
        rule.shift.clear();
        rule.shift.resize(compiled.lanes.len(), 0);
        if compiled.mixes && wide > 0.0 && chance.below(3) == 0 {
            rule.change_whole(compiled, chance);
        }
        if wide <= 0.0 {
            return;
        }
        match chance.below(3) {
            0 => rule.shift_lane(compiled, wide, chance),
            1 => rule.shift_band(compiled, wide, chance),
            _ => rule.repeat(compiled, chance),
        }
    }
}
