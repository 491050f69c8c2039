//! `debubble plan --validate`: every published measurement predicted, row by row.

pub mod error_bar;
pub mod memory_bar;
mod papers;
mod rows;
mod sets;

pub use self::rows::RESERVED;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::error_bar::{ErrorBar, SetErrors};
use self::sets::Set;
use crate::accuracy;
use question::plan::machines;
use crate::commands::{Verdict, note, print_json};
use question::Diagnostic;
use crate::files;
use question::format;

/// Where measurements of others lie beside a checkout.
const MEASURED: &str = "../shared/measured";

/// The files of other people's measurements in [`MEASURED`].
const OTHERS: [&str; 2] = ["vtrain_ground_truth_single.csv", "vtrain_ground_truth_multi.csv"];

/// The largest file of measurements.
const MAX_FILE: u64 = 16 << 20;

/// A quantity predicted, beside the measured one.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which run.
    pub run: String,
    /// Of what kind it is, in words.
    pub kind: String,
    /// Which quantity, with its unit.
    pub quantity: &'static str,
    /// As published.
    pub measured: f64,
    /// By the planner.
    pub predicted: f64,
    /// (predicted - measured) / measured.
    pub error: f64,
    /// Whether constants were fitted to it.
    pub fitted: bool,
}

/// What a set of measurements came to.
#[derive(Serialize)]
struct Held {
    set: &'static str,
    rows: Vec<Row>,
    /// Every quantity with its bars.
    bars: Vec<Bar>,
    /// The errors on iterations, by kind.
    kinds: Vec<SetErrors>,
}

/// How far predictions of one quantity lie from measurements, and how far they may.
#[derive(Serialize)]
struct Bar {
    quantity: &'static str,
    rows: usize,
    mean: f64,
    max: f64,
    /// The largest mean that holds.
    allowed_mean: f64,
    /// The largest error of a row that holds, where there is such a bar.
    allowed_max: Option<f64>,
    holds: bool,
}

/// What to hold the planner against, and how.
pub struct Options<'a> {
    /// Files or folders of measurements; those built in, and [`MEASURED`], if there are none.
    pub paths: &'a [PathBuf],
    /// Whether a bar that does not hold is a failure.
    pub check: bool,
    /// Whether to print one JSON object.
    pub json: bool,
    /// Where to write all rows as CSV.
    pub csv: Option<&'a Path>,
}

/// Predicts all measurements and prints how far off.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<Verdict, Diagnostic> {
    let held = sources(options.paths)?
        .iter()
        .map(|(path, text)| held(path, text))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = options.csv {
        files::write(path, csv(&held)?)?;
    }
    if options.json {
        print_json(out, &held)?;
    } else {
        let known = held.iter().flat_map(|one| one.kinds.clone()).collect();
        print(out, &held, &if options.paths.is_empty() { with_recorded(known)? } else { known })?;
    }
    let holds = held.iter().flat_map(|one| &one.bars).all(|bar| bar.holds);
    Ok(if options.check && !holds { Verdict::Missed } else { Verdict::Done })
}

/// `known` with what was recorded of sets that are not among them.
fn with_recorded(mut known: Vec<SetErrors>) -> Result<Vec<SetErrors>, Diagnostic> {
    let recorded = error_bar::recorded()?.into_iter();
    let others = recorded.filter(|one| known.iter().all(|set| set.set != one.set));
    let others: Vec<SetErrors> = others.collect();
    known.extend(others);
    Ok(known)
}

/// The files to read: those named, or those built in and what lies beside.
fn sources(paths: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, Diagnostic> {
    let mut all = Vec::new();
    if paths.is_empty() {
        let built_in = sets::BUILT_IN.iter();
        all.extend(built_in.map(|(name, text)| (PathBuf::from(name), (*text).to_owned())));
        for name in OTHERS {
            let path = Path::new(MEASURED).join(name);
            if path.is_file() {
                all.push((path.clone(), files::read_text(&path, MAX_FILE)?));
            } else {
                let skipped = path.display();
                note(&format!("{skipped} is not there: its measurements are left out"));
            }
        }
    }
    for path in paths {
        let named = match path.is_dir() {
            true => {
                OTHERS.iter().map(|name| path.join(name)).filter(|file| file.is_file()).collect()
            }
            false => vec![path.clone()],
        };
        if named.is_empty() {
            note(&format!("{} has no measurements of a known name", path.display()));
        }
        for file in named {
            let text = files::read_text(&file, MAX_FILE)?;
            all.push((file, text));
        }
    }
    Ok(all)
}

fn held(path: &Path, text: &str) -> Result<Held, Diagnostic> {
    let (set, rows) = rows::read(path, text, &machines::of_device(rows::device(text))?)?;
    let bars = set.quantities().iter().map(|one| bar(set, one, &rows)).collect();
    let kinds = error_bar::by_kind(set.name(), &rows);
    Ok(Held { set: set.name(), rows, bars, kinds })
}

/// The bar of one quantity of a set over `rows`.
fn bar(set: Set, limits: &sets::Limits, rows: &[Row]) -> Bar {
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
        max,
        allowed_mean: limits.mean,
        allowed_max: limits.max,
        holds,
    }
}

