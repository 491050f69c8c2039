//! Vocabulary Parallelism: its profile of one host beside our times, its peaks, scaling, memory and gains.
//!
//! [`profile`] times the measured stages of every method; [`scaling`] fits table 3, and [`machine`] the
//! timers of the profile; by their constants [`tables`] foretells the gains of tables 5 and 6, and by
//! [`memory`] their memory. All cells are measurements, but for the peaks, which the paper proves.

mod least_squares;
mod machine;
mod memory;
mod profile;
mod scaling;
mod tables;

use question::Diagnostic;
use question::format;
use question::sheet::Sheet;

use self::machine::Machine;
use super::cell::{Cell, Check};
use super::sources::Sources;
use super::tables::{Contents, Table};
use measured::accuracy;

pub(super) use self::profile::FIGURES as PROFILE;
pub(super) use self::scaling::FIGURES as SCALING;
pub(super) use self::tables::FIGURES as TABLES;

const TITLE: &str = "Vocabulary Parallelism: one host of 8 A100, measured and simulated; peaks; \
scaling, memory and gains of tables 3, 5 and 6 by constants fitted to other rows";

/// A column of measurements.
struct Column {
    name: &'static str,
    /// The largest error of a prediction that matches, as a share of the measurement.
    tolerance: f64,
    /// The quantities that predictions are computed from.
    from: &'static str,
}

const ITERATION: Column = Column {
    name: "iteration ms",
    tolerance: 0.025,
    from: "the measured times of each stage, S : T as their FLOPs, barriers that take no time",
};
const SCALING_OUTPUT: Column = Column {
    name: "scaling of the output layer %",
    tolerance: 0.02,
    from: "what each algorithm does more, what is done once for every pass, more than one node",
};
const SCALING_INPUT: Column = Column {
    name: "scaling of the input layer %",
    tolerance: 0.1,
    from: "the numbers of an activation that every shard handles, beside its part of the gradients",
};
const MEMORY: Column = Column {
    name: "memory GB",
    tolerance: 0.03,
    from: "16 bytes per parameter of a stage, 34bsh per layer and microbatch of the peak, and what a pass \
           works in",
};
const DIFFERENCE: Column = Column {
    name: "memory over VOCAB-2 GB",
    tolerance: 0.03,
    from: "34bsh per layer and microbatch that the peak has more",
};
const GAIN: Column = Column {
    name: "MFU over BASELINE",
    tolerance: 0.05,
    from: "the times of layers, the vocabulary layers and hops by the constants below; of several nodes with \
           the hops of one",
};
/// The same of several nodes, whose hops no timer of the profile has.
const GAIN_OF_NODES: Column = Column { tolerance: 0.08, ..GAIN };

/// Whether a row is one of those to which constants of its prediction were fitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Fitted,
    HeldOut,
}

impl Fit {
    const fn of(fitted: bool) -> Self {
        if fitted { Self::Fitted } else { Self::HeldOut }
    }

    const fn convention(self) -> &'static str {
        match self {
            Self::Fitted => FITTED,
            Self::HeldOut => "measured",
        }
    }
}

/// The convention of a measurement to which constants were fitted.
const FITTED: &str = "measured, fitted to";

/// The peak in microbatches.
const PEAK: &str = "peak M_B";
/// How many pairs of methods the prediction puts in another order.
const RANKING: &str = "pairs in another order";

/// All cells: those of the profile, of table 3, and of tables 5 and 6.
pub(super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let (path, runs) = profile::runs(sources)?;
    let mut cells = profile::cells(&path, &runs)?;
    let (scaling, shares) = scaling::cells(sources)?;
    cells.extend(shares);
    let machine = Machine::fitted(&path, &runs, scaling)?;
    let (held, of_tables) = tables::cells(sources, &machine)?;
    cells.extend(of_tables);
    let sheet = sheet(&cells).and_text(format!("\n{}{}", machine.in_words(), held.in_words()));
    Ok(Contents { title: TITLE.to_owned(), sheet, cells })
}

impl Column {
    /// A measurement with `digits` behind the point, beside `ours`.
    fn cell(&self, row: String, fit: Fit, published: f64, ours: f64, digits: usize) -> Cell {
        let check = Check::of(accuracy::error(ours, published).abs() <= self.tolerance);
        Cell { digits, ..Cell::new(row, self.name, fit.convention(), [published, ours], check) }
    }
}

/// A count that must equal the published one.
fn exact(row: String, column: &str, convention: &'static str, [published, ours]: [f64; 2]) -> Cell {
    #[allow(clippy::float_cmp)] // Both are whole.
    let check = Check::of(ours == published);
    Cell::new(row, column, convention, [published, ours], check)
}

fn sheet(cells: &[Cell]) -> Sheet {
    let measured = [&ITERATION, &SCALING_OUTPUT, &SCALING_INPUT, &MEMORY, &DIFFERENCE, &GAIN]
        .map(|column| measured(column, cells));
    let counted = [PEAK, RANKING].map(|column| {
        let of_column = cells.iter().filter(|cell| cell.column == column);
        let rows = of_column.map(|cell| {
            vec![cell.row.clone(), cell.printed(cell.published), cell.ours.to_string()]
        });
        Sheet::table(&[column, "published", "ours"], rows)
    });
    let parts = measured.into_iter().chain(counted);
    parts.reduce(|sheet, part| sheet.and_text("\n").and(part)).unwrap_or_default()
}

/// Which cells belong to a group.
type Chosen<'a> = &'a dyn Fn(&Cell) -> bool;

/// The cells of `column` with their errors, and the mean of these by method.
fn measured(column: &Column, cells: &[Cell]) -> Sheet {
    let of_column: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column.name).collect();
    let error = |cell: &Cell| accuracy::error(cell.ours, cell.published);
    let rows = of_column.iter().map(|cell| {
        let [measured, predicted] = [cell.published, cell.ours].map(|figure| cell.printed(figure));
        vec![cell.row.clone(), measured, predicted, format::signed_percent(error(cell))]
    });
    let table = Sheet::table(&[column.name, "measured", "predicted", "error"], rows);
    let summary = |chosen: Chosen<'_>| {
        let chosen = of_column.iter().filter(|cell| chosen(cell));
        let errors: Vec<f64> = chosen.map(|cell| error(cell)).collect();
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
    table.and_text(format!("\nfrom {from}\nmean absolute error: {means}\n"))
}
