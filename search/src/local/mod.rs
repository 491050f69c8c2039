//! Local search over the orders of the stages: a move shifts a pass within its stage, or splits a whole backward, or
//! makes one whole. Its effect is first estimated from the times around it; if that looks good, the passes whose times
//! change are timed again.
// Passes, slots and lanes are fewer than `MAX_PASSES`; rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

mod anneal;
mod links;
mod times;

use self::links::Link;
use crate::compiled_instance::{CompiledInstance, Effect};
use crate::marks::Marks;
use crate::timing::{Clock, Score};

/// A timed order of all stages that can be changed and changed back.
pub(crate) struct Local<'a> {
    compiled: &'a CompiledInstance,
    /// Passes in their slots, stage by stage. Pass: lane times microbatches plus microbatch.
    order: Vec<u32>,
    /// The slot of each pass.
    slot: Vec<u32>,
    /// The lane of each pass.
    lane: Vec<u32>,
    /// The memory that the stage holds after each slot.
    held: Vec<i64>,
    /// By lane, its links.
    links: Vec<Link>,
    /// Whether the backward of each B and W is whole; empty where none may be.
    whole: Vec<bool>,
    /// The end of each pass.
    end: Vec<i64>,
    /// The time from the start of each pass to the end of the schedule, along the longest chain of passes.
    rest: Vec<i64>,
    score: Score,
    /// Passes whose end has changed, and what it was before.
    moved: Vec<(u32, i64)>,
    marks: Marks,
    /// Changes since slots were sorted.
    changes: u32,
    /// By stage, the start of its first pass where the objective is the span, else 0.
    offset: Vec<i64>,
    /// The slots whose pass starts when that of the slot before ends, along one of the longest chains of passes.
    joints: Vec<u32>,
    /// Whether a slot is the first of its stage.
    first: Vec<bool>,
    /// The end of each pass of a segment.
    ends: Vec<i64>,
    /// The effort spent so far, in units of a pass placed or timed.
    pub(crate) steps: u64,
    /// The cost at which annealing ends.
    goal: i64,
    /// The weight of the mean stage beside the worst, in annealing.
    weight: f64,
}

impl<'a> Local<'a> {
    /// Begins at `sequence`; `None` if its passes wait for each other, a stage goes over its limit, or
    /// passes wait no time at all for those of another stage: see [`Link::all`].
    pub(crate) fn new(
        compiled: &'a CompiledInstance,
        sequence: &[u16],
        clock: &mut Clock,
    ) -> Option<Self> {
        let links = Link::all(compiled)?;
        let score = clock.time(compiled, sequence)?;
        let lane: Vec<u32> =
            (0..compiled.passes() as u32).map(|pass| pass / compiled.microbatches).collect();
        let mut local = Self {
            compiled,
            order: Vec::with_capacity(compiled.passes()),
            slot: vec![0; compiled.passes()],
            held: vec![0; compiled.passes()],
            links,
            whole: if compiled.mixes { clock.whole.clone() } else { Vec::new() },
            end: clock.ends.clone(),
            rest: vec![i64::MIN / 2; compiled.passes()],
            lane,
            score,
            moved: Vec::new(),
            marks: Marks::new(compiled.passes()),
            changes: 0,
            // A stage's first pass never starts at another time: nothing comes before it but the
            // same microbatch's passes, which are the first of theirs.
            offset: if compiled.makespan { vec![0; compiled.stages] } else { clock.first.clone() },
            joints: Vec::new(),
            first: (0..=compiled.passes())
                .map(|slot| slot.is_multiple_of(compiled.passes_per_stage()))
                .collect(),
            ends: Vec::new(),
            steps: 2 * compiled.passes() as u64,
            goal: 0,
            weight: 0.0,
        };
        local.fill(sequence);
        local.sort();
        local.find_rests(0, compiled.passes() - 1);
        Some(local)
    }

    /// Sorts slots by time.
    fn sort(&mut self) {
        let Self { marks, end, order, .. } = self;
        marks.sort(|slot| end[order[slot] as usize]);
        self.changes = 0;
    }

    /// Puts the passes into the slots that they have in `sequence`.
    fn fill(&mut self, sequence: &[u16]) {
        let (compiled, each) = (self.compiled, self.compiled.passes_per_stage());
        for stage in 0..compiled.stages {
            let mut next = vec![0; compiled.width];
            for &code in &sequence[stage * each..(stage + 1) * each] {
                let (lane, _) = compiled.lane_of(code);
                let pass =
                    (stage * compiled.width + lane) as u32 * compiled.microbatches + next[lane];
                next[lane] += 1;
                self.slot[pass as usize] = self.order.len() as u32;
                self.order.push(pass);
            }
            self.account(stage * each, (stage + 1) * each - 1);
        }
    }

    /// The passes in their slots, stage by stage. Pass: lane times microbatches plus microbatch.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The last pass of `stage`.
    fn last_of(&self, stage: usize) -> u32 {
        self.order[(stage + 1) * self.compiled.passes_per_stage() - 1]
    }

    /// The sequence as it is.
    pub(crate) fn sequence(&self, into: &mut Vec<u16>) {
        into.clear();
        into.extend(self.order.iter().map(|&pass| {
            self.compiled.code(self.lane[pass as usize] as usize, self.is_whole(pass))
        }));
    }

    /// Whether `pass` is of a whole backward.
    #[inline]
    fn is_whole(&self, pass: u32) -> bool {
        self.whole.get(pass as usize).copied().unwrap_or(false)
    }

