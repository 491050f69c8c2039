//! The runs whose differences are the causes: each leaves out one cause more than the one before.

use std::cell::Cell;

use pipeline::{Collectives, Costs, Fault, Nanos, PassTimes, ShardTimes, Span, Timeline};

use super::cause::CAUSES;
use crate::boundary::{Boundary, GradientReduction, Synchronisation};
use crate::cluster::{Cluster, Seats};
use crate::engine::{
    self, Communication, Durations, EngineError, Job, Messages, NominalDurations, Run,
};
use crate::sharded::ParameterSpan;

/// The times of a step from which idle time is computed.
pub(crate) struct Step<'a> {
    /// By stage, the spans of its slots.
    pub(crate) spans: Vec<&'a [Span]>,
    /// By stage, when the step begins.
    pub(crate) begins: Vec<Nanos>,
    /// Duration of the step.
    pub(crate) cost: Nanos,
    /// Durations of its passes without noise.
    pub(crate) costs: &'a Costs,
}

impl<'a> Step<'a> {
    /// The last step of `run`: on each stage from when it may begin until it may begin the next.
    pub(crate) fn last(run: &'a Run, costs: &'a Costs) -> Self {
        let steps = run.releases.len().max(1);
        let last = |spans: &'a Vec<Span>| &spans[spans.len() / steps * (steps - 1)..];
        let spans = run.timeline.stages.iter().map(last).collect();
        let step = u32::try_from(steps - 1).unwrap_or(u32::MAX);
        Self { spans, begins: run.begins(step), cost: run.step_length(step), costs }
    }

    /// The only step of `run`, on each stage from its own first pass on.
    fn alone(run: &'a Run, costs: &'a Costs) -> Self {
        let spans: Vec<&[Span]> = run.timeline.stages.iter().map(|spans| &spans[..]).collect();
        let begins = firsts(&spans, &run.parameters);
        let ends = run.releases.iter().flatten().zip(&begins);
        let cost = ends.map(|(end, begin)| *end - *begin).max().unwrap_or_default();
        Self { spans, begins, cost, costs }
    }

    /// The step of `timeline` and the collectives beside it, without a boundary: each stage from its first pass
    /// on, as long as the longest span.
    pub(crate) fn replayed(
        timeline: &'a Timeline,
        parameters: &[ParameterSpan],
        costs: &'a Costs,
    ) -> Self {
        let spans: Vec<&[Span]> = timeline.stages.iter().map(|spans| &spans[..]).collect();
        let begins = firsts(&spans, parameters);
        let ends = spans.iter().map(|spans| spans.last().map_or(Nanos(0), |span| span.end));
        let mut ends: Vec<Nanos> = ends.collect();
        for span in parameters {
            ends[span.stage] = ends[span.stage].max(span.end);
        }
        let ends = ends.into_iter();
        let cost = ends.zip(&begins).map(|(end, begin)| end - *begin).max().unwrap_or_default();
        Self { spans, begins, cost, costs }
    }
}

/// When each stage begins: with its first pass, and the collectives right before it that it waits for.
fn firsts(spans: &[&[Span]], parameters: &[ParameterSpan]) -> Vec<Nanos> {
    let first = |spans: &&[Span]| spans.first().map_or(Nanos(0), |span| span.start);
    let mut firsts: Vec<Nanos> = spans.iter().map(first).collect();
    for span in parameters.iter().filter(|span| span.leads) {
        let first = &mut firsts[span.stage];
        *first = Nanos(first.0.saturating_sub((span.end - span.start).0));
    }
    firsts
}

/// The results of `run` for costs from which the causes are removed in turn, after `actual` and
/// `nominal`, which is without noise.
pub(crate) fn of_replay<T: Clone>(
    costs: &Costs,
    [actual, nominal]: [T; 2],
    mut run: impl FnMut(&Costs) -> Result<T, Fault>,
) -> Result<[T; CAUSES], Fault> {
    // Copies of zero time are the same as none.
    let kept = match costs.copies() {
        [] => nominal.clone(),
        _ => run(&costs.clone().with_copies(Vec::new()))?,
    };
    let alone = || nominal.clone();
    let quiet = quiet(costs).map(|quiet| quiet.with_copies(Vec::new()));
    let hidden = quiet.as_ref().map_or_else(|| Ok(kept.clone()), &mut run)?;
    let base = quiet.unwrap_or_else(|| costs.clone());
    let bare = base.parameters().map(|_| base.clone().with_copies(Vec::new()).without_parameters());
    let gathered = bare.as_ref().map_or_else(|| Ok(hidden.clone()), &mut run)?;
    let base = bare.unwrap_or(base);
    let free = run(&without_communication(&base))?;
    let equal = run(&averaged(&base))?;
    Ok([actual, alone(), alone(), kept.clone(), kept, hidden, gathered, free, equal])
}

