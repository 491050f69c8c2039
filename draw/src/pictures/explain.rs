//! Outcomes as pictures that explain: levers as bars, timelines on a page.

use std::borrow::Cow;

use pipeline::Nanos;
use sim::engine::Run;
use sim::explain::Gaps;
use sim::levers::Lever;
use sim::occupancy::Curve;

use crate::html;
use crate::html::{Drawing, Page};
use crate::plot::tornado;
use crate::plot::tornado::Tornado;
use crate::{DrawError, Width};
use answer::explain::quantities::{ratio, signed, whole};
use answer::explain::report::seen;
use answer::outcome;
use answer::outcome::{Outcome, title};
use answer::simulate::{self, Answers};
use question::Diagnostic;
use question::format;

/// The levers of every schedule that was explained, in a picture of that `width`.
pub fn tornado(outcomes: &[Outcome], width: Option<Width>) -> Result<String, Diagnostic> {
    Ok(tornado::svg_with(&tornados(outcomes), width)?)
}

fn tornados(outcomes: &[Outcome]) -> Vec<Tornado> {
    let tornado = |outcome: &Outcome| {
        let levers = &outcome.explanation.as_ref()?.levers;
        let bar = |lever: &Lever| {
            let order = if lever.rebuilt { ", new order" } else { "" };
            tornado::TornadoBar { name: format!("{}{order}", lever.name), change: lever.change }
        };
        let bars = levers.ranked.iter().map(bar).collect();
        Some(Tornado { title: title(outcome), step: levers.base, bars })
    };
    outcomes.iter().filter_map(tornado).collect()
}

/// The headline, the table of schedules and all timelines on a page for a browser.
pub fn page(answers: &Answers) -> Result<Page, Diagnostic> {
    let outcomes = &answers.outcomes[..];
    html::check(passes(outcomes)).map_err(too_large)?;
    let answer = simulate::report::first(answers);
    with_charts(outcomes, true, |charts| html::page(charts, &answer).map_err(too_large))
}

/// All timelines as the script of a page reads them, with the cause of each gap where `gaps` are wanted and
/// all transfers where `transfers` are.
pub fn drawing(outcomes: &[Outcome], gaps: bool, transfers: bool) -> Result<Drawing, Diagnostic> {
    with_charts(outcomes, gaps, |charts| Ok(Drawing::of(charts, transfers)?))
}

/// How many passes the timelines of `outcomes` have.
#[must_use]
pub fn passes(outcomes: &[Outcome]) -> u64 {
    let passes = |outcome: &Outcome| {
        let steps = outcome.case.hardware.as_ref().map_or(1, |hardware| hardware.steps);
        (outcome.case.schedule.passes() as u64).saturating_mul(steps.into())
    };
    outcomes.iter().map(passes).fold(0, u64::saturating_add)
}

/// Result of `make` on the charts of `outcomes`, with the cause of each gap where `gaps` are wanted.
fn with_charts<T>(
    outcomes: &[Outcome],
    gaps: bool,
    make: impl FnOnce(&[html::PageChart<'_>]) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostic> {
    let runs = outcomes.iter().map(outcome::recorded).collect::<Result<Vec<_>, _>>()?;
    let memory = outcomes.iter().zip(&runs).map(|(one, run)| outcome::memory_curves(one, run));
    let memory = memory.collect::<Result<Vec<_>, _>>()?;
    let charts = outcomes.iter().zip(&runs).zip(&memory);
    let charts: Vec<_> =
        charts.map(|((outcome, run), memory)| chart(outcome, run, memory, gaps)).collect();
    make(&charts)
}

/// The error with its cure, if a page is too large.
fn too_large(error: DrawError) -> Diagnostic {
    match error {
        DrawError::TooLarge { .. } => Diagnostic::new(format!("--html: {error}"))
            .with_help("name fewer schedules, ask one setting at a time, or draw them with --svg"),
        error => error.into(),
    }
}

fn chart<'a>(
    outcome: &'a Outcome,
    run: &'a Run,
    memory: &'a [Curve],
    gaps: bool,
) -> html::PageChart<'a> {
    let case = &outcome.case;
    html::PageChart {
        title: title(outcome),
        schedule: &case.schedule,
        idle: gaps.then(|| idle(outcome, run)),
        run,
        costs: Some(case.problem.costs()),
        devices: outcome.devices(),
        memory,
        capacities: case.hardware.as_ref().and_then(|hardware| hardware.capacities.as_deref()),
    }
}

/// Why stages wait in the last step of `run`, or why that is not known.
fn idle<'a>(outcome: &'a Outcome, run: &Run) -> Result<html::Idle<'a>, String> {
    let explained = outcome.explanation.as_ref().and_then(|why| why.gaps.as_ref());
    let gaps = match explained {
        Some(gaps) => Cow::Borrowed(gaps),
        None => {
            let gaps = outcome.simulation().gaps(run, outcome.nominal.as_ref());
            Cow::Owned(gaps.map_err(|error| error.to_string())?)
        }
    };
    let streams = outcome.case.problem.costs().overlap().is_some();
    let keys = keys(&gaps, outcome.metrics.work(), streams);
    Ok(html::Idle { gaps, keys })
}

/// The lines `average` and `of the step` of the table of causes, turned.
fn keys(gaps: &Gaps, busy: Nanos, streams: bool) -> Vec<html::Key> {
    let key = |name: &str, cause, time| html::Key {
        name: name.to_owned(),
        cause,
        time: signed(time),
        share: format::percent(ratio(time, gaps.cost)),
    };
    let average = gaps.average();
    let stages: Vec<_> = (0..gaps.stages.len()).map(|stage| gaps.of_stage(stage)).collect();
    let mut keys = vec![key("busy", None, whole(busy))];
    if gaps.optimizer > Nanos(0) {
        keys.push(key("optimizer", None, whole(gaps.optimizer)));
    }
    let exposed = streams.then(|| mean_in_slots(gaps));
    keys.push(key("idle", None, average.iter().sum::<i64>() - exposed.unwrap_or(0)));
    keys.extend(exposed.map(|exposed| key("exposed", None, exposed)));
    let causes = seen(&stages).into_iter();
    keys.extend(causes.map(|cause| key(cause.name(), Some(cause), average[cause as usize])));
    keys
}

/// Idle time within slots of an average stage: exposed communication.
fn mean_in_slots(gaps: &Gaps) -> i64 {
    let all: i128 = gaps.in_slots.iter().flatten().map(|&time| i128::from(time)).sum();
    let stages = i128::try_from(gaps.in_slots.len().max(1)).unwrap_or(i128::MAX);
    i64::try_from(all / stages).unwrap_or(i64::MAX)
}
