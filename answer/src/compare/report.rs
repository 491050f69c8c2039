//! A comparison as tables and as JSON.

use std::fmt::Write;

use pipeline::{Metrics, Nanos, Value};
use serde::{Serialize, Serializer};

use super::passes::{Passes, Spread};
use super::split::{Share, TimelinePart};
use super::waits::Wait;
use super::{Comparison, seconds};
use crate::outcome::Figures;
use crate::timelines::Recorded;
use measured::accuracy;
use question::format;
use question::sheet::Sheet;

/// More rows than this are left out of a table for people, with a word about it.
const ROWS: usize = 64;

/// The comparison for people: the difference by part, by pass and by stage.
#[must_use]
pub fn sheet(comparison: &Comparison<'_>) -> Sheet {
    let mut sheet = Sheet::default().headed(&headline(comparison));
    // Writing to a sheet cannot fail.
    let _ = writeln!(sheet, "predicted: {}", source(comparison.predicted));
    let _ = writeln!(sheet, "measured:  {}", source(comparison.measured));
    if let Some(beside) = comparison.beside {
        let _ = writeln!(sheet, "beside:    {}", source(beside));
    }
    let _ = writeln!(sheet);
    sheet.push(summary(comparison));
    sheet.push(split(comparison).under_a_gap());
    let mut shares = comparison.shares.iter();
    if shares.any(|(part, share)| *part == TimelinePart::Overhead && share.idle != 0) {
        let text = "idle: the time in which the mean stage runs no pass; overheads count as idle here, and not as bubble in simulate and search";
        let _ = writeln!(sheet, "\n{text}");
    }
    if let Some(text) = neighbours(comparison) {
        let _ = writeln!(sheet, "\n{text}");
    }
    sheet.push(passes(&comparison.passes).under_a_gap());
    sheet.push(stages(comparison).under_a_gap());
    if !comparison.waits.is_empty() {
        sheet.push(waits(&comparison.waits).under_a_gap());
    }
    if comparison.steps.len() > 1 {
        sheet.push(steps(comparison).under_a_gap());
    }
    sheet
}

/// The measured span, how far the predicted one is off, and the part that most of the difference is due to.
fn headline(comparison: &Comparison<'_>) -> String {
    let [predicted, measured] = &comparison.metrics;
    let error = accuracy::error(seconds(predicted.span()), seconds(measured.span()));
    let largest = comparison.shares.iter().max_by_key(|(_, share)| share.span.unsigned_abs());
    let largest =
        largest.filter(|(_, share)| share.span != 0).map_or_else(String::new, |(part, share)| {
            format!(
                "; most of the difference, {}, is due to {}",
                format::signed_time(share.span).trim(),
                part.name()
            )
        });
    format!(
        "The measured span is {}, and the prediction differs by {}{largest}.",
        format::time(measured.span()).trim(),
        format::signed_percent(error),
    )
}

fn source(one: &Recorded) -> String {
    let s = if one.steps.len() == 1 { "" } else { "s" };
    let steps = one.steps.len();
    format!("{}, {} on {}, {steps} step{s}", one.name, one.source.name(), one.device)
}

fn summary(comparison: &Comparison<'_>) -> Sheet {
    let [predicted, measured] = &comparison.metrics;
    let ends = comparison.chosen_steps().map(|step| step.ends.iter().copied().max());
    let [first, second] = ends.map(Option::unwrap_or_default);
    let time = |what: &str, [one, other]: [Nanos; 2]| {
        let error = accuracy::error(seconds(one), seconds(other));
        let cells = [format::time(one), format::time(other), signed(one, other)];
        row(what, cells, format::signed_percent(error))
    };
    let rate = |what: &str, [one, other]: [f64; 2]| {
        let cells = [format::percent(one), format::percent(other), points(other - one)];
        row(what, cells, String::new())
    };
    let rows = [
        time("step", [first, second]),
        time("makespan", [predicted.makespan(), measured.makespan()]),
        time("span", [predicted.span(), measured.span()]),
        rate("idle/span", [predicted.bubble_rate(), measured.bubble_rate()]),
        rate("idle/makespan", [predicted.bubble_rate_makespan(), measured.bubble_rate_makespan()]),
    ];
    Sheet::table(&["", "predicted", "measured", "difference", "error"], rows)
}

