//! The files from which published settings and figures are read, and the tables that are made of them already.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use question::scenario::Scenario;
use question::{Context, Diagnostic};
use scenarios::PAPER;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cell::Cell;
use super::{Reproduced, Table};

/// The largest file of figures, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// The file of expected misses of all tables.
const MISSES: &str = "expected-misses.csv";

/// A cell whose figure of ours is known to miss the published one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Miss {
    table: String,
    row: String,
    column: String,
    ours: f64,
    width: f64,
    reason: String,
}

/// A folder with published settings and figures, or those that are built in.
pub(super) struct Sources<'a> {
    context: &'a Context<'a>,
    folder: Option<&'a Path>,
    made: &'a [Reproduced],
}

impl<'a> Sources<'a> {
    /// The files of `folder`, or those that are built in if there is none.
    pub(super) const fn new(context: &'a Context<'a>, folder: Option<&'a Path>) -> Self {
        Self { context, folder, made: &[] }
    }

    /// The same, with the tables `made` of them.
    pub(super) const fn with(self, made: &'a [Reproduced]) -> Self {
        Self { made, ..self }
    }

    /// The cells of `table`: those that are made already, if they are.
    pub(super) fn cells_of(&self, table: &Table) -> Result<Cow<'a, [Cell]>, Diagnostic> {
        match self.made.iter().find(|one| one.table == table.name) {
            Some(made) => Ok(Cow::Borrowed(&made.cells)),
            None => Ok(Cow::Owned((table.cells)(table, self)?.cells)),
        }
    }

    /// `cells` of the table `name`, with those that are named in the file of expected misses checked against the
    /// figures there.
    pub(super) fn expecting(&self, name: &str, cells: Vec<Cell>) -> Result<Vec<Cell>, Diagnostic> {
        let (path, misses) = self.records_or_built_in::<Miss>(MISSES)?;
        let own = |cell: &Cell| {
            misses.iter().find(|miss| {
                (&*miss.table, &miss.row, &miss.column) == (name, &cell.row, &cell.column)
                    && cell.is_published()
            })
        };
        let wrong = |message: String| error_in(&path, None, &message);
        let settled = cells.into_iter().map(|cell| match own(&cell) {
            Some(miss) => {
                let place = format!("{name}, {}, {}", miss.row, miss.column);
                cell.with(|figure| figure.expecting(miss.ours, miss.width, miss.reason.clone()))
                    .map_err(|message| wrong(format!("{place}: {message}")))
            }
            None => Ok(cell),
        });
        settled.collect()
    }

    /// Checks that every expected miss of the table `name` is one of `cells`.
    pub(super) fn all_expected(&self, name: &str, cells: &[Cell]) -> Result<(), Diagnostic> {
        let (path, misses) = self.records_or_built_in::<Miss>(MISSES)?;
        let is_there = |miss: &Miss| {
            cells.iter().any(|cell| cell.row == miss.row && cell.column == miss.column)
        };
        match misses.iter().find(|miss| miss.table == name && !is_there(miss)) {
            Some(Miss { row, column, .. }) => {
                Err(error_in(&path, None, &format!("{name} has no cell {row}, {column}")))
            }
            None => Ok(()),
        }
    }

    /// The context in which settings are simulated.
    pub(super) const fn context(&self) -> &'a Context<'a> {
        self.context
    }

    /// The path of a file that a file of the folder names.
    pub(super) fn beside(&self, name: &Path) -> PathBuf {
        self.folder.map_or_else(|| name.to_owned(), |folder| folder.join(name))
    }

    /// The text of the file `name`, and the path by which errors call it.
    pub(super) fn text(&self, name: &str) -> Result<(PathBuf, String), Diagnostic> {
        let path = self.folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let text = match self.folder {
            Some(_) => self.context.read_text(&path, MAX_FILE)?,
            None => match PAPER.get(name) {
                Some(text) => text.to_owned(),
                None => return Err(Diagnostic::unreadable(&path, "it is not built in")),
            },
        };
        Ok((path, text))
    }

    /// The settings in the scenario file `name`.
    pub(super) fn scenario(&self, name: &str) -> Result<Scenario, Diagnostic> {
        let (path, text) = self.text(name)?;
        Scenario::parse(self.context, &path, text)
    }

    /// The records of the CSV file `name`, and the path by which errors call it. Lines that begin with a
    /// number sign are comments.
    pub(super) fn records<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<(PathBuf, Vec<T>), Diagnostic> {
        let (path, text) = self.text(name)?;
        records_of(path, &text)
    }

    /// The same, or the records that are built in if the folder has no such file.
    pub(super) fn records_or_built_in<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<(PathBuf, Vec<T>), Diagnostic> {
        match (self.text(name), PAPER.get(name)) {
            (Ok((path, text)), _) => records_of(path, &text),
            (Err(_), Some(text)) => records_of(PathBuf::from(name), text),
            (Err(missing), None) => Err(missing),
        }
    }
}

/// The records of `text`, a CSV file at `path`.
fn records_of<T: DeserializeOwned>(
    path: PathBuf,
    text: &str,
) -> Result<(PathBuf, Vec<T>), Diagnostic> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let unreadable = |error: csv::Error| error_in(&path, error.position(), &error.to_string());
    let records = reader.deserialize().collect::<Result<_, _>>().map_err(unreadable)?;
    Ok((path, records))
}

/// An error in the file at `path`, at a position if one is known.
pub(super) fn error_in(path: &Path, position: Option<&csv::Position>, message: &str) -> Diagnostic {
    let line = position.map_or(String::new(), |position| format!(", line {}", position.line()));
    Diagnostic::new(format!("{}{line}: {message}", path.display()))
}
