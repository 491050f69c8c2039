//! One stage that runs its order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::{Pass, Slot, Value};

use super::board::{Awaited, Board, Chain, Doing};
use super::boundary::{Round, validate_before};
use super::clock::{nanos_since, wait_until};
use super::copies::{CopiesDone, Copying};
use super::failure::{Failure, Halt};
use super::inbox::{Inbox, Name};
use super::link::Link;
use super::parts::Parts;
use super::plan::Plan;
use super::raw::{RawSlot, RawStage, RawStep};
use crate::error::DeviceError;
use crate::measured::HostBound;
use crate::worker::Trainer;

/// A running stage.
pub(super) struct Stage<'a, W: Trainer, L: Link<W>> {
    pub(super) plan: &'a Plan,
    pub(super) stage: usize,
    pub(super) worker: W,
    pub(super) link: L,
    pub(super) inbox: Inbox<L::Parcel>,
    pub(super) step: u32,
    /// Number of the current or next attempt at the step.
    pub(super) attempt: u8,
    pub(super) raw: RawStage,
    /// While the previous step is not validated: whether its optimistic update was made.
    pub(super) unvalidated: Option<bool>,
    board: Arc<Board>,
    pub(super) epoch: Instant,
    slots: Vec<Slot>,
    /// Passes of the step that have added to gradients of weights.
    pub(super) added: u32,
    /// The losses of the updates of the step, where weights change while the pipeline runs.
    pub(super) losses: Vec<f64>,
    /// Values of this stage for another chunk on it.
    kept: HashMap<Value, W::Value>,
    copying: Copying,
    pub(super) parts: Parts,
    /// The parts that the worker has received from other stages, and the times at which this stage
    /// made its own parts.
    pub(super) received: HashSet<(Value, usize)>,
    pub(super) made: HashMap<Value, u64>,
}

/// Whether a stage continues or restarts its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// Continue.
    On,
    /// Restart all passes of this step.
    Anew,
}

impl<'a, W: Trainer, L: Link<W>> Stage<'a, W, L> {
    /// Stage number `stage` of the plan, before its first step; `epoch` is time zero of all clocks.
    pub(super) fn new(
        plan: &'a Plan,
        stage: usize,
        worker: W,
        link: L,
        inbox: Inbox<L::Parcel>,
        board: Arc<Board>,
        epoch: Instant,
    ) -> Result<Self, Failure> {
        let no_thread =
            |error: std::io::Error| Failure::Thread { stage, message: error.to_string() };
        let copying = Copying::new(plan.copies(stage).clone(), epoch).map_err(no_thread)?;
        Ok(Self {
            plan,
            stage,
            worker,
            link,
            inbox,
            step: 0,
            attempt: 0,
            raw: RawStage::default(),
            unvalidated: None,
            board,
            epoch,
            slots: plan.slots(stage),
            added: 0,
            losses: Vec::new(),
            kept: HashMap::new(),
            copying,
            parts: Parts::of(plan.schedule()),
            received: HashSet::new(),
            made: HashMap::new(),
        })
    }

    /// Runs all steps.
    pub(super) fn run(mut self) -> Result<RawStage, Halt> {
        self.steps()?;
        Ok(self.raw)
    }

    /// Runs all steps, or those that this stage completes before the run is stopped.
    pub(super) fn run_until_stopped(mut self) -> Result<RawStage, Halt> {
        match self.steps() {
            Ok(()) | Err(Halt::Stopped) => Ok(self.raw),
            Err(failed) => Err(failed),
        }
    }

