//! The question of a search: the best order of passes under a memory limit.

use std::path::PathBuf;
use std::time::Duration;

use pipeline::{Bytes, Limit, Nanos, Placement};
use search::{Figure, Objective, Statistic};

use crate::keys::table::{Lists, keys};
use crate::values::words::words;

/// Heading in the help of what concerns the search.
const SEARCH: &str = "The search";

/// Heading in the help of what a joint search may change.
const VARIED: &str = "Searched besides the order";

/// The default time limit of the integer program.
const SOLVER_TIME: Duration = Duration::from_secs(30);

keys! {
    /// The keys of a search, besides those of the settings that are searched.
    pub struct SearchKeys as "Keys": "", Lists::OfValues;

    /// Placement of chunks [default: looped; v for two chunks per stage, default]
    placement: Option<PlacementArg>, label: "Placement of chunks", value: "PLACEMENT", heading: SEARCH;
    /// Memory limits to search one after the other: bubble against memory. An order that fits one
    /// limit fits the larger ones
    memory_limits: Vec<Limit>, label: "Memory limits to search", value: "LIMIT,..", heading: SEARCH,
        conflicts: Some("memory_limit");
    /// The cost to minimise. On a cluster, or over several steps, span and makespan are those of the last step, and
    /// the event engine is the judge, as in `simulate`. mean, p95 and p99 are of the step under the noise of the
    /// question, which ends as --boundary says: with asynchronous, by default, at the span of the slowest stage,
    /// with barrier at the makespan
    objective: ObjectiveArg, label: "Objective", value: "OBJECTIVE", heading: SEARCH, default: Some("span");
    /// Search effort in multiples of the default, which takes seconds [default: 1; under
    /// --time-limit without --ilp until it ends]
    effort: Option<u64>, label: "Search effort", value: "TIMES", heading: SEARCH, range: Some((0, 1_000_000));
    /// Then solve the order as an integer program, for --time-limit at most [default: 30s], from the
    /// best order found on: a better one, and a proof of the optimum that `verify` can check
    ilp: bool, label: "Proof by integer program (ILP)", heading: SEARCH;
    /// Start from a certificate of the same question, which is checked first: from its order, its bound and its proof
    warm_start: Option<PathBuf>, label: "Certificate to start from", value: "FILE.toml", heading: SEARCH,
        conflicts: Some("memory_limits");
    /// Stop each search after that time, with the best so far
    time_limit: Option<Nanos>, label: "Time limit of a search", value: "TIME", heading: SEARCH;
    /// Search these together with the order, under one memory limit in bytes: layers (of each chunk), chunks (per
    /// stage, v), placement, recompute (what each chunk recomputes), offload (which chunks go to the host, with
    /// the time of a copy), pairs (whether F and B overlap on two streams, with a --chain that communicates; pairs
    /// recompute nothing), or all of those for which the question has the keys
    vary: Vec<Varied>, label: "Searched besides the order", value: "WHAT,..", heading: VARIED;
    /// The most chunks per stage that --vary chunks tries [default: 3]
    max_chunks: Option<u64>, label: "Most chunks per stage", value: "V", heading: VARIED, range: Some((1, 64));
    /// Layers of multi-token prediction (MTP) that --vary places, besides --layers; what they do is said by
    /// --chain-mtp [default: 0]
    mtp_layers: Option<u64>, label: "MTP layers", value: "N", heading: VARIED, range: Some((1, 64));
    /// Resident bytes of a layer, also of an MTP layer (weights, gradients, optimizer state): with --vary,
    /// the memory limit is then for them, too [default: 0B]
    resident_layer: Option<Bytes>, label: "Resident memory of a layer", value: "SIZE", heading: VARIED;
    /// The same of what the first chunk has besides its layers, the embedding [default: 0B]
    resident_head: Option<Bytes>, label: "Resident memory of the embedding", value: "SIZE", heading: VARIED;
    /// The same of what the last chunk has besides its layers, the output layer [default: 0B]
    resident_tail: Option<Bytes>, label: "Resident memory of the output layer", value: "SIZE", heading: VARIED;
    /// Activation bytes of a microbatch on the first chunk from F to W, in addition to its layers, with
    /// --activation [default: 0B]
    activation_head: Option<Bytes>, label: "Extra activations of the first chunk", value: "SIZE", heading: VARIED;
    /// The same of the last chunk [default: 0B]
    activation_tail: Option<Bytes>, label: "Extra activations of the last chunk", value: "SIZE", heading: VARIED;
}
#[cfg(feature = "clap")]
crate::keys::flags::flags!(SearchKeys);

