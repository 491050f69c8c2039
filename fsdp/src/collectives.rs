//! FSDP with collectives: all devices meet at every layer.

use crate::links::Links;
use crate::work::{Layer, Work};

/// The end of the last device: T = sum over microbatches and layers of the slowest device's time,
/// plus the part of the transfers that compute does not hide. `did` is called for every layer of
/// every device.
///
/// All devices have `microbatches`.
pub(crate) fn run(
    work: &Work<'_>,
    layers: u16,
    links: Option<&Links>,
    microbatches: usize,
    mut did: impl FnMut(usize, Layer, u64, u64),
) -> u64 {
    let devices = work.times().len();
    let transfer = links.map_or(0, |links| links.ring(layers, devices));
    let overlap = links.is_some_and(|links| links.overlap);
    let count = work.layers(microbatches);
    let is_backward = |index: usize| work.layer(index).is_backward;
    let mut now = if overlap { transfer } else { 0 };
    for index in 0..count {
        if !overlap {
            now = now.saturating_add(transfer);
        }
        let layer = work.layer(index);
        let mut slowest = 0;
        for device in 0..devices {
            let duration = work.duration(device, layer, now);
            did(device, layer, now, duration);
            slowest = slowest.max(duration);
        }
        // Behind this layer: the gather of the next and the gradients of the one before.
        let gathers = u64::from(overlap && index + 1 < count);
        let scatters = u64::from(overlap && index > 0 && is_backward(index - 1));
        let hidden = transfer.saturating_mul(gathers + scatters);
        let exposed = if overlap { 0 } else { transfer * u64::from(layer.is_backward) };
        now = now.saturating_add(slowest.max(hidden)).saturating_add(exposed);
    }
    if overlap { now.saturating_add(transfer) } else { now }
}
