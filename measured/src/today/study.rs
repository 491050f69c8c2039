//! All runs predicted: with the constants in use, and with constants that were fitted without them.

use plan::Orders;
use plan::fit::{Fit, Fitted, Observation, Start, assign_folds, groups};
use question::Diagnostic;
use rayon::prelude::*;

use super::super::calibrated::Pair;
use super::calibrated::{self, Layout};
use super::constants::{CONSTANTS, STOCK, in_use, parameters};
use super::predict::{Near, Prediction, predicted, unfit, wrong};
use super::published::Source;
use super::row::Run;

const FOLDS: usize = 10;
pub(super) const SEEDS: [u64; 5] = [0, 1, 2, 3, 4];

/// A run with all that was predicted of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) run: Run,
    /// With the constants in use.
    pub(super) prediction: Prediction,
    /// The step in seconds with constants that were fitted without its configuration; by shuffle. None
    /// of a run to which nothing is fitted.
    pub(super) held_out: Vec<f64>,
    /// With those that were fitted without its model.
    pub(super) without_model: Option<f64>,
    /// With those that were fitted without its machine.
    pub(super) without_machine: Option<f64>,
    /// With those that were fitted without its source.
    pub(super) without_source: Option<f64>,
}

/// A constant, and its value fitted to all runs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Refitted {
    pub(super) name: &'static str,
    pub(super) prior: f64,
    pub(super) in_use: f64,
    pub(super) fitted: f64,
}

impl Refitted {
    /// Relative change of its value by a fit.
    pub(super) fn moved(&self) -> f64 {
        self.fitted / self.in_use - 1.0
    }
}

pub(super) struct Study {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) constants: Vec<Refitted>,
    /// Steps predicted after one of another layout was measured.
    pub(super) pairs: Vec<Pair>,
}

impl Outcome {
    /// Whether constants are fitted to it.
    pub(super) fn is_fitted(&self) -> bool {
        is_fitted(&self.run)
    }
}

/// Whether constants are fitted to `run`: it has a step, is not set apart, trains all weights, and is not of
/// stock software, to which one constant is fitted when all other constants are known.
fn is_fitted(run: &Run) -> bool {
    run.seconds.is_some() && run.apart.is_none() && run.source.is_fitted()
}

/// Predicts all `runs` with the constants in use; nothing is fitted.
pub(super) fn without_fits(runs: Vec<Run>) -> Result<Vec<Outcome>, Diagnostic> {
    each_without_fits(runs)?.into_iter().collect()
}

/// The same, run by run.
pub(super) fn each_without_fits(
    runs: Vec<Run>,
) -> Result<Vec<Result<Outcome, Diagnostic>>, Diagnostic> {
    let values = in_use()?;
    let orders = Orders::default();
    let one = |run: Run| -> Result<Outcome, Diagnostic> {
        let prediction = predicted(&run, &values, &orders);
        let prediction = prediction.map_err(|cause| wrong(&run, &cause))?;
        Ok(Outcome {
            run,
            prediction,
            held_out: Vec::new(),
            without_model: None,
            without_machine: None,
            without_source: None,
        })
    };
    Ok(runs.into_par_iter().map(one).collect())
}

