//! A step dispatched event by event: slots of the model come first on their stage, and layers of the encoder run in
//! the time before the next slot, as far as they fit.

mod gap;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pipeline::{Encoder, EncoderKind, EncoderOrder, EncoderRun, EncoderSlot, Schedule};
use sim::encoder::{Linked, LinkedSlot};

use self::gap::Gap;

/// A value that has not been made.
const UNMADE: u64 = u64::MAX;

/// How a step is dispatched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// The stage of the encoder of each microbatch; without one, the first stage that has time for it.
    pub(super) stages: Vec<Option<u16>>,
    /// Microbatches whose forward, and whose backward, does not wait until the stage is free of slots.
    pub(super) urgent: [Vec<bool>; 2],
    /// Stages where layers run though a slot may become ready meanwhile.
    pub(super) eager: Vec<bool>,
    /// Whether a stage takes up a microbatch without one only if all of its forward fits.
    pub(super) whole: bool,
    /// How many microbatches the encoder may be ahead of the first chunk.
    pub(super) ahead: usize,
}

impl Plan {
    /// A plan in which stages choose microbatches.
    pub(super) fn open(linked: &Linked, eager: bool, whole: bool) -> Self {
        let microbatches = linked.microbatches.len();
        Self {
            stages: vec![None; microbatches],
            urgent: [vec![false; microbatches], vec![false; microbatches]],
            eager: vec![eager; linked.stages.len()],
            whole,
            ahead: microbatches,
        }
    }
}

/// A step that was dispatched.
#[derive(Clone, Debug)]
pub(super) struct Dispatched {
    /// The end of the last operation, in nanoseconds.
    pub(super) step: u64,
    /// Where layers run.
    pub(super) order: EncoderOrder,
    /// The stage of each microbatch.
    pub(super) stages: Vec<u16>,
}

/// What is dispatched, compiled.
pub(super) struct Job<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) encoder: &'a Encoder,
    pub(super) linked: &'a Linked,
    /// By stage, the time of all slots before each.
    work: Vec<Vec<u64>>,
}

/// A pass of the encoder, and the layers of it that have run.
#[derive(Clone, Copy)]
struct Pass {
    kind: EncoderKind,
    microbatch: u32,
    done: u32,
}

/// What a stage has to do.
struct Stage {
    /// Slots that have begun.
    slot: usize,
    free: u64,
    /// The forward that it is in.
    forward: Option<Pass>,
    /// Forwards that it is given.
    forwards: VecDeque<u32>,
    /// Backwards and when their gradients are there, in this order.
    backwards: VecDeque<(u64, Pass)>,
    layers: Vec<EncoderSlot>,
}

impl<'a> Job<'a> {
    /// Steps of `schedule` behind `encoder`.
    pub(super) fn new(schedule: &'a Schedule, encoder: &'a Encoder, linked: &'a Linked) -> Self {
        let before = |slots: &Vec<LinkedSlot>| {
            let add = |all: &mut u64, slot: &LinkedSlot| {
                let before = *all;
                *all = all.saturating_add(slot.duration);
                Some(before)
            };
            slots.iter().scan(0, add).collect()
        };
        Self { schedule, encoder, linked, work: linked.stages.iter().map(before).collect() }
    }

    /// Dispatches a step by `plan`.
    pub(super) fn run(&self, plan: &Plan) -> Dispatched {
        let mut state = State::new(self, plan);
        loop {
            while let Some(Reverse((time, stage))) = state.events.pop() {
                state.now = time;
                state.dispatch(stage);
            }
            if !state.force() {
                break;
            }
        }
        let order =
            EncoderOrder { stages: state.stages.into_iter().map(|one| one.layers).collect() };
        Dispatched { step: state.step, order, stages: state.on }
    }
}

struct State<'a> {
    job: &'a Job<'a>,
    plan: &'a Plan,
    /// When values are made, those of the encoder with their transfer.
    made: Vec<u64>,
    stages: Vec<Stage>,
    /// Microbatches that no stage has taken up, in the order of the first chunk.
    open: VecDeque<u32>,
    on: Vec<u16>,
    /// The place of each microbatch in that order.
    place: Vec<usize>,
    /// Microbatches that the first chunk has begun.
    entered: usize,
    /// The microbatch whose gradient a cell holds.
    gradients: Vec<Option<u32>>,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    now: u64,
    step: u64,
}

