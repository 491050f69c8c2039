//! A machine fitted to a few iterations of a user: three scales of its efficiencies, their error on
//! iterations that they were not fitted to, and the file of the machine.

use std::fmt::Write;
use std::path::Path;

use measured::{self, CalibratedErrors, Change, accuracy};
use plan::fit::{Fit, FitError, Observation, Steps, groups};
use plan::{CalibratedRun, Machine, number};
use planning::fit::{FitQuestion, Run, SCALES, parameters, scaled};
use question::sheet::Sheet;
use question::{Context, Diagnostic, format, table};
use serde::Serialize;
use sim::Replay;

/// The error up to which a base is right: repeats of an iteration differ by as much.
const RIGHT: f64 = 0.01;
/// Largest ratio of the errors after and before at which a fit is taken: with few iterations, a smaller
/// gain may be chance.
const SHRUNK: f64 = 0.9;
/// Mean error from which on no fit is taken, however large that of the base is: the rows describe other runs.
const LARGEST: f64 = 0.5;

/// A machine fitted to iterations.
#[derive(Clone, Debug, Serialize)]
pub struct Fitted {
    /// The file of the iterations.
    file: String,
    /// The name of the machine that the fit began with.
    base: String,
    /// Whether the file of the machine has the fitted shares: whether they predict iterations that they
    /// were not fitted to better than the base does.
    pub improved: bool,
    /// The efficiencies.
    pub shares: Vec<FittedShare>,
    /// The iterations.
    pub rows: Vec<FittedRow>,
    /// The errors with the base.
    pub before: Errors,
    /// The errors of the fit to all iterations.
    pub in_sample: Errors,
    /// The errors of each iteration by the fit to those of other set-ups.
    pub left_out: Errors,
    /// The file of the machine: fitted where that is better, else as it was.
    #[serde(skip)]
    pub machine: String,
}

/// An efficiency before and after.
#[derive(Clone, Debug, Serialize)]
pub struct FittedShare {
    pub key: &'static str,
    /// The scale that it is fitted with.
    pub scale: &'static str,
    /// Its value on the base machine.
    pub base: f64,
    pub fitted: f64,
    /// Whether it is the largest that it can be.
    pub is_bound: bool,
}

/// An iteration and its predictions, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct FittedRow {
    /// Its line in the file.
    pub line: usize,
    /// Name of the run.
    pub run: String,
    /// How long it took.
    pub measured: f64,
    /// How long it takes on the base.
    pub base: f64,
    /// The same as fitted to all iterations.
    pub fitted: f64,
    /// The same as fitted to those of other set-ups.
    pub left_out: f64,
}

/// Errors over all iterations.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Errors {
    /// The mean absolute error.
    pub mean: f64,
    /// The largest absolute error.
    pub max: f64,
}

/// Reads the table of iterations in `path`, measured on the machine `base` or on the one that it names.
/// Models are files, or have the names of published tables of runs.
pub fn read(
    context: &Context<'_>,
    path: &Path,
    base: Option<&str>,
) -> Result<FitQuestion, Diagnostic> {
    let question = planning::fit::read(context, path, base, &|name, sequence, mtp| {
        // Whether the name is known is asked first: no length is needed for that.
        let known = measured::model(name, sequence.unwrap_or(SEQUENCE), mtp)?;
        let missing = || format!("sequence is empty: {name} has no config.json that tells it");
        Some(if sequence.is_some() { known } else { Err(missing()) })
    })?;
    for error in &question.left_out {
        let line = error.place.as_ref().and_then(|place| place.line);
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        context.warn(format!("{}: left out: {line}{}", question.file, error.message));
    }
    Ok(question)
}

/// The length of sequences by which a model is looked for.
const SEQUENCE: u64 = 1024;

