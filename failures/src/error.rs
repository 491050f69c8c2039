//! The faults of dead workers and of what is asked about them.

use thiserror::Error;

use crate::worker::Worker;

/// Why a step with dead workers cannot be answered.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FailureError {
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
    /// A time that is out of its range.
    #[error("{what} must be {range}, not {given} s")]
    Time {
        /// The quantity.
        what: &'static str,
        /// The value given, in seconds.
        given: f64,
        /// The range that it must lie in.
        range: &'static str,
    },
    /// A worker that does not exist.
    #[error("there is no worker {worker}: pipelines are 0 to {}, stages 0 to {}", pipelines - 1, stages - 1)]
    NoWorker {
        /// The worker that was named.
        worker: Worker,
        /// Number of pipelines.
        pipelines: u32,
        /// Number of stages.
        stages: u32,
    },
    /// A worker that is named twice.
    #[error("worker {0} is named twice")]
    Twice(Worker),
    /// A stage whose workers are all dead.
    #[error(
        "all {pipelines} workers of stage {stage} are dead: no peer has its weights. Restart from a \
         checkpoint, or keep one of them alive"
    )]
    StageLost {
        stage: u32,
        /// Number of pipelines.
        pipelines: u32,
    },
    /// A schedule that has more than passes of one pipeline on one stream.
    #[error("{0}")]
    Unsuitable(&'static str),
    /// A memory limit that one microbatch alone exceeds, or in which no order was found.
    #[error(
        "a worker of stage {stage} may hold {limit} bytes, but the passes that it takes over need more: \
         {needed} bytes are enough for one microbatch at a time"
    )]
    Memory {
        stage: u32,
        /// The limit in bytes.
        limit: u64,
        /// Bytes that hold one microbatch on all chunks of the stage.
        needed: u64,
    },
    /// Times whose sum leaves the range of whole nanoseconds.
    #[error("the passes of a step take longer than 2^62 ns together")]
    Overflow,
    /// Repairs that take so long that dead workers pile up.
    #[error(
        "{expected:.1} workers are dead at a time in the mean (repair over time between failures): at most \
         {most} are answered. Repair faster, or ask about rarer failures"
    )]
    PileUp {
        /// Mean number of dead workers.
        expected: f64,
        /// The largest mean that is answered.
        most: f64,
    },
}

/// `given` if it lies from `least` to `most`.
pub(crate) fn count(
    what: &'static str,
    given: u64,
    least: u64,
    most: u64,
) -> Result<u64, FailureError> {
    match (least..=most).contains(&given) {
        true => Ok(given),
        false => Err(FailureError::Count { what, given, least, most }),
    }
}
