//! The event engine: a schedule on a cluster, with shared wires, memory, and steps in sequence.
//!
//! Where nothing is contended, nothing is random and memory suffices it agrees with
//! [`crate::Replay`] to the nanosecond.

mod collectives;
mod event_loop;
mod limits;
mod makers;
mod numbers;
mod offload;
mod outcome;
mod parameters;
mod queue;
mod segments;
mod state;
mod transfers;
mod values;

use std::fmt;

use pipeline::{
    Bytes, Costs, Fault, Footprints, Metrics, Nanos, Pass, Schedule, Span, Timeline, Value,
};
use thiserror::Error;

pub use crate::host_copy::HostCopy;
pub use limits::MAX_RUN;
pub(crate) use limits::check_resident;
pub use offload::Offload;

use crate::boundary::Boundary;
use crate::cluster::{Cluster, Seats};
use crate::expert_group::ExpertGroup;
use crate::network::Sharing;
use crate::sharded::{self, ParameterSpan};

/// When a transfer may begin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Protocol {
    /// When the value is made: the receiver has room for it.
    #[default]
    Eager,
    /// When the value is made and the receiver has asked for it, one after the other between two
    /// stages, in the order in which they were made (blocking receives, as over one NCCL
    /// communicator). A stage asks for what a slot needs when it is `ahead` slots before it.
    Rendezvous {
        /// 0: when it comes to the slot; 1: while it runs the slot before; and so on.
        ahead: u32,
    },
}

/// How values travel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Communication {
    /// How transfers share a wire.
    pub sharing: Sharing,
    /// When a transfer may begin.
    pub protocol: Protocol,
    /// Whether a stage, and its device with it, blocks until its output has arrived: communication on the
    /// compute stream.
    pub blocking: bool,
}

/// How many bytes cross between chunks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Messages {
    /// Of an output, and of a gradient, of one microbatch.
    pub bytes: Bytes,
}

/// The memory that stages hold, and the limits of the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room<'a> {
    /// The activations that each pass allocates and frees.
    pub footprints: &'a Footprints,
    /// The memory that each stage holds all the time: weights, gradients, optimizer state.
    pub resident: &'a [Bytes],
    /// The memory limit of each device. A pass waits until there is room for what it allocates.
    pub limits: &'a [Bytes],
}

/// The job that the engine runs: a schedule with its costs, the cluster under it, and how stages
/// communicate.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The order of passes.
    pub schedule: &'a Schedule,
    /// The durations of passes, and of collectives of the vocabulary, which no wire slows; the hop is
    /// ignored, since the cluster gives the times of transfers.
    pub costs: &'a Costs,
    /// Devices and wires.
    pub cluster: &'a Cluster,
    /// Which device each stage sits on. Stages that share a device take turns, the one first that
    /// was ready first.
    pub seats: &'a Seats,
    /// How values travel.
    pub communication: Communication,
    /// The size of the values.
    pub messages: Messages,
    /// The devices over which experts are spread, if passes have all-to-alls that move over the wires.
    pub experts: Option<ExpertGroup>,
    /// The memory limits, if passes wait for memory.
    pub room: Option<Room<'a>>,
    /// The copies, if activations are on the host between forward and backward.
    pub offload: Option<Offload<'a>>,
    /// The number of steps run in sequence.
    pub steps: u32,
    /// The boundary between two steps.
    pub boundary: &'a Boundary,
}

impl Job<'_> {
    /// Where `value` of `step` stands in a table by step, row and microbatch.
    pub(crate) fn cell(&self, value: Value, step: u32) -> usize {
        let shape = self.schedule.shape();
        step as usize * shape.value_cells() + shape.value_cell(value)
    }
}

/// The durations of passes and transfers, as a function of the nominal ones: stragglers and jitter.
pub trait Durations {
    /// The duration of a pass of step `step` whose nominal duration is `nominal`.
    fn pass(&self, nominal: u64, stage: usize, pass: Pass, step: u32, start: u64) -> u64;

    /// The latency of a transfer of step `step`, or its time on the wires alone, whose nominal value is
    /// `nominal`.
    fn hop(&self, nominal: u64, value: Value, from: usize, to: usize, step: u32, start: u64)
    -> u64;
}

/// Every pass and transfer takes its nominal time.
#[derive(Clone, Copy, Default, Debug)]
pub struct NominalDurations;

