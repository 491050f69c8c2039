//! The greatest unit of which all times of an instance are multiples.

use search::Instance;

/// The greatest time of which all times are multiples.
pub(crate) fn tick(instance: &Instance) -> u64 {
    let times = instance.costs.chunks().iter();
    let times = times.flat_map(|one| [one.forward, one.backward_input, one.backward_weight]);
    let hops = instance.costs.hops().by_link().iter().copied();
    let again = (0..instance.shape.chunks()).filter_map(|chunk| instance.costs.recompute(chunk));
    times.chain(hops).chain(again).fold(0, |tick, time| divisor(tick, time.0)).max(1)
}

/// The greatest common divisor.
pub(crate) fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}