    fn steps(&mut self) -> Result<(), Halt> {
        self.refuse_hop()?;
        let schedule = self.plan.schedule();
        let validate_before = validate_before(schedule, self.stage, &self.slots);
        for step in 0..self.plan.all_steps() {
            self.step = step;
            let allocated = self.worker.allocations();
            self.begin()?;
            let mut slots = self.passes(validate_before)?;
            self.publish(Doing::Stepping(step));
            let epoch = self.epoch;
            if self.plan.updates().is_none() {
                self.add_gradients_of_twin()?;
                self.cross_boundary()?;
            }
            // The only device synchronization of a step: after the optimizer, which belongs to it.
            self.device(None, |worker, _| worker.synchronize())?;
            let end = nanos_since(epoch, Instant::now());
            let times = self.device(None, |worker, _| worker.device_times(epoch))?;
            let losses = std::mem::take(&mut self.losses);
            let loss = match self.plan.updates() {
                Some(_) => losses.last().copied(),
                None => self.device(None, |worker, _| worker.loss())?,
            };
            if step >= self.plan.warm_up() {
                if let Some(times) = times {
                    let bound = self.take_times(&mut slots, &times)?;
                    self.raw.host_bound = Some(self.raw.host_bound.unwrap_or_default().and(bound));
                }
                // The clocks of device and host agree only to some microseconds.
                let end = slots.last().map_or(end, |slot| end.max(slot.end));
                let CopiesDone { times, peak } = self.copying.done();
                self.raw.peak = self.raw.peak.max(peak);
                self.raw.steps.push(RawStep { slots, copies: times, end, loss, losses });
                self.raw.allocations += self.worker.allocations().saturating_sub(allocated);
            }
        }
        self.publish(Doing::Done);
        Ok(())
    }

    /// Refuses a simulated hop that the host would wait for on a device that runs ahead of it: the
    /// host does not know when the device makes its values.
    fn refuse_hop(&mut self) -> Result<(), Halt> {
        let is_host_s = !self.worker.runs_ahead() || self.worker.simulates_hops();
        if !self.plan.has_delays() || is_host_s {
            return Ok(());
        }
        let message = "the device runs ahead of the host: its links take what they take";
        let call = "simulating a hop";
        self.device(None, |_, _| Err(DeviceError::Call { call, message: message.to_owned() }))
    }

    fn begin(&mut self) -> Result<(), Halt> {
        let step = self.step;
        self.kept.clear();
        self.received.clear();
        self.made.clear();
        self.added = 0;
        self.inbox.begin(step, self.attempt);
        self.copying.begin();
        self.device(None, |worker, _| worker.begin_step(step))?;
        match self.unvalidated {
            // A rollback of the last update would need the gradients.
            Some(_) => Ok(()),
            None => self.device(None, |worker, _| worker.clear()),
        }
    }

    /// Runs all slots of a step, and restarts them if the previous step is rolled back.
    fn passes(&mut self, validate_before: usize) -> Result<Vec<RawSlot>, Halt> {
        let mut done = Vec::with_capacity(self.slots.len());
        while done.len() < self.slots.len() {
            let at = done.len();
            // A stage that never waits learns here that the run is stopped.
            self.inbox.drain()?;
            let mut flow = self.validate(at >= validate_before)?;
            if flow == Flow::On {
                self.take_part(at)?;
                match self.slot(self.slots[at])? {
                    Some(raw) => {
                        done.push(raw);
                        self.update_if_due(self.slots[at])?;
                    }
                    None => flow = self.validate(true)?,
                }
            }
            if flow == Flow::Anew {
                done.clear();
                self.attempt = 1;
                self.begin()?;
            }
        }
        self.take_part(self.slots.len())?;
        self.attempt = 0;
        Ok(done)
    }

    /// Begins the transfers that are due before slot number `at`.
    fn take_part(&mut self, at: usize) -> Result<(), Halt> {
        let (slot, step, attempt) = (self.slots.get(at).copied(), self.step, self.attempt);
        let here = self.device(slot, |worker, link| link.take_part(worker, at, step, attempt))?;
        let since = nanos_since(self.epoch, Instant::now());
        let schedule = self.plan.schedule();
        for (name, parcel) in here {
            if let Some(from) = schedule.placement().maker(schedule.shape(), name.value) {
                self.inbox.put(name, from, parcel, since);
            }
        }
        Ok(())
    }

