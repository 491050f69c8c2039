//! Errors of steps that are predicted on a machine calibrated by one measured layout, by the change to another layout.

use std::path::Path;

use plan::{CalibratedRun, Inputs, Machine, Setup};
use question::Diagnostic;
use scenarios::PAPER;
use serde::{Deserialize, Serialize};

use super::accuracy;
use super::rows;

/// The recorded errors: the study behind them takes longer than a plan.
const RECORD: (&str, &str) =
    ("scenarios/paper/calibrated-errors.csv", PAPER.text("calibrated-errors.csv"));

/// A change from one set-up of a model on a machine to another, the smaller first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The groups of devices stay: chunks, microbatch, recomputation, software or batch change.
    WithinGroups,
    /// Tensor, pipeline, context or expert groups, or the sharding of replicas, change.
    Groups,
}

impl Change {
    /// Its name in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithinGroups => "within-groups",
            Self::Groups => "groups",
        }
    }

    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::WithinGroups => "the same groups",
            Self::Groups => "other groups",
        }
    }

    /// The change between two set-ups.
    #[must_use]
    pub fn of(one: &Setup, other: &Setup) -> Self {
        Self::between(one.groups(), other.groups())
    }

    fn between(one: [u64; 5], other: [u64; 5]) -> Self {
        if one == other { Self::WithinGroups } else { Self::Groups }
    }

    /// The change from the set-ups by which the machines of `inputs` are calibrated, as far as they are of such a model
    /// and software, to `setup`: the smallest on each machine; `None` where a machine has no such set-up.
    #[must_use]
    pub fn calibrated(inputs: &Inputs<'_>, setup: &Setup) -> Option<Self> {
        let Inputs { model, recipe, cluster, .. } = inputs;
        let tuning = recipe.software.tuning;
        let of_machine = |machine: &Machine| {
            let runs = machine.calibrated.iter().filter(|_| machine.measured.is_none());
            let own =
                |run: &&CalibratedRun| run.is_of(model.parameters(), recipe.precision, tuning);
            runs.filter(own).map(|run| Self::between(run.groups, setup.groups())).min()
        };
        let all: Option<Vec<Self>> =
            cluster.parts.iter().map(|(machine, _)| of_machine(machine)).collect();
        all?.into_iter().max()
    }
}

/// A step, predicted with and without the measurement of another layout.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Pair {
    /// The table of both.
    pub(super) source: &'static str,
    /// The model and the machine of both.
    pub(super) group: String,
    /// The measured step, in seconds.
    pub(super) measured: f64,
    /// The step without any measurement of the model, in seconds.
    pub(super) blind: f64,
    /// The step on the machine calibrated by the other layout, in seconds.
    pub(super) calibrated: f64,
    /// The difference of the two layouts.
    pub(super) change: Change,
}

/// Errors of steps after one layout was measured.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct CalibratedErrors {
    /// The change from the measured layout to the predicted one.
    pub change: Change,
    /// The pairs of a measured layout and a predicted one.
    pub pairs: usize,
    /// The mean absolute error without the measurement.
    pub blind: f64,
    /// The mean absolute error with it.
    pub mean: f64,
    /// The error that 95 % of the pairs do not exceed.
    pub p95: f64,
}

impl CalibratedErrors {
    pub fn of(change: Change) -> Result<Self, Diagnostic> {
        let missing = || unreadable(&format!("it has no row for {change:?}"));
        recorded()?.into_iter().find(|one| one.change == change).ok_or_else(missing)
    }

    /// Relative errors of a step towards shorter and longer in 95 % of pairs.
    #[must_use]
    pub fn shares(&self) -> [f64; 2] {
        [1.0 - 1.0 / (1.0 + self.p95), self.p95]
    }

    /// The errors of `pairs` by change.
    pub(super) fn by_change(pairs: &[Pair]) -> Vec<Self> {
        let of = |change: Change| {
            let own = || pairs.iter().filter(|pair| pair.change == change);
            let errors = |predicted: fn(&Pair) -> f64| -> Vec<f64> {
                own().map(|pair| accuracy::error(predicted(pair), pair.measured).abs()).collect()
            };
            let calibrated = errors(|pair| pair.calibrated);
            Self {
                change,
                pairs: calibrated.len(),
                blind: accuracy::mean_absolute(&errors(|pair| pair.blind)),
                mean: accuracy::mean_absolute(&calibrated),
                p95: accuracy::not_exceeded_by_95_percent(&calibrated),
            }
        };
        [Change::WithinGroups, Change::Groups].map(of).to_vec()
    }
}

fn recorded() -> Result<Vec<CalibratedErrors>, Diagnostic> {
    rows::table(RECORD.1).map_err(|cause| unreadable(&cause))
}

fn unreadable(cause: &str) -> Diagnostic {
    Diagnostic::unreadable(Path::new(RECORD.0), cause)
}

#[cfg(test)]
mod tests {
    use super::super::today;
    use super::*;

    #[test]
    fn recorded_errors_are_those_of_the_study() {
        let found = today::built_in().unwrap().1.calibrated;
        let line = |one: &CalibratedErrors| {
            let CalibratedErrors { change, pairs, blind, mean, p95 } = one;
            let name = change.name();
            format!("{name},{pairs},{blind:.4},{mean:.4},{p95:.4}\n")
        };
        let lines: String = found.iter().map(line).collect();
        let recorded: String = recorded().unwrap().iter().map(line).collect();
        assert_eq!(recorded, lines, "write these into {}", RECORD.0);
        // A layout that was measured helps with those of the same groups. Constants of a known machine and tuned
        // software predict other groups as well without it.
        assert!(found.iter().all(|one| one.mean < 0.07 && one.mean < 1.25 * one.blind));
        assert!(found[0].mean < found[0].blind);
    }
}
