//! The search of an order until so many passes are placed or timed.

use pipeline::Schedule;
use pipeline::overlap::Overlap;

use crate::bounds::Bound;
use crate::error::SearchError;
use crate::found::{Found, Progress};
use crate::instance::Instance;
use crate::side_by_side::Stop;
use crate::start::Starts;
use crate::{nominal, overlapped};

/// Searches an instance that can be searched until `total` passes are placed or timed, from the published orders among
/// `starts`. `bound` is one of its lower bounds; nothing more is proved.
pub(crate) fn search_within(
    instance: &Instance,
    (bound, starts): (Bound, Starts),
    (seed, total): (u64, u64),
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    run(instance, (bound, starts), None, (seed, total), None::<fn(Progress)>, stop)
}

/// The same, with proofs if there is a `progress`, from `known` on, too.
pub(crate) fn run(
    instance: &Instance,
    (bound, starts): (Bound, Starts),
    known_order: Option<&Schedule>,
    (seed, total): (u64, u64),
    progress: Option<impl FnMut(Progress)>,
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    if instance.costs.overlap().is_some_and(Overlap::communicates) {
        return overlapped::search(instance, bound, (seed, total), progress, stop);
    }
    nominal::search(instance, (bound, starts), known_order, (seed, total), progress, stop)
}