fn csv(all: &[Held]) -> Result<Vec<u8>, Diagnostic> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fail = |error: csv::Error| Diagnostic::new(error.to_string());
    let header = ["set", "run", "quantity", "measured", "predicted", "error", "fitted", "kind"];
    writer.write_record(header).map_err(fail)?;
    for one in all {
        for row in &one.rows {
            let Row { run, kind, quantity, measured, predicted, error, fitted } = row;
            let numbers = [measured, predicted, error].map(|number| format!("{number:.6}"));
            let [measured, predicted, error] = numbers;
            let fitted = if *fitted { "yes" } else { "no" };
            let record = [one.set, run, quantity, &measured, &predicted, &error, fitted, kind];
            writer.write_record(record).map_err(fail)?;
        }
    }
    writer.into_inner().map_err(|error| Diagnostic::new(error.to_string()))
}

/// Sets of at most this many rows are printed whole; of others, the worst.
const WHOLE: usize = 64;
/// How many of the worst are.
const WORST: usize = 12;

fn print(out: &mut dyn Write, all: &[Held], kinds: &[SetErrors]) -> Result<(), Diagnostic> {
    for one in all {
        writeln!(out, "{}", one.set)?;
        for kind in &one.kinds {
            writeln!(out, "  {} rows of the kind {}", kind.rows, kind.kind)?;
        }
        let mut rows: Vec<&Row> = one.rows.iter().collect();
        if rows.len() > WHOLE {
            rows.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
            rows.truncate(WORST);
            writeln!(out, "the {WORST} worst of {} rows:", one.rows.len())?;
        }
        let cells = rows.iter().map(|row| {
            let Row { run, quantity, measured, predicted, error, .. } = row;
            let [measured, predicted] = [measured, predicted].map(|number| format!("{number:.3}"));
            vec![
                run.clone(),
                (*quantity).into(),
                measured,
                predicted,
                format::signed_percent(*error),
            ]
        });
        let header = ["run", "quantity", "measured", "predicted", "error"];
        writeln!(out, "{}", format::table(&header, cells))?;
    }
    let bars = all.iter().flat_map(|one| one.bars.iter().map(move |bar| (one.set, bar)));
    let cells = bars.map(|(set, bar)| {
        let allowed = bar.allowed_max.map_or_else(|| "-".to_owned(), format::percent);
        vec![
            set.to_owned(),
            bar.quantity.to_owned(),
            bar.rows.to_string(),
            format::percent(bar.mean),
            format::percent(bar.allowed_mean),
            format::percent(bar.max),
            allowed,
            if bar.holds { "yes" } else { "NO" }.to_owned(),
        ]
    });
    let header = ["set", "quantity", "rows", "mean", "allowed", "max", "allowed", "holds"];
    write!(out, "{}", format::table(&header, cells))?;
    print_kinds(out, kinds)?;
    writeln!(out, "\n{}", sets::WEAK)?;
    Ok(())
}

/// Prints how far plans of each kind may be off, where `sets` are all that is known.
fn print_kinds(out: &mut dyn Write, sets: &[SetErrors]) -> Result<(), Diagnostic> {
    let kinds: BTreeSet<&str> = sets.iter().map(|set| set.kind.as_str()).collect();
    writeln!(out, "\n{KINDS}")?;
    for kind in kinds {
        let bar = ErrorBar::new("", kind, sets);
        writeln!(out, "{kind}: +- {}", format::percent(bar.error.unwrap_or_default()))?;
        for set in &bar.sets {
            let [mean, error, max] = [set.mean, set.error, set.max].map(format::percent);
            let held_out = set.held_out_mean.map_or_else(|| "-".to_owned(), format::percent);
            let SetErrors { set, rows, fitted, shortest, longest, .. } = set;
            writeln!(
                out,
                "  {set}: {rows} rows, {fitted} fitted; {shortest:.2} to {longest:.2} times as long"
            )?;
            writeln!(
                out,
                "    mean {mean}, of those not fitted {held_out}; 95 % within {error}, largest {max}"
            )?;
        }
    }
    Ok(())
}

const KINDS: &str = "\
The error that stands beside the step of a plan is that of measured iterations of its kind: the size
that 95 % of a set do not exceed, of fewer than 20 the largest, and of several sets the widest. Of any
kind that is not here nothing is measured, and plans say so.";
