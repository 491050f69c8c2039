//! One published figure beside ours.

use std::fmt;

use serde::Serialize;

use crate::error::Error;

/// The convention of a cell that stands beside a measured figure, and is not checked.
pub(super) const BESIDE: &str = "measured, beside";

/// One cell of a table.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Cell {
    pub(super) table: &'static str,
    pub(super) row: String,
    pub(super) column: String,
    /// How the published figure was computed.
    pub(super) convention: &'static str,
    pub(super) published: f64,
    /// The published figure with more digits, if there are any.
    pub(super) regenerated: Option<f64>,
    pub(super) ours: f64,
    #[serde(rename = "match")]
    pub(super) matches: bool,
    /// Ours where the published convention omits something.
    pub(super) corrected: Option<f64>,
    /// Digits behind the point of the published figure as printed.
    #[serde(skip)]
    pub(super) digits: usize,
}

impl Cell {
    /// Ours, or the published figure, to the printed digits.
    pub(super) fn printed(&self, figure: f64) -> String {
        format!("{figure:.*}", self.digits)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column, published, regenerated, ours, .. } = self;
        let more = regenerated.map_or(String::new(), |figure| format!(" ({figure})"));
        write!(f, "{row}, {column}: published {}{more}, ours {ours}", self.printed(*published))
    }
}

/// The cells as CSV, one line each.
pub(super) fn csv(cells: &[Cell]) -> Result<Vec<u8>, Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header =
        ["row", "column", "convention", "published", "regenerated", "ours", "match", "corrected"];
    let optional = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
    let io = |error: csv::Error| Error::Output(error.into());
    writer.write_record(header).map_err(io)?;
    for cell in cells {
        let record = [
            cell.row.as_str(),
            &cell.column,
            cell.convention,
            &cell.printed(cell.published),
            &optional(cell.regenerated),
            &cell.ours.to_string(),
            if cell.matches { "yes" } else { "no" },
            &optional(cell.corrected),
        ];
        writer.write_record(record).map_err(io)?;
    }
    writer.into_inner().map_err(|error| Error::Output(error.into_error()))
}
