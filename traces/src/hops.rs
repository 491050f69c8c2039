//! Estimates how long values take to another rank where the trace has no transfers.
//!
//! The gap of a crossing is an upper bound on its time: from the moment at which both ends were ready to the moment at
//! which an operation that waited for it continued. On each link the median gap, of the crossings that were the only
//! wait of an operation, is the typical hop. A crossing takes the typical hop of its link, or the median gap at the same
//! place of the steps, if that is less: it was hidden behind other work, or met less traffic.

use std::collections::BTreeMap;

use pipeline::Nanos;

use crate::operation::Direction;

/// Between which stages, and which way.
pub(crate) type Link = (u16, u16, Direction);

/// A value that crosses to another rank without a transfer in the trace.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) link: Link,
    /// The pipeline that it is in, the chunk that made it, and the microbatch.
    pub(crate) place: (u32, u16, u32),
    /// The longest that it can have taken, in nanoseconds.
    pub(crate) gap: u64,
    /// Whether an operation waited for it alone.
    pub(crate) awaited: bool,
    /// Whether its sender continued before the other end was ready.
    pub(crate) went_on: bool,
}

/// The hops over one link, as they are estimated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkHops {
    /// The stage that sends.
    pub from: u16,
    /// The stage that receives.
    pub to: u16,
    /// The way.
    pub direction: Direction,
    /// Values that crossed it, over all steps.
    pub crossings: usize,
    /// Those that were the only wait of an operation.
    pub samples: usize,
    /// The 10th percentile of the samples; like the other statistics, 0 if there are none.
    pub low: Nanos,
    /// The median of the samples.
    pub median: Nanos,
    /// The time that nine tenths of the samples are below.
    pub high: Nanos,
}

/// The hops over each link in `steps`.
pub(crate) fn links<'a>(steps: impl Iterator<Item = &'a [Edge]>) -> Vec<LinkHops> {
    let mut links: BTreeMap<Link, (usize, Vec<u64>)> = BTreeMap::new();
    for edge in steps.flatten() {
        let (crossings, samples) = links.entry(edge.link).or_default();
        *crossings += 1;
        samples.extend(edge.awaited.then_some(edge.gap));
    }
    let hops = links.into_iter().map(|((from, to, direction), (crossings, mut samples))| {
        samples.sort_unstable();
        let quantile = |tenths: usize| {
            let at = samples.len().saturating_sub(1) * tenths / 10;
            Nanos(samples.get(at).copied().unwrap_or(0))
        };
        let [low, median, high] = [1, 5, 9].map(quantile);
        let samples = samples.len();
        LinkHops { from, to, direction, crossings, samples, low, median, high }
    });
    hops.collect()
}

/// The hop of every edge of `steps`, estimated from those of `learned`.
pub(crate) fn estimate(steps: &[&[Edge]], learned: &[&[Edge]]) -> Vec<Vec<u64>> {
    let mut awaited: BTreeMap<Link, Vec<u64>> = BTreeMap::new();
    let mut least: BTreeMap<Link, u64> = BTreeMap::new();
    let mut places: Vec<(Key, u64)> = Vec::new();
    for edge in learned.iter().copied().flatten() {
        if edge.awaited {
            awaited.entry(edge.link).or_default().push(edge.gap);
        }
        least.entry(edge.link).and_modify(|hop| *hop = edge.gap.min(*hop)).or_insert(edge.gap);
        places.push((edge.key(), edge.gap));
    }
    let typical: BTreeMap<Link, u64> =
        awaited.into_iter().map(|(link, mut gaps)| (link, median(&mut gaps))).collect();
    places.sort_unstable();
    let medians: Vec<(Key, u64)> = places
        .chunk_by(|one, other| one.0 == other.0)
        .map(|gaps| (gaps[0].0, gaps[(gaps.len() - 1) / 2].1))
        .collect();
    let hop = |edge: &Edge| {
        let typical = typical.get(&edge.link).or_else(|| least.get(&edge.link));
        let here = medians.binary_search_by_key(&edge.key(), |(key, _)| *key).ok();
        let here = here.map_or(u64::MAX, |at| medians[at].1);
        typical.map_or(0, |typical| here.min(*typical))
    };
    steps.iter().map(|edges| edges.iter().map(hop).collect()).collect()
}

/// Tells the same crossing in different steps.
type Key = (Link, (u32, u16, u32));

impl Edge {
    const fn key(&self) -> Key {
        (self.link, self.place)
    }
}

/// The value in the middle, the lower of two; 0 of none.
pub(crate) fn median(values: &mut [u64]) -> u64 {
    match values.len() {
        0 => 0,
        count => *values.select_nth_unstable((count - 1) / 2).1,
    }
}
