//! One published figure next to ours.

use std::fmt;
use std::ops::Deref;

use question::{Diagnostic, format, object};
use serde::{Serialize, Serializer};

use super::check::{Check, Evidence, Printed, Verdict};

/// Where the figures of a column come from, what kind of evidence they are, and how ours are held against them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Basis {
    pub(super) convention: &'static str,
    evidence: Evidence,
    check: Check,
}

impl Basis {
    pub(super) const fn new(convention: &'static str, evidence: Evidence, check: Check) -> Self {
        Self { convention, evidence, check }
    }

    /// Figures of which nothing is claimed, for the reason that `convention` states.
    pub(super) const fn not_checked(convention: &'static str) -> Self {
        Self { convention, evidence: Evidence::HeldOut, check: Check::NotChecked }
    }
}

/// A published figure with its check. It becomes a [`Cell`] once ours is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// The row of the table, such as a setting.
    pub(super) row: String,
    /// The column of the table, such as a schedule.
    pub(super) column: String,
    /// The way in which the published figure was computed or measured.
    pub(super) convention: &'static str,
    /// The published figure, in the unit that the column names; not a number where it is not available.
    pub(super) published: f64,
    /// The published figure with more digits from the published code, if that was run again.
    pub(super) regenerated: Option<f64>,
    /// The number of decimals with which the published figure was printed.
    pub(super) digits: usize,
    evidence: Evidence,
    check: Check,
    /// The figures that are printed like the published one.
    rounding: [f64; 2],
    /// The figure of no gain: 1 for ratios whose gain is checked.
    base: f64,
    /// Why a miss is expected.
    reason: String,
}

impl Figure {
    pub(super) fn new(
        row: impl Into<String>,
        column: impl Into<String>,
        Basis { convention, evidence, check }: Basis,
        published: f64,
    ) -> Self {
        let (row, column) = (row.into(), column.into());
        let base = if check == Check::GainOfRatio { 1.0 } else { 0.0 };
        let (regenerated, digits, reason) = (None, 0, String::new());
        let rounding = [published - 0.5, published + 0.5];
        Self {
            row,
            column,
            convention,
            published,
            regenerated,
            digits,
            evidence,
            check,
            rounding,
            base,
            reason,
        }
    }

    /// The same, printed with `digits` decimals.
    pub(super) fn digits(self, digits: usize) -> Self {
        let half = half_digit(digits);
        let rounding = [self.published - half, self.published + half];
        Self { digits, rounding, ..self }
    }

    /// The same, printed like all figures of a range, as a ratio of printed figures is.
    pub(super) fn rounded(self, rounding: [f64; 2]) -> Self {
        Self { rounding, ..self }
    }

    /// The same, with the figure of published code that was run again.
    pub(super) fn regenerated(self, regenerated: Option<f64>) -> Self {
        Self { regenerated, ..self }
    }

    /// The same with a miss that is expected, of `ours` give or take `width`, for a reason.
    pub(super) fn expecting(self, ours: f64, width: f64, reason: String) -> Result<Self, String> {
        if self.range().is_some_and(|range| contains(range, ours)) {
            return Err(format!("{ours} is not a miss: it passes `{}`", self.check.name()));
        }
        Ok(Self { check: Check::ExpectedMiss { ours, width }, reason, ..self })
    }

    /// The cell of this figure and of ours.
    pub(super) const fn beside(self, ours: f64) -> Cell {
        Cell { figure: self, ours, corrected: None }
    }

    /// Whether the published figure is at hand.
    pub(super) const fn is_published(&self) -> bool {
        !self.published.is_nan()
    }

    /// Whether ours is held against it.
    pub(super) fn is_checked(&self) -> bool {
        self.check != Check::NotChecked
    }

    /// Whether it is checked as `evidence`.
    pub(super) fn is_of(&self, evidence: Evidence) -> bool {
        self.is_checked() && self.evidence == evidence
    }

    /// The least and the largest figure of ours that pass its check; none if nothing is checked.
    fn range(&self) -> Option<[f64; 2]> {
        let Self { published, rounding, regenerated, base, .. } = *self;
        self.check.range(Printed { value: published, rounding, regenerated, base })
    }

    /// `figure` with as many decimals as the published one.
    pub(super) fn print(&self, figure: f64) -> String {
        format!("{figure:.*}", self.digits)
    }
}

fn contains([least, most]: [f64; 2], figure: f64) -> bool {
    least <= figure && figure <= most
}

/// One cell of a published table. Its text form has its place, the published figure, and ours.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    figure: Figure,
    /// Our figure, in the unit of the published one; not a number where nothing is predicted.
    pub(super) ours: f64,
    /// Our figure without the parts that the published convention leaves out, if there are any.
    pub(super) corrected: Option<f64>,
}

impl Deref for Cell {
    type Target = Figure;

    fn deref(&self) -> &Figure {
        &self.figure
    }
}

