//! When passes run in given orders of all workers, and what workers hold meanwhile.

use crate::instance::{Instance, NONE};

/// Passes of each worker in their order.
pub(crate) type Orders = Vec<Vec<u32>>;

/// When each pass starts, and what follows from that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    /// Start of each pass in nanoseconds.
    pub(crate) starts: Vec<u64>,
    /// The pass before each on its worker; [`NONE`] for the first.
    pub(crate) before: Vec<u32>,
    /// The passes in an order in which each comes behind all that it waits for.
    pub(crate) walk: Vec<u32>,
}

impl Timing {
    /// The earliest starts of all passes in `orders`; none if passes wait for each other.
    pub(crate) fn of(instance: &Instance, orders: &Orders) -> Option<Self> {
        let mut timing = Self::default();
        timing.renew(instance, orders).then_some(timing)
    }

    /// Becomes the timing of `orders`; false if passes wait for each other, or some are in no order.
    pub(crate) fn renew(&mut self, instance: &Instance, orders: &Orders) -> bool {
        let count = instance.nodes.len();
        let Self { starts, before, walk } = self;
        for numbers in [&mut *before, &mut *walk] {
            numbers.clear();
        }
        before.resize(count, NONE);
        starts.clear();
        starts.resize(count, 0);
        let mut after = vec![NONE; count];
        let mut waits: Vec<u8> = instance
            .nodes
            .iter()
            .map(|node| node.inputs.iter().map(|input| u8::from(input.0 != NONE)).sum())
            .collect();
        for order in orders {
            for pair in order.windows(2) {
                before[pair[1] as usize] = pair[0];
                after[pair[0] as usize] = pair[1];
                waits[pair[1] as usize] += 1;
            }
        }
        let firsts = orders.iter().filter_map(|order| order.first().copied());
        walk.extend(firsts.filter(|&node| waits[node as usize] == 0));
        let mut at = 0;
        while let Some(&node) = walk.get(at) {
            at += 1;
            starts[node as usize] = start(instance, node, before[node as usize], starts);
            let next = Some(after[node as usize]).filter(|&next| next != NONE);
            for &one in instance.successors(node).iter().chain(&next) {
                waits[one as usize] -= 1;
                if waits[one as usize] == 0 {
                    walk.push(one);
                }
            }
        }
        walk.len() == count
    }

    /// The end of `node`.
    pub(crate) fn end(&self, instance: &Instance, node: u32) -> u64 {
        self.starts[node as usize] + instance.nodes[node as usize].time
    }

    /// First start and last end of the passes of each stage, over its live workers.
    pub(crate) fn stages(&self, instance: &Instance, orders: &Orders) -> Vec<[u64; 2]> {
        let mut spans = vec![[u64::MAX, 0]; instance.shape.stages()];
        for (worker, order) in (0u32..).zip(orders) {
            let span = &mut spans[instance.stage(worker)];
            if let (Some(&first), Some(&last)) = (order.first(), order.last()) {
                span[0] = span[0].min(self.starts[first as usize]);
                span[1] = span[1].max(self.end(instance, last));
            }
        }
        spans
    }
}

fn start(instance: &Instance, node: u32, before: u32, starts: &[u64]) -> u64 {
    let end = |node: u32| starts[node as usize] + instance.nodes[node as usize].time;
    let of = |(from, delay): (u32, u64)| if from == NONE { 0 } else { end(from) + delay };
    let [one, other] = instance.nodes[node as usize].inputs.map(of);
    let free = if before == NONE { 0 } else { end(before) };
    one.max(other).max(free)
}

/// The most bytes that a worker holds along `order`.
pub(crate) fn peak(instance: &Instance, order: &[u32]) -> u64 {
    let (mut held, mut peak) = (0u64, 0u64);
    for &node in order {
        let node = &instance.nodes[node as usize];
        held += node.taken;
        peak = peak.max(held);
        held = (held + node.left[0]).saturating_sub(node.left[1]);
        peak = peak.max(held);
    }
    peak
}

/// A time to be made small: the time of a step in which all stages wait for each other, or of one in which each
/// stage goes on when its own optimizer is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// The end of the last stage, optimizer included.
    Step,
    /// The longest time from the first to the last pass of a stage, optimizer included.
    Span,
}

impl Aim {
    /// The time that a step takes so.
    pub(crate) fn cost(self, instance: &Instance, timing: &Timing, orders: &Orders) -> u64 {
        let spans = timing.stages(instance, orders);
        let each = spans.iter().map(|&[first, last]| match self {
            Self::Step => last,
            Self::Span => last.saturating_sub(first),
        });
        each.max().unwrap_or(0) + instance.optimizer
    }
}
