//! Predictions of runs, with the current constants and with changed ones.

use pipeline::Bytes;
use plan::fit::{FitError, Steps};
use plan::{Cluster, Inputs, Kind, Orders, StageMemory, number};
use planning::fit::scaled;
use question::Diagnostic;
use rayon::prelude::*;
use sim::Replay;

use super::constants::{CONSTANTS, machine_with, recipe_with};
use super::row::Run;

/// The memory of a device that runs are costed with: that they ran is known.
const ENDLESS: Bytes = Bytes(1 << 60);
/// The bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// The planner's prediction of a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Prediction {
    /// The step, in seconds.
    pub(super) seconds: f64,
    /// The memory of the fullest device, in GiB.
    pub(super) memory: f64,
    /// Whether devices hold it.
    pub(super) fits: bool,
    /// The kind of its step.
    pub(super) kind: Kind,
}

/// The step of `run` with constants of `values`, replayed along its schedule.
pub(super) fn predicted(
    run: &Run,
    values: &[f64],
    orders: &Orders<'_>,
) -> Result<Prediction, String> {
    calibrated(run, values, &[], orders)
}

/// The same on a machine whose efficiencies are scaled by `factors`, as [`planning::fit::scaled`] does.
pub(super) fn calibrated(
    run: &Run,
    values: &[f64],
    factors: &[f64],
    orders: &Orders<'_>,
) -> Result<Prediction, String> {
    with_inputs(run, values, factors, |inputs| {
        let costed = inputs.cost(&run.setup).map_err(|error| error.to_string())?;
        let evaluation = inputs.evaluate_in(&costed, &mut Replay::new(), orders);
        let evaluation = evaluation.map_err(|error| error.to_string())?;
        let peak = evaluation.memory.iter().map(StageMemory::sum).max().unwrap_or_default();
        let capacity = run.recipe.memory_budget.of(&run.machine);
        Ok(Prediction {
            seconds: number(evaluation.step.0) / 1e9,
            memory: number(peak.0) / GIB,
            fits: peak <= capacity,
            kind: Kind::of(inputs, &run.setup),
        })
    })
}

/// Lower bound of a step over all orders of the schedule, in seconds: it changes with constants much
/// like the step, and takes a hundredth of the time.
pub(super) fn least(run: &Run, values: &[f64], factors: &[f64]) -> Option<f64> {
    let least = with_inputs(run, values, factors, |inputs| {
        let costed = inputs.cost(&run.setup).map_err(|error| error.to_string())?;
        Ok(number(inputs.least(&costed).0) / 1e9)
    });
    least.ok()
}

fn with_inputs<T>(
    run: &Run,
    values: &[f64],
    factors: &[f64],
    answer: impl FnOnce(&Inputs<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let mut machine = scaled(&machine_with(&run.machine, values), factors);
    machine.memory = ENDLESS;
    let recipe = recipe_with(&run.recipe, run.model.experts.is_some(), run.facts, values);
    let cluster = Cluster { parts: vec![(machine, run.setup.devices())] };
    let inputs = Inputs { layout: Some(&run.layout), ..Inputs::new(&run.model, &recipe, &cluster) };
    answer(&inputs)
}

/// Steps of runs near the constants where they were replayed: the ratio of the bounds here and there,
/// times the replay there.
pub(super) struct Near<'a> {
    runs: &'a [&'a Run],
    /// Replayed over bound, by run.
    ratios: Vec<f64>,
}

impl<'a> Near<'a> {
    /// Replays all `runs` with constants of `values`.
    pub(super) fn new(
        runs: &'a [&'a Run],
        values: &[f64],
        orders: &Orders<'_>,
    ) -> Result<Self, String> {
        let one = |run: &&Run| {
            let exact = predicted(run, values, orders)?.seconds;
            let bound = least(run, values, &[]).filter(|bound| *bound > 0.0);
            Ok(exact / bound.ok_or_else(|| format!("{} takes no time", run.place))?)
        };
        let ratios = runs.par_iter().map(one).collect::<Result<_, String>>()?;
        Ok(Self { runs, ratios })
    }
}

impl Steps for Near<'_> {
    fn seconds(&self, row: usize, values: &[f64]) -> Option<f64> {
        Some(least(self.runs[row], values, &[])? * self.ratios[row])
    }

    fn depends(&self, row: usize, parameter: usize) -> bool {
        CONSTANTS[parameter].concerns(self.runs[row])
    }
}

pub(super) fn wrong(run: &Run, cause: &str) -> Diagnostic {
    Diagnostic::new(format!("{} ({}) cannot be predicted: {cause}", run.place, run.name))
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` hands it.
pub(super) fn unfit(error: FitError) -> Diagnostic {
    Diagnostic::new(format!("the constants cannot be fitted: {error}"))
}
