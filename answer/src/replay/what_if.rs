//! The steps of a run under changed conditions.

use std::cmp::Reverse;
use std::fmt;

use pipeline::{Costs, Kind, Nanos, Pass, PassTimes, Schedule, Shape};
use rayon::prelude::*;
use serde::Serialize;
use traces::{Medians, Operation, Run, Sends, Times};

use cases::ScheduleSource;
use question::replay::{ReplayKeys, WhatIf};
use question::scenario::{Scenario, Setting};
use question::{Context, Diagnostic};

/// The effect of a change.
#[derive(Serialize)]
pub struct WhatIfAnswer {
    /// Name of the change, or of the schedule.
    pub name: String,
    /// Mean over the steps.
    pub step_ns: u64,
    /// Against the prediction of the run as it was.
    pub saved_ns: i64,
}

/// A rank or stage that is slower than its peers.
#[derive(Serialize)]
pub struct Straggler {
    /// The data-parallel rank; null for the stage of all of them.
    dp_rank: Option<u32>,
    /// The stage; null for all stages of the rank.
    stage: Option<u16>,
    /// The mean step if it took the median of its peers.
    pub step_ns: u64,
    /// Against the prediction of the run as it was.
    pub saved_ns: i64,
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.dp_rank.map(|rank| format!("dp rank {rank}"));
        let stage = self.stage.map(|stage| format!("stage {stage}"));
        let who: Vec<String> = rank.into_iter().chain(stage).collect();
        write!(f, "{} like the others", who.join(", "))
    }
}

/// The questions, checked.
pub(super) struct Asked<'a> {
    context: &'a Context<'a>,
    keys: &'a ReplayKeys,
    rules: Vec<ScheduleSource>,
}

impl<'a> Asked<'a> {
    /// Finds the schedules before any long work.
    pub(super) fn new(context: &'a Context<'a>, keys: &'a ReplayKeys) -> Result<Self, Diagnostic> {
        if let Some(share) = keys.backward_split
            && !(0.0..=1.0).contains(&share)
        {
            let message = format!("--backward-split is {share}: it must be from 0 to 1");
            return Err(Diagnostic::new(message));
        }
        check_sizes(keys)?;
        if keys.schedule.is_empty() {
            note_unused(context, keys);
        }
        let rules = keys.schedule.iter().map(|name| ScheduleSource::named(context, name));
        Ok(Self { context, keys, rules: rules.collect::<Result<_, _>>()? })
    }

    /// The answers, in the order of the keys.
    pub(super) fn answer(&self, run: &Run, times: &Times) -> Result<Vec<WhatIfAnswer>, Diagnostic> {
        if self.keys.what_if.is_empty() && self.rules.is_empty() {
            return Ok(Vec::new());
        }
        let medians = Medians::of(run);
        let was = step(run, times);
        let changes = self.keys.what_if.iter().take_while(|_| !self.context.stopped());
        let changes = changes.map(|change| {
            WhatIfAnswer::new(
                change.name().to_owned(),
                was,
                step(run, &changed(run, times, &medians, *change)),
            )
        });
        let mut answers: Vec<WhatIfAnswer> = changes.collect();
        if !self.rules.is_empty() {
            answers.extend(self.schedules(run, times, &medians)?);
        }
        Ok(answers)
    }

    /// Other schedules: the step without stragglers, in which the pipeline of the run, timed with
    /// medians and asynchronous transfers, is replaced by another one timed so.
    fn schedules(
        &self,
        run: &Run,
        times: &Times,
        medians: &Medians,
    ) -> Result<Vec<WhatIfAnswer>, Diagnostic> {
        let was = step(run, times);
        let level = step(run, &changed(run, times, medians, WhatIf::NoStragglers));
        let fault = |fault: pipeline::Fault| Diagnostic::new(fault.to_string());
        let split = self.split(run);
        let first = &run.steps()[0];
        self.note_limits(run, first.shape());
        let own = run.schedule(first, 0).map_err(fault)?;
        let costs = own_costs(first.shape(), medians, split);
        let makespan = |schedule: &Schedule, costs: &Costs| {
            let metrics = sim::Replay::new().metrics(schedule, costs);
            metrics.map(|metrics| metrics.makespan().0).map_err(fault)
        };
        let replaced = makespan(&own, &costs)?;
        let answer = |rule: &ScheduleSource| {
            let (scenario, setting) = self.setting(&own, &costs);
            let case = cases::case(self.context, &scenario, &setting, rule)?;
            cases::ignored(&setting, rule)
                .iter()
                .for_each(|text| self.context.warn(format!("{}: {text}", rule.name())));
            let pipeline = makespan(&case.schedule, case.problem.costs())?;
            let step = level.saturating_sub(replaced).saturating_add(pipeline);
            Ok(WhatIfAnswer::new(rule.name().to_owned(), was, step))
        };
        self.rules.iter().take_while(|_| !self.context.stopped()).map(answer).collect()
    }

