//! How a stage sends to other stages.

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

/// The sending side of one stage. Received values go to its inbox.
pub(crate) trait Link<W: Worker> {
    /// A value in transfer.
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

    /// Called before slot number `at` of each attempt at a step, and after its last slot: begins
    /// the transfers due by then that this stage takes part in. Returns the received values by
    /// name.
    fn take_part(
        &mut self,
        worker: &mut W,
        at: usize,
        step: u32,
        attempt: u8,
    ) -> Result<Vec<(Name, Self::Parcel)>, DeviceError> {
        let _ = (worker, at, step, attempt);
        Ok(Vec::new())
    }

    /// Whether values go from device to device, so that the host sees only their tickets.
    fn stays_on_devices(&self) -> bool {
        false
    }

    /// Unpacks the value of a parcel.
    fn open(&mut self, worker: &mut W, parcel: Self::Parcel) -> Result<W::Value, DeviceError>;

    /// Sends a norm to stage `to`.
    fn send_norm(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt>;

    /// Sends the gradients of `step` accumulated by this stage to stage `to`, which holds the same
    /// weights.
    fn send_gradients(&mut self, to: usize, step: u32, gradients: Vec<u8>) -> Result<(), Halt>;

    /// The activity of `stage` and its duration, if `stage` answers; an error if another stage
    /// meanwhile reports why the run is over.
    fn query(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure>;
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
    /// The link of `stage`.
    pub(crate) fn new(
        stage: usize,
        inboxes: Arc<[Sender<Event<V>>]>,
        board: Arc<Board>,
        plan: Arc<Plan>,
    ) -> Self {
        Self { stage, inboxes, board, plan }
    }

    /// An inbox is dropped only after its stage has stopped, which is then reported elsewhere.
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
        let at = if worker.simulates_hops() { made } else { made + self.plan.delay(name.value).0 };
        self.post(to, Event::Value { from: self.stage, name, parcel: value, at });
        Ok(())
    }

    fn stays_on_devices(&self) -> bool {
        true
    }

    fn open(&mut self, _: &mut W, parcel: W::Value) -> Result<W::Value, DeviceError> {
        Ok(parcel)
    }

    fn send_norm(&mut self, to: usize, step: u32, round: Round, norm: Norm) -> Result<(), Halt> {
        self.post(to, Event::Norm { from: self.stage, step, round, norm });
        Ok(())
    }

    fn send_gradients(&mut self, to: usize, step: u32, bytes: Vec<u8>) -> Result<(), Halt> {
        self.post(to, Event::Gradients { from: self.stage, step, bytes });
        Ok(())
    }

    fn query(&mut self, stage: usize) -> Result<Option<(Doing, Duration)>, Failure> {
        Ok(Some(self.board.look(stage)))
    }
}
