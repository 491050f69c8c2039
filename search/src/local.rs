//! Local search over the orders of the stages: a pass moves within its stage, and only what changes
//! is timed again.
// Passes, slots and lanes are fewer than `MAX_PASSES`; times lose nothing that a search minds.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::chain::Halt;
use crate::chance::Chance;
use crate::net::{NONE, Net};
use crate::timing::{Clock, Score};

/// A timed order of all stages that can be changed and changed back.
pub(crate) struct Local<'a> {
    net: &'a Net,
    /// Passes in their slots, stage by stage. Pass: lane times microbatches plus microbatch.
    order: Vec<u32>,
    /// The slot of each pass.
    slot: Vec<u32>,
    /// When each pass ends.
    end: Vec<i64>,
    /// What the stage holds behind each slot.
    held: Vec<i64>,
    /// The work of the stage behind each slot.
    rest: Vec<i64>,
    lane: Vec<u32>,
    changed: Vec<(u32, i64)>,
    dirty: Dirty,
    path: Vec<u32>,
    /// Passes timed again so far.
    pub(crate) steps: u64,
}

/// The slots to be timed again, by the time they had.
#[derive(Default)]
struct Dirty {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<(i64, u32)>>,
    marked: Vec<bool>,
}

impl Dirty {
    fn mark(&mut self, time: i64, slot: u32) {
        if !std::mem::replace(&mut self.marked[slot as usize], true) {
            self.heap.push(std::cmp::Reverse((time, slot)));
        }
    }

    fn clear(&mut self) {
        for std::cmp::Reverse((_, slot)) in self.heap.drain() {
            self.marked[slot as usize] = false;
        }
    }
}

impl<'a> Local<'a> {
    /// Begins at `sequence`, which has been timed by `clock`.
    pub(crate) fn new(net: &'a Net, sequence: &[u16], clock: &Clock) -> Self {
        let (columns, each) = (net.microbatches, net.passes_per_stage());
        let mut local = Self {
            net,
            order: Vec::with_capacity(net.passes()),
            slot: vec![0; net.passes()],
            end: clock.ends.clone(),
            held: vec![0; net.passes()],
            rest: vec![0; net.passes()],
            lane: (0..net.passes() as u32).map(|pass| pass / columns).collect(),
            changed: Vec::new(),
            dirty: Dirty { marked: vec![false; net.passes()], ..Dirty::default() },
            path: Vec::new(),
            steps: 0,
        };
        for stage in 0..net.stages {
            let mut next = vec![0; net.width];
            for &lane in &sequence[stage * each..(stage + 1) * each] {
                let pass = (stage * net.width + usize::from(lane)) as u32 * columns
                    + next[usize::from(lane)];
                next[usize::from(lane)] += 1;
                local.slot[pass as usize] = local.order.len() as u32;
                local.order.push(pass);
            }
            local.account(stage * each, (stage + 1) * each - 1);
        }
        local
    }

    /// The sequence as it is.
    pub(crate) fn sequence(&self, into: &mut Vec<u16>) {
        into.clear();
        into.extend(
            self.order
                .iter()
                .map(|&pass| (self.lane[pass as usize] as usize % self.net.width) as u16),
        );
    }

    fn lane_of(&self, pass: u32) -> &crate::net::Lane {
        &self.net.lanes[self.lane[pass as usize] as usize]
    }

    fn stage_of(&self, slot: usize) -> usize {
        slot / self.net.passes_per_stage()
    }

    fn is_first(&self, slot: usize) -> bool {
        slot.is_multiple_of(self.net.passes_per_stage())
    }

    /// Writes down memory and work from slot `from` to slot `to` of a stage; whether its limit is
    /// kept there.
    fn account(&mut self, from: usize, to: usize) -> bool {
        let stage = self.stage_of(from);
        let (mut held, mut rest) = match self.is_first(from) {
            true => (0, self.net.work[stage]),
            false => (self.held[from - 1], self.rest[from - 1]),
        };
        let mut kept = true;
        for slot in from..=to {
            let lane = *self.lane_of(self.order[slot]);
            held += lane.take;
            kept &= held.max(held + lane.leave) <= self.net.limit[stage];
            held += lane.leave;
            rest -= lane.duration;
            (self.held[slot], self.rest[slot]) = (held, rest);
        }
        kept
    }

    /// When `pass` could start: its stage is free and what it needs is there.
    fn start(&self, pass: u32) -> i64 {
        let slot = self.slot[pass as usize] as usize;
        let free = if self.is_first(slot) { 0 } else { self.end[self.order[slot - 1] as usize] };
        free.max(self.arrival(pass))
    }

