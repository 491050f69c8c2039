//! Forward-backward improvement: an order is scheduled anew with the times that it had, once in the
//! reversed net and once in the net itself.
// Passes, slots and lanes are fewer than `MAX_PASSES`; times lose nothing that a search minds.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::chance::Chance;
use crate::list::{Next, Rule, State};
use crate::net::Net;
use crate::timing::{Clock, Score};

/// The rule of a list schedule that echoes the times of another one.
#[derive(Default)]
pub(crate) struct Echo {
    /// When each pass is to start: lane by lane, one column per microbatch.
    at: Vec<i64>,
    /// By lane: what is added to that.
    shift: Vec<i64>,
    /// By stage: no pass starts before.
    begin: Vec<i64>,
    /// By stage: how long it may wait in all.
    budget: Vec<i64>,
    /// What those times weigh beside the time at which a pass can start, in parts of [`WHOLE`].
    weight: i64,
    /// Whether a pass that fits into the wait for another one goes before it.
    fills: bool,
}

/// The weight of times that count alone.
const WHOLE: i64 = 16;
/// What an echo's times may weigh where stages have one chunk.
const CLOSE: [i64; 6] = [16, 15, 14, 12, 8, 4];
/// The same where they have several: there is more to choose from, and to be early counts for more.
const LOOSE: [i64; 6] = [14, 8, 4, 4, 2, 1];

impl Rule for Echo {
    fn commits(&self) -> bool {
        false
    }

