//! Steps predicted on a machine that is calibrated by another layout of the same model: the error that is left
//! when a few iterations of one set-up are known.

use plan::Orders;
use planning::fit::calibration;
use question::Diagnostic;
use rayon::prelude::*;

use super::super::accuracy;
use super::super::calibrated::{Change, Pair};
use super::predict::{calibrated, least, predicted, unfit, wrong};
use super::published::Source;
use super::row::Run;

/// A measured run, and the constants with which it is predicted.
pub(super) struct Layout {
    pub(super) run: Run,
    /// Constants that were fitted without its model.
    pub(super) values: Vec<f64>,
}

/// Predicts every run once for each other layout of its group: runs of one source with the same model, machine
/// and number format.
pub(super) fn pairs(layouts: &[Layout], orders: &Orders<'_>) -> Result<Vec<Pair>, Diagnostic> {
    let factors: Vec<Vec<f64>> =
        layouts.par_iter().map(|one| factors(one, orders)).collect::<Result<_, _>>()?;
    let of_run = |layout: &Layout| -> Result<Vec<Pair>, Diagnostic> {
        let Layout { run, values } = layout;
        let failed = |cause: String| wrong(run, &cause);
        let blind = predicted(run, values, orders).map_err(failed)?.seconds;
        let others = layouts.iter().zip(&factors).filter(|(other, _)| {
            group(&other.run) == group(run) && other.run.configuration != run.configuration
        });
        let pair = |(other, factors): (&Layout, &Vec<f64>)| {
            let calibrated = calibrated(run, values, factors, orders).map_err(failed)?;
            Ok(Pair {
                source: run.source.name(),
                group: group(run),
                measured: run.seconds.unwrap_or_default(),
                blind,
                calibrated: calibrated.seconds,
                change: Change::of(&run.setup, &other.run.setup),
            })
        };
        others.map(pair).collect()
    };
    let all: Vec<Vec<Pair>> = layouts.par_iter().map(of_run).collect::<Result<_, _>>()?;
    Ok(all.concat())
}

/// The mean absolute errors without and with the measurement of another layout, and the number of pairs, by source.
pub(super) fn by_source(pairs: &[Pair]) -> Vec<(&'static str, [f64; 2], usize)> {
    let of = |source: Source| {
        let own = || pairs.iter().filter(|pair| pair.source == source.name());
        let mean = |predicted: fn(&Pair) -> f64| {
            let errors: Vec<f64> =
                own().map(|pair| accuracy::error(predicted(pair), pair.measured)).collect();
            accuracy::mean_absolute(&errors)
        };
        let both = [mean(|pair| pair.blind), mean(|pair| pair.calibrated)];
        (source.name(), both, own().count())
    };
    Source::ALL.into_iter().map(of).collect()
}

/// Name of the group of a run.
fn group(run: &Run) -> String {
    let precision = run.recipe.precision.name();
    format!("{} {} {} {precision}", run.source.name(), run.model_name, run.machine.name)
}

/// The factors on the efficiencies of the machine of `layout` that its step determines. Near the machine as it is, a
/// step changes with its bound over all orders, which takes a hundredth of the time.
fn factors(layout: &Layout, orders: &Orders<'_>) -> Result<Vec<f64>, Diagnostic> {
    let Layout { run, values } = layout;
    let failed = || wrong(run, "it takes no time");
    let exact = predicted(run, values, orders).map_err(|cause| wrong(run, &cause))?.seconds;
    let bound = least(run, values, &[]).filter(|bound| *bound > 0.0).ok_or_else(failed)?;
    let step = |factors: &[f64]| Some(least(run, values, factors)? * (exact / bound));
    calibration(&step, run.seconds.unwrap_or_default()).map_err(unfit)
}
