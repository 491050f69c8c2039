//! PipeOffload: closed forms of table 1 beside the simulation, k and the slowdown of figure 1, memory
//! and throughput of figure 15, and a pipeline alone beside tensor parallelism.
//!
//! A cell that is not checked gives the reason in its convention: `not checked: ...`.

mod fig1;
mod fig15;
mod forms;
mod tensor;

use std::path::Path;

use pipeline::{Costs, Family, Fault, Footprint, Footprints, Nanos, Problem, Schedule};
use question::Diagnostic;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};

use super::cell::Cell;
use super::picture::Picture;
use super::sheets;
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};

pub(super) use self::fig1::FIGURES as FIGURE_1;
pub(super) use self::fig15::FIGURES as FIGURE_15;
pub(super) use self::tensor::FIGURES as MODELS;

const TITLE: &str = "PipeOffload: table 1, figures 1 and 15 against the simulation, tensor parallelism against the planner";
const PICTURE: &str = "PipeOffload, figure 15: throughput against memory";

/// All cells of table 1, of both figures and of the models beside tensor groups.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let expecting = |cells| sources.expecting(table.name, cells);
    let forms = expecting(forms::cells()?)?;
    let [one, fifteen] = [expecting(fig1::cells(sources)?)?, expecting(fig15::cells(sources)?)?];
    let pairs = tensor::pairs(sources)?;
    let tensor = expecting(tensor::cells(&pairs))?;
    let parts = [
        forms::sheet(&forms),
        sheets::compared("figure 1", one.iter()).and_text(fig1::NOTES),
        sheets::compared("figure 15", fifteen.iter()).and_text(fig15::NOTES),
        tensor::sheet(&pairs, &tensor),
    ];
    let sheet = parts.into_iter().reduce(|all, part| all.and_text("\n").and(part));
    let cells = [forms, one, fifteen, tensor].concat();
    Ok(Contents { title: TITLE.to_owned(), cells, sheet: sheet.unwrap_or_default() })
}

/// The picture of figure 15.
pub(super) fn picture(_: &str, cells: &[Cell]) -> Picture {
    fig15::picture(PICTURE, cells)
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
