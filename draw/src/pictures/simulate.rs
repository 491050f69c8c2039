//! Simulated schedules as pictures: bubble against peak memory, and the timeline as trace events.

use std::io::{self, Write};

use pipeline::{Limits, Nanos};
use question::hardware::Hardware;
use sim::engine::Run;
use sim::occupancy::Curve;

use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Panel, Scatter};
use crate::trace::{self, Trace};
use answer::front::{ASYNCHRONOUS, Standing};
use answer::outcome::Outcome;
use answer::simulate::{Answers, point};
use question::Diagnostic;

/// The most settings of a picture: more cannot be read.
const MOST_PANELS: usize = 36;

const GIB: f64 = (1u64 << 30) as f64;

/// Refuses a picture of more than can be read.
pub fn check(settings: usize) -> Result<(), Diagnostic> {
    if settings <= MOST_PANELS {
        return Ok(());
    }
    let message = format!("--pareto: more than {MOST_PANELS} panels, one for each setting");
    Err(Diagnostic::new(message))
}

/// Bubble rate against peak memory: a panel for each setting, every point named and drawn as it was
/// marked.
pub fn svg(title: Option<&str>, answers: &Answers) -> Result<String, Diagnostic> {
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

/// Writes `run`, that of `outcome`, under `name`, and the `memory` of its devices, as trace events.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_trace(
    out: &mut dyn Write,
    outcome: &Outcome,
    name: &str,
    run: &Run,
    memory: &[Curve],
) -> io::Result<()> {
    let hardware = outcome.case.hardware.as_ref();
    let trace = Trace {
        name,
        timeline: &run.timeline,
        shape: outcome.case.schedule.shape(),
        steps: hardware.map_or(1, |hardware| hardware.steps),
        transfers: &run.transfers,
        copies: &run.copies,
        releases: &run.releases,
        optimizer: hardware.map_or(Nanos(0), Hardware::optimizer),
        memory,
    };
    trace::write(out, &trace)
}
