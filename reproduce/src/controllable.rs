//! Controllable Memory: bubble and peak memory of V-Min, V-Half and the adaptive V, beside the results
//! of the authors' own code on the same questions.

use std::path::Path;

use pipeline::{
    Bytes, Costs, Family, Fault, Limit, Nanos, PassTimes, Problem, Shape, peak_in_flight,
};
use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;
use sim::Replay;

use super::cell::{Basis, Cell, Figure, whole};
use super::check::{Check, Evidence};
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};

/// The file of its questions and figures.
pub(super) const FIGURES: &str = "controllable.csv";

const TITLE: &str = "Controllable Memory: bubble (longest span less the work of a stage) and most \
chunk activations, regenerated with the authors' code; the paper's own figures were not available";

const EQUAL: Check = Check::Absolute(0.0);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Figures {
    schedule: String,
    stages: u64,
    microbatches: u64,
    forward_ns: u64,
    backward_input_ns: u64,
    backward_weight_ns: u64,
    /// Chunk activations that fit, where the schedule honours a limit.
    limit_chunks: Option<u64>,
    span_ns: u64,
    peak_chunks: u64,
}

/// All cells: bubble and peak of each question.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (path, all) = sources.records::<Figures>(FIGURES)?;
    let mut cells = Vec::new();
    for figures in &all {
        cells.extend(cells_of(&path, figures)?);
    }
    Contents::of(table, sources, TITLE, cells, sheet)
}

fn cells_of(path: &Path, figures: &Figures) -> Result<[Cell; 2], Diagnostic> {
    let Figures { schedule, stages, microbatches, forward_ns, backward_input_ns, .. } = figures;
    let limit = figures.limit_chunks.map_or(String::new(), |limit| format!(" k={limit}"));
    let row = format!(
        "{schedule} p={stages} m={microbatches}{limit} F,B,W={forward_ns},{backward_input_ns},{}",
        figures.backward_weight_ns
    );
    let wrong = |message: &str| error_in(path, None, &format!("{row}: {message}"));
    let family = Family::named(schedule).ok_or_else(|| wrong("there is no such schedule"))?;
    let (work, span, peak) =
        simulate(family, figures).map_err(|fault| wrong(&fault.to_string()))?;
    let bubble = |span: u64| span.checked_sub(work).ok_or_else(|| wrong("the span is too short"));
    let cell = |column: &str, convention, published: u64, ours: u64| {
        let basis = Basis::new(convention, Evidence::Computed, EQUAL);
        Figure::new(row.as_str(), column, basis, whole(published)).beside(whole(ours))
    };
    Ok([
        cell("bubble ns", "span", bubble(figures.span_ns)?, bubble(span)?),
        cell("peak chunks", "worst stage", figures.peak_chunks, peak),
    ])
}

/// Work of a stage, longest span and most chunk activations.
fn simulate(family: Family, figures: &Figures) -> Result<(u64, u64, u64), Fault> {
    let shape = Shape::new(figures.stages, 2, figures.microbatches)?;
    let times = PassTimes::new(
        Nanos(figures.forward_ns),
        Nanos(figures.backward_input_ns),
        Nanos(figures.backward_weight_ns),
    );
    let mut problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0)))?;
    if let Some(limit) = figures.limit_chunks {
        problem = problem.with_limit(Limit::Bytes(Bytes(limit)));
    }
    let schedule = family.schedule(&problem)?;
    let metrics = Replay::new().metrics(&schedule, problem.costs())?;
    let peak = peak_in_flight(&schedule).into_iter().max().unwrap_or(0);
    Ok((metrics.work().0, metrics.span().0, u64::from(peak)))
}

fn sheet(cells: &[Cell]) -> Sheet {
    let rows = cells.chunks(2).map(|pair| {
        std::iter::once(pair[0].row.clone()).chain(pair.iter().map(Cell::exact_pair)).collect()
    });
    Sheet::table(["regenerated = ours", "bubble, ns", "peak, chunks"], rows)
}
