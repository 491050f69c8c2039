//! Dead workers of data-parallel pipelines: the step that remains when peers run their passes, beside leaving the
//! pipeline out and waiting for a spare.

mod asked;
mod borne;
mod dropped;
mod headline;
mod policies;
mod report;

use std::collections::BTreeSet;

use ::failures::{FailureError, Ran, Step};
use cases::{Case, ScheduleSource};
use pipeline::Bytes;
use question::failures::FailureKeys;
use question::scenario::{Scenario, Setting};
use question::sheet::Sheet;
use question::{Context, Diagnostic, Warnings};
use serde::Serialize;

use self::asked::Asked;
pub use self::borne::BorneRow;
pub use self::dropped::DroppedRow;
pub use self::policies::PolicyRow;
use crate::solution::{self, Solution};

/// A step with all stages waiting for each other at its end, and with a staggered optimizer.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRow {
    /// The step where all stages wait for each other at its end.
    pub step_ns: u64,
    /// The step in the long run where each stage begins the next one when its own optimizer is done.
    pub staggered_ns: u64,
}

/// A step in which peers run the passes of dead workers.
#[derive(Serialize, Clone, Debug)]
pub struct ReroutedRow {
    /// Both steps.
    #[serde(flatten)]
    pub step: StepRow,
    /// What no order of passes undercuts.
    pub bound_ns: u64,
    /// The same with a staggered optimizer.
    pub staggered_bound_ns: u64,
    /// By how much the step exceeds its bound, as a share of the step; 0 is optimal.
    pub gap: f64,
    /// The same with a staggered optimizer.
    pub staggered_gap: f64,
    /// The result of the search for the step.
    pub solution: Solution,
    /// The result of the search for the step with a staggered optimizer; costs of its history are spans of one step.
    pub staggered_solution: Solution,
    /// The most that a worker of any stage holds.
    pub peak_bytes: u64,
    /// The most that one may hold, of the stage that may hold most; none where nothing is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// A pass of a rerouted step.
#[derive(Serialize, Clone, Debug)]
pub struct PassRow {
    /// The worker that runs it, as PIPELINE.STAGE.
    pub worker: String,
    /// The pipeline whose microbatch it is of.
    pub of_pipeline: u32,
    /// The pass, as schedules in the text form have it. A backward that recomputes does so at its start.
    pub pass: String,
    /// Its start in the step.
    pub start_ns: u64,
    pub end_ns: u64,
}

impl From<&Ran> for PassRow {
    fn from(ran: &Ran) -> Self {
        Self {
            worker: ran.worker.to_string(),
            of_pipeline: ran.pipeline,
            pass: ran.pass.to_string(),
            start_ns: ran.start.0,
            end_ns: ran.end.0,
        }
    }
}

/// One schedule of one setting.
#[derive(Serialize, Clone, Debug)]
pub struct FailureRow {
    /// Name of the setting, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Name of the schedule.
    pub schedule: String,
    /// How backwards are run when passes are rerouted: `whole` (B and W at once) or `split`.
    pub backward: &'static str,
    /// Data-parallel pipelines.
    pub pipelines: u64,
    /// Stages of each.
    pub stages: u64,
    /// Microbatches of each in a step.
    pub microbatches: u32,
    /// The dead workers, as PIPELINE.STAGE.
    pub dead: Vec<String>,
    /// The step while nothing is dead, by the schedule as published.
    pub healthy: StepRow,
    /// Whether its workers keep the memory limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_fits: Option<bool>,
    /// The step that remains.
    pub rerouted: ReroutedRow,
    /// The same if workers may hold as much as they like.
    pub unlimited: ReroutedRow,
    /// The step without the pipelines of dead workers, whose microbatches the others run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedRow>,
    /// The step while nothing is dead over the share of the workers that live: what perfect balance would give.
    pub fault_scaled_ns: u64,
    /// Steps with each number of dead workers.
    pub borne: Vec<BorneRow>,
    /// Policies in the long run, where the time between failures is given.
    pub policies: Vec<PolicyRow>,
    /// The passes of all live workers in the rerouted step, worker by worker in their order, if they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Vec<PassRow>>,
    /// Whether activations of chunks are counted, for no sizes are given.
    #[serde(skip)]
    pub counts_chunks: bool,
}

/// The answer to a question about dead workers.
#[derive(Serialize, Clone, Debug)]
pub struct FailuresAnswer {
    /// The schedule and the way to go on with the shortest step, and the policy with the most steps in the long run, for
    /// each setting a line of each.
    pub headline: String,
    /// A row for each schedule of each setting, two where whole backwards may be split.
    pub results: Vec<FailureRow>,
    /// What was assumed, a sentence each.
    pub assumed: Vec<String>,
    /// `Some(true)` after a stop: rows that were done by then, orders as far as they were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

impl crate::Tabular for FailuresAnswer {
    fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv_of(&self.results, report::COLUMNS_OF_CSV)
    }

