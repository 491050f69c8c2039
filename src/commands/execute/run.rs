//! Runs a job: with its stages as threads of this process, or one of them here and the others in
//! other processes.

use std::sync::Arc;

use calibrate::machine;
use executor::{
    About, Boundary, Devices, Executed, Execution, ExecutionError, Failure, Launch, Plan,
    Rendezvous, Task, Transport, Updates, Versions,
};
use pipeline::{Collectives, Family, Hops, Nanos};

use super::copies;
use super::flags::Execute;
use super::job::{Job, timeout};
use super::processes::TOKEN;
use crate::error::Error;
use crate::host;
use crate::interrupt;
use question::values::hardware::BoundaryKey;

/// The longest token.
const MAX_TOKEN: u64 = 4096;

/// Where the stages of a run are.
pub enum Place {
    /// All in this process.
    Threads,
    /// One in this process.
    Process(Rendezvous),
}

impl Place {
    /// The place of this process by the variables of a launcher; a process alone runs all stages.
    pub fn of(execute: &Execute) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let launch = Launch::read(variable).map_err(|error| Error::question(error.to_string()))?;
        let Some(launch) = launch.filter(|launch| launch.world > 1) else {
            return Ok(Self::Threads);
        };
        let token = match &execute.token_file {
            Some(path) => host::read_text(path, MAX_TOKEN)?.trim().as_bytes().to_vec(),
            None => variable(TOKEN).unwrap_or_default().into_bytes(),
        };
        if token.is_empty() {
            let message = format!("{} processes need a secret to know each other by", launch.world);
            let cure = format!("set {TOKEN} to the same text for all, or give all --token-file");
            return Err(Error::question(message).with_help(cure));
        }
        Ok(Self::Process(Rendezvous { launch, bind: execute.listen, token, about: String::new() }))
    }

    /// Whether this process answers for the run.
    pub const fn answers(&self) -> bool {
        match self {
            Self::Threads => true,
            Self::Process(rendezvous) => rendezvous.launch.rank == 0,
        }
    }

    /// The stage that runs in this process, unless all do.
    pub const fn stage(&self) -> Option<usize> {
        match self {
            Self::Threads => None,
            Self::Process(rendezvous) => Some(rendezvous.launch.rank),
        }
    }

    /// In words.
    pub const fn name(&self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Self::Threads, _) => "threads",
            (Self::Process(_), Transport::Tcp) => "processes over TCP",
            (Self::Process(_), Transport::Nccl) => "processes over NCCL",
        }
    }

    /// The note about values that go from process to process over TCP although the devices, which `about`
    /// describes, run ahead of the host; `None` where the host is not on their way.
    pub fn detour(&self, about: &About, transport: Transport) -> Option<String> {
        let waits = matches!(self, Self::Process(_)) && !about.is_host;
        let cure = match about.transports.contains(&Transport::Nccl) {
            true => "use --links nccl, which has no post-validation",
            false => "build with `cargo build --release --features nccl`",
        };
        (waits && transport == Transport::Tcp).then(|| {
            format!(
                "values go over TCP by way of the hosts, which wait for their {} in each hop: {cure}, \
                 or run all stages as threads of one process",
                about.title
            )
        })
    }

    /// Where the processes of run number `index` meet: every run has a port of its own.
    fn rendezvous(&self, index: usize, about: String) -> Option<Result<Rendezvous, Error>> {
        let Self::Process(rendezvous) = self else { return None };
        let port = usize::from(rendezvous.launch.port) + index;
        let launch = match u16::try_from(port) {
            Ok(port) => Launch { port, ..rendezvous.launch.clone() },
            Err(_) => {
                let message = format!("run {index} would need port {port}: lower MASTER_PORT");
                return Some(Err(Error::question(message)));
            }
        };
        Some(Ok(Rendezvous { launch, about, ..rendezvous.clone() }))
    }
}

