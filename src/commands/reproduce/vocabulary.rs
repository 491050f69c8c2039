//! Vocabulary Parallelism's profile of one host: 1F1B over stages of unequal measured times, beside
//! the measured iteration time.

use std::path::Path;

use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
use serde::Deserialize;
use sim::Replay;

use super::cell::Cell;
use super::fig9::error_in;
use super::sources::Sources;
use super::{Reproduced, Table};
use crate::accuracy;
use crate::error::Error;
use crate::format;

const FIGURES: &str = "vocabulary.csv";

/// How far a prediction may lie from the measurement, as a share of it.
const TOLERANCE: f64 = 0.025;

const TITLE: &str = "Vocabulary Parallelism, one host of 8 A100: measured iterations of plain 1F1B \
(BASELINE and REDIS; the methods that split the vocabulary layers are not simulated)";

/// A measured run.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Run {
    method: String,
    vocab: String,
    seq: u64,
    microbatches: u64,
    iteration_ms: String,
    /// Per stage, with blanks between.
    forward_us: String,
    backward_us: String,
}

pub(super) fn reproduce(sources: &Sources) -> Result<Reproduced, Error> {
    let (path, text) = sources.text(FIGURES)?;
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let cell = |run: Result<Run, csv::Error>| {
        let run = run.map_err(|error| error_in(&path, error.position(), &error.to_string()))?;
        cell(&path, &run)
    };
    let cells = reader.deserialize().map(cell).collect::<Result<Vec<_>, _>>()?;
    let text = text_of(&cells);
    Ok(Reproduced { table: Table::Vocabulary, title: TITLE.to_owned(), cells, text })
}

fn cell(path: &Path, run: &Run) -> Result<Cell, Error> {
    let Run { method, vocab, seq, iteration_ms, .. } = run;
    let row = format!("{method}, vocabulary {vocab}, sequence {seq}");
    let wrong = |message: String| error_in(path, None, &format!("{row}: {message}"));
    let published = iteration_ms.parse::<f64>().ok();
    let published = published.filter(|time| time.is_finite() && *time > 0.0);
    let published = published.ok_or_else(|| wrong(format!("`{iteration_ms}` is no time")))?;
    let ours = milliseconds(predict(run).map_err(wrong)?);
    Ok(Cell {
        table: Table::Vocabulary.name(),
        row,
        column: "iteration ms".to_owned(),
        convention: "measured",
        published,
        regenerated: None,
        ours,
        matches: accuracy::error(ours, published).abs() <= TOLERANCE,
        corrected: None,
        digits: iteration_ms.split_once('.').map_or(0, |(_, decimals)| decimals.len()),
    })
}

/// The makespan of 1F1B with the measured times per stage and transfers that take no time.
fn predict(run: &Run) -> Result<Nanos, String> {
    let times = |text: &str| {
        let times = text.split_whitespace().map(|micros| format!("{micros}us").parse());
        times.collect::<Result<Vec<Nanos>, _>>().map_err(|error| error.to_string())
    };
    let (forward, backward) = (times(&run.forward_us)?, times(&run.backward_us)?);
    if forward.len() != backward.len() {
        let (forward, backward) = (forward.len(), backward.len());
        return Err(format!("{forward} forward times, but {backward} backward times"));
    }
    let stages = forward.iter().zip(&backward).map(|(&forward, &backward)| PassTimes {
        forward,
        backward_input: backward,
        backward_weight: Nanos(0),
    });
    let makespan = || {
        let shape = Shape::new(forward.len() as u64, 1, run.microbatches)?;
        let problem = Problem::new(shape, Costs::new(stages.collect(), Nanos(0)))?;
        let schedule = Family::OneFOneB.schedule(&problem)?;
        Ok(Replay::new().metrics(&schedule, problem.costs())?.makespan())
    };
    makespan().map_err(|fault: pipeline::Fault| fault.to_string())
}

#[allow(clippy::cast_precision_loss)]
fn milliseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

fn text_of(cells: &[Cell]) -> String {
    let errors = cells.iter().map(|cell| accuracy::error(cell.ours, cell.published));
    let errors: Vec<f64> = errors.collect();
    let rows = cells.iter().zip(&errors).map(|(cell, error)| {
        let times = [cell.published, cell.ours].map(|time| format!("{} ms", cell.printed(time)));
        let [measured, predicted] = times;
        vec![cell.row.clone(), measured, predicted, format::signed_percent(*error)]
    });
    let table = format::table(&["run", "measured", "predicted", "error"], rows);
    let mean = format::percent(accuracy::mean_absolute(&errors));
    format!("{table}\nmean absolute error {mean}\n")
}
