//! One published figure beside ours.

use std::fmt;

use question::Diagnostic;
use serde::Serialize;

/// The beginning of the convention of a cell whose miss has a known reason.
const KNOWN_MISS: &str = "known miss";
/// The convention of a cell that stands beside a measured figure, and is not checked.
pub(super) const BESIDE: &str = "measured, beside";

/// The result of comparing ours with the published figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// Ours is the published figure, within the tolerance of its table.
    Matched,
    /// Ours differs from the published figure by more than the tolerance.
    Missed,
    /// Both figures stand beside each other, or ours alone, and nothing is claimed about them.
    NotChecked,
}

impl Check {
    /// The check of a cell whose figures match, or do not.
    pub(super) const fn of(matches: bool) -> Self {
        if matches { Self::Matched } else { Self::Missed }
    }

    /// The sign that stands between the published figure and ours in tables.
    pub(super) const fn sign(self) -> char {
        match self {
            Self::Matched => '=',
            Self::Missed => '!',
            Self::NotChecked => '|',
        }
    }

    /// The name of the check in CSV files.
    const fn name(self) -> &'static str {
        match self {
            Self::Matched => "yes",
            Self::Missed => "no",
            Self::NotChecked => "not checked",
        }
    }
}

/// In JSON a check is `true`, `false`, or `null` where nothing was checked.
impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Matched => to.serialize_bool(true),
            Self::Missed => to.serialize_bool(false),
            Self::NotChecked => to.serialize_none(),
        }
    }
}

/// The number of cells by the result of their check. Its text form says how many of the checked cells
/// match, and how many were not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Cells that match.
    pub matched: usize,
    /// Cells that were checked and do not match.
    pub missed: usize,
    /// Cells that stand beside a measured figure, or alone where none is at hand.
    pub not_checked: usize,
}

impl Count {
    /// Counts `cells`.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
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

    /// The number of cells that were checked.
    pub const fn checked(self) -> usize {
        self.matched + self.missed
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.matched, self.checked())?;
        match self.not_checked {
            0 => Ok(()),
            more => write!(f, ", {more} not checked"),
        }
    }
}

/// One cell of a published table. Its text form has its place, the published figure, and ours.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Cell {
    /// The row of the table, such as a setting.
    pub row: String,
    /// The column of the table, such as a schedule.
    pub column: String,
    /// The way in which the published figure was computed or measured.
    pub convention: &'static str,
    /// The published figure, in the unit that the column names; not a number, `null` in JSON and
    /// nothing in CSV, where it is not at hand.
    pub published: f64,
    /// The published figure with more digits from the published code, if that was run again.
    pub regenerated: Option<f64>,
    /// Our figure, in the same unit; not a number, `null` in JSON and nothing in CSV, where nothing is
    /// predicted.
    pub ours: f64,
    /// Whether ours matches.
    #[serde(rename = "match")]
    pub check: Check,
    /// Our figure without the parts that the published convention leaves out, if there are any.
    pub corrected: Option<f64>,
    /// The number of decimals with which the published figure was printed.
    #[serde(skip)]
    pub digits: usize,
}

impl Cell {
    /// A cell of a whole number, with `[published, ours]` and nothing else that is known.
    pub(super) fn new(
        row: impl Into<String>,
        column: impl Into<String>,
        convention: &'static str,
        [published, ours]: [f64; 2],
        check: Check,
    ) -> Self {
        let (row, column) = (row.into(), column.into());
        let (regenerated, corrected, digits) = (None, None, 0);
        Self { row, column, convention, published, regenerated, ours, check, corrected, digits }
    }

    /// Whether the published figure is at hand.
    pub(super) const fn is_published(&self) -> bool {
        !self.published.is_nan()
    }

    /// `figure` with as many decimals as the published one.
    pub(super) fn printed(&self, figure: f64) -> String {
        format!("{figure:.*}", self.digits)
    }

    /// Both figures as printed; nothing for a published one that is not at hand.
    pub(super) fn figures(&self) -> [String; 2] {
        let published = match self.is_published() {
            true => self.printed(self.published),
            false => String::new(),
        };
        [published, self.printed(self.ours)]
    }

    /// The check in a word for people; a miss that is known is called so by its convention.
    pub(super) fn verdict(&self) -> &'static str {
        match self.check {
            Check::Matched => "yes",
            Check::Missed => "no",
            Check::NotChecked if self.convention.starts_with(KNOWN_MISS) => KNOWN_MISS,
            Check::NotChecked => "not checked",
        }
    }

    /// Both figures as printed, with the sign of the check between them.
    pub(super) fn pair(&self) -> String {
        let [published, ours] = [self.published, self.ours].map(|figure| self.printed(figure));
        format!("{published} {} {ours}", self.check.sign())
    }

    /// Both figures with all their digits, with the sign of the check between them.
    pub(super) fn exact_pair(&self) -> String {
        format!("{} {} {}", self.published, self.check.sign(), self.ours)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column, published, regenerated, ours, .. } = self;
        let more = regenerated.map_or(String::new(), |figure| format!(" ({figure})"));
        write!(f, "{row}, {column}: published {}{more}, ours {ours}", self.printed(*published))
    }
}

/// The number of decimals of a printed figure.
pub(super) fn decimals(printed: &str) -> usize {
    printed.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

/// The value of a printed figure, unless it is no finite number.
pub(super) fn figure(printed: &str) -> Option<f64> {
    printed.parse::<f64>().ok().filter(|figure| figure.is_finite())
}

/// A whole number as a figure; those of published tables are far below 2^53.
#[allow(clippy::cast_precision_loss)]
pub(super) const fn whole(number: u64) -> f64 {
    number as f64
}

/// The cells as CSV, one line each.
pub(super) fn csv(cells: &[Cell]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header =
        ["row", "column", "convention", "published", "regenerated", "ours", "match", "corrected"];
    let optional = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
    let published = |cell: &Cell| match cell.is_published() {
        true => exact(cell),
        false => String::new(),
    };
    let ours = |cell: &Cell| if cell.ours.is_nan() { String::new() } else { cell.ours.to_string() };
    writer.write_record(header)?;
    for cell in cells {
        writer.write_record([
            cell.row.as_str(),
            &cell.column,
            cell.convention,
            &published(cell),
            &optional(cell.regenerated),
            &ours(cell),
            cell.check.name(),
            &optional(cell.corrected),
        ])?;
    }
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// The published figure of `cell`: as it is printed where that is all of it, and else, as of a ratio of two figures,
/// in full.
fn exact(cell: &Cell) -> String {
    let printed = cell.printed(cell.published);
    match printed.parse() == Ok(cell.published) {
        true => printed,
        false => cell.published.to_string(),
    }
}

/// CSV that could not be written, which takes a lack of memory.
#[allow(clippy::needless_pass_by_value)] // The form of `map_err`.
pub(super) fn unwritable(error: csv::Error) -> Diagnostic {
    Diagnostic::new(format!("the rows cannot be written as CSV: {error}"))
}
