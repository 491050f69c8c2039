//! One published figure beside ours.

use std::fmt;

use serde::Serialize;

use question::Diagnostic;

/// The convention of a cell that stands beside a measured figure, and is not checked.
pub(super) const BESIDE: &str = "measured, beside";

/// Whether ours is what was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Check {
    /// It is.
    Matched,
    /// It is not.
    Missed,
    /// Both stand beside each other, and nothing is claimed.
    NotChecked,
}

impl Check {
    /// Of a cell that is checked, and that `matches` or not.
    pub(super) const fn of(matches: bool) -> Self {
        if matches { Self::Matched } else { Self::Missed }
    }

    /// What stands between the published figure and ours.
    pub(super) const fn sign(self) -> char {
        match self {
            Self::Matched => '=',
            Self::Missed => '!',
            Self::NotChecked => '|',
        }
    }

    /// Its name in CSV.
    const fn name(self) -> &'static str {
        match self {
            Self::Matched => "yes",
            Self::Missed => "no",
            Self::NotChecked => "not checked",
        }
    }
}

/// For JSON: `true`, `false`, or `null` where nothing was checked.
impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Matched => to.serialize_bool(true),
            Self::Missed => to.serialize_bool(false),
            Self::NotChecked => to.serialize_none(),
        }
    }
}

/// How many cells there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Count {
    pub(super) matched: usize,
    pub(super) missed: usize,
    pub(super) not_checked: usize,
}

impl Count {
    pub(super) fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let mut count = Self::default();
        for cell in cells {
            match cell.check {
                Check::Matched => count.matched += 1,
                Check::Missed => count.missed += 1,
                Check::NotChecked => count.not_checked += 1,
            }
        }
        count
    }

    /// Those that were checked.
    pub(super) const fn checked(self) -> usize {
        self.matched + self.missed
    }
}

/// How many of the cells that were checked match, and how many were not.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.matched, self.checked())?;
        match self.not_checked {
            0 => Ok(()),
            more => write!(f, ", {more} not checked"),
        }
    }
}

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
    pub(super) check: Check,
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
pub(super) fn csv(cells: &[Cell]) -> Result<Vec<u8>, Diagnostic> {
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
            cell.check.name(),
            &optional(cell.corrected),
        ];
        writer.write_record(record).map_err(io)?;
    }
    writer.into_inner().map_err(|error| Error::Output(error.into_error()))
}