    /// Runs `slot`; `None` if the norm of the previous step came first, and nothing was run.
    fn slot(&mut self, slot: Slot) -> Result<Option<RawSlot>, Halt> {
        let shape = self.plan.schedule().shape();
        // No value is taken before all have arrived: a postponed slot finds them again.
        let inputs = slot.passes().filter_map(|pass| pass.input(shape));
        for value in inputs.filter(|value| !value.is_collective(shape)) {
            if !self.await_value(slot, value)? {
                return Ok(None);
            }
        }
        if !self.await_parts(slot)? {
            return Ok(None);
        }
        let mut inputs: [Option<W::Value>; 2] = [None, None];
        let mut raw = RawSlot::default();
        for (i, pass) in slot.passes().enumerate() {
            let single = |value: &Value| !value.is_collective(shape);
            let Some(value) = pass.input(shape).filter(single) else { continue };
            let parcel = self.maker(value).and_then(|from| self.inbox.take(self.name(value), from));
            let Some((parcel, at)) = parcel else {
                inputs[i] = self.kept.remove(&value);
                continue;
            };
            wait_until(self.epoch + Duration::from_nanos(at));
            let open = |worker: &mut W, link: &mut L| link.open(worker, parcel);
            inputs[i] = Some(self.device(Some(slot), open)?);
            // A value that stays on devices is ready when the device has made it, whenever the host
            // receives its ticket.
            let by_device = self.worker.runs_ahead() && self.link.stays_on_devices();
            raw.arrivals[i] = Some(if by_device { 0 } else { at });
        }
        for (i, pass) in slot.passes().enumerate() {
            raw.arrivals[i] = raw.arrivals[i].max(self.receive_parts(slot, pass)?);
        }
        let timeout = self.plan.timeout();
        let started = self.copying.start(&mut self.worker, slot, timeout);
        self.device(Some(slot), |_, _| started)?;
        raw.start = nanos_since(self.epoch, self.publish(Doing::Running(slot)));
        if let Some(later) = &inputs[1] {
            self.device(Some(slot), |worker, _| worker.wait(later))?;
        }
        let mut outputs: [Option<W::Value>; 2] = [None, None];
        for (i, pass) in slot.passes().enumerate() {
            let input = inputs[i].take();
            outputs[i] = self.device(Some(slot), |worker, _| worker.run(pass, input))?;
            raw.launched[i] = nanos_since(self.epoch, Instant::now());
        }
        raw.end = nanos_since(self.epoch, Instant::now());
        for (pass, output) in slot.passes().zip(outputs) {
            self.send_output(slot, pass, output, raw.end)?;
            self.send_parts(slot, pass, raw.end)?;
        }
        let ended = self.copying.end(&mut self.worker, slot, timeout);
        self.device(Some(slot), |_, _| ended)?;
        Ok(Some(raw))
    }

    /// Waits for `value`, if another stage makes it; false if the norm of the previous step came
    /// first.
    fn await_value(&mut self, slot: Slot, value: Value) -> Result<bool, Halt> {
        match self.maker(value).filter(|&from| from != self.stage) {
            Some(from) => self.await_from(slot, value, from),
            None => Ok(true),
        }
    }

    /// Waits for the part of `from` in `value`; false if the norm of the previous step came first.
    pub(super) fn await_from(
        &mut self,
        slot: Slot,
        value: Value,
        from: usize,
    ) -> Result<bool, Halt> {
        let name = self.name(value);
        let settles = self.unvalidated.map(|_| (self.step - 1, self.stage + 1));
        self.wait_for(Awaited::Value(slot, value), from, |inbox| {
            let arrived = |(step, from)| inbox.has_norm(step, Round::Final, from);
            inbox.has(name, from) || settles.is_some_and(arrived)
        })?;
        Ok(self.inbox.has(name, from))
    }

