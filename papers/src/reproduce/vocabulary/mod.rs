//! Vocabulary Parallelism: its profile of one host beside our times, its peaks, memory and gains.
//!
//! [`profile`] times the measured stages of every method; [`tables`] asks how far FLOPs and bytes alone
//! explain tables 5 and 6. All cells are measurements, but for the peaks, which the paper proves.

mod profile;
mod tables;

use super::cell::{Cell, Check};
use super::sources::Sources;
use super::{Reproduced, Table};
use crate::accuracy;
use question::Diagnostic;
use question::format;

const TITLE: &str = "Vocabulary Parallelism: one host of 8 A100, measured and simulated; peaks; \
memory and gains of tables 5 and 6 from bytes and FLOPs";

/// What the columns of measurements are called, how far a prediction may lie from one, as a share of
/// it, and what it is made from.
struct Column {
    name: &'static str,
    tolerance: f64,
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

pub(super) fn reproduce(sources: &Sources) -> Result<Reproduced, Diagnostic> {
    let mut cells = profile::cells(sources)?;
    cells.extend(tables::cells(sources)?);
    let text = text(&cells);
    Ok(Reproduced { table: Table::Vocabulary, title: TITLE.to_owned(), cells, text })
}

impl Column {
    /// A measurement with `digits` behind the point, beside `ours`.
    fn cell(&self, row: String, published: f64, ours: f64, digits: usize) -> Cell {
        Cell {
            table: Table::Vocabulary.name(),
            row,
            column: self.name.to_owned(),
            convention: "measured",
            published,
            regenerated: None,
            ours,
            check: Check::of(accuracy::error(ours, published).abs() <= self.tolerance),
            corrected: None,
            digits,
        }
    }
}

/// A count that must be what was published.
fn exact(row: String, column: &str, convention: &'static str, [published, ours]: [f64; 2]) -> Cell {
    Cell {
        table: Table::Vocabulary.name(),
        row,
        column: column.to_owned(),
        convention,
        published,
        regenerated: None,
        ours,
        #[allow(clippy::float_cmp)] // Both are whole.
        check: Check::of(ours == published),
        corrected: None,
        digits: 0,
    }
}

fn text(cells: &[Cell]) -> String {
    let measured = [&ITERATION, &MEMORY, &DIFFERENCE, &GAIN].map(|column| measured(column, cells));
    let counted = [PEAK, RANKING].map(|column| {
        let of_column = cells.iter().filter(|cell| cell.column == column);
        let rows = of_column.map(|cell| {
            vec![cell.row.clone(), cell.printed(cell.published), cell.ours.to_string()]
        });
        format::table(&[column, "published", "ours"], rows)
    });
    measured.into_iter().chain(counted).collect::<Vec<_>>().join("\n")
}

/// The cells of `column` with their errors, and the mean of these by method.
fn measured(column: &Column, cells: &[Cell]) -> String {
    let of_column: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column.name).collect();
    let error = |cell: &Cell| accuracy::error(cell.ours, cell.published);
    let rows = of_column.iter().map(|cell| {
        let [measured, predicted] = [cell.published, cell.ours].map(|figure| cell.printed(figure));
        vec![cell.row.clone(), measured, predicted, format::signed_percent(error(cell))]
    });
    let table = format::table(&[column.name, "measured", "predicted", "error"], rows);
    let mean = |whole: bool| {
        let chosen = of_column.iter().filter(|cell| profile::is_whole(&cell.row) == whole);
        let errors: Vec<f64> = chosen.map(|cell| error(cell)).collect();
        (!errors.is_empty()).then(|| format::percent(accuracy::mean_absolute(&errors)))
    };
    let groups = [("in shards", false), ("BASELINE and REDIS", true)];
    let means = groups.into_iter().filter_map(|(name, of)| Some(format!("{name} {}", mean(of)?)));
    let means: Vec<String> = means.collect();
    format!("{table}\nfrom {}\nmean absolute error: {}\n", column.from, means.join(", "))
}
