//! Whether an instance can be searched.

use pipeline::overlap::Overlap;
use pipeline::{Nanos, PassTimes};

use crate::bounds;
use crate::compiled_instance::kinds;
use crate::error::{MAX_CHUNKS_PER_STAGE, MAX_PAIRED_CHUNKS, MAX_PASSES, MAX_TIME, SearchError};
use crate::instance::Instance;

/// The time that all passes and hops take one after the other.
fn serial_time(instance: &Instance) -> Nanos {
    let Instance { shape, costs, .. } = instance;
    let hops = costs.hops().longest().0.saturating_mul(2);
    let costs = costs.clone().of_mean_microbatch();
    let chunk = |(chunk, times): (u16, &PassTimes)| {
        let PassTimes { forward, backward_input, backward_weight, .. } = *times;
        let again = costs.recompute(chunk).unwrap_or_default();
        let parts = [forward.0, backward_input.0, backward_weight.0, again.0];
        parts.into_iter().fold(hops, u64::saturating_add)
    };
    let microbatch = (0..).zip(costs.chunks()).map(chunk).fold(0, u64::saturating_add);
    Nanos(microbatch.saturating_mul(u64::from(shape.microbatches())))
}

/// The number of passes of an order of `instance`.
pub(crate) fn passes(instance: &Instance) -> usize {
    kinds(instance.costs.has_recompute()) * instance.shape.cells()
}

/// Whether `instance` is one that can be searched.
pub(crate) fn check(instance: &Instance) -> Result<(), SearchError> {
    if instance.placement == pipeline::Placement::Mirrored {
        return Err(SearchError::Mirrored);
    }
    let passes = passes(instance);
    if passes > MAX_PASSES {
        return Err(SearchError::TooLarge(passes));
    }
    let chunks = instance.shape.chunks_per_stage();
    if chunks > MAX_CHUNKS_PER_STAGE {
        return Err(SearchError::TooManyChunks(chunks));
    }
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        if chunks > MAX_PAIRED_CHUNKS {
            return Err(SearchError::TooManyPairs(chunks));
        }
        if instance.costs.has_recompute() {
            return Err(SearchError::Recomputed);
        }
    }
    let time = serial_time(instance);
    if time > MAX_TIME {
        return Err(SearchError::TooLong(time));
    }
    Ok(bounds::check_limits(instance)?)
}
