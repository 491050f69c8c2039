//! The flags of a run, and what contradicts itself among them.

use std::net::IpAddr;
use std::path::PathBuf;

use calibrate::machine;
use clap::Args;
use executor::{Backend, Options, Transport};
use pipeline::Nanos;
use profile::Element;

use super::super::width::Pictures;
use super::kinds::{Against, Links};
use crate::commands::{Asked, OUTPUT};
use crate::devices::{ElementArg, RunsOn, with_units};
use crate::error::Error;
use crate::files;
use crate::help;

const EXAMPLES: &str = "\
Examples:
  Three schedules with the times of a model, each step scaled to at most 2 s:
    debubble execute --stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-2p --hop 527us \\
      --forward 29.718ms --backward-input 29.444ms --backward-weight 19.927ms --duration 2s
  A small GPT trained on this CPU, with the result checked against a serial run:
    debubble execute --device cpu --stages 4 --microbatches 8 --schedule zb-h1 \\
      --hidden 64 --heads 4 --seq 32 --layers 8 --vocabulary 256 --check
  Two copies of the weights in opposite directions, checked against both halves of the microbatches:
    debubble execute --device cpu --stages 4 --microbatches 8 --schedule dualpipe,chimera \
      --layers 8 --check=device
  With activations on the host between forward and backward, and its memory:
    debubble execute --device cpu --stages 2 --microbatches 12 --chunks 4 --layers 8 \\
      --schedule gis,po-h,po-f --offload-ratio 0.1
  With the output layer cut over all stages:
    debubble execute --device cpu --stages 4 --microbatches 8 --schedule 1f1b,vocab-1,vocab-2 \\
      --layers 8 --check
  Sequences in segments, and asynchronous weights:
    debubble execute --device cpu --stages 4 --microbatches 8 --layers 8 --check \\
      --schedule seq1f1b,pipedream,pipedream-2bw
  A model on the GPUs here, bf16; each of the stages on a GPU gets a part of it:
    debubble execute --device cuda --stages 4 --microbatches 8 --schedule 1f1b,zb-h1 \\
      --hidden 1024 --heads 16 --seq 1024 --layers 16 --microbatch-size 1
  A row of table 5 with the paper's times, on a GPU that computes nothing:
    debubble execute scenarios/execute/table5-row.toml --device cuda-timed --gpus 0
  Measured, for `debubble compare`:
    debubble execute --stages 4 --microbatches 8 --schedule zb-h1 --forward 10ms \\
      --backward-input 10ms --backward-weight 8ms --timeline measured.json
  The same with a process per stage, here and on a cluster (DEBUBBLE_TOKEN is a secret that all
  processes share; --listen is the address at which a process can be reached):
    debubble execute --processes --stages 4 --microbatches 8 --schedule zb-h1 --device cpu
    DEBUBBLE_TOKEN=... MASTER_ADDR=node0 srun -n 4 debubble execute --listen 0.0.0.0 \\
      --stages 4 --microbatches 8 --schedule zb-h1 --device cpu

Schedules run one at a time: warm-up steps, then --steps measured ones [default: 3]. The table has the step with
the median makespan. Bubble rates are within the longest span of a stage, and within the makespan. Schedules
whose simulated rates differ by less than 0.1 points count as equal in order. Ctrl-C ends a run within about a
pass and keeps the measured steps that all stages have completed; a run in processes ends at once and keeps
none.

Keys of a question that a run cannot follow (--cluster, --jitter, ...) are refused. --boundary is barrier (the
default), asynchronous or post-validation; --max-norm clips gradients with barrier and post-validation. With
--device cpu and cuda times are optional: without them the simulation uses the median times measured. Passes on
a GPU are timed by its own events; passes that begin before the host has launched all of their kernels are
counted as host-bound. Schedules that never flush (pipedream, pipedream-2bw) have no boundary: a step is a run
of several updates, of which the steady state is measured.

Copies to the host (po-h, po-f, --offload) follow the planned order of slots of a stage, so its memory is the
planned one. --device cuda and cuda-timed refuse them, and the output layer in shards.

--check allows errors of 1e-4 in f32, and of 5e-2 in bf16, which keeps 8 bits: each of about a dozen roundings
in a layer is off by up to 2^-9.

Started by torchrun, srun or mpirun (RANK and WORLD_SIZE, SLURM_PROCID and SLURM_NTASKS, or
OMPI_COMM_WORLD_RANK and _SIZE; MASTER_ADDR and MASTER_PORT), each process runs the stage of its
rank, and rank 0 answers. Run k of the command meets at MASTER_PORT + k.";