words! {
    /// Changes that a joint search may make beside the order.
    pub enum Varied {
        /// How many layers each chunk has
        Layers = "layers";
        /// Chunks per stage, v
        Chunks = "chunks";
        /// Placement of chunks
        Placement = "placement";
        /// Recomputation of each chunk
        Recompute = "recompute";
        /// Which chunks copy their activations to the host
        Offload = "offload";
        /// Whether F and B overlap as pairs on two streams
        Pairs = "pairs";
        /// All of these for which the question has the keys
        All = "all";
    }
}

words! {
    /// Where the chunks of a searched order lie.
    pub enum PlacementArg {
        /// Chunk c on stage c mod p
        Looped = "looped";
        /// Down the stages and up again
        V = "v";
    }
}

words! {
    /// The time that a search makes small.
    derive(Default), pub enum ObjectiveArg {
        /// The longest time from the first to the last pass of a stage
        Span = "span", default;
        /// The end of the last pass
        Makespan = "makespan";
        /// The time per step on a cluster, or over several steps, with everything between two of them
        Step = "step";
        /// The mean of the step over replicas of the noise
        Mean = "mean";
        /// The step that 95 % of the replicas do not exceed
        P95 = "p95";
        /// The step that 99 % of the replicas do not exceed
        P99 = "p99";
    }
}

impl PlacementArg {
    /// The name of `placement`, where orders of it are searched.
    #[must_use]
    pub const fn of(placement: Placement) -> Option<Self> {
        match placement {
            Placement::Looped => Some(Self::Looped),
            Placement::Vee => Some(Self::V),
            Placement::Mirrored => None,
        }
    }
}

impl SearchKeys {
    /// Whether `what` is searched together with the order, where the question has the keys for it.
    #[must_use]
    pub fn varies(&self, what: Varied) -> bool {
        self.names(what) || self.names(Varied::All)
    }

    /// Whether --vary names `what` itself.
    #[must_use]
    pub fn names(&self, what: Varied) -> bool {
        self.vary.contains(&what)
    }

    /// The names of the given keys that apply to a joint search alone.
    pub fn of_joint(&self) -> impl Iterator<Item = &'static str> + use<> {
        let varied = self.given_rows().filter(|row| row.heading == VARIED);
        varied.map(|row| row.name).filter(|name| *name != "vary")
    }

    /// Placement of chunks, if the question says.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        self.placement.map(|placement| match placement {
            PlacementArg::Looped => Placement::Looped,
            PlacementArg::V => Placement::Vee,
        })
    }

    /// The time to minimize where no link is shared; none for a time under noise or of a run on hardware.
    #[must_use]
    pub const fn objective(&self) -> Option<Objective> {
        match self.objective {
            ObjectiveArg::Span => Some(Objective::Span),
            ObjectiveArg::Makespan => Some(Objective::Makespan),
            ObjectiveArg::Step | ObjectiveArg::Mean | ObjectiveArg::P95 | ObjectiveArg::P99 => None,
        }
    }

    /// The figure of a run on hardware to minimize; none for a time under noise.
    #[must_use]
    pub const fn figure(&self) -> Option<Figure> {
        match self.objective {
            ObjectiveArg::Span => Some(Figure::Span),
            ObjectiveArg::Makespan => Some(Figure::Makespan),
            ObjectiveArg::Step => Some(Figure::Step),
            ObjectiveArg::Mean | ObjectiveArg::P95 | ObjectiveArg::P99 => None,
        }
    }

    /// The statistic of the step under noise to minimize; none for a time without noise.
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

    /// The effort in multiples of the default; none where the time limit alone ends a search.
    #[must_use]
    pub fn times(&self) -> Option<u64> {
        match (self.effort, self.time_limit) {
            (None, Some(_)) if !self.ilp => None,
            (effort, _) => Some(effort.unwrap_or(1)),
        }
    }
}
