//! Zero Bubble's measured runs beside the planner's predictions: throughput and memory of figure 5 and
//! tables 4 and 6, and post-validation.
//!
//! A cell of a published run says in its convention whether constants of the planner were fitted to that
//! run; tables keep the errors of the two apart.

mod post_validation;
mod runs;
mod small;
mod throughput;

use std::path::Path;

use plan::Machine;
use planning::machines;
use question::Diagnostic;
use rayon::prelude::*;

use super::cell::{self, Basis, Cell, Figure};
use super::check::{Check, Evidence};
use super::sources::{Sources, error_in};
use measured::papers::zero_bubble::{Model, PaperRun, Trained};

pub(super) use self::post_validation::{FIGURES as POST_VALIDATION, cells as post_validation};
pub(super) use self::runs::{TABLE_4, TABLE_6};
pub(super) use self::small::PROFILE;
pub(super) use self::throughput::{cells as throughput, gains as throughput_picture};

pub(super) const MODELS: &str = "zb-models.csv";
const DEVICE: &str = "A100 80GB";

/// The convention of a figure of a run to which constants of the planner were fitted.
const FITTED: &str = "measured, in the fit";
/// The convention of a figure of a run, or of a quantity, that was left out of every fit.
const HELD_OUT: &str = "measured, held out";
/// The convention of a prediction whose measurement is not among the figures.
const NOT_AT_HAND: &str = "not available";

/// The constants of the machine and where they come from, as tables say it.
const CONSTANTS: &str = "\
Ours are predictions of the planner from the sizes of the model, with the constants of
scenarios/machines/a100-80g.toml. Those were fitted, among runs of other papers, to the throughput of
table 4 on 8 GPUs (1.5B and 6.2B): `in the fit`; the latency of a hop was chosen so that its schedules
come in the measured order. Everything else is held out: 16 and 32 GPUs, table 6, the all-reduce, and all
memory.";

/// A measured quantity of a run.
#[derive(Clone, Copy)]
struct Quantity {
    name: &'static str,
    check: Check,
    /// The decimals with which it is shown.
    digits: usize,
}

impl Quantity {
    /// A figure of a run, of which `fitted` says whether it was fitted to.
    fn figure(&self, row: &str, fitted: bool, published: f64) -> Figure {
        let convention = if fitted { FITTED } else { HELD_OUT };
        self.with(row, Basis::new(convention, Evidence::measured(fitted), self.check), published)
    }

    /// A cell of a run, of which `fitted` says whether it was fitted to.
    fn cell(&self, row: &str, fitted: bool, [published, ours]: [f64; 2]) -> Cell {
        self.figure(row, fitted, published).beside(ours)
    }

    /// A cell that is not checked, for a reason.
    fn beside(&self, row: &str, reason: &'static str, [published, ours]: [f64; 2]) -> Cell {
        self.with(row, Basis::not_checked(reason), published).beside(ours)
    }

    /// A prediction whose measurement is not among the figures.
    fn alone(&self, row: &str, ours: f64) -> Cell {
        self.beside(row, NOT_AT_HAND, [f64::NAN, ours])
    }

    fn with(&self, row: &str, basis: Basis, published: f64) -> Figure {
        Figure::new(row, self.name, basis, published).digits(self.digits)
    }

    /// Whether `cell` is of this quantity.
    fn is_of(&self, cell: &Cell) -> bool {
        cell.column == self.name
    }
}

/// A gain that was published as two printed throughputs: what exceeds 1 of their ratio, and the gains that are
/// printed like it. Throughputs have three digits at least.
fn printed_gain(speeds: [f64; 2]) -> (f64, [f64; 2]) {
    let halves = speeds.map(|speed| {
        let decimals = if speed < 10.0 { 2 } else { 1 };
        cell::half_digit(decimals.max(cell::decimals(&speed.to_string())))
    });
    let rounding = cell::ratio_rounding(speeds, halves).map(|ratio| ratio - 1.0);
    (speeds[0] / speeds[1] - 1.0, rounding)
}

/// The models and the machine of all runs.
struct Ground {
    models: Vec<Model>,
    machine: Machine,
}

impl Ground {
    fn new(sources: &Sources<'_>) -> Result<Self, Diagnostic> {
        let (_, models) = sources.records(MODELS)?;
        Ok(Self { models, machine: machines::of_device(DEVICE)? })
    }

    /// The predictions of `trainings`, which are of the file at `path`, side by side.
    fn predict(&self, path: &Path, trainings: &[PaperRun]) -> Result<Vec<Trained>, Diagnostic> {
        let one = |training: &PaperRun| {
            let wrong =
                |cause: String| error_in(path, None, &format!("{}: {cause}", row(training)));
            training.predict(&self.models, &self.machine).map_err(wrong)
        };
        trainings.par_iter().map(one).collect()
    }
}

/// The setting of a run, by which its schedules stand together. Those with a star have half the
/// microbatch size and twice the microbatches of their setting.
fn setting(training: &PaperRun) -> String {
    let PaperRun { model, gpus, microbatch, microbatches, schedule, .. } = training;
    let [microbatch, microbatches] = match schedule.ends_with('*') {
        true => [microbatch.saturating_mul(2), microbatches / 2],
        false => [*microbatch, *microbatches],
    };
    format!("{model} p={gpus} b={microbatch} m={microbatches}")
}

fn row(training: &PaperRun) -> String {
    format!("{}: {}", setting(training), training.schedule)
}

/// Checks that a figure of the file at `path` could have been measured.
fn positive(path: &Path, row: &str, figures: &[f64]) -> Result<(), Diagnostic> {
    match figures.iter().find(|figure| !(**figure > 0.0 && **figure < 1e12)) {
        Some(figure) => Err(error_in(path, None, &format!("{row}: {figure} cannot be measured"))),
        None => Ok(()),
    }
}
