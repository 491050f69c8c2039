//! Runs a job: with its stages as threads of this process, or one of them here and the others in
//! other processes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calibrate::machine;
use executor::{Boundary, Cpu, DeviceError, Failure, Launch, Measured, Meeting, Ops, Plan, Timed};

use super::Execute;
use super::gpus::Gpus;
use super::kinds::{Against, DeviceKind, Links};
use super::model::{Seen, Trained, Watched};
use super::processes::TOKEN;
use super::question::Job;
use super::report::Check;
use crate::error::Error;
use crate::files;
use answer::outcome::named;
use question::hardware::keys::BoundaryKey;

/// The longest token.
const MAX_TOKEN: u64 = 4096;

/// Where the stages of a run are.
pub enum Place {
    /// All in this process.
    Threads,
    /// One in this process.
    Process(Meeting),
}

impl Place {
    /// What the variables of a launcher say; a process alone runs all stages.
    pub fn of(execute: &Execute) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let launch = Launch::read(variable).map_err(|error| Error::question(error.to_string()))?;
        let Some(launch) = launch.filter(|launch| launch.world > 1) else {
            return Ok(Self::Threads);
        };
        let token = match &execute.token_file {
            Some(path) => files::read_text(path, MAX_TOKEN)?.trim().as_bytes().to_vec(),
            None => variable(TOKEN).unwrap_or_default().into_bytes(),
        };
        if token.is_empty() {
            let message = format!("{} processes need a secret to know each other by", launch.world);
            let cure = format!("set {TOKEN} to the same text for all, or give all --token-file");
            return Err(Error::question(message).with_help(cure));
        }
        Ok(Self::Process(Meeting { launch, bind: execute.listen, token, about: String::new() }))
    }

    /// Whether this process answers for the run.
    pub const fn answers(&self) -> bool {
        match self {
            Self::Threads => true,
            Self::Process(meeting) => meeting.launch.rank == 0,
        }
    }

    /// The stage that runs in this process, unless all do.
    pub const fn stage(&self) -> Option<usize> {
        match self {
            Self::Threads => None,
            Self::Process(meeting) => Some(meeting.launch.rank),
        }
    }

    /// In words.
    pub const fn name(&self, links: Links) -> &'static str {
        match (self, links) {
            (Self::Threads, _) => "threads",
            (Self::Process(_), Links::Tcp) => "processes over TCP",
            (Self::Process(_), Links::Nccl) => "processes over NCCL",
        }
    }

    /// Where the processes of run number `index` meet: every run has a port of its own.
    fn meeting(&self, index: usize, about: String) -> Option<Result<Meeting, Error>> {
        let Self::Process(meeting) = self else { return None };
        let port = usize::from(meeting.launch.port) + index;
        let launch = match u16::try_from(port) {
            Ok(port) => Launch { port, ..meeting.launch.clone() },
            Err(_) => {
                let message = format!("run {index} would need port {port}: lower MASTER_PORT");
                return Some(Err(Error::question(message)));
            }
        };
        Some(Ok(Meeting { launch, about, ..meeting.clone() }))
    }
}

/// The plan of `job`.
pub fn plan(job: &Job, execute: &Execute) -> Result<Plan, Error> {
    let max_norm = execute.max_norm.unwrap_or(f64::INFINITY);
    let boundary = match job.boundary {
        BoundaryKey::Asynchronous => Boundary::Asynchronous,
        BoundaryKey::Barrier => Boundary::Barrier { max_norm },
        BoundaryKey::PostValidation(_) => Boundary::PostValidation { max_norm },
    };
    let hop = match execute.device {
        DeviceKind::Timed => job.case.problem.costs().hop(),
        DeviceKind::Cpu | DeviceKind::Cuda => pipeline::Nanos(0),
    };
    let patience = execute.patience(&job.case)?;
    Plan::new(job.case.schedule.clone(), job.steps)
        .and_then(|plan| plan.with_warm_up(execute.warm_up))
        .and_then(|plan| plan.with_boundary(boundary))
        .and_then(|plan| plan.with_patience(patience))
        .and_then(|plan| plan.with_hop(hop))
        .map_err(|error| named(&job.case, &error).into())
}

/// What came of a run.
pub struct Outcome {
    /// What was measured; the processes that do not answer have nothing.
    pub measured: Option<Measured>,
    /// How it compares with the serial reference, if that was asked.
    pub check: Option<Check>,
    /// What computed, where more is known than its kind.
    pub device: Option<String>,
    /// What is worth saying about it.
    pub notes: Vec<String>,
}

impl Outcome {
    fn of(measured: Option<Measured>) -> Self {
        Self { measured, check: None, device: None, notes: Vec::new() }
    }
}

/// How far losses and gradients in f32 may lie from the reference's, which may be in f64.
pub const F32_TOLERANCE: f64 = 1e-4;

