//! Lower bounds on objectives under noise, where one is proved.
//!
//! *Mean.* Under a fixed order, the end of every pass is a maximum of sums of durations, so it is convex in
//! them. The first pass of a stage waits for a single chain of passes, so its start is a sum. Makespan and
//! span are therefore convex, and by Jensen's inequality their mean is at least what the order costs where
//! every pass takes its mean time; that is at least the bound of the instance with those times. Durations of
//! passes of a lane are alike in law and independent, so microbatches may be renamed as in
//! [`bounds`](crate::bounds), and the bound holds for all orders.
//!
//! *Percentiles.* A makespan grows with every duration. Where none falls below a least one, the bound of the
//! instance with those holds in every replica, and so for every percentile. A span need not grow: a first
//! pass that comes later shortens the span of its stage. There is no bound for its percentiles, nor for those
//! of a makespan under laws that come as close to zero as can be.
//!
//! Means are known within a millionth, and durations are rounded to nanoseconds. A makespan only gains where
//! times are taken too short; a span loses no more than the chains before first passes do.
// A bound is lowered by more than the rounding of floats.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use pipeline::{Kind, Nanos};
use sim::straggler::Stragglers;

use super::Statistic;
use crate::bounds::{self, Argument};
use crate::instance::{Instance, Objective};

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
pub(super) fn proved(
    instance: &Instance,
    noise: &Stragglers,
    statistic: Statistic,
) -> Option<BoundUnderNoise> {
    let is_mean = statistic == Statistic::Mean;
    if !is_mean && instance.objective == Objective::Span {
        return None;
    }
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
    let nominal = Some(costs.hop().0).filter(|&hop| hop < LONGEST)? as f64;
    let ends = (1..shape.chunks()).map(|chunk| (stage(chunk - 1), stage(chunk)));
    let hops = ends.filter(|(from, to)| from != to).map(|(from, to)| match is_mean {
        true => noise.mean_hop(from, to, nominal),
        false => noise.least_hop(from, to, nominal),
    });
    let hops: Vec<f64> = hops.collect::<Option<_>>()?;
    let hop = hops.iter().copied().fold(f64::INFINITY, f64::min);
    // Spans need not be shorter where hops are.
    let alike = hops.iter().all(|&one| one <= hop);
    if (instance.objective == Objective::Span && !alike) || hop >= LONGEST as f64 {
        return if hops.is_empty() { with(instance, chunks, again, Nanos(0)) } else { None };
    }
    with(instance, chunks, again, lowered(hop))
}

fn lowered(time: f64) -> Nanos {
    Nanos((time * (1.0 - RELATIVE) - ABSOLUTE).max(0.0) as u64)
}

/// The bound of `instance` with other times, less what spans may lose by their rounding.
fn with(
    instance: &Instance,
    chunks: Vec<pipeline::PassTimes>,
    again: Vec<Option<Nanos>>,
    hop: Nanos,
) -> Option<BoundUnderNoise> {
    let costs = instance.costs.clone().with_chunks(chunks).with_hop(hop);
    let costs = if instance.costs.has_recompute() { costs.with_recompute(again) } else { costs };
    costs.check(instance.shape).ok()?;
    let lost = |chunk| {
        let first = pipeline::Pass { kind: Kind::F, chunk, microbatch: 0 };
        let time = (costs.of(first).0 + hop.0) as f64;
        4.0 * (RELATIVE * time + ABSOLUTE)
    };
    let lost: f64 = match instance.objective {
        Objective::Span => (0..instance.shape.chunks()).map(lost).sum(),
        Objective::Makespan => 0.0,
    };
    let other = Instance { costs: costs.clone(), ..instance.clone() };
    let bound = bounds::best(&other);
    let cost = Nanos(bound.cost.0.saturating_sub(lost.ceil() as u64));
    Some(BoundUnderNoise { cost, argument: bound.argument })
}
