//! Activations copied to the host after their forward and back before their backward, over a copy
//! stream per device and direction (PipeOffload, arXiv 2503.01328, section 3).

use std::collections::VecDeque;

use pipeline::{Bytes, Footprints, Kind, Nanos, Pass, Slot};

use super::machine::{Machine, small};
use super::transfers::{Carried, look_after};
use super::{Conditions, Setup};

/// Which activations are kept on the host between F and B. What is called back does not wait for
/// room, since its backward could not run without it: where a limit is exceeded by that, the
/// memory over time shows it ([`crate::occupancy`]).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offload<'a> {
    /// What each chunk holds.
    pub footprints: &'a Footprints,
    /// The part of it that is copied, in thousandths, at most 1000.
    pub per_mille: u32,
    /// How many slots before its backward an activation is called back. One whose backward comes
    /// no later than that after its forward stays on the device.
    pub ahead: u32,
}

/// An activation's way to the host and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCopy {
    /// Whose it is.
    pub stage: usize,
    /// The forward that made it.
    pub pass: Pass,
    /// In which step.
    pub step: u32,
    /// How much of it is copied.
    pub bytes: Bytes,
    /// Begin and end of the copy to the host. It is freed on the device at the end.
    pub out: [Nanos; 2],
    /// Begin and end of the copy back. It takes memory from the begin on.
    pub back: [Nanos; 2],
}

/// Where an activation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// Waits for the copy stream, or moves to the host; and whether it is wanted back already.
    Leaving {
        wanted: bool,
    },
    OnHost,
    Returning,
    Here,
}

/// One direction of the copies of a device: one after the other.
#[derive(Clone, Default)]
struct Stream {
    busy: bool,
    waiting: VecDeque<u32>,
}

const NONE: u32 = u32::MAX;

/// All copies of a run.
pub(super) struct Copies {
    all: Vec<HostCopy>,
    whereabouts: Vec<Whereabouts>,
    /// By step and cell, the number of the copy, or [`NONE`].
    of_cell: Vec<u32>,
    /// By cell, whether the activation is copied at all.
    is_copied: Vec<bool>,
    /// By device: out and back.
    streams: Vec<[Stream; 2]>,
}

const OUT: usize = 0;
const BACK: usize = 1;

impl Copies {
    pub(super) fn new(setup: &Setup<'_>) -> Self {
        let shape = setup.schedule.shape();
        let cells = if setup.offload.is_some() { shape.cells() } else { 0 };
        let is_copied = setup.offload.map(|offload| is_copied(setup, &offload));
        Self {
            all: Vec::new(),
            whereabouts: Vec::new(),
            of_cell: vec![NONE; cells * setup.steps as usize],
            is_copied: is_copied.unwrap_or_default(),
            streams: vec![<[Stream; 2]>::default(); setup.cluster.devices()],
        }
    }

    pub(super) fn into_all(self) -> Vec<HostCopy> {
        self.all
    }
}

/// By cell, whether enough slots lie between forward and backward, and something is copied.
fn is_copied(setup: &Setup<'_>, offload: &Offload<'_>) -> Vec<bool> {
    let shape = setup.schedule.shape();
    let mut is_copied = vec![false; shape.cells()];
    let mut forward = vec![0usize; shape.cells()];
    for order in setup.schedule.orders() {
        for (at, slot) in order.slots().enumerate() {
            for pass in slot.passes() {
                let cell = shape.cell(pass.chunk, pass.microbatch);
                match pass.kind {
                    Kind::F => forward[cell] = at,
                    Kind::B | Kind::BW => {
                        let apart = at - forward[cell] > offload.ahead as usize + 1;
                        is_copied[cell] = apart && copied_bytes(offload, pass) > 0;
                    }
                    Kind::W | Kind::S | Kind::T => {}
                }
            }
        }
    }
    is_copied
}

fn copied_bytes(offload: &Offload<'_>, pass: Pass) -> u64 {
    let whole = u128::from(offload.footprints.of(pass.chunk).until_backward.0);
    u64::try_from(whole * u128::from(offload.per_mille) / 1000).unwrap_or(u64::MAX)
}