    /// Notes the omissions in the times of other schedules.
    fn note_limits(&self, run: &Run, shape: Shape) {
        let paired = "other schedules are timed with sends that hold up no rank, unlike the run's";
        let spread = "other schedules are timed with the work of a stage spread evenly over its \
                      chunks, unlike the run's";
        let notes =
            [(paired, run.sends() == Sends::Paired), (spread, shape.chunks_per_stage() > 1)];
        let said = notes.into_iter().filter(|(_, applies)| *applies);
        said.for_each(|(text, _)| self.context.warn(text.to_owned()));
    }

    /// The pipeline of the run as a question: its shape, and per stage the times of all its chunks.
    fn setting(&self, own: &Schedule, costs: &Costs) -> (Scenario, Setting) {
        let mut scenario = Scenario::none();
        let mut setting = scenario.settings.remove(0);
        let (shape, placement) = (own.shape(), own.placement());
        let by_stage = |time: fn(&PassTimes) -> Nanos| -> Option<Vec<Nanos>> {
            let mut stages = vec![Nanos(0); shape.stages()];
            for (chunk, times) in (0u16..).zip(costs.chunks()) {
                stages[placement.stage(shape, chunk, 0)] += time(times);
            }
            Some(stages)
        };
        let keys = &mut setting.keys;
        keys.stages = Some(shape.stages() as u64);
        keys.microbatches = Some(u64::from(shape.microbatches()));
        keys.forward = by_stage(|times| times.forward);
        keys.backward_input = by_stage(|times| times.backward_input);
        keys.backward_weight = by_stage(|times| times.backward_weight);
        keys.backward = costs.has_whole().then(|| by_stage(PassTimes::whole_backward)).flatten();
        keys.hop = Some(costs.hops().by_link().to_vec());
        keys.chunks = self.keys.chunks;
        keys.memory_limit.clone_from(&self.keys.memory_limit);
        (scenario, setting)
    }

    /// The share of B in a backward pass by FLOPs; `None` where the run itself splits them.
    fn split(&self, run: &Run) -> Option<f64> {
        let ReplayKeys { backward_split, hidden, seq, .. } = *self.keys;
        if !run.is_fused() {
            if backward_split.or(hidden.map(|_| 0.0)).is_some() {
                self.context
                    .warn("the run has B and W apart: their share is not split again".to_owned());
            }
            return None;
        }
        let share = match (backward_split, hidden, seq) {
            (Some(share), ..) => share,
            (None, Some(hidden), Some(seq)) => cases::Split::Flops { hidden, seq }.share(),
            _ => {
                let text =
                    "half of each backward pass is taken for B: --backward-split says otherwise";
                self.context.warn(text.to_owned());
                0.5
            }
        };
        Some(share)
    }
}

/// Refuses sizes of the model that say nothing of the share of B, or say it twice.
fn check_sizes(keys: &ReplayKeys) -> Result<(), Diagnostic> {
    let blame = |key: &str, message: &str| Err(Diagnostic::new(message).about(key));
    match (keys.backward_split, keys.hidden, keys.seq) {
        (_, Some(0), _) => blame("hidden", "--hidden is 0: it must be at least 1"),
        (_, Some(_), None) => blame("hidden", "--hidden needs --seq"),
        (_, None, Some(_)) => blame("seq", "--seq needs --hidden"),
        (Some(_), Some(_), Some(_)) => {
            blame("backward-split", "--backward-split and --hidden exclude each other")
        }
        _ => Ok(()),
    }
}

/// Names the flags that only schedules would heed.
fn note_unused(context: &Context<'_>, keys: &ReplayKeys) {
    let ReplayKeys { backward_split, hidden, seq, chunks, memory_limit, .. } = keys;
    let given = [
        ("--backward-split", backward_split.is_some()),
        ("--hidden", hidden.is_some()),
        ("--seq", seq.is_some()),
        ("--chunks", chunks.is_some()),
        ("--memory-limit", memory_limit.is_some()),
    ];
    let unused = given.into_iter().filter(|(_, given)| *given);
    unused.for_each(|(flag, _)| {
        context.warn(format!("no --schedule is asked for: {flag} is ignored"));
    });
}