/// Predicts all `runs`, and those that constants are fitted to again without each of their folds, models
/// and machines.
pub(super) fn study(runs: Vec<Run>) -> Result<Study, Diagnostic> {
    let mut outcomes = without_fits(runs)?;
    let values = in_use()?;
    let orders = Orders::default();
    let own: Vec<Run> =
        outcomes.iter().map(|one| &one.run).filter(|run| is_fitted(run)).cloned().collect();
    let runs: Vec<&Run> = own.iter().collect();
    let near = Near::new(&runs, &values, &orders).map_err(Diagnostic::new)?;
    let configurations: Vec<&str> = runs.iter().map(|run| run.configuration.as_str()).collect();
    let configurations = groups(&configurations);
    let observations: Vec<Observation> = runs
        .iter()
        .zip(&configurations)
        .map(|(run, &configuration)| Observation {
            measured: run.seconds.unwrap_or_default(),
            configuration,
        })
        .collect();
    let parameters = parameters();
    let fit = Fit::new(&parameters, &observations, &near).map_err(unfit)?;
    let start = fit.start(&values).map_err(unfit)?;
    let rows: Vec<usize> = (0..runs.len()).collect();
    let fitted = fit.to(&rows, &start).map_err(unfit)?;
    let left_out = LeftOut { fit: &fit, start: &start, runs: &runs, orders: &orders };
    let shuffles =
        SEEDS.iter().map(|&seed| left_out.steps(&assign_folds(&configurations, FOLDS, seed)));
    let shuffles: Vec<Vec<f64>> = shuffles.collect::<Result<_, _>>()?;
    let by = |name: fn(&Run) -> &str| {
        left_out.steps(&groups(&runs.iter().map(|run| name(run)).collect::<Vec<_>>()))
    };
    let machines = by(|run| &run.machine.name)?;
    let of_model = groups(&runs.iter().map(|run| run.model_name.as_str()).collect::<Vec<_>>());
    let without_model = left_out.fits(&of_model)?;
    let models = left_out.steps_by(&without_model, &of_model)?;
    let one = |(run, &model): (&&Run, &usize)| Layout {
        run: (*run).clone(),
        values: without_model[model].values.clone(),
    };
    let mut layouts: Vec<Layout> = runs.iter().zip(&of_model).map(one).collect();
    let of_source = groups(&runs.iter().map(|run| run.source.name()).collect::<Vec<_>>());
    let without_source = left_out.fits(&of_source)?;
    let sources = left_out.steps_by(&without_source, &of_source)?;
    for (at, outcome) in outcomes.iter_mut().filter(|one| one.is_fitted()).enumerate() {
        outcome.held_out = shuffles.iter().map(|steps| steps[at]).collect();
        outcome.without_model = Some(models[at]);
        outcome.without_machine = Some(machines[at]);
        outcome.without_source = Some(sources[at]);
    }
    left_out.without_source(&mut outcomes, &without_source, &of_source)?;
    layouts.extend(of_others(&mut outcomes, &values, &orders)?);
    let pairs = calibrated::pairs(&layouts, &orders)?;
    let refitted = |((constant, &in_use), &fitted)| -> Refitted {
        let (constant, prior): (&super::constants::Constant, f64) = constant;
        Refitted { name: constant.name, prior, in_use, fitted }
    };
    let priors = parameters.iter().map(|one| one.prior);
    let constants =
        CONSTANTS.iter().zip(priors).zip(&values).zip(&fitted.values).map(refitted).collect();
    Ok(Study { outcomes, constants, pairs })
}

/// The runs of stock software, whose steps are predicted without the constant that was fitted to them, and those of an
/// unknown network: nothing else was fitted to either.
fn of_others(
    outcomes: &mut [Outcome],
    values: &[f64],
    orders: &Orders<'_>,
) -> Result<Vec<Layout>, Diagnostic> {
    let mut layouts = Vec::new();
    for outcome in outcomes.iter_mut().filter(|one| one.run.source == Source::SimuMax) {
        let mut run = outcome.run.clone();
        run.machine.efficiency.stock = STOCK;
        let prediction = predicted(&run, values, orders).map_err(|cause| wrong(&run, &cause))?;
        outcome.without_source = Some(prediction.seconds);
        layouts.push(Layout { run, values: values.to_vec() });
    }
    let others = outcomes.iter().filter(|one| one.run.source == Source::CclBench);
    let others = others.filter(|one| one.run.apart.is_none() && one.run.seconds.is_some());
    layouts.extend(others.map(|one| Layout { run: one.run.clone(), values: values.to_vec() }));
    Ok(layouts)
}

/// Fits to all runs but some.
struct LeftOut<'a> {
    fit: &'a Fit<'a>,
    start: &'a Start,
    runs: &'a [&'a Run],
    orders: &'a Orders<'a>,
}

impl LeftOut<'_> {
    /// The step of every run, in seconds, with constants that were fitted to the runs of all groups but its
    /// own.
    fn steps(&self, group: &[usize]) -> Result<Vec<f64>, Diagnostic> {
        self.steps_by(&self.fits(group)?, group)
    }

    /// Predicts those of `outcomes` that are set apart with the constants that `fitted` has for the group of their source.
    fn without_source(
        &self,
        outcomes: &mut [Outcome],
        fitted: &[Fitted],
        group: &[usize],
    ) -> Result<(), Diagnostic> {
        for Outcome { run, without_source, .. } in outcomes {
            let is_set_apart = run.apart.is_some() && run.seconds.is_some();
            let own = self.runs.iter().position(|one| is_set_apart && one.source == run.source);
            if let Some(at) = own {
                let step = predicted(run, &fitted[group[at]].values, self.orders);
                *without_source = Some(step.map_err(|cause| wrong(run, &cause))?.seconds);
            }
        }
        Ok(())
    }

    /// The constants that were fitted to the runs of all groups but each.
    fn fits(&self, group: &[usize]) -> Result<Vec<Fitted>, Diagnostic> {
        self.fit.without_each(group, self.start).map_err(unfit)
    }

    /// The step of every run, in seconds, with the constants that `fitted` has for its group.
    fn steps_by(&self, fitted: &[Fitted], group: &[usize]) -> Result<Vec<f64>, Diagnostic> {
        let one = |(run, &group): (&&Run, &usize)| {
            let predicted = predicted(run, &fitted[group].values, self.orders);
            predicted.map(|one| one.seconds).map_err(|cause| wrong(run, &cause))
        };
        self.runs.par_iter().zip(group).map(one).collect()
    }
}
