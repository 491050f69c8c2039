//! Copies to the host and back on the streams of a device: those of the schedule, in its order.

use std::collections::VecDeque;

use pipeline::{Copies, CopyDirection, CopyOp, Footprints, Nanos, Slot};

use super::numbers::small;
use super::queue::{Event, check_flow};
use super::state::{Carried, EventLoop};
use super::{Durations, Job};
use crate::host_copy::{self, HostCopy, NONE, is_backward};

/// The activations that are on the host between F and B. A reload does not wait for room, since its
/// backward could not run without it: where a limit is exceeded by that, the memory over time shows
/// it ([`crate::occupancy`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offload<'a> {
    /// The activations that each chunk holds.
    pub footprints: &'a Footprints,
    /// Which activations are copied, and when they may be.
    pub copies: &'a Copies,
}

/// Where an activation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// Waits for its stream, or moves to the host.
    Leaving,
    OnHost,
    /// Waits for its stream, or moves back.
    Returning,
    Here,
}

/// One copy stream of a device: one after the other.
#[derive(Clone, Default)]
struct Stream {
    busy: bool,
    waiting: VecDeque<(u32, CopyDirection)>,
}

/// How far a stage is with its copies in its current step.
#[derive(Clone, Default)]
struct Progress {
    /// Slots that have ended.
    ended: u32,
    /// The next copy to be queued, by stream.
    next: Vec<usize>,
}

/// All copies of a run.
pub(super) struct Streams {
    all: Vec<HostCopy>,
    whereabouts: Vec<Whereabouts>,
    /// The streams of the device for the copy out and the copy back, by copy.
    stream: Vec<[usize; 2]>,
    /// By step and cell, the number of the copy, or [`NONE`].
    of_cell: Vec<u32>,
    /// By stage.
    progress: Vec<Progress>,
    /// By device.
    streams: Vec<Vec<Stream>>,
}

impl Streams {
    pub(super) fn new(job: &Job<'_>) -> Self {
        let shape = job.schedule.shape();
        let cells = if job.offload.is_some() { shape.cells() } else { 0 };
        let count = job.offload.map_or(0, |offload| offload.copies.streams());
        Self {
            all: Vec::new(),
            whereabouts: Vec::new(),
            stream: Vec::new(),
            of_cell: vec![NONE; cells * job.steps as usize],
            progress: vec![Progress { ended: 0, next: vec![0; count] }; shape.stages()],
            streams: vec![vec![Stream::default(); count]; job.cluster.devices()],
        }
    }

    pub(super) fn into_all(self) -> Vec<HostCopy> {
        self.all
    }
}

