//! `debubble fsdp --execute`: packings run for real, a process for each device, beside the simulation.

use std::io::Write;
use std::thread::available_parallelism;
use std::time::Duration;

use answer::fsdp::BASELINE;
use clap::Args;
use executor::fsdp::{self as run, MAX_DEVICES, MeasuredRun, Minibatch, Plan, Serial};
use executor::{Launch, Model, Rendezvous};
use fsdp::{Communication, Machine, Packing, Way};
use native::memory;
use pipeline::Nanos;
use question::fsdp::{FsdpKeys, FsdpSetting};
use question::sheet::Sheet;
use question::{Context, format, table};
use serde::Serialize;

use crate::commands::execute::processes::{self, TOKEN};
use crate::commands::{Verdict, note, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::interrupt;

/// Help heading of flags about a run.
const EXECUTION: &str = "Running it for real";

/// The most samples of a run.
const MAX_SAMPLES: u64 = 1 << 20;

/// How a question is run for real.
#[derive(Args)]
pub struct Flags {
    /// Train a GPT on this machine, one process per device, and compare with the simulation
    #[arg(long, help_heading = EXECUTION)]
    execute: bool,
    /// Width of the model
    #[arg(long, help_heading = EXECUTION, value_name = "H", default_value_t = 64, requires = "execute")]
    #[arg(allow_negative_numbers = true)]
    hidden: usize,
    /// Attention heads of the model
    #[arg(long, help_heading = EXECUTION, value_name = "N", default_value_t = 4, requires = "execute")]
    #[arg(allow_negative_numbers = true)]
    heads: usize,
    /// Tokens of the vocabulary
    #[arg(long, help_heading = EXECUTION, value_name = "N", default_value_t = 256, requires = "execute")]
    #[arg(allow_negative_numbers = true)]
    vocabulary: usize,
    /// How long a device waits for another before the run is given up
    #[arg(long, alias = "patience", help_heading = EXECUTION, value_name = "TIME")]
    #[arg(default_value = "60s", allow_hyphen_values = true, requires = "execute")]
    timeout: Nanos,
}

impl Flags {
    /// Whether a run is asked for.
    pub const fn is_asked(&self) -> bool {
        self.execute
    }
}

/// A way to pack and to communicate, as it is run.
struct Job {
    way: Way,
    plan: Plan,
    /// How the samples of each minibatch are packed.
    packings: Vec<Packing>,
}

/// A way, measured and simulated.
#[derive(Serialize)]
struct Row {
    method: &'static str,
    communication: &'static str,
    devices: usize,
    minibatches: usize,
    /// Mean over the minibatches.
    step_ns: u64,
    /// The share of the step in which the average device does not compute.
    idle_rate: f64,
    /// Over LB-Micro with collectives, if that is run too.
    speedup: Option<f64>,
    /// The same, simulated without transfers from the times of the serial run.
    simulated_step_ns: u64,
    simulated_idle_rate: f64,
    simulated_speedup: Option<f64>,
    /// How often a device waited for all other devices.
    synchronizations: u64,
    /// Deprecated name of `synchronizations`.
    meetings: u64,
    /// Bytes that devices sent each other.
    messages: u64,
    first_loss: f64,
    last_loss: f64,
    /// Whether all weights have the bits of the serial run.
    equal: bool,
}

#[derive(Serialize)]
struct Answer {
    results: Vec<Row>,
}

/// Runs every way of `keys`, and answers on `out`. A process that plays no device starts one for each.
pub fn run(
    keys: &FsdpKeys,
    flags: &Flags,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Error> {
    let host = Host::default();
    let context = Context::new(&host);
    if let Some(key) = keys.simulated() {
        let message = format!("--{key} is simulated: --execute runs on this machine as it is");
        return Err(Error::question(message));
    }
    let settings = keys.settings(&context)?;
    let [setting] = &settings[..] else {
        let message = format!("--execute takes one setting, but there are {}", settings.len());
        let cure = "name one of --devices, --minibatch-size and --packing-ratio each";
        return Err(Error::question(message).with_help(cure));
    };
    let jobs = jobs(keys, setting, flags)?;
    let variable = |name: &str| std::env::var(name).ok();
    let launch = Launch::read(variable).map_err(|error| Error::question(error.to_string()))?;
    let launch = match launch {
        Some(launch) if launch.world > 1 || setting.devices == 1 => launch,
        _ if setting.devices > 1 => {
            return processes::supervise("device", setting.devices, jobs.len());
        }
        _ => alone(jobs.len())?,
    };
    processes::hold_lifeline();
    if launch.rank == 0 {
        interrupt::end_with(processes::INTERRUPTED);
    }
    // A single device has no peers; more than one is refused without a secret.
    let nobody = (launch.world == 1).then(|| "alone".to_owned());
    let token = variable(TOKEN).or(nobody).unwrap_or_default().into_bytes();
    let ran = ran(&jobs, &launch, &token)?;
    let Some(first) = jobs.first().filter(|_| launch.rank == 0) else { return Ok(Verdict::Done) };
    let serial = run::serial(&first.plan).map_err(fail)?;
    let answer = answer(setting, &jobs, &ran, &serial)?;
    let cores = available_parallelism().map_or(1, usize::from);
    if setting.devices > cores {
        note(&format!(
            "{} devices share {cores} cores: steps are longer than simulated, where each has its own",
            setting.devices
        ));
    }
    match json {
        true => print_json(out, &answer)?,
        false => print_sheet(out, &answer.sheet())?,
    }
    let all = answer.results.iter().all(|row| row.equal);
    Ok(if all { Verdict::Done } else { Verdict::Missed })
}

/// Runs `jobs` one after the other, each on a port of its own; the runs of this process.
fn ran(jobs: &[Job], launch: &Launch, token: &[u8]) -> Result<Vec<MeasuredRun>, Error> {
    let mut ran = Vec::with_capacity(jobs.len());
    for (index, job) in (0u16..).zip(jobs) {
        let Some(port) = launch.port.checked_add(index) else {
            return Err(Error::question("there are not enough ports: lower MASTER_PORT"));
        };
        let launch = Launch { port, ..launch.clone() };
        let about = String::new();
        let rendezvous = Rendezvous { launch, bind: None, token: token.to_vec(), about };
        ran.extend(run::join(&job.plan, &rendezvous).map_err(fail)?);
    }
    Ok(ran)
}

#[allow(clippy::needless_pass_by_value)] // The form of `map_err`.
fn fail(failure: run::Failure) -> Error {
    Error::question(failure.to_string())
}

/// The place of a device that is the only one.
fn alone(jobs: usize) -> Result<Launch, Error> {
    let ports = u16::try_from(jobs).unwrap_or(u16::MAX);
    let port = executor::free_ports(ports).map_err(|error| Error::question(error.to_string()))?;
    Ok(Launch { rank: 0, world: 1, master: "127.0.0.1".to_owned(), port })
}

/// All ways of `keys`, packed and checked; refuses those that do not fit into this machine's memory.
fn jobs(keys: &FsdpKeys, setting: &FsdpSetting, flags: &Flags) -> Result<Vec<Job>, Error> {
    if setting.devices > MAX_DEVICES {
        let message = format!("{} devices: --execute runs at most {MAX_DEVICES}", setting.devices);
        return Err(Error::question(message));
    }
    let samples = (setting.devices as u64).saturating_mul(setting.minibatch_size);
    let samples = samples.saturating_mul(setting.study.minibatches);
    if samples > MAX_SAMPLES {
        let message = format!("{samples} samples in all: --execute runs at most {MAX_SAMPLES}");
        let cure = "give fewer --minibatches";
        return Err(Error::question(message).with_help(cure));
    }
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    let longest = size(setting.study.lengths.longest().into());
    let Flags { hidden, heads, vocabulary, timeout, .. } = *flags;
    let model = Model::new(hidden, heads, size(keys.layers()), vocabulary, longest, 1);
    let model = model.map_err(|error| Error::question(error.to_string()))?;
    let timeout = Duration::from_nanos(timeout.0);
    let ways = keys.ways();
    let jobs = ways.iter().map(|&way| job(setting, way, model, timeout));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let needs = jobs.iter().map(|job| job.plan.needs().0).max().unwrap_or(0);
    let what = format!("training {} parameters on {} devices", model.parameters(), setting.devices);
    let cure = "give shorter --lengths, fewer --layers or --devices, or a smaller --hidden";
    memory::demand(&what, needs, cure)?;
    Ok(jobs)
}

fn job(setting: &FsdpSetting, way: Way, model: Model, timeout: Duration) -> Result<Job, Error> {
    let study = &setting.study;
    let mut minibatches = Vec::new();
    let mut packings = Vec::new();
    for number in 0..study.minibatches {
        let packed = study.samples(number).and_then(|lengths| {
            let (packing, _) = study.packing(way.method, &lengths)?;
            Ok((lengths, packing))
        });
        let (lengths, packing) = packed.map_err(|fault| setting.error(&fault))?;
        let lengths = lengths.into_iter().map(|length| length as usize).collect();
        minibatches.push(Minibatch { lengths, devices: packing.devices().to_vec() });
        packings.push(packing);
    }
    let how = match way.communication {
        Communication::Collectives => run::Communication::Collectives,
        Communication::OnDemand => run::Communication::OnDemand,
    };
    let plan = Plan::new(model, minibatches, how, study.seed, timeout);
    let plan = plan.map_err(|error| Error::question(error.to_string()))?;
    Ok(Job { way, plan, packings })
}

/// Sums over minibatches.
#[derive(Clone, Copy, Default)]
struct Sums {
    time: u128,
    busy: u128,
}

impl Sums {
    #[allow(clippy::cast_precision_loss)]
    fn idle(self, devices: usize) -> f64 {
        let all = self.time * devices as u128;
        if all == 0 { 0.0 } else { 1.0 - self.busy as f64 / all as f64 }
    }

    #[allow(clippy::cast_precision_loss)]
    fn over(self, baseline: Option<Self>) -> Option<f64> {
        let baseline = baseline.filter(|_| self.time > 0)?;
        Some(baseline.time as f64 / self.time as f64)
    }

    fn step(self, minibatches: usize) -> u64 {
        u64::try_from(self.time / minibatches.max(1) as u128).unwrap_or(u64::MAX)
    }
}

fn measured(ran: &MeasuredRun) -> Sums {
    ran.steps.iter().fold(Sums::default(), |sums, step| Sums {
        time: sums.time + u128::from(step.time.0),
        busy: sums.busy + step.busy.iter().map(|busy| u128::from(busy.0)).sum::<u128>(),
    })
}

/// The steps of `job`, predicted from the time of each sample in the serial run.
fn simulated(setting: &FsdpSetting, job: &Job, serial: &Serial) -> Result<Sums, Error> {
    let layers = job.plan.layers() as u64;
    let machine = Machine::new(setting.devices, layers).map_err(|fault| setting.error(&fault))?;
    let mut sums = Sums::default();
    for (packing, samples) in job.packings.iter().zip(&serial.samples) {
        let step = machine.step(packing, samples, job.way.communication, 0);
        let step = step.map_err(|fault| setting.error(&fault))?;
        sums.time += u128::from(step.time.0);
        sums.busy += step.total_busy();
    }
    Ok(sums)
}

fn answer(
    setting: &FsdpSetting,
    jobs: &[Job],
    ran: &[MeasuredRun],
    serial: &Serial,
) -> Result<Answer, Error> {
    let predicted = jobs.iter().map(|job| simulated(setting, job, serial));
    let predicted = predicted.collect::<Result<Vec<_>, _>>()?;
    let baseline = jobs.iter().position(|job| job.way == BASELINE);
    let baselines = baseline.and_then(|at| Some((measured(ran.get(at)?), *predicted.get(at)?)));
    let bits = |weights: &[f32]| weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>();
    let reference = bits(&serial.weights);
    let row = |((job, ran), predicted): ((&Job, &MeasuredRun), &Sums)| {
        let (sums, minibatches) = (measured(ran), ran.steps.len());
        Row {
            method: job.way.method.name(),
            communication: job.way.communication.name(),
            devices: setting.devices,
            minibatches,
            step_ns: sums.step(minibatches),
            idle_rate: sums.idle(setting.devices),
            speedup: sums.over(baselines.map(|(measured, _)| measured)),
            simulated_step_ns: predicted.step(minibatches),
            simulated_idle_rate: predicted.idle(setting.devices),
            simulated_speedup: predicted.over(baselines.map(|(_, simulated)| simulated)),
            synchronizations: ran.synchronizations,
            meetings: ran.synchronizations,
            messages: ran.messages,
            first_loss: ran.losses.first().copied().unwrap_or_default(),
            last_loss: ran.losses.last().copied().unwrap_or_default(),
            equal: bits(&ran.weights) == reference,
        }
    };
    Ok(Answer { results: jobs.iter().zip(ran).zip(&predicted).map(row).collect() })
}

impl Answer {
    fn sheet(&self) -> Sheet {
        let ratio = |ratio: Option<f64>| ratio.map(|one| format!("{one:.3}"));
        table!(
            row = &self.results,
            "packing, communication" = format!("{}, {}", row.method, row.communication),
            "step" = Nanos(row.step_ns),
            "simulated" = Nanos(row.simulated_step_ns),
            "idle" = format::percent(row.idle_rate),
            "simulated" = format::percent(row.simulated_idle_rate),
            "speed-up" = ratio(row.speedup),
            "simulated" = ratio(row.simulated_speedup),
            "synchronizations" = row.synchronizations,
            "messages" = row.messages,
            "weights" = if row.equal { "equal" } else { "DIFFERENT" },
        )
    }
}
