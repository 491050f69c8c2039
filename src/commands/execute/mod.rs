//! `debubble execute`: schedules run for real, beside their simulation.

#[cfg_attr(not(feature = "cuda"), path = "no_gpus.rs")]
mod gpus;
mod kinds;
mod model;
mod passes;
mod processes;
mod question;
mod report;
mod run;
mod sizes;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use pipeline::Nanos;
use serde::Serialize;
use sim::Replay;

use ::question::{Context, Warnings};

use super::{Asked, OUTPUT, Verdict, note, note_all, print_json};
use crate::error::Error;
use crate::files;
use crate::gpus::ElementKind;
use crate::help;
use crate::host::Host;
use crate::interrupt;
use crate::progress;
use answer::outcome::{Outcome, title};
use answer::timelines;
use answer::timelines::{Recorded, Source};
use draw::gantt;
use draw::trace;
use draw::trace::Trace;
use gpus::Gpus;
use kinds::{Against, DeviceKind, Links};
use model::Trained;
use question::Job;
use report::Ran;
use run::Place;

const EXAMPLES: &str = "\
Examples:
  Three schedules with the times of a model, each step stretched or shrunk to at most 2 s:
    debubble execute --stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-2p --hop 527us \\
      --forward 29.718ms --backward-input 29.444ms --backward-weight 19.927ms --duration 2s
  A small GPT trained on this CPU, and the result held against a serial run:
    debubble execute --device cpu --stages 4 --microbatches 8 --schedule zb-h1 \\
      --hidden 64 --heads 4 --seq 32 --layers 8 --vocabulary 256 --check
  The same on the GPUs here, bf16; each of the stages on a GPU gets a part of it:
    debubble execute --device cuda --stages 4 --microbatches 8 --schedule 1f1b,zb-h1 \\
      --hidden 1024 --heads 16 --seq 1024 --layers 16 --microbatch-size 1
  Measured, for `debubble compare`:
    debubble execute --stages 4 --microbatches 8 --schedule zb-h1 --forward 10ms \\
      --backward-input 10ms --backward-weight 8ms --timeline measured.json
  The same with a process per stage, here and on a cluster (DEBUBBLE_TOKEN is a secret that all
  processes share; --listen is the address at which a process can be reached):
    debubble execute --processes --stages 4 --microbatches 8 --schedule zb-h1 --device cpu
    DEBUBBLE_TOKEN=... MASTER_ADDR=node0 srun -n 4 debubble execute --listen 0.0.0.0 \\
      --stages 4 --microbatches 8 --schedule zb-h1 --device cpu

Each schedule is run by itself: warm-up steps, then --steps measured ones [default: 3]. The table
has the step with the median makespan. Bubble rates are within the longest span of a stage, and
within the makespan. Schedules whose simulated rates differ by less than 0.1 points count as equal
in order.

Keys of a question that are not about a run (--cluster, --jitter, ...) are refused. --boundary is
barrier (the default), asynchronous or post-validation; --max-norm clips gradients at the first
and the last. With --device cpu and cuda times are optional: without them the simulation beside
the run uses the median times measured. Passes on a GPU are timed by its own events.

--check allows errors of 1e-4 in f32, and of 5e-2 in bf16, which keeps 8 bits: every one of the
dozen roundings on the way through a layer is off by up to 2^-9.

Started by torchrun, srun or mpirun (RANK and WORLD_SIZE, SLURM_PROCID and SLURM_NTASKS, or
OMPI_COMM_WORLD_RANK and _SIZE; MASTER_ADDR and MASTER_PORT), each process runs the stage of its
rank, and rank 0 answers. Run k of the command meets at MASTER_PORT + k.";

