//! ODC: its packing functions on their own test cases, and its speed-ups task by task, beside the
//! published ones.

mod machines;
mod packing;
mod slower;
mod speedups;
mod trials;

use question::Diagnostic;
use question::sheet::Sheet;

use super::cell::Cell;
use super::claims::Claims;
use super::sources::Sources;
use super::table::{Contents, Table};

pub(super) use self::packing::{FIGURES, LENGTHS};

pub(super) const TASKS: &str = "odc-tasks.csv";
pub(super) const MODELS: &str = "odc-models.csv";
/// The file of claims published in words.
pub(super) const CLAIMS: &str = "odc-claims.csv";

const TITLE: &str = "ODC: its packing functions run on their own test cases, 8 devices (tokens where costs \
                     are linear, else seconds), and its speed-ups task by task";

type Shown = Box<dyn FnOnce(&[Cell]) -> Sheet>;

/// A part of the table: its cells, and how they are shown.
pub(super) struct Part {
    cells: Vec<Cell>,
    sheet: Shown,
}

/// All cells: every figure of every plan, every speed-up, and the settings in which there is none.
pub(super) fn cells(table: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let claims = Claims::read(sources, CLAIMS)?;
    let parts = [
        packing::part(sources)?,
        speedups::part(sources, &claims)?,
        slower::part(sources, &claims)?,
    ];
    let mut all = Vec::new();
    let mut sheet = Sheet::default();
    for (number, part) in parts.into_iter().enumerate() {
        let cells = sources.expecting(table.name, part.cells)?;
        let gap = if number > 0 { "\n" } else { "" };
        sheet = sheet.and_text(gap).and((part.sheet)(&cells));
        all.extend(cells);
    }
    Ok(Contents { title: TITLE.to_owned(), cells: all, sheet })
}
