//! Validation of orders in held-out replicas, paired replica by replica.
// Times as floats lose nothing that matters to a comparison.
#![allow(clippy::cast_precision_loss)]

use std::ops::Range;

use pipeline::{Costs, Family, Fault, Nanos, Schedule};
use rayon::prelude::*;
use sim::Replay;
use sim::lanes::{NoisyOrder, REPLICAS, StepTimes};
use sim::monte_carlo::Summary;
use sim::straggler::Stragglers;
use sim::timed;

use super::{
    BoundUnderNoise, FoundUnderNoise, Statistic, UnderNoise, ValidatedOrder, bound, propose,
};
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::Found;
use crate::instance::{Instance, Objective};
use crate::side_by_side::Stop;

/// Fewer groups of replicas give no interval of the difference of percentiles.
const FEWEST_GROUPS: usize = 5;
/// The most groups that replicas are cut into for it.
const MOST_GROUPS: usize = 20;

/// How much more one order costs than another in the same replicas.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The difference of the statistic, in nanoseconds.
    pub by: f64,
    /// Confidence interval at 95 %. Of the mean, from the differences replica by replica, by Student's
    /// distribution. Of a percentile, from those of groups of replicas, by sectioning (Asmussen and Glynn,
    /// *Stochastic Simulation*, 2007, section III.5; Nakayama 2014). Nothing where there are too few replicas.
    pub ci95: Option<[f64; 2]>,
}

impl Difference {
    /// Whether the interval lies above zero.
    #[must_use]
    pub fn is_beyond_chance(&self) -> bool {
        self.ci95.is_some_and(|[low, _]| low > 0.0)
    }
}

/// An order with its times in held-out replicas.
pub struct HeldOut {
    /// The order.
    pub schedule: Schedule,
    /// Its cost without noise.
    pub nominal: Nanos,
    /// How long its step takes in each replica, from replica 0 on, in nanoseconds.
    pub times: Vec<u64>,
}

/// Orders that are validated side by side, in the same replicas.
pub struct HeldOutOrders {
    /// The order that was found without noise.
    pub nominal: HeldOut,
    /// The one chosen under noise, if it is another.
    pub chosen: Option<HeldOut>,
    /// The one that was found for the mean times.
    pub expected: Option<HeldOut>,
    /// The best published one.
    pub published: Option<(Family, HeldOut)>,
}

impl HeldOutOrders {
    /// The result of a search that found the nominal order by `search`: the order chosen is the answer if it is
    /// significantly better than the nominal one. `replicas` were asked for; if orders were timed in fewer, or if it was
    /// `interrupted` before, it was stopped.
    #[must_use]
    pub fn judged(
        self,
        search: Found,
        statistic: Statistic,
        bound: Option<BoundUnderNoise>,
        (asked, interrupted): (u64, bool),
    ) -> FoundUnderNoise {
        let Self { nominal, chosen, expected, published } = &self;
        let others =
            [chosen, expected].into_iter().flatten().chain(published.iter().map(|one| &one.1));
        let replicas = others.map(|one| one.times.len()).fold(nominal.times.len(), usize::min);
        let order = |one: &HeldOut| ValidatedOrder::of(one, statistic, replicas);
        let between = |one: &HeldOut, other: &HeldOut| {
            Difference::between(statistic, &one.times[..replicas], &other.times[..replicas])
        };
        let answer = chosen.as_ref().unwrap_or(nominal);
        let robust_gain = between(answer, nominal);
        let is_nominal = !robust_gain.is_beyond_chance();
        let answer = if is_nominal { nominal } else { answer };
        FoundUnderNoise {
            nominal_search: search,
            answer: order(answer),
            nominal: order(nominal),
            expected: expected.as_ref().map(order),
            published_gain: published.as_ref().map(|(_, one)| between(answer, one)),
            published: published.as_ref().map(|(family, one)| (*family, order(one))),
            robust_gain,
            is_nominal,
            bound,
            replicas: replicas as u64,
            interrupted: interrupted || (replicas as u64) < asked,
        }
    }
}

