//! Factor of published trainings over their planned steps.

use std::path::Path;

use question::Diagnostic;
use scenarios::PAPER;
use serde::{Deserialize, Serialize};

use super::rows;
use crate::accuracy;

/// The record of published trainings, and its text.
const FILE: &str = "trainings.csv";
const TEXT: &str = PAPER.text(FILE);

/// A published training beside the plan for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The name of its question in `scenarios/trainings/`.
    pub training: String,
    /// Hours of all its devices, as published.
    pub published_gpu_hours: f64,
    /// GPU-hours of the plan.
    pub planned_gpu_hours: f64,
    /// Where they are from.
    pub source: String,
}

impl Training {
    /// Factor over the planned time.
    #[must_use]
    pub fn times(&self) -> f64 {
        self.published_gpu_hours / self.planned_gpu_hours
    }
}

/// Factors of published trainings over their planned time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Contingency {
    /// The number of trainings.
    pub trainings: usize,
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The most.
    pub most: f64,
}

/// The published trainings.
///
/// # Errors
/// If the record cannot be read.
pub fn trainings() -> Result<Vec<Training>, Diagnostic> {
    let unreadable = |cause: String| Diagnostic::unreadable(Path::new(FILE), &cause);
    rows::table(TEXT).map_err(unreadable)
}

impl Contingency {
    /// The factors of all published trainings.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn published() -> Result<Self, Diagnostic> {
        let times: Vec<f64> = trainings()?.iter().map(Training::times).collect();
        Ok(Self {
            trainings: times.len(),
            least: times.iter().copied().fold(f64::MAX, f64::min),
            median: accuracy::median(&times),
            most: times.iter().copied().fold(0.0, f64::max),
        })
    }
}
