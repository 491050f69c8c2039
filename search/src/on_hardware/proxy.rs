//! The proxy: a pipeline with unshared links, which stands for the hardware in a search.

use pipeline::{Costs, Fault, Hops, Nanos, PassTimes, Schedule};
use sim::engine::Run;
use sim::{Hardware, Replay};

use super::between::between;
use super::{Figure, OnHardware};
use crate::instance::Instance;

/// The two stages that each link joins which values cross, in the order of links.
fn ends(instance: &Instance) -> Vec<(usize, usize)> {
    let Instance { shape, placement, .. } = instance;
    let stages = shape.stages();
    let neighbours = (1..stages).map(|to| (to - 1, to));
    let stage = |chunk| placement.stage(*shape, chunk, 0);
    let wraps = (1..shape.chunks()).any(|chunk| stage(chunk - 1).abs_diff(stage(chunk)) > 1);
    neighbours.chain(wraps.then_some((stages - 1, 0))).collect()
}

/// By link, the time of a transfer on an idle network: until the slowest wire on its route has carried
/// the last byte, in whole nanoseconds as the engine counts them, and the latency. Where a gradient that crosses the
/// link has no bytes, the latency alone: bounds hold for both directions.
#[must_use]
pub fn idle_link_times(instance: &Instance, hardware: &Hardware) -> Vec<Nanos> {
    let Hardware { cluster, seats, messages, .. } = hardware;
    let bytes = u128::from(messages.bytes.0) * 1_000_000_000;
    let empty = empty_links(instance);
    let time = |from: usize, to: usize| {
        let bytes = if empty.contains(&[from.min(to), from.max(to)]) { 0 } else { bytes };
        let route = cluster.route(seats.device(from), seats.device(to));
        let rates =
            route.wires.iter().map(|&wire| cluster.wires()[wire].bandwidth.bytes_per_second());
        let carried = rates.min().map_or(0, |rate| bytes.div_ceil(u128::from(rate.max(1))));
        Nanos(route.latency.0.saturating_add(u64::try_from(carried).unwrap_or(u64::MAX)))
    };
    let ends = ends(instance).into_iter();
    ends.map(|(from, to)| time(from, to).min(time(to, from))).collect()
}

/// The stages of links over which a gradient without bytes goes, the lower first.
fn empty_links(instance: &Instance) -> Vec<[usize; 2]> {
    let Instance { shape, placement, costs, .. } = instance;
    let stage = |chunk| placement.stage(*shape, chunk, 0);
    let chunks = 0..costs.forward_only_chunks().min(shape.chunks() - 1);
    let ends = |chunk: u16| [stage(chunk), stage(chunk + 1)];
    chunks.map(ends).map(|[one, other]| [one.min(other), one.max(other)]).collect()
}

/// `links`, as many as [`idle_link_times`] gives, as hops of `instance`.
fn hops(instance: &Instance, links: &[Nanos]) -> Hops {
    let Instance { shape, placement, .. } = instance;
    // A single stage has no link, and links that are known fit.
    Hops::placed(*shape, *placement, links).unwrap_or_else(|_| Hops::alike(Nanos(0)))
}

/// The hops of `instance` on an idle network.
pub(super) fn alone_hops(instance: &Instance, hardware: &Hardware) -> Hops {
    hops(instance, &idle_link_times(instance, hardware))
}

/// Duration of the transfers of `run` over each link in the mean, from when a value was sent on its way; none
/// where nothing crossed it.
pub(super) fn measured(instance: &Instance, run: &Run) -> Vec<Option<Nanos>> {
    let ends = ends(instance);
    let mut sums = vec![(0u128, 0u128); ends.len()];
    for one in &run.transfers {
        let link = Hops::link(one.from, one.to);
        if let Some((time, count)) = sums.get_mut(link) {
            *time += u128::from((one.end - one.begin).0);
            *count += 1;
        }
    }
    let mean = |(time, count): (u128, u128)| {
        Some(Nanos(u64::try_from(time.checked_div(count)?).unwrap_or(u64::MAX)))
    };
    sums.into_iter().map(mean).collect()
}

/// `instance` with the costs asked for, on an idle network where no transfer blocks its sender.
pub(super) fn unblocked(instance: &Instance, on: &OnHardware<'_>) -> Instance {
    let costs = on.asked.costs().clone().with_hops(alone_hops(instance, on.hardware));
    Instance { costs, ..instance.clone() }
}

/// A pipeline with a hop for each link.
pub(super) struct Proxy<'a> {
    base: &'a Instance,
    hardware: &'a Hardware,
    /// Duration of a transfer over each link.
    pub(super) links: Vec<Nanos>,
    /// The instance that is searched.
    pub(super) instance: Instance,
}

impl<'a> Proxy<'a> {
    /// `base` with these `links`. Where a transfer holds up its sender, the pass that makes the value takes longer by
    /// it.
    pub(super) fn new(base: &'a Instance, hardware: &'a Hardware, links: Vec<Nanos>) -> Self {
        let costs = base.costs.clone().with_hops(hops(base, &links));
        let costs = if hardware.communication.blocking { blocking(base, costs) } else { costs };
        Self { base, hardware, links, instance: Instance { costs, ..base.clone() } }
    }

    /// The same with the times `measured` over its links.
    pub(super) fn fitted(&self, measured: &[Option<Nanos>]) -> Self {
        let links = self.links.iter().zip(measured).map(|(old, new)| new.unwrap_or(*old));
        Self::new(self.base, self.hardware, links.collect())
    }

    /// The figure asked for of `schedule`, as the proxy predicts it.
    pub(super) fn figure(&self, schedule: &Schedule, on: &OnHardware<'_>) -> Result<Nanos, Fault> {
        let metrics = Replay::new().metrics(schedule, &self.instance.costs)?;
        let cost = self.instance.objective.of(&metrics);
        let between = match on.figure {
            Figure::Step => between(self.hardware, self.base),
            Figure::Span | Figure::Makespan => Nanos(0),
        };
        Ok(Nanos(cost.0.saturating_add(between.0)))
    }
}

/// `costs` where each transfer is a part of the pass that makes the value.
fn blocking(base: &Instance, costs: Costs) -> Costs {
    let at = (base.shape, base.placement);
    let last = base.shape.chunks() - 1;
    let after = |chunk: u16| costs.hop_after(at, chunk).0;
    let longer = |(chunk, times): (u16, &PassTimes)| {
        let down = if chunk < last { after(chunk) } else { 0 };
        let up = chunk.checked_sub(1).map_or(0, after);
        PassTimes {
            forward: Nanos(times.forward.0.saturating_add(down)),
            backward_input: Nanos(times.backward_input.0.saturating_add(up)),
            backward: times.backward.map(|whole| Nanos(whole.0.saturating_add(up))),
            ..*times
        }
    };
    let chunks = (0..).zip(costs.chunks()).map(longer).collect();
    costs.with_chunks(chunks).with_hops(Hops::alike(Nanos(0)))
}
