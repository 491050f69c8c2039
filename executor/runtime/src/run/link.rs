//! How a stage reaches the others.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::board::{Board, Doing};
use super::boundary::Round;
use super::failure::{Failure, Halt};
use super::inbox::{Event, Name};
use super::plan::Plan;
use crate::error::DeviceError;
use crate::worker::{Norm, Worker};

/// One stage's way out to all others. What comes in lands in its inbox.
pub(crate) trait Link<W: Worker> {
    /// A value on its way.
    type Parcel: Send + 'static;

    /// Sends `value`, made at `made` (nanoseconds since the epoch), to stage `to`.
    fn send(
        &mut self,
        worker: &mut W,
        to: usize,
        name: Name,
        value: W::Value,
        made: u64,
    ) -> Result<(), DeviceError>;

    /// Called before slot number `at` of each attempt at a step, and behind its last: begins the
    /// transfers that this stage has to take part in by then. What they bring, by name.
    fn take_part(
        &mut self,
        worker: &mut W,
        at: usize,
        (step, attempt): (u32, u8),
    ) -> Result<Vec<(Name, Self::Parcel)>, DeviceError> {
        let _ = (worker, at, step, attempt);
        Ok(Vec::new())
    }

    /// Whether values go from device to device, so that the host sees only the word of them.
    fn stays_on_devices(&self) -> bool {
        false
    }

    /// Takes the value out of a parcel.
    fn open(&mut self, worker: &mut W, parcel: Self::Parcel) -> Result<W::Value, DeviceError>;

    /// Tells stage `to` a norm.
    fn tell(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt>;

    /// Hands the gradients of `step` that this stage has summed up to stage `to`, which holds the same
    /// weights.
    fn share(&mut self, to: usize, step: u32, gradients: Vec<u8>) -> Result<(), Halt>;

    /// The activity of `stage` and for how long it has lasted, if that can be known; an error if
    /// another stage reports meanwhile why the run is over.
    fn ask(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure>;
}

/// Between threads of one process: values are moved.
#[derive(Debug)]
pub(crate) struct Local<V> {
    stage: usize,
    inboxes: Arc<[Sender<Event<V>>]>,
    board: Arc<Board>,
    plan: Arc<Plan>,
}

impl<V> Local<V> {
    /// The way out of `stage`.
    pub(crate) fn new(
        stage: usize,
        inboxes: Arc<[Sender<Event<V>>]>,
        board: Arc<Board>,
        plan: Arc<Plan>,
    ) -> Self {
        Self { stage, inboxes, board, plan }
    }

    /// An inbox is gone only if its stage has stopped, and then somebody says why.
    fn post(&self, to: usize, event: Event<V>) {
        let _ = self.inboxes[to].send(event);
    }
}

impl<W: Worker> Link<W> for Local<W::Value> {
    type Parcel = W::Value;

    fn send(
        &mut self,
        worker: &mut W,
        to: usize,
        name: Name,
        value: W::Value,
        made: u64,
    ) -> Result<(), DeviceError> {
        let at = if worker.makes_hops() { made } else { made + self.plan.delay(name.value).0 };
        self.post(to, Event::Value { from: self.stage, name, parcel: value, at });
        Ok(())
    }

    fn stays_on_devices(&self) -> bool {
        true
    }

    fn open(&mut self, _: &mut W, parcel: W::Value) -> Result<W::Value, DeviceError> {
        Ok(parcel)
    }

    fn tell(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt> {
        self.post(to, Event::Norm { from: self.stage, step, round, norm });
        Ok(())
    }

    fn share(&mut self, to: usize, step: u32, bytes: Vec<u8>) -> Result<(), Halt> {
        self.post(to, Event::Gradients { from: self.stage, step, bytes });
        Ok(())
    }

    fn ask(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure> {
        Ok(Some(self.board.look(stage)))
    }
}
