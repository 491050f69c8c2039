//! PipeOffload: closed forms of table 1 beside the simulation, k and the slowdown of figure 1, memory
//! and throughput of figure 15.

mod fig1;
mod fig15;
mod forms;

use std::path::Path;

use pipeline::{Costs, Family, Fault, Footprint, Footprints, Nanos, Problem, Schedule};
use question::Diagnostic;
use question::format;
use question::sheet::Sheet;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};

use super::cell::{BESIDE, Cell, Check};
use super::sources::{Sources, error_in};
use super::tables::{Contents, Table};
use crate::accuracy;

pub(super) use self::fig1::FIGURES as FIGURE_1;
pub(super) use self::fig15::FIGURES as FIGURE_15;

const TITLE: &str = "PipeOffload: table 1, figure 1 and figure 15 beside the simulation";

/// All cells of table 1 and both figures.
pub(super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (forms, one, fifteen) = (forms::cells()?, fig1::cells(sources)?, fig15::cells(sources)?);
    let sheet = forms::sheet(&forms)
        .and_text("\n")
        .and(fig1::sheet(&one))
        .and_text("\n")
        .and(beside(&fifteen))
        .and_text(format!("\n{}", fig15::summary(&fifteen)));
    Ok(Contents { title: TITLE.to_owned(), cells: [forms, one, fifteen].concat(), sheet })
}

/// An error about a line of figures.
fn wrong(name: &str, row: &str, fault: &impl ToString) -> Diagnostic {
    error_in(Path::new(name), None, &format!("{row}: {}", fault.to_string()))
}

/// Times and memory of a simulated schedule.
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

/// The footprint of `bytes` that are held from F to W.
const fn held(bytes: u64) -> Footprint {
    let bytes = pipeline::Bytes(bytes);
    Footprint { until_backward: bytes, until_weight: bytes }
}

/// Ours beside a published figure, with the error.
fn beside(cells: &[Cell]) -> Sheet {
    let rows = cells.iter().map(|cell| {
        let [published, ours] = [cell.published, cell.ours].map(|figure| cell.printed(figure));
        let error = format::signed_percent(accuracy::error(cell.ours, cell.published));
        vec![cell.row.clone(), cell.column.clone(), published, ours, error]
    });
    Sheet::table(&["beside the figure", "what", "published", "ours", "error"], rows)
}

/// A cell that stands beside a measured figure, and is not checked.
fn measured(row: &str, column: &str, figures: [f64; 2]) -> Cell {
    Cell { digits: 3, ..Cell::new(row, column, BESIDE, figures, Check::NotChecked) }
}
