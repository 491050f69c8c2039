//! The error of a predicted step: the errors of the model on measured iterations of the same kind.

use std::collections::BTreeMap;

use plan::{Cluster, Kind, Machine};
use question::Diagnostic;
use question::format;
use question::plan::machines;
use serde::{Deserialize, Serialize};

use super::Row;
use super::quantities::{SPEED, is_step};
use super::records;
use super::rows;
use super::sets::{self, SETS, Set};
use crate::accuracy;

/// The errors of the planner on the iterations of one set of measurements that are of one kind. Errors are
/// relative: (predicted - measured) / measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetErrors {
    /// The name of the set.
    pub set: String,
    /// The kind of step, in words.
    pub kind: String,
    /// The number of iterations.
    pub rows: usize,
    /// The number of them to which constants of the planner were fitted.
    pub fitted: usize,
    /// The mean of the absolute errors.
    pub mean: f64,
    /// The mean over the iterations that were left out of every fit, if any were.
    pub held_out_mean: Option<f64>,
    /// The 95th percentile of the absolute errors; for fewer than 20 the largest.
    pub error: f64,
    /// The largest absolute error.
    pub max: f64,
    /// The least measured time over the predicted one.
    pub shortest: f64,
    /// The greatest measured time over the predicted one.
    pub longest: f64,
}

/// The errors on the iterations of `rows`, which are of `set`, by kind.
pub(super) fn by_kind(set: &str, rows: &[Row]) -> Vec<SetErrors> {
    let steps = rows.iter().filter(|row| is_step(row.quantity));
    grouped(set, steps.map(|row| (row.kind.as_str(), row)))
}

/// The errors on rows of `set`, each with its kind.
pub(super) fn grouped<'a>(
    set: &str,
    rows: impl Iterator<Item = (&'a str, &'a Row)>,
) -> Vec<SetErrors> {
    let mut kinds: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for (kind, row) in rows {
        kinds.entry(kind).or_default().push(row);
    }
    let errors_of = |(kind, rows): (&str, Vec<&Row>)| {
        let errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
        let held_out = rows.iter().filter(|row| !row.fitted);
        let held_out: Vec<f64> = held_out.map(|row| row.error).collect();
        SetErrors {
            set: set.to_owned(),
            kind: kind.to_owned(),
            rows: rows.len(),
            fitted: rows.iter().filter(|row| row.fitted).count(),
            mean: accuracy::mean_absolute(&errors),
            held_out_mean: (!held_out.is_empty()).then(|| accuracy::mean_absolute(&held_out)),
            error: accuracy::not_exceeded_by_95_percent(&errors),
            max: errors.iter().copied().fold(0.0, f64::max),
            shortest: rows.iter().map(|row| times_as_long(row)).fold(f64::MAX, f64::min),
            longest: rows.iter().map(|row| times_as_long(row)).fold(0.0, f64::max),
        }
    };
    kinds.into_iter().map(errors_of).collect()
}

/// How many times as long as predicted the step of `row` took: what an error of a half leaves open.
fn times_as_long(row: &Row) -> f64 {
    match row.quantity {
        SPEED => row.predicted / row.measured,
        _ => row.measured / row.predicted,
    }
}

/// The error bar of predicted steps of one kind on one machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ErrorBar {
    /// The name of the machine, or of all kinds of devices with a plus.
    pub machine: String,
    /// The kind of step, in words.
    pub kind: String,
    /// The widest error of the sets that have iterations of the kind, as a share of the step; none if
    /// nothing of the kind was measured.
    pub error: Option<f64>,
    /// The mean absolute error over all their iterations.
    pub mean: Option<f64>,
    /// The largest absolute error of all their iterations.
    pub max: Option<f64>,
    /// The least measured time over the predicted one.
    pub shortest: Option<f64>,
    /// The greatest measured time over the predicted one.
    pub longest: Option<f64>,
    /// The number of measured iterations of the kind.
    pub rows: usize,
    /// The number of them to which constants of the planner were fitted.
    pub fitted: usize,
    /// The names of the sets.
    pub sources: Vec<String>,
    /// The errors by set.
    pub sets: Vec<SetErrors>,
}

impl ErrorBar {
    /// The error bar of `kind` on `machine`, from those of `sets` that are of the kind.
    pub fn new(machine: &str, kind: &str, sets: &[SetErrors]) -> Self {
        let own = sets.iter().filter(|set| set.kind == kind);
        let sets: Vec<SetErrors> = own.cloned().collect();
        let rows = sets.iter().map(|set| set.rows).sum();
        let widest = |of: fn(&SetErrors) -> f64| sets.iter().map(of).reduce(f64::max);
        let sum = |set: &SetErrors| set.mean * plan::number(set.rows as u64);
        let sum = sets.iter().map(sum).sum::<f64>();
        Self {
            machine: machine.to_owned(),
            kind: kind.to_owned(),
            error: widest(|set| set.error),
            mean: (rows > 0).then(|| sum / plan::number(rows as u64)),
            max: widest(|set| set.max),
            shortest: sets.iter().map(|set| set.shortest).reduce(f64::min),
            longest: widest(|set| set.longest),
            rows,
            fitted: sets.iter().map(|set| set.fitted).sum(),
            sources: sets.iter().map(|set| set.set.clone()).collect(),
            sets,
        }
    }

