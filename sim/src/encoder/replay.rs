//! The exact timing of an order in which layers of an encoder run between slots.

use pipeline::{
    Costs, Encoder, EncoderKind, EncoderOrder, EncoderRun, EncoderSlot, Fault, Nanos, Schedule,
};

use super::linked::Linked;
use super::{EncoderOperation, EncoderSpan, EncoderTimeline};

/// A value that has not been made.
const UNMADE: u64 = u64::MAX;

/// Times orders of an encoder beside one schedule.
#[derive(Clone, Debug)]
pub struct EncoderReplay<'a> {
    schedule: &'a Schedule,
    encoder: &'a Encoder,
    linked: Linked,
}

impl<'a> EncoderReplay<'a> {
    /// A replay of `schedule` under `costs` behind `encoder`.
    ///
    /// # Errors
    /// Those of [`Linked::new`].
    pub fn new(schedule: &'a Schedule, costs: &Costs, encoder: &'a Encoder) -> Result<Self, Fault> {
        Ok(Self { schedule, encoder, linked: Linked::new(schedule, costs, encoder)? })
    }

    /// The schedule, compiled.
    #[must_use]
    pub const fn linked(&self) -> &Linked {
        &self.linked
    }

    /// When everything runs, each operation as soon as its stage is free and what it needs is there; `None` if
    /// operations wait for each other, layers lack, are doubled or stand on several stages.
    #[must_use]
    pub fn timeline(&self, order: &EncoderOrder) -> Option<EncoderTimeline> {
        if !self.is_complete(order) {
            return None;
        }
        let mut run = Run::new(self, order);
        while let Some(stage) = run.ready.pop() {
            run.go_on(stage);
        }
        run.is_over().then_some(EncoderTimeline { stages: run.spans })
    }

    /// Whether every microbatch has all layers of its forward, and then those of its backward, in turn on one stage.
    fn is_complete(&self, order: &EncoderOrder) -> bool {
        let microbatches = self.schedule.shape().microbatches() as usize;
        let layers = self.encoder.layers();
        let mut done = vec![[0u32; 2]; microbatches];
        let mut on = vec![None; microbatches];
        if order.stages.len() != self.linked.stages.len() {
            return false;
        }
        for (stage, slots) in order.stages.iter().enumerate() {
            let mut last = 0;
            for &EncoderSlot { before, run } in slots {
                let at = run.microbatch as usize;
                let (Some(done), Some(on)) = (done.get_mut(at), on.get_mut(at)) else {
                    return false;
                };
                let backward = usize::from(run.kind == EncoderKind::Backward);
                let follows = done[backward] == run.first && (backward == 0 || done[0] == layers);
                if before < last || run.layers == 0 || !follows || *on.get_or_insert(stage) != stage
                {
                    return false;
                }
                let Some(next) = run.first.checked_add(run.layers) else { return false };
                (done[backward], last) = (next, before);
            }
        }
        let backward = if self.encoder.is_frozen() { 0 } else { layers };
        done.iter().all(|done| *done == [layers, backward])
    }
}

/// A replay under way.
struct Run<'a> {
    of: &'a EncoderReplay<'a>,
    order: &'a EncoderOrder,
    /// When values are made, those of the encoder with their transfer.
    made: Vec<u64>,
    /// The stages that stopped for want of a value.
    line: Vec<Vec<usize>>,
    /// Slots and layers of each stage that have run.
    at: Vec<[usize; 2]>,
    free: Vec<u64>,
    spans: Vec<Vec<EncoderSpan>>,
    ready: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(of: &'a EncoderReplay<'a>, order: &'a EncoderOrder) -> Self {
        let (cells, stages) = (of.linked.cells(), of.linked.stages.len());
        Self {
            of,
            order,
            made: vec![UNMADE; cells],
            line: vec![Vec::new(); cells],
            at: vec![[0; 2]; stages],
            free: vec![0; stages],
            spans: vec![Vec::new(); stages],
            ready: (0..stages).rev().collect(),
        }
    }

    fn is_over(&self) -> bool {
        let stages = self.at.iter().enumerate();
        stages.into_iter().all(|(stage, &[slots, layers])| {
            slots == self.of.linked.stages[stage].len() && layers == self.order.stages[stage].len()
        })
    }

    /// Runs `stage` until it lacks a value or is done.
    fn go_on(&mut self, stage: usize) {
        loop {
            let [slot, layers] = self.at[stage];
            let next = self.order.stages[stage].get(layers).filter(|next| next.before <= slot);
            let went_on = match next {
                Some(next) => self.encode(stage, next.run),
                None => self.slot(stage, slot),
            };
            if !went_on {
                return;
            }
        }
    }

    /// Runs layers of the encoder, unless they lack the gradient.
    fn encode(&mut self, stage: usize, run: EncoderRun) -> bool {
        let linked = &self.of.linked;
        let mut start = self.free[stage];
        if run.kind == EncoderKind::Backward && run.first == 0 {
            let cell = linked.gradient(self.of.schedule, run.microbatch);
            if self.made[cell] == UNMADE {
                self.line[cell].push(stage);
                return false;
            }
            start = start.max(self.made[cell].saturating_add(linked.transfer_of(stage)));
        }
        let end = start.saturating_add(self.of.encoder.time(run).0);
        self.record(stage, EncoderOperation::Encoder(run), [start, end]);
        self.at[stage][1] += 1;
        let ends = run.first + run.layers == self.of.encoder.layers();
        if ends && run.kind == EncoderKind::Forward {
            let arrival = end.saturating_add(self.of.linked.transfer_of(stage));
            self.make(self.of.linked.output(run.microbatch), arrival);
        }
        true
    }

    /// Runs the slot at `at`, unless there is none or it lacks a value.
    fn slot(&mut self, stage: usize, at: usize) -> bool {
        let of = self.of;
        let Some(slot) = of.linked.stages[stage].get(at) else { return false };
        let mut start = self.free[stage];
        for need in &slot.needs {
            if self.made[need.cell] == UNMADE {
                self.line[need.cell].push(stage);
                return false;
            }
            start = start.max(self.made[need.cell].saturating_add(need.hop));
        }
        let end = start.saturating_add(slot.duration);
        self.record(stage, EncoderOperation::Slot(slot.slot), [start, end]);
        self.at[stage][0] += 1;
        slot.makes.iter().for_each(|&cell| self.make(cell, end));
        true
    }

    fn make(&mut self, cell: usize, at: u64) {
        self.made[cell] = at.min(UNMADE - 1);
        let waiting = std::mem::take(&mut self.line[cell]);
        self.ready.extend(waiting);
    }

    fn record(&mut self, stage: usize, operation: EncoderOperation, [start, end]: [u64; 2]) {
        self.free[stage] = end;
        self.spans[stage].push(EncoderSpan { operation, start: Nanos(start), end: Nanos(end) });
    }
}