    #[inline]
    fn choose(&self, net: &Net, state: &State, stage: usize, now: i64) -> Option<Next> {
        let begin = stage * net.width;
        let room = net.limit[stage] - state.held[stage];
        let (now, latest) = match state.placed[stage] {
            0 => (now.max(self.begin[stage]), i64::MAX),
            _ => {
                let patience = (self.budget[stage] - state.idle[stage]).max(0);
                (now, state.free[stage].saturating_add(patience))
            }
        };
        let mut best: Option<(bool, i64, Next)> = None;
        let mut filler: Option<(i64, i64, Next)> = None;
        for lane in begin..begin + net.width {
            let Some(start) = state.start(net, now, lane) else { continue };
            let one = &net.lanes[lane];
            let taken = one.take.max(one.take + one.leave);
            if taken > 0 && taken + one.reserve > room {
                continue;
            }
            let column = lane * net.microbatches as usize + state.next[lane] as usize;
            let wish = self.at[column] + self.shift[lane];
            let key = (WHOLE - self.weight) * start + self.weight * wish;
            let next = Next { lane, start };
            if best.is_none_or(|(late, other, _)| (start > latest, key) < (late, other)) {
                best = Some((start > latest, key, next));
            }
            let end = start + one.duration;
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

impl Echo {
    /// Wishes one lane of neighbouring stages sooner or later.
    fn shift_lane(&mut self, net: &Net, wide: f64, chance: &mut Chance) {
        let (lane, first) = (chance.below(net.width), chance.below(net.stages));
        let count = 1 + chance.below(net.stages);
        let by = chance.between(-wide, wide) as i64;
        for stage in first..(first + count).min(net.stages) {
            self.shift[stage * net.width + lane] = by;
        }
    }

    /// Wishes some microbatches sooner or later, in all lanes or in one of each stage.
    fn shift_band(&mut self, net: &Net, wide: f64, chance: &mut Chance) {
        let (columns, lane) = (net.microbatches as usize, chance.below(net.width));
        let by = chance.between(-wide, wide) as i64;
        let all = chance.below(2) == 0;
        let begin = chance.below(columns);
        let count = 1 + chance.below(columns);
        for (at, times) in self.at.chunks_exact_mut(columns).enumerate() {
            if all || at % net.width == lane {
                times[begin..(begin + count).min(columns)].iter_mut().for_each(|time| *time += by);
            }
        }
    }

    /// Wishes that what happens in one period happens again and again, and then the rest as it was.
    /// Good orders below 1p are periodic: a period is mostly the time in which the first stage begins
    /// as many microbatches as it can hold, so what is gained in one is gained in all.
    fn repeat(&mut self, net: &Net, chance: &mut Chance) {
        let columns = net.microbatches as usize;
        let held = net.held(0).min(columns);
        let period = if chance.below(2) == 0 { held } else { 1 + chance.below(held) };
        if period >= columns {
            return;
        }
        let begin = chance.below(columns - period);
        let times = 1 + chance.below((columns - begin).div_ceil(period));
        let (first, next) = (self.at[begin], self.at[begin + period]);
        // Wishes far behind the end would not fit when they are weighed.
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

/// What is drawn for an echo there and back.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    weight: i64,
    fills: bool,
    budget: f64,
    wide: f64,
}

impl Draw {
    /// The times alone, as they were.
    pub(crate) const PLAIN: Self = Self { weight: WHOLE, fills: true, budget: 1.0, wide: 0.0 };

    pub(crate) fn new(net: &Net, chance: &mut Chance) -> Self {
        let weights = if net.chunks == 1 { CLOSE } else { LOOSE };
        Self {
            weight: weights[chance.below(weights.len())],
            fills: chance.below(2) == 0,
            budget: [1.0, 0.9, 0.5, 4.0][chance.below(4)],
            wide: [0.0, 0.1, 0.5, 1.5, 4.0][chance.below(5)],
        }
    }
}

/// Which way time runs in an echo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the last pass to the first, in the reversed net.
    Back,
    /// From the first pass to the last.
    Forth,
}

/// Tables for echoes, kept so that memory is asked for once.
#[derive(Default)]
pub(crate) struct Echoes {
    rule: Echo,
    state: State,
    /// The order that the last echo has come to.
    pub(crate) sequence: Vec<u16>,
}

impl Echoes {
    /// Schedules anew what `clock` has timed, and times that with it. It aims at the cost `target`.
    /// Second, the passes that have been placed and timed.
    pub(crate) fn run(
        &mut self,
        (net, reversed): (&Net, &Net),
        clock: &mut Clock,
        way: Way,
        (target, draw): (i64, Draw),
        chance: &mut Chance,
    ) -> (Option<Score>, u64) {
        self.listen(net, clock, way, target);
        self.vary(net, target, draw, chance);
        let through = if way == Way::Back { reversed } else { net };
        let whole = self.state.run(through, &self.rule);
        let steps = self.state.placed().max(1);
        if whole.is_none() {
            return (None, steps);
        }
        self.sequence.clone_from(&self.state.sequence);
        if way == Way::Back {
            self.sequence.chunks_exact_mut(net.passes_per_stage()).for_each(<[u16]>::reverse);
        }
        (clock.time(net, &self.sequence), steps + net.passes() as u64)
    }

    /// Takes over the times of `clock`, as they are `way`.
    fn listen(&mut self, net: &Net, clock: &Clock, way: Way, target: i64) {
        let columns = net.microbatches as usize;
        let rule = &mut self.rule;
        rule.at.clear();
        rule.begin.clear();
        let end = |stage: usize| target + if net.makespan { 0 } else { clock.first[stage] };
        let last = (0..net.stages).map(end).max().unwrap_or(0);
        for (lane, ends) in net.lanes.iter().zip(clock.ends.chunks_exact(columns)) {
            match way {
                Way::Back => rule.at.extend(ends.iter().rev().map(|end| last - end)),
                Way::Forth => rule.at.extend(ends.iter().map(|end| end - lane.duration)),
            }
        }
        rule.begin.extend((0..net.stages).map(|stage| match way {
            Way::Back => last - end(stage),
            Way::Forth => 0,
        }));
    }

    fn vary(&mut self, net: &Net, target: i64, draw: Draw, chance: &mut Chance) {
        let wide = draw.wide * net.mean_pass();
        let rule = &mut self.rule;
        (rule.weight, rule.fills) = (draw.weight, draw.fills);
        let idle = |&work: &i64| ((target - work).max(0) as f64 * draw.budget) as i64;
        rule.budget.clear();
        rule.budget.extend(net.work.iter().map(idle));
        rule.shift.clear();
        rule.shift.resize(net.lanes.len(), 0);
        if wide <= 0.0 {
            return;
        }
        match chance.below(3) {
            0 => rule.shift_lane(net, wide, chance),
            1 => rule.shift_band(net, wide, chance),
            _ => rule.repeat(net, chance),
        }
    }
}
