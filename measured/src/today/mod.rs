//! Runs of today's models on today's machines: predictions of the planner with the current constants,
//! and with constants that were fitted without them.
//!
//! Nine sources in ten omit facts of a run: `assumptions` fills them in. Constants are fitted to all
//! rows that are not set apart; the error on other runs is that of rows left out, configuration by
//! configuration, model by model, machine by machine, since repeats of a set-up say nothing about
//! another one.

mod assumptions;
mod calibrated;
mod constants;
mod figures;
mod models;
mod own_network;
mod predict;
mod published;
mod report;
mod row;
mod sheet;
mod study;

use std::collections::BTreeSet;
use std::path::Path;

use plan::Transformer;
use question::Diagnostic;
use question::sheet::Sheet;

pub(super) use self::published::Source;
pub(super) use self::report::ALL_ROWS;
use self::report::rows_of;

use self::figures::Figures;
use self::models::Models;
use self::own_network::OwnNetwork;
use self::row::{Apart, Read, Run};
use self::study::Refitted;
use super::calibrated::{CalibratedErrors, Pair};
use super::quantities::{PEAK, TIME};
use super::rows::records;
use super::{ValidatedSet, error_bar};

/// The model that published tables of runs call `name`, on sequences of this length, with its layers of
/// multi-token prediction if `mtp`; `None` for a name that they do not have.
#[must_use]
pub fn model(name: &str, sequence: u64, mtp: bool) -> Option<Result<Transformer, String>> {
    let models = match Models::read() {
        Ok(models) => models,
        Err(error) => return Some(Err(error)),
    };
    models.named(name).map(|model| model.transformer(sequence, mtp))
}

/// Results for the runs of today's models beside sets and bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Today {
    figures: Vec<Figures>,
    constants: Vec<Refitted>,
    /// Lines that are not runs of the planner's, and runs that no constant is fitted to.
    apart: Vec<Apart>,
    /// The errors after one layout was measured: all but those of ccl-bench, whose network the model does not know.
    pub(super) calibrated: Vec<CalibratedErrors>,
    /// The same by source.
    by_source: Vec<(&'static str, [f64; 2], usize)>,
    /// Steps of ccl-bench with a network of their own.
    own_network: OwnNetwork,
}

impl Today {
    /// The source of every line whose step cannot be compared, and why.
    pub(super) fn without_step(&self) -> Vec<(String, String)> {
        let one = |line: &Apart| {
            let (source, _) = line.place.rsplit_once(' ')?;
            Some((source.to_owned(), format!("{} ({})", line.lacks?, line.reason)))
        };
        self.apart.iter().filter_map(one).collect()
    }

    /// The constants, the rows set apart with the reasons, and the claims of other planners.
    pub(super) fn sheet(&self) -> Sheet {
        sheet::sheet(self)
    }
}

/// All runs that are built in, as sets with their bars.
pub(super) fn built_in() -> Result<(Vec<ValidatedSet>, Today), Diagnostic> {
    let (runs, mut apart) = published_runs()?;
    apart.extend(runs.iter().filter_map(Run::set_apart));
    let own_network = OwnNetwork::of(&runs)?;
    let study = study::study(runs)?;
    let sets = report::sets(&study);
    let figures = Figures::all(&study.outcomes);
    let known: Vec<Pair> =
        study.pairs.iter().filter(|pair| super::unknown(pair.source).is_none()).cloned().collect();
    let calibrated = CalibratedErrors::by_change(&known);
    let by_source = calibrated::by_source(&study.pairs);
    Ok((
        sets,
        Today { figures, constants: study.constants, apart, calibrated, by_source, own_network },
    ))
}

/// The runs of a file with the columns of one of the tables, predicted with the constants in use. Runs whose
/// configuration is built in were fitted; of all others no constant knows.
pub(super) fn file(path: &Path, source: Source, text: &str) -> Result<ValidatedSet, Diagnostic> {
    let (known, _) = published_runs()?;
    let known: BTreeSet<String> = known.into_iter().map(|run| run.configuration).collect();
    let models = Models::read().map_err(Diagnostic::new)?;
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for (line, row) in (1..).zip(records(text)) {
        match row.and_then(|row| row::read(source, line, &row, &models)) {
            Ok(Read::Run(run)) => runs.push(*run),
            Ok(Read::Apart(_)) => {}
            Err(cause) => left_out.push(format!("row {line}: {cause}")),
        }
    }
    let mut outcomes = Vec::new();
    for one in study::each_without_fits(runs)? {
        match one {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => left_out.push(error.message),
        }
    }
    if let Some(cause) = left_out.first().filter(|_| outcomes.is_empty()) {
        return Err(Diagnostic::unreadable(path, cause));
    }
    let mut rows = Vec::new();
    for one in &outcomes {
        let is_fitted = source.is_fitted() || source == Source::SimuMax;
        let is_known = is_fitted && known.contains(&one.run.configuration);
        let own = rows_of(one).into_iter();
        rows.extend(own.map(|row| super::Row { fitted: is_known && row.quantity == TIME, ..row }));
    }
    let name = source.name();
    let bars = report::bars_of_file(&rows, [TIME, PEAK]);
    let kinds = error_bar::by_kind(name, &rows);
    Ok(ValidatedSet { set: name, rows, left_out, bars, kinds, coverage: Vec::new() })
}

/// The runs of all built-in tables, and the lines that are none.
fn published_runs() -> Result<(Vec<Run>, Vec<Apart>), Diagnostic> {
    let models = Models::read().map_err(Diagnostic::new)?;
    let (mut runs, mut apart) = (Vec::new(), Vec::new());
    for source in Source::ALL {
        let (path, text) = (Path::new(source.file()), source.text());
        for read in row::all(path, source, text, &models)? {
            match read {
                Read::Run(run) => runs.push(*run),
                Read::Apart(line) => apart.push(line),
            }
        }
    }
    Ok((runs, apart))
}

#[cfg(test)]
mod tests;