impl<'a> State<'a> {
    fn new(job: &'a Job<'a>, plan: &'a Plan) -> Self {
        let linked = job.linked;
        let microbatches = &linked.microbatches;
        let empty = || Stage {
            slot: 0,
            free: 0,
            forward: None,
            forwards: VecDeque::new(),
            backwards: VecDeque::new(),
            layers: Vec::new(),
        };
        let mut state = Self {
            job,
            plan,
            made: vec![UNMADE; linked.cells()],
            stages: linked.stages.iter().map(|_| empty()).collect(),
            open: VecDeque::new(),
            on: vec![0; microbatches.len()],
            place: vec![0; microbatches.len()],
            entered: 0,
            gradients: vec![None; linked.cells()],
            events: (0..linked.stages.len()).map(|stage| Reverse((0, stage))).collect(),
            now: 0,
            step: 0,
        };
        for (at, &microbatch) in microbatches.iter().enumerate() {
            state.place[microbatch as usize] = at;
            match plan.stages[microbatch as usize] {
                Some(stage) => state.stages[usize::from(stage)].forwards.push_back(microbatch),
                None => state.open.push_back(microbatch),
            }
            if !job.encoder.is_frozen() {
                state.gradients[linked.gradient(job.schedule, microbatch)] = Some(microbatch);
            }
        }
        state
    }

    /// Lets `stage` begin what it can now.
    fn dispatch(&mut self, stage: usize) {
        if self.stages[stage].free > self.now {
            return;
        }
        if self.encode_urgent(stage) {
            return;
        }
        let gap = self.gap(stage);
        if let Gap::None = gap {
            return self.start_slot(stage);
        }
        if self.encode_forward(stage, gap) || self.encode_backward(stage, gap) {
            return;
        }
        if let Gap::Until(time) = gap {
            self.events.push(Reverse((time, stage)));
        }
    }

    /// Runs the rest of a pass that does not wait for slots, if one is next; whether any did.
    fn encode_urgent(&mut self, stage: usize) -> bool {
        let [forwards, backwards] = &self.plan.urgent;
        let is_in = |urgent: &[bool], pass: Pass| urgent[pass.microbatch as usize];
        let forward = self.next_forward(stage).is_some_and(|next| is_in(forwards, next));
        let backward = self.stages[stage].backwards.front();
        let backward = backward.is_some_and(|&(_, next)| is_in(backwards, next));
        (forward && self.encode_forward(stage, Gap::Open))
            || (backward && self.encode_backward(stage, Gap::Open))
    }

    fn start_slot(&mut self, stage: usize) {
        let linked = self.job.linked;
        let slot = &linked.stages[stage][self.stages[stage].slot];
        self.stages[stage].slot += 1;
        let end = self.occupy(stage, slot.duration);
        if stage == linked.entry {
            self.enter(slot);
        }
        for &cell in &slot.makes {
            self.make(cell, end);
            if let Some(microbatch) = self.gradients[cell] {
                self.give_backward(microbatch, end);
            }
        }
    }

    /// Notes that the first chunk begins what `slot` has for it, so that the encoder may go on.
    fn enter(&mut self, slot: &LinkedSlot) {
        let outputs = slot.needs.iter().filter_map(|need| self.job.linked.output_of(need.cell));
        let entered = outputs.count();
        self.entered += entered;
        if entered > 0 && self.plan.ahead < self.place.len() {
            self.events.extend((0..self.stages.len()).map(|stage| Reverse((self.now, stage))));
        }
    }

    /// Keeps `stage` busy for `duration`; gives the end.
    fn occupy(&mut self, stage: usize, duration: u64) -> u64 {
        let end = self.now.saturating_add(duration);
        self.stages[stage].free = end;
        self.step = self.step.max(end);
        self.events.push(Reverse((end, stage)));
        end
    }

    /// Notes that a value is made at `at`, and tells who waits for it.
    fn make(&mut self, cell: usize, at: u64) {
        self.made[cell] = at;
        for &(stage, _) in &self.job.linked.waiting[cell] {
            self.events.push(Reverse((self.now, stage)));
        }
    }

    fn give_backward(&mut self, microbatch: u32, made: u64) {
        let stage = usize::from(self.on[microbatch as usize]);
        let at = made.saturating_add(self.job.linked.transfer_of(stage));
        let pass = Pass { kind: EncoderKind::Backward, microbatch, done: 0 };
        self.stages[stage].backwards.push_back((at, pass));
        self.events.push(Reverse((at, stage)));
    }

