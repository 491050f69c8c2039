//! The question of a search: the best order of passes under a memory limit.

use std::time::Duration;

use pipeline::{Bytes, Limit, Nanos, Placement};
use search::{Figure, Objective, Statistic};
use serde::{Deserialize, Serialize};

use crate::one_or_many;

/// Heading in the help of what concerns the search.
#[cfg(feature = "clap")]
const SEARCH: &str = "The search";

/// Heading in the help of what a joint search may change.
#[cfg(feature = "clap")]
const VARIED: &str = "What is searched besides the order";

/// How long the integer program is solved where nothing is said of it.
const SOLVER_TIME: Duration = Duration::from_secs(30);

/// The keys of a search, besides those of the settings that are searched.
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Keys {
    /// Where the chunks lie [default: looped; v for two chunks per stage, the number of a v by default]
    #[cfg_attr(feature = "clap", arg(long, value_enum, help_heading = SEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementArg>,
    /// Memory limits to search one after the other: bubble against memory. An order that fits one
    /// limit fits the larger ones
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIMIT,..", value_delimiter = ',', help_heading = SEARCH))]
    #[cfg_attr(feature = "clap", arg(conflicts_with = "memory_limit", allow_hyphen_values = true))]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub memory_limits: Vec<Limit>,
    /// The cost to minimise. On a cluster, or over several steps, span and makespan are those of the last step, and
    /// the event engine is the judge, as in `simulate`. mean, p95 and p99 are of the step under the noise of the
    /// question, which ends as --boundary says: with asynchronous, by default, at the span of the slowest stage,
    /// with barrier at the makespan
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t = ObjectiveArg::Span, help_heading = SEARCH))]
    pub objective: ObjectiveArg,
    /// How long to search, in multiples of the default, which takes seconds [default: 1; under
    /// --time-limit without --ilp as long as that lasts]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIMES", help_heading = SEARCH, allow_negative_numbers = true))]
    #[cfg_attr(feature = "clap", arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<u64>,
    /// Then solve the order as an integer program, for --time-limit at most [default: 30s], from the
    /// best order found on: a better one, and a proof of the optimum that `verify` can check
    #[cfg_attr(feature = "clap", arg(long, help_heading = SEARCH))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ilp: bool,
    /// Stop each search after that time, with the best so far
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", help_heading = SEARCH, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Nanos>,
    /// Search these together with the order, under one memory limit in bytes: layers (of each chunk), chunks (per
    /// stage, v), placement, recompute (what each chunk recomputes), offload (which chunks go to the host, with
    /// the time of a copy), pairs (whether F and B overlap on two streams, with a --chain that communicates; pairs
    /// recompute nothing), or all of those for which the question has the keys
    #[cfg_attr(feature = "clap", arg(long, value_enum, value_name = "WHAT,..", value_delimiter = ',', help_heading = VARIED))]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Varied>,
    /// The most chunks per stage that --vary chunks tries [default: 3]
    #[cfg_attr(feature = "clap", arg(long, value_name = "V", help_heading = VARIED, allow_negative_numbers = true))]
    #[cfg_attr(feature = "clap", arg(value_parser = clap::value_parser!(u64).range(1..=64)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chunks: Option<u64>,
    /// Layers of multi-token prediction (MTP) that --vary places, besides --layers; what they do is said by
    /// --chain-mtp [default: 0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = VARIED, allow_negative_numbers = true))]
    #[cfg_attr(feature = "clap", arg(value_parser = clap::value_parser!(u64).range(1..=64)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtp_layers: Option<u64>,
    /// Bytes that a layer holds all the time, an MTP layer too (weights, gradients, optimizer state): with --vary,
    /// the memory limit is then for them, too [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", help_heading = VARIED, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_layer: Option<Bytes>,
    /// The same of what the first chunk has besides its layers, the embedding [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", help_heading = VARIED, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_head: Option<Bytes>,
    /// The same of what the last chunk has besides its layers, the output layer [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", help_heading = VARIED, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_tail: Option<Bytes>,
    /// Bytes that the first chunk holds for one microbatch from F to W besides those of its layers, with
    /// --activation [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", help_heading = VARIED, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_head: Option<Bytes>,
    /// The same of the last chunk [default: 0B]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", help_heading = VARIED, allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_tail: Option<Bytes>,
}