/// Runs `job`, number `index` of this command.
pub fn run(
    job: &Job,
    execute: &Execute,
    (trained, gpus): (Option<&Trained>, Option<&Gpus>),
    (place, index): (&Place, usize),
) -> Result<Outcome, Error> {
    let plan = plan(job, execute)?;
    let kind = (execute.device, execute.element(), execute.links());
    let about = format!("{kind:?} {:?} {trained:?}", job.case.problem.costs());
    let meeting = place.meeting(index, about).transpose()?;
    let Some(trained) = trained else {
        let costs = Arc::new(job.case.problem.costs().clone());
        let pins = execute.pin;
        let make = move |stage| {
            pin(stage, pins);
            Ok(Timed::new(Arc::clone(&costs)))
        };
        let measured = match &meeting {
            None => executor::run(&plan, make).map(Some),
            Some(meeting) => executor::join(&plan, meeting, make),
        };
        return Ok(Outcome::of(measured.map_err(|failure| failed(job, &failure))?));
    };
    let task = Task { job, execute, trained, plan, meeting };
    match gpus {
        None => task.train(|_| Ok(Cpu::<f32>::new()), || Ok(Cpu::<f32>::new()), F32_TOLERANCE),
        Some(gpus) => gpus.train(&task),
    }
}

/// Kernels whose stages can be in processes of their own.
pub trait Joins: Ops + Sized + 'static {
    /// Runs the stage of this process, whose worker `make` makes; values go over `links`.
    fn join(
        links: Links,
        (plan, meeting): (&Plan, &Meeting),
        make: impl FnOnce(usize) -> Result<Watched<Self>, DeviceError>,
    ) -> Result<Option<Measured>, Failure> {
        let _ = links;
        executor::join(plan, meeting, make)
    }
}

impl Joins for Cpu<f32> {}

/// A run that trains a model.
pub struct Task<'a> {
    job: &'a Job,
    execute: &'a Execute,
    trained: &'a Trained,
    plan: Plan,
    meeting: Option<Meeting>,
}

impl Task<'_> {
    /// How many stages there are.
    #[cfg(feature = "cuda")]
    pub fn stages(&self) -> usize {
        self.plan.schedule().shape().stages()
    }

    /// The stage of this process; `None` if all are here.
    #[cfg(feature = "cuda")]
    pub fn own_stage(&self) -> Option<usize> {
        self.meeting.as_ref().map(|meeting| meeting.launch.rank)
    }

    /// An error of the device before anything is run.
    pub fn refuse(&self, error: &DeviceError) -> Error {
        named(&self.job.case, error).into()
    }

    /// Trains with the kernels that `make` has for each stage. A check against the same device gets
    /// the kernels of `own`; it may be off by `tolerance`.
    pub fn train<O: Joins>(
        &self,
        make: impl Fn(usize) -> Result<O, DeviceError> + Send + Sync + 'static,
        own: impl FnOnce() -> Result<O, DeviceError>,
        tolerance: f64,
    ) -> Result<Outcome, Error> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let worker = {
            let (trained, schedule) = (self.trained.clone(), self.plan.schedule().clone());
            let (seen, pins) = (Arc::clone(&seen), self.execute.pin);
            move |stage| {
                pin(stage, pins);
                trained.worker(make(stage)?, &schedule, stage, Arc::clone(&seen))
            }
        };
        let measured = match &self.meeting {
            None => executor::run(&self.plan, worker).map(Some),
            Some(meeting) => O::join(self.execute.links(), (&self.plan, meeting), worker),
        };
        let mut outcome = Outcome::of(measured.map_err(|failure| failed(self.job, &failure))?);
        let (measured, seen) = (outcome.measured.as_ref(), open(&seen));
        outcome.check = match self.execute.check {
            None => None,
            Some(Against::F64) => {
                Some(self.check((Cpu::<f64>::new(), tolerance), measured, &seen)?)
            }
            Some(Against::Device) => {
                let ops = own().map_err(|error| self.refuse(&error))?;
                Some(self.check((ops, tolerance), measured, &seen)?)
            }
        };
        Ok(outcome)
    }

    /// Holds a run against the serial reference; a process that does not answer for the run says by
    /// an error that its stage differs.
    fn check<O: Ops>(
        &self,
        reference: (O, f64),
        measured: Option<&Measured>,
        seen: &Seen,
    ) -> Result<Check, Error> {
        let case = &self.job.case;
        if measured.is_some_and(|measured| measured.skipped > 0) {
            let message =
                "updates were left out for a NaN or an infinity: there is nothing to check";
            return Err(named(case, &message).into());
        }
        let check = self.trained.check(reference, &self.plan, measured, seen);
        let check = check.map_err(|error| named(case, &error))?;
        if measured.is_none() && !check.holds() {
            let message =
                format!("gradients differ from the reference by {:e}", check.gradient_error);
            return Err(named(case, &message).into());
        }
        Ok(check)
    }
}

/// Keeps the thread of `stage` on a core of its own, if that is asked for; that the system
/// allows it was seen before.
fn pin(stage: usize, pins: bool) {
    if pins {
        let _ = machine::pin(stage);
    }
}

fn open(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A failure as an error, with its cure.
fn failed(job: &Job, failure: &Failure) -> Error {
    let error = named(&job.case, failure);
    let error = match failure {
        Failure::Stuck { .. } => error.with_help(
            "a stage that waits gives up after --patience: raise it if passes take that long",
        ),
        _ => error,
    };
    error.into()
}