    fn effect(&self, pass: u32) -> Effect {
        self.compiled.lanes[self.lane[pass as usize] as usize].effect(self.is_whole(pass))
    }

    fn stage_of(&self, slot: usize) -> usize {
        slot / self.compiled.passes_per_stage()
    }

    fn is_first(&self, slot: usize) -> bool {
        self.first[slot]
    }

    fn is_last(&self, slot: usize) -> bool {
        self.first[slot + 1]
    }

    /// Writes down memory from slot `from` to slot `to` of a stage; whether its limit is kept there.
    fn account(&mut self, from: usize, to: usize) -> bool {
        let limit = self.compiled.limit[self.stage_of(from)];
        let mut held = if self.is_first(from) { 0 } else { self.held[from - 1] };
        let mut kept = true;
        for slot in from..=to {
            let effect = self.effect(self.order[slot]);
            held += effect.take;
            kept &= held.max(held + effect.leave) <= limit;
            held += effect.leave;
            self.held[slot] = held;
        }
        kept
    }

    /// Moves the pass in slot `from` to slot `to` of its stage, all between by one.
    fn shift(&mut self, from: usize, to: usize) {
        if from < to {
            self.order[from..=to].rotate_left(1);
        } else {
            self.order[to..=from].rotate_right(1);
        }
        for slot in from.min(to)..=from.max(to) {
            self.slot[self.order[slot] as usize] = slot as u32;
        }
    }

    /// Whether the pass `later` must stay behind the pass `sooner` on its stage.
    fn bound(&self, sooner: u32, later: u32) -> bool {
        let (a, b) = (self.lane[sooner as usize], self.lane[later as usize]);
        if a == b {
            return true;
        }
        let lane = &self.compiled.lanes[b as usize];
        let columns = self.compiled.microbatches;
        (lane.local == a || lane.remote == a) && sooner - a * columns == later - b * columns
    }

    /// The furthest slot to which the pass in `slot` can move, at most `far` slots back or forth.
    pub(crate) fn reach(&self, slot: usize, far: usize, back: bool) -> usize {
        let pass = self.order[slot];
        let mut to = slot;
        for _ in 0..far {
            if back {
                if self.is_first(to) || self.bound(self.order[to - 1], pass) {
                    break;
                }
                to -= 1;
            } else {
                if self.is_last(to) || self.bound(pass, self.order[to + 1]) {
                    break;
                }
                to += 1;
            }
        }
        to
    }

    /// Takes back `change` of the order.
    pub(crate) fn take_back(&mut self, change: &Change) {
        if let Some(backward) = change.backward {
            self.flip(backward);
            self.account(change.low, change.high);
            return;
        }
        if let Some((from, to)) = change.relief {
            self.shift(to, from);
        }
        self.shift(change.to, change.from);
        self.account(change.low, change.high);
    }

    /// Moves the pass in slot `from` to slot `to`, and a W in front of it where memory lacks; `None` if it lacks still.
    pub(crate) fn apply(&mut self, from: usize, to: usize) -> Option<Change> {
        self.shift(from, to);
        let (low, high) = (from.min(to), from.max(to));
        let mut change = Change { from, to, relief: None, backward: None, low, high };
        let mut fits = self.account(low, high);
        if !fits
            && to < from
            && let Some(weight) = self.next_weight(to)
        {
            self.shift(weight, to);
            change.relief = Some((weight, to));
            change.high = high.max(weight);
            fits = self.account(low, change.high);
        }
        if fits {
            return Some(change);
        }
        self.take_back(&change);
        None
    }

    /// Splits the whole backward that the B `backward` does, or makes it whole; `None` if memory lacks then.
    fn apply_flip(&mut self, backward: u32) -> Option<Change> {
        let weight = backward + self.weight_after();
        let [low, high] = [backward, weight].map(|pass| self.slot[pass as usize] as usize);
        self.flip(backward);
        let change =
            Change { from: low, to: low, relief: None, backward: Some(backward), low, high };
        if self.account(low, high) {
            return Some(change);
        }
        self.take_back(&change);
        None
    }

    fn flip(&mut self, backward: u32) {
        let weight = backward + self.weight_after();
        for pass in [backward, weight] {
            let whole = &mut self.whole[pass as usize];
            *whole = !*whole;
        }
    }

    /// The distance from the number of a B to that of its W.
    fn weight_after(&self) -> u32 {
        self.compiled.chunks as u32 * self.compiled.microbatches
    }

    /// The slot of the next W behind `slot` that could be done before it.
    fn next_weight(&self, slot: usize) -> Option<usize> {
        const FAR: usize = 24;
        let end = (self.stage_of(slot) + 1) * self.compiled.passes_per_stage();
        (slot + 1..end.min(slot + FAR)).find(|&other| {
            let pass = self.order[other];
            let lane = self.lane[pass as usize] as usize;
            self.compiled.is_weight(lane)
                && !self.is_whole(pass)
                && self.reach(other, other - slot, true) == slot
        })
    }
}

/// A change of the order, to be undone or kept.
pub(crate) struct Change {
    from: usize,
    to: usize,
    /// The slots from and to which a W went beside it.
    relief: Option<(usize, usize)>,
    /// The B whose backward was split or made whole, if no pass moved.
    backward: Option<u32>,
    /// All that moved is from this slot
    low: usize,
    /// to that one.
    high: usize,
}