fn row(what: &str, cells: [String; 3], last: String) -> Vec<String> {
    [what.to_owned()].into_iter().chain(cells).chain([last]).collect()
}

fn split(comparison: &Comparison<'_>) -> Sheet {
    let parts = comparison.shares.iter().map(|(part, share)| (part.name(), share));
    let rows = parts.chain([("all", &comparison.total)]).map(|(name, share)| {
        vec![
            name.to_owned(),
            format::signed_time(share.span),
            format::signed_time(share.makespan),
            format::signed_time(share.idle),
            points(share.bubble_rate),
        ]
    });
    Sheet::table(&["the difference by", "span", "makespan", "idle, all stages", "idle/span"], rows)
}

/// Which share of the difference in span is neighbours, in words; nothing where that was not asked.
fn neighbours(comparison: &Comparison<'_>) -> Option<String> {
    let (_, share) =
        comparison.shares.iter().find(|(part, _)| *part == TimelinePart::Neighbours)?;
    let name = TimelinePart::Neighbours.name();
    let all = comparison.total.span;
    if all == 0 {
        return Some(format!("{name}: the spans do not differ"));
    }
    #[allow(clippy::cast_precision_loss)]
    let percent = 100.0 * share.span as f64 / all as f64;
    // No minus before a 0.
    let percent = percent.round() + 0.0;
    let all = format::signed_time(all);
    Some(format!("{name}: {percent} % of the difference of {all} in span"))
}

fn passes(all: &[Passes]) -> Sheet {
    let spread = |one: Spread| format!("{}..{}", format::time(one.p5), format::time(one.p95));
    let row = |one: &Passes| {
        let medians = [one.predicted.median, one.measured.median];
        let error = accuracy::error(seconds(medians[0]), seconds(medians[1]));
        vec![
            one.what.clone(),
            one.stage.to_string(),
            one.count.to_string(),
            format::time(medians[0]),
            format::time(medians[1]),
            spread(one.predicted),
            spread(one.measured),
            format::signed_percent(error),
        ]
    };
    let header = [
        "pass",
        "stage",
        "count",
        "predicted",
        "measured",
        "predicted P5..P95",
        "measured P5..P95",
        "error",
    ];
    let mut sheet = Sheet::table(&header, all.iter().take(ROWS).map(row));
    if let Some(more) = all.len().checked_sub(ROWS + 1) {
        let _ = writeln!(sheet, "and {} more: see --json", more + 1);
    }
    sheet
}

fn stages(comparison: &Comparison<'_>) -> Sheet {
    let [predicted, measured] = &comparison.metrics;
    let pairs = predicted.stages.iter().zip(&measured.stages).enumerate();
    let rows = pairs.take(ROWS).map(|(stage, (one, other))| {
        let waits = [predicted, measured].map(|metrics| {
            let busy = metrics.stages[stage].busy;
            Nanos(metrics.span().0.saturating_sub(busy.0))
        });
        vec![
            stage.to_string(),
            format::time(one.busy),
            format::time(other.busy),
            signed(one.busy, other.busy),
            format::time(waits[0]),
            format::time(waits[1]),
            signed(waits[0], waits[1]),
        ]
    });
    let header = ["stage", "busy, predicted", "measured", "difference"];
    let header: Vec<&str> =
        header.into_iter().chain(["idle, predicted", "measured", "difference"]).collect();
    Sheet::table(&header, rows)
}

fn waits(all: &[Wait]) -> Sheet {
    let rows = all.iter().map(|wait| {
        vec![
            wait.slot.to_string(),
            wait.stage.to_string(),
            wait.value.map_or_else(|| "-".to_owned(), value),
            format::time(wait.predicted),
            format::time(wait.measured),
            format::signed_time(wait.difference()),
        ]
    });
    let header = ["waits that differ", "stage", "last need", "predicted", "measured", "difference"];
    Sheet::table(&header, rows)
}

