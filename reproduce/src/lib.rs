//! Published tables beside ours, cell by cell.
//!
//! A [`Question`] names tables of [`TABLES`]; [`reproduce`] answers it with a [`Reproduced`] for each: its
//! cells, each with the published figure, ours and a [`Verdict`], the same as a sheet for people, and a
//! picture as data. Tables of bubble rates can be answered with a [`Beyond`] instead: the best order that
//! a search finds in the memory of each published schedule, and a lower bound.
//!
//! The figures are built in; a question may also name a folder of files, which its host reads.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::path::PathBuf;
//!
//! use reproduce::{Answer, Count, Question, reproduce};
//! use question::Context;
//!
//! // This host lends no files: the figures are those that are built in.
//! let host: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
//! let question = Question { tables: vec!["table2".to_owned()], ..Question::default() };
//! let answer = reproduce(&Context::new(&host), &question)?;
//! assert!(answer.holds());
//! let Answer::Reproduced { tables, .. } = answer else { unreachable!("no search was asked for") };
//! assert_eq!(tables[0].table, "table2");
//! assert_eq!(Count::of(&tables[0].cells).missed, 0);
//! # Ok::<(), question::Diagnostic>(())
//! ```

mod beyond;
mod cell;
mod check;
mod claims;
mod closed_forms;
mod contender;
mod controllable;
mod encoder;
mod fig9;
mod headlines;
mod odc;
mod offload;
mod overlap;
mod picture;
mod rates;
mod recycle;
mod sheets;
mod sources;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod totals;
mod vocabulary;
mod zero_bubble;

use std::path::PathBuf;

use question::sheet::Sheet;
use question::{Context, Diagnostic, nearest, quote};
use rayon::prelude::*;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

pub use self::beyond::{Beyond, SearchedCell};
pub use self::cell::{Cell, Figure};
pub use self::check::{Evidence, Verdict};
pub use self::picture::{
    Bars, Grid, Group, PUBLISHED, Pair, Panel, Picture, Place, PlacePair, Places, Point,
};
pub use self::table::Table;
pub use self::tables::TABLES;
pub use self::totals::{Count, Total};

use self::sources::Sources;

/// The name that stands for every table.
pub const ALL: &str = "all";

/// The largest effort of a search, in multiples of the default.
pub const MAX_EFFORT: u64 = 1_000_000;

/// A question for published tables.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The names of the tables; `all` stands for every one.
    pub tables: Vec<String>,
    /// Whether to search better orders than the published ones, in the tables where that can be done.
    pub beyond: bool,
    /// The effort of each search in multiples of the default, at most 1,000,000.
    pub effort: u64,
    /// The folder with the settings and figures; those that are built in if it is not named.
    pub paper: Option<PathBuf>,
}

impl Default for Question {
    /// All tables, from the figures that are built in.
    fn default() -> Self {
        Self { tables: vec![ALL.to_owned()], beyond: false, effort: 1, paper: None }
    }
}

impl Question {
    /// The tables that are asked for, in the order of [`TABLES`].
    fn chosen(&self) -> Result<Vec<&'static Table>, Diagnostic> {
        let known = || TABLES.iter().map(|table| table.name).chain([ALL]);
        if let Some(name) = self.tables.iter().find(|name| known().all(|known| known != *name)) {
            let near = nearest::question(name, known());
            let message = format!("there is no table `{}`{near}", quote::clip(name));
            let names: Vec<&str> = known().collect();
            let cure = format!("the tables are {}", names.join(", "));
            return Err(Diagnostic::new(message).with_help(cure).about("tables"));
        }
        if self.effort > MAX_EFFORT {
            let message = format!("the effort is {}: at most {MAX_EFFORT}", self.effort);
            return Err(Diagnostic::new(message).about("effort"));
        }
        let is_chosen =
            |table: &&Table| self.tables.iter().any(|name| name == table.name || name == ALL);
        Ok(TABLES.iter().filter(is_chosen).collect())
    }
}

/// A table with all its cells.
#[derive(Clone, PartialEq, Debug)]
pub struct Reproduced {
    /// The name of the table.
    pub table: &'static str,
    /// The title of the table.
    pub title: String,
    /// Its cells, row by row.
    pub cells: Vec<Cell>,
    /// The cells as a person reads them.
    pub sheet: Sheet,
    /// The cells as a picture, for tables that make one.
    pub picture: Option<Picture>,
}

