//! Checks of costs and footprints against a shape.

use crate::fault::Fault;
use crate::shape::Shape;

/// Checks that `what` is given for each chunk of `shape`.
pub(super) fn check_count(what: &'static str, given: usize, shape: Shape) -> Result<(), Fault> {
    let chunks = shape.chunks();
    if given == usize::from(chunks) {
        return Ok(());
    }
    Err(Fault::ChunkCount { what, given, chunks })
}

/// Checks that `what` is given for each shard of the vocabulary of `shape`.
pub(super) fn check_shards(what: &'static str, given: usize, shape: Shape) -> Result<(), Fault> {
    let shards = shape.stages();
    if given == shards { Ok(()) } else { Err(Fault::ShardCount { what, given, shards }) }
}

/// Checks that `sum`, the whole of `what`, is a number that several of can be added up in 64 bits.
///
/// # Errors
/// [`Fault::Overflow`] otherwise.
pub fn check_sum(what: &'static str, sum: u128) -> Result<(), Fault> {
    if sum <= u128::from(u64::MAX / 4) { Ok(()) } else { Err(Fault::Overflow { what }) }
}
