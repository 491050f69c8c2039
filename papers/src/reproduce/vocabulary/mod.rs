//! Vocabulary Parallelism: its profile of one host beside our times, its peaks, memory and gains.
//!
//! [`profile`] times the measured stages of every method; [`tables`] asks how far FLOPs and bytes alone
//! explain tables 5 and 6. All cells are measurements, but for the peaks, which the paper proves.

mod profile;
mod tables;

use question::Diagnostic;
use question::format;
use question::sheet::Sheet;

use super::cell::{Cell, Check};
use super::sources::Sources;
use super::tables::{Contents, Table};
use crate::accuracy;

pub(super) use self::profile::FIGURES as PROFILE;
pub(super) use self::tables::FIGURES as TABLES;

const TITLE: &str = "Vocabulary Parallelism: one host of 8 A100, measured and simulated; peaks; \
memory and gains of tables 5 and 6 from bytes and FLOPs";

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
const MEMORY: Column = Column {
    name: "memory GB",
    tolerance: 0.03,
    from: "18 bytes per parameter of a stage, 34bsh per layer and microbatch of the peak",
};
const DIFFERENCE: Column = Column {
    name: "memory over VOCAB-2 GB",
    tolerance: 0.03,
    from: "34bsh per layer and microbatch that the peak has more",
};
const GAIN: Column = Column {
    name: "MFU over BASELINE",
    tolerance: 0.1,
    from: "FLOPs alone: every kernel and transfer as efficient as any other",
};
/// The peak in microbatches.
const PEAK: &str = "peak M_B";
/// How many pairs of methods the prediction puts in another order.
const RANKING: &str = "pairs in another order";

/// All cells: first those of the profile, then those of the tables.
pub(super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let mut cells = profile::cells(sources)?;
    cells.extend(tables::cells(sources)?);
    Ok(Contents { title: TITLE.to_owned(), sheet: sheet(&cells), cells })
}

impl Column {
    /// A measurement with `digits` behind the point, beside `ours`.
    fn cell(&self, row: String, published: f64, ours: f64, digits: usize) -> Cell {
        let check = Check::of(accuracy::error(ours, published).abs() <= self.tolerance);
        Cell { digits, ..Cell::new(row, self.name, "measured", [published, ours], check) }
    }
}

/// A count that must be what was published.
fn exact(row: String, column: &str, convention: &'static str, [published, ours]: [f64; 2]) -> Cell {
    #[allow(clippy::float_cmp)] // Both are whole.
    let check = Check::of(ours == published);
    Cell::new(row, column, convention, [published, ours], check)
}

fn sheet(cells: &[Cell]) -> Sheet {
    let measured = [&ITERATION, &MEMORY, &DIFFERENCE, &GAIN].map(|column| measured(column, cells));
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

/// The cells of `column` with their errors, and the mean of these by method.
fn measured(column: &Column, cells: &[Cell]) -> Sheet {
    let of_column: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column.name).collect();
    let error = |cell: &Cell| accuracy::error(cell.ours, cell.published);
    let rows = of_column.iter().map(|cell| {
        let [measured, predicted] = [cell.published, cell.ours].map(|figure| cell.printed(figure));
        vec![cell.row.clone(), measured, predicted, format::signed_percent(error(cell))]
    });
    let table = Sheet::table(&[column.name, "measured", "predicted", "error"], rows);
    let mean = |whole: bool| {
        let chosen = of_column.iter().filter(|cell| profile::is_whole(&cell.row) == whole);
        let errors: Vec<f64> = chosen.map(|cell| error(cell)).collect();
        (!errors.is_empty()).then(|| format::percent(accuracy::mean_absolute(&errors)))
    };
    let groups = [("in shards", false), ("BASELINE and REDIS", true)];
    let means = groups.into_iter().filter_map(|(name, of)| Some(format!("{name} {}", mean(of)?)));
    let means: Vec<String> = means.collect();
    let (from, means) = (column.from, means.join(", "));
    table.and_text(format!("\nfrom {from}\nmean absolute error: {means}\n"))
}
