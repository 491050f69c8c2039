//! Checking a certificate from scratch.

use pipeline::{Bytes, Nanos};

use crate::critical_path::Pipe;
use crate::{
    Backwards, BoundArgument, Certificate, Objective, Refusal, branching, recount, relaxation,
    windows,
};

/// The facts that were checked and hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Passes of the schedule.
    pub passes: usize,
    /// The most that each stage holds.
    pub peaks: Vec<Bytes>,
    /// The memory limit of each stage, if there is one.
    pub limits: Option<Vec<Bytes>>,
    pub objective: Objective,
    /// The cost of the schedule.
    pub cost: Nanos,
    /// No schedule costs less.
    pub bound: Nanos,
    /// The argument that proves the bound.
    pub argument: BoundArgument,
    /// Number of pairs of passes that its branching log tries both ways, where it rests on one.
    pub branches: Option<usize>,
    /// Number of starts that it raises by windows of the first microbatches.
    pub heads: usize,
    /// The orders that the bound is about.
    pub backwards: Backwards,
}

impl Verdict {
    /// No schedule is cheaper by more than this.
    #[must_use]
    pub fn gap(&self) -> Nanos {
        self.cost - self.bound
    }

    /// No schedule whose backwards are as [`Self::backwards`] says is cheaper.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// Reads a certificate and checks all that it claims, trusting nothing: the order is complete,
/// well placed and free of deadlock; it fits the limits; it costs what is claimed; and the argument
/// shows that none costs less than the bound.
pub fn verify(text: &str) -> Result<Verdict, Refusal> {
    let certificate = Certificate::read(text)?;
    let peaks = recount::peaks(&certificate)?;
    let Certificate { schedule, objective, cost, bound, argument, limits, .. } = &certificate;
    let found = recount::cost(&certificate);
    if found != *cost {
        return Err(Refusal::Cost { claimed: *cost, found });
    }
    let split = match certificate.backwards {
        Backwards::Split => None,
        Backwards::SplitOrWhole => Some(relaxation::relaxed(&certificate)),
    };
    let split = split.as_ref().unwrap_or(&certificate);
    let pipe = Pipe::new(split);
    let proof = &certificate.proof;
    let shown = match &proof.log {
        _ if bound.0 == 0 => true,
        Some(log) => branching::shows(split, &pipe, &proof.heads, log, bound.0)?,
        None if argument.is_windows() || argument.is_prefixes() => {
            windows::shows(split, &pipe, &proof.heads, bound.0)?
        }
        None => argument.shows(&pipe, bound.0)?,
    };
    if !shown {
        return Err(Refusal::Bound { argument: *argument, claimed: *bound });
    }
    Ok(Verdict {
        passes: schedule.passes(),
        peaks,
        limits: limits.as_ref().map(|limits| limits.by_stage().to_vec()),
        objective: *objective,
        cost: *cost,
        bound: *bound,
        argument: *argument,
        branches: proof.log.as_ref().map(branching::Log::branches),
        heads: proof.heads.count(),
        backwards: certificate.backwards,
    })
}