impl WhatIfAnswer {
    fn new(name: String, was: u64, step: u64) -> Self {
        Self { name, step_ns: step, saved_ns: saved(was, step) }
    }
}

fn saved(was: u64, step: u64) -> i64 {
    let saved = i128::from(was) - i128::from(step);
    i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX })
}

/// The mean, rounded down; 0 of none.
pub(super) fn mean(values: impl Iterator<Item = u64>) -> u64 {
    let (count, sum) =
        values.fold((0u128, 0u128), |(count, sum), value| (count + 1, sum + u128::from(value)));
    u64::try_from(sum / count.max(1)).unwrap_or(u64::MAX)
}

/// The mean step under `times`.
fn step(run: &Run, times: &Times) -> u64 {
    mean(run.predict(times).into_iter().map(|step| step.0))
}

fn changed(run: &Run, times: &Times, medians: &Medians, change: WhatIf) -> Times {
    let times = times.clone();
    match change {
        WhatIf::NoStragglers => {
            times.with_passes(run, |_, pass| Some(medians.pass(pass.kind, pass.chunk)))
        }
        WhatIf::Balanced => times.with_passes(run, |_, pass| Some(medians.balanced(pass.kind))),
        WhatIf::FreeLinks => times.with_free_links(run),
    }
}

/// Median times by chunk, the whole backward split by the share of B.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn own_costs(shape: Shape, medians: &Medians, split: Option<f64>) -> Costs {
    let chunk = |chunk| {
        let forward = medians.pass(Kind::F, chunk);
        let Some(share) = split else {
            let backward_input = medians.pass(Kind::B, chunk);
            let backward_weight = medians.pass(Kind::W, chunk);
            let backward = Some(medians.pass(Kind::BW, chunk)).filter(|time| time.0 > 0);
            return PassTimes { forward, backward_input, backward_weight, backward };
        };
        let whole = medians.pass(Kind::BW, chunk);
        let backward_input = Nanos((whole.0 as f64 * share).round() as u64).min(whole);
        PassTimes::new(forward, backward_input, whole - backward_input)
    };
    let recompute = |chunk| Some(medians.pass(Kind::R, chunk)).filter(|time| time.0 > 0);
    Costs::new((0..shape.chunks()).map(chunk).collect(), medians.transfer())
        .with_recompute((0..shape.chunks()).map(recompute).collect())
}

/// Who costs most: the data-parallel rank whose passes should take the medians, the stage of it,
/// and the stage that should be an ordinary one on all ranks; where there are several.
pub(super) fn stragglers(run: &Run, times: &Times) -> Vec<Straggler> {
    let medians = Medians::of(run);
    let was = step(run, times);
    let mended = |dp_rank: Option<u32>, stage: Option<u16>| {
        let is_it = |one: &Operation| {
            dp_rank.is_none_or(|rank| rank == one.dp_rank)
                && stage.is_none_or(|stage| stage == one.stage)
        };
        let time = |pass: Pass| match dp_rank {
            Some(_) => medians.pass(pass.kind, pass.chunk),
            None => medians.typical(pass.kind),
        };
        let mended = |one: &Operation, pass: Pass| is_it(one).then(|| time(pass));
        let step = step(run, &times.clone().with_passes(run, mended));
        Straggler { dp_rank, stage, step_ns: step, saved_ns: saved(was, step) }
    };
    let cost = |one: &Straggler| (one.saved_ns, Reverse(one.dp_rank), Reverse(one.stage));
    let stages = run.steps().iter().map(|step| step.shape().stages()).max().unwrap_or(0);
    let stages = 0..u16::try_from(stages).unwrap_or(u16::MAX);
    let ranks = run.dp_ranks().par_iter().filter(|_| run.dp_ranks().len() > 1);
    let rank = ranks.map(|&rank| mended(Some(rank), None)).max_by_key(cost);
    let worst_stage = |rank: Option<u32>| {
        let stages = stages.clone().into_par_iter().filter(|_| stages.len() > 1);
        stages.map(|stage| mended(rank, Some(stage))).max_by_key(cost)
    };
    let of_rank = rank.as_ref().and_then(|rank| worst_stage(rank.dp_rank));
    let of_all = worst_stage(None);
    [rank, of_rank, of_all].into_iter().flatten().filter(|one| one.saved_ns > 0).collect()
}
