//! Published measurements beside the planner's predictions, run by run.
//!
//! [`validate`] predicts every run of the sets it is asked about, and holds the errors against the bars of
//! each set. The same errors, by kind of step, are the [`ErrorBar`]s that stand beside the steps of plans;
//! those of memory are [`memory_error`].

pub mod accuracy;
mod calibrated;
pub mod coverage;
mod error_bar;
mod interval;
mod memory_error;
pub mod papers;
mod quantities;
mod records;
mod row;
mod rows;
mod set_errors;
mod sets;
mod sheet;
mod today;
mod trainings;

use std::path::{Path, PathBuf};

use planning::machines;
use question::sheet::Sheet;
use question::{Context, Diagnostic, quote};
use serde::{Deserialize, Serialize};

pub use self::calibrated::{CalibratedErrors, Change};
pub use self::coverage::Coverage;
pub use self::error_bar::{ErrorBar, StepAsked, interval_in_words, interval_of_kind};
pub use self::interval::{Level, Step, is_measured};
pub use self::memory_error::memory_error;
pub use self::row::Row;
pub use self::set_errors::SetErrors;
pub use self::today::{Today, model};
pub use self::trainings::{Contingency, Overrun, Training, trainings};

use self::quantities::Limits;
use self::sets::{SETS, Set};

/// The largest file of measurements, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The measurements to hold the planner against.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidationQuestion {
    /// Whether to predict the sets that are built in.
    pub built_in: bool,
    /// The files of further sets, each known by its header.
    pub files: Vec<PathBuf>,
}

impl Default for ValidationQuestion {
    /// The sets that are built in.
    fn default() -> Self {
        Self { built_in: true, files: Vec::new() }
    }
}

/// A set of measurements with its predictions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidatedSet {
    /// The name of the set.
    pub set: &'static str,
    /// Every quantity of every run.
    pub rows: Vec<Row>,
    /// The rows that cannot be predicted, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The errors of each quantity, with their limits.
    pub bars: Vec<Bar>,
    /// The errors on iterations, by kind.
    pub kinds: Vec<SetErrors>,
    /// Coverage of the steps of each source by the intervals of all other sources: of the set with the bars over all
    /// rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Coverage>,
}

impl ValidatedSet {
    /// Why `row`, which is one of its rows, is set apart, if it is.
    #[must_use]
    pub fn apart<'a>(&self, row: &'a Row) -> Option<&'a str> {
        row.apart.as_deref().or(unknown(self.set))
    }
}

/// Why the model does not know the runs of `set`, where it does not.
#[must_use]
pub fn unknown(set: &str) -> Option<&'static str> {
    let reason = "A100 40GB on Perlmutter: gradients cross a network at 6 % of its rate, unknown to the model";
    (set == "ccl-bench").then_some(reason)
}

/// The errors of the predictions of one quantity, and the largest that are allowed. They are relative, but
/// for utilisations, whose errors are differences.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bar {
    /// The quantity, with its unit.
    pub quantity: &'static str,
    /// The number of measurements.
    pub rows: usize,
    /// The mean absolute error.
    pub mean: f64,
    /// 90th percentile of the absolute error, where it is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// The largest absolute error.
    pub max: f64,
    /// The largest mean that is allowed, if that is limited.
    pub allowed_mean: Option<f64>,
    /// The largest error of nine in ten that is allowed, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_p90: Option<f64>,
    /// The largest error of a single measurement that is allowed, if that is limited.
    pub allowed_max: Option<f64>,
    /// Whether both are kept, and schedules come in the measured order where the set compares them.
    pub holds: bool,
}

/// The answer to a [`ValidationQuestion`]. As JSON it is the list of its sets.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct Validated {
    /// The sets: first those built in, then the files in the order of the question.
    pub sets: Vec<ValidatedSet>,
    /// The errors of sets that are not part of the project and not among those above, as they were
    /// recorded; none where only files were asked about.
    #[serde(skip)]
    pub recorded: Vec<SetErrors>,
    /// Further results for runs of today's models; none where only files were asked about.
    #[serde(skip)]
    pub today: Option<Today>,
}

