//! S and T of every shard between the passes of an order.

use super::super::times;
use crate::costs::{Costs, PassTimes};
use crate::fault::Fault;
use crate::order::Order;
use crate::pass::{Kind, Pass, Slot};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::{Shape, Vocabulary};
use crate::units::Nanos;

/// `schedule` with S and T as `shape` has them, by the times of `problem`.
pub(super) fn into_schedule(
    schedule: &Schedule,
    problem: &Problem,
    shape: Shape,
) -> Result<Schedule, Fault> {
    let placement = schedule.placement();
    let spans = times::spans(schedule, &without_instants(problem.costs()));
    let last = shape.chunks() - 1;
    let microbatches = shape.microbatches() as usize;
    let (mut ends, mut begins) = (vec![0; microbatches], vec![0; microbatches]);
    let home = placement.stage(shape, last, 0);
    for (slot, &[start, end]) in schedule.orders()[home].slots().zip(&spans[home]) {
        for pass in slot.passes().filter(|pass| pass.chunk == last) {
            match pass.kind {
                Kind::F => ends[pass.microbatch as usize] = end,
                Kind::B | Kind::BW => begins[pass.microbatch as usize] = start,
                Kind::W | Kind::S | Kind::T | Kind::R => {}
            }
        }
    }
    let slots = schedule.orders().iter().zip(&spans).map(|(order, spans)| {
        let starts = spans.iter().map(|&[start, _]| start);
        starts.zip(order.slots()).collect()
    });
    // Behind T there is as long for the second barrier as there is behind S for the first.
    let latest = ends.iter().zip(begins).map(|(&end, begin)| match shape.vocabulary() {
        Vocabulary::TwoBarriers => end.midpoint(begin.max(end)),
        Vocabulary::OneBarrier | Vocabulary::Whole => begin,
    });
    let latest: Vec<u64> = latest.collect();
    Schedule::new(shape, placement, insert(slots.collect(), &ends, &latest))
}

/// The costs with passes that take some time, so that what waits for a pass never begins with it.
fn without_instants(costs: &Costs) -> Costs {
    let some = |time: Nanos| time.max(Nanos(1));
    let chunks = costs.chunks().iter().map(|times| PassTimes {
        forward: some(times.forward),
        backward_input: some(times.backward_input),
        backward_weight: times.backward_weight,
        backward: times.backward.map(some),
    });
    Costs::new(chunks.collect(), Nanos(0)).with_hops(costs.hops().clone())
}

/// The orders of all stages, whose slots begin when they say, with S and T: `ends` are when the forward of
/// the last chunk ends, by microbatch, and `latest` when T is due at the latest, no later than its backward
/// begins.
///
/// On every stage they come in the same order, each before the slots that begin no sooner than it is due: T
/// of the microbatch before goes first, then S, then T of the same one where that cannot wait. So all
/// passes are in order of one clock, and none wait for each other.
pub(in super::super) fn insert(
    slots: Vec<Vec<(u64, Slot)>>,
    ends: &[u64],
    latest: &[u64],
) -> Vec<Order> {
    let mut between = Vec::with_capacity(2 * ends.len());
    for (microbatch, (&end, &latest)) in (0u32..).zip(ends.iter().zip(latest)) {
        let next = ends.get(microbatch as usize + 1).copied().unwrap_or(u64::MAX);
        let rank = 2 * u64::from(microbatch);
        between.push(((end, rank), Kind::S, microbatch));
        between.push(((next.min(latest).max(end), rank + 1), Kind::T, microbatch));
    }
    between.sort_unstable_by_key(|&(due, ..)| due);
    (0u16..).zip(slots).map(|(stage, slots)| with_shards(slots, stage, &between)).collect()
}

fn with_shards(slots: Vec<(u64, Slot)>, stage: u16, between: &[((u64, u64), Kind, u32)]) -> Order {
    let mut order = Order::with_capacity(slots.len() + between.len());
    let mut between = between.iter().peekable();
    let shard = |&(_, kind, microbatch): &_| Pass { kind, chunk: stage, microbatch };
    for (start, slot) in slots {
        while let Some(one) = between.next_if(|((due, _), ..)| *due <= start) {
            order.push(shard(one));
        }
        order.push(slot);
    }
    between.for_each(|one| order.push(shard(one)));
    order
}
