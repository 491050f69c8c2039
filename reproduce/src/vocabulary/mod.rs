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
use question::sheet::Sheet;

use self::columns::{Column, DIFFERENCE, GAIN, ITERATION, MEMORY, SCALING_INPUT, SCALING_OUTPUT};
use self::machine::Machine;
use super::cell::Cell;
use super::sheets;
use super::sources::Sources;
use super::table::{Contents, Table};

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
    let columns = [ITERATION, SCALING_OUTPUT, SCALING_INPUT, MEMORY, DIFFERENCE, GAIN];
    let from = columns.map(|Column { name, from, .. }| format!("{name}: from {from}\n"));
    sheets::compared("run", cells.iter()).and_text(format!("\n{}", from.concat()))
}
