//! Lower bounds on objectives under noise, where one is proved.
//!
//! The bounds of an instance hold for every timing of an order in which no pass begins before its stage is free
//! and its input is there, however late it begins: their proofs use nothing else.
//!
//! *Mean.* Begin every pass of a fixed order at the mean of the times at which it begins under the noise. That
//! is a timing of the instance in which passes and hops take their mean times: each begins no sooner than
//! another and what is between them take, in every replica, and so in the mean. By Jensen's inequality the mean
//! of the longest span, or of the last end, is at least that of this timing, and so at least the bound of the
//! instance with mean times. It does not matter whether durations are independent.
//!
//! *Percentiles.* Where no duration falls below a least one, the beginnings of a replica are a timing of the
//! instance with those: its bound holds in every replica, and so for every percentile. It exists only where there
//! are such least times, not under distributions with support down to zero.
//!
//! Times taken too short only let more timings pass, and all are: means are known within a millionth, and durations are
//! rounded to nanoseconds. Begin at the nanosecond below a mean, and all passes still come behind what they
//! need, for times are whole; a span gets longer by less than one.
// A bound is lowered by more than the rounding of floats.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use pipeline::{Hops, Nanos};
use sim::straggler::Stragglers;

use super::Statistic;
use crate::bounds::{self, Argument};
use crate::instance::Instance;

/// A lower bound on the objective of any order, and why it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundUnderNoise {
    /// The bound.
    pub cost: Nanos,
    /// The argument for it where every pass takes its mean time, or for percentiles its least.
    pub argument: Argument,
}

/// Times beyond this many nanoseconds, 13 days, have no exact floats to spare for bounds.
const LONGEST: u64 = 1 << 50;
/// How much shorter than its mean a time is taken: more than means may be off,
const RELATIVE: f64 = 2e-6;
/// and more than rounding to nanoseconds may be.
const ABSOLUTE: f64 = 3.0;

/// The bound on `statistic` of the objective of `instance` under `noise`, if one is proved.
#[must_use]
pub fn bound_under_noise(
    instance: &Instance,
    noise: &Stragglers,
    statistic: Statistic,
) -> Option<BoundUnderNoise> {
    let is_mean = statistic == Statistic::Mean;
    let Instance { shape, placement, costs, .. } = instance;
    let pass = |stage, nominal: f64| match is_mean {
        true => noise.mean_pass(stage, nominal),
        false => noise.least_pass(stage, nominal).filter(|&least| nominal <= 0.0 || least > 0.0),
    };
    let shortened = |nominal: Nanos, stage| {
        let time = pass(stage, Some(nominal.0).filter(|&time| time < LONGEST)? as f64)?;
        (time < LONGEST as f64).then(|| lowered(time))
    };
    let stage = |chunk| placement.stage(*shape, chunk, 0);
    let mut chunks = costs.chunks().to_vec();
    for (times, chunk) in chunks.iter_mut().zip(0..) {
        for time in [&mut times.forward, &mut times.backward_input, &mut times.backward_weight] {
            *time = shortened(*time, stage(chunk))?;
        }
    }
    let again = (0..shape.chunks()).map(|chunk| match costs.recompute(chunk) {
        Some(time) => shortened(time, stage(chunk)).map(Some),
        None => Some(None),
    });
    let again: Vec<Option<Nanos>> = again.collect::<Option<_>>()?;
    let link = |from: usize, to: usize| {
        let nominal = Some(costs.hops().between(from, to).0).filter(|&hop| hop < LONGEST)? as f64;
        let hop = match is_mean {
            true => noise.mean_hop(from, to, nominal)?,
            false => noise.least_hop(from, to, nominal)?,
        };
        Some(lowered(hop.min(LONGEST as f64)))
    };
    // One for each link; two stages share one.
    let mut links = vec![None; if shape.stages() == 2 { 1 } else { shape.stages() }];
    let ends = (1..shape.chunks()).map(|chunk| (stage(chunk - 1), stage(chunk)));
    for (from, to) in ends.filter(|(from, to)| from != to) {
        let (known, hop) = (&mut links[Hops::link(from, to)], link(from, to)?);
        *known = Some(known.map_or(hop, |known: Nanos| known.min(hop)));
    }
    // Where no value crosses a link, any hop will do.
    let idle = links.iter().flatten().copied().min().unwrap_or_default();
    let links: Vec<Nanos> = links.into_iter().map(|hop| hop.unwrap_or(idle)).collect();
    with(instance, chunks, again, Hops::new(*shape, &links).ok()?)
}

fn lowered(time: f64) -> Nanos {
    Nanos((time * (1.0 - RELATIVE) - ABSOLUTE).max(0.0) as u64)
}

/// The bound of `instance` with other times.
fn with(
    instance: &Instance,
    chunks: Vec<pipeline::PassTimes>,
    again: Vec<Option<Nanos>>,
    hops: Hops,
) -> Option<BoundUnderNoise> {
    let costs = instance.costs.clone().with_chunks(chunks).with_hops(hops);
    let costs = if instance.costs.has_recompute() { costs.with_recompute(again) } else { costs };
    costs.check(instance.shape).ok()?;
    let bound = bounds::best(&Instance { costs, ..instance.clone() });
    // A span begins at the nanosecond below its mean.
    let cost = Nanos(bound.cost.0.saturating_sub(1));
    Some(BoundUnderNoise { cost, argument: bound.argument })
}
