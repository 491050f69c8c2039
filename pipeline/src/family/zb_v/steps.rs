//! Single steps of building: what may run next, whether it fits, and running it.

use super::Way::{self, Down, Up};
use super::{ABOUT, Build, NOT_MADE};
use crate::costs::{Change, Footprint};
use crate::fault::Fault;
use crate::pass::{Kind, Pass, Value};
use crate::units::Bytes;

impl Build<'_> {
    pub(super) fn chunk(&self, stage: usize, way: Way) -> u16 {
        let stage = u16::try_from(stage).unwrap_or(u16::MAX);
        if way == Down { stage } else { self.shape.chunks() - 1 - stage }
    }

    pub(super) fn has_left(&self, stage: usize, kind: Kind, way: Way) -> bool {
        self.stages[stage].done(kind, way) < self.shape.microbatches()
    }

    /// The neighbour that hands `stage` the input of its next pass, unless it does so itself.
    fn source(&self, stage: usize, kind: Kind, way: Way) -> Option<usize> {
        let last = self.stages.len() - 1;
        match (kind, way) {
            (Kind::F, Down) | (Kind::B, Up) => stage.checked_sub(1),
            _ => (stage < last).then_some(stage + 1),
        }
    }

    /// Whether there is a next pass, and all it needs has been made.
    pub(super) fn is_ready(&self, stage: usize, kind: Kind, way: Way) -> bool {
        let made = |value: Value| self.made[self.cell(value)] != NOT_MADE;
        let mut needs = self.next(stage, kind, way).needs(self.shape);
        self.has_left(stage, kind, way) && needs.all(made)
    }

    pub(super) fn can_forward(&self, stage: usize, way: Way) -> bool {
        self.is_ready(stage, Kind::F, way)
            && self.room_for(stage, self.next(stage, Kind::F, way)).is_ok()
    }

    /// When the neighbour's part for the next pass arrives, if there is a neighbour.
    pub(super) fn arrival(&self, stage: usize, kind: Kind, way: Way) -> Option<u64> {
        let from = self.source(stage, kind, way)?;
        let microbatch = self.stages[stage].done(kind, way);
        let theirs = Pass { kind, chunk: self.chunk(from, way), microbatch };
        Some(self.made[self.cell(theirs.makes()?)] + self.costs.hop().0)
    }

    fn cell(&self, value: Value) -> usize {
        self.shape.value_cell(value)
    }

    /// Runs waiting W passes while they end before the next pass can begin; then, if `fill`, one
    /// more if the gap is longer than this stage can afford to wait.
    pub(super) fn fill_gap(&mut self, i: usize, kind: Kind, way: Way, fill: bool) {
        let Some(arrival) = self.arrival(i, kind, way) else { return };
        while let Some(&weight) = self.stages[i].waiting.front()
            && self.stages[i].end + self.costs.of(weight).0 <= arrival
        {
            self.put_weight(i);
        }
        let stage = &self.stages[i];
        let may_wait = self.max_idle.max(self.allowance[i]) - stage.idle;
        if fill && arrival > stage.end + may_wait {
            self.put_weight(i);
        }
    }

    /// Runs waiting W passes while `pass` does not fit into memory.
    pub(super) fn make_room(&mut self, i: usize, pass: Pass) {
        let Change { taken_at_start, taken_at_end, freed_at_end } = self.footprints.change(pass);
        let more = taken_at_start.0.max(taken_at_end.0.saturating_sub(freed_at_end.0));
        while self.stages[i].held.0 + more > self.limits.of(i).0 && self.put_weight(i) {}
    }

    pub(super) fn next(&self, stage: usize, kind: Kind, way: Way) -> Pass {
        let microbatch = self.stages[stage].done(kind, way);
        Pass { kind, chunk: self.chunk(stage, way), microbatch }
    }

    pub(super) fn until_backward(&self, chunk: u16) -> Bytes {
        self.footprints.of(chunk).until_backward
    }

    /// Whether `stage` can do the forward `pass` once no W waits, then every backward, and, with
    /// nothing left but what is on the way down, a forward on the way up: else all stages could end
    /// up full of microbatches that cannot turn.
    pub(super) fn room_for(&self, stage: usize, pass: Pass) -> Result<(), Fault> {
        let [down, up] = [Down, Up].map(|way| self.footprints.of(self.chunk(stage, way)));
        let growth = |of: Footprint| of.until_weight.0.saturating_sub(of.until_backward.0);
        let here = &self.stages[stage];
        let now = here.held.0 - here.held_by_waiting.0 + self.until_backward(pass.chunk).0;
        let on_the_way_down = here.done(Kind::F, Down) - here.done(Kind::F, Up);
        let later = match usize::from(pass.chunk) < self.stages.len() {
            true => u64::from(on_the_way_down + 1) * down.until_backward.0 + up.until_backward.0,
            false => 0,
        };
        let needs = Bytes(now.max(later) + growth(down).max(growth(up)));
        let limit = self.limits.of(stage);
        if needs <= limit {
            return Ok(());
        }
        Err(Fault::Infeasible { family: ABOUT.name, stage, pass, needs, limit })
    }

    /// Runs the oldest waiting W, if there is one.
    pub(super) fn put_weight(&mut self, i: usize) -> bool {
        let stage = &mut self.stages[i];
        let Some(weight) = stage.waiting.pop_front() else { return false };
        let freed = self.footprints.of(weight.chunk).until_weight;
        stage.held = stage.held - freed;
        stage.held_by_waiting = stage.held_by_waiting - freed;
        stage.order.push(weight);
        stage.end += self.costs.of(weight).0;
        true
    }

    /// Runs the next pass of `kind` on `way` as soon as its input is there.
    pub(super) fn put(&mut self, i: usize, kind: Kind, way: Way) {
        let pass = self.next(i, kind, way);
        self.make_room(i, pass);
        let arrival = self.arrival(i, kind, way).unwrap_or(0);
        let stage = &mut self.stages[i];
        let begin = stage.end.max(arrival);
        match stage.all_forwards() {
            0 => stage.start = begin,
            _ => stage.idle += begin - stage.end,
        }
        let change = self.footprints.change(pass);
        stage.held = stage.held + change.taken_at_start + change.taken_at_end - change.freed_at_end;
        stage.end = begin + self.costs.of(pass).0;
        stage.order.push(pass);
        let count = if kind == Kind::F { &mut stage.forwards } else { &mut stage.backwards };
        count[way as usize] += 1;
        if kind == Kind::B {
            stage.waiting.push_back(Pass { kind: Kind::W, ..pass });
            stage.held_by_waiting += change.taken_at_end;
        }
        self.max_idle = self.max_idle.max(stage.idle);
        if let Some(value) = pass.makes() {
            let cell = self.cell(value);
            self.made[cell] = self.stages[i].end;
        }
    }
}
