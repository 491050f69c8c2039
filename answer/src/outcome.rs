//! The outcome of a simulated case, for tables and files.

use pipeline::{Bytes, Footprint, Footprints, Limits, Memory, Metrics, Timeline, peak_in_flight};
use serde::Serialize;
use sim::engine::{NominalDurations, Run};
use sim::monte_carlo::MonteCarlo;
use sim::occupancy::activation_peaks;
use sim::timed::{Nominal, Timing};
use sim::{HostCopy, Replay, explain, timed};

use question::Diagnostic;
use question::case::{Case, Split, SplitJson};
use question::hardware::Hardware;
use question::noise::{self, Noise};

use crate::explain::{Explanation, report as why};
use crate::front::Standing;
use crate::hardware::{self, Report};
use crate::noise::{Distributions, NoiseFree};

/// A case and its result.
pub struct Outcome {
    /// The case that was simulated.
    pub case: Case,
    /// When each stage worked; under noise, in replica 0.
    pub metrics: Metrics,
    /// The same without noise, if there is any.
    pub noise_free: Option<Metrics>,
    /// The statistics of many replicas, once they have been run.
    pub monte_carlo: Option<MonteCarlo>,
    /// The report of the hardware, if there is some; under noise, that of replica 0.
    pub report: Option<Report>,
    /// Why stages wait, if that was asked.
    pub explanation: Option<Explanation>,
    /// Its standing beside the others of its setting, by bubble and peak memory, if that was asked.
    pub standing: Option<Standing>,
    /// Peak activation bytes; counts units where no footprints were given.
    pub memory: Memory,
    /// Peak number of chunk activations per stage.
    pub in_flight: Vec<u32>,
}

impl Outcome {
    /// Simulates `case`.
    pub fn of(case: Case, replay: &mut Replay) -> Result<Self, Diagnostic> {
        let (nominal, steady) = time(&case, None, replay)?;
        let (metrics, noise_free, report) = match &case.noise {
            Some(_) => {
                let (metrics, report) = time(&case, Some(0), replay)?;
                (metrics, Some(nominal), report)
            }
            None => (nominal, None, steady),
        };
        let (memory, in_flight) = memory(&case)?;
        Ok(Self {
            case,
            metrics,
            noise_free,
            monte_carlo: None,
            report,
            explanation: None,
            standing: None,
            memory,
            in_flight,
        })
    }

    /// Runs the replicas that were asked for, or as many as there are when `stop` says so; `done` is
    /// called after each.
    ///
    /// # Errors
    /// That of the first replica that has one.
    pub fn run_replicas(
        &mut self,
        done: impl Fn() + Sync,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<(), Diagnostic> {
        let case = &self.case;
        if let Some((noise, count)) = case.noise.as_ref().zip(self.asked_replicas()) {
            let one = |number| replica(case, noise, number);
            self.monte_carlo = Some(noise::replicas(count, one, done, stop)?);
        }
        Ok(())
    }

    /// How many replicas were asked for.
    pub fn asked_replicas(&self) -> Option<u64> {
        self.case.noise.as_ref().and_then(|noise| noise.replicas)
    }

    /// The device of each stage: its own where the question does not say.
    pub fn devices(&self) -> Vec<usize> {
        match &self.case.hardware {
            Some(hardware) => hardware.seats.devices().to_vec(),
            None => (0..self.case.schedule.shape().stages()).collect(),
        }
    }

    /// The largest peak of any stage, and that stage.
    pub fn worst(&self) -> (usize, Bytes) {
        let stages = self.memory.peak.iter().copied().enumerate();
        stages.rev().max_by_key(|&(_, peak)| peak).unwrap_or_default()
    }

    /// Whether every stage keeps the limit, if there is one.
    pub fn fits(&self) -> Option<bool> {
        self.case.limits.as_ref().map(|limits| self.memory.over(limits).is_none())
    }

    /// Whether every stage keeps its limit and every device its memory, where there is either.
    pub fn fits_in_memory(&self) -> Option<bool> {
        let full = self.report.as_ref().and_then(Report::out_of_memory);
        if full.is_some() { Some(false) } else { self.fits() }
    }

    /// A peak in multiples of what one microbatch holds on the stage that holds most.
    #[allow(clippy::cast_precision_loss)]
    pub fn in_microbatches(&self, peak: Bytes) -> f64 {
        peak.0 as f64 / self.case.microbatch_bytes().0.max(1) as f64
    }

    /// The result as JSON, with the keys that machines rely on.
    pub fn json(&self) -> Json<'_> {
        self.json_of(&self.metrics)
    }

