//! Values that have arrived from other stages and are not used yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use pipeline::Value;

use super::boundary::{Boundary, Round};
use super::failure::{Failure, Halt};
use super::plan::Plan;
use super::transfers::Transfers;
use crate::worker::Norm;

/// Identifies a value of a step. A restarted step is another attempt at it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Name {
    /// The step, from 0, warm-up included.
    pub(crate) step: u32,
    /// Number of earlier attempts: at most one, since the norm that causes the restart is final.
    pub(crate) attempt: u8,
    pub(crate) value: Value,
}

/// A message from another stage.
#[derive(Debug)]
pub(crate) enum Event<P> {
    /// A value in the link's encoding, usable from `at` on, in nanoseconds since the epoch.
    Value { from: usize, name: Name, parcel: P, at: u64 },
    /// The norm of the gradients of some stages in a step.
    Norm { from: usize, step: u32, round: Round, norm: Norm },
    /// The gradients of a step that the other stage with the same weights has accumulated.
    Gradients { from: usize, step: u32, bytes: Vec<u8> },
    /// The run has ended: another stage failed, or, with a failure, the link to it did.
    Stop(Option<Failure>),
}

/// The position in the sequence of values that one stage sends to another by the schedule.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    values: Arc<[Value]>,
    step: u32,
    attempt: u8,
    next: usize,
}

impl Sequence {
    /// The sequence from `from` to `to`, at the start of the first step.
    pub(crate) fn new(transfers: &Transfers, from: usize, to: usize) -> Self {
        Self { values: transfers.between(from, to).into(), step: 0, attempt: 0, next: 0 }
    }

    /// Advances past an arrived value; an error text if another value was due.
    pub(crate) fn accept(&mut self, name: Name) -> Result<(), String> {
        if name.step == self.step && name.attempt == 1 && self.attempt == 0 && name.step > 0 {
            (self.attempt, self.next) = (1, 0);
        } else if self.next == self.values.len() && name.step == self.step.wrapping_add(1) {
            (self.step, self.attempt, self.next) = (name.step, name.attempt.min(1), 0);
        }
        let due = self.values.get(self.next);
        let expected = (self.step, self.attempt, due.copied());
        if (name.step, name.attempt, Some(name.value)) == expected {
            self.next += 1;
            return Ok(());
        }
        let due = due.map_or("nothing".to_owned(), |value| format!("{value:?}"));
        let Name { step, attempt, value } = name;
        Err(format!(
            "it handed on {value:?} of step {step} (attempt {attempt}) where {due} of step {} \
             (attempt {}) was due",
            self.step, self.attempt
        ))
    }
}

/// The arrived values and norms, by name.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    events: Receiver<Event<P>>,
    /// By peer, where the link does not check the sequence.
    sequences: Vec<Sequence>,
    /// By name and sender: every stage sends a part of a collective value.
    values: HashMap<(Name, usize), (P, u64)>,
    norms: HashMap<(u32, Round, usize), Norm>,
    gradients: HashMap<u32, Vec<u8>>,
    now: (u32, u8),
    /// The stage of this inbox, the number of stages, and the boundary between steps.
    owner: usize,
    stages: usize,
    boundary: Boundary,
    /// The other stage with the same weights, if there is one.
    twin: Option<usize>,
}

impl<P> Inbox<P> {
    /// The inbox of stage `owner`, filled from `events`. Values are checked against `sequences`,
    /// one for each stage, or not at all if there are none.
    pub(crate) fn new(
        plan: &Plan,
        owner: usize,
        events: Receiver<Event<P>>,
        sequences: Vec<Sequence>,
    ) -> Self {
        Self {
            events,
            sequences,
            values: HashMap::new(),
            norms: HashMap::new(),
            gradients: HashMap::new(),
            now: (0, 0),
            owner,
            stages: plan.schedule().shape().stages(),
            boundary: plan.boundary(),
            twin: plan.twin(owner),
        }
    }

    /// Begins an attempt at a step: values of earlier attempts are dropped, now or on arrival.
    pub(crate) fn begin(&mut self, step: u32, attempt: u8) {
        self.now = (step, attempt);
        self.values.retain(|(name, _), _| (name.step, name.attempt) >= (step, attempt));
    }

    /// Stores a value that the link of this stage has received itself.
    pub(crate) fn put(&mut self, name: Name, from: usize, parcel: P, at: u64) {
        self.values.insert((name, from), (parcel, at));
    }

    /// The value of that name from `from` and the time from which it is usable, if it has arrived.
    pub(crate) fn take(&mut self, name: Name, from: usize) -> Option<(P, u64)> {
        self.values.remove(&(name, from))
    }

    /// Whether that value has arrived.
    pub(crate) fn has(&self, name: Name, from: usize) -> bool {
        self.values.contains_key(&(name, from))
    }

    /// The norm of this round, if it has arrived.
    pub(crate) fn take_norm(&mut self, step: u32, round: Round, from: usize) -> Option<Norm> {
        self.norms.remove(&(step, round, from))
    }

    /// Whether that norm has arrived.
    pub(crate) fn has_norm(&self, step: u32, round: Round, from: usize) -> bool {
        self.norms.contains_key(&(step, round, from))
    }

    /// The gradients of `step` that the other stage with the same weights has accumulated, if they
    /// have arrived.
    pub(crate) fn take_gradients(&mut self, step: u32) -> Option<Vec<u8>> {
        self.gradients.remove(&step)
    }

    /// Whether those gradients have arrived.
    pub(crate) fn has_gradients(&self, step: u32) -> bool {
        self.gradients.contains_key(&step)
    }

    /// Stores all events that have arrived, without waiting.
    pub(crate) fn drain(&mut self) -> Result<(), Halt> {
        loop {
            match self.events.try_recv() {
                Ok(event) => self.put_away(event)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Halt::Stopped),
            }
        }
    }

    /// Waits up to `timeout` for an event and stores it. Returns whether one arrived.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<bool, Halt> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => self.put_away(event).map(|()| true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(Halt::Stopped),
        }
    }

    fn put_away(&mut self, event: Event<P>) -> Result<(), Halt> {
        match event {
            Event::Stop(None) => Err(Halt::Stopped),
            Event::Stop(Some(failure)) => Err(failure.into()),
            Event::Norm { from, step, round, norm } => {
                let expected = round.is_expected(self.boundary, from, self.owner, self.stages);
                let new = self.norms.insert((step, round, from), norm).is_none();
                if expected && new && step.abs_diff(self.now.0) <= 1 {
                    return Ok(());
                }
                let what = format!("it sent a norm of step {step} that was not due ({round:?})");
                Err(Failure::OutOfOrder { stage: from, what }.into())
            }
            Event::Gradients { from, step, bytes } => {
                let due = self.twin == Some(from) && step.abs_diff(self.now.0) <= 1;
                if due && self.gradients.insert(step, bytes).is_none() {
                    return Ok(());
                }
                let what = format!("it handed on gradients of step {step} that were not due");
                Err(Failure::OutOfOrder { stage: from, what }.into())
            }
            Event::Value { from, name, parcel, at } => {
                if let Some(sequence) = self.sequences.get_mut(from) {
                    let wrong = |what| Failure::OutOfOrder { stage: from, what };
                    sequence.accept(name).map_err(wrong)?;
                }
                if (name.step, name.attempt) >= self.now {
                    self.values.insert((name, from), (parcel, at));
                }
                Ok(())
            }
        }
    }
}
