//! A row of measurements beside its prediction.

use serde::Serialize;

use super::interval::Step;

/// A predicted quantity of a run beside the measured one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub run: String,
    /// The kind of its steps, in words.
    pub kind: String,
    /// The quantity, with its unit.
    pub quantity: &'static str,
    /// The published measurement.
    pub measured: f64,
    /// The planner's prediction.
    pub predicted: f64,
    /// The relative error: (predicted - measured) / measured.
    pub error: f64,
    /// Whether constants of the planner were fitted to it.
    pub fitted: bool,
    /// Prediction with constants that were fitted without its configuration, where that was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// The same with constants that were fitted without its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_source: Option<f64>,
    /// Why it is set apart from the bars, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// Key that repeats of its set-up share.
    #[serde(skip)]
    pub configuration: String,
    /// Properties of its step beside the kind.
    #[serde(skip)]
    pub step: Step,
}
