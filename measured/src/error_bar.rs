//! The error of a predicted step: the errors of the model on measured iterations of the same kind.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Cluster, Kind, Machine, Precision, Tuning};
use planning::machines;
use question::Diagnostic;
use serde::Serialize;

use super::calibrated::{CalibratedErrors, Change};
use super::interval::{Level, Pool, Step};
use super::quantities::{SPEED, is_step};
use super::records;
use super::row::Row;
use super::rows;
use super::set_errors::SetErrors;
use super::sets::{self, SETS, Set};
use crate::accuracy;

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
        let precisions: BTreeSet<&str> = rows.iter().map(|row| row.step.precision.name()).collect();
        let widths: BTreeSet<u64> = rows.iter().map(|row| row.step.expert_width).collect();
        let widths: Vec<u64> = widths.into_iter().filter(|width| *width > 0).collect();
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
            configurations: scores(&rows).len(),
            sequence_most: rows.iter().map(|row| row.step.sequence).max().unwrap_or_default(),
            devices_most: rows.iter().map(|row| row.step.devices).max().unwrap_or_default(),
            precisions: Vec::from_iter(precisions).join(" "),
            widths: Vec::from_iter(widths.iter().map(u64::to_string)).join(" "),
        }
    };
    kinds.into_iter().map(errors_of).collect()
}

/// The score of each configuration: the mean, over its rows, of the logarithm of the measured over the predicted time,
/// with constants that were fitted without their source where that is known.
pub(super) fn scores(rows: &[&Row]) -> Vec<f64> {
    let mut by_configuration: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let own = by_configuration.entry(&row.configuration).or_default();
        own.push(score(row));
    }
    let mean = |own: &Vec<f64>| own.iter().sum::<f64>() / plan::number(own.len() as u64);
    by_configuration.values().map(mean).collect()
}

fn score(row: &Row) -> f64 {
    let predicted = row.without_source.unwrap_or(row.predicted);
    libm::log(times_as_long(&Row { predicted, ..row.clone() }))
}

/// Ratio of the measured step of `row` to the predicted one, which an error of a half does not
/// determine.
fn times_as_long(row: &Row) -> f64 {
    match row.quantity {
        SPEED => row.predicted / row.measured,
        _ => row.measured / row.predicted,
    }
}

/// The error bar of predicted steps of one kind on one cluster.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ErrorBar {
    /// The name of the machine, or of all kinds of devices with a plus.
    pub machine: String,
    /// The number of devices.
    pub devices: u64,
    /// The kind of step, in words.
    pub kind: String,
    /// The larger of `low` and `high`; none if nothing is known of devices of their generation.
    pub error: Option<f64>,
    /// Share of the predicted step by which the measured one may be shorter, in 95 % of runs.
    pub low: Option<f64>,
    /// Share by which it may be longer.
    pub high: Option<f64>,
    /// Number of configurations behind the interval.
    pub configurations: usize,
    /// Properties that the rows share with the step.
    pub level: Option<Level>,
    /// 95th percentile of the errors of the rows of the kind, of several sets the largest: the smallest
    /// difference of two steps that can be resolved.
    pub apart: Option<f64>,
    /// The number of measured iterations of the kind itself.
    pub rows: usize,
    /// The names of the sets of `configurations`.
    pub sources: Vec<String>,
    /// The errors of the kind itself, by set.
    pub sets: Vec<SetErrors>,
    /// The part of `high` that is due to default software, on a machine where defaults are slower and
    /// the question does not name the software.
    pub stock: Option<f64>,
    /// On a machine calibrated by such a model, the change from the measured set-up: the interval is then that of
    /// published pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Change>,
    /// Where the question does not name the software: shares of a step towards shorter and longer, of tuned recipes and
    /// of default software.
    #[serde(skip)]
    pub of_tunings: Option<[[f64; 2]; 2]>,
}

