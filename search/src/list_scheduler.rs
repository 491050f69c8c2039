//! List scheduling in time order: whenever a stage is free, a priority rule chooses among the passes
//! that are ready or known to become ready.
// Passes, slots and lanes are fewer than `MAX_PASSES`; rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::compiled_instance::{CompiledInstance, Effect, NONE};
use crate::timing::{self, Score};

/// A pass that a stage could run next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) lane: usize,
    pub(crate) start: i64,
}

/// A priority rule for list scheduling: chooses the next pass of a stage.
pub(crate) trait Rule {
    /// Whether a stage that waits for a pass runs it next even if another one becomes ready
    /// meanwhile.
    fn commits(&self) -> bool;

    /// Whether the backward of each B and W is whole: lane by lane, one column per microbatch; empty where none is.
    fn whole(&self) -> &[bool];

    /// The next pass of `stage`, from `now` on; `None` to block until another pass is placed.
    fn choose(
        &self,
        compiled: &CompiledInstance,
        state: &State,
        stage: usize,
        now: i64,
    ) -> Option<Next>;
}

/// The state of a partial schedule.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// End of each pass: lane by lane, one column per microbatch.
    pub(crate) ends: Vec<i64>,
    /// The number of passes placed of each lane.
    pub(crate) next: Vec<u32>,
    /// The time at which each stage becomes free.
    pub(crate) free: Vec<i64>,
    /// The memory that each stage holds.
    pub(crate) held: Vec<i64>,
    /// The idle time of each stage since its first pass.
    pub(crate) idle: Vec<i64>,
    /// Start of the first pass of each stage.
    pub(crate) first: Vec<i64>,
    /// The number of passes placed of each stage.
    pub(crate) placed: Vec<usize>,
    /// The lanes of each stage in the order in which they are placed.
    pub(crate) sequence: Vec<u16>,
    decisions: DecisionQueue,
    /// Whether the backward of each B and W is whole; empty where none is.
    whole: Vec<bool>,
}

/// Priority queue of the stages by the time of their next decision: a tournament tree.
#[derive(Clone, Default)]
struct DecisionQueue {
    /// Leaves from `leaves` on; each node has the smaller of its children.
    nodes: Vec<(i64, u32)>,
    leaves: usize,
}

/// Time of a stage with no decision scheduled: it is done, or blocked until an input is placed.
const UNSCHEDULED: i64 = i64::MAX;

impl DecisionQueue {
    fn reset(&mut self, stages: usize) {
        self.leaves = stages.next_power_of_two();
        self.nodes.clear();
        self.nodes.resize(2 * self.leaves, (UNSCHEDULED, 0));
        for stage in 0..stages {
            self.nodes[self.leaves + stage] = (0, u32::try_from(stage).unwrap_or(0));
        }
        for at in (1..self.leaves).rev() {
            self.nodes[at] = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
        }
    }

    #[inline]
    fn set(&mut self, stage: usize, time: i64) {
        let mut at = self.leaves + stage;
        self.nodes[at].0 = time;
        self.nodes[at].1 = stage as u32;
        while at > 1 {
            let winner = self.nodes[at].min(self.nodes[at ^ 1]);
            at /= 2;
            if self.nodes[at] == winner {
                return;
            }
            self.nodes[at] = winner;
        }
    }
}

impl State {
    /// Places every pass; `None` at a deadlock.
    pub(crate) fn run(&mut self, compiled: &CompiledInstance, rule: &impl Rule) -> Option<Score> {
        self.reset(compiled);
        self.whole.clear();
        self.whole.extend_from_slice(rule.whole());
        let each = compiled.passes_per_stage();
        let mut left = compiled.passes();
        while left > 0 {
            let (now, stage) = self.decisions.nodes[1];
            if now == UNSCHEDULED {
                return None;
            }
            let stage = stage as usize;
            let Some(next) = rule.choose(compiled, self, stage, now) else {
                self.decisions.set(stage, UNSCHEDULED);
                continue;
            };
            // A better pass may become ready before it starts.
            if next.start > now && !rule.commits() {
                self.decisions.set(stage, next.start);
                continue;
            }
            self.place(compiled, stage, next);
            left -= 1;
            let wakes = compiled.lanes[next.lane].wakes;
            if wakes != NONE && self.placed[wakes as usize] < each {
                self.decisions.set(wakes as usize, now.max(self.free[wakes as usize]));
            }
            let done = self.placed[stage] == each;
            self.decisions.set(stage, if done { UNSCHEDULED } else { self.free[stage] });
        }
        Some(timing::score(compiled, &self.first, &self.free))
    }

    #[inline]
    fn place(&mut self, compiled: &CompiledInstance, stage: usize, next: Next) {
        let Next { lane, start } = next;
        let number = self.next[lane];
        let at = lane * compiled.microbatches as usize + number as usize;
        let whole = self.whole.get(at).copied().unwrap_or(false);
        let effect = compiled.effect(lane, number as usize, whole);
        let end = start + effect.duration;
        self.ends[at] = end;
        self.next[lane] = number + 1;
        self.held[stage] += effect.take + effect.leave;
        match self.placed[stage] {
            0 => self.first[stage] = start,
            _ => self.idle[stage] += start - self.free[stage],
        }
        self.free[stage] = end;
        let at = stage * compiled.passes_per_stage() + self.placed[stage];
        self.sequence[at] = compiled.code(lane, whole);
        self.placed[stage] += 1;
    }

    /// The effect of the next pass of `lane`.
    #[inline]
    pub(crate) fn effect(&self, compiled: &CompiledInstance, lane: usize) -> Effect {
        let number = self.next[lane] as usize;
        let column = lane * compiled.microbatches as usize + number;
        compiled.effect(lane, number, self.whole.get(column).copied().unwrap_or(false))
    }

