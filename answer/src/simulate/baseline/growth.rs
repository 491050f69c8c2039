//! Changes of schedules since an earlier answer: as JSON, as a table, in a sentence.

use pipeline::{Bytes, Nanos};
use question::format;
use question::sheet::Sheet;
use serde::{Serialize, Serializer};

use super::{Figures, Name, Tolerance};

/// The change of a schedule since the earlier answer.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// No figure grew by more than the tolerance.
    Kept,
    /// Some figure grew by more than the tolerance.
    Grew,
    /// The earlier answer lacks it.
    New,
    /// This answer lacks it.
    Gone,
}

/// A figure of a schedule then and now.
#[derive(Clone, Copy, Serialize, Debug)]
pub struct Figure {
    /// Its name in the JSON of answers, or that of its largest value over stages, or of its mean.
    pub figure: &'static str,
    before: Quantity,
    now: Quantity,
    /// Whether it grew by more than the tolerance.
    pub grew: bool,
}

#[derive(Clone, Copy, Serialize, Debug)]
#[serde(untagged)]
enum Quantity {
    #[serde(serialize_with = "nanos")]
    Time(Nanos),
    #[serde(serialize_with = "bytes")]
    Size(Bytes),
    MeanTime(f64),
    Rate(f64),
    Count(u32),
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
fn nanos<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
fn bytes<S: Serializer>(size: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(size.0)
}

impl Quantity {
    fn in_words(self) -> String {
        match self {
            Self::Time(time) => format::time(time),
            Self::Size(size) => format::size(size),
            Self::MeanTime(nanos) => format!("{:.3} ms", nanos / 1e6),
            Self::Rate(rate) => format::percent(rate),
            Self::Count(count) => count.to_string(),
        }
    }

    /// Whether this exceeds `before` by more than `tolerance`.
    fn exceeds(self, before: Self, tolerance: Tolerance) -> bool {
        match (before, self) {
            (Self::Time(before), Self::Time(now)) => tolerance.is_exceeded(before.0, now.0),
            (Self::Size(before), Self::Size(now)) => tolerance.is_exceeded(before.0, now.0),
            (Self::Count(before), Self::Count(now)) => {
                tolerance.is_exceeded(u64::from(before), u64::from(now))
            }
            (Self::MeanTime(before), Self::MeanTime(now)) => {
                now - before > tolerance.share() * before
            }
            (Self::Rate(before), Self::Rate(now)) => now - before > tolerance.share(),
            _ => false,
        }
    }
}

/// The name of a figure in JSON, and in the head of a table.
const NAMES: [(&str, &str); 5] = [
    ("span_ns", "span"),
    ("mean_span_ns", "mean span"),
    ("bubble_rate", "bubble"),
    ("peak_activation_bytes", "peak memory"),
    ("peak_in_flight", "peak in flight"),
];

/// The figures that both `before` and `now` have, each with its place in [`NAMES`].
fn pairs(before: &Figures, now: &Figures) -> impl Iterator<Item = (usize, Quantity, Quantity)> {
    let quantities = |one: &Figures| {
        let Figures { span, mean_span, bubble_rate, peak, in_flight } = *one;
        [
            Some(Quantity::Time(span)),
            mean_span.map(Quantity::MeanTime),
            Some(Quantity::Rate(bubble_rate)),
            peak.map(Quantity::Size),
            Some(Quantity::Count(in_flight)),
        ]
    };
    let both = quantities(before).into_iter().zip(quantities(now)).enumerate();
    both.filter_map(|(at, (before, now))| Some((at, before?, now?)))
}

/// A schedule then and now.
#[derive(Serialize, Debug)]
pub struct GrowthRow {
    /// The name of its setting, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// Its name.
    pub schedule: String,
    pub change: Change,
    /// Its figures, where both answers have them.
    pub figures: Vec<Figure>,
}

impl GrowthRow {
    /// The schedule `name`, of which only one answer knows.
    pub(super) fn alone(name: &Name, change: Change) -> Self {
        let Name { setting, schedule } = name.clone();
        Self { setting, schedule, change, figures: Vec::new() }
    }

