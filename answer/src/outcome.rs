//! The outcome of a simulated case, for tables and files.

use std::borrow::Cow;

use pipeline::{Bytes, Limits, Memory, Metrics, Order, Timeline};
use serde::Serialize;
use sim::engine::Run;
use sim::monte_carlo::MonteCarlo;
use sim::occupancy::Curve;
use sim::streams::StreamTimes;
use sim::{Details, EngineRuns, HostCopy, Kept, Replay, Simulation, SimulationError, Study};

use cases::{Case, Split, SplitJson};
use question::Diagnostic;

use crate::explain::{Explanation, report as why};
use crate::front::Standing;
use crate::gathered::Gathered;
use crate::hardware::{self, Report};
use crate::noise::{Distributions, NoiseFree};
use crate::{pairs, streams};

/// The span and the makespan of a step in nanoseconds, and its bubble rate over each, or what stands for these.
#[derive(Serialize)]
pub struct Figures<T = u64, R = f64> {
    pub(crate) span_ns: T,
    pub(crate) makespan_ns: T,
    pub(crate) bubble_rate: R,
    pub(crate) bubble_rate_makespan: R,
}

impl From<&Metrics> for Figures {
    fn from(metrics: &Metrics) -> Self {
        Self {
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
        }
    }
}

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
    /// Its standing among the outcomes of its setting, by bubble and peak memory, if that was asked.
    pub standing: Option<Standing>,
    /// Peak activation bytes; counts units where no footprints were given.
    pub memory: Memory,
    /// Peak number of chunk activations per stage.
    pub in_flight: Vec<u32>,
    /// The part of the run that was kept; under noise, of replica 0.
    pub kept: Kept,
    /// The run without noise, if there is noise and it was kept.
    pub nominal: Option<Run>,
    /// How often the event engine has run for all this.
    pub engine_runs: EngineRuns,
    /// By stage, times of both streams in the period of `metrics`, where passes are chains of segments.
    pub streams: Option<Vec<StreamTimes>>,
}