/// What a joint search may change beside the order.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Varied {
    /// How many layers each chunk has
    Layers,
    /// Chunks per stage, v
    Chunks,
    /// Where the chunks lie
    Placement,
    /// Recomputation of each chunk
    Recompute,
    /// Which chunks copy their activations to the host
    Offload,
    /// Whether F and B overlap as pairs on two streams
    Pairs,
    /// All of these for which the question has the keys
    All,
}

/// Where the chunks of a searched order lie.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementArg {
    /// Chunk c on stage c mod p
    Looped,
    /// Down the stages and up again
    V,
}

/// The time that a search makes small.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveArg {
    /// The longest time from the first to the last pass of a stage
    #[default]
    Span,
    /// The end of the last pass
    Makespan,
    /// The time per step on a cluster, or over several steps, with everything between two of them
    Step,
    /// The mean of the step over replicas of the noise
    Mean,
    /// The step that 95 % of the replicas do not exceed
    P95,
    /// The step that 99 % of the replicas do not exceed
    P99,
}

impl ObjectiveArg {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Makespan => "makespan",
            Self::Step => "step",
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }
}

impl Keys {
    /// Whether `what` is searched together with the order, where the question has the keys for it.
    #[must_use]
    pub fn varies(&self, what: Varied) -> bool {
        self.names(what) || self.names(Varied::All)
    }

    /// Whether `what` itself is named among what is searched.
    #[must_use]
    pub fn names(&self, what: Varied) -> bool {
        self.vary.contains(&what)
    }

    /// The names of the keys that are given and say something of a joint search alone.
    pub fn of_joint(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [
            ("max-chunks", self.max_chunks.is_some()),
            ("mtp-layers", self.mtp_layers.is_some()),
            ("resident-layer", self.resident_layer.is_some()),
            ("resident-head", self.resident_head.is_some()),
            ("resident-tail", self.resident_tail.is_some()),
            ("activation-head", self.activation_head.is_some()),
            ("activation-tail", self.activation_tail.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }

    /// Where the chunks lie, if the question says.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        self.placement.map(|placement| match placement {
            PlacementArg::Looped => Placement::Looped,
            PlacementArg::V => Placement::Vee,
        })
    }

    /// The time to make small where no link is shared; nothing where that is one under noise, or of a run on
    /// hardware.
    #[must_use]
    pub const fn objective(&self) -> Option<Objective> {
        match self.objective {
            ObjectiveArg::Span => Some(Objective::Span),
            ObjectiveArg::Makespan => Some(Objective::Makespan),
            ObjectiveArg::Step | ObjectiveArg::Mean | ObjectiveArg::P95 | ObjectiveArg::P99 => None,
        }
    }

    /// What of a run on hardware is to be small; nothing for a time under noise.
    #[must_use]
    pub const fn figure(&self) -> Option<Figure> {
        match self.objective {
            ObjectiveArg::Span => Some(Figure::Span),
            ObjectiveArg::Makespan => Some(Figure::Makespan),
            ObjectiveArg::Step => Some(Figure::Step),
            ObjectiveArg::Mean | ObjectiveArg::P95 | ObjectiveArg::P99 => None,
        }
    }

    /// The figure of the step under noise to make small; nothing for a time without noise.
    #[must_use]
    pub const fn statistic(&self) -> Option<Statistic> {
        match self.objective {
            ObjectiveArg::Span | ObjectiveArg::Makespan | ObjectiveArg::Step => None,
            ObjectiveArg::Mean => Some(Statistic::Mean),
            ObjectiveArg::P95 => Some(Statistic::P95),
            ObjectiveArg::P99 => Some(Statistic::P99),
        }
    }

    /// How long each search may take, if the question says.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit.map(|limit| Duration::from_nanos(limit.0))
    }

    /// How long the integer program may be solved.
    #[must_use]
    pub fn solver_time(&self) -> Duration {
        self.time_limit().unwrap_or(SOLVER_TIME)
    }

    /// The effort in multiples of the default; nothing where the clock alone ends a search.
    #[must_use]
    pub fn times(&self) -> Option<u64> {
        match (self.effort, self.time_limit) {
            (None, Some(_)) if !self.ilp => None,
            (told, _) => Some(told.unwrap_or(1)),
        }
    }
}
