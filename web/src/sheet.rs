//! Tables and texts as the page shows them.

use answer::Tabular;
use question::Diagnostic;
use question::sheet::{Block, Sheet};
use serde::Serialize;

use crate::text::text;
use crate::wording::said;

/// An answer with rows, in the forms of the command line.
#[derive(Serialize)]
pub(crate) struct Forms<A> {
    /// Output of the command line.
    answer: A,
    /// The same as tables.
    sheet: Vec<Part>,
    /// The rows as CSV.
    csv: String,
}

impl<A: Tabular> Forms<A> {
    pub(crate) fn of(answer: A) -> Result<Self, Diagnostic> {
        Ok(Self { sheet: parts(answer.sheet()), csv: text(answer.csv()?), answer })
    }
}

/// A part of a sheet.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Part {
    /// The answer in sentences.
    Headline { headline: Vec<String> },
    /// A table, with the numbers of the rows that the headline names.
    Table { header: Vec<String>, rows: Vec<Vec<String>>, best: Vec<usize> },
    /// Text with its line breaks.
    Text(String),
}

/// The parts of `sheet`.
pub(crate) fn parts(sheet: Sheet) -> Vec<Part> {
    let cells = |row: Vec<String>| row.iter().map(|cell| said(cell)).collect();
    let part = |block| match block {
        Block::Headline(text) => Part::Headline { headline: text.lines().map(said).collect() },
        Block::Table { header, rows, best } => {
            Part::Table { header, rows: rows.into_iter().map(cells).collect(), best }
        }
        Block::Text(text) => Part::Text(said(&text)),
    };
    sheet.blocks.into_iter().map(part).collect()
}
