//! The errors of the planner on a set of measurements.

use serde::{Deserialize, Serialize};

/// The errors of the planner on the iterations of one set of measurements that are of one kind. Errors are
/// relative: (predicted - measured) / measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetErrors {
    /// The name of the set.
    pub set: String,
    /// The kind of step, in words.
    pub kind: String,
    /// The number of iterations.
    pub rows: usize,
    /// The number of them to which constants of the planner were fitted.
    pub fitted: usize,
    /// The mean of the absolute errors.
    pub mean: f64,
    /// The mean over the iterations that were left out of every fit, if any were.
    pub held_out_mean: Option<f64>,
    /// The 95th percentile of the absolute errors; for fewer than 20 the largest.
    pub error: f64,
    /// The largest absolute error.
    pub max: f64,
    /// The least measured time over the predicted one.
    pub shortest: f64,
    /// The greatest measured time over the predicted one.
    pub longest: f64,
    /// The number of configurations: rows that differ in more than when they were measured.
    pub configurations: usize,
    /// The longest of their sequences, in tokens.
    pub sequence_most: u64,
    /// The most of their devices.
    pub devices_most: u64,
    /// Their formats of products, with a space between two.
    pub precisions: String,
    /// The intermediate sizes of their experts, with a space between two; none of dense models.
    pub widths: String,
}