/// Fits the efficiencies of the base to the iterations of `question`.
pub fn fit(context: &Context<'_>, question: &FitQuestion) -> Result<Fitted, Diagnostic> {
    let steps = Predicted { context, question };
    let parameters = parameters();
    let keys: Vec<&str> = question.runs.iter().map(|run| run.configuration.as_str()).collect();
    let configurations = groups(&keys);
    let observations: Vec<Observation> = (question.runs.iter().zip(&configurations))
        .map(|(run, &configuration)| Observation { measured: run.seconds, configuration })
        .collect();
    let failed = |error: FitError| steps.failed(&error);
    let fit = Fit::new(&parameters, &observations, &steps).map_err(failed)?;
    let start = fit.start(&fit.priors()).map_err(failed)?;
    let all: Vec<usize> = (0..observations.len()).collect();
    let fitted = fit.to(&all, &start).map_err(failed)?.values;
    let without = fit.without_each(&configurations, &start).map_err(failed)?;
    let mut rows = Vec::new();
    for (row, run) in question.runs.iter().enumerate() {
        let by = |values: &[f64]| {
            steps.seconds(row, values).ok_or_else(|| steps.failed(&FitError::Predicted(row)))
        };
        rows.push(FittedRow {
            line: run.line,
            run: run.name.clone(),
            measured: run.seconds,
            base: by(&fit.priors())?,
            fitted: by(&fitted)?,
            left_out: by(&without[configurations[row]].values)?,
        });
    }
    answer(question, &fitted, rows)
}

/// The predictions of the iterations of a question.
struct Predicted<'a> {
    context: &'a Context<'a>,
    question: &'a FitQuestion,
}

impl Steps for Predicted<'_> {
    /// By the event engine, as plans are.
    fn seconds(&self, row: usize, values: &[f64]) -> Option<f64> {
        if self.context.stopped() {
            return None;
        }
        let run = &self.question.runs[row];
        seconds(run, &scaled(&self.question.base.machine, values))
    }

    /// One device has no communication.
    fn depends(&self, row: usize, parameter: usize) -> bool {
        parameter == 0 || self.question.runs[row].setup.devices() > 1
    }
}

impl Predicted<'_> {
    fn failed(&self, error: &FitError) -> Diagnostic {
        let row = match error {
            _ if self.context.cut_short() => {
                return Diagnostic::new("interrupted: nothing was fitted");
            }
            FitError::Predicted(row) | FitError::Measured(row) => self.question.runs.get(*row),
            FitError::Prior(_) => None,
        };
        let FitQuestion { file, .. } = self.question;
        let place = row.map_or(String::new(), |run| format!(" line {}: {}:", run.line, run.name));
        Diagnostic::new(format!("{file}:{place} {error}"))
    }
}

/// The step of `run` on devices of the kind `machine`, in seconds.
fn seconds(run: &Run, machine: &Machine) -> Option<f64> {
    let cluster = run.cluster(machine);
    let inputs = run.on(&cluster);
    let costed = inputs.cost(&run.setup).ok()?;
    let evaluation = inputs.evaluate(&costed, &mut Replay::new()).ok()?;
    let finalist = inputs.finalist(evaluation).ok()?;
    Some(number(finalist.step.0) / 1e9)
}

fn answer(
    question: &FitQuestion,
    fitted: &[f64],
    rows: Vec<FittedRow>,
) -> Result<Fitted, Diagnostic> {
    let machine = &question.base.machine;
    let (mut before, mut after) = (machine.efficiency, scaled(machine, fitted).efficiency);
    let mut shares = Vec::new();
    for scale in &SCALES {
        for rate in scale.rates() {
            let (base, fitted) = ((rate.field)(&mut before), (rate.field)(&mut after));
            let (base, fitted, [_, most]) = (*base, *fitted, rate.form.range());
            let (key, scale, is_bound) = (rate.key, scale.name, base < most && fitted >= most);
            shares.push(FittedShare { key, scale, base, fitted, is_bound });
        }
    }
    let errors = |of: fn(&FittedRow) -> f64| {
        let all: Vec<f64> = rows.iter().map(|row| accuracy::error(of(row), row.measured)).collect();
        let max = all.iter().fold(0.0, |most: f64, error| most.max(error.abs()));
        Errors { mean: accuracy::mean_absolute(&all), max }
    };
    let [before, in_sample, left_out] =
        [errors(|row| row.base), errors(|row| row.fitted), errors(|row| row.left_out)];
    let mut fitted = Fitted {
        file: question.file.clone(),
        base: machine.name.clone(),
        improved: before.mean > RIGHT
            && left_out.mean < SHRUNK * before.mean
            && left_out.mean < LARGEST,
        shares,
        rows,
        before,
        in_sample,
        left_out,
        machine: String::new(),
    };
    let changed: Vec<(&str, f64)> = match fitted.improved {
        true => fitted.shares.iter().map(|share| (share.key, share.fitted)).collect(),
        false => Vec::new(),
    };
    // The bars of calibrated pairs hold unless a run that was left out is farther off.
    let is_unexplained = fitted.left_out.max > CalibratedErrors::of(Change::Groups)?.p95;
    let runs: Vec<CalibratedRun> = match fitted.improved {
        true => question.runs.iter().map(|run| run.calibrated(is_unexplained)).collect(),
        false => Vec::new(),
    };
    fitted.machine = question.base.with_shares(&fitted.comment(), &changed, &runs)?;
    Ok(fitted)
}