impl<C: Durations> EventLoop<'_, C> {
    /// One more slot of `stage` has ended: copies that wait for it may stand in line.
    pub(super) fn count_slot(&mut self, stage: usize) {
        if self.job.offload.is_some() {
            self.copies.progress[stage].ended += 1;
            self.line_up(stage);
        }
    }

    /// `stage` begins a step: no slot of it has ended.
    pub(super) fn begin_copies(&mut self, stage: usize) {
        let progress = &mut self.copies.progress[stage];
        progress.ended = 0;
        progress.next.fill(0);
    }

    /// Lets the copies of `stage` stand in line that may begin, stream by stream in their order.
    fn line_up(&mut self, stage: usize) {
        let Some(offload) = self.job.offload else { return };
        for (stream, ops) in offload.copies.stages()[stage].iter().enumerate() {
            while let Some(&op) = ops.get(self.copies.progress[stage].next[stream]) {
                if op.after > self.copies.progress[stage].ended {
                    break;
                }
                let Some(copy) = self.take_up(stage, stream, op) else { break };
                self.copies.progress[stage].next[stream] += 1;
                let device = self.stages[stage].device;
                self.copies.streams[device][stream].waiting.push_back((copy, op.way));
                self.copy_next(device, stream);
            }
        }
    }

    /// The number of the copy that `op` is a part of; none if it cannot come back yet.
    fn take_up(&mut self, stage: usize, stream: usize, op: CopyOp) -> Option<u32> {
        let offload = self.job.offload?;
        let step = self.stages[stage].step;
        let place = self.copy_place(op.chunk, op.microbatch, step);
        let copies = &mut self.copies;
        match op.way {
            CopyDirection::Out => {
                let copy = small(copies.all.len());
                let bytes = host_copy::bytes(offload.copies, offload.footprints, op.chunk);
                copies.all.push(HostCopy::new(op, stage, step, bytes));
                copies.whereabouts.push(Whereabouts::Leaving);
                copies.stream.push([stream; 2]);
                copies.of_cell[place] = copy;
                Some(copy)
            }
            CopyDirection::Back => {
                let copy = copies.of_cell[place];
                let at = copy as usize;
                // Behind its own copy out on the same stream, it can stand in line at once.
                let [out, _] = *copies.stream.get(at)?;
                if copies.whereabouts[at] == Whereabouts::Leaving && out != stream {
                    return None;
                }
                copies.stream[at][1] = stream;
                Some(copy)
            }
        }
    }

    /// Whether the activations that the backwards of `slot`, the next of `stage`, need are on the device, and those
    /// on the host that have to be by then.
    pub(super) fn are_in_place(&self, stage: usize, slot: Slot) -> bool {
        let Some(offload) = self.job.offload else { return true };
        let step = self.stages[stage].step;
        let whereabouts = |chunk, microbatch| {
            let copy = self.copies.of_cell[self.copy_place(chunk, microbatch, step)];
            self.copies.whereabouts.get(copy as usize)
        };
        let mut joined = offload.copies.joined_by(stage, self.copies.progress[stage].ended);
        let mut backwards = slot.passes().filter(|&pass| is_backward(pass));
        joined.all(|(chunk, microbatch)| {
            whereabouts(chunk, microbatch).is_some_and(|&place| place != Whereabouts::Leaving)
        }) && backwards.all(|pass| {
            whereabouts(pass.chunk, pass.microbatch).is_none_or(|&place| place == Whereabouts::Here)
        })
    }

    fn copy_place(&self, chunk: u16, microbatch: u32, step: u32) -> usize {
        let shape = self.job.schedule.shape();
        step as usize * shape.cells() + shape.cell(chunk, microbatch)
    }

    /// Begins the next copy of a stream that has nothing to do.
    fn copy_next(&mut self, device: usize, stream: usize) {
        let Some(offload) = self.job.offload else { return };
        let entry = &mut self.copies.streams[device][stream];
        if entry.busy {
            return;
        }
        let Some((copy, way)) = entry.waiting.pop_front() else { return };
        entry.busy = true;
        let record = &mut self.copies.all[copy as usize];
        record.way(way)[0] = Nanos(self.now);
        let (bytes, chunk) = (record.bytes.0, record.pass.chunk);
        if way == CopyDirection::Back {
            self.copies.whereabouts[copy as usize] = Whereabouts::Returning;
            if self.job.room.is_some() {
                self.devices[device].held = self.devices[device].held.saturating_add(bytes);
            }
        }
        match self.job.cluster.host_wires(device) {
            Some(wires) if bytes > 0 => {
                let queue = &mut self.queue;
                let wire = [wires[way as usize]];
                let flow =
                    self.network.begin(self.now, &wire, bytes, &mut |one| check_flow(queue, one));
                self.carry(flow, Carried::Copy(copy));
            }
            wires => {
                let time = match wires {
                    Some(_) => 0,
                    None => host_copy::duration(offload.copies, self.job.costs, chunk, way),
                };
                self.queue.push(self.now.saturating_add(time), Event::CopyEnd { copy });
            }
        }
    }

    /// A copy has arrived, on the host or on the device.
    pub(super) fn end_copy(&mut self, copy: u32) {
        let at = copy as usize;
        let HostCopy { stage, bytes, .. } = self.copies.all[at];
        let (device, now) = (self.stages[stage].device, Nanos(self.now));
        let way = match self.copies.whereabouts[at] {
            Whereabouts::Leaving => {
                if self.job.room.is_some() {
                    self.devices[device].held -= bytes.0;
                }
                self.copies.whereabouts[at] = Whereabouts::OnHost;
                CopyDirection::Out
            }
            _ => {
                self.copies.whereabouts[at] = Whereabouts::Here;
                CopyDirection::Back
            }
        };
        self.copies.all[at].way(way)[1] = now;
        let stream = self.copies.stream[at][way as usize];
        self.copies.streams[device][stream].busy = false;
        self.line_up(stage);
        self.copy_next(device, stream);
        if !self.devices[device].taken {
            self.call_next(device);
        }
        self.try_start(stage);
    }
}