/// Run schedules on real devices: measured bubble beside the simulated one
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Execute {
    #[command(flatten)]
    asked: Asked,
    /// What computes the passes
    #[arg(long, help_heading = RUN, value_enum, default_value_t = DeviceKind::Timed)]
    device: DeviceKind,
    /// Steps run before those that are measured
    #[arg(long, help_heading = RUN, value_name = "N", default_value_t = 1)]
    warm_up: u32,
    /// Scale all times so that the longest simulated step of a setting takes this long (timed)
    #[arg(long, help_heading = RUN, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(conflicts_with = "time_scale")]
    duration: Option<Nanos>,
    /// Scale all times by this factor (timed)
    #[arg(long, help_heading = RUN, value_name = "FACTOR", allow_negative_numbers = true)]
    time_scale: Option<f64>,
    /// Clip gradients to this norm over all stages [default: no clipping]
    #[arg(long, help_heading = RUN, value_name = "NORM", allow_negative_numbers = true)]
    max_norm: Option<f64>,
    /// How long a stage waits for another before the run is given up [default: 60s, and at least
    /// twice the simulated step]
    #[arg(long, help_heading = RUN, value_name = "TIME", allow_hyphen_values = true)]
    patience: Option<Nanos>,
    /// Keep the thread of stage k on core k of this machine
    #[arg(long, help_heading = RUN)]
    pin: bool,
    /// Run every stage in a process of its own on this machine, over TCP
    #[arg(long, help_heading = RUN)]
    processes: bool,
    /// How values travel between processes; all else goes over TCP [default: tcp; cuda: nccl where it
    /// is built in]
    #[arg(long, help_heading = RUN, value_enum)]
    links: Option<Links>,
    /// Address at which this process listens for the others [default: 127.0.0.1]
    #[arg(long, help_heading = RUN, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// A file with the secret that all processes of the run share [default: DEBUBBLE_TOKEN]
    #[arg(long, help_heading = RUN, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Train on the bytes of this file [default: random tokens]
    #[arg(long, help_heading = MODEL, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Learning rate of AdamW [default: 0.001]
    #[arg(long, help_heading = MODEL, value_name = "RATE", allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// Hold loss and gradients against a serial run of the same model, in f64 on the CPU (f64)
    /// or as the stages compute (device); exit 1 if they differ [default: f64]
    #[arg(long, help_heading = MODEL, value_enum, value_name = "REFERENCE", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "f64")]
    check: Option<Against>,
    /// What tensors hold (cuda) [default: bf16]
    #[arg(long, help_heading = MODEL, value_enum)]
    element: Option<ElementKind>,
    /// GPUs to run on, in this order: stages are dealt to them block by block (cuda) [default: all]
    #[arg(long, help_heading = RUN, value_name = "N,..", value_delimiter = ',')]
    gpus: Vec<usize>,
    /// Let the stages of a GPU share all of it where it cannot be cut into a part for each; the bubble
    /// is then not that of as many devices (cuda)
    #[arg(long, help_heading = RUN)]
    shared: bool,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write a table as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::output)]
    csv: Option<PathBuf>,
    /// Write how long passes took, by how many stages were at work meanwhile: a tenth of them at most,
    /// half, and nine tenths
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    passes: Option<PathBuf>,
    /// Write the measured timeline for `debubble compare`; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::output)]
    timeline: Option<PathBuf>,
    /// Write the measured timeline for Perfetto or chrome://tracing; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::output)]
    trace: Option<PathBuf>,
    /// Write a picture of the simulated and measured timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::output)]
    svg: Option<PathBuf>,
    /// Exit with code 1 if a simulated makespan is off by more than that share of the measured
    #[arg(long, help_heading = OUTPUT, value_name = "PERCENT", allow_negative_numbers = true)]
    fail_steps_above: Option<f64>,
    /// Exit with code 1 if a measured bubble rate is off by more than that many percentage points,
    /// or the schedules do not come in the simulated order
    #[arg(long, help_heading = OUTPUT, value_name = "POINTS", allow_negative_numbers = true)]
    fail_above: Option<f64>,
}

/// Headings in the help.
const RUN: &str = "The run";
const MODEL: &str = "The model (cpu, cuda)";

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<report::Json<'a>>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