/// A step whose error bar is asked for.
#[derive(Clone, Debug)]
pub struct StepAsked<'a> {
    pub cluster: &'a Cluster,
    /// The kind of its step.
    pub kind: Kind,
    /// Its other properties.
    pub step: Step,
    /// The change from the set-up by which its machines are calibrated, if they are.
    pub calibrated: Option<Change>,
}

impl ErrorBar {
    /// The error bar of a step of `kind` on `machine`, from `sets`. `stock` is the factor on its time
    /// with the defaults of its software, where the question does not name the software.
    pub fn new(
        machine: &str,
        kind: &Kind,
        step: Step,
        sets: &[SetErrors],
        stock: Option<f64>,
    ) -> Self {
        // Without a note on the software, times are those of tuned recipes.
        let like = |tuning| Kind { tuning: Some(tuning), ..kind.clone() }.to_string();
        let words = kind.to_string();
        let own = match stock {
            Some(_) => like(Tuning::Tuned),
            None => words.clone(),
        };
        let pool = Pool::of(&own, sets).filter(|_| !kind.profiled);
        let shares = pool.as_ref().map(|pool| pool.shares(&own, step));
        let of_tunings = shares.zip(stock).and_then(|(shares, _)| {
            let own = like(Tuning::Stock);
            Some([shares, Pool::of(&own, sets)?.shares(&own, step)])
        });
        let of_kind: Vec<SetErrors> = sets.iter().filter(|set| set.kind == own).cloned().collect();
        let names = pool.iter().flat_map(|pool| &pool.sets).map(|set| set.set.clone());
        let names: BTreeSet<String> = names.collect();
        let mut bar = Self {
            machine: machine.to_owned(),
            devices: step.devices,
            kind: words,
            error: shares.map(|[low, high]| low.max(high)),
            low: shares.map(|[low, _]| low),
            high: shares.map(|[_, high]| high),
            configurations: pool.as_ref().map_or(0, Pool::configurations),
            level: pool.as_ref().map(|pool| pool.level),
            apart: of_kind.iter().map(|set| set.error).reduce(f64::max),
            rows: of_kind.iter().map(|set| set.rows).sum(),
            sources: names.into_iter().collect(),
            sets: of_kind,
            stock: None,
            calibrated: None,
            of_tunings,
        };
        if let Some(times) = stock {
            bar.widen(times);
        }
        bar
    }

    /// Makes the bar the hull of both kinds of software, where the compute of default software takes so many `times` as
    /// long.
    fn widen(&mut self, times: f64) {
        let Some([[low, high], [below, above]]) = self.of_tunings else { return };
        let stock = times * (1.0 + above) - 1.0;
        let [low, high] = [low.max(1.0 - times * (1.0 - below)), high.max(stock)];
        let wider = |own: Option<f64>, other: f64| Some(own.unwrap_or(other).max(other));
        (self.low, self.high) = (wider(self.low, low), wider(self.high, high));
        self.error = self.low.zip(self.high).map(|(low, high)| low.max(high));
        self.stock = wider(self.stock, stock);
    }

    /// The error bar of a step on machines that are calibrated by a set-up from which it differs by `change`.
    fn calibrated(asked: &StepAsked<'_>, change: Change) -> Result<Self, Diagnostic> {
        let errors = CalibratedErrors::of(change)?;
        let [low, high] = errors.shares();
        Ok(Self {
            error: Some(low.max(high)),
            low: Some(low),
            high: Some(high),
            configurations: errors.pairs,
            calibrated: Some(change),
            ..Self::new(&asked.cluster.name(), &asked.kind, asked.step, &[], None)
        })
    }