impl Durations for NominalDurations {
    fn pass(&self, nominal: u64, _: usize, _: Pass, _: u32, _: u64) -> u64 {
        nominal
    }

    fn hop(&self, nominal: u64, _: Value, _: usize, _: usize, _: u32, _: u64) -> u64 {
        nominal
    }
}

/// One transfer of a value between stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The value carried.
    pub value: Value,
    /// The step, from 0.
    pub step: u32,
    /// The stage that made it.
    pub from: usize,
    /// The stage that needs it.
    pub to: usize,
    /// When it was made.
    pub made: Nanos,
    /// When it began to move.
    pub begin: Nanos,
    /// When it arrived.
    pub end: Nanos,
}

/// A collective: a value that all stages make or pass on together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collective {
    /// The value that the collective makes.
    pub value: Value,
    /// The step, from 0.
    pub step: u32,
    /// The stage whose pass ended last; of several at once the one handled last.
    pub last: usize,
    /// When that pass ended.
    pub made: Nanos,
    /// When the value is there for all.
    pub end: Nanos,
}

/// The record of a run of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// When each slot ran, over all steps.
    pub timeline: Timeline,
    /// Every value that crossed between stages, by arrival.
    pub transfers: Vec<Transfer>,
    /// Every collective, by the end of the last pass that takes part.
    pub collectives: Vec<Collective>,
    /// Every activation that was copied to the host, by forward.
    pub copies: Vec<HostCopy>,
    /// By wire, the bytes of all-to-alls that moved over it; empty if none did.
    pub all_to_alls: Vec<Bytes>,
    /// Every collective of parameters and gradients, by step, stage and time.
    pub parameters: Vec<ParameterSpan>,
    /// For each step, when each stage could begin the next one.
    pub releases: Vec<Vec<Nanos>>,
    /// The number of events handled.
    pub events: u64,
}

impl Run {
    /// The metrics of step `step` alone, on a clock that begins with its first pass.
    #[must_use]
    pub fn metrics(&self, step: u32) -> Metrics {
        let steps = self.releases.len().max(1);
        let of_step = |spans: &Vec<Span>| {
            let slots = spans.len() / steps;
            spans[step as usize * slots..(step as usize + 1) * slots].to_vec()
        };
        let mut stages: Vec<Vec<Span>> = self.timeline.stages.iter().map(of_step).collect();
        let starts = stages.iter().filter_map(|spans| Some(spans.first()?.start));
        let begin = starts.min().unwrap_or_default();
        let parameters = self.parameters.iter().filter(|span| span.step == step);
        if parameters.clone().next().is_some() {
            let mut metrics = Metrics::of(&Timeline { stages });
            sharded::widen(&mut metrics, parameters.copied());
            return from_zero(metrics);
        }
        for span in stages.iter_mut().flatten() {
            (span.start, span.end) = (span.start - begin, span.end - begin);
        }
        Metrics::of(&Timeline { stages })
    }

    /// The metrics of a run of one step, on its own clock.
    pub(crate) fn replayed_metrics(&self) -> Metrics {
        let mut metrics = Metrics::of(&self.timeline);
        sharded::widen(&mut metrics, self.parameters.iter().copied());
        metrics
    }

    /// When each stage could begin step `step`: with the clock, or at the end of the one before.
    ///
    /// # Panics
    /// If there are no such steps.
    #[must_use]
    pub fn begins(&self, step: u32) -> Vec<Nanos> {
        match step.checked_sub(1) {
            Some(before) => self.releases[before as usize].clone(),
            None => vec![Nanos(0); self.timeline.stages.len()],
        }
    }

    /// How long step `step` takes: from when a stage could begin it until it could begin the next,
    /// at the stage where that is longest.
    ///
    /// # Panics
    /// If there is no such step.
    #[must_use]
    pub fn step_length(&self, step: u32) -> Nanos {
        let begins = self.begins(step).into_iter();
        let ends = self.releases[step as usize].iter();
        ends.zip(begins).map(|(end, begin)| *end - begin).max().unwrap_or_default()
    }

