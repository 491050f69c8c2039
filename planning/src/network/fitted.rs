//! What a file says of the network of a machine, rate by rate.

use std::collections::BTreeMap;

use plan::{Efficiency, Rate};
use serde::Serialize;

use super::collective::Collective;

/// A rate of a machine that was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fitted {
    /// Its key in machine files.
    pub rate: &'static str,
    /// The collectives that give it.
    pub collectives: Vec<Collective>,
    pub nodes: u64,
    pub ranks: u64,
    /// Its value, and that of the machine's file.
    pub value: f64,
    pub built_in: f64,
    /// Bytes per second of a device, and those of the machine's file.
    pub bytes_per_second: f64,
    pub built_in_bytes_per_second: f64,
    /// Seconds of the collective besides its bytes, if small sizes were measured.
    pub latency: Option<f64>,
    /// Relative residuals of times over the sizes that were used: the median and the largest.
    pub median_residual: f64,
    pub largest_residual: f64,
    /// How many sizes were used, the least and the largest in bytes.
    pub sizes: usize,
    pub least_bytes: u64,
    pub most_bytes: u64,
}

/// A rate of a machine that was not measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Kept {
    /// Its key in machine files.
    pub rate: &'static str,
    /// Its value.
    pub value: f64,
    /// Why.
    pub reason: String,
    /// The rate in proportion to which its value was changed, if it was.
    pub follows: Option<&'static str>,
    /// Bytes per second of a device that were measured but that no value allows, if so.
    pub impossible_bytes_per_second: Option<f64>,
}

impl Kept {
    pub(super) fn new(
        rate: &'static Rate,
        value: f64,
        Reason { words, impossible }: Reason,
    ) -> Self {
        Self {
            rate: rate.key,
            value,
            reason: words,
            follows: None,
            impossible_bytes_per_second: impossible,
        }
    }
}

/// Why a rate is not measured, and bytes per second that no value of it allows.
#[derive(Clone, Default)]
pub(super) struct Reason {
    pub(super) words: String,
    pub(super) impossible: Option<f64>,
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        Self { words, impossible: None }
    }
}

/// The network of a machine as a file has it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Network {
    /// The name of the file.
    pub file: String,
    /// The types of its devices, where the file names them.
    pub devices: Vec<String>,
    /// The rates that were measured.
    pub rates: Vec<Fitted>,
    /// Seconds of latencies that were measured, by their keys in machine files.
    pub latencies: BTreeMap<&'static str, f64>,
    /// The rates of networks that were not.
    pub kept: Vec<Kept>,
    /// Runs that give no rate, and why, a sentence each.
    pub left_out: Vec<String>,
    /// The rates of the machine's file.
    #[serde(skip)]
    pub built_in: Efficiency,
}

impl Network {
    /// Whether a rate over nodes was measured.
    #[must_use]
    pub fn is_over_nodes(&self) -> bool {
        self.rates.iter().any(|one| !matches!(one.rate, "link" | "expert-link"))
    }
}