    fn arrival(&self, pass: u32) -> i64 {
        let lane = self.lane_of(pass);
        match lane.remote {
            NONE => 0,
            remote => {
                self.end[(pass - self.lane[pass as usize] * self.net.microbatches
                    + remote * self.net.microbatches) as usize]
                    + lane.hop
            }
        }
    }

    /// Cost and sum of the order as it is.
    pub(crate) fn score(&self) -> Score {
        let each = self.net.passes_per_stage();
        let mut score = Score { cost: 0, sum: 0 };
        for stage in 0..self.net.stages {
            let one = self.end[self.order[(stage + 1) * each - 1] as usize] - self.first(stage);
            score.cost = score.cost.max(one);
            score.sum = score.sum.saturating_add(one);
        }
        score
    }

    fn first(&self, stage: usize) -> i64 {
        if self.net.makespan {
            return 0;
        }
        let pass = self.order[stage * self.net.passes_per_stage()];
        self.end[pass as usize] - self.lane_of(pass).duration
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

    /// Whether the pass in slot `later` must stay behind that in slot `sooner`, on its stage.
    fn bound(&self, sooner: u32, later: u32) -> bool {
        let (a, b) = (self.lane[sooner as usize], self.lane[later as usize]);
        if a == b {
            return true;
        }
        let lane = &self.net.lanes[b as usize];
        let columns = self.net.microbatches;
        lane.local == a && sooner - a * columns == later - b * columns
    }

    /// How far the pass in `slot` can go, at most `far` slots, forwards or back.
    fn reach(&self, slot: usize, far: usize, back: bool) -> usize {
        let each = self.net.passes_per_stage();
        let pass = self.order[slot];
        let mut to = slot;
        for _ in 0..far {
            if back {
                if self.is_first(to) || self.bound(self.order[to - 1], pass) {
                    break;
                }
                to -= 1;
            } else {
                if (to + 1).is_multiple_of(each) || self.bound(pass, self.order[to + 1]) {
                    break;
                }
                to += 1;
            }
        }
        to
    }

    /// Times all that follows from a change of slots `from` to `to`; `false` if it turns out that
    /// the cost is above `most`, or passes wait for each other.
    fn retime(&mut self, from: usize, to: usize, most: i64) -> bool {
        let each = self.net.passes_per_stage();
        let before = |local: &Self, slot: usize| {
            let pass = local.order[slot];
            local.end[pass as usize] - local.lane_of(pass).duration
        };
        let last = if (to + 1).is_multiple_of(each) { to } else { to + 1 };
        // In time order as it will be, roughly: the slots of the change first.
        let base = (from..=last).map(|slot| before(self, slot)).min().unwrap_or(0);
        for slot in from..=last {
            self.dirty.mark(base + (slot - from) as i64, slot as u32);
        }
        let mut guard = 4 * self.net.passes();
        while let Some(std::cmp::Reverse((_, slot))) = self.dirty.heap.pop() {
            self.dirty.marked[slot as usize] = false;
            let slot = slot as usize;
            let pass = self.order[slot];
            let lane = *self.lane_of(pass);
            let end = self.start(pass) + lane.duration;
            let old = self.end[pass as usize];
            self.steps += 1;
            guard -= 1;
            if end == old {
                continue;
            }
            let stage = self.stage_of(slot);
            self.changed.push((pass, old));
            self.end[pass as usize] = end;
            if guard == 0 || end + self.rest[slot] - self.first(stage) > most {
                self.dirty.clear();
                return false;
            }
            if !(slot + 1).is_multiple_of(each) {
                self.dirty.mark(before(self, slot + 1), slot as u32 + 1);
            }
            if lane.feeds != NONE {
                let columns = self.net.microbatches;
                let fed = pass - self.lane[pass as usize] * columns + lane.feeds * columns;
                let slot = self.slot[fed as usize];
                self.dirty.mark(before(self, slot as usize), slot);
            }
        }
        true
    }

    /// Takes back `change`, and the times that followed from it.
    fn undo(&mut self, change: &Change) {
        while let Some((pass, end)) = self.changed.pop() {
            self.end[pass as usize] = end;
        }
        if let Some((from, to)) = change.relief {
            self.shift(to, from);
        }
        self.shift(change.to, change.from);
        self.account(change.low, change.high);
    }

    /// Moves the pass in slot `from` to slot `to`, and a W in front of it where memory lacks;
    /// `None` if it lacks still.
    fn apply(&mut self, from: usize, to: usize) -> Option<Change> {
        self.changed.clear();
        self.shift(from, to);
        let (low, high) = (from.min(to), from.max(to));
        let mut change = Change { from, to, relief: None, low, high };
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
        self.undo(&change);
        None
    }

    /// The slot of the next W behind `slot` that could be done before it.
    fn next_weight(&self, slot: usize) -> Option<usize> {
        const FAR: usize = 24;
        let (width, chunks) = (self.net.width, self.net.chunks);
        let end = (self.stage_of(slot) + 1) * self.net.passes_per_stage();
        (slot + 1..end.min(slot + FAR)).find(|&other| {
            let lane = self.lane[self.order[other] as usize] as usize % width;
            lane >= 2 * chunks && self.reach(other, other - slot, true) == slot
        })
    }

    /// The passes that the end of the worst stage follows from, each the cause of the one before.
    fn find_path(&mut self) {
        let each = self.net.passes_per_stage();
        let last = |local: &Self, stage: usize| local.order[(stage + 1) * each - 1];
        let worst = (0..self.net.stages)
            .max_by_key(|&stage| self.end[last(self, stage) as usize] - self.first(stage))
            .unwrap_or(0);
        let mut pass = last(self, worst);
        self.path.clear();
        loop {
            self.path.push(pass);
            let slot = self.slot[pass as usize] as usize;
            let start = self.end[pass as usize] - self.lane_of(pass).duration;
            let lane = self.lane_of(pass);
            if !self.is_first(slot) && self.end[self.order[slot - 1] as usize] == start {
                pass = self.order[slot - 1];
            } else if lane.remote != NONE {
                let columns = self.net.microbatches;
                pass = pass - self.lane[pass as usize] * columns + lane.remote * columns;
            } else {
                return;
            }
        }
    }

    /// Tries changes until `steps` passes have been timed, or the goal is reached. Worse orders are
    /// taken with a probability that falls as it cools down. The best sequence met goes to `best`.
    pub(crate) fn anneal(
        &mut self,
        chance: &mut Chance,
        plan: Plan,
        best: &mut (Score, Vec<u16>),
        halt: &Halt<'_>,
    ) {
        let least = plan.weight
            * self.mean(self.net.work.iter().fold(0, |sum: i64, work| sum.saturating_add(*work)));
        let mut now = self.score();
        self.find_path();
        let mut tries = 0u32;
        loop {
            if now < best.0 {
                best.0 = now;
                self.sequence(&mut best.1);
            }
            tries = tries.wrapping_add(1);
            let over = self.steps >= plan.steps || now.cost <= plan.goal;
            if over || (tries.is_multiple_of(256) && halt.now()) {
                return;
            }
            self.steps += 1;
            let (from, to) = self.draw(chance);
            if from == to {
                continue;
            }
            let Some(change) = self.apply(from, to) else { continue };
            let heat = plan.heat(self.steps);
            let allowed = self.energy(now, plan) - heat * (1.0 - chance.unit()).ln();
            let most = (allowed - least) as i64;
            let timed = self.retime(change.low, change.high, most);
            if !timed || self.energy(self.score(), plan) > allowed {
                self.undo(&change);
            } else if !self.changed.is_empty() {
                now = self.score();
                self.find_path();
            }
        }
    }

    /// Which pass to move where: mostly one that the cost follows from, mostly by one slot.
    fn draw(&self, chance: &mut Chance) -> (usize, usize) {
        const FAR: [usize; 8] = [1, 1, 1, 2, 3, 5, 9, 17];
        let from = match chance.below(8) {
            0 => chance.below(self.order.len()),
            _ => self.slot[self.path[chance.below(self.path.len())] as usize] as usize,
        };
        let far = FAR[chance.below(FAR.len())];
        let far = 1 + chance.below(far);
        (from, self.reach(from, far, chance.below(2) == 0))
    }

    fn mean(&self, sum: i64) -> f64 {
        sum as f64 / self.net.stages as f64
    }

    /// What is made small: the cost, and the average stage beside it.
    fn energy(&self, score: Score, plan: Plan) -> f64 {
        score.cost as f64 + plan.weight * self.mean(score.sum)
    }
}

/// How an annealing goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u64,
    pub(crate) goal: i64,
    pub(crate) hot: f64,
    pub(crate) cold: f64,
    /// What the average stage weighs beside the worst.
    pub(crate) weight: f64,
}

impl Plan {
    /// The temperature after `steps`, in nanoseconds of the energy.
    fn heat(self, steps: u64) -> f64 {
        let done = steps as f64 / self.steps.max(1) as f64;
        self.hot * (self.cold / self.hot).powf(done)
    }
}

/// What was moved.
struct Change {
    from: usize,
    to: usize,
    /// The slots from and to which a W went beside it.
    relief: Option<(usize, usize)>,
    /// All that moved is from this slot
    low: usize,
    /// to that one.
    high: usize,
}
