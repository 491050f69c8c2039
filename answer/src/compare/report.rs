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
use question::sheet::Sheet;
use question::{format, object, table};

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
    let time = |what, [one, other]: [Nanos; 2]| {
        let cells = [format::time(one), format::time(other), signed(one, other)];
        (what, cells, format::signed_percent(accuracy::error(seconds(one), seconds(other))))
    };
    let rate = |what, [one, other]: [f64; 2]| {
        let cells = [format::percent(one), format::percent(other), points(other - one)];
        (what, cells, String::new())
    };
    let rows = [
        time("step", ends.map(Option::unwrap_or_default)),
        time("makespan", [predicted.makespan(), measured.makespan()]),
        time("span", [predicted.span(), measured.span()]),
        rate("idle/span", [predicted.bubble_rate(), measured.bubble_rate()]),
        rate("idle/makespan", [predicted.bubble_rate_makespan(), measured.bubble_rate_makespan()]),
    ];
    table!(
        (what, [predicted, measured, difference], error) = rows,
        "" = what,
        "predicted" = predicted,
        "measured" = measured,
        "difference" = difference,
        "error" = error,
    )
}

fn split(comparison: &Comparison<'_>) -> Sheet {
    table!(
        (name, share) = named(comparison),
        "the difference by" = name,
        "span" = format::signed_time(share.span),
        "makespan" = format::signed_time(share.makespan),
        "idle, all stages" = format::signed_time(share.idle),
        "idle/span" = points(share.bubble_rate),
    )
}

/// The parts of the difference by name, and all of it.
fn named<'a>(comparison: &'a Comparison<'_>) -> impl Iterator<Item = (&'static str, &'a Share)> {
    let parts = comparison.shares.iter().map(|(part, share)| (part.name(), share));
    parts.chain([("all", &comparison.total)])
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
    let sheet = table!(
        one = all.iter().take(ROWS),
        "pass" = one.what,
        "stage" = one.stage,
        "count" = one.count,
        "predicted" = one.predicted.median,
        "measured" = one.measured.median,
        "predicted P5..P95" = spread(one.predicted),
        "measured P5..P95" = spread(one.measured),
        "error" = format::signed_percent(one.error()),
    );
    match all.len().saturating_sub(ROWS) {
        0 => sheet,
        more => sheet.and_text(format!("and {more} more: see --json\n")),
    }
}

fn stages(comparison: &Comparison<'_>) -> Sheet {
    let [predicted, measured] = &comparison.metrics;
    let waits = |metrics: &Metrics, busy: Nanos| Nanos(metrics.span().0.saturating_sub(busy.0));
    let rows = predicted.stages.iter().zip(&measured.stages).enumerate().take(ROWS);
    table!(
        (stage, busy, idle) = rows.map(|(stage, (one, other))| {
            let busy = [one.busy, other.busy];
            (stage, busy, [waits(predicted, busy[0]), waits(measured, busy[1])])
        }),
        "stage" = stage,
        "busy, predicted" = busy[0],
        "measured" = busy[1],
        "difference" = signed(busy[0], busy[1]),
        "idle, predicted" = idle[0],
        "measured" = idle[1],
        "difference" = signed(idle[0], idle[1]),
    )
}

fn waits(all: &[Wait]) -> Sheet {
    table!(
        wait = all,
        "waits that differ" = wait.slot.to_string(),
        "stage" = wait.stage,
        "last need" = wait.value.map(value),
        "predicted" = wait.predicted,
        "measured" = wait.measured,
        "difference" = format::signed_time(wait.difference()),
    )
}

fn steps(comparison: &Comparison<'_>) -> Sheet {
    table!(
        (step, metrics) = comparison.steps.iter().enumerate().take(ROWS),
        "measured step" = step,
        "makespan" = metrics.makespan(),
        "span" = metrics.span(),
        "idle/span" = format::percent(metrics.bubble_rate()),
        "median" = if step == comparison.chosen[1] { "compared" } else { "" },
    )
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

/// The metrics of a step, for machines.
fn sum(metrics: &Metrics) -> impl Serialize {
    object!(
        flat(figures) = Figures::from(metrics),
        [busy_ns] = metrics.stages.iter().map(|stage| stage.busy.0),
    )
}

/// The keys that machines rely on.
impl Serialize for Comparison<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let difference = named(self).map(|(part, share)| object!(part = part, flat(share) = share));
        let passes = self.passes.iter().map(|one| object!(flat(passes) = one, error = one.error()));
        let waits = self.waits.iter().map(|wait| {
            object!(
                slot = wait.slot.to_string(),
                stage = wait.stage,
                last_need = wait.value.map(value),
                predicted_ns = wait.predicted.0,
                measured_ns = wait.measured.0,
            )
        });
        object!(
            headline = headline(self),
            schedule = &self.measured.name,
            predicted = sum(&self.metrics[0]),
            measured = sum(&self.metrics[1]),
            // Which of `measured_steps` is compared: the one with the median makespan.
            measured_step = self.chosen[1],
            [measured_steps] = self.steps.iter().map(sum),
            // Largest of the errors of span and makespan, as a share of the measured.
            error = self.error(),
            // Measured less predicted; the parts add up to `all`.
            [difference] = difference,
            [passes] = passes,
            [waits] = waits,
        )
        .serialize(serializer)
    }
}