    /// The forward that `stage` is in, or would begin.
    fn next_forward(&self, stage: usize) -> Option<Pass> {
        let of = &self.stages[stage];
        let begin = |microbatch| Pass { kind: EncoderKind::Forward, microbatch, done: 0 };
        let first = [of.forwards.front(), self.open.front()].into_iter().flatten();
        of.forward
            .or_else(|| first.min_by_key(|&&one| self.place[one as usize]).map(|&one| begin(one)))
    }

    /// Runs as many layers of a forward as fit; whether any did.
    fn encode_forward(&mut self, stage: usize, gap: Gap) -> bool {
        let Some(pass) = self.next_forward(stage) else { return false };
        let is_new = self.stages[stage].forward.is_none();
        let limit = self.entered.saturating_add(self.plan.ahead);
        if is_new && self.place[pass.microbatch as usize] >= limit {
            return false;
        }
        let is_open = self.open.front() == Some(&pass.microbatch);
        let fits = self.fitting(stage, pass, gap);
        if fits == 0 || (is_new && is_open && self.plan.whole && fits < self.job.encoder.layers()) {
            return false;
        }
        self.encode(stage, pass, fits);
        true
    }

    /// Runs as many layers of a backward as fit; whether any did.
    fn encode_backward(&mut self, stage: usize, gap: Gap) -> bool {
        let Some(&(ready, pass)) = self.stages[stage].backwards.front() else { return false };
        if ready > self.now {
            return false;
        }
        let fits = self.fitting(stage, pass, gap);
        if fits > 0 {
            self.encode(stage, pass, fits);
        }
        fits > 0
    }

    fn encode(&mut self, stage: usize, pass: Pass, layers: u32) {
        let before = self.stages[stage].slot;
        self.stages[stage].layers.push(EncoderSlot { before, run: run(pass, layers) });
        let end = self.occupy(stage, self.job.encoder.time(run(pass, layers)).0);
        let pass = Pass { done: pass.done + layers, ..pass };
        let is_over = pass.done == self.job.encoder.layers();
        match pass.kind {
            EncoderKind::Forward => {
                if self.stages[stage].forward.is_none() {
                    self.take_up(stage, pass.microbatch);
                }
                self.stages[stage].forward = Some(pass).filter(|_| !is_over);
                if is_over {
                    let at = end.saturating_add(self.job.linked.transfer_of(stage));
                    self.make(self.job.linked.output(pass.microbatch), at);
                }
            }
            EncoderKind::Backward if is_over => {
                self.stages[stage].backwards.pop_front();
            }
            EncoderKind::Backward => {
                if let Some(first) = self.stages[stage].backwards.front_mut() {
                    first.1 = pass;
                }
            }
        }
    }

    /// Gives the encoder of `microbatch` to `stage`.
    fn take_up(&mut self, stage: usize, microbatch: u32) {
        self.on[microbatch as usize] = u16::try_from(stage).unwrap_or(u16::MAX);
        let from = match self.open.front() == Some(&microbatch) {
            true => &mut self.open,
            false => &mut self.stages[stage].forwards,
        };
        from.pop_front();
    }

    /// Where all stages wait: runs a layer that does not fit, of the forward that is needed first. False if nothing
    /// is left.
    fn force(&mut self) -> bool {
        let forwards = (0..self.stages.len()).filter_map(|stage| {
            let pass = self.next_forward(stage)?;
            // Which stage takes up an open microbatch does not matter to who waits: the first.
            Some((self.place[pass.microbatch as usize], stage, pass))
        });
        if let Some((_, stage, pass)) = forwards.min_by_key(|&(place, stage, _)| (place, stage)) {
            self.encode(stage, pass, 1);
            return true;
        }
        let waiting = (0..self.stages.len())
            .filter_map(|stage| Some((stage, self.stages[stage].backwards.front()?.1)));
        match waiting.into_iter().next() {
            Some((stage, pass)) => {
                self.encode(stage, pass, 1);
                true
            }
            None => false,
        }
    }
}

fn run(pass: Pass, layers: u32) -> EncoderRun {
    EncoderRun { kind: pass.kind, microbatch: pass.microbatch, first: pass.done, layers }
}
