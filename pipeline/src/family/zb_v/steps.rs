//! Single steps of building: what may run next, whether it fits, and running it.

use super::Way::{self, Down, Up};
use super::{ABOUT, Build, Chunk, Stage};
use crate::costs::Footprint;
use crate::fault::Fault;
use crate::pass::{Kind, Pass};
use crate::units::Bytes;

impl Build<'_> {
    pub(super) fn has_left(&self, stage: usize, kind: Kind, way: Way) -> bool {
        self.stages[stage].done(kind, way) < self.shape.microbatches()
    }

    /// The neighbour that hands `stage` the input of its next pass, unless it does so itself.
    pub(super) fn source(&self, stage: usize, kind: Kind, way: Way) -> Option<usize> {
        let last = self.stages.len() - 1;
        match (kind, way) {
            (Kind::F, Down) | (Kind::B, Up) => stage.checked_sub(1),
            _ => (stage < last).then_some(stage + 1),
        }
    }

    /// Whether there is a next pass, and all it needs has been made. Stages go through microbatches
    /// in order, so counts tell; where the gradient of the chunk behind is there, so is the output.
    pub(super) fn is_ready(&self, stage: usize, kind: Kind, way: Way) -> bool {
        let own = &self.stages[stage];
        let made = match (self.source(stage, kind, way), kind, way) {
            (Some(from), _, _) => self.stages[from].done(kind, way),
            (None, Kind::F, Down) => self.shape.microbatches(),
            (None, Kind::F, Up) => own.done(Kind::F, Down),
            (None, _, Up) => own.done(Kind::F, Up),
            (None, _, Down) => own.done(Kind::B, Up),
        };
        own.done(kind, way) < made
    }

    pub(super) fn can_forward(&self, stage: usize, way: Way) -> bool {
        self.is_ready(stage, Kind::F, way) && self.room_for(stage, way).is_ok()
    }

    /// When the neighbour's part for the next pass arrives, if there is a neighbour.
    pub(super) fn arrival(&self, stage: usize, kind: Kind, way: Way) -> Option<u64> {
        let from = self.source(stage, kind, way)?;
        let microbatch = self.stages[stage].done(kind, way);
        Some(self.made[self.cell(from, kind, way, microbatch)] + self.hops.between(from, stage).0)
    }

    pub(super) fn cell(&self, stage: usize, kind: Kind, way: Way, microbatch: u32) -> usize {
        let row = 4 * microbatch as usize + 2 * usize::from(kind != Kind::F) + way as usize;
        row * self.stages.len() + stage
    }

    /// Runs waiting W passes while they end before the next pass can begin; then one more if the gap
    /// is longer than this stage can afford to wait, and such gaps are filled.
    pub(super) fn fill_gap(&mut self, i: usize, kind: Kind, way: Way, arrival: Option<u64>) {
        let Some(arrival) = arrival else { return };
        let stage = &mut self.stages[i];
        while let Some(&(way, _)) = stage.waiting.front()
            && stage.end + stage.chunk(way).times.backward_weight.0 <= arrival
        {
            stage.put_weight();
        }
        if stage.waiting.is_empty() {
            return;
        }
        let idle = arrival.saturating_sub(stage.end) + stage.idle;
        let (from, below) = &mut stage.same;
        if idle > self.max_idle.max(self.allowance[i]) {
            *below = idle.min(*below);
            if self.is_filled(kind, way) {
                self.stages[i].put_weight();
            }
        } else if idle > self.max_idle {
            *from = idle.max(*from);
        }
    }

    /// Whether a gap before such a pass is filled, now that one has come up.
    fn is_filled(&mut self, kind: Kind, way: Way) -> bool {
        match (kind, way) {
            (Kind::F, _) => {
                self.asked.forward = true;
                self.fill.forward
            }
            (_, Up) => {
                self.asked.backward = true;
                self.fill.backward
            }
            (_, Down) => true,
        }
    }

    /// Runs waiting W passes while the next pass of `kind` on `way` does not fit into memory.
    pub(super) fn make_room(&mut self, i: usize, kind: Kind, way: Way) {
        let stage = &mut self.stages[i];
        let Footprint { until_backward, until_weight } = stage.chunk(way).holds;
        let more = match kind {
            Kind::F => until_backward.0,
            _ => until_weight.0.saturating_sub(until_backward.0),
        };
        while stage.held.0 + more > stage.limit.0 && stage.put_weight() {}
    }

    /// Whether `stage` can do its next forward on `way` once no W waits, then every backward, and,
    /// with nothing left but what is on the way down, a forward on the way up: else all stages could
    /// end up full of microbatches that cannot turn.
    pub(super) fn room_for(&self, stage: usize, way: Way) -> Result<(), Fault> {
        let here = &self.stages[stage];
        let [down, up] = here.chunks.map(|chunk| chunk.holds);
        let growth = |of: Footprint| of.until_weight.0.saturating_sub(of.until_backward.0);
        let own = here.chunk(way);
        let now = here.held.0 - here.held_by_waiting.0 + own.holds.until_backward.0;
        let on_the_way_down = here.done(Kind::F, Down) - here.done(Kind::F, Up);
        let later = match way {
            Down => u64::from(on_the_way_down + 1) * down.until_backward.0 + up.until_backward.0,
            Up => 0,
        };
        let needs = Bytes(now.max(later) + growth(down).max(growth(up)));
        let limit = here.limit;
        if needs <= limit {
            return Ok(());
        }
        let pass = Pass::f(own.at, here.done(Kind::F, way));
        Err(Fault::Infeasible { family: ABOUT.name, stage, pass, needs, limit })
    }

    /// Runs the next pass of `kind` on `way` as soon as its input is there.
    pub(super) fn put(&mut self, i: usize, kind: Kind, way: Way) {
        let arrival = self.arrival(i, kind, way);
        self.put_behind(i, kind, way, arrival);
    }

    /// The same where the input is there at `arrival`, or was made by the stage itself.
    pub(super) fn put_behind(&mut self, i: usize, kind: Kind, way: Way, arrival: Option<u64>) {
        self.make_room(i, kind, way);
        let stage = &mut self.stages[i];
        let begin = stage.end.max(arrival.unwrap_or(0));
        if stage.all_forwards() > 0 {
            stage.idle += begin - stage.end;
        }
        let microbatch = stage.done(kind, way);
        let own = stage.chunk(way);
        stage.order.push(Pass { kind, chunk: own.at, microbatch });
        if kind == Kind::F {
            stage.held += own.holds.until_backward;
            stage.end = begin + own.times.forward.0;
            stage.forwards[way as usize] += 1;
        } else {
            stage.held = stage.held + own.holds.until_weight - own.holds.until_backward;
            stage.end = begin + own.times.backward_input.0;
            stage.backwards[way as usize] += 1;
            stage.waiting.push_back((way, microbatch));
            stage.held_by_waiting += own.holds.until_weight;
        }
        let (end, idle) = (stage.end, stage.idle);
        self.max_idle = self.max_idle.max(idle);
        self.span = self.span.max(self.work[i] + idle);
        let cell = self.cell(i, kind, way, microbatch);
        self.made[cell] = end;
    }
}

impl Stage {
    /// Runs the oldest waiting W, if there is one.
    pub(super) fn put_weight(&mut self) -> bool {
        let Some((way, microbatch)) = self.waiting.pop_front() else { return false };
        let Chunk { at, times, holds } = self.chunk(way);
        self.held = self.held - holds.until_weight;
        self.held_by_waiting = self.held_by_waiting - holds.until_weight;
        self.order.push(Pass::w(at, microbatch));
        self.end += times.backward_weight.0;
        true
    }
}
