//! The faults of a minibatch, its packing and its links.

use sim::straggler::StragglerError;
use thiserror::Error;

/// Why a minibatch cannot be packed or timed.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FsdpError {
    /// A count that is zero or too large.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Count {
        /// The quantity that is counted.
        what: &'static str,
        /// The value given.
        given: u64,
        /// The smallest there may be.
        least: u64,
        /// The largest there may be.
        most: u64,
    },
    /// A number that is none, or out of its range.
    #[error("{what} must be {range}, not {given}")]
    Number {
        /// The quantity.
        what: &'static str,
        /// The value given.
        given: f64,
        /// The range that it must lie in.
        range: &'static str,
    },
    /// A sample that no microbatch can hold.
    #[error(
        "sample {sample} has {length} tokens, but a microbatch holds at most {limit}: samples are \
         not split"
    )]
    TooLong {
        /// Which sample of the minibatch, from 0.
        sample: usize,
        /// Its length in tokens.
        length: u32,
        /// The most tokens of a microbatch.
        limit: u64,
    },
    /// A sample without tokens.
    #[error("sample {sample} has no tokens")]
    NoTokens {
        /// Which sample of the minibatch, from 0.
        sample: usize,
    },
    /// Fewer samples than devices.
    #[error("{samples} samples for {devices} devices: every device needs one")]
    TooFew {
        /// Number of samples.
        samples: usize,
        /// Number of devices.
        devices: usize,
    },
    /// Samples that do not divide among the devices.
    #[error(
        "{method} gives every device equally many samples, but {samples} are not a multiple of \
         {devices} devices"
    )]
    Uneven {
        /// How the samples are packed.
        method: &'static str,
        /// Number of samples.
        samples: usize,
        /// Number of devices.
        devices: usize,
    },
    /// Devices that would wait in a collective for those that have ended.
    #[error(
        "collectives would deadlock: device {device} has {microbatches} microbatches, device \
         {other} has {others}; {method} needs on-demand communication"
    )]
    Deadlock {
        /// How the samples are packed.
        method: &'static str,
        device: usize,
        /// Number of microbatches that it has.
        microbatches: usize,
        /// A device with another number of them.
        other: usize,
        /// How many that has.
        others: usize,
    },
    /// Devices that do not fill nodes equally.
    #[error("{devices} devices do not fill nodes of {of_node}")]
    Nodes {
        /// Number of devices.
        devices: usize,
        /// How many a node has.
        of_node: usize,
    },
    /// A response that an engine cannot hold.
    #[error(
        "a response and its prompt have {tokens} tokens, but the memory of an engine holds keys and values \
         of {capacity}"
    )]
    Engine {
        /// Its tokens with those of the prompt.
        tokens: u64,
        /// The most that fit.
        capacity: u64,
    },
    /// Responses that take too many steps.
    #[error("the longest response takes {steps} steps of its budget: at most {most}")]
    Budget {
        /// How many it takes.
        steps: u64,
        /// The most there may be.
        most: u64,
    },
    /// Updates that do not divide the responses of a step.
    #[error("{responses} responses of a step are not a multiple of updates of {update}")]
    Updates {
        /// Responses of a step.
        responses: u64,
        /// Responses of an update.
        update: u64,
    },
    /// A pipeline that has no such order.
    #[error(transparent)]
    Pipeline(#[from] pipeline::Fault),
    /// Times longer than the clock tells.
    #[error("the times are too long for the clock: make costs, slowdowns or links smaller")]
    Overflow,
    /// Slow devices or noise that make no sense.
    #[error(transparent)]
    Noise(#[from] StragglerError),
}

/// `given` if it lies in the range.
pub(crate) fn count(
    what: &'static str,
    given: u64,
    least: u64,
    most: u64,
) -> Result<u64, FsdpError> {
    let legal = (least..=most).contains(&given);
    legal.then_some(given).ok_or(FsdpError::Count { what, given, least, most })
}
