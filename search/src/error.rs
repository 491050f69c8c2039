//! Why an instance cannot be searched, and how large one may be.

use pipeline::{Fault, Nanos};
use sim::SimulationError;
use thiserror::Error;

use crate::bounds::Infeasible;

/// The largest number of passes of a pipeline that can be searched: its tables take about 1 GB.
pub const MAX_PASSES: usize = 4_000_000;

/// The largest number of chunks per stage: the kinds of passes of each, four with R, each split or whole, are
/// numbered in 16 bits.
pub const MAX_CHUNKS_PER_STAGE: u16 = u16::MAX / 8;

/// The largest number of chunks per stage where passes overlap: every pair of two of them has a duration in a table.
pub const MAX_PAIRED_CHUNKS: u16 = 64;

/// The largest sum of the durations of all passes and hops, 4.6 years: weighted sums of times still
/// fit into 64 bits.
pub const MAX_TIME: Nanos = Nanos(u64::MAX / 128);

/// The largest number of passes of a pipeline that can be searched under noise: its tables take about 1 GB.
pub const MAX_PASSES_UNDER_NOISE: usize = 200_000;

/// Why an instance cannot be searched.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SearchError {
    /// No order fits the memory limits.
    #[error(transparent)]
    Infeasible(#[from] Infeasible),
    /// The pipeline has more passes than [`MAX_PASSES`].
    #[error("{0} passes are too many to search: at most {MAX_PASSES}")]
    TooLarge(usize),
    /// The stages have more chunks than [`MAX_CHUNKS_PER_STAGE`].
    #[error("{0} chunks per stage are too many to search: at most {MAX_CHUNKS_PER_STAGE}")]
    TooManyChunks(u16),
    /// Chunks that communicate have more per stage than pairs of them are searched for.
    #[error(
        "{0} chunks per stage are too many to search where passes overlap: at most {MAX_PAIRED_CHUNKS}"
    )]
    TooManyPairs(u16),
    /// Chunks recompute, and their passes overlap.
    #[error("no order is searched for passes that overlap and are recomputed")]
    Recomputed,
    /// The pipeline has more passes than [`MAX_PASSES_UNDER_NOISE`].
    #[error(
        "{0} passes are too many to search under noise: at most {MAX_PASSES_UNDER_NOISE}; use fewer microbatches or stages"
    )]
    TooLargeUnderNoise(usize),
    /// Passes overlap, and are to be searched under noise.
    #[error("no order is searched under noise for passes that overlap on two streams")]
    OverlappedUnderNoise,
    /// Passes overlap, and are to be searched on hardware.
    #[error(
        "no order is searched on a cluster, or over several steps, for passes that overlap on two streams"
    )]
    OverlappedOnHardware,
    /// The event engine has no result: every order gets stuck, or they are too large for it.
    #[error("on the hardware {0}")]
    OnHardware(SimulationError),
    /// All passes and hops together take more than [`MAX_TIME`].
    #[error("passes and hops take {0} one after the other, too long to search: at most {MAX_TIME}")]
    TooLong(Nanos),
    /// The placement is mirrored, which the search does not support.
    #[error("orders are searched for looped chunks and for a V, not for two directions at once")]
    Mirrored,
    /// The schedule found is not one of the pipeline, or its times overflow.
    #[error(transparent)]
    Fault(#[from] Fault),
}
