//! PipeOffload: closed forms of table 1 beside the simulation, k and the slowdown of figure 1, memory
//! and throughput of figure 15.

mod fig1;
mod fig15;
mod forms;

use std::path::Path;

use pipeline::{Costs, Family, Fault, Footprint, Footprints, Nanos, Problem, Schedule};
use serde::de::DeserializeOwned;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};

use super::cell::{BESIDE, Cell, Check};
use super::fig9::error_in;
use super::sources::Sources;
use super::{Reproduced, Table};
use crate::accuracy;
use question::Diagnostic;
use question::format;

const TITLE: &str = "PipeOffload: table 1, figure 1 and figure 15 beside the simulation";

pub(super) fn reproduce(sources: &Sources) -> Result<Reproduced, Diagnostic> {
    let (forms, one, fifteen) = (forms::cells()?, fig1::cells(sources)?, fig15::cells(sources)?);
    let text = format!(
        "{}\n{}\n{}\n{}",
        forms::text(&forms),
        fig1::text(&one),
        beside(&fifteen),
        fig15::summary(&fifteen)
    );
    let cells = [forms, one, fifteen].concat();
    Ok(Reproduced { table: Table::Offload, title: TITLE.to_owned(), cells, text })
}

/// The lines of a file of figures.
fn lines<T: DeserializeOwned>(sources: &Sources, name: &str) -> Result<Vec<T>, Diagnostic> {
    let (path, text) = sources.text(name)?;
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let line = |line: Result<T, csv::Error>| {
        line.map_err(|error| error_in(&path, error.position(), &error.to_string()))
    };
    reader.deserialize().map(line).collect()
}

/// An error about a line of figures.
fn wrong(name: &str, row: &str, fault: &impl ToString) -> Diagnostic {
    error_in(Path::new(name), None, &format!("{row}: {}", fault.to_string()))
}

/// What a simulated schedule comes to.
struct Simulated {
    makespan: Nanos,
    work: Nanos,
    /// The most that any stage holds, in bytes of its footprints.
    peak: u64,
}

/// `family` for `problem`, timed without contention.
fn simulate(family: Family, problem: &Problem) -> Result<Simulated, Fault> {
    timed_as(&family.schedule(problem)?, problem.costs(), problem.footprints())
}

fn timed_as(
    schedule: &Schedule,
    costs: &Costs,
    footprints: &Footprints,
) -> Result<Simulated, Fault> {
    let timing = Nominal(costs);
    let timeline = timed::timeline(schedule, &timing);
    let copies = timed::host_copies(schedule, &timing, footprints);
    let peaks = activation_peaks(schedule, &timeline, &copies, footprints)?;
    let metrics = pipeline::Metrics::of(&timeline);
    let peak = peaks.into_iter().max().unwrap_or_default().0;
    Ok(Simulated { makespan: metrics.makespan(), work: metrics.work(), peak })
}

/// What is held from F to W.
const fn held(bytes: u64) -> Footprint {
    let bytes = pipeline::Bytes(bytes);
    Footprint { until_backward: bytes, until_weight: bytes }
}

/// A number of the size of the figures for JSON.
#[allow(clippy::cast_precision_loss)]
const fn exact(number: u64) -> f64 {
    number as f64
}

/// Ours beside a published figure, with the error.
fn beside(cells: &[Cell]) -> String {
    let rows = cells.iter().map(|cell| {
        let [published, ours] = [cell.published, cell.ours].map(|figure| cell.printed(figure));
        let error = format::signed_percent(accuracy::error(cell.ours, cell.published));
        vec![cell.row.clone(), cell.column.clone(), published, ours, error]
    });
    format::table(&["beside the figure", "what", "published", "ours", "error"], rows)
}

/// A cell that stands beside a measured figure, and is not checked.
fn measured(row: &str, column: &str, [published, ours]: [f64; 2]) -> Cell {
    Cell {
        table: Table::Offload.name(),
        row: row.to_owned(),
        column: column.to_owned(),
        convention: BESIDE,
        published,
        regenerated: None,
        ours,
        check: Check::NotChecked,
        corrected: None,
        digits: 3,
    }
}
