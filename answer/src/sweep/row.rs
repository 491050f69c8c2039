//! The rows of a sweep: one question, its answer, as a line of CSV.

use std::fmt::Display;
use std::io::Write as _;

use pipeline::Metrics;
use sim::lanes::StepTimes;
use sim::monte_carlo::{MonteCarlo, Summary};

use question::Diagnostic;
use question::hardware::Hardware;
use question::sweep::columns::{
    self, Columns, DISTRIBUTIONS_COUNT, HARDWARE_COUNT, METRICS_COUNT, NOISE_FREE_COUNT,
};
use question::sweep::grid::{Grid, GridQuestion};

use crate::hardware::Report;
use crate::outcome::Outcome;

/// Begins the row of question number `index`, which is `question`, with its name and its values on the axes.
pub(super) fn begin(
    grid: &Grid,
    columns: &Columns,
    index: u64,
    question: &GridQuestion<'_>,
    rows: &mut Vec<u8>,
) {
    let mut line = Line { rows };
    line.add(index);
    line.text(question.setting.name.as_deref().unwrap_or_default());
    for (label, _) in grid.labels(&question.places).zip(&columns.axes).filter(|(_, own)| **own) {
        line.text(&label);
    }
}

/// Adds the row of question number `index`, which could not be read for `error`.
pub(super) fn unread(columns: &Columns, index: u64, error: &Diagnostic, rows: &mut Vec<u8>) {
    let mut line = Line { rows };
    line.add(index);
    line.skip(1 + columns.axes.iter().filter(|own| **own).count() + METRICS_COUNT);
    skip_groups(&mut line, columns);
    line.text(&error.to_string());
    line.end();
}

/// Ends the row of `question`, which [`begin`] has begun, with its outcome or the reason why it has none.
pub(super) fn end(
    columns: &Columns,
    question: &GridQuestion<'_>,
    outcome: Result<&Outcome, &Diagnostic>,
    rows: &mut Vec<u8>,
) {
    let mut line = Line { rows };
    match outcome {
        Ok(outcome) => {
            add_metrics(&mut line, outcome);
            add_groups(&mut line, columns, outcome);
            line.skip(1);
        }
        Err(error) => add_failure(&mut line, columns, question, error),
    }
    line.end();
}

/// The parts of a row of `outcome` before and after its [times](add_times).
pub(super) fn around_times(columns: &Columns, outcome: &Outcome) -> [Vec<u8>; 2] {
    let [mut before, mut after] = [Vec::new(), Vec::new()];
    add_order(&mut Line { rows: &mut before }, outcome);
    let mut line = Line { rows: &mut after };
    add_memory(&mut line, outcome);
    add_groups(&mut line, columns, outcome);
    line.skip(1);
    line.end();
    [before, after]
}

/// Adds the times of a step.
pub(super) fn add_times(rows: &mut Vec<u8>, times: &StepTimes) {
    let mut line = Line { rows };
    line.add(times.bubble_rate_of(times.span));
    line.add(times.bubble_rate_of(times.makespan));
    line.add(times.span.0);
    line.add(times.makespan.0);
    line.add(times.work().0);
}

/// A row of the metrics of a sweep for each of `outcomes`, with its setting, below a header.
#[must_use]
pub fn of_outcomes(outcomes: &[Outcome]) -> Vec<u8> {
    let names: Vec<&str> = ["setting"].into_iter().chain(columns::metrics()).collect();
    let mut rows = (names.join(",") + "\n").into_bytes();
    for outcome in outcomes {
        let mut line = Line { rows: &mut rows };
        line.text(outcome.case.setting.as_deref().unwrap_or_default());
        add_metrics(&mut line, outcome);
        line.end();
    }
    rows
}

fn skip_groups(line: &mut Line<'_>, columns: &Columns) {
    let groups = [
        (columns.asynchronous, 1),
        (columns.noise, NOISE_FREE_COUNT),
        (columns.replicas, 1 + DISTRIBUTIONS_COUNT),
        (columns.hardware, HARDWARE_COUNT),
    ];
    line.skip(groups.into_iter().filter(|(has, _)| *has).map(|(_, count)| count).sum());
}

fn add_metrics(line: &mut Line<'_>, outcome: &Outcome) {
    add_order(line, outcome);
    add_times(line.rows, &StepTimes::from(&outcome.metrics));
    add_memory(line, outcome);
}

fn add_order(line: &mut Line<'_>, outcome: &Outcome) {
    let shape = outcome.case.schedule.shape();
    line.text(&outcome.case.name);
    line.add(shape.stages());
    line.add(outcome.case.microbatches());
    line.add(shape.chunks_per_stage());
}

fn add_memory(line: &mut Line<'_>, outcome: &Outcome) {
    let (stage, peak) = outcome.worst();
    line.add(stage);
    line.add_some(outcome.case.has_footprints.then_some(peak.0));
    line.add(outcome.in_microbatches(peak));
    line.add(outcome.in_flight.iter().max().copied().unwrap_or(0));
    line.add_some(outcome.fits());
}