impl Cell {
    /// What came of its check: every verdict is made here.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.range(), self.check) {
            (None, _) => Verdict::NotChecked,
            (Some(range), _) if !contains(range, self.ours) => Verdict::Missed,
            (Some(_), Check::ExpectedMiss { .. }) => Verdict::ExpectedMiss,
            (Some(_), _) => Verdict::Matched,
        }
    }

    /// The same cell, with our figure without the parts that the published convention leaves out.
    pub(super) const fn corrected(mut self, corrected: Option<f64>) -> Self {
        self.corrected = corrected;
        self
    }

    /// The same cell with another check of its figure, which is chosen without ours.
    pub(super) fn with(
        self,
        check: impl FnOnce(Figure) -> Result<Figure, String>,
    ) -> Result<Self, String> {
        Ok(Self { figure: check(self.figure)?, ..self })
    }

    /// The same cell, quoted in another table in a unit that is `scale` times smaller.
    pub(super) fn quoted(&self, row: String, column: &str, scale: f64) -> Self {
        let figure = self.figure.clone();
        let check = match figure.check {
            Check::ExpectedMiss { ours, width } => {
                Check::ExpectedMiss { ours: scale * ours, width: scale * width }
            }
            check => check,
        };
        let figure = Figure {
            row,
            column: column.to_owned(),
            published: scale * figure.published,
            rounding: figure.rounding.map(|one| scale * one),
            check,
            digits: 1,
            ..figure
        };
        figure.beside(scale * self.ours)
    }

    /// Why a miss is expected, or nothing is checked.
    pub(super) fn why(&self) -> Option<&str> {
        match self.check {
            Check::NotChecked => Some(self.convention),
            Check::ExpectedMiss { .. } => Some(&self.reason),
            _ => None,
        }
    }

    /// By which share ours exceeds the published figure, or the published gain; `None` where one of them is not at
    /// hand, or 0 was published and ours differs.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let published = self.regenerated.unwrap_or(self.published);
        let (apart, size) = (self.ours - published, (published - self.base).abs());
        match apart == 0.0 {
            true => Some(0.0),
            false => Some(apart / size).filter(|deviation| deviation.is_finite()),
        }
    }

    /// The deviation as people read it; nothing where there is none.
    pub(super) fn shown_deviation(&self) -> String {
        self.deviation().map_or(String::new(), |one| match one.abs() < 5e-5 {
            true => "0 %".to_owned(),
            false => format::signed_percent(one),
        })
    }

    /// Both figures as printed; nothing for one that is not available.
    pub(super) fn figures(&self) -> [String; 2] {
        [self.published, self.ours]
            .map(|figure| if figure.is_nan() { String::new() } else { self.print(figure) })
    }

    /// Both figures as printed, their deviation, and the verdict in a word.
    pub(super) fn compared(&self) -> [String; 4] {
        let [published, ours] = self.figures();
        [published, ours, self.shown_deviation(), self.verdict().name().to_owned()]
    }

    /// Both figures as printed, with the sign of the verdict between them and the deviation behind them where they
    /// differ.
    pub(super) fn pair(&self) -> String {
        let [published, ours] = self.figures();
        let sign = self.verdict().sign();
        match published == ours {
            true => format!("{published} {sign} {ours}"),
            false => format!("{published} {sign} {ours} {}", self.shown_deviation())
                .trim_end()
                .to_owned(),
        }
    }

    /// Both figures with all their digits, with the sign of the verdict between them.
    pub(super) fn exact_pair(&self) -> String {
        format!("{} {} {}", self.published, self.verdict().sign(), self.ours)
    }

    /// The check in words, and why a miss is expected.
    fn check_text(&self) -> String {
        let check = self.check.name();
        if self.reason.is_empty() { check } else { format!("{check}: {}", self.reason) }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure: Figure { row, column, published, regenerated, .. }, ours, .. } = self;
        let more = regenerated.map_or(String::new(), |figure| format!(" ({figure})"));
        let published = self.print(*published);
        write!(
            f,
            "{row}, {column}: published {published}{more}, ours {ours} ({})",
            self.check_text()
        )
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Figure { row, column, convention, published, regenerated, .. } = &self.figure;
        let verdict = self.verdict();
        object!(
            row = row,
            column = column,
            convention = convention,
            published = *published,
            regenerated = *regenerated,
            ours = self.ours,
            r#match = verdict.matches(),
            corrected = self.corrected,
            evidence = self.is_checked().then_some(self.evidence),
            check = self.check_text(),
            verdict = verdict.name(),
            deviation = self.deviation(),
            // The least and the largest figure of ours that pass; `null` where there is no such bound.
            accepted = self
                .range()
                .map(|range| range.map(|bound| Some(bound).filter(|bound| bound.is_finite()))),
        )
        .serialize(to)
    }
}

/// Half of the last digit of a figure that is printed with so many decimals.
pub(super) fn half_digit(decimals: usize) -> f64 {
    0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(i32::MAX))
}

/// The ratios of all figures that are printed like `over` and `under`, whose last digits are worth twice `halves`.
pub(super) fn ratio_rounding([over, under]: [f64; 2], halves: [f64; 2]) -> [f64; 2] {
    [(over - halves[0]) / (under + halves[1]), (over + halves[0]) / (under - halves[1])]
}

/// The number of decimals of a printed figure.
pub(super) fn decimals(printed: &str) -> usize {
    printed.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

/// The value of a printed figure, unless it is not a finite number.
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
    let header = [
        "row",
        "column",
        "convention",
        "published",
        "regenerated",
        "ours",
        "match",
        "corrected",
        "evidence",
        "check",
        "deviation",
    ];
    let optional = |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
    let some = |figure: f64| Some(figure).filter(|figure| !figure.is_nan());
    writer.write_record(header)?;
    for cell in cells {
        let evidence = if cell.is_checked() { cell.evidence.name() } else { "" };
        writer.write_record([
            cell.row.as_str(),
            &cell.column,
            cell.convention,
            &some(cell.published).map_or(String::new(), |_| exact(cell)),
            &optional(cell.regenerated),
            &optional(some(cell.ours)),
            cell.verdict().name(),
            &optional(cell.corrected),
            evidence,
            &cell.check_text(),
            &cell.deviation().map_or(String::new(), |one| format!("{one:.6}")),
        ])?;
    }
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// The published figure of `cell`: as it is printed where that is all of it, and else, as of a ratio of two figures,
/// in full.
fn exact(cell: &Cell) -> String {
    let printed = cell.print(cell.published);
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
