//! The event loop: a slot starts when all its inputs are there, and its end is an event that lets further slots
//! start.

use std::collections::BTreeMap;

use pipeline::{Kind, Nanos, Pass, Slot, Span, Value};

use super::makers::Makers;
use super::numbers::small;
use super::offload::Streams;
use super::parameters::Parameters;
use super::queue::{Event, Queue};
use super::segments::Segments;
use super::state::{Device, EventLoop, Progress, Stage, State};
use super::{Durations, EngineError, Job, Room, Run};
use crate::boundary::Crossing;
use crate::network::Network;

pub(super) fn run(job: &Job<'_>, durations: &impl Durations) -> Result<Run, EngineError> {
    job.check()?;
    let mut event_loop = EventLoop::new(job, durations);
    event_loop.begin();
    while let Some((now, event)) = event_loop.queue.pop() {
        event_loop.handle(now, event);
    }
    event_loop.finish()
}

impl<'a, C: Durations> EventLoop<'a, C> {
    fn new(job: &'a Job<'a>, durations: &'a C) -> Self {
        let shape = job.schedule.shape();
        let (stages, steps) = (shape.stages(), job.steps as usize);
        let mut devices: Vec<Device> = Vec::new();
        devices.resize_with(job.cluster.devices(), Device::default);
        if let Some(room) = job.room {
            for stage in 0..stages {
                devices[job.seats.device(stage)].held += room.resident[stage].0;
            }
        }
        let orders = job.schedule.orders();
        let slots = |stage: usize| orders[stage].passes().len() * steps;
        let mut event_loop = Self {
            job,
            durations,
            queue: Queue::default(),
            network: Network::new(job.cluster.wires(), job.communication.sharing),
            now: 0,
            stages: (0..stages).map(|stage| new_stage(job, stage)).collect(),
            devices,
            progress: vec![Progress::default(); shape.value_cells() * steps],
            makers: Makers::new(shape),
            collectives: Vec::new(),
            channels: Vec::new(),
            channels_of: vec![Vec::new(); stages],
            transfers: Vec::new(),
            channel_of_transfer: Vec::new(),
            carried: Vec::new(),
            copies: Streams::new(job),
            segments: Segments::new(job),
            parameters: Parameters::new(job),
            arrivals: Vec::new(),
            crossings: BTreeMap::new(),
            weights_left: vec![0; 2 * usize::from(shape.chunks())],
            releases: vec![vec![Nanos(0); stages]; steps],
            events: 0,
            timeline: (0..stages).map(|stage| Vec::with_capacity(slots(stage))).collect(),
        };
        (0..stages).for_each(|stage| event_loop.count_weights(stage));
        event_loop
    }

    fn begin(&mut self) {
        for stage in 0..self.stages.len() {
            self.ask(stage);
        }
        for stage in 0..self.stages.len() {
            self.try_start(stage);
        }
    }

    fn handle(&mut self, now: u64, event: Event) {
        if let Event::FlowCheck { flow, generation } = event
            && !self.has_ended(now, flow as usize, generation)
        {
            return;
        }
        if let Event::Segment { stage } = event
            && !self.is_awaited(now, stage as usize)
        {
            return;
        }
        self.now = now;
        self.events += 1;
        match event {
            Event::SlotEnd { stage } => self.end_slot(stage as usize),
            Event::Segment { stage } => self.run_segments(stage as usize),
            Event::FlowCheck { flow, .. } => self.end_flow(flow as usize),
            Event::Arrival { transfer } => self.arrive(transfer),
            Event::CopyEnd { copy } => self.end_copy(copy),
            Event::Gathered { stage } => self.gathered(stage as usize),
            Event::Release { stage } => self.release(stage as usize),
            Event::Meet { collective } => self.meet(collective as usize),
        }
    }

    // Slots.

    pub(super) fn next_slot(&self, stage: usize) -> Slot {
        self.job.schedule.orders()[stage].slot_at(self.stages[stage].at)
    }

