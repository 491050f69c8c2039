//! Errors of noise: parameters that are refused.

use pipeline::Nanos;
use thiserror::Error;

use super::Target;

/// A parameter that describes no noise there could be.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum StragglerError {
    /// A factor that is zero, negative, no number, or beyond any machine.
    #[error("a factor must be from 0.000001 to 1000000, not {0}: 1.5 means 50 % longer")]
    Factor(f64),
    /// A normal distribution that cannot have this spread and stay positive.
    #[error(
        "the spread of a normal jitter must be from 0 to 0.34, not {0}: more would be cut off at \
         zero, use lognormal"
    )]
    NormalSpread(f64),
    /// A log-normal distribution of an impossible spread.
    #[error("the spread of a lognormal jitter must be from 0 to 10, not {0}")]
    LogNormalSpread(f64),
    /// A Pareto distribution without a mean, or none at all.
    #[error(
        "the tail index of a pareto jitter must be above 1 and at most 1000, not {0}: at 1 and \
         below it has no mean"
    )]
    ParetoTail(f64),
    /// No samples to draw from.
    #[error("there are no samples to draw from")]
    NoSamples,
    /// Something that is not a probability.
    #[error("a probability must be from 0 to 1, not {0}")]
    Probability(f64),
    /// A stage, device or link outside the pipeline.
    #[error("there is no {target}: the pipeline has {stages} stages, numbered from 0")]
    NoSuchTarget {
        /// The target that was named.
        target: Target,
        /// Number of stages.
        stages: usize,
    },
    /// A device that carries no stage.
    #[error("no stage runs on {0}")]
    IdleDevice(Target),
    /// A link from a stage to itself.
    #[error("{0} is not a link: it needs two different stages")]
    Loop(Target),
    /// The same target twice.
    #[error("{target} has two {what}")]
    Twice {
        /// The target that was named.
        target: Target,
        /// The quantity that is given twice.
        what: &'static str,
    },
    /// A profile without entries.
    #[error("the profile has no entry")]
    EmptyProfile,
    /// A profile in which time does not advance.
    #[error("the times of a profile must ascend, but {next} comes after {last}")]
    Backwards {
        /// The time before.
        last: Nanos,
        /// The time that should be later.
        next: Nanos,
    },
}
