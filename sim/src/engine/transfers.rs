//! How values travel: from the pass that makes them to the stage that needs them.

use std::collections::VecDeque;

use pipeline::{Nanos, Pass};

use super::numbers::{scale, small};
use super::queue::{Event, check_flow};
use super::state::{Carried, Channel, EventLoop, Stage, State};
use super::values::{sender, taker};
use super::{Durations, Protocol, Transfer};

impl<C: Durations> EventLoop<'_, C> {
    /// Sets what `pass` has made on its way, if another stage needs it.
    pub(super) fn send(&mut self, stage: usize, pass: Pass, step: u32) -> bool {
        let Some(value) = pass.makes() else { return false };
        let Some(to) = taker(self.job, value) else { return false };
        if to == stage {
            return false;
        }
        let channel = self.channel(stage, to);
        let (made, zero) = (Nanos(self.now), Nanos(0));
        let transfer = small(self.transfers.len());
        self.transfers.push(Transfer {
            value,
            step,
            from: stage,
            to,
            made,
            begin: zero,
            end: zero,
        });
        self.channel_of_transfer.push(small(channel));
        self.channels[channel].waiting.push_back(transfer);
        self.move_on(channel);
        true
    }

    fn channel(&mut self, from: usize, to: usize) -> usize {
        let known = self.channels_of[from].iter().copied();
        if let Some(channel) = known.into_iter().find(|&channel| self.channels[channel].to == to) {
            return channel;
        }
        let seats = self.job.seats;
        let route = self.job.cluster.route(seats.device(from), seats.device(to));
        self.channels.push(Channel { to, route, waiting: VecDeque::new(), moving: 0 });
        self.channels_of[from].push(self.channels.len() - 1);
        self.channels.len() - 1
    }

    /// Begins the transfers of `channel` that may begin.
    fn move_on(&mut self, channel: usize) {
        let eager = self.job.communication.protocol == Protocol::Eager;
        while let Some(&transfer) = self.channels[channel].waiting.front() {
            let Transfer { value, step, .. } = self.transfers[transfer as usize];
            let asked = self.progress[self.cell(value, step)].asked;
            if !eager && (self.channels[channel].moving > 0 || !asked) {
                return;
            }
            self.channels[channel].waiting.pop_front();
            self.channels[channel].moving += 1;
            self.begin_transfer(channel, transfer);
        }
    }

    fn begin_transfer(&mut self, channel: usize, transfer: u32) {
        let now = self.now;
        let Transfer { value, step, from, to, .. } = self.transfers[transfer as usize];
        self.transfers[transfer as usize].begin = Nanos(now);
        let bytes = if self.job.costs.is_empty(value) { 0 } else { self.job.messages.bytes.0 };
        if bytes == 0 || self.channels[channel].route.wires.is_empty() {
            self.deliver(transfer);
            return;
        }
        // A link slowed by some factor carries as much longer as a larger value would.
        let route = &self.channels[channel].route;
        let alone = self.job.cluster.time_on_wires(route, bytes);
        let slowed = self.durations.hop(alone, value, from, to, step, now);
        let bytes = match alone {
            0 => bytes,
            _ => scale(bytes, slowed, alone),
        };
        let queue = &mut self.queue;
        let wires = &self.channels[channel].route.wires;
        let flow = self.network.begin(now, wires, bytes, &mut |one| check_flow(queue, one));
        self.carry(flow, Carried::Transfer(transfer));
    }

    /// Remembers what `flow` carries.
    pub(super) fn carry(&mut self, flow: usize, what: Carried) {
        if self.carried.len() <= flow {
            self.carried.resize(flow + 1, what);
        }
        self.carried[flow] = what;
    }

    pub(super) fn has_ended(&mut self, now: u64, flow: usize, generation: u32) -> bool {
        let queue = &mut self.queue;
        self.network.has_ended(now, flow, generation, &mut |one| check_flow(queue, one))
    }

    pub(super) fn end_flow(&mut self, flow: usize) {
        let queue = &mut self.queue;
        self.network.end(self.now, flow, &mut |one| check_flow(queue, one));
        match self.carried[flow] {
            Carried::Transfer(transfer) => self.deliver(transfer),
            Carried::Copy(copy) => self.end_copy(copy),
            Carried::Segment(stage) => self.end_segment_flow(stage as usize),
        }
    }

    /// The last byte has left: the value is there after the latency of the route.
    fn deliver(&mut self, transfer: u32) {
        let Transfer { value, step, from, to, .. } = self.transfers[transfer as usize];
        let channel = &self.channels[self.channel_of_transfer[transfer as usize] as usize];
        let nominal = channel.route.latency.0;
        let latency = self.durations.hop(nominal, value, from, to, step, self.now);
        self.queue.push(self.now.saturating_add(latency), Event::Arrival { transfer });
    }

    pub(super) fn arrive(&mut self, transfer: u32) {
        let Transfer { value, step, from, to, .. } = self.transfers[transfer as usize];
        self.transfers[transfer as usize].end = Nanos(self.now);
        self.arrivals.push(transfer);
        let cell = self.cell(value, step);
        self.progress[cell].arrived = true;
        let channel = self.channel_of_transfer[transfer as usize] as usize;
        self.channels[channel].moving -= 1;
        self.move_on(channel);
        if let State::Sending(left) = self.stages[from].state {
            self.stages[from].state = State::Sending(left - 1);
            if left == 1 {
                self.leave_device(from);
            }
        }
        self.try_start(to);
    }

    /// Posts the receives of the next slots of `stage`, as far as its protocol looks ahead.
    pub(super) fn ask(&mut self, stage: usize) {
        let Protocol::Rendezvous { ahead } = self.job.communication.protocol else { return };
        let order = &self.job.schedule.orders()[stage];
        while self.stages[stage].slots_asked <= ahead {
            let Stage { step, asked, .. } = self.stages[stage];
            if asked == order.passes().len() {
                return;
            }
            let slot = order.slot_at(asked);
            self.stages[stage].asked += slot.passes().count();
            self.stages[stage].slots_asked += 1;
            for value in self.remote_needs(stage, slot) {
                let cell = self.cell(value, step);
                self.progress[cell].asked = true;
                // Nobody sends what a collective hands on.
                let Some(from) = sender(self.job, value) else { continue };
                let channel = self.channel(from, stage);
                self.move_on(channel);
            }
        }
    }
}
