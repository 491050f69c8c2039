//! The model that a run trains, and whether it was trained as a serial run would have.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use executor::{
    AdamW, Batches, BuildError, DeviceError, Gpt, Measured, Model, Norm, Ops, Parameters, Plan,
    Random, Reference, Text, Trainer, Training, Wire, Worker,
};
use pipeline::{Pass, Placement, Schedule};

use super::Execute;
use super::question::Job;
use super::report::Check;
use crate::error::Error;
use crate::files;
use answer::outcome::named;

/// The largest text.
const MAX_TEXT: u64 = 1 << 30;

/// What is trained on what.
#[derive(Clone)]
pub struct Trained {
    model: Model,
    batches: Arc<dyn Batches>,
    /// Tells one text from another.
    fingerprint: u64,
    training: Training,
    /// Whether the first gradients are looked at afterwards.
    keeps_gradients: bool,
}

impl fmt::Debug for Trained {
    /// What must be the same for all processes of a run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:x}", self.model, self.training, self.fingerprint)
    }
}

impl Trained {
    /// What `job` and the flags say; `None` if nothing is trained.
    pub fn of(job: &Job, execute: &Execute) -> Result<Option<Self>, Error> {
        let Some(model) = job.model else { return Ok(None) };
        if job.case.schedule.placement() == Placement::Mirrored {
            return Err(named(&job.case, &BuildError::Mirrored).into());
        }
        if job.case.problem.segments() > 1 {
            let message = "attention looks from one segment of a microbatch into those before it, \
                           which the model that is run cannot: use --device timed";
            return Err(named(&job.case, &message).into());
        }
        let seed = job.seed;
        let mut fingerprint = DefaultHasher::new();
        let batches: Arc<dyn Batches> = match &execute.data {
            None => Arc::new(Random::new(model, seed)),
            Some(path) => {
                let bytes = files::read_bytes(path, MAX_TEXT)?;
                bytes.hash(&mut fingerprint);
                let text = Text::new(model, bytes, seed);
                let cause = |error: executor::DataError| error.to_string();
                Arc::new(
                    text.map_err(|error| ::question::Diagnostic::unreadable(path, &cause(error)))?,
                )
            }
        };
        let mut rule = AdamW::default();
        if let Some(rate) = execute.learning_rate {
            if !rate.is_finite() || rate < 0.0 || rate * rule.weight_decay >= 1.0 {
                let message = format!("--learning-rate {rate}: it must be 0 or more, and below 10");
                return Err(Error::question(message));
            }
            rule.learning_rate = rate;
        }
        let (fingerprint, training) =
            (fingerprint.finish(), Training { seed, rule, ..Training::default() });
        let keeps_gradients = execute.check.is_some();
        Ok(Some(Self { model, batches, fingerprint, training, keeps_gradients }))
    }

    /// The worker of `stage` with the kernels of `ops`; what it computes is noted in `seen`.
    pub fn worker<O: Ops>(
        &self,
        ops: O,
        schedule: &Schedule,
        stage: usize,
        seen: Arc<Mutex<Seen>>,
    ) -> Result<Watched<O>, DeviceError> {
        let batches = Arc::clone(&self.batches);
        let gpt = Gpt::new(ops, self.model, schedule, stage, batches, self.training);
        let gpt = gpt.map_err(|error| match error {
            BuildError::Device(error) => error,
            other => DeviceError::Call { call: "building a stage", message: other.to_string() },
        })?;
        Ok(Watched { gpt, stage, noted: !self.keeps_gradients, seen })
    }

    /// Holds what a run of `plan` measured against the model in one piece with the kernels of
    /// `ops`: losses where they are known, and the gradients that were seen. Either may be off by
    /// `tolerance`.
    ///
    /// # Errors
    /// If there is too little memory for it.
    pub fn check<O: Ops>(
        &self,
        (ops, tolerance): (O, f64),
        plan: &Plan,
        measured: Option<&Measured>,
        seen: &Seen,
    ) -> Result<Check, BuildError> {
        let batches = Arc::clone(&self.batches);
        let mut reference = Reference::new(ops, self.model, batches, self.training)?;
        let microbatches = plan.schedule().shape().microbatches();
        let mut check = Check { loss_error: 0.0, gradient_error: 0.0, tolerance };
        // A process that does not answer for the run knows the gradients of its stage alone.
        let steps = if measured.is_some() { plan.all_steps() } else { 1 };
        for step in 0..steps {
            let loss = reference.run(step, microbatches)?;
            if step == 0 {
                check.gradient_error = seen.gradient_error(&reference.gradients()?);
            }
            let at = step.checked_sub(plan.warm_up()).map(|at| at as usize);
            let found = at
                .zip(measured)
                .and_then(|(at, measured)| measured.steps.get(at))
                .map(|step| step.loss);
            if let Some(found) = found {
                let error = (found.unwrap_or(f64::NAN) - loss).abs() / loss.abs();
                check.loss_error = worse(check.loss_error, error);
            }
            if let Some(&scale) = seen.scales.get(step as usize) {
                reference.update(scale)?;
            }
        }
        Ok(check)
    }
}

/// The larger of two errors; NaN is larger than any.
fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

/// What a run computed.
#[derive(Debug, Default)]
pub struct Seen {
    /// The gradients of the first step, by where they lie in the model.
    gradients: Vec<Parameters>,
    /// What the gradients of each step were scaled by, as stage 0 did it.
    scales: Vec<f64>,
}

impl Seen {
    /// The largest difference to the gradients of the whole model, as a share of the largest of
    /// those; infinite if none was seen.
    fn gradient_error(&self, reference: &[f64]) -> f64 {
        let largest = reference.iter().fold(0.0, |most: f64, one| most.max(one.abs()));
        if self.gradients.is_empty() {
            return f64::INFINITY;
        }
        let parts = self.gradients.iter().flat_map(|part| part.range.clone().zip(&part.values));
        let errors = parts.map(|(at, found)| (found - reference[at]).abs());
        errors.fold(0.0, worse) / largest.max(f64::MIN_POSITIVE)
    }
}

/// A stage at work that notes its first gradients and the scales of its updates.
pub struct Watched<O: Ops> {
    gpt: Gpt<O>,
    stage: usize,
    noted: bool,
    seen: Arc<Mutex<Seen>>,
}

impl<O: Ops> Watched<O> {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // What a thread that broke down left is not looked at: its run failed.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Ops> Worker for Watched<O> {
    type Value = O::Handed;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<Self::Value>,
    ) -> Result<Option<Self::Value>, DeviceError> {
        self.gpt.run(pass, input)
    }

    fn settle(&mut self) -> Result<(), DeviceError> {
        self.gpt.settle()
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

    fn forget(&mut self) -> Result<(), DeviceError> {
        self.gpt.forget()
    }
}

impl<O: Ops> Wire for Watched<O> {
    fn value_bytes(&self) -> usize {
        self.gpt.value_bytes()
    }

    fn pack(&mut self, value: Self::Value) -> Result<Vec<u8>, DeviceError> {
        self.gpt.pack(value)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Self::Value, DeviceError> {
        self.gpt.unpack(bytes)
    }
}

#[cfg(feature = "nccl")]
impl<O: Ops> executor::Direct for Watched<O>
where
    Gpt<O>: executor::Direct<Value = O::Handed>,
{
    fn name(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.gpt.name()
    }

    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        patience: std::time::Duration,
    ) -> Result<(), DeviceError> {
        self.gpt.join(name, rank, ranks, patience)
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