impl Validated {
    /// Whether every bar of every set holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.sets.iter().flat_map(|set| &set.bars).all(|bar| bar.holds)
    }

    /// The predictions, the bars and the errors by kind, as a person reads them.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        sheet::sheet(self)
    }

    /// All rows as CSV, one line each.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        csv(&self.sets).map_err(|error| Diagnostic::new(error.to_string()))
    }
}

/// Predicts all measurements that `question` asks about.
pub fn validate(
    context: &Context<'_>,
    question: &ValidationQuestion,
) -> Result<Validated, Diagnostic> {
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    if question.built_in {
        let sources = SETS.iter().filter_map(Set::source);
        texts.extend(sources.map(|(path, text)| (path, text.to_owned())));
    }
    for path in &question.files {
        texts.push((path.clone(), context.read_text(path, MAX_FILE)?));
    }
    let sets = texts.iter().map(|(path, text)| validated(path, text));
    let mut sets: Vec<ValidatedSet> = sets.collect::<Result<_, _>>()?;
    for ((path, _), set) in texts.iter().zip(&sets) {
        let warn = |row: &String| context.warn(format!("{}: left out: {row}", quote::path(path)));
        set.left_out.iter().for_each(warn);
    }
    let today = if question.built_in { Some(today::built_in()?) } else { None };
    let today = today.map(|(own, today)| {
        sets.extend(own);
        today
    });
    let mut recorded = if question.built_in { records::kept()? } else { Vec::new() };
    let is_predicted =
        |one: &SetErrors| sets.iter().flat_map(|set| &set.kinds).any(|kind| kind.set == one.set);
    recorded.retain(|one| !is_predicted(one));
    if let Some(today) = &today {
        let coverage = coverage::coverage(&sets, &recorded, &today.without_step());
        let all = sets.iter_mut().find(|set| set.set == today::ALL_ROWS);
        all.into_iter().for_each(|all| all.coverage.clone_from(&coverage));
    }
    Ok(Validated { sets, recorded, today })
}

fn validated(path: &Path, text: &str) -> Result<ValidatedSet, Diagnostic> {
    if let Some(source) = today::Source::of(text) {
        return today::file(path, source, text);
    }
    let machine = machines::of_device(rows::device(text))?;
    let (set, rows, left_out) = sets::read(path, text, &machine)?;
    let bars = set.quantities.iter().map(|one| bar(set, one, &rows)).collect();
    let kinds = error_bar::by_kind(set.name, &rows);
    Ok(ValidatedSet { set: set.name, rows, left_out, bars, kinds, coverage: Vec::new() })
}

/// The bar of one quantity of a set over `rows`.
fn bar(set: &Set, limits: &Limits, rows: &[Row]) -> Bar {
    let own = rows.iter().filter(|row| row.quantity == limits.quantity);
    let errors: Vec<f64> = own.map(|row| limits.error(row)).collect();
    let mean = accuracy::mean_absolute(&errors);
    let max = errors.iter().fold(0.0, |most: f64, error| most.max(error.abs()));
    let orders = set.orders_hold(rows);
    let holds = mean <= limits.mean && limits.max.is_none_or(|most| max <= most) && orders;
    Bar {
        quantity: limits.quantity,
        rows: errors.len(),
        mean,
        p90: None,
        max,
        allowed_mean: Some(limits.mean),
        allowed_p90: None,
        allowed_max: limits.max,
        holds,
    }
}