    /// The values `slot` needs from other stages.
    pub(super) fn remote_needs(
        &self,
        stage: usize,
        slot: Slot,
    ) -> impl Iterator<Item = Value> + use<'a, C> {
        let schedule = self.job.schedule;
        slot.received((schedule.shape(), schedule.placement()), stage)
    }

    pub(super) fn cell(&self, value: Value, step: u32) -> usize {
        self.job.cell(value, step)
    }

    /// Starts the next slot of `stage` if all it needs is there.
    pub(super) fn try_start(&mut self, stage: usize) {
        if self.stages[stage].state != State::Free || self.stages[stage].in_line {
            return;
        }
        let (slot, step) = (self.next_slot(stage), self.stages[stage].step);
        let lacks = |value| !self.progress[self.cell(value, step)].arrived;
        if self.remote_needs(stage, slot).any(lacks) || !self.are_in_place(stage, slot) {
            return;
        }
        if !self.has_parameters(stage) {
            return;
        }
        let device = self.stages[stage].device;
        if self.devices[device].taken || self.over(stage, slot).is_some() {
            self.stages[stage].in_line = true;
            self.devices[device].line.push_back(stage);
            return;
        }
        self.start(stage, slot);
    }

    /// The memory that the device would hold if `slot` ran, if that is more than its limit.
    pub(super) fn over(&self, stage: usize, slot: Slot) -> Option<u64> {
        let room = self.job.room?;
        let device = self.stages[stage].device;
        let needs = self.devices[device].held.saturating_add(peak(room, slot));
        (needs > room.limits[device].0).then_some(needs)
    }

    fn start(&mut self, stage: usize, slot: Slot) {
        let Stage { device, step, .. } = self.stages[stage];
        if let Some(room) = self.job.room {
            self.devices[device].held += taken(room, slot);
        }
        self.devices[device].taken = true;
        self.stages[stage].state = State::Running;
        let mut apart = 0u64;
        for pass in slot.passes() {
            let (nominal, begin) = (self.job.costs.of(pass).0, self.now.saturating_add(apart));
            apart = apart.saturating_add(self.durations.pass(nominal, stage, pass, step, begin));
        }
        let time = match self.job.costs.overlap() {
            None => apart,
            Some(_) if self.begin_segments(stage, slot, apart) => return,
            Some(_) => self.job.costs.slot_at_pace(slot, Nanos(apart)).0,
        };
        let end = self.parameters.run(stage, self.now, time);
        self.timeline[stage].push(Span { slot, start: Nanos(self.now), end: Nanos(end) });
        self.queue.push(end, Event::SlotEnd { stage: small(stage) });
    }

    fn end_slot(&mut self, stage: usize) {
        let (slot, step) = (self.next_slot(stage), self.stages[stage].step);
        if let Some(room) = self.job.room {
            let device = &mut self.devices[self.stages[stage].device];
            device.held = device.held + kept(room, slot) - freed(room, slot);
        }
        let left = &mut self.stages[stage];
        left.at += slot.passes().count();
        left.slots_asked = left.slots_asked.saturating_sub(1);
        left.since = self.now;
        let mut sending = 0;
        for pass in slot.passes() {
            sending += u32::from(self.send(stage, pass, step));
            self.take_part(stage, pass, step);
            self.end_weight(stage, pass, step);
        }
        self.count_slot(stage);
        if self.job.communication.blocking && sending > 0 {
            self.stages[stage].state = State::Sending(sending);
        } else {
            self.leave_device(stage);
        }
    }

    /// `stage` has its slot behind it: the device is free, and the step may be over.
    pub(super) fn leave_device(&mut self, stage: usize) {
        let device = self.stages[stage].device;
        self.devices[device].taken = false;
        self.stages[stage].state = State::Free;
        if self.stages[stage].at == self.job.schedule.orders()[stage].passes().len() {
            self.end_step(stage);
        } else {
            self.ask(stage);
        }
        self.call_next(device);
        self.try_start(stage);
    }

    /// Gives `device` to the first in its line for whom there is room.
    pub(super) fn call_next(&mut self, device: usize) {
        let fits = |&stage: &usize| self.over(stage, self.next_slot(stage)).is_none();
        let Some(place) = self.devices[device].line.iter().position(fits) else { return };
        let Some(stage) = self.devices[device].line.remove(place) else { return };
        self.stages[stage].in_line = false;
        self.try_start(stage);
    }

    // Steps.

    /// Counts W and BW passes; the last of a chunk sets off its gradient reduction.
    fn end_weight(&mut self, stage: usize, pass: Pass, step: u32) {
        if !matches!(pass.kind, Kind::W | Kind::BW) {
            return;
        }
        let left = &mut self.weights_left[weights_of(self.job, stage, pass.chunk)];
        *left -= 1;
        if *left == 0 {
            let (boundary, now) = (self.job.boundary, self.now);
            self.crossing(step).end_chunk(boundary, stage, now);
        }
    }

    /// Counts the W and BW passes of `stage` in a step, none of which has run.
    fn count_weights(&mut self, stage: usize) {
        for pass in self.job.schedule.orders()[stage].passes() {
            let counts = matches!(pass.kind, Kind::W | Kind::BW);
            self.weights_left[weights_of(self.job, stage, pass.chunk)] += u32::from(counts);
        }
    }

    fn crossing(&mut self, step: u32) -> &mut Crossing {
        let stages = self.stages.len();
        self.crossings.entry(step).or_insert_with(|| Crossing::new(stages, step))
    }

    fn end_step(&mut self, stage: usize) {
        let step = self.stages[stage].step;
        self.stages[stage].state = State::Crossing;
        let now = self.parameters.drain(stage).max(self.now);
        let (boundary, mut released) = (self.job.boundary, Vec::new());
        let crossing = self.crossing(step);
        crossing.end_stage(boundary, stage, now, &mut |stage, time| released.push((stage, time)));
        if crossing.is_over() {
            self.crossings.remove(&step);
        }
        for (stage, time) in released {
            self.releases[step as usize][stage] = Nanos(time);
            self.queue.push(time, Event::Release { stage: small(stage) });
        }
    }

    fn release(&mut self, stage: usize) {
        let next = &mut self.stages[stage];
        next.step += 1;
        next.since = self.now;
        if next.step == self.job.steps {
            next.state = State::Done;
            return;
        }
        (next.at, next.asked, next.slots_asked) = (0, 0, 0);
        next.state = State::Free;
        self.count_weights(stage);
        self.begin_copies(stage);
        self.parameters.begin(stage, self.stages[stage].step, self.now);
        self.ask(stage);
        self.try_start(stage);
    }
}

