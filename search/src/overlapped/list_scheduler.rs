//! List scheduling of pairs: a free stage starts the forward and the backward that are ready, as a pair if both
//! are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slots::{Doing, Slots, Table};
use crate::chance::Chance;
use crate::compiled_instance::NONE;

/// Priority rule of the list scheduler: the parameters by which a free stage picks its next slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// The most forwards in flight before a stage stops running forwards alone: per stage behind it, and a constant.
    ahead: [f64; 2],
    /// Whether F of a later chunk comes before that of an earlier one.
    deep_first: bool,
    /// Whether backwards are whole, or defer their W until nothing else is ready.
    whole: bool,
    /// How long a backward waits for a forward in transfer, as a fraction of its own duration.
    patience: f64,
}

impl Policy {
    /// One at random, for a pipeline of `stages` with `chunks` on each.
    #[allow(clippy::cast_precision_loss)] // Few stages.
    pub(super) fn draw(chance: &mut Chance, stages: usize, chunks: usize) -> Self {
        let all = (stages * chunks) as f64;
        Self {
            ahead: [
                chance.between(0.0, 2.5),
                chance.between(0.0, 1.0) * chance.between(1.0, all + 2.0),
            ],
            deep_first: chance.below(2) == 0,
            whole: chance.below(2) == 0,
            patience: if chance.below(2) == 0 { 0.0 } else { chance.between(0.0, 1.5) },
        }
    }

    /// One near `self`.
    pub(super) fn near(self, chance: &mut Chance) -> Self {
        let mut next = self;
        match chance.below(4) {
            0 => next.ahead[0] = (next.ahead[0] + chance.between(-0.3, 0.3)).max(0.0),
            1 => next.ahead[1] = (next.ahead[1] + chance.between(-2.0, 2.0)).max(0.0),
            2 => next.patience = (next.patience + chance.between(-0.4, 0.4)).max(0.0),
            _ => match chance.below(2) {
                0 => next.deep_first = !next.deep_first,
                _ => next.whole = !next.whole,
            },
        }
        next
    }
}

/// One run of the list scheduler.
struct Run<'t> {
    table: &'t Table,
    policy: Policy,
    /// The end of each pass: lane by lane, one column per microbatch.
    ends: Vec<i64>,
    next: Vec<u32>,
    free: Vec<i64>,
    held: Vec<i64>,
    /// Forwards less backwards, of all chunks.
    in_flight: Vec<i64>,
    events: BinaryHeap<Reverse<(i64, usize)>>,
    slots: Slots,
    left: usize,
}

/// Decision of a free stage.
enum Decision {
    Run(Doing),
    /// Idle until this time.
    Wait(i64),
    /// Idle until an input arrives.
    Block,
}

/// The order that `policy` makes; `None` if memory blocks it.
pub(super) fn schedule(table: &Table, policy: Policy) -> Option<Slots> {
    let (stages, passes) = (table.compiled.stages, table.compiled.passes());
    let mut run = Run {
        table,
        policy,
        ends: vec![0; passes],
        next: vec![0; table.compiled.lanes.len()],
        free: vec![0; stages],
        held: vec![0; stages],
        in_flight: vec![0; stages],
        events: (0..stages).map(|stage| Reverse((0, stage))).collect(),
        slots: vec![Vec::new(); stages],
        left: passes,
    };
    while run.left > 0 {
        match run.events.pop() {
            Some(Reverse((now, stage))) => run.wake(now, stage),
            None if run.force() => {}
            None => return None,
        }
    }
    Some(run.slots)
}

