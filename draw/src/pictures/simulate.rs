//! Bubble against peak memory: which schedules nothing beats, and the picture of it.

use clap::ValueEnum;
use pipeline::Limits;

use super::ask::Answers;
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Panel, Scatter};
use question::Diagnostic;
use answer::front::{ASYNCHRONOUS, Candidate, Standing, standings};
use answer::outcome::Outcome;

/// What rows are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// The bubble of the span.
    Bubble,
    /// The peak activation memory of the stage that holds most.
    Memory,
    /// The span.
    Step,
}

/// The most settings of a picture: more cannot be read.
const MOST_PANELS: usize = 36;

const GIB: f64 = (1u64 << 30) as f64;

/// Refuses a picture of more than can be read.
pub(super) fn check(settings: usize) -> Result<(), Diagnostic> {
    if settings <= MOST_PANELS {
        return Ok(());
    }
    let message = format!("--pareto: more than {MOST_PANELS} panels, one for each setting");
    Err(Diagnostic::new(message))
}

/// Peak memory and bubble: what is compared. Memory is bytes where sizes are known, and else
/// multiples of M_B: units of different families are not alike.
fn point(outcome: &Outcome) -> (f64, f64) {
    (memory(outcome), outcome.metrics.bubble_rate())
}

#[allow(clippy::cast_precision_loss)]
fn memory(outcome: &Outcome) -> f64 {
    let (_, peak) = outcome.worst();
    match outcome.case.has_footprints {
        true => peak.0 as f64,
        false => outcome.in_microbatches(peak),
    }
}

/// Marks what becomes of the outcomes of one setting: table, JSON and picture say it alike.
pub(super) fn mark(setting: &mut [Outcome]) {
    let candidate = |outcome: &Outcome| {
        let (at, asynchronous) = (point(outcome), outcome.case.steady.is_some());
        Candidate::of_schedule(at, outcome.fits_in_memory(), asynchronous)
    };
    let all: Vec<Candidate> = setting.iter().map(candidate).collect();
    for (outcome, standing) in setting.iter_mut().zip(standings(&all)) {
        outcome.standing = Some(standing);
    }
}

/// Sorts the outcomes of one setting; those that are alike keep their order.
pub(super) fn sort(setting: &mut [Outcome], by: Sort) {
    match by {
        Sort::Bubble => setting.sort_by(|a, b| point(a).1.total_cmp(&point(b).1)),
        Sort::Memory => setting.sort_by(|a, b| memory(a).total_cmp(&memory(b))),
        Sort::Step => setting.sort_by_key(|outcome| outcome.metrics.span()),
    }
}

/// Bubble rate against peak memory: a panel for each setting, every point named and drawn as it was
/// marked.
pub(super) fn svg(title: Option<&str>, answers: &Answers) -> Result<String, Diagnostic> {
    let bytes = answers.outcomes.iter().all(|outcome| outcome.case.has_whole_bytes);
    let mut series: Vec<String> = Vec::new();
    let panels = answers.by_setting().into_iter();
    let panels = panels.map(|setting| panel(setting, bytes, &mut series)).collect::<Vec<_>>();
    let x_label = if bytes { "peak activation memory, in GiB" } else { "peak memory, in p x M_B" };
    Ok(scatter::svg(&Scatter {
        title: title.unwrap_or("Bubble rate against peak memory").to_owned(),
        x_label: x_label.to_owned(),
        y_label: "bubble rate".to_owned(),
        scale: Scale::Rates,
        series,
        columns: 2,
        named: true,
        not_compared: ASYNCHRONOUS.to_owned(),
        panels,
    })?)
}

/// The panel of the outcomes of one setting; `series` gets the names that it lacks.
#[allow(clippy::cast_precision_loss)]
fn panel(setting: &[Outcome], bytes: bool, series: &mut Vec<String>) -> Panel {
    let Some(first) = setting.first() else {
        return Panel { title: String::new(), series: Vec::new(), limit: None };
    };
    // One scale for all: M_B is that of the first where stages differ.
    let stages = first.case.schedule.shape().stages() as f64;
    let microbatch = first.case.microbatch_bytes().0.max(1) as f64;
    let scale = match (bytes, first.case.has_footprints) {
        (true, _) => GIB,
        (false, false) => stages,
        (false, true) => microbatch * stages,
    };
    let mut points: Vec<Vec<Mark>> = Vec::new();
    for outcome in setting {
        let name = &outcome.case.name;
        let at = series.iter().position(|one| one == name).unwrap_or_else(|| {
            series.push(name.clone());
            series.len() - 1
        });
        points.resize(points.len().max(at + 1), Vec::new());
        let (memory, y) = point(outcome);
        let standing = outcome.standing.unwrap_or(Standing::NotCompared);
        points[at].push(Mark { x: memory / scale, y, standing });
    }
    // A limit is a line where it is the same for all stages and schedules.
    let limit = |outcome: &Outcome| {
        let limit = outcome.case.limits.as_ref().and_then(Limits::same)?;
        Some(match outcome.case.has_footprints {
            true => limit.0 as f64 / scale,
            false => outcome.in_microbatches(limit) / scale,
        })
    };
    let limit = limit(first).filter(|_| setting.iter().all(|one| limit(one) == limit(first)));
    let title = first.case.setting.clone().unwrap_or_default();
    Panel { title, series: points, limit }
}