/// The results of `take` for the last step of `actual` and of `nominal`, the run of `job` without
/// noise, and for runs from which the causes are removed in turn; and how many those were.
pub(crate) fn of_engine<T: Clone>(
    job: &Job<'_>,
    [actual, nominal]: [&Run; 2],
    take: impl Fn(&Step<'_>) -> T,
) -> Result<([T; CAUSES], u64), EngineError> {
    let runs = Cell::new(0);
    let steady = |job: &Job<'_>| {
        runs.set(runs.get() + 1);
        engine::run(job, &NominalDurations)
    };
    let alone = |job: &Job<'_>| Ok::<T, EngineError>(take(&Step::alone(&steady(job)?, job.costs)));
    let synchronisation = Synchronisation::Asynchronous;
    let is_single = job.steps == 1 && job.boundary.synchronisation == synchronisation;
    let boundary = Boundary { synchronisation, ..job.boundary.clone() };
    let single = Job { steps: 1, boundary: &boundary, ..*job };
    let one_step = match is_single {
        true => take(&Step::alone(nominal, job.costs)),
        false => alone(&single)?,
    };
    let roomy = Job { room: None, offload: None, ..single };
    let unlimited = match job.room.is_some() || job.offload.is_some() {
        true => alone(&roomy)?,
        false => one_step.clone(),
    };
    let ideal = Cluster::ideal(job.cluster.devices(), Nanos(0));
    let messages = Messages::default();
    let unshared = |costs: &Costs| -> Result<T, EngineError> {
        if job.cluster.wires().is_empty() {
            return alone(&Job { costs, ..roomy });
        }
        runs.set(runs.get() + 1);
        let unshared = Job { cluster: &ideal, messages, costs, ..roomy };
        Ok(take(&Step::alone(&engine::run(&unshared, &Alone { job })?, costs)))
    };
    let uncontended = match job.cluster.wires().is_empty() {
        true => unlimited.clone(),
        false => unshared(job.costs)?,
    };
    let quiet = quiet(job.costs);
    let hidden = quiet.as_ref().map_or_else(|| Ok(uncontended.clone()), unshared)?;
    let base = quiet.unwrap_or_else(|| job.costs.clone());
    let bare = base.parameters().map(|_| base.clone().without_parameters());
    let gathered = bare.as_ref().map_or_else(|| Ok(hidden.clone()), unshared)?;
    let base = bare.unwrap_or(base);
    let reduction = GradientReduction::default();
    let reduced = Boundary { reduction, ..boundary.clone() };
    let communication = Communication::default();
    let at_once = Job { cluster: &ideal, messages, communication, boundary: &reduced, ..roomy };
    let free = alone(&Job { costs: &without_communication(&base), ..at_once })?;
    let equal = alone(&Job { costs: &averaged(&base), ..at_once })?;
    let [actual, nominal] = [actual, nominal].map(|run| take(&Step::last(run, job.costs)));
    let all = [actual, nominal, one_step, unlimited, uncontended, hidden, gathered, free, equal];
    Ok((all, runs.get()))
}

/// Every transfer takes its time on an idle network.
struct Alone<'a> {
    job: &'a Job<'a>,
}

impl Durations for Alone<'_> {
    fn pass(&self, nominal: u64, _: usize, _: pipeline::Pass, _: u32, _: u64) -> u64 {
        nominal
    }

    fn hop(&self, _: u64, value: pipeline::Value, from: usize, to: usize, _: u32, _: u64) -> u64 {
        let is_empty = self.job.costs.is_empty(value);
        let messages = if is_empty { Messages::default() } else { self.job.messages };
        alone(self.job.cluster, self.job.seats, messages, [from, to])
    }
}

/// Duration of a message between two stages on free wires: its last byte leaves at the end of a
/// nanosecond, as in the engine.
fn alone(cluster: &Cluster, seats: &Seats, messages: Messages, stages: [usize; 2]) -> u64 {
    let [from, to] = stages.map(|stage| seats.device(stage));
    let route = cluster.route(from, to);
    let rate = |&wire: &usize| cluster.wires()[wire].bandwidth.bytes_per_second();
    let nanobytes = u128::from(messages.bytes.0) * 1_000_000_000;
    let slowest = route.wires.iter().map(rate).min();
    let sending = slowest.map_or(0, |rate| nanobytes.div_ceil(u128::from(rate)));
    route.latency.0.saturating_add(u64::try_from(sending).unwrap_or(u64::MAX))
}

/// The same where communication within passes takes no time, if there is any.
fn quiet(costs: &Costs) -> Option<Costs> {
    let communicates = costs.overlap()?.communicates();
    communicates.then(|| costs.clone().without_segment_communication())
}

/// The same with no time for hops and collectives.
fn without_communication(costs: &Costs) -> Costs {
    costs.clone().with_hop(Nanos(0)).with_shards(costs.shards().to_vec(), Collectives::default())
}

/// All chunks, microbatches and shards alike, as much work in all as before, and no hop or collective.
fn averaged(costs: &Costs) -> Costs {
    let costs = &costs.clone().of_mean_microbatch();
    let (chunks, shards) = (costs.chunks().len() as u64, costs.shards().len() as u64);
    let total = |part: fn(&PassTimes) -> Nanos| -> Nanos { costs.chunks().iter().map(part).sum() };
    let totals = [
        total(|times| times.forward),
        total(|times| times.backward_input),
        total(|times| times.backward_weight),
        total(PassTimes::whole_backward),
    ];
    let has_whole = costs.has_whole();
    let chunk = |index: u64| {
        let [forward, backward_input, backward_weight, whole] =
            totals.map(|total| total.share(index, chunks));
        let backward = has_whole.then_some(whole);
        PassTimes { forward, backward_input, backward_weight, backward }
    };
    let before: Nanos = costs.shards().iter().map(|times| times.before).sum();
    let after: Nanos = costs.shards().iter().map(|times| times.after).sum();
    let shard = |index: u64| ShardTimes {
        before: before.share(index, shards),
        after: after.share(index, shards),
    };
    let again: Vec<Option<Nanos>> =
        (0u16..).zip(costs.chunks()).map(|(chunk, _)| costs.recompute(chunk)).collect();
    let (count, all) =
        (again.iter().flatten().count() as u64, again.iter().flatten().copied().sum());
    let mut shares = (0..count).map(|index| Nanos::share(all, index, count));
    let again = again.iter().map(|one| one.and_then(|_| shares.next())).collect();
    Costs::new((0..chunks).map(chunk).collect(), Nanos(0))
        .with_recompute(again)
        .with_shards((0..shards).map(shard).collect(), Collectives::default())
}
