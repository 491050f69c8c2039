//! ODC: its packing functions on their own test cases, and its speed-ups task by task, beside the
//! published ones.

mod machines;
mod packing;
mod slower;
mod speedups;
mod trials;

use question::Diagnostic;
use question::sheet::Sheet;
use serde::Deserialize;

use super::cell::Cell;
use super::sources::{Sources, error_in};
use super::table::{Contents, Table};

pub(super) use self::packing::{FIGURES, LENGTHS};

/// The file of the tasks.
pub(super) const TASKS: &str = "odc-tasks.csv";
/// The file of the models.
pub(super) const MODELS: &str = "odc-models.csv";
/// The file of claims published in words.
pub(super) const CLAIMS: &str = "odc-claims.csv";

const TITLE: &str = "ODC: its packing functions run on their own test cases, 8 devices (tokens where costs \
                     are linear, else seconds), and its speed-ups task by task";

/// A part of the table.
pub(super) struct Part {
    cells: Vec<Cell>,
    sheet: Sheet,
}

/// A published figure that stands in a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    claim: String,
    figure: f64,
}

/// The published figures that stand in a text.
struct Claims {
    path: std::path::PathBuf,
    all: Vec<Claim>,
}

impl Claims {
    fn read(sources: &Sources<'_>) -> Result<Self, Diagnostic> {
        let (path, all) = sources.records(CLAIMS)?;
        Ok(Self { path, all })
    }

    fn named(&self, name: &str) -> Result<f64, Diagnostic> {
        let found = self.all.iter().find(|one| one.claim == name && one.figure.is_finite());
        let missing = || error_in(&self.path, None, &format!("there is no figure `{name}`"));
        found.map(|one| one.figure).ok_or_else(missing)
    }
}

/// All cells: every figure of every plan, every speed-up, and the settings in which there is none.
pub(super) fn cells(_: &Table, sources: &Sources<'_>) -> Result<Contents, Diagnostic> {
    let claims = Claims::read(sources)?;
    let parts = [
        packing::part(sources)?,
        speedups::part(sources, &claims)?,
        slower::part(sources, &claims)?,
    ];
    let mut all = Vec::new();
    let mut sheet = Sheet::default();
    for (number, part) in parts.into_iter().enumerate() {
        all.extend(part.cells);
        let gap = if number > 0 { "\n" } else { "" };
        sheet = sheet.and_text(gap).and(part.sheet);
    }
    Ok(Contents { title: TITLE.to_owned(), cells: all, sheet })
}