fn csv(sets: &[ValidatedSet]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = [
        "set",
        "run",
        "quantity",
        "measured",
        "predicted",
        "error",
        "fitted",
        "kind",
        "held_out",
        "without_source",
        "set_apart",
    ];
    writer.write_record(header)?;
    for one in sets {
        for row in &one.rows {
            let Row { run, kind, quantity, measured, predicted, error, fitted, .. } = row;
            let numbers = [measured, predicted, error].map(|number| format!("{number:.6}"));
            let [measured, predicted, error] = numbers;
            let fitted = if *fitted { "yes" } else { "no" };
            let written =
                |one: Option<f64>| one.map_or_else(String::new, |one| format!("{one:.6}"));
            let [held_out, without] = [row.held_out, row.without_source].map(written);
            let apart = row.apart.as_deref().unwrap_or_default();
            let record = [
                one.set, run, quantity, &measured, &predicted, &error, fitted, kind, &held_out,
                &without, apart,
            ];
            writer.write_record(record)?;
        }
    }
    Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scenarios::PAPER;

    use super::*;

    /// The sets on A100, whose constants are fitted to nothing here.
    fn built_in() -> impl Iterator<Item = ValidatedSet> {
        SETS.iter().filter_map(Set::source).map(|(path, text)| validated(&path, text).unwrap())
    }

    #[test]
    fn a_file_of_the_host_is_predicted_like_a_set_that_is_built_in() {
        let path = PathBuf::from("own.csv");
        let host = BTreeMap::from([(path.clone(), PAPER.text("megatron2021.csv").into())]);
        let question = ValidationQuestion { built_in: false, files: vec![path] };
        let own = validate(&Context::new(&host), &question).unwrap();
        assert!(own.holds() && own.recorded.is_empty());
        assert_eq!((own.sets.len(), own.sets[0].rows.len()), (1, 10));
        assert_eq!(own.sets[0], built_in().next().unwrap());
        let csv = String::from_utf8(own.csv().unwrap()).unwrap();
        assert!(csv.starts_with("set,run,quantity,") && csv.lines().count() == 11, "{csv}");
    }

    #[test]
    fn a_row_that_cannot_be_predicted_leaves_the_others() {
        for (file, from, to) in [
            ("megatron2021.csv", "\n39.1,64,", "\n39.1,many,"),
            ("megatron2021.csv", "\n39.1,64,", "\n39.1,64,1,"),
            (
                "today-torchtitan.csv",
                ",256,8,32,8,1,1,,16,512,8192,fp8,on,on,",
                ",many,8,32,8,1,1,,16,512,8192,fp8,on,on,",
            ),
            (
                "today-torchtitan.csv",
                ",256,8,32,8,1,1,,16,512,8192,fp8,on,on,",
                ",256,8,32,8,1,1,,16,512,8192,fp8,on,on,,",
            ),
        ] {
            let text = PAPER.text(file);
            assert!(text.contains(from), "{file}");
            let path = PathBuf::from(file);
            let host = BTreeMap::from([(path.clone(), text.replacen(from, to, 1).into())]);
            let question = ValidationQuestion { built_in: false, files: vec![path.clone()] };
            let own = validate(&Context::new(&host), &question).unwrap().sets.remove(0);
            let whole = validated(&path, text).unwrap();
            assert_eq!((whole.left_out.len(), own.left_out.len()), (0, 1), "{file}");
            assert!(own.left_out[0].starts_with("row "), "{:?}", own.left_out);
            let lost =
                whole.rows.iter().filter(|row| !own.rows.iter().any(|one| one.run == row.run));
            assert!(
                own.rows.len() < whole.rows.len()
                    && lost.count() + own.rows.len() == whole.rows.len()
            );
        }
    }

    #[test]
    fn the_error_of_memory_is_the_largest_of_the_sets() {
        let rows = built_in().flat_map(|set| set.rows);
        let rows = rows.filter(|row| row.quantity == quantities::MEMORY);
        let largest = rows.map(|row| row.error.abs()).fold(0.0, f64::max);
        assert!(largest > 0.0);
        assert!((memory_error().unwrap().megatron - largest).abs() < 1e-12);
    }
}