/// The plan of `job`.
pub fn plan(job: &Job, execute: &Execute) -> Result<Plan, Error> {
    if let (Some(_), Some(max_norm)) = (job.case.steady, execute.max_norm) {
        let message = format!("--max-norm {max_norm}: no stage knows the norm over all in time");
        return Err(job.case.error(&message).with_help("leave --max-norm out").into());
    }
    let max_norm = execute.max_norm.unwrap_or(f64::INFINITY);
    let boundary = match job.boundary {
        BoundaryKey::Asynchronous => Boundary::Asynchronous,
        BoundaryKey::Barrier => Boundary::Barrier { max_norm },
        BoundaryKey::PostValidation(_) => Boundary::PostValidation { max_norm },
    };
    let costs = job.case.problem.costs();
    let (hops, collectives) = match execute.backend().trains() {
        false => (costs.hops().clone(), costs.collectives()),
        true => (Hops::alike(Nanos(0)), Collectives::default()),
    };
    let timeout = timeout(execute, &job.case)?;
    copies::check(&job.case, execute.backend())?;
    Plan::new(job.case.schedule.clone(), job.steps)
        .and_then(|plan| plan.with_segments(job.case.problem.segments()))
        .and_then(|plan| plan.with_warm_up(execute.warm_up))
        .and_then(|plan| plan.with_boundary(boundary))
        .and_then(|plan| plan.with_timeout(timeout))
        .and_then(|plan| plan.with_hops(hops))
        .and_then(|plan| plan.with_collectives(collectives))
        .and_then(|plan| match updates(job) {
            Some(updates) => plan.with_updates(updates),
            None => Ok(plan),
        })
        .map(|plan| match job.case.schedule.copies() {
            None => plan,
            Some(_) => {
                let (timeline, planned) = copies::planned(&job.case);
                plan.with_copies(&timeline, &copies::turns(&planned))
            }
        })
        .map_err(|error| job.case.error(&error).into())
}

/// How weights change while the pipeline of `job` runs; `None` if it flushes before they do.
fn updates(job: &Job) -> Option<Updates> {
    let versions = match job.case.family {
        Some(Family::PipeDream2Bw) => Versions::DoubleBuffered,
        _ => Versions::Stashed,
    };
    job.case.steady.map(|_| Updates { microbatches: job.case.microbatches(), versions })
}

/// Runs `job`, number `index` of this command, on `devices`.
pub fn run(
    job: &Job,
    execute: &Execute,
    task: Option<Task>,
    devices: &dyn Devices,
    place: &Place,
    index: usize,
) -> Result<Executed, Error> {
    let kind = (execute.backend(), execute.element(), execute.transport());
    let about = format!("{kind:?} {:?} {task:?}", job.case.problem.costs());
    let pins = execute.pin;
    let execution = Execution {
        plan: plan(job, execute)?,
        rendezvous: place.rendezvous(index, about).transpose()?,
        transport: execute.transport(),
        costs: Arc::new(job.case.problem.costs().clone()),
        task,
        prepare: Arc::new(move |stage| pin(stage, pins)),
        stopped: Some(Arc::new(interrupt::asked)),
    };
    devices.execute(&execution).map_err(|error| failed(job, &error))
}

/// Keeps the thread of `stage` on a core of its own, if that is asked for; that the system
/// allows it was seen before.
fn pin(stage: usize, pins: bool) {
    if pins {
        let _ = machine::pin(stage);
    }
}

/// Why `job` failed, with its cure.
fn failed(job: &Job, error: &ExecutionError) -> Error {
    not_run(error, || job.case.error(error).into())
}

/// `error` of devices, which is `named` for what was asked, with its cure.
pub fn not_run(error: &ExecutionError, named: impl FnOnce() -> Error) -> Error {
    let cure = match error {
        ExecutionError::Run(Failure::Stuck { .. }) => {
            "a stage that waits gives up after --timeout: raise it if passes take that long"
                .to_owned()
        }
        ExecutionError::Uncut { stages, .. } => format!(
            "put fewer stages on a GPU; with --shared they share all of it, and the bubble is not \
             that of {stages} devices"
        ),
        // It is of no schedule.
        ExecutionError::NoUnit { .. } => {
            let cure = "start a process per GPU; stages of one process share its GPUs";
            return Error::question(error.to_string()).with_help(cure);
        }
        ExecutionError::OneProcess { .. } => "leave --processes and the launcher out".to_owned(),
        ExecutionError::OneClock { .. } => {
            "name one GPU with --gpus 0, or leave --hop out".to_owned()
        }
        _ => return named(),
    };
    named().with_help(cure)
}

#[cfg(test)]
mod tests {
    use executor::Backend;

    use super::*;

    #[test]
    fn the_host_is_on_the_way_of_processes_over_tcp_whose_devices_run_ahead() {
        let launch = Launch { rank: 0, world: 2, master: "127.0.0.1".to_owned(), port: 1 };
        let rendezvous = Rendezvous { launch, bind: None, token: Vec::new(), about: String::new() };
        let process = Place::Process(rendezvous);
        let (gpu, tcp) = (Backend::Cuda.about(), Transport::Tcp);
        assert!(process.detour(gpu, tcp).is_some());
        assert_eq!(process.detour(gpu, Transport::Nccl), None);
        assert_eq!(Place::Threads.detour(gpu, tcp), None);
        for host in [Backend::Cpu, Backend::Timed] {
            assert_eq!(process.detour(host.about(), tcp), None);
        }
    }
}