    /// The schedule `name`, which both answers know.
    pub(super) fn held(name: &Name, before: &Figures, now: &Figures, tolerance: Tolerance) -> Self {
        let figure = |(at, before, now): (usize, Quantity, Quantity)| Figure {
            figure: NAMES[at].0,
            before,
            now,
            grew: now.exceeds(before, tolerance),
        };
        let figures: Vec<Figure> = pairs(before, now).map(figure).collect();
        let grew = figures.iter().any(|figure| figure.grew);
        Self { figures, ..Self::alone(name, if grew { Change::Grew } else { Change::Kept }) }
    }

    fn title(&self) -> String {
        match &self.setting {
            Some(setting) => format!("{}, {setting}", self.schedule),
            None => self.schedule.clone(),
        }
    }

    /// The change in words: `span, bubble grew`.
    fn verdict(&self) -> String {
        let named = |one: &Figure| NAMES.iter().find(|(name, _)| *name == one.figure);
        let grown = self.figures.iter().filter(|one| one.grew).filter_map(named);
        let grown: Vec<&str> = grown.map(|&(_, name)| name).collect();
        match self.change {
            Change::Kept => "kept".to_owned(),
            Change::Grew => format!("{} grew", grown.join(", ")),
            Change::New => "new".to_owned(),
            Change::Gone => "gone".to_owned(),
        }
    }

    /// A cell for each of `columns`: the figure, with the earlier one where it differs.
    fn cells(&self, columns: &[(&'static str, &str)]) -> Vec<String> {
        let cell = |name: &str| {
            let figure = self.figures.iter().find(|one| one.figure == name);
            figure.map_or_else(String::new, |one| {
                let [before, now] = [one.before, one.now].map(Quantity::in_words);
                if before == now { now } else { format!("{before} -> {now}") }
            })
        };
        let cells = columns.iter().map(|(name, _)| cell(name));
        [self.title()].into_iter().chain(cells).chain([self.verdict()]).collect()
    }
}

/// An answer held against an earlier one.
#[derive(Serialize, Debug)]
pub struct Growth {
    /// By how much figures may grow.
    #[serde(serialize_with = "share")]
    pub tolerance: Tolerance,
    /// Whether some figure grew by more, or a schedule is gone.
    pub failed: bool,
    /// The schedules of this answer in their order, then those that are gone.
    pub schedules: Vec<GrowthRow>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
fn share<S: Serializer>(tolerance: &Tolerance, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(tolerance.share())
}

impl Growth {
    pub(super) fn of(tolerance: Tolerance, schedules: Vec<GrowthRow>) -> Self {
        let failed = schedules.iter().any(|row| matches!(row.change, Change::Grew | Change::Gone));
        Self { tolerance, failed, schedules }
    }

    /// One row for each schedule, with the earlier figures where they differ.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let is_used = |name: &str| {
            self.schedules.iter().flat_map(|row| &row.figures).any(|one| one.figure == name)
        };
        let columns: Vec<(&str, &str)> =
            NAMES.into_iter().filter(|(name, _)| is_used(name)).collect();
        let names = columns.iter().map(|&(_, name)| name);
        let header = ["against the baseline"].into_iter().chain(names).chain(["verdict"]);
        Sheet::table(header, self.schedules.iter().map(|row| row.cells(&columns)))
    }

    /// The schedules that grew or are gone, in one line; nothing if there are none.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let bad = |row: &&GrowthRow| matches!(row.change, Change::Grew | Change::Gone);
        let named = |row: &GrowthRow| format!("{} ({})", row.title(), row.verdict());
        let all: Vec<String> = self.schedules.iter().filter(bad).map(named).collect();
        let by = format::percent(self.tolerance.share());
        self.failed
            .then(|| format!("worse than the baseline by more than {by}: {}", all.join("; ")))
    }
}