impl Outcome {
    /// Simulates `case`, and keeps of the run the `details`.
    pub fn of(case: Case, details: Details, replay: &mut Replay) -> Result<Self, Diagnostic> {
        let engine_runs = EngineRuns::default();
        let study = case.simulation().counted_by(&engine_runs).study(details, replay);
        let study = study.map_err(|error| case.error(&error))?;
        let Study { metrics, noise_free, memory, in_flight, occupancy, kept, nominal } = study;
        let ran = case.hardware.as_ref().zip(kept.run()).zip(occupancy);
        let mut report =
            ran.map(|((hardware, run), occupancy)| Report::of(hardware, run, occupancy));
        let streams = streams::of(&case, &metrics, &kept)?;
        let kept = kept.reduced_to(details);
        if let Some(report) = report.as_mut().filter(|_| kept.run().is_none()) {
            report.occupancy.curves = Vec::new();
        }
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
            kept,
            nominal,
            engine_runs,
            streams,
        })
    }

    /// The case as the simulator times it, its runs counted.
    pub fn simulation(&self) -> Simulation<'_> {
        self.case.simulation().counted_by(&self.engine_runs)
    }

    /// Runs the replicas that were asked for, or as many as there are when `stop` says so; `done` is
    /// called after each.
    pub fn run_replicas(
        &mut self,
        done: impl Fn() + Sync,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<(), Diagnostic> {
        if let Some(count) = self.asked_replicas() {
            let all = self.simulation().replicas(count, done, stop);
            self.monte_carlo = Some(all.map_err(|error| match error {
                SimulationError::Replicas(count) => Diagnostic::new(count.to_string()),
                error @ SimulationError::Engine(_) => self.case.error(&error),
            })?);
        }
        Ok(())
    }

    /// How many replicas were asked for.
    pub fn asked_replicas(&self) -> Option<u64> {
        self.case.noise.as_ref().and_then(|noise| noise.replicas)
    }

    /// Whether it trains with stale weights: an update in a pipeline that never flushes is not a step, so it is not
    /// compared with others.
    pub const fn is_asynchronous(&self) -> bool {
        self.case.steady.is_some()
    }

    /// The device of each stage: its own where the question does not say.
    pub fn devices(&self) -> Vec<usize> {
        self.simulation().devices()
    }

    /// `bytes`, or multiples of M_B where no sizes are known, as text.
    pub fn size_in_words(&self, bytes: Bytes) -> String {
        match self.case.has_footprints {
            true => question::format::size(bytes),
            false => format!("{:.2} M_B", self.in_microbatches(bytes)),
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

    /// Whether passes share streams, and a stage or a device comes within a twentieth of its memory: there a
    /// measured step with overlap took three times as long as without.
    pub fn overlaps_near_limit(&self) -> bool {
        const PARTS: u128 = 20;
        let near = |peak: Bytes, limit: Bytes| {
            peak <= limit && u128::from(peak.0) * PARTS >= u128::from(limit.0) * (PARTS - 1)
        };
        let mut orders = self.case.schedule.orders().iter();
        if self.case.problem.costs().overlap().is_none() || orders.all(Order::is_unpaired) {
            return false;
        }
        let peaks = self.memory.peak.iter().enumerate();
        let of_stage = |(stage, peak): (usize, &Bytes)| {
            self.case.limits.as_ref().is_some_and(|limits| near(*peak, limits.of(stage)))
        };
        let capacities = self.case.hardware.as_ref().and_then(|one| one.capacities.as_deref());
        let devices = self.report.iter().flat_map(|report| &report.occupancy.peaks);
        let of_device = |peak: &sim::occupancy::Peak| {
            capacities.is_some_and(|capacities| near(peak.bytes, capacities[peak.device]))
        };
        peaks.into_iter().any(of_stage) || devices.into_iter().any(of_device)
    }

    /// A peak in microbatches of the stage that holds most for one.
    #[allow(clippy::cast_precision_loss)]
    pub fn in_microbatches(&self, peak: Bytes) -> f64 {
        peak.0 as f64 / self.case.microbatch_bytes().0.max(1) as f64
    }

    /// The result as JSON, with the keys that machines rely on.
    pub fn json(&self) -> OutcomeJson<'_> {
        self.json_of(&self.metrics)
    }

    /// The same with other times of the stages, such as measured ones.
    pub fn json_of(&self, metrics: &Metrics) -> OutcomeJson<'_> {
        let shape = self.case.schedule.shape();
        let sizes = self.case.has_footprints;
        let peak = || self.memory.peak.iter().map(|bytes| bytes.0).collect();
        OutcomeJson {
            setting: self.case.setting.as_deref(),
            schedule: &self.case.name,
            stages: shape.stages(),
            microbatches: self.case.microbatches(),
            segments: Some(self.case.problem.segments()).filter(|&segments| segments > 1),
            chunks: shape.chunks_per_stage(),
            asynchronous: self.is_asynchronous(),
            measured_updates: self.case.steady.map(|steady| steady.measured),
            bubble_rate: metrics.bubble_rate(),
            bubble_rate_makespan: metrics.bubble_rate_makespan(),
            span_ns: metrics.span().0,
            makespan_ns: metrics.makespan().0,
            work_ns: metrics.work().0,
            busy_ns: metrics.stages.iter().map(|stage| stage.busy.0).collect(),
            compute_utilisation: self.compute_utilisation(),
            communication_hidden: self.streams.as_ref().map(|_| self.communication_hidden()),
            pairs: pairs::of(&self.case).map(|kinds| kinds.iter().map(Into::into).collect()),
            peak_activation_bytes: sizes.then(peak),
            peak_in_flight: &self.in_flight,
            memory_limit_bytes: self.case.limits.as_ref().filter(|_| sizes).map(LimitsJson::from),
            host_copies: self.case.schedule.copies().map(|copies| HostCopiesJson {
                activations: copies.count(),
                part: f64::from(copies.part().per_mille()) / 1000.0,
            }),
            gathered_parameters: Gathered::of(&self.case),
            fits: self.fits(),
            on_front: self.standing.map(Standing::is_on_front),
            backward_split: self.case.split.map(Split::json),
            noise_free: self.noise_free.as_ref().map(NoiseFree::from),
            monte_carlo: self.monte_carlo.as_ref().map(Distributions::from),
            explain: self.explanation.as_ref().map(why::ExplanationJson::from),
            hardware: self.report.as_ref().zip(self.case.hardware.as_ref()).map(|(r, h)| r.json(h)),
        }
    }
}

