//! Predicted steps of a real run, from the operations of its trace.

mod files;
mod hops;
mod report;
mod what_if;

use std::path::PathBuf;

use measured::accuracy;
use question::format;
use question::replay::ReplayKeys;
use question::sheet::Sheet;
use question::{Context, Diagnostic};
use serde::Serialize;
use traces::Times;

pub use self::hops::{Hops, Link};
use self::what_if::Asked;
pub use self::what_if::{Straggler, WhatIfAnswer};

/// From which mean error on a part of the step has no explanation in the trace.
const FAR: f64 = 0.05;
/// What explains it.
const UNEXPLAINED: &str = "work between passes that the trace does not name, such as a loss, or passes whose spans \
     hold a wait would explain it; in torch, name such work with torch.profiler.record_function(\"PP:loss\")";

/// Predicted and measured steps of a run, and their times after changes.
#[derive(Serialize)]
pub struct ReplayAnswer {
    /// How far predicted steps are from measured ones, and the change that saves most.
    pub headline: String,
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
    /// Facts about the run that are missing in the trace.
    pub lacks: Vec<String>,
    /// How hops were estimated; null where all transfers are in the trace.
    pub hops: Option<Hops>,
    /// The slowest rank and stage against their peers.
    pub stragglers: Vec<Straggler>,
    /// The changes that were asked for.
    pub what_if: Vec<WhatIfAnswer>,
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

impl ReplayAnswer {
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
    #[must_use]
    pub fn error(&self) -> f64 {
        error(self.predicted_ns, self.measured_ns)
    }
}

/// (predicted - measured) / measured.
#[allow(clippy::cast_precision_loss)]
fn error(predicted: u64, measured: u64) -> f64 {
    accuracy::error(predicted as f64, measured as f64)
}

/// Predicts the steps of the run in the traces at `paths`, of all its ranks, as it was and with the
/// changes of `keys`. With `launch_delays` the least time that always passes between two operations of a
/// rank is kept.
pub fn replay(
    context: &Context<'_>,
    paths: &[PathBuf],
    launch_delays: bool,
    keys: &ReplayKeys,
) -> Result<ReplayAnswer, Diagnostic> {
    let run = files::read(context, paths, keys.warmup_steps.unwrap_or(0))?;
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
    let mean_abs_error = accuracy::mean_absolute(&errors);
    if mean_abs_error > FAR {
        let off = format::percent(mean_abs_error);
        context.warn(format!("the replay is {off} off the measured steps: {UNEXPLAINED}"));
    }
    let answer = ReplayAnswer {
        headline: String::new(),
        mean_abs_error,
        max_abs_error: errors.iter().fold(0.0, |most, error| error.abs().max(most)),
        measured_ns: what_if::mean(steps.iter().map(|step| step.measured_ns)),
        predicted_ns: what_if::mean(steps.iter().map(|step| step.predicted_ns)),
        lacks: run.lacks().iter().map(ToString::to_string).collect(),
        hops: Hops::of(&run, &times),
        stragglers: what_if::stragglers(&run, &times),
        what_if: asked.answer(&run, &times)?,
        interrupted: context.cut_short().then_some(true),
        steps,
    };
    Ok(ReplayAnswer { headline: report::headline(&answer), ..answer })
}
