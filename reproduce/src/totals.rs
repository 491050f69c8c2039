//! Cells counted: by verdict, and by kind of evidence.

use std::fmt;

use question::format;
use serde::Serialize;

use super::cell::Cell;
use super::check::{Evidence, Verdict};

/// The number of cells by their verdict. Its text form states how many of the checked cells match, and how
/// many of the rest are expected misses or were not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Cells that match.
    pub matched: usize,
    /// Cells that were checked and do not match.
    pub missed: usize,
    /// Cells that miss the published figure by as much as is expected.
    pub expected: usize,
    /// Cells that stand next to a measured figure, or alone where none is at hand.
    pub not_checked: usize,
}

impl Count {
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let mut count = Self::default();
        for cell in cells {
            *match cell.verdict() {
                Verdict::Matched => &mut count.matched,
                Verdict::Missed => &mut count.missed,
                Verdict::ExpectedMiss => &mut count.expected,
                Verdict::NotChecked => &mut count.not_checked,
            } += 1;
        }
        count
    }

    /// The number of cells that were checked.
    #[must_use]
    pub const fn checked(self) -> usize {
        self.matched + self.missed + self.expected
    }

    /// The cells that neither match nor miss, in words.
    pub(super) fn rest(self) -> String {
        let all = [(self.expected, "expected misses"), (self.not_checked, "not checked")];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, name)| format!(", {count} {name}")).collect()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}{}", self.matched, self.checked(), self.rest())
    }
}

/// The checked cells of one kind of evidence.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Total {
    /// The kind of evidence.
    pub evidence: Evidence,
    /// Cells of it that were checked.
    pub cells: usize,
    /// Those that match.
    pub matched: usize,
    /// Those that miss the published figure by as much as is expected.
    pub expected_misses: usize,
    /// The mean size of their deviations, expected misses among them; `None` for inequalities.
    pub mean_deviation: Option<f64>,
}

impl Total {
    /// The totals of `cells`, for each kind of evidence that is among them.
    pub(super) fn of(cells: &[&Cell]) -> Vec<Self> {
        let total = |evidence| {
            let own = cells.iter().copied().filter(|cell| cell.is_of(evidence));
            let count = Count::of(own.clone());
            let deviations: Vec<f64> = own.filter_map(Cell::deviation).collect();
            let has_mean = evidence != Evidence::Inequality && !deviations.is_empty();
            (count.checked() > 0).then(|| Self {
                evidence,
                cells: count.checked(),
                matched: count.matched,
                expected_misses: count.expected,
                mean_deviation: has_mean.then(|| measured::accuracy::mean_absolute(&deviations)),
            })
        };
        Evidence::ALL.into_iter().filter_map(total).collect()
    }

    /// The totals as a line each.
    pub(super) fn row(&self) -> Vec<String> {
        let Self { evidence, cells, matched, expected_misses, mean_deviation } = self;
        let mean = mean_deviation.map_or("-".to_owned(), |mean| match mean < 5e-7 {
            true => "0 %".to_owned(),
            false => format::percent(mean),
        });
        vec![
            evidence.name().to_owned(),
            cells.to_string(),
            matched.to_string(),
            expected_misses.to_string(),
            (cells - matched - expected_misses).to_string(),
            mean,
        ]
    }
}

pub(super) const HEAD: [&str; 6] =
    ["evidence", "checked", "match", "expected misses", "miss", "mean deviation"];

/// The totals as CSV, one line each.
pub(super) fn csv(totals: &[Total]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEAD)?;
    totals.iter().try_for_each(|total| writer.write_record(total.row()))?;
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}
