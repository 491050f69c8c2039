//! Predicted steps of a real run, from the operations of its trace.

mod report;
mod what_if;

use std::path::Path;

use papers::accuracy;
use question::kinds::{self, Kind};
use question::replay::Keys;
use question::sheet::Sheet;
use question::{Context, Diagnostic, echo};
use serde::Serialize;
use traces::{Run, Times, TraceError};

use self::what_if::Asked;
pub use self::what_if::{Change, Straggler};

/// The largest trace, in bytes.
const MAX_TRACE: u64 = 2 << 30;
/// The largest file that is looked at for what else it may be.
const MAX_TEXT: u64 = 16 << 20;

/// Predicted and measured steps of a run, and what they would have been.
#[derive(Serialize)]
pub struct Answer {
    /// Every step of the trace.
    pub steps: Vec<Step>,
    /// Mean over the steps of |predicted - measured| / measured.
    pub mean_abs_error: f64,
    /// The largest of the same.
    pub max_abs_error: f64,
    /// Mean over the steps.
    pub measured_ns: u64,
    /// The same of the prediction.
    pub predicted_ns: u64,
    /// Who costs most among its like.
    pub stragglers: Vec<Straggler>,
    /// The changes that were asked for.
    pub what_if: Vec<Change>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

impl Answer {
    /// The steps and changes for people.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        report::sheet(self)
    }
}

/// A step of a run.
#[derive(Serialize)]
pub struct Step {
    /// Its number in the trace.
    pub step: u64,
    /// How long it took.
    pub measured_ns: u64,
    /// How long the prediction takes.
    pub predicted_ns: u64,
}

impl Step {
    /// (predicted - measured) / measured.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn error(&self) -> f64 {
        accuracy::error(self.predicted_ns as f64, self.measured_ns as f64)
    }
}

/// Predicts the steps of the run in the trace at `path`, as it was and with the changes of `keys`. With
/// `launch_delays` the least time that always passes between two operations of a rank is kept.
///
/// # Errors
/// If the trace cannot be read or makes no sense, or a schedule of `keys` cannot be had.
pub fn replay(
    context: &Context<'_>,
    path: &Path,
    launch_delays: bool,
    keys: &Keys,
) -> Result<Answer, Diagnostic> {
    let run = read(context, path)?;
    let asked = Asked::new(context, keys)?;
    let mut times = Times::measured(&run);
    if launch_delays {
        times = times.with_launch_delays(&run);
    }
    let predicted = run.predict(&times);
    let steps = run.steps().iter().zip(&predicted).map(|(step, predicted)| Step {
        step: step.number(),
        measured_ns: step.measured().0,
        predicted_ns: predicted.0,
    });
    let steps: Vec<Step> = steps.collect();
    let errors: Vec<f64> = steps.iter().map(Step::error).collect();
    Ok(Answer {
        mean_abs_error: accuracy::mean_absolute(&errors),
        max_abs_error: errors.iter().fold(0.0, |most, error| error.abs().max(most)),
        measured_ns: what_if::mean(steps.iter().map(|step| step.measured_ns)),
        predicted_ns: what_if::mean(steps.iter().map(|step| step.predicted_ns)),
        stragglers: what_if::stragglers(&run, &times),
        what_if: asked.answer(&run, &times)?,
        interrupted: context.cut_short().then_some(true),
        steps,
    })
}

fn read(context: &Context<'_>, path: &Path) -> Result<Run, Diagnostic> {
    let wrong = |fault: TraceError| {
        let cause = echo::brief(&fault.to_string());
        Diagnostic::file(path, format!("{}: {cause}", echo::path(path)))
    };
    let content = context.read_bytes(path, MAX_TRACE)?;
    let free = context.host().spare_memory().unwrap_or(u64::MAX);
    let trace = traces::read_within(content, free);
    let trace = trace.map_err(|fault| misplaced(context, path, wrong(fault)))?;
    let skipped = trace.skipped;
    if trace.operations.is_empty() {
        return Err(wrong(TraceError::Nothing { skipped }));
    }
    let run = Run::new(trace.operations).map_err(wrong)?;
    if skipped > 0 {
        context.warn(format!("{skipped} events are no operations of a pipeline"));
    }
    let (steps, ranks) = (run.steps().len(), run.dp_ranks().len());
    let operations = run.operations().len();
    context.warn(format!("{operations} operations, {steps} steps, {ranks} data-parallel ranks"));
    Ok(run)
}

/// `error`, unless the file at `path` is of another kind than a trace.
fn misplaced(context: &Context<'_>, path: &Path, error: Diagnostic) -> Diagnostic {
    match context.read_text(path, MAX_TEXT) {
        Ok(text) => kinds::misplaced(path, &text, &[Kind::Trace], error),
        Err(_) => error,
    }
}