impl Reproduced {
    /// Whether every cell that was checked matches, or misses by as much as is expected. A table without such cells
    /// proves nothing, so it does not hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        let count = Count::of(&self.cells);
        count.missed == 0 && count.checked() > 0
    }

    /// A line for each cell that misses its published figure, and one that counts the cells.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (table, count) = (self.table, Count::of(&self.cells));
        let missed = self.cells.iter().filter(|cell| cell.verdict() == Verdict::Missed);
        let mut notes: Vec<String> = missed.map(|cell| format!("{table}: miss: {cell}")).collect();
        let (matched, checked, rest) = (count.matched, count.checked(), count.rest());
        notes.push(format!("{table}: {matched} of {checked} cells match{rest}"));
        notes
    }

    /// The cells as CSV, one line each.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        cell::csv(&self.cells).map_err(cell::unwritable)
    }
}

/// The answer to a [`Question`]. As JSON it is an object with the cells of all tables, their totals by kind of
/// evidence, and `"interrupted": true` if the host stopped the work.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Published figures beside ours.
    Reproduced {
        /// The tables: all that were asked for, unless the work was stopped.
        tables: Vec<Reproduced>,
        /// Whether the host stopped the work before all tables were done.
        interrupted: bool,
    },
    /// Published bubble rates beside searched orders.
    Beyond {
        /// The tables: all that were asked for, unless the work was stopped.
        tables: Vec<Beyond>,
        /// Whether the host stopped the work before all searches were over.
        interrupted: bool,
    },
}

impl Answer {
    /// Whether every checked cell of every table matches; searches have nothing to check.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self {
            Self::Reproduced { tables, .. } => tables.iter().all(Reproduced::holds),
            Self::Beyond { .. } => true,
        }
    }
}

impl Answer {
    /// The checked cells by kind of evidence, but for those that are quoted from other tables; none of searches.
    #[must_use]
    pub fn totals(&self) -> Vec<Total> {
        Total::of(&self.own_cells())
    }

    /// The cells of all tables but those that are quoted from others; none of searches.
    fn own_cells(&self) -> Vec<&Cell> {
        let Self::Reproduced { tables, .. } = self else { return Vec::new() };
        let quotes = |one: &Reproduced| Table::named(one.table).is_some_and(Table::quotes);
        let own = tables.iter().filter(|one| !quotes(one) || tables.len() == 1);
        own.flat_map(|one| &one.cells).collect()
    }

    /// How many of the checked cells match, are missed as expected, and are not checked.
    #[must_use]
    pub fn headline(&self) -> String {
        match self {
            Self::Reproduced { .. } => {
                let count = Count::of(self.own_cells());
                let (matched, checked) = (count.matched, count.checked());
                format!("{matched} of {checked} checked cells match{}.", count.rest())
            }
            Self::Beyond { tables, .. } => {
                let cells = tables.iter().map(|one| one.cells.len()).sum::<usize>();
                format!("{cells} published bubble rates, each with a searched order and its bound.")
            }
        }
    }

    /// The totals of all tables as CSV, one line each; `None` where tables are missing.
    pub fn totals_csv(&self) -> Result<Option<Vec<u8>>, Diagnostic> {
        match self {
            Self::Reproduced { tables, .. } if tables.len() == TABLES.len() => {
                totals::csv(&self.totals()).map(Some).map_err(cell::unwritable)
            }
            _ => Ok(None),
        }
    }

    fn totals_sheet(&self) -> Sheet {
        match &self.totals()[..] {
            [] => Sheet::default(),
            totals => Sheet::table(totals::HEAD, totals.iter().map(Total::row)),
        }
    }