    /// The earliest start of the next pass of `lane`, not before `now`, if its predecessors are
    /// placed.
    #[inline]
    pub(crate) fn start(&self, compiled: &CompiledInstance, now: i64, lane: usize) -> Option<i64> {
        let one = &compiled.lanes[lane];
        let number = self.next[lane];
        if number == compiled.microbatches
            || (one.local != NONE && self.next[one.local as usize] <= number)
        {
            return None;
        }
        let mut start = now;
        if one.remote != NONE {
            if self.next[one.remote as usize] <= number {
                return None;
            }
            let column = one.remote as usize * compiled.microbatches as usize + number as usize;
            start = start.max(self.ends[column] + one.hop);
        }
        Some(start)
    }

    /// The time at which an R of `lane` that can start at `start` is best done: so that it has ended when the
    /// gradient of its B comes, if that is known.
    #[inline]
    fn recompute_wish(&self, compiled: &CompiledInstance, lane: usize, start: i64) -> Option<i64> {
        let number = self.next[lane] as usize;
        let backward = &compiled.lanes[lane - 2 * compiled.chunks];
        let remote = (backward.remote != NONE).then_some(backward.remote as usize)?;
        let is_known = self.next[remote] as usize > number;
        let column = remote * compiled.microbatches as usize + number;
        let arrival = is_known.then(|| self.ends[column] + backward.hop)?;
        Some(start.max(arrival - compiled.effect(lane, number, false).duration))
    }

    /// The number of passes placed.
    pub(crate) fn placed(&self) -> u64 {
        self.placed.iter().map(|&count| count as u64).sum()
    }

    fn reset(&mut self, compiled: &CompiledInstance) {
        self.ends.resize(compiled.passes(), 0);
        self.sequence.resize(compiled.passes(), 0);
        self.next.clear();
        self.next.resize(compiled.lanes.len(), 0);
        for per_stage in [&mut self.free, &mut self.held, &mut self.idle, &mut self.first] {
            per_stage.clear();
            per_stage.resize(compiled.stages, 0);
        }
        self.placed.clear();
        self.placed.resize(compiled.stages, 0);
        self.decisions.reset(compiled.stages);
    }
}

/// Tables of a rule with offsets: the pass with the smallest start plus offset comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    /// By lane, the offset.
    pub(crate) offset: Vec<i64>,
    /// By stage, the amount subtracted from the offset of W where memory blocks a pass.
    pub(crate) relief: Vec<i64>,
    /// By lane, the most passes in flight before the first pass of the next kind.
    pub(crate) warm: Vec<u32>,
    /// By lane, the most passes in flight at any time.
    pub(crate) cap: Vec<u32>,
    /// By stage, the idle time that it may spend in all.
    pub(crate) budget: Vec<i64>,
    /// Whether memory is filled to the limit, rather than leaving room for microbatches in flight.
    pub(crate) greedy: bool,
    /// The least time between the starts of the passes of the first lane.
    pub(crate) pace: i64,
    /// Whether a stage that waits for a pass runs it next even if another one becomes ready
    /// meanwhile.
    pub(crate) commits: bool,
    /// The grid on which those passes start; 0 for any time.
    pub(crate) grid: i64,
    /// Whether the backward of each B and W is whole; empty where none is.
    pub(crate) whole: Vec<bool>,
}

impl Offsets {
    /// The time at which the next pass of the first lane may start, if it could start at `start`.
    fn paced(&self, state: &State, mut start: i64, duration: i64) -> i64 {
        if self.pace > 0 && state.next[0] > 0 {
            start = start.max(state.ends[state.next[0] as usize - 1] - duration + self.pace);
        }
        if self.grid > 0 {
            start = (start + self.grid - 1) / self.grid * self.grid;
        }
        start
    }

    /// Whether as many forwards of `lane` are in flight as the caps allow.
    fn is_enough(&self, state: &State, lane: usize, chunks: usize) -> bool {
        let back = state.next[lane + chunks];
        let most = match back {
            0 => self.warm[lane].min(self.cap[lane]),
            _ => self.cap[lane],
        };
        state.next[lane] - back >= most
    }
}

impl Rule for Offsets {
    fn commits(&self) -> bool {
        self.commits
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
        let (begin, chunks) = (stage * compiled.width, compiled.chunks);
        let patience = (self.budget[stage] - state.idle[stage]).max(0);
        let latest = match state.placed[stage] {
            0 => i64::MAX,
            _ => state.free[stage].saturating_add(patience),
        };
        let room = compiled.limit[stage] - state.held[stage];
        let mut best: Option<(bool, i64, Next)> = None;
        let mut blocked = false;
        for lane in begin..begin + compiled.width {
            let Some(mut start) = state.start(compiled, now, lane) else { continue };
            let one = &compiled.lanes[lane];
            let reserve = if self.greedy { 0 } else { one.reserve };
            let taken = state.effect(compiled, lane).taken();
            if taken > 0 && taken + reserve > room {
                blocked = true;
                continue;
            }
            let mut offset = self.offset[lane];
            if lane < begin + chunks && self.is_enough(state, lane, chunks) {
                continue;
            }
            if compiled.is_recompute(lane) {
                start = state.recompute_wish(compiled, lane, start).unwrap_or(start);
            }
            if blocked && compiled.is_weight(lane) {
                offset -= self.relief[stage];
            }
            if lane == 0 {
                start = self.paced(state, start, one.duration);
            }
            let key = (start > latest, start + offset);
            if best.is_none_or(|(late, other, _)| key < (late, other)) {
                best = Some((key.0, key.1, Next { lane, start }));
            }
        }
        best.map(|(_, _, next)| next)
    }
}