/// Validates, in the held-out replicas of the noise, the order that was `found` without noise, the one for the
/// `expected` times, the one `chosen` and the best published one. Once `stop` returns true, it is done in the replicas
/// by then.
pub(super) fn orders(
    instance: &Instance,
    compiled: &CompiledInstance,
    under: &UnderNoise<'_>,
    (found, expected, chosen): (Found, Option<Vec<u16>>, Option<Vec<u16>>),
    (stop, interrupted): (Stop<'_>, bool),
) -> Result<FoundUnderNoise, SearchError> {
    let timed = |schedule: Schedule| HeldOut::of(instance, under, schedule, stop);
    let of = |sequence: &Vec<u16>| timed(compiled.schedule(instance, sequence)?);
    let orders = HeldOutOrders {
        nominal: timed(found.schedule.clone())?,
        chosen: chosen.as_ref().map(of).transpose()?,
        expected: expected.as_ref().map(of).transpose()?,
        published: match propose::best_published(instance, compiled, under) {
            Some((family, sequence)) => Some((family, of(&sequence)?)),
            None => None,
        },
    };
    let bound = bound::bound_under_noise(instance, under.noise, under.statistic);
    Ok(orders.judged(found, under.statistic, bound, (under.replicas, interrupted)))
}

impl HeldOut {
    pub(super) fn of(
        instance: &Instance,
        under: &UnderNoise<'_>,
        schedule: Schedule,
        stop: Stop<'_>,
    ) -> Result<Self, SearchError> {
        let Instance { costs, objective, .. } = instance;
        let times = times(&schedule, (costs, *objective), under.noise, under.replicas, stop)?;
        let nominal = objective.of(&Replay::new().metrics(&schedule, costs)?);
        Ok(Self { schedule, nominal, times })
    }
}

impl ValidatedOrder {
    /// `one`, validated in the first of its replicas.
    pub(super) fn of(one: &HeldOut, statistic: Statistic, replicas: usize) -> Self {
        let times = one.times.get(..replicas).unwrap_or(&one.times);
        let value = statistic.of(&sorted(times));
        let times = Summary::of(times.to_vec(), |time| time as f64);
        let ends = |ends: Option<[u64; 2]>| ends.map(|ends| ends.map(|end| end as f64));
        let ci95 = match statistic {
            Statistic::Mean => times.mean_ci95,
            Statistic::P95 => ends(times.p95.ci95),
            Statistic::P99 => ends(times.p99.ci95),
        };
        Self { schedule: one.schedule.clone(), nominal: one.nominal, times, value, ci95 }
    }
}

/// Duration of the step of `schedule` in each of `replicas` of `noise`, from replica 0 on; once `stop` returns true, in
/// as many as have been timed by then.
///
/// # Errors
/// If the clock overflows.
pub(super) fn times(
    schedule: &Schedule,
    (costs, objective): (&Costs, Objective),
    noise: &Stragglers,
    replicas: u64,
    stop: Stop<'_>,
) -> Result<Vec<u64>, Fault> {
    let one = |replica| {
        let metrics = timed::metrics(schedule, &noise.sample(replica, 0).timing(costs));
        match metrics.makespan().0 {
            u64::MAX => Err(Fault::Overflow { what: "the times" }),
            _ => Ok(objective.of(&metrics).0),
        }
    };
    let Some(order) = NoisyOrder::new(schedule, costs, noise) else {
        return replica_times(replicas, stop, one);
    };
    blocks(replicas, stop, |range| {
        let lanes = (0..range.clone().count().div_ceil(REPLICAS)).into_par_iter();
        let times = lanes.map_init(
            || order.tables(),
            |tables, lane| order.replay(tables, range.start + (lane * REPLICAS) as u64),
        );
        let times: Vec<[Option<StepTimes>; REPLICAS]> = times.collect();
        let all = range.zip(times.into_iter().flatten());
        all.map(|(replica, times)| {
            times.map_or_else(|| one(replica), |times| Ok(objective.of_step(&times).0))
        })
        .collect()
    })
}

/// Replicas that are timed between two questions whether to stop.
const BLOCK: u64 = 1000;

/// The times of `replicas` replicas, from replica 0 on, each by `time`, in parallel. Once `stop` returns true, those of
/// the blocks of replicas that have been timed by then, one at least.
///
/// # Errors
/// That of a replica that has no time.
pub fn replica_times<E: Send>(
    replicas: u64,
    stop: Stop<'_>,
    time: impl Fn(u64) -> Result<u64, E> + Sync,
) -> Result<Vec<u64>, E> {
    blocks(replicas, stop, |range| range.into_par_iter().map(&time).collect())
}

/// The times of replicas by block, each by `time`, as [`replica_times`] says.
fn blocks<E>(
    replicas: u64,
    stop: Stop<'_>,
    time: impl Fn(Range<u64>) -> Result<Vec<u64>, E>,
) -> Result<Vec<u64>, E> {
    let mut all = Vec::new();
    let mut from = 0;
    while from < replicas && (from == 0 || !stop()) {
        let to = replicas.min(from + BLOCK);
        all.extend(time(from..to)?);
        from = to;
    }
    Ok(all)
}

impl Difference {
    /// How much more an order costs whose step takes the times of `other` than one with those of `one`, in
    /// nanoseconds, both in the same replicas.
    pub(super) fn between(statistic: Statistic, one: &[u64], other: &[u64]) -> Self {
        let value = |times: &[u64]| statistic.of(&sorted(times));
        let by = value(other) - value(one);
        let pairs = one.iter().zip(other);
        let gaps: Vec<f64> = match statistic.share() {
            None => pairs.map(|(&one, &other)| other as f64 - one as f64).collect(),
            Some(_) => {
                let least = usize::try_from(statistic.fewest()).unwrap_or(usize::MAX);
                let groups = (one.len() / least).min(MOST_GROUPS);
                if groups < FEWEST_GROUPS {
                    return Self { by, ci95: None };
                }
                let each = one.len() / groups;
                let group = |at: usize| {
                    let of = |times: &[u64]| value(&times[at * each..(at + 1) * each]);
                    of(other) - of(one)
                };
                (0..groups).map(group).collect()
            }
        };
        let summary = Summary::of(gaps, |gap| gap);
        // The groups give the spread of the difference, all replicas together its location.
        let ci95 = summary.mean_ci95.map(|ends| ends.map(|end| end - summary.mean + by));
        Self { by, ci95 }
    }
}

fn sorted(times: &[u64]) -> Vec<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}