fn add_groups(line: &mut Line<'_>, columns: &Columns, outcome: &Outcome) {
    if columns.asynchronous {
        line.add(outcome.is_asynchronous());
    }
    if columns.noise {
        match &outcome.noise_free {
            Some(metrics) => add_noise_free(line, metrics),
            None => line.skip(NOISE_FREE_COUNT),
        }
    }
    if columns.replicas {
        match &outcome.monte_carlo {
            Some(all) => add_distributions(line, all),
            None => line.skip(1 + DISTRIBUTIONS_COUNT),
        }
    }
    if columns.hardware {
        match (&outcome.report, &outcome.case.hardware) {
            (Some(report), Some(hardware)) => add_hardware(line, report, hardware),
            _ => line.skip(HARDWARE_COUNT),
        }
    }
}

fn add_noise_free(line: &mut Line<'_>, metrics: &Metrics) {
    line.add(metrics.bubble_rate());
    line.add(metrics.bubble_rate_makespan());
    line.add(metrics.span().0);
    line.add(metrics.makespan().0);
}

fn add_distributions(line: &mut Line<'_>, all: &MonteCarlo) {
    line.add(all.replicas);
    add_distribution(line, &all.span);
    add_distribution(line, &all.makespan);
    add_distribution(line, &all.bubble_rate);
    add_distribution(line, &all.bubble_rate_makespan);
}

fn add_distribution<T: Copy + Display>(line: &mut Line<'_>, summary: &Summary<T>) {
    line.add(summary.mean);
    line.add_ends(summary.mean_ci95);
    line.add(summary.stddev);
    line.add(summary.min);
    for percentile in [&summary.p50, &summary.p95, &summary.p99] {
        line.add(percentile.value);
        line.add_ends(percentile.ci95);
    }
    line.add(summary.max);
}

fn add_hardware(line: &mut Line<'_>, report: &Report, hardware: &Hardware) {
    line.add(report.step_time.0);
    line.add(hardware.steps);
    let busiest = report.busiest(hardware);
    line.text(busiest.map_or("", |(wire, _)| &hardware.cluster.wires()[wire].name));
    line.add_some(busiest.map(|(_, used)| used));
    let fullest = report.fullest();
    line.add_some(fullest.map(|peak| peak.device));
    line.add_some(fullest.map(|peak| peak.bytes.0));
    line.add_some(fullest.map(|peak| peak.at.0));
    let full = report.out_of_memory();
    let overflow = full.and_then(|peak| peak.overflow.as_ref());
    line.add_some(full.map(|peak| peak.device));
    line.add_some(overflow.map(|overflow| overflow.at.0));
    line.add_some(overflow.map(|overflow| overflow.by.0));
}

/// Adds the question, and the reason why it has no answer.
fn add_failure(
    line: &mut Line<'_>,
    columns: &Columns,
    question: &GridQuestion<'_>,
    error: &Diagnostic,
) {
    let keys = &question.setting.keys;
    line.text(question.rule.name());
    line.add_some(keys.stages);
    line.add_some(keys.microbatches);
    line.add_some(keys.chunks);
    line.skip(METRICS_COUNT - 4);
    if columns.asynchronous {
        line.add(question.rule.is_asynchronous());
    }
    if columns.noise {
        line.skip(NOISE_FREE_COUNT);
    }
    if columns.replicas {
        line.add_some(keys.replicas);
        line.skip(DISTRIBUTIONS_COUNT);
    }
    if columns.hardware {
        line.skip(1);
        line.add_some(keys.hardware.steps);
        line.skip(HARDWARE_COUNT - 2);
    }
    // One line per row, even for long messages.
    line.text(&error.to_string().replace(['\n', '\r'], " "));
}

/// A line that is being written: every field ends with a comma, the last one with the line.
struct Line<'a> {
    rows: &'a mut Vec<u8>,
}

impl Line<'_> {
    /// A number or a truth.
    fn add(&mut self, value: impl Display) {
        // Writing to memory cannot fail.
        let _ = write!(self.rows, "{value},");
    }

    fn add_some(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.add(value),
            None => self.skip(1),
        }
    }

    fn add_ends(&mut self, ends: Option<[impl Display + Copy; 2]>) {
        self.add_some(ends.map(|ends| ends[0]));
        self.add_some(ends.map(|ends| ends[1]));
    }

    fn text(&mut self, text: &str) {
        match text.contains([',', '"', '\n', '\r']) {
            true => self.add(format_args!("\"{}\"", text.replace('"', "\"\""))),
            false => self.add(text),
        }
    }

    fn skip(&mut self, fields: usize) {
        self.rows.extend(std::iter::repeat_n(b',', fields));
    }

    fn end(self) {
        if let Some(last) = self.rows.last_mut() {
            *last = b'\n';
        }
    }
}