    /// The time per step once they follow each other: from the release of the first step to that
    /// of the last, at the stage where that is longest; of a single step, until its last release.
    #[must_use]
    pub fn step_time(&self) -> Nanos {
        let (Some(first), Some(last)) = (self.releases.first(), self.releases.last()) else {
            return Nanos(0);
        };
        let steps = self.releases.len() as u64;
        if steps == 1 {
            return last.iter().copied().max().unwrap_or_default();
        }
        let longest = first.iter().zip(last).map(|(first, last)| last.0 - first.0).max();
        Nanos(longest.unwrap_or(0).div_ceil(steps - 1))
    }
}

/// `metrics` on a clock that begins when the first stage does.
fn from_zero(mut metrics: Metrics) -> Metrics {
    let begin = metrics.stages.iter().map(|stage| stage.first_start).min().unwrap_or_default();
    for stage in &mut metrics.stages {
        stage.first_start = stage.first_start - begin;
        stage.last_end = stage.last_end - begin;
    }
    metrics
}

/// The reason that a stage is blocked when no events are left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StandstillCause {
    /// A value has not arrived, and `on` has not made it yet or cannot send it.
    Value {
        /// The stage that makes it.
        on: usize,
    },
    /// A collective has not ended, since not all stages have joined it.
    Collective,
    /// A value that it made cannot leave, because the receiver has not asked for it.
    Unreceived {
        /// The receiver.
        by: usize,
    },
    /// The device lacks memory.
    Memory {
        /// The memory that the device would hold.
        needs: Bytes,
        /// The limit of the device.
        limit: Bytes,
    },
    /// Another stage has its device.
    Device,
    /// The activation it needs has not come back from the host.
    HostCopy,
    /// The step boundary.
    Boundary,
}

/// A blocked stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standstill {
    /// Its number.
    pub stage: usize,
    /// The pass that it cannot run; the last one that ran where the value of that pass cannot be sent.
    pub pass: Pass,
    /// The step of the pass.
    pub step: u32,
    /// Time since which it is blocked.
    pub since: Nanos,
    /// The reason.
    pub cause: StandstillCause,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, pass, step, since, cause } = self;
        let of_step = if *step > 0 { format!(" of step {step}") } else { String::new() };
        write!(f, "stage {stage} waits before {pass}{of_step} since {since}: ")?;
        match cause {
            StandstillCause::Value { on } => write!(f, "it needs a value from stage {on}"),
            StandstillCause::Collective => write!(f, "it waits for a collective of all stages"),
            StandstillCause::Unreceived { by } => {
                write!(f, "stage {by} has not requested the transfer")
            }
            StandstillCause::Memory { needs, limit } => {
                write!(f, "its device would need {needs}, but has {limit}")
            }
            StandstillCause::Device => write!(f, "its device is taken"),
            StandstillCause::HostCopy => write!(f, "its activation is on the host"),
            StandstillCause::Boundary => write!(f, "the step before has not ended"),
        }
    }
}

/// The reason why a run has no result.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EngineError {
    /// Costs or footprints of another pipeline, or too large for the clock.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Nothing happens any more, but not all passes have run.
    #[error("the pipeline is stuck: {}", list(.0))]
    Stuck(Vec<Standstill>),
    /// More segments in all steps than can be run one by one.
    #[error(
        "{segments} segments of passes: at most {most} on hardware; use fewer steps or microbatches, or times instead of sizes"
    )]
    TooManySegments {
        /// Segments of all passes in all steps.
        segments: u64,
        /// The most there may be.
        most: u64,
    },
    /// More passes in all steps than [`MAX_RUN`].
    #[error(
        "{passes} passes in {}: at most {MAX_RUN} on hardware; use fewer steps or microbatches",
        count(u64::from(*.steps), "step")
    )]
    TooManyPasses {
        /// Steps asked for.
        steps: u32,
        /// Passes in all of them.
        passes: u64,
    },
}

fn list(standstills: &[Standstill]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = standstills.iter().take(SHOWN).map(Standstill::to_string).collect();
    let more = match standstills.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!("; and {} more", count(n as u64, "stage")),
    };
    shown.join("; ") + &more
}

/// `1 stage`, `2 stages`.
fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// Runs `job` under `durations`.
///
/// # Errors
/// If the costs do not fit the schedule, or the pipeline gets stuck: for want of memory, or because
/// sender and receiver wait for each other.
pub fn run(job: &Job<'_>, durations: &impl Durations) -> Result<Run, EngineError> {
    event_loop::run(job, durations)
}