impl Execute {
    /// Whether it computes on GPUs.
    pub fn is_for_gpus(&self) -> bool {
        self.device == DeviceKind::Cuda
    }

    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        self.check_flags()?;
        let gpus = match self.device {
            DeviceKind::Cuda => Some(Gpus::find(&self)?),
            DeviceKind::Timed | DeviceKind::Cpu => None,
        };
        let host = Host::default();
        let context = Context::new(&host);
        let mut scenario = self.asked.read(&context)?;
        let mut notes = Warnings::default();
        let jobs = question::jobs(&context, &mut scenario, (&self, gpus.as_ref()), &mut notes);
        note_all(&context);
        let jobs = jobs?;
        let single = [("--timeline", &self.timeline), ("--trace", &self.trace)];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        if let Some((flag, _)) = asked.filter(|_| jobs.len() != 1) {
            let message = format!("{flag} takes one timeline, but there are {}", jobs.len());
            return Err(Error::question(message));
        }
        let stages = jobs.first().map_or(1, |job| job.case.schedule.shape().stages());
        let same = |job: &Job| job.case.schedule.shape().stages() == stages;
        if self.processes {
            if !jobs.iter().all(same) {
                let message = "--processes: all schedules must have the same number of stages";
                return Err(Error::question(message));
            }
            jobs.iter().try_for_each(|job| self.try_out(job, None))?;
            // The process of the first stage shows how far they are.
            let _shown = progress::hidden();
            return processes::supervise(stages, jobs.len());
        }
        processes::hold_lifeline();
        let place = Place::of(&self)?;
        let ran = self.run_all(jobs, (&place, gpus.as_ref()), &mut notes)?;
        if !place.answers() {
            return Ok(Verdict::Done);
        }
        notes.lines().iter().for_each(|text| note(text));
        self.write_files(&ran)?;
        match self.json {
            true => {
                let results = ran.iter().map(report::Json::from).collect();
                let interrupted = interrupt::cut_short().then_some(true);
                print_json(out, &Results { results, interrupted })?;
            }
            false => write!(out, "{}{}", self.devices(&ran), report::text(&ran))?,
        }
        Ok(self.verdict(&ran))
    }

    /// Runs `jobs` one after the other; after a Ctrl-C no more.
    fn run_all(
        &self,
        jobs: Vec<Job>,
        (place, gpus): (&Place, Option<&Gpus>),
        notes: &mut Warnings,
    ) -> Result<Vec<Ran>, Error> {
        // What cannot be run is said before anything is.
        jobs.iter().try_for_each(|job| self.try_out(job, place.stage()))?;
        // Where there are other processes, all end together, or some would wait for ever.
        if matches!(place, Place::Threads) {
            interrupt::listen();
        }
        let bar = match place.answers() {
            true => progress::bar(jobs.len() as u64, "runs"),
            false => progress::hidden(),
        };
        let mut ran = Vec::new();
        for (index, job) in jobs.into_iter().enumerate() {
            if !ran.is_empty() && interrupt::asked() {
                break;
            }
            bar.set_message(format!("runs, {}", job.case.name));
            let trained = Trained::of(&job, self)?;
            let came = run::run(&job, self, (trained.as_ref(), gpus), (place, index))?;
            came.notes.iter().for_each(|text| notes.add(text, &job.case.name));
            if let Some(measured) = came.measured {
                let device = came.device.as_deref().unwrap_or(self.device_name());
                let device = format!("{device}, {}", place.name(self.links()));
                ran.push(self.outcome((job, device), measured, (came.check, gpus), notes)?);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        if interrupt::cut_short() {
            note("interrupted: the schedules that had been run by then");
        }
        Ok(ran)
    }

    /// Checks that `job` can be run on this machine, `stage` of it or all.
    fn try_out(&self, job: &Job, stage: Option<usize>) -> Result<(), Error> {
        run::plan(job, self)?;
        sizes::check_memory(job, stage, self)?;
        Trained::of(job, self).map(drop)
    }

    /// Simulates what was run.
    fn outcome(
        &self,
        (job, device): (Job, String),
        measured: executor::Measured,
        (check, gpus): (Option<report::Check>, Option<&Gpus>),
        notes: &mut Warnings,
    ) -> Result<Ran, Error> {
        let Job { mut case, has_times, neighbours, .. } = job;
        if !has_times {
            let costs = question::measured_costs(&case.schedule, &measured.steps);
            question::replace_costs(&mut case, costs)?;
            let text = "ordered for equal F, B and W, and simulated with the median times measured, \
                        since no times are given";
            notes.add(text, &case.name);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stages = case.schedule.shape().stages();
        if self.device == DeviceKind::Cpu && stages > cores {
            let text = format!(
                "{stages} stages share {cores} cores: passes hold each other up, and the bubble is \
                 not that of {stages} devices"
            );
            notes.add(&text, &case.name);
        }
        if let Some(text) = report::left_out(measured.skipped) {
            notes.add(&text, &case.name);
        }
        let at_once = gpus.map_or(stages.min(cores), |gpus| gpus.side_by_side(stages));
        if let Some(neighbours) = neighbours.filter(|&one| one + 1 != at_once as u64) {
            let parts =
                if gpus.is_some() { format!("--partition {at_once} ") } else { String::new() };
            let text = format!(
                "the profile was measured with {neighbours} workers beside the one that was timed, \
                 but {stages} stages run: `debubble calibrate {parts}--workers {at_once}` meets what \
                 they do"
            );
            notes.add(&text, &case.name);
        }
        if let Some(text) = report::allocated(measured.allocations) {
            notes.add(&text, &case.name);
        }
        let excess = question::excess(&case, &measured.steps);
        if self.device == DeviceKind::Timed && excess > 0.02 {
            let text = format!(
                "passes took {} longer than asked: this machine is too busy, or has too few cores \
                 for passes this short; use a longer --duration",
                crate::format::percent(excess)
            );
            notes.add(&text, &case.name);
        }
        let measured_timeline = Recorded {
            source: Source::Measured,
            name: case.name.clone(),
            schedule: case.schedule.clone(),
            device,
            costs: Some(case.problem.costs().clone()),
            steps: measured.steps,
        };
        Ok(Ran {
            outcome: Outcome::of(case, &mut Replay::new())?,
            measured: measured_timeline,
            rollbacks: measured.rollbacks,
            skipped: measured.skipped,
            allocations: measured.allocations,
            check,
        })
    }

    /// What tensors hold.
    fn element(&self) -> ElementKind {
        match self.device {
            DeviceKind::Cuda => self.element.unwrap_or(ElementKind::Bf16),
            DeviceKind::Timed | DeviceKind::Cpu => ElementKind::F32,
        }
    }

    /// How values travel between processes.
    fn links(&self) -> Links {
        let default = match self.device {
            DeviceKind::Cuda if cfg!(feature = "nccl") => Links::Nccl,
            _ => Links::Tcp,
        };
        self.links.unwrap_or(default)
    }

    /// The GPUs that computed, a line each.
    fn devices(&self, ran: &[Ran]) -> String {
        let mut lines: Vec<String> = Vec::new();
        for one in ran.iter().filter(|_| self.device == DeviceKind::Cuda) {
            let line = format!("on {}\n", one.measured.device);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.concat()
    }

    const fn device_name(&self) -> &'static str {
        match self.device {
            DeviceKind::Timed => "timed device",
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
        }
    }

    fn write_files(&self, ran: &[Ran]) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            files::write(path, report::csv(ran)?)?;
        }
        if let Some(path) = &self.passes {
            files::write(path, passes::csv(ran)?)?;
        }
        if let (Some(path), [one]) = (&self.timeline, ran) {
            files::write(path, timelines::bytes(&one.measured)?)?;
        }
        if let (Some(path), [one]) = (&self.trace, ran) {
            write_trace(path, one)?;
        }
        let Some(path) = &self.svg else { return Ok(()) };
        let mut drawn = Vec::new();
        for one in ran {
            let name = title(&one.outcome);
            let (step, _) = one.median();
            let simulated = answer::outcome::timeline(&one.outcome)?;
            drawn.push((format!("{name}, simulated"), simulated));
            drawn.push((format!("{name}, measured"), one.measured.steps[step].timeline()));
        }
        let chart = |(title, timeline)| gantt::Chart { title, timeline, row: "stage", copies: &[] };
        let charts: Vec<_> = drawn.iter().map(|(name, one)| chart((&name[..], one))).collect();
        files::write(path, gantt::svg(&charts)?)
    }

    fn verdict(&self, ran: &[Ran]) -> Verdict {
        let unequal = ran.iter().any(|one| one.check.is_some_and(|check| !check.holds()));
        let off = |most: f64| {
            let points = ran.iter().flat_map(Ran::points);
            points.into_iter().any(|points| points.abs() > most)
        };
        let missed = self.fail_above.is_some_and(|most| {
            if off(most) {
                note(&format!("a measured bubble rate is off by more than {most} points"));
            }
            off(most) || !report::swapped(ran).is_empty()
        });
        let slow = self.fail_steps_above.is_some_and(|most| {
            let off = ran.iter().any(|one| 100.0 * one.step_error().abs() > most);
            if off {
                note(&format!("a simulated step is off by more than {most} %"));
            }
            off
        });
        if unequal || missed || slow { Verdict::Missed } else { Verdict::Done }
    }
}

/// Writes the median step of `one` as trace events.
fn write_trace(path: &Path, one: &Ran) -> Result<(), Error> {
    let (step, _) = one.median();
    let timeline = one.measured.steps[step].timeline();
    let name = format!("{}, measured", title(&one.outcome));
    files::write_by(path, |file| {
        let (transfers, releases, memory) = (&[], &[], &[]);
        let (steps, optimizer) = (1, Nanos(0));
        let trace = Trace {
            copies: &[],
            name: &name,
            timeline: &timeline,
            shape: one.outcome.case.schedule.shape(),
            steps,
            transfers,
            releases,
            optimizer,
            memory,
        };
        trace::write(file, &trace)
    })
}