    /// Sends the output of `pass` to the stage of the next chunk, or keeps it if that is this
    /// stage.
    fn send_output(
        &mut self,
        slot: Slot,
        pass: Pass,
        output: Option<W::Value>,
        made: u64,
    ) -> Result<(), Halt> {
        let taker = |value: Value| Some((value, value.taken_by(self.chunks())?));
        let taken = pass.makes().and_then(taker);
        match (taken, output) {
            (None, None) => Ok(()),
            (Some((value, chunk)), Some(output)) => {
                let to = self.home(chunk, value);
                if to == self.stage {
                    self.kept.insert(value, output);
                    return Ok(());
                }
                let name = self.name(value);
                self.device(Some(slot), |worker, link| link.send(worker, to, name, output, made))
            }
            (Some(_), None) => Err(self.disobeys(format!("its worker made nothing of {pass}"))),
            (None, Some(_)) => {
                Err(self.disobeys(format!("its worker sent a value of {pass} without a receiver")))
            }
        }
    }

    /// Waits until the inbox is `ready`.
    pub(super) fn wait_for(
        &mut self,
        what: Awaited,
        from: usize,
        ready: impl Fn(&Inbox<L::Parcel>) -> bool,
    ) -> Result<(), Halt> {
        self.inbox.drain()?;
        if ready(&self.inbox) {
            return Ok(());
        }
        let since = self.publish(Doing::Waiting { what, from });
        let timeout = self.plan.timeout();
        while !ready(&self.inbox) {
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                let chain = Chain::follow(self.stage, |stage| self.link.query(stage))?;
                return Err(Failure::Stuck { timeout, chain }.into());
            }
            self.inbox.wait(left)?;
        }
        Ok(())
    }

    /// Runs `work` on the worker and the link; an error names the stage, step and slot.
    pub(super) fn device<T>(
        &mut self,
        slot: Option<Slot>,
        work: impl FnOnce(&mut W, &mut L) -> Result<T, DeviceError>,
    ) -> Result<T, Halt> {
        let (stage, step) = (self.stage, Some(self.step));
        work(&mut self.worker, &mut self.link)
            .map_err(|error| Failure::Device { stage, step, slot, error }.into())
    }

    /// Replaces the host's times by those of the device's clock, one for each pass, and counts the
    /// host-bound passes.
    fn take_times(&self, slots: &mut [RawSlot], times: &[(u64, u64)]) -> Result<HostBound, Halt> {
        let passes: usize = self.slots.iter().map(|slot| slot.passes().count()).sum();
        if passes != times.len() {
            let what = format!("its worker measured {} passes of {passes}", times.len());
            return Err(self.disobeys(what));
        }
        let launched = slots.iter().zip(&self.slots);
        let launched = launched.flat_map(|(raw, slot)| slot.passes().zip(raw.launched));
        // The first pass cannot be launched before its step begins.
        let behind = times.iter().zip(launched).skip(1);
        let behind = behind.filter(|((start, _), (_, launched))| start < launched);
        let bound = behind.count() as u64;
        let mut times = times.iter();
        for (raw, slot) in slots.iter_mut().zip(&self.slots) {
            let mut own = times.by_ref().take(slot.passes().count());
            if let Some(&(start, end)) = own.next() {
                (raw.start, raw.end) = (start, own.map(|&(_, end)| end).fold(end, u64::max));
            }
        }
        Ok(HostBound { bound, passes: passes.saturating_sub(1) as u64 })
    }

    fn publish(&self, doing: Doing) -> Instant {
        let now = Instant::now();
        self.board.publish(self.stage, doing, now);
        now
    }

    fn disobeys(&self, what: String) -> Halt {
        Failure::OutOfOrder { stage: self.stage, what }.into()
    }

    fn chunks(&self) -> u16 {
        self.plan.schedule().shape().chunks()
    }

    /// The name of `value` in this attempt at this step.
    pub(super) const fn name(&self, value: Value) -> Name {
        Name { step: self.step, attempt: self.attempt, value }
    }

    /// The stage that makes `value`, if a single one does.
    fn maker(&self, value: Value) -> Option<usize> {
        let schedule = self.plan.schedule();
        schedule.placement().maker(schedule.shape(), value)
    }

    fn home(&self, chunk: u16, value: Value) -> usize {
        let schedule = self.plan.schedule();
        schedule.placement().stage(schedule.shape(), chunk, value.microbatch())
    }
}