    /// The same with other times of the stages, such as measured ones.
    pub fn json_of(&self, metrics: &Metrics) -> Json<'_> {
        let shape = self.case.schedule.shape();
        let sizes = self.case.has_footprints;
        let peak = || self.memory.peak.iter().map(|bytes| bytes.0).collect();
        Json {
            setting: self.case.setting.as_deref(),
            schedule: &self.case.name,
            stages: shape.stages(),
            microbatches: self.case.microbatches(),
            segments: Some(self.case.problem.segments()).filter(|&segments| segments > 1),
            chunks: shape.chunks_per_stage(),
            measured_updates: self.case.steady.map(|steady| steady.measured),
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
            work_ns: metrics.work().0,
            busy_ns: metrics.stages.iter().map(|stage| stage.busy.0).collect(),
            peak_activation_bytes: sizes.then(peak),
            peak_in_flight: &self.in_flight,
            memory_limit_bytes: self.case.limits.as_ref().filter(|_| sizes).map(LimitsJson::from),
            host_copies: self.case.schedule.copies().map(|copies| HostCopiesJson {
                activations: copies.count(),
                part: f64::from(copies.part().per_mille()) / 1000.0,
            }),
            fits: self.fits(),
            on_front: self.standing.map(Standing::is_on_front),
            backward_split: self.case.split.map(Split::json),
            noise_free: self.noise_free.as_ref().map(NoiseFree::from),
            monte_carlo: self.monte_carlo.as_ref().map(Distributions::from),
            explain: self.explanation.as_ref().map(why::Json::from),
            hardware: self.report.as_ref().zip(self.case.hardware.as_ref()).map(|(r, h)| r.json(h)),
        }
    }
}

/// The peak activation memory of each stage and its peak number of chunk activations, without noise:
/// along the order, or over time where activations go to the host meanwhile.
fn memory(case: &Case) -> Result<(Memory, Vec<u32>), Diagnostic> {
    let (schedule, footprints) = (&case.schedule, case.problem.footprints());
    let memory = match schedule.copies() {
        None => {
            let memory = Memory::of(schedule, footprints);
            memory.map(|memory| (memory, peak_in_flight(schedule)))
        }
        Some(copies) => {
            let (timeline, mut moved) = without_noise(case)?;
            let peak = activation_peaks(schedule, &timeline, &moved, footprints);
            // What is only in part on the host is counted on the device.
            let one = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
            let bytes = copies.part().of_bytes(one.until_backward);
            moved.iter_mut().for_each(|copy| copy.bytes = bytes);
            let ones = Footprints::uniform(schedule.shape(), one);
            let counts = activation_peaks(schedule, &timeline, &moved, &ones);
            let small = |count: Bytes| u32::try_from(count.0).unwrap_or(u32::MAX);
            let counts = counts.map(|counts| counts.into_iter().map(small).collect());
            peak.and_then(|peak| Ok((Memory { peak }, counts?)))
        }
    };
    memory.map_err(|fault| named(case, &fault))
}

/// When slots and copies of `case` run without noise.
fn without_noise(case: &Case) -> Result<(Timeline, Vec<HostCopy>), Diagnostic> {
    if let Some(hardware) = &case.hardware {
        let Run { timeline, copies, .. } = run(case, hardware, None)?;
        return Ok((timeline, copies));
    }
    let timing = Nominal(case.problem.costs());
    let copies = timed::host_copies(&case.schedule, &timing, case.problem.footprints());
    Ok((timed::timeline(&case.schedule, &timing), copies))
}

/// Times `case`, in a replica of its noise if one is given; on hardware, its last step.
fn time(
    case: &Case,
    replica: Option<u64>,
    replay: &mut Replay,
) -> Result<(Metrics, Option<Report>), Diagnostic> {
    if let Some(hardware) = &case.hardware {
        let run = run(case, hardware, replica)?;
        let metrics = run.metrics(hardware.steps - 1);
        let occupancy = hardware.occupancy(case, &run).map_err(|fault| named(case, &fault))?;
        return Ok((metrics, Some(Report::of(hardware, run, occupancy))));
    }
    let (schedule, costs) = (&case.schedule, case.problem.costs());
    let metrics = match (replica, &case.noise, case.steady) {
        (Some(replica), Some(noise), _) => noise::metrics(case, noise, replica),
        (_, _, Some(steady)) => {
            let timeline = replay.timeline(schedule, costs);
            timeline.map(|timeline| steady.metrics(schedule.shape(), &timeline))
        }
        _ => replay.metrics(schedule, costs),
    };
    Ok((metrics.map_err(|fault| named(case, &fault))?, None))
}

fn run(case: &Case, hardware: &Hardware, replica: Option<u64>) -> Result<Run, Diagnostic> {
    let run = match (replica, &case.noise) {
        (Some(replica), Some(noise)) => {
            hardware.run(case, &noise.durations(replica, case.problem.costs()))
        }
        _ => hardware.run(case, &NominalDurations),
    };
    run.map_err(|error| named(case, &error))
}

