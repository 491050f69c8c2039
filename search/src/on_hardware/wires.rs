//! Bounds by the traffic that each wire must carry in any order.
//!
//! All that a microbatch sends in a step, it sends between its F and its B on the first chunk. So between the start of
//! the first F of that chunk and the end of the last pass of its stage, a wire carries all bytes of the step that go
//! over it, at no more than its rate. Before the first of them comes at least what lies before the value that is
//! made soonest: the passes and hops of its microbatch up to it, each hop as long as on an idle network. Behind
//! the last of them comes at least what is left to do for the value of which least is left: the latency of its
//! route, the passes and hops of its microbatch up to B of the first chunk, and W there. The three
//! together bound the span of that stage, in every step. A backward that does B and W at once only makes
//! values later.

use pipeline::Nanos;
use sim::Hardware;

use super::{OnHardware, proxy};
use crate::instance::Instance;

/// Traffic of a wire in a step.
#[derive(Clone, Copy)]
struct Load {
    /// Values of each microbatch.
    values: u64,
    /// The least time from the start of F on the first chunk until such a value is made.
    before: u64,
    /// The least time from when such a value has left the wire until W on the first chunk has ended.
    behind: u64,
}

/// The highest bound on the span of the stage of the first chunk by what a wire must carry, with the wire; none where
/// there are no wires.
pub(super) fn bound(instance: &Instance, on: &OnHardware<'_>) -> Option<(Nanos, usize)> {
    let Hardware { cluster, messages, .. } = on.hardware;
    let values = u128::from(messages.bytes.0) * u128::from(instance.shape.microbatches());
    let span = |(wire, load): (usize, Option<Load>)| {
        let Load { values: each, before, behind } = load?;
        let rate = u128::from(cluster.wires()[wire].bandwidth.bytes_per_second()).max(1);
        let nanos = values.saturating_mul(u128::from(each)).saturating_mul(1_000_000_000) / rate;
        let all = nanos + u128::from(before) + u128::from(behind);
        Some((Nanos(u64::try_from(all).unwrap_or(u64::MAX)), wire))
    };
    let bounds = loads(instance, on).into_iter().enumerate().filter_map(span);
    bounds.reduce(|best, one| if one.0 > best.0 { one } else { best })
}

/// By wire, its traffic; `None` for an unused wire.
fn loads(instance: &Instance, on: &OnHardware<'_>) -> Vec<Option<Load>> {
    let Hardware { cluster, seats, .. } = on.hardware;
    let Instance { shape, placement, .. } = instance;
    let at = (*shape, *placement);
    let costs = on.asked.costs().clone().with_hops(proxy::alone_hops(instance, on.hardware));
    let times = costs.chunks();
    let device = |chunk| seats.device(placement.stage(*shape, chunk, 0));
    let mut loads = vec![None; cluster.wires().len()];
    let mut add = |from, to, before: u64, behind: u64| {
        let route = cluster.route(from, to);
        let behind = behind.saturating_add(route.latency.0);
        for wire in route.wires {
            let old = loads[wire].unwrap_or(Load { values: 0, before, behind });
            loads[wire] = Some(Load {
                values: old.values + 1,
                before: old.before.min(before),
                behind: old.behind.min(behind),
            });
        }
    };
    let last = shape.chunks() - 1;
    let hops: u64 = (0..last).map(|chunk| costs.hop_after(at, chunk).0).sum();
    let forwards: u64 = times.iter().map(|one| one.forward.0).sum();
    let backwards: u64 = times.iter().map(|one| one.backward_input.0).sum();
    let end = times[0].backward_weight.0;
    // Of the chunks up to the one that is reached: F and B, and the hops between them.
    let (mut down, mut up, mut crossed) = (0, 0, 0);
    for (chunk, one) in (0..last).zip(times) {
        let [near, far] = [device(chunk), device(chunk + 1)];
        let hop = costs.hop_after(at, chunk).0;
        (down, up) = (down + one.forward.0, up + one.backward_input.0);
        let beyond = hops - crossed - hop;
        add(near, far, down + crossed, forwards - down + beyond + backwards + hops + end);
        if chunk >= costs.forward_only_chunks() {
            add(far, near, forwards + hops + backwards - up + beyond, up + crossed + end);
        }
        crossed += hop;
    }
    loads
}