    fn sheet(&self) -> Sheet {
        report::sheet(self)
    }
}

impl FailureRow {
    /// The step without the pipelines of dead workers, if it keeps the memory limit.
    #[must_use]
    pub fn dropped_that_fits(&self) -> Option<&DroppedRow> {
        self.dropped.as_ref().filter(|one| one.fits != Some(false))
    }
}

impl StepRow {
    const fn of(step: &Step) -> Self {
        Self { step_ns: step.step.0, staggered_ns: step.staggered.0 }
    }

    /// The one of both that policies take.
    const fn taken(self, staggered: bool) -> u64 {
        if staggered { self.staggered_ns } else { self.step_ns }
    }
}

#[allow(clippy::cast_precision_loss)]
const fn float(number: u64) -> f64 {
    number as f64
}

impl ReroutedRow {
    /// The result of the search for the step that policies take.
    const fn taken(&self, staggered: bool) -> &Solution {
        if staggered { &self.staggered_solution } else { &self.solution }
    }

    fn of(step: &Step, limits: Option<&[Bytes]>) -> Self {
        let [history, staggered_history] = &step.histories;
        let solution = ("step", step.step, step.bound.step, history);
        let staggered = ("staggered", step.staggered, step.bound.staggered, staggered_history);
        let [solution, staggered_solution] =
            [solution, staggered].map(|(objective, cost, bound, history)| {
                Solution::new((objective, cost), Some(bound), history)
            });
        Self {
            step: StepRow::of(step),
            bound_ns: step.bound.step.0,
            staggered_bound_ns: step.bound.staggered.0,
            gap: solution::gap(step.step, step.bound.step),
            staggered_gap: solution::gap(step.staggered, step.bound.staggered),
            solution,
            staggered_solution,
            peak_bytes: step.peaks.iter().map(|peak| peak.0).max().unwrap_or(0),
            limit_bytes: limits.map(|all| all.iter().map(|limit| limit.0).max().unwrap_or(0)),
        }
    }
}

/// Whether the workers of `step` keep the limits of `case`, if it has any.
fn fits(step: &Step, case: &Case) -> Option<bool> {
    let limits = case.limits.as_ref()?;
    Some(step.peaks.iter().zip(limits.by_stage()).all(|(peak, limit)| peak <= limit))
}

/// `fault` of `case`, about the key that cures it.
fn diagnostic(case: &Case, fault: &FailureError) -> Diagnostic {
    let key = match fault {
        FailureError::NoWorker { .. } | FailureError::Twice(_) | FailureError::StageLost { .. } => {
            "dead"
        }
        FailureError::Memory { .. } => "memory-limit",
        FailureError::PileUp { .. } => "repair",
        FailureError::Count { .. } => "data-parallel",
        FailureError::Unsuitable(_) => "schedule",
        FailureError::Time { .. } | FailureError::Overflow => return case.error(fault),
    };
    case.error(fault).about(key)
}

/// Answers what `keys` ask about every schedule of every setting of `scenario`.
pub fn failures(
    context: &Context<'_>,
    scenario: &Scenario,
    keys: &FailureKeys,
) -> Result<FailuresAnswer, Diagnostic> {
    asked::check(keys)?;
    let mut results = Vec::new();
    let mut warnings = Warnings::default();
    for setting in &scenario.settings {
        cases::assumed(context, setting).into_iter().for_each(|text| warnings.add_of_setting(text));
        for rule in cases::rules(context, scenario, setting)? {
            if !results.is_empty() && context.stopped() {
                break;
            }
            warnings.add_ignored(setting, &rule);
            results.extend(rows(context, (scenario, setting, &rule), keys)?);
        }
    }
    warnings.lines().into_iter().for_each(|line| context.warn(line));
    Ok(FailuresAnswer {
        headline: headline::headline(&results, keys),
        results,
        assumed: report::assumed(scenario, keys),
        interrupted: context.cut_short().then_some(true),
    })
}

/// The rows of one schedule: with backwards as it has them, and split where it has whole ones.
fn rows(
    context: &Context<'_>,
    of: (&Scenario, &Setting, &ScheduleSource),
    keys: &FailureKeys,
) -> Result<Vec<FailureRow>, Diagnostic> {
    let case = cases::case(context, of.0, of.1, of.2)?;
    let asked = Asked::new(&case, keys, of.1)?;
    let dropped = dropped::steps(context, of, &case, keys)?;
    let is_whole = !case.schedule.splits_backward();
    let can_split =
        is_whole && case.problem.costs().chunks().iter().any(|one| one.backward_weight.0 > 0);
    let splits: &[bool] = if can_split { &[false, true] } else { &[false] };
    splits.iter().map(|&split| row(context, &asked, &dropped, split)).collect()
}

fn row(
    context: &Context<'_>,
    asked: &Asked<'_>,
    dropped: &[Option<DroppedRow>],
    split: bool,
) -> Result<FailureRow, Diagnostic> {
    let Asked { case, keys, pipelines, .. } = *asked;
    let fault = |fault: FailureError| diagnostic(case, &fault);
    let healthy = asked.of().healthy().map_err(fault)?;
    let healthy_fits = fits(&healthy, case);
    let healthy = StepRow::of(&healthy);
    let sets = borne::Sets::new(context, asked, split)?;
    let (dead, step) = sets.asked();
    let stop = || context.stopped();
    let free = vec![Bytes(1 << 62); asked.limits.len()];
    let unlimited =
        asked.of().rerouted(dead, &asked.how(&free, split, keys.effort), &stop).map_err(fault)?;
    let workers = pipelines * u64::from(dead.stages());
    let live = workers - dead.workers().len() as u64;
    let scaled = u128::from(healthy.step_ns) * u128::from(workers) / u128::from(live.max(1));
    let hit: BTreeSet<u32> = dead.workers().map(|worker| worker.pipeline).collect();
    let is_split = split || case.schedule.splits_backward();
    Ok(FailureRow {
        setting: case.setting.clone(),
        schedule: case.name.clone(),
        backward: if is_split { "split" } else { "whole" },
        pipelines,
        stages: u64::from(dead.stages()),
        microbatches: case.schedule.shape().microbatches(),
        dead: dead.workers().map(|worker| worker.to_string()).collect(),
        healthy,
        healthy_fits,
        rerouted: ReroutedRow::of(step, Some(&asked.limits)),
        unlimited: ReroutedRow::of(&unlimited, None),
        dropped: dropped.get(hit.len()).cloned().flatten(),
        fault_scaled_ns: u64::try_from(scaled).unwrap_or(u64::MAX),
        borne: sets.rows(),
        policies: policies::rows(asked, (healthy, healthy_fits), &sets, dropped)?,
        timeline: keys.timeline.then(|| step.passes.iter().map(PassRow::from).collect()),
        counts_chunks: !case.has_footprints,
    })
}