impl OutcomeJson<'_> {
    /// The same with other peaks of activations, in bytes by stage, such as measured ones.
    #[must_use]
    pub fn with_peaks(self, peaks: Vec<u64>) -> Self {
        Self { peak_activation_bytes: Some(peaks), ..self }
    }
}

/// The title of a drawing.
pub fn title(outcome: &Outcome) -> String {
    let name = &outcome.case.name;
    match &outcome.case.setting {
        Some(setting) => format!("{name}, {setting}"),
        None => name.clone(),
    }
}

/// When every slot of the case runs; under noise, in replica 0. It is simulated again if it was not
/// kept.
pub fn timeline(outcome: &Outcome) -> Result<Cow<'_, Timeline>, Diagnostic> {
    if let Some(timeline) = outcome.kept.timeline() {
        return Ok(Cow::Borrowed(timeline));
    }
    check_whole(outcome)?;
    let simulation = outcome.simulation();
    let timeline = simulation.timeline(simulation.shown());
    timeline.map(Cow::Owned).map_err(|error| outcome.case.error(&error))
}

/// Everything that happened in the run of `outcome`, transfers too; under noise, in replica 0. It is
/// simulated again if it was not kept.
pub fn recorded(outcome: &Outcome) -> Result<Cow<'_, Run>, Diagnostic> {
    if let Some(run) = outcome.kept.run() {
        return Ok(Cow::Borrowed(run));
    }
    check_whole(outcome)?;
    let simulation = outcome.simulation();
    let run = simulation.record(simulation.shown());
    run.map(Cow::Owned).map_err(|error| outcome.case.error(&error))
}

/// Refuses outcomes of which figures alone were asked, where the order is that of fewer microbatches.
fn check_whole(outcome: &Outcome) -> Result<(), Diagnostic> {
    match outcome.case.repeating {
        None => Ok(()),
        Some(_) => Err(outcome.case.error(&"figures alone were asked, so there is no timeline")),
    }
}

/// Every activation that goes to the host in the run of `outcome`; under noise, in replica 0.
pub fn copies(outcome: &Outcome) -> Result<Cow<'_, [HostCopy]>, Diagnostic> {
    match outcome.case.schedule.copies() {
        Some(_) => Ok(match recorded(outcome)? {
            Cow::Borrowed(run) => Cow::Borrowed(&run.copies[..]),
            Cow::Owned(run) => Cow::Owned(run.copies),
        }),
        None => Ok(Cow::Borrowed(&[])),
    }
}

/// By device, the bytes held from each moment on over `run`, that of `outcome`; none without
/// hardware.
pub fn memory_curves<'a>(outcome: &'a Outcome, run: &Run) -> Result<Cow<'a, [Curve]>, Diagnostic> {
    match &outcome.report {
        Some(report) if outcome.kept.run().is_some() => Ok(Cow::Borrowed(&report.occupancy.curves)),
        _ => {
            let occupancy = outcome.simulation().occupancy(run);
            let occupancy = occupancy.map_err(|error| outcome.case.error(&error))?;
            Ok(occupancy.map_or(Cow::Borrowed(&[]), |all| Cow::Owned(all.curves)))
        }
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
pub struct OutcomeJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<&'a str>,
    schedule: &'a str,
    stages: usize,
    microbatches: u32,
    /// Into how many each microbatch is cut, if it is: passes and peaks in flight count these.
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<u32>,
    chunks: u16,
    /// Whether it trains with stale weights, and is not compared with others.
    asynchronous: bool,
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
    /// Share of the span in which the compute stream of an average stage runs; absent, as the next two,
    /// unless passes are chains of segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_utilisation: Option<f64>,
    /// Share of the communication of segments beside compute; null where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    communication_hidden: Option<Option<f64>>,
    /// Durations of the kinds of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<pairs::PairJson>>,
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
    /// Absent where replicas divide nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    gathered_parameters: Option<Gathered>,
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
    explain: Option<why::ExplanationJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<hardware::HardwareJson>,
}
