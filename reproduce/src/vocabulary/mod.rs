//! Vocabulary Parallelism: its profile of one host beside our times, its peaks, scaling, memory and gains.
//!
//! [`profile`] times the measured stages of every method; [`scaling`] fits table 3, and [`machine`] the
//! timers of the profile; by their constants [`tables`] foretells the gains of tables 5 and 6, and by
//! [`memory`] their memory. All cells are measurements, but for the peaks, which the paper proves.

mod columns;
mod least_squares;
mod machine;
mod memory;
mod profile;
mod scaling;
mod tables;

use question::Diagnostic;
use question::format;
use question::sheet::Sheet;

use self::columns::{
    Column, DIFFERENCE, FITTED, GAIN, GAIN_OVER_REDIS, ITERATION, MEMORY, PEAK, RANKING,
    SCALING_INPUT, SCALING_OUTPUT,
};
use self::machine::Machine;
use super::cell::Cell;
use super::sources::Sources;
use super::table::{Contents, Table};
use measured::accuracy;

pub(super) use self::profile::FIGURES as PROFILE;
pub(super) use self::scaling::FIGURES as SCALING;
pub(super) use self::tables::{FIGURES as TABLES, SETTINGS};

const TITLE: &str = "Vocabulary Parallelism: one host of 8 A100, measured and simulated; peaks; \
scaling, memory and gains of tables 3, 5 and 6 by constants fitted to other rows";

/// All cells: those of the profile, of table 3, and of tables 5 and 6.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (path, runs) = profile::runs(sources)?;
    let mut cells = profile::cells(&path, &runs)?;
    let (scaling, shares) = scaling::cells(sources)?;
    cells.extend(shares);
    let machine = Machine::fitted(&path, &runs, scaling)?;
    let (held, of_tables) = tables::cells(sources, &machine)?;
    cells.extend(of_tables);
    let words = format!("\n{}{}", machine.in_words(), held.in_words());
    Contents::of(table, sources, TITLE, cells, |cells| sheet(cells).and_text(words))
}

/// Gains over the better method without shards, in per cent, in every setting of the paper: of 1F1B and of V-Half.
pub(super) fn gains(sources: &Sources<'_>) -> Result<[Vec<f64>; 2], Diagnostic> {
    let (path, runs) = profile::runs(sources)?;
    let (scaling, _) = scaling::cells(sources)?;
    tables::gains(sources, &Machine::fitted(&path, &runs, scaling)?)
}

fn sheet(cells: &[Cell]) -> Sheet {
    let columns = [
        &ITERATION,
        &SCALING_OUTPUT,
        &SCALING_INPUT,
        &MEMORY,
        &DIFFERENCE,
        &GAIN,
        &GAIN_OVER_REDIS,
    ];
    let measured = columns.map(|column| measured(column, cells));
    let counted = [PEAK, RANKING].map(|column| {
        let of_column = cells.iter().filter(|cell| cell.column == column);
        let rows = of_column
            .map(|cell| std::iter::once(cell.row.clone()).chain(cell.compared()).collect());
        Sheet::table(&[column, "published", "ours", "deviation", "match"], rows)
    });
    let parts = measured.into_iter().chain(counted);
    parts.reduce(|sheet, part| sheet.and_text("\n").and(part)).unwrap_or_default()
}

/// Which cells belong to a group.
type Chosen<'a> = &'a dyn Fn(&Cell) -> bool;

/// The cells of `column` with their errors, and the mean of these by method.
fn measured(column: &Column, cells: &[Cell]) -> Sheet {
    let of_column: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column.name).collect();
    let rows = of_column
        .iter()
        .map(|cell| std::iter::once(cell.row.clone()).chain(cell.compared()).collect());
    let head = [column.name, "measured", "predicted", "deviation", "match"];
    let table = Sheet::table(&head, rows);
    let summary = |chosen: Chosen<'_>| {
        let chosen = of_column.iter().filter(|cell| chosen(cell));
        let errors: Vec<f64> = chosen.filter_map(|cell| cell.deviation()).collect();
        let most = errors.iter().map(|error| error.abs()).reduce(f64::max)?;
        let mean = format::percent(accuracy::mean_absolute(&errors));
        Some(format!("{mean} of {} rows, at most {}", errors.len(), format::percent(most)))
    };
    let groups: [(&str, Chosen<'_>); 2] = match column.name == ITERATION.name {
        true => [
            ("in shards", &|cell| !profile::is_whole(&cell.row)),
            ("BASELINE and REDIS", &|cell| profile::is_whole(&cell.row)),
        ],
        false => [
            ("fitted", &|cell| cell.convention == FITTED),
            ("held out", &|cell| cell.convention != FITTED),
        ],
    };
    let means =
        groups.into_iter().filter_map(|(name, of)| Some(format!("{name} {}", summary(of)?)));
    let means: Vec<String> = means.collect();
    let (from, means) = (column.from, means.join("; "));
    table.and_text(format!("\nfrom {from}\nmean size of the deviations: {means}\n"))
}