/// Run schedules on real devices: measured and simulated bubble
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Execute {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// Device that computes the passes
    #[arg(long, help_heading = RUN, value_enum, default_value_t = RunsOn(Backend::Timed))]
    pub(super) device: RunsOn,
    /// Steps run before those that are measured
    #[arg(long, help_heading = RUN, value_name = "N", default_value_t = 1)]
    pub(super) warm_up: u32,
    /// Scale all times so that the longest simulated step of a setting takes this long (timed,
    /// cuda-timed)
    #[arg(long, help_heading = RUN, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(conflicts_with = "time_scale")]
    pub(super) duration: Option<Nanos>,
    /// Scale all times by this factor (timed, cuda-timed)
    #[arg(long, help_heading = RUN, value_name = "FACTOR", allow_negative_numbers = true)]
    pub(super) time_scale: Option<f64>,
    /// A second profile of the same device and model, measured without busy neighbours, if --profile was measured
    /// with some: the run is also predicted by how many stages are busy at each moment (cpu, cuda)
    #[arg(long, help_heading = RUN, value_name = "ALONE.toml")]
    pub(super) profile_alone: Option<PathBuf>,
    /// Clip gradients to this norm over all stages [default: no clipping]
    #[arg(long, help_heading = RUN, value_name = "NORM", allow_negative_numbers = true)]
    pub(super) max_norm: Option<f64>,
    /// How long a stage waits for another before the run is given up [default: 60s, and at least
    /// twice the simulated step]
    #[arg(long, alias = "patience", help_heading = RUN, value_name = "TIME")]
    #[arg(allow_hyphen_values = true)]
    pub(super) timeout: Option<Nanos>,
    /// Keep the thread of stage k on core k of this machine
    #[arg(long, help_heading = RUN)]
    pub(super) pin: bool,
    /// Run every stage in its own process on this machine, over TCP
    #[arg(long, help_heading = RUN)]
    pub(super) processes: bool,
    /// How values travel between processes; all else goes over TCP [default: tcp; cuda: nccl where it
    /// is built in]
    #[arg(long, help_heading = RUN, value_enum)]
    pub(super) links: Option<Links>,
    /// Address at which this process listens for the other processes [default: 127.0.0.1]
    #[arg(long, help_heading = RUN, value_name = "ADDRESS")]
    pub(super) listen: Option<IpAddr>,
    /// A file with the secret that all processes of the run share [default: DEBUBBLE_TOKEN]
    #[arg(long, help_heading = RUN, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Train on the bytes of this file [default: random tokens]
    #[arg(long, help_heading = MODEL, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    /// Learning rate of AdamW [default: 0.001]
    #[arg(long, help_heading = MODEL, value_name = "RATE", allow_negative_numbers = true)]
    pub(super) learning_rate: Option<f64>,
    /// Check loss and gradients against a serial run of the same model, in f64 on the CPU (f64)
    /// or as the stages compute (device); exit 1 if they differ [default: f64]
    #[arg(long, help_heading = MODEL, value_enum, value_name = "REFERENCE", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "f64")]
    pub(super) check: Option<Against>,
    /// Number format of tensors (cuda) [default: bf16]
    #[arg(long, help_heading = MODEL, value_enum)]
    pub(super) element: Option<ElementArg>,
    /// GPUs to run on, in this order: stages are assigned to them in blocks (cuda, cuda-timed)
    /// [default: all]
    #[arg(long, help_heading = RUN, value_name = "N,..", value_delimiter = ',')]
    pub(super) gpus: Vec<usize>,
    /// Let the stages of a GPU share all of it where it cannot be cut into a part for each; the bubble
    /// is then not that of as many devices (cuda, cuda-timed)
    #[arg(long, help_heading = RUN)]
    pub(super) shared: bool,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
    /// Write a table as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output)]
    pub(super) csv: Option<PathBuf>,
    /// Write the durations of passes by the number of busy stages: 10th percentile, median, 90th percentile
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    pub(super) passes: Option<PathBuf>,
    /// Write the measured timeline for `debubble compare`; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::Output)]
    pub(super) timeline: Option<PathBuf>,
    /// Write the measured timeline for Perfetto or chrome://tracing; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::Output)]
    pub(super) trace: Option<PathBuf>,
    /// Write a picture of the simulated and measured timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    pub(super) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(super) drawn: Pictures,
    /// Exit with code 1 if a simulated makespan is off by more than that share of the measured
    #[arg(long, help_heading = OUTPUT, value_name = "PERCENT", allow_negative_numbers = true)]
    pub(super) fail_steps_above: Option<f64>,
    /// Exit with code 1 if a measured bubble rate is off by more than that many percentage points,
    /// or the schedules do not come in the simulated order; with --profile-alone the prediction by busy stages
    /// is judged, and not the simulation
    #[arg(long, help_heading = OUTPUT, value_name = "POINTS", allow_negative_numbers = true)]
    pub(super) fail_above: Option<f64>,
}