fn steps(comparison: &Comparison<'_>) -> Sheet {
    let rows = comparison.steps.iter().enumerate().take(ROWS).map(|(step, metrics)| {
        let chosen = if step == comparison.chosen[1] { "compared" } else { "" };
        vec![
            step.to_string(),
            format::time(metrics.makespan()),
            format::time(metrics.span()),
            format::percent(metrics.bubble_rate()),
            chosen.to_owned(),
        ]
    });
    Sheet::table(&["measured step", "makespan", "span", "idle/span", "median"], rows)
}

/// The pass that makes `value`, in words.
fn value(value: Value) -> String {
    match value {
        Value::Output { chunk, microbatch } => format!("output {chunk}.{microbatch}"),
        Value::Gradient { chunk, microbatch } => format!("gradient {chunk}.{microbatch}"),
        Value::Statistics { microbatch } => format!("statistics {microbatch}"),
        Value::HiddenGradient { microbatch } => format!("hidden gradient {microbatch}"),
    }
}

fn signed(before: Nanos, after: Nanos) -> String {
    format::signed_time(after.0.cast_signed().saturating_sub(before.0.cast_signed()))
}

fn points(difference: f64) -> String {
    format!("{:+.2} pp", 100.0 * difference)
}

/// The comparison, with the keys that machines rely on.
#[derive(Serialize)]
struct Json<'a> {
    headline: String,
    schedule: &'a str,
    predicted: Sum,
    measured: Sum,
    /// Which of `measured_steps` is compared: the one with the median makespan.
    measured_step: usize,
    measured_steps: Vec<Sum>,
    /// Largest of the errors of span and makespan, as a share of the measured.
    error: f64,
    /// Measured less predicted; the parts add up to `all`.
    difference: Vec<JsonShare<'a>>,
    passes: Vec<JsonPasses<'a>>,
    waits: Vec<JsonWait>,
}

#[derive(Serialize)]
struct Sum {
    #[serde(flatten)]
    figures: Figures,
    busy_ns: Vec<u64>,
}

impl From<&Metrics> for Sum {
    fn from(metrics: &Metrics) -> Self {
        let busy_ns = metrics.stages.iter().map(|stage| stage.busy.0).collect();
        Self { figures: metrics.into(), busy_ns }
    }
}

#[derive(Serialize)]
struct JsonShare<'a> {
    part: &'static str,
    #[serde(flatten)]
    share: &'a Share,
}

#[derive(Serialize)]
struct JsonPasses<'a> {
    #[serde(flatten)]
    passes: &'a Passes,
    error: f64,
}

#[derive(Serialize)]
struct JsonWait {
    slot: String,
    stage: usize,
    last_need: Option<String>,
    predicted_ns: u64,
    measured_ns: u64,
}

impl Serialize for Comparison<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json::from(self).serialize(serializer)
    }
}

impl<'a> From<&'a Comparison<'a>> for Json<'a> {
    fn from(comparison: &'a Comparison<'a>) -> Self {
        let passes = comparison.passes.iter().map(|one| JsonPasses {
            passes: one,
            error: accuracy::error(seconds(one.predicted.median), seconds(one.measured.median)),
        });
        let waits = comparison.waits.iter().map(|wait| JsonWait {
            slot: wait.slot.to_string(),
            stage: wait.stage,
            last_need: wait.value.map(value),
            predicted_ns: wait.predicted.0,
            measured_ns: wait.measured.0,
        });
        let parts = comparison.shares.iter().map(|(part, share)| (part.name(), share));
        let parts = parts.chain([("all", &comparison.total)]);
        Self {
            headline: headline(comparison),
            schedule: &comparison.measured.name,
            predicted: Sum::from(&comparison.metrics[0]),
            measured: Sum::from(&comparison.metrics[1]),
            measured_step: comparison.chosen[1],
            measured_steps: comparison.steps.iter().map(Sum::from).collect(),
            error: comparison.error(),
            difference: parts.map(|(part, share)| JsonShare { part, share }).collect(),
            passes: passes.collect(),
            waits: waits.collect(),
        }
    }
}
