//! Collective values where the output layer is in shards: the last chunk's output goes to all
//! stages, and the results of S and T go from each stage to each, or to the stage of the last
//! chunk. A barrier is passed when all parts have arrived.

use std::time::Duration;

use pipeline::{Pass, Slot};

use super::clock::wait_until;
use super::failure::Halt;
use super::link::Link;
use super::stage::Stage;
use crate::worker::Trainer;

impl<W: Trainer, L: Link<W>> Stage<'_, W, L> {
    /// Waits for all parts that passes of `slot` need from other stages; false if the norm of the
    /// previous step came first.
    pub(super) fn await_parts(&mut self, slot: Slot) -> Result<bool, Halt> {
        for pass in slot.passes() {
            for (value, from) in self.parts.needed(self.stage, pass) {
                let is_new = !self.received.contains(&(value, from));
                if is_new && !self.await_from(slot, value, from)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Passes the parts that `pass` needs, all of which have arrived, to the worker. Returns the
    /// time at which the last became usable.
    pub(super) fn receive_parts(&mut self, slot: Slot, pass: Pass) -> Result<Option<u64>, Halt> {
        let own = self.parts.own(pass).and_then(|value| Some((value, self.made.get(&value)?)));
        let mut last = own.map(|(value, made)| made + self.plan.delay(value).0);
        for (value, from) in self.parts.needed(self.stage, pass) {
            let Some((parcel, at)) = self.inbox.take(self.name(value), from) else { continue };
            self.received.insert((value, from));
            let give = |worker: &mut W, link: &mut L| {
                let part = link.open(worker, parcel)?;
                worker.receive_part(value, from, part)
            };
            self.device(Some(slot), give)?;
            last = last.max(Some(at));
        }
        if let Some(at) = last {
            wait_until(self.epoch + Duration::from_nanos(at));
        }
        Ok(last)
    }

    /// Sends the parts that `pass`, which ended at `made`, has made.
    pub(super) fn send_parts(&mut self, slot: Slot, pass: Pass, made: u64) -> Result<(), Halt> {
        if pass.kind.is_of_vocabulary() {
            self.made.extend(pass.makes().map(|value| (value, made)));
        }
        for (value, to) in self.parts.sent(self.stage, pass) {
            let name = self.name(value);
            self.device(Some(slot), |worker, link| {
                let part = worker.send_part(value, to)?;
                link.send(worker, to, name, part, made)
            })?;
        }
        Ok(())
    }
}