/// Headings in the help.
const RUN: &str = "The run";
const MODEL: &str = "The model (cpu, cuda)";

impl Execute {
    /// The backend that computes the passes.
    pub const fn backend(&self) -> Backend {
        self.device.0
    }

    /// Which devices of that kind.
    pub(super) fn options(&self) -> Options {
        let (units, may_share) = (self.gpus.clone(), self.shared);
        Options { element: self.element(), units, may_share }
    }

    /// The number format of the tensors.
    pub(super) fn element(&self) -> Element {
        let default = self.backend().about().elements.first().copied();
        self.element.map(Into::into).or(default).unwrap_or(Element::F32)
    }

    /// How values travel between processes.
    pub(super) fn transport(&self) -> Transport {
        let default = self.backend().about().transports.first().copied();
        self.links.map(Into::into).or(default).unwrap_or(Transport::Tcp)
    }

    /// Refuses contradicting flags before anything is run.
    pub(super) fn check_flags(&self) -> Result<(), Error> {
        let timed = !self.backend().trains();
        let of_model = [
            ("--data", self.data.is_some()),
            ("--learning-rate", self.learning_rate.is_some()),
            ("--check", self.check.is_some()),
            ("--profile-alone", self.profile_alone.is_some()),
        ];
        let of_clock =
            [("--duration", self.duration.is_some()), ("--time-scale", self.time_scale.is_some())];
        let given = |all: &[(&'static str, bool)]| all.iter().find(|one| one.1).map(|one| one.0);
        if let Some(flag) = given(&of_model).filter(|_| timed) {
            let message =
                format!("{flag}: --device {} computes nothing", self.backend().about().name);
            return Err(Error::question(message).with_help("add --device cpu"));
        }
        if let Some(flag) = given(&of_clock).filter(|_| !timed) {
            let message =
                format!("{flag} is for --device timed and cuda-timed: passes take what they take");
            return Err(Error::question(message));
        }
        if self.duration == Some(Nanos(0)) {
            return Err(Error::question("--duration must be more than 0"));
        }
        let bad = |value: Option<f64>| value.filter(|one| one.is_nan() || *one < 0.0);
        let bars =
            [("--fail-above", self.fail_above), ("--fail-steps-above", self.fail_steps_above)];
        for (flag, value) in bars {
            if let Some(value) = bad(value) {
                return Err(Error::question(format!("{flag} {value}: it must be 0 or more")));
            }
        }
        if self.pin && !can_pin() {
            let message = "--pin: the system does not let threads be kept on cores";
            return Err(Error::question(message).with_help("leave --pin out"));
        }
        if self.element.is_some() && timed && self.backend().about().has_units {
            return Err(Error::question("--element: nothing is computed on --device cuda-timed"));
        }
        let of_gpus = [
            ("--element", self.element.is_some()),
            ("--gpus", !self.gpus.is_empty()),
            ("--shared", self.shared),
        ];
        if let Some(flag) = given(&of_gpus).filter(|_| !self.backend().about().has_units) {
            let message =
                format!("{flag} is for --device {}: the CPU computes in f32", with_units());
            return Err(Error::question(message));
        }
        self.check_links()
    }

    /// Refuses links that the devices do not have.
    fn check_links(&self) -> Result<(), Error> {
        let transports = self.backend().about().transports;
        if self.links.is_none_or(|links| transports.contains(&links.into())) {
            return Ok(());
        }
        if !self.backend().about().has_units {
            let message = "--links nccl: NCCL joins GPUs";
            return Err(Error::question(message).with_help("add --device cuda"));
        }
        let cure = "build it with `cargo build --release --features nccl`, or use --links tcp";
        let message = "--links nccl: this debubble was built without NCCL";
        Err(Error::question(message).with_help(cure))
    }
}

/// Whether threads can be kept on cores; tried on a thread that ends.
fn can_pin() -> bool {
    std::thread::spawn(|| machine::pin(0)).join().unwrap_or(false)
}
