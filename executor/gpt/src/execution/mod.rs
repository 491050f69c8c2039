//! Runs a schedule on the devices of a `Backend`: all stages as threads of this
//! process, or one stage here and the others in other processes.

mod reference;
mod stale;
mod watched;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::Costs;
use thiserror::Error;

use crate::cpu::Cpu;
use crate::data::Batches;
use crate::model::{BuildError, Gpt, Model, Recomputed, Training};
use crate::ops::Ops;
use crate::transport::Transport;
use runtime::{
    DeviceError, Failure, Measured, Plan, Rendezvous, Timed, Trainer, join, run, run_until,
};

pub use reference::{Against, Check};
pub use watched::{Seen, Watched};

/// A run: its schedule and task, and the devices of its stages.
pub struct Execution {
    /// The order and the steps.
    pub plan: Plan,
    /// The rendezvous with the processes of other stages; `None` if all stages are threads of this one.
    pub rendezvous: Option<Rendezvous>,
    /// How values travel between processes.
    pub transport: Transport,
    /// The durations of passes on a device that computes nothing.
    pub costs: Arc<Costs>,
    /// The training on a device that computes.
    pub task: Option<Task>,
    /// Called with the number of each stage of this process, on its thread, before anything else.
    pub prepare: Arc<dyn Fn(usize) + Send + Sync>,
    /// Whether the run is to end with the steps measured so far, polled every 50 ms while all stages are threads of
    /// this process; `None` for a run without a stop, as in several processes.
    pub stopped: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

/// A model in training.
#[derive(Clone)]
pub struct Task {
    pub model: Model,
    /// The data that it is trained on.
    pub batches: Arc<dyn Batches>,
    /// Identifies the source of batches.
    pub fingerprint: u64,
    /// Initial weights and optimizer.
    pub training: Training,
    /// By chunk, the part that is recomputed where the schedule has R; the whole chunk if empty.
    pub recompute: Vec<Recomputed>,
    /// The reference that the run is compared with afterwards.
    pub check: Option<Against>,
}

impl fmt::Debug for Task {
    /// The description that must be equal for all processes of a run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:x}", self.model, self.training, self.fingerprint)?;
        // The schedule says which chunks recompute, this field which part of them.
        if self.recompute.is_empty() { Ok(()) } else { write!(f, " {:?}", self.recompute) }
    }
}

/// The outcome of an execution.
#[derive(Debug)]
pub struct Executed {
    /// The measurements; `None` in a process other than rank 0. Of a stopped run they are the steps
    /// that all stages had completed, possibly none.
    pub measured: Option<Measured>,
    /// The comparison with the serial reference, if it was requested and neither the run nor the
    /// comparison was stopped.
    pub check: Option<Check>,
    /// The name of the device, where it is more specific than its kind.
    pub device: Option<String>,
    /// Warnings about conditions that distort the times.
    pub notes: Vec<String>,
}

/// Why an execution failed.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ExecutionError {
    /// A device that failed outside of the run.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Units that could not be partitioned into a part for each stage.
    #[error("{error}")]
    Uncut {
        /// The error of the device.
        error: DeviceError,
        /// Number of stages.
        stages: usize,
    },
    /// A process without a device of its own.
    #[error("process {local} of this machine has no GPU: there are {units}")]
    NoUnit {
        /// The local rank of the process.
        local: usize,
        /// Number of devices.
        units: usize,
    },
    /// Stages in several processes, on a device that runs all stages in one.
    #[error("--device {device} runs all stages in one process")]
    OneProcess {
        /// The kind of device.
        device: &'static str,
    },
    /// Hops between GPUs, whose clocks differ.
    #[error("hops are timed by the clock of one GPU, and there are {gpus}")]
    OneClock {
        /// Number of GPUs.
        gpus: usize,
    },
    /// A run that failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// A serial reference that cannot be built.
    #[error(transparent)]
    Reference(#[from] BuildError),
    /// A device that computes, without a model to train.
    #[error("there is no model to train")]
    NoTask,
    /// A run with skipped updates, which cannot be compared.
    #[error("updates were left out for a NaN or an infinity: there is nothing to check")]
    LeftOut,
    /// Gradients of the stage of a process other than rank 0 that differ.
    #[error("gradients differ from the reference by {error:e}")]
    Differs {
        /// The largest difference, as a share of the largest gradient.
        error: f64,
    },
}

/// Kernels whose stages can run in several processes.
pub trait Joins: Ops + Sized + 'static {
    /// Runs the stage of this process, whose worker `make` builds; values go over `transport`.
    fn join(
        transport: Transport,
        plan: &Plan,
        rendezvous: &Rendezvous,
        make: impl FnOnce(usize) -> Result<Watched<Self>, DeviceError>,
    ) -> Result<Option<Measured>, Failure> {
        let _ = transport;
        join(plan, rendezvous, make)
    }
}

impl Execution {
    /// Number of stages.
    #[must_use]
    pub const fn stages(&self) -> usize {
        self.plan.schedule().shape().stages()
    }

