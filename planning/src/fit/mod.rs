//! A few measured iterations of a user's, and the machine that its efficiencies are fitted from.

mod base;
mod calibration;
mod columns;
mod run;
mod scales;

use std::path::Path;

use plan::Transformer;
use question::diagnostic::Diagnostic;
use question::host::Context;

pub use self::base::Base;
pub use self::calibration::calibration;
use self::columns::{Columns, Record};
pub use self::run::Run;
pub use self::scales::{SCALES, Scale, parameters, scaled};

/// The largest table.
const MAX_FILE: u64 = 1 << 20;
/// The most iterations: the time of leave-one-out fits is quadratic in their number.
const MAX_RUNS: usize = 64;

/// The sizes of models that tables may name without a file: by name, by the tokens of a sequence where a
/// table gives them, and by whether layers of multi-token prediction are trained; `None` for a name that is
/// not known.
pub type Models<'a> = dyn Fn(&str, Option<u64>, bool) -> Option<Result<Transformer, String>> + 'a;

/// Measured iterations, whole and checked.
#[derive(Debug)]
pub struct FitQuestion {
    /// The file of the iterations, as messages show it.
    pub file: String,
    /// The machine that they are compared with and fitted from.
    pub base: Base,
    /// The iterations: of two set-ups at least.
    pub runs: Vec<Run>,
    /// Why lines were left out, each with its place.
    pub left_out: Vec<Diagnostic>,
}

/// Reads the table of iterations in `path`, measured on devices of which the machine `base` is a
/// description, by name or file; where there is no `base`, on those that the table's column `machine`
/// names. Names in `models` may stand for models.
pub fn read(
    context: &Context<'_>,
    path: &Path,
    base: Option<&str>,
    models: &Models<'_>,
) -> Result<FitQuestion, Diagnostic> {
    let text = context.read_text(path, MAX_FILE)?;
    let table = Table { path, text: &text };
    let (columns, records, mut left_out) = table.records()?;
    let base = match base {
        Some(name) => Base::named(context, name)?,
        None => Base::of_device(&table.device(&columns, &records)?)?,
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let reader = run::Reader { context, folder, models, machine: &base.machine };
    let mut runs = Vec::new();
    for record in &records {
        let line = table.line(record.position());
        match reader.read(&columns, record, line) {
            Ok(run) => runs.push(run),
            Err(run::Fault::Cells(message, help)) => left_out
                .push(help.into_iter().fold(table.wrong(record, &message), Diagnostic::with_help)),
            Err(run::Fault::File(diagnostic)) => left_out.push(diagnostic),
        }
    }
    let configurations = runs.iter().map(|run| run.configuration.as_str()).collect::<Vec<_>>();
    if plan::fit::groups(&configurations).into_iter().max() < Some(1) {
        if !left_out.is_empty() {
            return Err(left_out.swap_remove(0));
        }
        let cause = "it has iterations of one set-up alone: what a fit to it says of another one \
                     cannot be checked";
        let cure = "add an iteration of another set-up, such as with other groups or another batch";
        return Err(Diagnostic::unreadable(path, cause).with_help(cure));
    }
    Ok(FitQuestion { file: question::quote::path(path), base, runs, left_out })
}

/// A table and its text.
struct Table<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Table<'_> {
    /// The columns, the lines below them, and why lines cannot be read.
    fn records(&self) -> Result<(Columns, Vec<Record>, Vec<Diagnostic>), Diagnostic> {
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(self.text.as_bytes());
        let broken = |error: &csv::Error| {
            let line = error.position().map_or(String::new(), |at| format!("line {}: ", at.line()));
            let cause = match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("{line}it has {len} cells, but there are {expected_len} columns")
                }
                _ => format!("{line}{error}"),
            };
            Diagnostic::unreadable(self.path, &cause)
        };
        let header = reader.headers().map_err(|error| broken(&error))?.clone();
        let columns = Columns::of(&header).map_err(|(message, help)| {
            self.wrong_at(header.position(), &message).with_help(help)
        })?;
        let (mut records, mut left_out) = (Vec::new(), Vec::new());
        for record in reader.records() {
            if records.len() == MAX_RUNS {
                let cause =
                    format!("it has more than {MAX_RUNS} iterations: give the ones that differ");
                return Err(Diagnostic::unreadable(self.path, &cause));
            }
            match record {
                Ok(record) => records.push(record),
                Err(error) => left_out.push(broken(&error)),
            }
        }
        Ok((columns, records, left_out))
    }

    /// An error in the line of `record`.
    fn wrong(&self, record: &Record, message: &str) -> Diagnostic {
        self.wrong_at(record.position(), message)
    }

    fn wrong_at(&self, position: Option<&csv::Position>, message: &str) -> Diagnostic {
        let start = self.start(position);
        let rest = self.text.get(start..).unwrap_or_default();
        let end = start + rest.lines().next().map_or(0, str::len);
        Diagnostic::at(self.path, self.text, Some(start..end), message)
    }

    /// The first byte of the record at `position`, where line ends, comments and empty lines before it
    /// count as its beginning.
    fn start(&self, position: Option<&csv::Position>) -> usize {
        let start = position.and_then(|at| usize::try_from(at.byte()).ok()).unwrap_or(0);
        let mut start = start.min(self.text.len());
        let rest = self.text.get(start..).unwrap_or_default();
        for line in rest.split_inclusive('\n') {
            if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            start += line.len();
        }
        start
    }

    /// The line of the record at `position`, from 1.
    fn line(&self, position: Option<&csv::Position>) -> usize {
        let before = self.text.get(..self.start(position)).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    /// The type of devices that all lines name.
    fn device(&self, columns: &Columns, records: &[Record]) -> Result<String, Diagnostic> {
        let named = |record: &Record| columns.text(record, "machine").to_owned();
        let first = records.first().map(named).filter(|name| !name.is_empty());
        let Some(device) = first else {
            let cause = "it does not say on which machine: it has no column machine";
            let cure = format!("give --machine, one of {} or a file", known());
            return Err(Diagnostic::unreadable(self.path, cause).with_help(cure));
        };
        match records.iter().find(|record| named(record) != device) {
            Some(other) => {
                let message = format!("the iterations before this were measured on {device}");
                let cure = "fit one machine at a time, each from a table of its own";
                Err(self.wrong(other, &message).with_help(cure))
            }
            None => Ok(device),
        }
    }
}

/// The names of built-in machines.
fn known() -> String {
    scenarios::MACHINES.names().collect::<Vec<_>>().join(", ")
}