impl Run<'_> {
    fn wake(&mut self, now: i64, stage: usize) {
        if self.free[stage] > now {
            return;
        }
        match self.choose(now, stage) {
            Decision::Run(doing) => self.run(now, stage, doing),
            Decision::Wait(until) => self.events.push(Reverse((until, stage))),
            Decision::Block => {}
        }
    }

    fn choose(&self, now: i64, stage: usize) -> Decision {
        let forward = self.forward(now, stage);
        let backward = self.backward(now, stage);
        match (forward, backward) {
            (Some(forward), Some(back)) if self.fits(stage, back.with_forward(forward)) => {
                Decision::Run(back.with_forward(forward))
            }
            (_, Some(back)) => match self.coming(now, stage, back) {
                Some(until) => Decision::Wait(until),
                None => Decision::Run(back),
            },
            (Some(forward), None) if self.may_go_ahead(stage) => Decision::Run(Doing::f(forward)),
            _ => self.weight(stage).map_or(Decision::Block, Decision::Run),
        }
    }

    /// The forward to run, if one is ready and fits.
    fn forward(&self, now: i64, stage: usize) -> Option<u8> {
        let ready = |&chunk: &u8| {
            let lane = self.table.lane(stage, 0, chunk);
            self.arrival(lane).is_some_and(|at| at <= now) && self.fits(stage, Doing::f(chunk))
        };
        let mut chunks = self.table.chunks();
        if self.policy.deep_first { chunks.rfind(ready) } else { chunks.find(ready) }
    }

    /// The backward to run: the ready one of the last chunk in model order.
    fn backward(&self, now: i64, stage: usize) -> Option<Doing> {
        let chunks = self.table.chunks();
        let ready = |&chunk: &u8| {
            let lane = self.table.lane(stage, 1, chunk);
            self.arrival(lane).is_some_and(|at| at <= now)
        };
        let chunk = chunks.rev().find(ready)?;
        let lane = |kind| self.next[self.table.lane(stage, kind, chunk)];
        let whole = self.policy.whole && lane(1) == lane(2);
        [Doing::b(chunk, whole), Doing::b(chunk, lane(1) == lane(2))]
            .into_iter()
            .find(|&doing| self.fits(stage, doing))
    }

    /// The W that waits longest.
    fn weight(&self, stage: usize) -> Option<Doing> {
        let chunks = self.table.chunks();
        let done = |chunk: u8, kind| self.next[self.table.lane(stage, kind, chunk)];
        let waiting = chunks.filter(|&chunk| done(chunk, 2) < done(chunk, 1));
        waiting.min_by_key(|&chunk| done(chunk, 2)).map(Doing::w)
    }

    /// When the next pass of `lane` can begin, if that is known.
    fn arrival(&self, lane: usize) -> Option<i64> {
        let compiled = &self.table.compiled;
        let (one, number) = (compiled.lanes[lane], self.next[lane]);
        let local = one.local == NONE || self.next[one.local as usize] > number;
        if number >= compiled.microbatches || !local {
            return None;
        }
        if one.remote == NONE {
            return Some(0);
        }
        let remote = one.remote as usize;
        let known = self.next[remote] > number;
        let at = remote * compiled.microbatches as usize + number as usize;
        known.then(|| self.ends[at] + one.hop)
    }

    /// The arrival of a forward in transfer for which `back` waits, if it waits.
    #[allow(clippy::cast_precision_loss)] // A part of a duration.
    fn coming(&self, now: i64, stage: usize, back: Doing) -> Option<i64> {
        let chunks = self.table.chunks();
        let arrivals = chunks.filter(|&chunk| self.fits(stage, back.with_forward(chunk)));
        let arrivals = arrivals.filter_map(|chunk| self.arrival(self.table.lane(stage, 0, chunk)));
        let patience = self.policy.patience * self.table.duration(stage, back) as f64;
        let next = arrivals.filter(|&at| at > now).min()?;
        ((next - now) as f64 <= patience).then_some(next)
    }

    /// Whether `stage` may run one more forward alone.
    #[allow(clippy::cast_precision_loss)] // Few stages and forwards.
    fn may_go_ahead(&self, stage: usize) -> bool {
        let behind = (self.table.compiled.stages - stage) as f64;
        let most = self.policy.ahead[0] * behind + self.policy.ahead[1];
        (self.in_flight[stage] as f64) < most.max(1.0)
    }

    /// Whether memory fits `doing`, and leaves the reserve for the backwards in flight.
    fn fits(&self, stage: usize, doing: Doing) -> bool {
        let compiled = &self.table.compiled;
        let lane = |kind, chunk: Option<u8>| {
            chunk.map(|chunk| compiled.lanes[self.table.lane(stage, kind, chunk)])
        };
        let lanes = [lane(0, doing.forward), lane(1, doing.backward), lane(2, doing.weight)];
        let sum = |what: fn(&crate::compiled_instance::Lane) -> i64| -> i64 {
            lanes.iter().flatten().map(what).sum()
        };
        let most = self.held[stage] + sum(|lane| lane.take);
        let after = most + sum(|lane| lane.leave);
        let reserve = lane(0, doing.forward).map_or(0, |lane| lane.reserve);
        most.max(after + reserve) <= compiled.limit[stage]
    }

    fn run(&mut self, now: i64, stage: usize, doing: Doing) {
        let end = now + self.table.duration(stage, doing);
        let compiled = &self.table.compiled;
        let columns = compiled.microbatches as usize;
        let parts = [doing.forward, doing.backward, doing.weight];
        for (kind, chunk) in parts.into_iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let lane = self.table.lane(stage, kind, chunk);
            let one = compiled.lanes[lane];
            self.ends[lane * columns + self.next[lane] as usize] = end;
            self.next[lane] += 1;
            self.held[stage] += one.take + one.leave;
            self.left -= 1;
            if one.wakes != NONE {
                let hop = compiled.lanes[one.feeds as usize].hop;
                self.events.push(Reverse((end + hop, one.wakes as usize)));
            }
        }
        self.in_flight[stage] += i64::from(doing.forward.is_some());
        self.in_flight[stage] -= i64::from(doing.backward.is_some());
        self.free[stage] = end;
        self.slots[stage].push(doing);
        self.events.push(Reverse((end, stage)));
    }

    /// Runs a ready forward against the policy where all stages are blocked.
    fn force(&mut self) -> bool {
        for stage in 0..self.table.compiled.stages {
            let now = self.free.iter().copied().max().unwrap_or(0);
            if let Some(forward) = self.forward(now, stage) {
                self.run(now, stage, Doing::f(forward));
                return true;
            }
        }
        false
    }
}