    /// The error bars of the kinds in `steps`, each once. For each, all measured iterations on its types
    /// of device are predicted with the constants of its machines.
    ///
    /// # Errors
    /// If an iteration cannot be predicted with them.
    pub fn of_all(steps: &[(&Cluster, Kind)]) -> Result<Vec<Self>, Diagnostic> {
        let mut known: Vec<(&str, Vec<SetErrors>)> = Vec::new();
        let mut bars: Vec<Self> = Vec::new();
        for (cluster, kind) in steps {
            let (name, words) = (cluster.name(), kind.to_string());
            if bars.iter().any(|bar| bar.machine == name && bar.kind == words) {
                continue;
            }
            let mut sets = Vec::new();
            for (machine, _) in &cluster.parts {
                if !known.iter().any(|(name, _)| *name == machine.name) {
                    known.push((&machine.name, errors_of(machine)?));
                }
                let own = known.iter().filter(|(name, _)| *name == machine.name);
                sets.extend(own.flat_map(|(_, sets)| sets.clone()));
            }
            bars.push(Self::new(&name, &words, &sets));
        }
        Ok(bars)
    }

    /// The error and the measurements that it comes from, in words.
    pub fn source(&self) -> String {
        let Self { machine, kind, rows, fitted, .. } = self;
        let Some(error) = self.error else {
            return format!("{machine}: nothing measured of this kind ({kind})");
        };
        let [error, mean, max] =
            [error, self.mean.unwrap_or_default(), self.max.unwrap_or_default()]
                .map(format::percent);
        let sets = self.sets.iter().map(|set| format!("{} ({})", set.set, set.rows));
        format!(
            "{machine}: +- {error} ({kind}), by {rows} measured iterations of this kind, {mean} off in \
             the mean, {max} at most: they took {:.2} to {:.2} times as long as predicted; constants \
             were fitted to {fitted} of them: {}",
            self.shortest.unwrap_or_default(),
            self.longest.unwrap_or_default(),
            sets.collect::<Vec<_>>().join("; "),
        )
    }
}

/// The errors of `machine` on all measured iterations of its type of device, and those recorded.
fn errors_of(machine: &Machine) -> Result<Vec<SetErrors>, Diagnostic> {
    let mut all = records::kept()?;
    if predicts_as_built_in(machine)? {
        all.extend(records::of_sets()?);
        return Ok(all);
    }
    for (path, text) in SETS.iter().filter_map(Set::source) {
        if machine.device.as_deref() != Some(rows::device(text)) {
            continue;
        }
        let (set, rows) = sets::read(&path, text, machine)?;
        all.extend(by_kind(set.name, &rows));
    }
    Ok(all)
}

/// Whether `machine` predicts what the built-in one of its type of device does. Its memory and its profile
/// are not asked where measured runs are predicted, and nothing there costs or fails.
fn predicts_as_built_in(machine: &Machine) -> Result<bool, Diagnostic> {
    let Some(device) = &machine.device else { return Ok(true) };
    let has_sets = |set: &Set| set.source().is_some_and(|(_, text)| rows::device(text) == device);
    if !SETS.iter().any(has_sets) {
        return Ok(true);
    }
    let built_in = machines::of_device(device)?;
    let asked = Machine {
        name: built_in.name.clone(),
        memory: built_in.memory,
        reserve: built_in.reserve,
        measured: built_in.measured,
        price: built_in.price,
        reliability: built_in.reliability,
        ..machine.clone()
    };
    Ok(asked == built_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_constants_of_its_own_has_errors_of_its_own() {
        let built_in = machines::of_device("A100 80GB").unwrap();
        let mut cheap = built_in.clone();
        cheap.price.on_demand /= 2.0;
        cheap.memory.0 /= 2;
        assert_eq!(errors_of(&cheap).unwrap(), errors_of(&built_in).unwrap());
        let mut slow = built_in.clone();
        slow.efficiency.matmul *= 0.9;
        let (slow, as_it_is) = (errors_of(&slow).unwrap(), errors_of(&built_in).unwrap());
        let of_set =
            |all: &[SetErrors]| all.iter().find(|one| one.set == SETS[0].name).unwrap().mean;
        assert!(of_set(&slow) > of_set(&as_it_is), "{slow:?}");
    }
}