    /// All tables under their titles, and the totals by kind of evidence, for people.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let titled = |title: &str, sheet: Sheet| {
            Sheet::default().and_text(format!("{title}\n\n")).and(sheet).and_text("\n")
        };
        let all: Vec<Sheet> = match self {
            Self::Reproduced { tables, .. } => {
                tables.iter().map(|one| titled(&one.title, one.sheet.clone())).collect()
            }
            Self::Beyond { tables, .. } => {
                tables.iter().map(|one| titled(one.table, one.sheet())).collect()
            }
        };
        let all = all.into_iter().fold(Sheet::default(), Sheet::and).and(self.totals_sheet());
        all.headed(&self.headline())
    }
}

/// A cell with the name of its table.
#[derive(Serialize)]
struct Named<'a> {
    table: &'static str,
    #[serde(flatten)]
    cell: &'a Cell,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (Self::Reproduced { interrupted, .. } | Self::Beyond { interrupted, .. }) = *self;
        let totals = self.totals();
        let parts = 2 + usize::from(!totals.is_empty()) + usize::from(interrupted);
        let mut answer = to.serialize_struct("Answer", parts)?;
        answer.serialize_field("headline", &self.headline())?;
        match self {
            Self::Reproduced { tables, .. } => {
                let named = |one: &'static str, cell| Named { table: one, cell };
                let cells = tables
                    .iter()
                    .flat_map(|one| one.cells.iter().map(|cell| named(one.table, cell)));
                answer.serialize_field("cells", &cells.collect::<Vec<_>>())?;
            }
            Self::Beyond { tables, .. } => {
                let cells = tables.iter().flat_map(|one| &one.cells);
                answer.serialize_field("cells", &cells.collect::<Vec<_>>())?;
            }
        }
        if !totals.is_empty() {
            answer.serialize_field("totals", &totals)?;
        }
        if interrupted {
            answer.serialize_field("interrupted", &true)?;
        }
        answer.end()
    }
}

/// Answers `question` with the tables it names. The tables are made side by side; if the host stops the
/// work, those that are done are the answer.
pub fn reproduce(context: &Context<'_>, question: &Question) -> Result<Answer, Diagnostic> {
    let sources = Sources::new(context, question.paper.as_deref());
    let chosen = question.chosen()?;
    if question.beyond {
        return search(chosen, &sources, question.effort);
    }
    let (summaries, others): (Vec<&Table>, _) =
        chosen.into_iter().partition(|table| table.is_summary);
    let made = all(others, &sources)?;
    let mut tables = all(summaries, &sources.with(&made))?;
    tables.extend(made);
    tables.sort_by_key(|one| TABLES.iter().position(|table| table.name == one.table));
    Ok(Answer::Reproduced { tables, interrupted: context.cut_short() })
}

/// Makes `tables`, until the host stops the work.
fn all(tables: Vec<&Table>, sources: &Sources<'_>) -> Result<Vec<Reproduced>, Diagnostic> {
    let tables = tables.into_par_iter().filter(|_| !sources.context().stopped());
    tables.map(|table| one(table, sources)).collect()
}

/// Makes the cells of `table` and its picture.
fn one(table: &Table, sources: &Sources<'_>) -> Result<Reproduced, Diagnostic> {
    let table::Contents { title, cells, sheet } = (table.cells)(table, sources)?;
    sources.all_expected(table.name, &cells)?;
    let picture =
        table.picture.filter(|_| !cells.is_empty()).map(|picture| picture(&title, &cells));
    Ok(Reproduced { table: table.name, title, cells, sheet, picture })
}

/// Searches the cells of those of `tables` where that can be done.
fn search(
    tables: Vec<&'static Table>,
    sources: &Sources<'_>,
    effort: u64,
) -> Result<Answer, Diagnostic> {
    let searched = tables.into_iter().filter_map(|table| Some((table, table.contenders?)));
    let searched: Vec<_> = searched.collect();
    if searched.is_empty() {
        let names = TABLES.iter().filter(|table| table.can_be_searched()).map(|table| table.name);
        let names: Vec<&str> = names.collect();
        return Err(Diagnostic::new(format!("--beyond is for {}", names.join(", "))));
    }
    let mut found = Vec::new();
    for (table, contenders) in searched {
        if found.is_empty() || !sources.context().stopped() {
            let contenders = contenders(sources)?;
            found.push(beyond::beyond(table, &contenders, sources, effort)?);
        }
    }
    Ok(Answer::Beyond { tables: found, interrupted: sources.context().cut_short() })
}
