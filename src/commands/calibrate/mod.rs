//! `debubble calibrate`: times the kernels and links of this machine and writes a profile.

mod report;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use calibrate::calibration::{CalibrationError, Caller, Refusal, Request, Work, calibrate};
use calibrate::machine;
use calibrate::measure::MeasureError;
use calibrate::sample::Rule;
use clap::{Args, ValueEnum};
use executor::{Backend, Cut, Model, TargetOptions};
use pipeline::Nanos;
use profile::{Element, LinkKind, ModelShape};

use super::{OUTPUT, note};
use crate::devices::{ElementArg, Timed, not_opened, refused, with_units};
use crate::error::Error;
use crate::files;
use crate::help;
use crate::interrupt;
use crate::progress::{self, Progress};
use native::memory;

const EXAMPLES: &str = "\
Examples:
  The parts of a small GPT on a core of this machine, and its links:
    debubble calibrate --hidden 512 --heads 8 --seq 256 --microbatch-size 1 --vocabulary 4096 \\
      --out here.toml
  A first look, in about 10 seconds:
    debubble calibrate --effort quick
  Two stages on two cores of this machine, for `debubble execute --pin --profile`:
    debubble calibrate --workers 2 --pin --out here.toml
  One of 8 equal parts of a GPU while the other 7 compute, as stages that share a GPU run:
    debubble calibrate --device cuda --partition 8 --workers 8 --hidden 4096 --heads 32 --seq 1024 \\
      --microbatch-size 3 --vocabulary 50304 --out gpu.toml
  A model of 16 such layers over 4 stages:
    debubble simulate --profile here.toml --layers 16 \\
      --schedule 1f1b,zb-h1 --stages 4 --microbatches 16

Each time is the median of repeats, taken until its 95 % confidence interval is narrow enough; the time to read
the clock is subtracted. Outliers are counted and kept. A layer is timed in a row of layers, with its own
weights and two microbatches in flight, as in a stage. Last, whole stages of the executor are timed and compared
with the sum of their parts. On a GPU all times are from its own events; a part of a GPU is timed while the
other parts are idle, except with --workers.

A profile is valid for its own shape only: a question that names it may not give another hidden, heads, seq,
microbatch-size or vocabulary.";