    /// The error bars of `steps`, one for each kind on each cluster. For each, all measured iterations on its types
    /// of device are predicted with the constants of its machines.
    pub fn of_all(steps: &[StepAsked<'_>]) -> Result<Vec<Self>, Diagnostic> {
        let mut known: Vec<(&str, Vec<SetErrors>)> = Vec::new();
        let mut bars: Vec<Self> = Vec::new();
        for asked in steps {
            let StepAsked { cluster, kind, step, calibrated } = asked;
            let (name, words) = (cluster.name(), kind.to_string());
            let is_own = |bar: &Self| bar.is_of(&name, &words, step.devices, *calibrated);
            if bars.iter().any(is_own) {
                continue;
            }
            if let Some(change) = *calibrated {
                bars.push(Self::calibrated(asked, change)?);
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
            let slower = cluster.parts.iter().map(|(machine, _)| machine.efficiency.stock);
            let slower = slower.fold(1.0, f64::max);
            let stock = (kind.tuning.is_none() && slower > 1.0).then_some(slower);
            bars.push(Self::new(&name, kind, *step, &sets, stock));
        }
        Ok(bars)
    }

    /// Whether it is that of a step of `kind` on so many `devices` of `machine`, and of this change.
    #[must_use]
    pub fn is_of(&self, machine: &str, kind: &str, devices: u64, change: Option<Change>) -> bool {
        let own = (self.machine.as_str(), self.kind.as_str(), self.devices, self.calibrated);
        own == (machine, kind, devices, change)
    }

    /// The interval, in words.
    #[must_use]
    pub fn interval(&self) -> Option<String> {
        let (low, high) = self.low.zip(self.high)?;
        Some(interval_in_words([low, high]))
    }

    /// The error and the measurements that it comes from, in words.
    pub fn source(&self) -> String {
        let Self { machine, devices, kind, configurations, sources, .. } = self;
        if let (Some(interval), Some(change)) = (self.interval(), self.calibrated) {
            return format!(
                "{devices} {machine}: {interval} in 95 % of runs, by {configurations} published pairs of set-ups of which \
                 one calibrated the machine for the other ({})",
                change.words()
            );
        }
        let (Some(interval), Some(level)) = (self.interval(), self.level) else {
            return format!("{machine}: nothing measured of this kind ({kind})");
        };
        let rows = match self.rows {
            0 => "none of this kind itself".to_owned(),
            rows => format!("{rows} rows of this kind itself"),
        };
        let sources = sources.join("; ");
        let stock = self.stock.map_or_else(String::new, |stock| {
            format!(
                "; + {:.0} % with Megatron-LM's defaults, less with a tuned recipe: say tuning = \"stock\" or \"tuned\"",
                100.0 * stock
            )
        });
        format!(
            "{devices} {machine}: {interval} in 95 % of runs ({kind}), by {configurations} measured configurations {}, \
             {rows}: {sources}{stock}",
            level.words()
        )
    }
}

/// Relative errors of steps towards shorter and longer, in words: `-9/+12 %`.
#[must_use]
pub fn interval_in_words([low, high]: [f64; 2]) -> String {
    format!("-{:.0}/+{:.0} %", 100.0 * low, 100.0 * high)
}

/// Relative errors, towards shorter and longer, of steps of `kind` that are like the rows of the kind
/// itself, from `sets` of all kinds.
#[must_use]
pub fn interval_of_kind(kind: &str, sets: &[SetErrors]) -> Option<[f64; 2]> {
    let own = || sets.iter().filter(|set| set.kind == kind);
    let precision = own().find_map(|set| Precision::named(set.precisions.split(' ').next()?));
    let step = Step {
        sequence: own().map(|set| set.sequence_most).max()?,
        devices: own().map(|set| set.devices_most).max()?,
        precision: precision.unwrap_or_default(),
        expert_width: own().find_map(|set| set.widths.split(' ').next()?.parse().ok()).unwrap_or(0),
    };
    Some(Pool::of(kind, sets)?.shares(kind, step))
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
        let (set, rows, left_out) = sets::read(&path, text, machine)?;
        if let Some(cause) = left_out.first() {
            return Err(Diagnostic::unreadable(&path, cause));
        }
        all.extend(by_kind(set.name, &rows));
    }
    Ok(all)
}

/// Whether `machine` predicts the same as the built-in one of its type of device. Its memory and its
/// profile do not matter where measured runs are predicted, nor do costs and failures.
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
        calibrated: Vec::new(),
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
