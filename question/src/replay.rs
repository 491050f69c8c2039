//! The question of a trace: what the steps of a run would have been.

use pipeline::Limit;
use serde::{Deserialize, Serialize};

use crate::one_or_many;

/// Changes of a run that are tried on its trace.
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "What if"))]
pub struct Keys {
    /// Change the run in these ways, one at a time
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "CHANGE,..", value_enum, value_delimiter = ',')
    )]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
    /// Leave out the first N steps of the trace, which warm up
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Run"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_steps: Option<u64>,
    /// Order the passes by these schedules, with the run's median times: compare them with
    /// no-stragglers, and with the run's own schedule
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE,..", value_delimiter = ','))]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<String>,
    /// Share of B in a backward pass, the rest being W [default: from --hidden and --seq, or 0.5]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SHARE", allow_negative_numbers = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backward_split: Option<f64>,
    /// Hidden size h, for the share of B: (24h+8s) / (48h+8s)
    #[cfg_attr(feature = "clap", arg(long, value_name = "H"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u64>,
    /// Sequence length s
    #[cfg_attr(feature = "clap", arg(long, value_name = "S"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Chunks per stage, for schedules that take any number
    #[cfg_attr(feature = "clap", arg(long, value_name = "V"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Memory limit of every stage, for schedules that are made for one: `1.5p`; or one per stage
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "LIMIT,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "one_or_many::optional", skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Vec<Limit>>,
}

/// A change of the run.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIf {
    /// Every pass takes the median of its kind and chunk over ranks, microbatches and steps.
    NoStragglers,
    /// Every pass takes the mean of those medians over the stages.
    Balanced,
    /// Transfers between stages take no time.
    FreeLinks,
}

impl WhatIf {
    /// The name of the change, as questions write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoStragglers => "no-stragglers",
            Self::Balanced => "balanced",
            Self::FreeLinks => "free-links",
        }
    }
}