/// Time the kernels and links of this machine, and write a profile
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Calibrate {
    /// Device that computes
    #[arg(long, value_enum, default_value_t = Timed(Backend::Cpu))]
    device: Timed,
    /// Links to time; hops are predicted by the first that joins stages [default: queue,tcp,copy;
    /// cuda: hand-over,host-copy, and peer where there are two GPUs]
    #[arg(long, value_enum, value_name = "LINK,..", value_delimiter = ',')]
    links: Vec<LinkArg>,
    /// Number format of tensors (cuda) [default: bf16]
    #[arg(long, value_enum)]
    element: Option<ElementArg>,
    /// The GPU to time, counted from 0 (cuda) [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<usize>,
    /// Time one of K equal parts of the GPU (cuda) [default: all of it]
    #[arg(long, value_name = "K")]
    partition: Option<usize>,
    /// Hidden size h
    #[arg(long, value_name = "H", default_value_t = 512, allow_negative_numbers = true)]
    hidden: usize,
    /// Attention heads a
    #[arg(long, value_name = "A", default_value_t = 8, allow_negative_numbers = true)]
    heads: usize,
    /// Sequence length s
    #[arg(long, value_name = "S", default_value_t = 256, allow_negative_numbers = true)]
    seq: usize,
    /// Samples in one microbatch, b
    #[arg(long, value_name = "B", default_value_t = 1, allow_negative_numbers = true)]
    microbatch_size: usize,
    /// Vocabulary V
    #[arg(long, value_name = "V", default_value_t = 4096, allow_negative_numbers = true)]
    vocabulary: usize,
    /// How long to repeat, and how narrow intervals are to be
    #[arg(long, value_enum, default_value_t = Effort::Normal)]
    effort: Effort,
    /// About how long all of it may take, from 1s to 24h [default: 10s, 60s or 600s by effort]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    max_time: Option<Nanos>,
    /// Workers that compute at the same time as the timed one, like the stages of a run on this machine; on a GPU,
    /// each on its own part
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    workers: usize,
    /// Pin threads to cores, where the system allows it
    #[arg(long)]
    pin: bool,
    /// Write the profile there
    #[arg(long, help_heading = OUTPUT, value_name = "PROFILE.toml")]
    #[arg(value_parser = files::Output)]
    out: Option<PathBuf>,
    /// Something to be remembered with the profile
    #[arg(long, help_heading = OUTPUT, value_name = "TEXT")]
    remark: Option<String>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinkArg {
    /// A queue between threads of one process
    Queue,
    /// TCP over the loopback device
    Tcp,
    /// Copies in the memory of the host
    Copy,
    /// Between stages on one GPU, as they are
    HandOver,
    /// Copies to the next GPU
    Peer,
    /// Copies between a GPU and pinned memory
    HostCopy,
}

impl LinkArg {
    const fn kind(self) -> LinkKind {
        match self {
            Self::Queue => LinkKind::Queue,
            Self::Tcp => LinkKind::Tcp,
            Self::Copy => LinkKind::Copy,
            Self::HandOver => LinkKind::HandOver,
            Self::Peer => LinkKind::Peer,
            Self::HostCopy => LinkKind::HostCopy,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Effort {
    /// Within 5 % where 10 seconds are enough
    Quick,
    /// Within 2 % where a minute is enough
    Normal,
    /// Within 1 % where ten minutes are enough
    Thorough,
}

impl Effort {
    /// The rule for one share of all the time.
    const fn rule(self) -> Rule {
        let [warm_up, at_least, at_most] = match self {
            Self::Quick => [1, 8, 50],
            Self::Normal => [3, 15, 500],
            Self::Thorough => [5, 30, 2_000],
        };
        let (half_width, seconds) = match self {
            Self::Quick => (0.05, 10),
            Self::Normal => (0.02, 60),
            Self::Thorough => (0.01, 600),
        };
        let (rise, time) = (Duration::ZERO, Duration::from_secs(seconds));
        Rule { warm_up, at_least, at_most, half_width, rise, time }
    }
}

/// The most workers side by side.
const MAX_WORKERS: usize = 1024;
/// How long a GPU takes to raise its clocks from those of an idle one (345 of 1980 MHz on an H200).
const RISE: Duration = Duration::from_millis(500);
const MAX_TIME: Nanos = Nanos(24 * 3_600_000_000_000);

impl Calibrate {
    /// The backend that computes.
    pub const fn backend(&self) -> Backend {
        self.device.0
    }

    /// Answers on `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let (backend, about) = (self.backend(), self.backend().about());
        if !about.has_units {
            if let Some(kind) = self.kinds().into_iter().find(|kind| kind.is_of_gpus()) {
                return Err(refuse_link(kind, "a GPU: --device cuda times it"));
            }
            let of_gpus = [
                ("--element", self.element.is_some()),
                ("--gpu", self.gpu.is_some()),
                ("--partition", self.partition.is_some()),
            ];
            if let Some((flag, _)) = of_gpus.into_iter().find(|one| one.1) {
                let message =
                    format!("{flag} is for --device {}: a core computes in f32", with_units());
                return Err(Error::question(message));
            }
        }
        let default = about.elements.first().copied();
        let element = self.element.map(Into::into).or(default).unwrap_or(Element::F32);
        let (unit, parts) = (self.gpu.unwrap_or(0), self.partition.unwrap_or(1));
        let options = TargetOptions { element, unit, parts };
        let request = Request { backend, options, links: self.kinds() };
        let mut watcher = Watcher { asked: self, element, load: None, bar: None };
        let measured = calibrate(&request, &mut watcher);
        let Watcher { load, bar, .. } = watcher;
        drop(bar);
        let outcome = measured.map_err(|error| ended(backend, error))?;
        report::advise(&outcome, load, self.pin && !outcome.profile.machine.pinned);
        if let Some(path) = &self.out {
            files::write(path, outcome.profile.to_toml())?;
        } else {
            note("the profile is not kept: give --out NAME.toml");
        }
        if self.json { report::json(out, &outcome) } else { report::tables(out, &outcome) }
    }

    fn shape(&self, element: Element) -> Result<ModelShape, Error> {
        let Self { hidden, heads, seq, microbatch_size, vocabulary, .. } = *self;
        Model::new(hidden, heads, 1, vocabulary, seq, microbatch_size)
            .and_then(|model| ModelShape::new(model, element))
            .map_err(|error| Error::question(format!("there is no such model: {error}")))
    }

    /// The rule for one of the shares that kernels, links and checks have of all the time.
    fn rule(&self) -> Result<Rule, Error> {
        let rule = self.effort.rule();
        let all = match self.max_time {
            None => rule.time,
            Some(time) if (Nanos(1_000_000_000)..=MAX_TIME).contains(&time) => {
                Duration::from_nanos(time.0)
            }
            Some(time) => {
                return Err(Error::question(format!("--max-time is {time}: from 1s to 24h")));
            }
        };
        // Kernels take up to two shares, each of the two checks half a one, each link half a one.
        let halves = 6 + self.kinds().len();
        let rise = if self.backend().about().is_host { Duration::ZERO } else { RISE };
        Ok(Rule { time: 2 * all / u32::try_from(halves).unwrap_or(u32::MAX), rise, ..rule })
    }

    /// How many compute beside the one that is timed.
    fn neighbours(&self) -> Result<usize, Error> {
        let parts = self.partition.unwrap_or(1).max(1);
        match self.workers {
            workers if self.backend().about().has_units && workers > parts => {
                let message = format!("--workers {workers}: the GPU is in {parts} parts");
                let cure = format!("add --partition {workers}: each works on a part of its own");
                Err(Error::question(message).with_help(cure))
            }
            1..=MAX_WORKERS => Ok(self.workers - 1),
            _ => {
                let message = format!("--workers {}: from 1 to {MAX_WORKERS}", self.workers);
                Err(Error::question(message))
            }
        }
    }

    /// The links asked for, each once.
    fn kinds(&self) -> Vec<LinkKind> {
        let mut kinds = Vec::new();
        let asked = match self.links.is_empty() {
            true => self.backend().links(),
            false => self.links.iter().map(|link| link.kind()).collect(),
        };
        for kind in asked {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

/// Shows the current measurement and its progress.
struct Watcher<'a> {
    asked: &'a Calibrate,
    element: Element,
    /// The load of the machine before anything is timed.
    load: Option<f64>,
    bar: Option<Progress>,
}

impl Caller for Watcher<'_> {
    fn opened(&mut self, cut: Option<Cut>) -> Result<(), Refusal> {
        let neighbours = self.asked.neighbours()?;
        if let Some(cut) = cut {
            note(&timed_part(cut, neighbours));
        }
        Ok(())
    }

    fn work(&mut self) -> Result<Work, Refusal> {
        let asked = self.asked;
        self.load = machine::load();
        Ok(Work {
            shape: asked.shape(self.element)?,
            rule: asked.rule()?,
            neighbours: asked.neighbours()?,
            pin: asked.pin,
            free: memory::free(),
            program: concat!("debubble ", env!("CARGO_PKG_VERSION")).to_owned(),
            remark: asked.remark.clone(),
        })
    }

    fn begin(&mut self, measurements: usize) {
        interrupt::end_with("interrupted: a profile needs every measurement, and none is kept");
        self.bar = Some(progress::bar(measurements as u64, "measurements"));
    }

    fn measured(&mut self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }
}

/// The part of a device that is timed, and the work of the rest of it meanwhile.
fn timed_part(cut: Cut, neighbours: usize) -> String {
    let Cut { parts, multiprocessors, of } = cut;
    let idle = parts.saturating_sub(1 + neighbours);
    let others = match (neighbours, idle) {
        (0, _) => "the others are idle: caches and memory are theirs too in a run (--workers \
                   lets them compute)"
            .to_owned(),
        (_, 0) => "the others compute".to_owned(),
        _ => format!("{neighbours} other parts compute and {idle} are idle"),
    };
    format!("timing {multiprocessors} of {of} multiprocessors, while {others}")
}

/// Why a calibration ended early, in the words of the flags.
fn ended(backend: Backend, error: CalibrationError) -> Error {
    match error {
        CalibrationError::Open(error) => not_opened(backend, &error),
        CalibrationError::NoLink(kind) => refuse_link(kind, "a second GPU"),
        CalibrationError::Kernels(error) => refused(backend, &error),
        CalibrationError::Measure(error) => {
            let refused = Error::question(error.to_string());
            match error {
                MeasureError::TooLarge { .. } => refused
                    .with_help("give a smaller --hidden, --vocabulary, --seq or --microbatch-size"),
                _ => refused,
            }
        }
        // Refusals are those of `Watcher`.
        CalibrationError::Refused(error) => match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => Error::question(error.to_string()),
        },
    }
}

/// Refuses a link that needs something else.
fn refuse_link(kind: LinkKind, needs: &str) -> Error {
    Error::question(format!("--links {}: it needs {needs}", kind.name()))
}
