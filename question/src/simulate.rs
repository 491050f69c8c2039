//! The question of a simulation, besides its scenario.

use serde::{Deserialize, Serialize};

/// The order of the schedules of a setting.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// The bubble of the span.
    Bubble,
    /// The peak activation memory of the stage that holds most.
    Memory,
    /// The span.
    Step,
}
