//! The outcome of a simulated case, for tables and files.

use std::borrow::Cow;

use pipeline::{Bytes, Limits, Memory, Metrics, Order, Timeline};
use serde::Serialize;
use serde_json::Value;
use sim::engine::Run;
use sim::explain::Waits;
use sim::levers::Levers;
use sim::monte_carlo::MonteCarlo;
use sim::occupancy::Curve;
use sim::streams::StreamTimes;
use sim::{Details, EngineRuns, HostCopy, Kept, Replay, Simulation, SimulationError, Study};

use cases::{Case, Split};
use question::{Context, Diagnostic, Work, object};

use crate::explain::levers::{self, Watched};
use crate::explain::{Explanation, report as why};
use crate::front::Standing;
use crate::gathered::Gathered;
use crate::hardware::Report;
pub use crate::noise::Figures;
use crate::noise::{Distributions, NoiseFree};
use crate::{pairs, streams};

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

    /// Why its stages wait, with each gap if `gaps` are wanted; tells `work` of every run that it takes.
    pub fn explain(
        &self,
        context: &Context<'_>,
        gaps: bool,
        work: &dyn Work,
    ) -> Result<Explanation, Diagnostic> {
        let case = &self.case;
        work.add(1);
        let run = recorded(self)?;
        let (simulation, nominal) = (self.simulation(), self.nominal.as_ref());
        let idle = match gaps {
            true => simulation.causes_and_gaps(&run, nominal).map(|(all, gaps)| (all, Some(gaps))),
            false => simulation.causes(&run, nominal).map(|causes| (causes, None)),
        };
        let (causes, gaps) = idle.map_err(|error| case.error(&error))?;
        let devices = self.devices();
        let path = Waits::new(&case.schedule, &run, &devices).critical_path();
        let summary = path.summary(case.schedule.shape().stages());
        work.inc(1);
        let baseline = levers::baseline(case, simulation);
        let levers = Levers::of(&baseline, causes.cost, &Watched { context, baseline, work })
            .map_err(|error| case.error(&error))?;
        let pairs = pairs::of(case).unwrap_or_default();
        Ok(Explanation { causes, gaps, path: path.links, summary, levers, pairs })
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
    pub fn json(&self) -> impl Serialize {
        self.json_of(&self.metrics, None)
    }

    /// The same with other times of the stages, such as measured ones, and with other `peaks` of their activations, if
    /// these are given.
    pub fn json_of<'a>(
        &'a self,
        metrics: &Metrics,
        peaks: Option<&[Bytes]>,
    ) -> impl Serialize + use<'a> {
        let shape = self.case.schedule.shape();
        let sizes = self.case.has_footprints;
        let peaks = peaks.or(sizes.then_some(&self.memory.peak));
        let copies = self.case.schedule.copies().map(|copies| {
            object!(
                // How many activations of chunks and microbatches, over all stages, and the part of each.
                activations = copies.count(),
                part = f64::from(copies.part().per_mille()) / 1000.0,
                // The most copies out in flight when a stage goes on after a forward, if there is a limit.
                some(max_inflight) = copies.policy().max_inflight,
            )
        });
        let hardware = self.report.as_ref().zip(self.case.hardware.as_ref());
        object!(
            some(setting) = self.case.setting.as_deref(),
            schedule = &self.case.name,
            stages = shape.stages(),
            microbatches = self.case.microbatches(),
            // Into how many each microbatch is cut, if it is: passes and peaks in flight count these.
            some(segments) = Some(self.case.problem.segments()).filter(|&segments| segments > 1),
            chunks = shape.chunks_per_stage(),
            // Whether it trains with stale weights, and is not compared with others.
            asynchronous = self.is_asynchronous(),
            // How many updates in the steady state of a run the times are the mean of.
            some(measured_updates) = self.case.steady.map(|steady| steady.measured),
            // (span - work) / span, and (makespan - work) / makespan.
            bubble_rate = metrics.bubble_rate(),
            bubble_rate_makespan = metrics.bubble_rate_makespan(),
            span_ns = metrics.span().0,
            makespan_ns = metrics.makespan().0,
            // Busy time of the average stage.
            work_ns = metrics.work().0,
            [busy_ns] = metrics.stages.iter().map(|stage| stage.busy.0),
            // Where passes are chains of segments; hidden is null where there is no communication.
            some(compute_utilisation) = self.compute_utilisation(),
            some(communication_hidden) = self.streams.as_ref().map(|_| self.communication_hidden()),
            some(pairs) = pairs::of(&self.case)
                .map(|kinds| kinds.iter().map(pairs::json).collect::<Vec<_>>()),
            // Null where no footprints were given.
            peak_activation_bytes =
                peaks.map(|all| all.iter().map(|bytes| bytes.0).collect::<Vec<_>>()),
            peak_in_flight = &self.in_flight,
            memory_limit_bytes = self.case.limits.as_ref().filter(|_| sizes).map(limit),
            // How B and W were split, unless they were given apart.
            some(backward_split) = self.case.split.map(Split::json),
            some(host_copies) = copies,
            some(gathered_parameters) = Gathered::of(&self.case),
            // Null without a limit.
            fits = self.fits(),
            some(on_front) = self.standing.map(Standing::is_on_front),
            some(noise_free) = self.noise_free.as_ref().map(NoiseFree::from),
            some(monte_carlo) = self.monte_carlo.as_ref().map(Distributions::from),
            some(explain) = self.explanation.as_ref().map(why::json),
            some(hardware) = hardware.map(|(report, hardware)| report.json(hardware)),
        )
    }
}

/// A memory limit: one number, or one per stage where they differ.
fn limit(limits: &Limits) -> Value {
    let by_stage = || limits.by_stage().iter().map(|limit| limit.0).collect();
    limits.same().map_or_else(by_stage, |limit| limit.0.into())
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