    /// The stage of this process; `None` if all stages are here.
    #[must_use]
    pub fn own_stage(&self) -> Option<usize> {
        self.rendezvous.as_ref().map(|rendezvous| rendezvous.launch.rank)
    }

    /// Runs passes that take their time and compute nothing.
    pub fn take_time(&self) -> Result<Executed, ExecutionError> {
        let (costs, prepare) = (Arc::clone(&self.costs), Arc::clone(&self.prepare));
        let make = move |stage| {
            prepare(stage);
            Ok(Timed::new(Arc::clone(&costs)))
        };
        let measured = match &self.rendezvous {
            None => self.run_here(make).map(Some),
            Some(rendezvous) => join(&self.plan, rendezvous, make),
        };
        Ok(Executed { measured: measured?, check: None, device: None, notes: Vec::new() })
    }

    /// Trains with the kernels that `make` returns for each stage. A check against the same device
    /// uses the kernels of `own` and this `tolerance`.
    pub fn train<O: Joins>(
        &self,
        make: impl Fn(usize) -> Result<O, DeviceError> + Send + Sync + 'static,
        own: impl FnOnce() -> Result<O, DeviceError>,
        tolerance: f64,
    ) -> Result<Executed, ExecutionError> {
        let task = self.task.as_ref().ok_or(ExecutionError::NoTask)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let undo = self.plan.undo(task.training.undo);
        let training = Training { undo, ..task.training };
        let worker = {
            let (task, plan) = (task.clone(), self.plan.clone());
            let (seen, prepare) = (Arc::clone(&seen), Arc::clone(&self.prepare));
            move |stage| {
                prepare(stage);
                let batches = Arc::clone(&task.batches);
                let ops = make(stage)?;
                let schedule = plan.schedule();
                let gpt = Gpt::new(ops, task.model, schedule, stage, batches, training);
                let gpt = gpt.and_then(|gpt| gpt.in_segments(plan.segments(), schedule));
                let gpt = gpt.map(|gpt| match plan.updates() {
                    Some(updates) => gpt.with_updates(updates, schedule),
                    None => gpt,
                });
                let gpt = gpt.map_err(|error| match error {
                    BuildError::Device(error) => error,
                    other => {
                        let message = other.to_string();
                        DeviceError::Call { call: "building a stage", message }
                    }
                })?;
                let gpt = gpt.recomputing(&task.recompute);
                Ok(Watched::new(gpt, stage, task.check.is_some(), Arc::clone(&seen)))
            }
        };
        let measured = match &self.rendezvous {
            None => self.run_here(worker).map(Some),
            Some(rendezvous) => O::join(self.transport, &self.plan, rendezvous, worker),
        }?;
        // A stopped run is not compared: the reference would train all steps of the plan.
        let is_whole = |run: &Measured| run.steps.len() == self.plan.steps() as usize;
        let check = match task.check.filter(|_| measured.as_ref().is_none_or(is_whole)) {
            None => None,
            Some(Against::F64) => {
                self.check(Cpu::<f64>::new(), tolerance, measured.as_ref(), &open(&seen))?
            }
            Some(Against::Device) => {
                self.check(own()?, tolerance, measured.as_ref(), &open(&seen))?
            }
        };
        Ok(Executed { measured, check, device: None, notes: Vec::new() })
    }

    /// Runs all stages in this process, until it is stopped.
    pub fn run_here<W: Trainer + 'static>(
        &self,
        make: impl Fn(usize) -> Result<W, DeviceError> + Send + Sync + 'static,
    ) -> Result<Measured, Failure> {
        match &self.stopped {
            None => run(&self.plan, make),
            Some(stopped) => run_until(&self.plan, make, &**stopped),
        }
    }

    /// Compares a run with the serial reference; `None` if that is stopped. A process other than
    /// rank 0 returns an error if its stage differs.
    fn check<O: Ops>(
        &self,
        ops: O,
        tolerance: f64,
        measured: Option<&Measured>,
        seen: &Seen,
    ) -> Result<Option<Check>, ExecutionError> {
        let task = self.task.as_ref().ok_or(ExecutionError::NoTask)?;
        if measured.is_some_and(|measured| measured.skipped > 0) {
            return Err(ExecutionError::LeftOut);
        }
        let run = Trained { plan: &self.plan, measured, seen };
        let stopped = || self.stopped.as_ref().is_some_and(|stopped| stopped());
        let check = match self.plan.updates() {
            Some(updates) => stale::check(task, updates, ops, tolerance, &run, &stopped),
            None => reference::check(task, ops, tolerance, &run, &stopped),
        }?;
        match (measured, check) {
            (None, Some(check)) if !check.holds() => {
                Err(ExecutionError::Differs { error: check.gradient_error })
            }
            _ => Ok(check),
        }
    }
}

/// The results of a training run.
struct Trained<'a> {
    plan: &'a Plan,
    /// `None` in a process other than rank 0.
    measured: Option<&'a Measured>,
    seen: &'a Seen,
}

fn open(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