/// How `case` went in one of many replicas.
///
/// # Errors
/// If the clock overflows or the pipeline gets stuck.
fn replica(case: &Case, noise: &Noise, replica: u64) -> Result<Metrics, Diagnostic> {
    match &case.hardware {
        Some(hardware) => Ok(run(case, hardware, Some(replica))?.metrics(hardware.steps - 1)),
        None => noise::metrics(case, noise, replica).map_err(|fault| named(case, &fault)),
    }
}

/// An error about `case`.
pub fn named(case: &Case, error: &impl ToString) -> Diagnostic {
    Diagnostic::new(format!("{}: {}", case.name, error.to_string()))
}

/// The title of a drawing.
pub fn title(outcome: &Outcome) -> String {
    let name = &outcome.case.name;
    match &outcome.case.setting {
        Some(setting) => format!("{name}, {setting}"),
        None => name.clone(),
    }
}

/// When every slot of the case runs; under noise, in replica 0.
pub fn timeline(outcome: &Outcome) -> Result<Timeline, Diagnostic> {
    let case = &outcome.case;
    let costs = case.problem.costs();
    let timeline = match (&outcome.report, &case.noise) {
        (Some(report), _) => Ok(report.timeline.clone()),
        (None, Some(noise)) => Ok(timed::timeline(&case.schedule, &noise.sample(0).timing(costs))),
        (None, None) => Replay::new().timeline(&case.schedule, costs),
    };
    timeline.map_err(|fault| named(case, &fault))
}

/// Everything that happened in the run of `outcome`, transfers too; under noise, in replica 0. The
/// engine runs again, since keeping all of it for every outcome would take too much memory.
pub fn recorded(outcome: &Outcome) -> Result<Run, Diagnostic> {
    let (case, costs) = (&outcome.case, outcome.case.problem.costs());
    if let Some(hardware) = &case.hardware {
        return run(case, hardware, case.noise.as_ref().map(|_| 0));
    }
    let timeline = timeline(outcome)?;
    let sample = case.noise.as_ref().map(|noise| noise.sample(0).timing(costs));
    let footprints = case.problem.footprints();
    let copies = match &sample {
        Some(timing) => timed::host_copies(&case.schedule, timing, footprints),
        None => timed::host_copies(&case.schedule, &Nominal(costs), footprints),
    };
    let run = explain::unshared(&case.schedule, timeline, |value, from, to, made| match &sample {
        Some(timing) => timing.hop(value, from, to, made),
        None => costs.hop().0,
    });
    let run = explain::with_collectives(run, &case.schedule, costs);
    Ok(Run { copies, ..run })
}

/// Every activation that goes to the host in the run of `outcome`; under noise, in replica 0.
pub fn copies(outcome: &Outcome) -> Result<Vec<HostCopy>, Diagnostic> {
    match outcome.case.schedule.copies() {
        Some(_) => Ok(recorded(outcome)?.copies),
        None => Ok(Vec::new()),
    }
}

/// A memory limit: one number, or one per stage where they differ.
#[derive(Serialize)]
#[serde(untagged)]
enum LimitsJson {
    Same(u64),
    ByStage(Vec<u64>),
}

impl From<&Limits> for LimitsJson {
    fn from(limits: &Limits) -> Self {
        match limits.same() {
            Some(limit) => Self::Same(limit.0),
            None => Self::ByStage(limits.by_stage().iter().map(|limit| limit.0).collect()),
        }
    }
}

/// The activations copied to the host between forward and backward.
#[derive(Serialize)]
struct HostCopiesJson {
    /// How many activations of chunks and microbatches, over all stages.
    activations: usize,
    /// The part of each.
    part: f64,
}

/// One element of `results`.
#[derive(Serialize)]
pub struct Json<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<&'a str>,
    schedule: &'a str,
    stages: usize,
    microbatches: u32,
    /// Into how many each microbatch is cut, if it is: passes and peaks in flight count these.
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<u32>,
    chunks: u16,
    /// How many updates in the steady state of a run the times are the mean of, where the pipeline
    /// never flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_updates: Option<u32>,
    /// (span - work) / span.
    bubble_rate: f64,
    /// (makespan - work) / makespan.
    bubble_rate_makespan: f64,
    span_ns: u64,
    makespan_ns: u64,
    /// Busy time of the average stage.
    work_ns: u64,
    busy_ns: Vec<u64>,
    /// Null where no footprints were given.
    peak_activation_bytes: Option<Vec<u64>>,
    peak_in_flight: &'a [u32],
    memory_limit_bytes: Option<LimitsJson>,
    /// How B and W were split; absent unless they were given together.
    #[serde(skip_serializing_if = "Option::is_none")]
    backward_split: Option<SplitJson>,
    /// Absent where nothing goes to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_copies: Option<HostCopiesJson>,
    /// Null without a limit.
    fits: Option<bool>,
    /// On the Pareto front of bubble rate against peak memory; absent where it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_front: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_free: Option<NoiseFree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monte_carlo: Option<Distributions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<why::Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<hardware::Json>,
}
