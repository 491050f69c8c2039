//! A certificate: a schedule, its cost and a bound, with all that they rest on.

use pipeline::{Costs, Footprints, Limits, Nanos, Schedule};
use serde::Deserialize;

use crate::{BoundArgument, Proof};

/// The backwards of the orders that a bound is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backwards {
    /// Each is B and W apart.
    Split,
    /// Each is B and W apart, or BW.
    SplitOrWhole,
}

/// The objective: the quantity that the cost is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The longest time from the first to the last pass of a stage.
    Span,
    /// The end of the last pass of any stage.
    Makespan,
}

impl Objective {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Makespan => "makespan",
        }
    }
}

/// The claim of a certificate: this schedule fits, has this cost, and no schedule costs less than
/// the bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// The order of passes.
    pub schedule: Schedule,
    /// Durations of passes and hops.
    pub costs: Costs,
    /// The activations that each microbatch holds in each chunk.
    pub footprints: Footprints,
    /// The memory limit of each stage, if there is one.
    pub limits: Option<Limits>,
    pub objective: Objective,
    /// The cost of the schedule.
    pub cost: Nanos,
    /// No schedule costs less.
    pub bound: Nanos,
    /// The argument of the bound, with its stages.
    pub argument: BoundArgument,
    /// Evidence for the argument besides its stages; empty for most arguments.
    pub proof: Proof,
    /// The orders that the bound is about. Version 1 is about split backwards.
    pub backwards: Backwards,
}
