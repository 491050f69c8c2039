//! The question of an export, besides its scenario.

use serde::{Deserialize, Serialize};

/// The form in which a schedule is exported.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The order of passes, one line per stage
    #[default]
    Text,
    /// The order as CSV for torch.distributed.pipelining, one row per rank
    TorchCsv,
    /// The simulated timeline as trace events for Perfetto or chrome://tracing
    Chrome,
}
