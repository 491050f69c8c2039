//! Simulated schedules as pictures: bubble against peak memory, timelines, and the run as trace events.

use std::borrow::Cow;
use std::io::{self, Write};

use pipeline::{Limits, Nanos, Timeline};
use question::hardware::Hardware;
use sim::engine::Run;
use sim::occupancy::Curve;

use crate::Width;
use crate::gantt::{self, Chart, Style};
use crate::plot::Scale;
use crate::plot::scatter;
use crate::plot::scatter::{Mark, Scatter, ScatterPanel};
use crate::trace::{self, Trace};
use answer::front::{ASYNCHRONOUS, Standing};
use answer::outcome::{self, Outcome, title};
use answer::simulate::{Answers, point};
use question::{Diagnostic, format};

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
pub fn svg(
    title: Option<&str>,
    answers: &Answers,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
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
        width,
        panels,
    })?)
}

/// The panel of the outcomes of one setting; `series` gets the names that it lacks.
#[allow(clippy::cast_precision_loss)]
fn panel(setting: &[Outcome], bytes: bool, series: &mut Vec<String>) -> ScatterPanel {
    let Some(first) = setting.first() else {
        return ScatterPanel { title: String::new(), series: Vec::new(), limit: None };
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
    ScatterPanel { title, series: points, limit }
}

/// The timelines of `outcomes`, with copies to the host, one below the other, on one time axis. A run that
/// was not kept is simulated again.
pub fn timelines<'a>(
    outcomes: impl IntoIterator<Item = &'a Outcome>,
) -> Result<String, Diagnostic> {
    timelines_with(None, outcomes, None)
}

/// The same below a `title`, in a picture of that `width`.
pub fn timelines_with<'a>(
    title: Option<&str>,
    outcomes: impl IntoIterator<Item = &'a Outcome>,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let timed = |outcome| Ok((outcome, outcome::timeline(outcome)?));
    let timed = outcomes.into_iter().map(timed).collect::<Result<Vec<_>, Diagnostic>>()?;
    let timed = timed.iter().map(|(outcome, timeline)| (*outcome, &**timeline));
    timelines_of(title, timed, width)
}

/// The same of outcomes whose timelines are at hand.
pub fn timelines_of<'a>(
    above: Option<&str>,
    timed: impl IntoIterator<Item = (&'a Outcome, &'a Timeline)>,
    width: Option<Width>,
) -> Result<String, Diagnostic> {
    let parts = timed.into_iter().map(|(outcome, timeline)| {
        Ok((outcome, title(outcome), timeline, outcome::copies(outcome)?))
    });
    let parts = parts.collect::<Result<Vec<_>, Diagnostic>>()?;
    let charts = parts.iter();
    let charts: Vec<_> = charts
        .map(|(outcome, title, timeline, copies)| {
            let costs = Some(outcome.case.problem.costs());
            Chart { title, timeline, row: "stage", copies, costs }
        })
        .collect();
    let outcomes = || parts.iter().map(|(outcome, ..)| *outcome);
    let figures: Vec<String> = outcomes().map(figures).collect();
    let shape = |one: &Outcome| (one.case.schedule.shape().stages(), one.case.microbatches());
    let shape = super::shape(outcomes().map(shape));
    let title = above.or(shape.as_deref());
    let style = Style { title, figures: &figures, width, ..Style::default() };
    Ok(gantt::svg_with(&charts, &style)?)
}

/// The bubble and the step of `outcome`, as its table has them.
fn figures(outcome: &Outcome) -> String {
    let metrics = &outcome.metrics;
    format!(
        "bubble {}, span {}, makespan {}",
        format::percent(metrics.bubble_rate()),
        format::time(metrics.span()),
        format::time(metrics.makespan())
    )
}

/// The run of an outcome with all that trace events show of it.
pub struct Traced<'a> {
    outcome: &'a Outcome,
    name: &'a str,
    run: Cow<'a, Run>,
    memory: Cow<'a, [Curve]>,
}

impl<'a> Traced<'a> {
    /// The run of `outcome` under `name`. A run that was not kept is simulated again.
    pub fn of(outcome: &'a Outcome, name: &'a str) -> Result<Self, Diagnostic> {
        let run = outcome::recorded(outcome)?;
        let memory = outcome::memory_curves(outcome, &run)?;
        Ok(Self { outcome, name, run, memory })
    }

    /// The trace events, written.
    pub fn bytes(&self) -> Result<Vec<u8>, Diagnostic> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).map_err(|error| Diagnostic::new(error.to_string()))?;
        Ok(bytes)
    }

    /// Writes the trace events, one by one.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let case = &self.outcome.case;
        let hardware = case.hardware.as_ref();
        let trace = Trace {
            name: self.name,
            timeline: &self.run.timeline,
            shape: case.schedule.shape(),
            costs: Some(case.problem.costs()),
            steps: hardware.map_or(1, |hardware| hardware.steps),
            transfers: &self.run.transfers,
            copies: &self.run.copies,
            parameters: &self.run.parameters,
            releases: &self.run.releases,
            optimizer: hardware.map_or(Nanos(0), Hardware::optimizer),
            memory: &self.memory,
        };
        trace::write(out, &trace)
    }
}
