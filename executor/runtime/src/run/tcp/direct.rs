//! Values that go from device to device, while all other messages go over TCP.

use std::collections::HashMap;
use std::time::Duration;

use pipeline::Value;

use super::link::TcpLink;
use crate::error::DeviceError;
use crate::run::board::Doing;
use crate::run::boundary::Round;
use crate::run::failure::{Failure, Halt};
use crate::run::inbox::Name;
use crate::run::link::Link;
use crate::run::transfers::{Direction, P2pAction};
use crate::worker::{Direct, Norm};

/// The link of a stage whose device has a communicator with those of all stages.
///
/// Both ends of a transfer must begin it. Every stage begins its ends in the order of
/// [`crate::Transfers`], those of one round as one group, each before the slot that the order
/// gives: after the slots that make the values, and no later than the first slot that needs them.
/// So the earliest unfinished transfer has both ends free, whatever the durations.
pub(super) struct DirectLink<'a, V> {
    tcp: TcpLink<'a>,
    actions: Vec<P2pAction>,
    /// The first action of the step that is not begun.
    next: usize,
    step: u32,
    made: HashMap<Value, V>,
    /// The received values, by the ticket in the inbox for each.
    came: HashMap<u64, V>,
    tickets: u64,
}

impl<'a, V> DirectLink<'a, V> {
    /// A link with the `actions` of this stage.
    pub(super) fn new(tcp: TcpLink<'a>, actions: Vec<P2pAction>) -> Self {
        let (made, came) = (HashMap::new(), HashMap::new());
        Self { tcp, actions, next: 0, step: 0, made, came, tickets: 0 }
    }

    /// The actions of the next round, if they are due before slot number `at`.
    fn due(&mut self, at: usize) -> Vec<P2pAction> {
        let Some(first) = self.actions.get(self.next).copied().filter(|action| action.before <= at)
        else {
            return Vec::new();
        };
        let rest = self.actions[self.next..].iter();
        let due: Vec<P2pAction> =
            rest.take_while(|action| action.round == first.round).copied().collect();
        self.next += due.len();
        due
    }
}

impl<W: Direct> Link<W> for DirectLink<'_, W::Value> {
    type Parcel = Vec<u8>;

    fn send(
        &mut self,
        _: &mut W,
        _: usize,
        name: Name,
        value: W::Value,
        _: u64,
    ) -> Result<(), DeviceError> {
        self.made.insert(name.value, value);
        Ok(())
    }

    fn take_part(
        &mut self,
        worker: &mut W,
        at: usize,
        step: u32,
        attempt: u8,
    ) -> Result<Vec<(Name, Vec<u8>)>, DeviceError> {
        if step != self.step {
            (self.step, self.next) = (step, 0);
        }
        let mut here = Vec::new();
        loop {
            let due = self.due(at);
            if due.is_empty() {
                return Ok(here);
            }
            let (mut sends, mut from, mut names) = (Vec::new(), Vec::new(), Vec::new());
            for P2pAction { direction, peer, value, .. } in due {
                if direction == Direction::Receive {
                    from.push(peer);
                    names.push(Name { step, attempt, value });
                    continue;
                }
                let none = || DeviceError::NotAtHand { what: format!("{value:?}, to be sent") };
                sends.push((peer, self.made.remove(&value).ok_or_else(none)?));
            }
            let came = worker.exchange(sends, &from)?;
            if came.len() != names.len() {
                let what = format!("{} values of {}", came.len(), names.len());
                return Err(DeviceError::NotAtHand { what });
            }
            for (name, value) in names.into_iter().zip(came) {
                self.tickets += 1;
                self.came.insert(self.tickets, value);
                here.push((name, self.tickets.to_le_bytes().to_vec()));
            }
        }
    }

    fn stays_on_devices(&self) -> bool {
        true
    }

    fn open(&mut self, _: &mut W, parcel: Vec<u8>) -> Result<W::Value, DeviceError> {
        let ticket = <[u8; 8]>::try_from(parcel).ok().map(u64::from_le_bytes);
        let came = ticket.and_then(|ticket| self.came.remove(&ticket));
        came.ok_or_else(|| DeviceError::NotAtHand { what: "a value from its device".to_owned() })
    }

    fn send_norm(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt> {
        Link::<W>::send_norm(&mut self.tcp, to, step, round, norm)
    }

    fn send_gradients(&mut self, to: usize, step: u32, gradients: Vec<u8>) -> Result<(), Halt> {
        Link::<W>::send_gradients(&mut self.tcp, to, step, gradients)
    }

    fn query(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure> {
        Link::<W>::query(&mut self.tcp, stage)
    }
}
