//! A case that is run.

use std::time::Duration;

use cases::Case;
use executor::{Model, Recomputed};
use pipeline::{Metrics, Nanos};
use question::scenario::Convention;
use question::values::hardware::BoundaryKey;
use sim::Replay;

use super::flags::Execute;
use crate::error::Error;

/// Default time that a stage waits for another, in nanoseconds.
const DEFAULT_TIMEOUT: u64 = 60_000_000_000;

/// A case, and the keys that a run reads otherwise than a simulation.
pub struct Job {
    /// The case that is run.
    pub case: Case,
    /// Whether the times of passes are given; else the measured times are simulated.
    pub has_times: bool,
    /// How many steps are measured.
    pub steps: u32,
    /// How steps are divided.
    pub boundary: BoundaryKey,
    /// The model, where one is trained.
    pub model: Option<Model>,
    /// By chunk, the part that is recomputed where the schedule has R.
    pub recompute: Vec<Recomputed>,
    /// The published bubble rate, if the scenario has one.
    pub published: Option<Published>,
    /// Seed of weights and data.
    pub seed: u64,
    /// How many neighbours the profile was measured with, if there is one.
    pub neighbours: Option<u64>,
    /// Prediction by the number of stages busy at each moment, if that was asked.
    pub by_busy_stages: Option<Metrics>,
}

/// A published bubble rate.
#[derive(Clone, Debug)]
pub struct Published {
    /// As printed: a share of 1.
    pub rate: String,
    /// The times of a timeline from which it was computed; `None` where the scenario does not say.
    pub convention: Option<Convention>,
}

/// How long a stage of `case` waits for another.
pub fn timeout(execute: &Execute, case: &Case) -> Result<Duration, Error> {
    let step = match execute.backend().trains() {
        false => makespan(case)?.0.saturating_mul(2),
        true => 0,
    };
    let given = execute.timeout.map(|given| given.0);
    Ok(Duration::from_nanos(given.unwrap_or_else(|| step.max(DEFAULT_TIMEOUT))))
}

/// How long a lone step of `case` takes.
pub fn makespan(case: &Case) -> Result<Nanos, Error> {
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    Ok(metrics.map_err(|fault| case.error(&fault))?.makespan())
}
