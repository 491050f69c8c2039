//! A stage that records its gradients and update scales.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pipeline::{Bytes, CopyPart, Pass, Value};

use crate::direct_ops::DirectOps;
use crate::model::{Gpt, Parameters};
use crate::ops::Ops;
use runtime::DeviceError;
use runtime::{Norm, Offload, Trainer, Wire, Worker};

/// The larger of two errors; NaN counts as the largest.
pub(super) fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

/// The results that a run computed.
#[derive(Debug, Default)]
pub struct Seen {
    /// The gradients of the first step, with their ranges in the model.
    gradients: Vec<Parameters>,
    /// The scale of the gradients of each step, as stage 0 applied it.
    pub(super) scales: Vec<f64>,
}

impl Seen {
    /// The largest difference from the gradients of the whole model, relative to the largest of
    /// those; infinite if none was recorded.
    pub(super) fn gradient_error(&self, reference: &[f64]) -> f64 {
        let largest = reference.iter().fold(0.0, |most: f64, one| most.max(one.abs()));
        if self.gradients.is_empty() {
            return f64::INFINITY;
        }
        let parts = self.gradients.iter().flat_map(|part| part.range.clone().zip(&part.values));
        let errors = parts.map(|(at, found)| (found - reference[at]).abs());
        errors.fold(0.0, worse) / largest.max(f64::MIN_POSITIVE)
    }
}

/// A stage that records its first gradients and the scales of its updates.
pub struct Watched<O: Ops> {
    gpt: Gpt<O>,
    stage: usize,
    noted: bool,
    seen: Arc<Mutex<Seen>>,
}

impl<O: Ops> Watched<O> {
    /// `stage`, which records in `seen`; also its first gradients if it `keeps_gradients`.
    pub(super) fn new(
        gpt: Gpt<O>,
        stage: usize,
        keeps_gradients: bool,
        seen: Arc<Mutex<Seen>>,
    ) -> Self {
        Self { gpt, stage, noted: !keeps_gradients, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // A panicked thread fails the run, so that its record is unused.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Ops> Worker for Watched<O> {
    type Value = O::Transfer;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<Self::Value>,
    ) -> Result<Option<Self::Value>, DeviceError> {
        self.gpt.run(pass, input)
    }

    fn wait(&mut self, input: &Self::Value) -> Result<(), DeviceError> {
        self.gpt.wait(input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.gpt.synchronize()
    }

    fn runs_ahead(&self) -> bool {
        self.gpt.runs_ahead()
    }

    fn device_times(&mut self, epoch: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        self.gpt.device_times(epoch)
    }

    fn allocations(&self) -> u64 {
        self.gpt.allocations()
    }

    fn send_part(&mut self, value: Value, to: usize) -> Result<Self::Value, DeviceError> {
        self.gpt.send_part(value, to)
    }

    fn receive_part(
        &mut self,
        value: Value,
        from: usize,
        part: Self::Value,
    ) -> Result<(), DeviceError> {
        self.gpt.receive_part(value, from, part)
    }

    fn kept(&mut self, pass: Pass) -> Option<Bytes> {
        self.gpt.kept(pass)
    }

    fn begin_offload(
        &mut self,
        forward: Pass,
        part: CopyPart,
    ) -> Result<Box<dyn Offload>, DeviceError> {
        self.gpt.begin_offload(forward, part)
    }

    fn end_offload(&mut self, forward: Pass, lent: Box<dyn Offload>) -> Result<(), DeviceError> {
        self.gpt.end_offload(forward, lent)
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.gpt.forget()
    }
}

impl<O: Ops> Wire for Watched<O> {
    fn value_bytes(&self) -> usize {
        self.gpt.value_bytes()
    }

    fn bytes_of(&self, value: Value) -> usize {
        self.gpt.bytes_of(value)
    }

    fn pack(&mut self, value: Self::Value) -> Result<Vec<u8>, DeviceError> {
        self.gpt.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Self::Value, DeviceError> {
        self.gpt.unpack(bytes)
    }
}

impl<O: DirectOps> runtime::Direct for Watched<O> {
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.gpt.unique_id()
    }

    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: std::time::Duration,
    ) -> Result<(), DeviceError> {
        self.gpt.join(name, rank, ranks, timeout)
    }

    fn exchange(
        &mut self,
        sends: Vec<(usize, Self::Value)>,
        from: &[usize],
    ) -> Result<Vec<Self::Value>, DeviceError> {
        self.gpt.exchange(sends, from)
    }
}

impl<O: Ops> Trainer for Watched<O> {
    fn shared_bytes(&self) -> usize {
        self.gpt.shared_bytes()
    }

    fn share(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.gpt.share()
    }

    fn merge(&mut self, theirs: &[u8]) -> Result<(), DeviceError> {
        self.gpt.merge(theirs)
    }

    fn norm(&mut self) -> Result<Norm, DeviceError> {
        self.gpt.norm()
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        if !self.noted {
            let gradients = self.gpt.gradients()?;
            self.seen().gradients.extend(gradients);
            self.noted = true;
        }
        if self.stage == 0 {
            self.seen().scales.push(scale);
        }
        self.gpt.update(scale)
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        if self.stage == 0 {
            self.seen().scales.pop();
        }
        self.gpt.undo(scale)
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        self.gpt.begin_step(step)
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.gpt.clear()
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        self.gpt.loss()
    }
}
