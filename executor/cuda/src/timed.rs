//! Stages on a GPU whose passes take their time and compute nothing.
//!
//! A pass is a kernel of one thread that waits on the clock of the GPU. The rest is as where passes
//! compute: the executor, streams, events, partitions of the GPU, and transfers. Stages do not slow
//! each other, so that only the order and the host's overhead are measured.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use pipeline::{Costs, Nanos, Pass, Value};

use super::backend::Gpus;
use super::kernels::{TIMESTAMP_WORDS, await_value, take_time};
use super::memory::allocations;
use super::stage::Cuda;
use super::tensor_transfer::TensorTransfer;
use gpt::{CUDA_TIMED, Devices, Executed, Execution, ExecutionError, OpenError, Options};
use runtime::{DeviceError, Overheads, Plan, Trainer, Worker};

/// GPUs on which nothing is computed.
#[derive(Debug)]
struct TimedGpus(Gpus);

/// The GPUs that `options` select.
pub fn open(options: &Options) -> Result<Box<dyn Devices>, OpenError> {
    Ok(Box::new(TimedGpus(Gpus::open(options)?)))
}

impl Devices for TimedGpus {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn side_by_side(&self, stages: usize) -> usize {
        self.0.side_by_side(stages)
    }

    fn overheads(&self, stages: usize) -> Result<Option<Overheads>, ExecutionError> {
        self.0.overheads(stages)
    }

    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError> {
        if execution.rendezvous.is_some() {
            return Err(ExecutionError::OneProcess { device: CUDA_TIMED.name });
        }
        let stages = execution.stages();
        let gpus = self.0.infos.len().min(stages);
        if gpus > 1 && execution.plan.hops().longest() > Nanos(0) {
            return Err(ExecutionError::OneClock { gpus });
        }
        let bench = self.0.bench::<f32>(stages)?;
        let (device, notes) = (bench.device.clone(), bench.notes.clone());
        let device = format!("{device}; passes take the times of the question");
        let (costs, plan) = (Arc::clone(&execution.costs), Arc::new(execution.plan.clone()));
        let prepare = Arc::clone(&execution.prepare);
        let make = move |stage| {
            prepare(stage);
            let (costs, plan) = (Arc::clone(&costs), Arc::clone(&plan));
            Ok(TimedStage { cuda: bench.take(stage)?, costs, plan })
        };
        let measured = Some(execution.run_here(make)?);
        Ok(Executed { measured, check: None, device: Some(device), notes })
    }
}

/// A stage whose passes take the durations of [`Costs`], by the clock of its GPU.
struct TimedStage {
    cuda: Cuda<f32>,
    costs: Arc<Costs>,
    /// The plan, whose hops delay values.
    plan: Arc<Plan>,
}

impl TimedStage {
    /// Enqueues the arrival of the input of `pass`.
    fn receive(
        &mut self,
        pass: Pass,
        input: Option<TensorTransfer<f32>>,
    ) -> Result<(), DeviceError> {
        let Some(transfer) = input else { return Ok(()) };
        let value = pass.input(self.plan.schedule().shape());
        let made = self.cuda.receive_tensor(transfer)?;
        match value.map_or(Nanos(0), |value| self.plan.delay(value)) {
            Nanos(0) => Ok(()),
            Nanos(hop) => self.cuda.launch(&[await_value(made.memory.address(), hop)]),
        }
    }

    /// Whether another chunk uses the output of `pass`.
    fn hands_on(&self, pass: Pass) -> bool {
        let chunks = self.plan.schedule().shape().chunks();
        pass.makes().is_some_and(|value: Value| value.taken_by(chunks).is_some())
    }
}

impl Worker for TimedStage {
    type Value = TensorTransfer<f32>;

    fn run(
        &mut self,
        pass: Pass,
        input: Option<TensorTransfer<f32>>,
    ) -> Result<Option<TensorTransfer<f32>>, DeviceError> {
        if self.costs.chunks().len() <= usize::from(pass.chunk) || pass.kind.is_of_vocabulary() {
            return Err(DeviceError::NotAtHand { what: format!("the time of {pass}") });
        }
        self.cuda.keep_pace()?;
        self.receive(pass, input)?;
        let made = self.cuda.scratch::<f32>(TIMESTAMP_WORDS)?;
        self.cuda.new_stamp()?;
        let taken = self.cuda.launch(&[take_time(made.memory.address(), self.costs.of(pass).0)]);
        // Also after a failed launch: stamps come in pairs.
        self.cuda.new_stamp()?;
        taken?;
        self.hands_on(pass).then(|| self.cuda.send_tensor(made)).transpose()
    }

    fn wait(&mut self, input: &TensorTransfer<f32>) -> Result<(), DeviceError> {
        self.cuda.wait_for_value(input)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.cuda.synchronize_all()
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn simulates_hops(&self) -> bool {
        true
    }

    fn device_times(&mut self, epoch: Instant) -> Result<Option<Vec<(u64, u64)>>, DeviceError> {
        let stamps = self.cuda.all_stamps(epoch)?;
        Ok(Some(stamps.as_chunks().0.iter().map(|&[start, end]| (start, end)).collect()))
    }

    fn allocations(&self) -> u64 {
        allocations()
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// No gradients and no weights: between steps, stages only exchange messages.
impl Trainer for TimedStage {}