impl<C: Conditions> Machine<'_, C> {
    /// Sends what the forwards of `slot` keep to the host.
    pub(super) fn copy_out(&mut self, stage: usize, slot: Slot, step: u32) {
        let Some(offload) = self.setup.offload else { return };
        for pass in slot.passes().filter(|pass| pass.kind == Kind::F) {
            let cell = self.setup.schedule.shape().cell(pass.chunk, pass.microbatch);
            if !self.copies.is_copied[cell] {
                continue;
            }
            let copy = small(self.copies.all.len());
            let (bytes, never) = (Bytes(copied_bytes(&offload, pass)), [Nanos(0); 2]);
            self.copies.all.push(HostCopy { stage, pass, step, bytes, out: never, back: never });
            self.copies.whereabouts.push(Whereabouts::Leaving { wanted: false });
            let place = self.copy_place(pass, step);
            self.copies.of_cell[place] = copy;
            self.join(self.stages[stage].device, OUT, copy);
        }
    }

    /// Calls back what the backwards need that `stage` is about to come to.
    pub(super) fn call_back(&mut self, stage: usize) {
        let Some(offload) = self.setup.offload else { return };
        let (schedule, step) = (self.setup.schedule, self.stages[stage].step);
        let at = self.stages[stage].at;
        let near = schedule.orders()[stage].slots_from(at).take(offload.ahead as usize + 1);
        let passes = near.flat_map(Slot::passes);
        for pass in passes.filter(|pass| matches!(pass.kind, Kind::B | Kind::BW)) {
            let copy = self.copies.of_cell[self.copy_place(pass, step)];
            if copy == NONE {
                continue;
            }
            let whereabouts = &mut self.copies.whereabouts[copy as usize];
            match *whereabouts {
                Whereabouts::Leaving { .. } => *whereabouts = Whereabouts::Leaving { wanted: true },
                Whereabouts::OnHost => {
                    *whereabouts = Whereabouts::Returning;
                    self.join(self.stages[stage].device, BACK, copy);
                }
                Whereabouts::Returning | Whereabouts::Here => {}
            }
        }
    }

    /// Whether the activations that the backwards of `slot` need are on the device.
    pub(super) fn are_here(&self, slot: Slot, step: u32) -> bool {
        self.setup.offload.is_none()
            || slot.passes().filter(|pass| matches!(pass.kind, Kind::B | Kind::BW)).all(|pass| {
                let copy = self.copies.of_cell[self.copy_place(pass, step)];
                copy == NONE || self.copies.whereabouts[copy as usize] == Whereabouts::Here
            })
    }

    fn copy_place(&self, pass: Pass, step: u32) -> usize {
        let shape = self.setup.schedule.shape();
        step as usize * shape.cells() + shape.cell(pass.chunk, pass.microbatch)
    }

    fn join(&mut self, device: usize, way: usize, copy: u32) {
        self.copies.streams[device][way].waiting.push_back(copy);
        self.copy_next(device, way);
    }

    /// Begins the next copy of a stream that has nothing to do.
    fn copy_next(&mut self, device: usize, way: usize) {
        let stream = &mut self.copies.streams[device][way];
        if stream.busy {
            return;
        }
        let Some(copy) = stream.waiting.pop_front() else { return };
        stream.busy = true;
        let entry = &mut self.copies.all[copy as usize];
        let (times, bytes) =
            (if way == OUT { &mut entry.out } else { &mut entry.back }, entry.bytes.0);
        times[0] = Nanos(self.now);
        if way == BACK && self.setup.room.is_some() {
            self.devices[device].held = self.devices[device].held.saturating_add(bytes);
        }
        match self.setup.cluster.host_wires(device) {
            None => self.end_copy(copy),
            Some(wires) => {
                let queue = &mut self.queue;
                let wire = [wires[way]];
                let flow =
                    self.network.begin(self.now, &wire, bytes, &mut |one| look_after(queue, one));
                self.carry(flow, Carried::Copy(copy));
            }
        }
    }

    /// A copy has arrived, on the host or on the device.
    pub(super) fn end_copy(&mut self, copy: u32) {
        let HostCopy { stage, bytes, .. } = self.copies.all[copy as usize];
        let (device, now) = (self.stages[stage].device, Nanos(self.now));
        let entry = &mut self.copies.all[copy as usize];
        let way = match self.copies.whereabouts[copy as usize] {
            Whereabouts::Leaving { wanted } => {
                entry.out[1] = now;
                if self.setup.room.is_some() {
                    self.devices[device].held -= bytes.0;
                }
                self.copies.whereabouts[copy as usize] =
                    if wanted { Whereabouts::Returning } else { Whereabouts::OnHost };
                if wanted {
                    self.join(device, BACK, copy);
                }
                OUT
            }
            _ => {
                entry.back[1] = now;
                self.copies.whereabouts[copy as usize] = Whereabouts::Here;
                BACK
            }
        };
        self.copies.streams[device][way].busy = false;
        self.copy_next(device, way);
        if !self.devices[device].taken {
            self.call_next(device);
        }
        self.try_start(stage);
    }
}
