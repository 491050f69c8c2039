//! FSDP with collectives: the devices that share the parameters meet at every layer.

use crate::links::Links;
use crate::work::{Layer, Work};

/// The end of the last device: T = sum over microbatches and layers of the slowest device's time,
/// plus the part of the transfers that compute does not hide. `did` is called for every layer of
/// every device.
///
/// Under hybrid sharding the devices of a node meet at every layer, and the nodes at the end of every
/// microbatch, when their gradients are summed. All devices have `microbatches`.
pub(crate) fn run(
    work: &Work<'_>,
    layers: u16,
    links: Option<&Links>,
    microbatches: usize,
    mut did: impl FnMut(usize, Layer, u64, u64),
) -> u64 {
    let devices = work.times().len();
    let group = links.map_or(devices, |links| links.group(devices));
    let transfer = links.map_or(0, |links| links.ring(layers, devices));
    let reduce = links.map_or(0, |links| links.all_reduce(links.of_layer(layers), devices));
    let overlap = links.is_some_and(|links| links.overlap);
    let count = work.layers(microbatches);
    let is_backward = |index: usize| work.layer(index).is_backward;
    let mut nows = vec![if overlap { transfer } else { 0 }; devices / group.max(1)];
    for index in 0..count {
        let layer = work.layer(index);
        // Behind this layer: the gather of the next and the gradients of the one before, which nodes
        // sum over links of their own.
        let gathers = u64::from(overlap && index + 1 < count);
        let scatters = u64::from(overlap && index > 0 && is_backward(index - 1));
        let hidden = transfer.saturating_mul(gathers + scatters).max(reduce * scatters);
        let gradients = transfer.saturating_add(reduce) * u64::from(layer.is_backward);
        let exposed = if overlap { 0 } else { gradients };
        for (number, now) in nows.iter_mut().enumerate() {
            if !overlap {
                *now = now.saturating_add(transfer);
            }
            let mut slowest = 0;
            for device in number * group..(number + 1) * group {
                let duration = work.duration(device, layer, *now);
                did(device, layer, *now, duration);
                slowest = slowest.max(duration);
            }
            *now = now.saturating_add(slowest.max(hidden)).saturating_add(exposed);
        }
        if (index + 1).is_multiple_of(work.layers(1)) {
            let last = nows.iter().copied().max().unwrap_or(0);
            nows.fill(last);
        }
    }
    let end = nows.into_iter().max().unwrap_or(0);
    // The gradients of the last layer hide behind nothing.
    let exposed = overlap && work.has_backward();
    if exposed { end.saturating_add(transfer).saturating_add(reduce) } else { end }
}