impl Fitted {
    /// How the file of the machine was made, as its comment says it.
    fn comment(&self) -> String {
        let Self { file, base, rows, .. } = self;
        let [before, in_sample, left_out] =
            [self.before, self.in_sample, self.left_out].map(|errors| format::percent(errors.mean));
        let count = rows.len();
        let mut text = format!(
            "Made by `debubble plan --fit` from the machine {base} and {count} iterations of {file}.\n"
        );
        let what = match self.improved {
            true => "Mean error of a step:",
            false => {
                "The base is kept, for no fit is taken that is no better on steps that it has not \
                      seen, or off by 50 % there. Mean error:"
            }
        };
        let _ = writeln!(
            text,
            "{what} {before} of the base, {in_sample} fitted to all, {left_out} left out one by one."
        );
        text
    }

    /// The answer as a person reads it.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let Self { base, rows, shares, .. } = self;
        let rows = table!(
            (row, predicted) = rows.iter().map(|row| {
                let written = |predicted: f64| {
                    let error = format::signed_percent(accuracy::error(predicted, row.measured));
                    format!("{predicted:.3} s {error:>7}")
                };
                (row, [row.base, row.fitted, row.left_out].map(written))
            }),
            "iteration" = row.run,
            "line" = row.line,
            "measured" = format!("{:.3} s", row.measured),
            "base" = predicted[0],
            "fitted" = predicted[1],
            "left out" = predicted[2],
        );
        let shares = table!(
            share = shares,
            "efficiency" = share.key,
            "fitted with" = share.scale,
            base = format!("{:.4}", share.base),
            "fitted" = format!("{:.4}", share.fitted),
            "scale" = format!("{:.3}", share.fitted / share.base),
        );
        let errors = [
            ("base", self.before),
            ("fitted to all iterations", self.in_sample),
            ("left out one by one", self.left_out),
        ];
        let errors = table!(
            (name, errors) = errors,
            "error of a step" = name,
            "mean" = format::percent(errors.mean),
            "max" = format::percent(errors.max),
        );
        rows.and_text("\n")
            .and(shares)
            .and_text("\n")
            .and(errors)
            .and_text(format!("\n{}\n", self.verdict()))
    }

    /// The machine that is taken, and why.
    fn verdict(&self) -> String {
        let [before, after] =
            [self.before, self.left_out].map(|errors| format::percent(errors.mean));
        let mut text = match self.improved {
            true => format!(
                "The fitted efficiencies are taken: steps of set-ups that they were not fitted to are off by \
                 {after}, with the base by {before}."
            ),
            false => format!(
                "The base is kept: steps of set-ups that the fitted efficiencies were not fitted to are off by \
                 {after}, with the base by {before}."
            ),
        };
        if self.left_out.mean >= LARGEST {
            let _ = write!(
                text,
                " Efficiencies that are off by {} or more are not taken.",
                format::percent(LARGEST)
            );
        }
        let bound = |share: &&FittedShare| self.improved && share.is_bound;
        if let Some(share) = self.shares.iter().find(bound) {
            let _ = write!(
                text,
                " {} is at its largest: these devices are faster than the rates in the file of {}.",
                share.key, self.base
            );
        }
        format::wrapped(&text, 100, "")
    }
}

#[cfg(test)]
mod tests;