fn new_stage(job: &Job<'_>, stage: usize) -> Stage {
    Stage {
        device: job.seats.device(stage),
        state: State::Free,
        at: 0,
        step: 0,
        since: 0,
        in_line: false,
        asked: 0,
        slots_asked: 0,
    }
}

/// Where the W and BW passes of `chunk` on `stage` are counted. Under a mirrored placement a chunk
/// lives on two stages, under the others on one.
fn weights_of(job: &Job<'_>, stage: usize, chunk: u16) -> usize {
    let first = job.schedule.placement().stage(job.schedule.shape(), chunk, 0);
    2 * usize::from(chunk) + usize::from(stage != first)
}

// Memory of a slot, as in `pipeline::Ledger`, but on a device that stages share.

fn taken(room: Room<'_>, slot: Slot) -> u64 {
    slot.passes().map(|pass| room.footprints.change(pass).taken_at_start.0).sum()
}

fn kept(room: Room<'_>, slot: Slot) -> u64 {
    slot.passes().map(|pass| room.footprints.change(pass).taken_at_end.0).sum()
}

fn freed(room: Room<'_>, slot: Slot) -> u64 {
    slot.passes().map(|pass| room.footprints.change(pass).freed_at_end.0).sum()
}

/// The most that `slot` adds to the memory held, while it runs or when it has ended.
fn peak(room: Room<'_>, slot: Slot) -> u64 {
    let taken = taken(room, slot);
    taken.max((taken + kept(room, slot)).saturating_sub(freed(room, slot)))
}
