//! Validation of orders in held-out replicas, paired replica by replica.
// Times as floats lose nothing that matters to a comparison.
#![allow(clippy::cast_precision_loss)]

use pipeline::{Costs, Fault, Schedule};
use rayon::prelude::*;
use sim::Replay;
use sim::monte_carlo::Summary;
use sim::straggler::Stragglers;
use sim::timed;

use super::{FoundUnderNoise, Statistic, UnderNoise, ValidatedOrder, bound, propose};
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::Found;
use crate::instance::{Instance, Objective};

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

/// Validates, in the held-out replicas of the noise, the order that was `found` without noise, the one for the
/// `expected` times and the one `chosen`, which is the answer if it is significantly better than the first.
pub(super) fn orders(
    instance: &Instance,
    compiled: &CompiledInstance,
    under: &UnderNoise<'_>,
    (found, expected, chosen): (Found, Option<Vec<u16>>, Option<Vec<u16>>),
    interrupted: bool,
) -> Result<FoundUnderNoise, SearchError> {
    let validated = |schedule: Schedule| validated(instance, under, schedule);
    let of = |sequence: &Vec<u16>| validated(schedule(instance, compiled, sequence)?);
    let (nominal, nominal_times) = validated(found.schedule.clone())?;
    let (answer, times) = match &chosen {
        Some(sequence) => of(sequence)?,
        None => (nominal.clone(), nominal_times.clone()),
    };
    let robust_gain = difference(under.statistic, &times, &nominal_times);
    let is_nominal = !robust_gain.is_beyond_chance();
    let (answer, times) =
        if is_nominal { (nominal.clone(), nominal_times) } else { (answer, times) };
    let published = propose::best_published(instance, compiled, under)?;
    let published = match published {
        Some((family, sequence)) => Some((family, of(&sequence)?)),
        None => None,
    };
    let published_gain =
        published.as_ref().map(|(_, (_, other))| difference(under.statistic, &times, other));
    Ok(FoundUnderNoise {
        nominal_search: found,
        answer,
        nominal,
        expected: expected.as_ref().map(of).transpose()?.map(|(one, _)| one),
        published: published.map(|(family, (one, _))| (family, one)),
        robust_gain,
        published_gain,
        is_nominal,
        bound: bound::proved(instance, under.noise, under.statistic),
        replicas: under.replicas,
        interrupted,
    })
}

/// The orders of all stages that `sequence` stands for.
pub(super) fn schedule(
    instance: &Instance,
    compiled: &CompiledInstance,
    sequence: &[u16],
) -> Result<Schedule, SearchError> {
    let at = (instance.shape, instance.placement);
    let orders = compiled.orders(sequence, at, |chunk| instance.costs.recompute(chunk).is_some());
    Ok(Schedule::new(at.0, at.1, orders)?)
}

/// `schedule` with the distribution of its times, and those times replica by replica.
pub(super) fn validated(
    instance: &Instance,
    under: &UnderNoise<'_>,
    schedule: Schedule,
) -> Result<(ValidatedOrder, Vec<u64>), SearchError> {
    let Instance { costs, objective, .. } = instance;
    let all = times(&schedule, costs, *objective, under.noise, under.replicas)?;
    let nominal = objective.of(&Replay::new().metrics(&schedule, costs)?);
    let times = Summary::of(all.clone(), |time| time as f64);
    let ends = |ends: Option<[u64; 2]>| ends.map(|ends| ends.map(|end| end as f64));
    let value = sorted(under.statistic, &all);
    let ci95 = match under.statistic {
        Statistic::Mean => times.mean_ci95,
        Statistic::P95 => ends(times.p95.ci95),
        Statistic::P99 => ends(times.p99.ci95),
    };
    Ok((ValidatedOrder { schedule, nominal, times, value, ci95 }, all))
}

/// Duration of the step of `schedule` in each of `replicas` of `noise`, from replica 0 on.
///
/// # Errors
/// If the clock overflows.
pub(super) fn times(
    schedule: &Schedule,
    costs: &Costs,
    objective: Objective,
    noise: &Stragglers,
    replicas: u64,
) -> Result<Vec<u64>, Fault> {
    let one = |replica: u64| {
        let metrics = timed::metrics(schedule, &noise.sample(replica, 0).timing(costs));
        match metrics.makespan().0 {
            u64::MAX => Err(Fault::Overflow { what: "the times" }),
            _ => Ok(objective.of(&metrics).0),
        }
    };
    (0..replicas).into_par_iter().map(one).collect()
}

/// How much more `other` costs than `one`, both in the same replicas.
pub(super) fn difference(statistic: Statistic, one: &[u64], other: &[u64]) -> Difference {
    let by = sorted(statistic, other) - sorted(statistic, one);
    let pairs = one.iter().zip(other);
    let gaps: Vec<f64> = match statistic.share() {
        None => pairs.map(|(&one, &other)| other as f64 - one as f64).collect(),
        Some(_) => {
            let least = usize::try_from(statistic.fewest()).unwrap_or(usize::MAX);
            let groups = (one.len() / least).min(MOST_GROUPS);
            if groups < FEWEST_GROUPS {
                return Difference { by, ci95: None };
            }
            let each = one.len() / groups;
            let group = |at: usize| {
                let of = |times: &[u64]| sorted(statistic, &times[at * each..(at + 1) * each]);
                of(other) - of(one)
            };
            (0..groups).map(group).collect()
        }
    };
    let summary = Summary::of(gaps, |gap| gap);
    // The groups give the spread of the difference, all replicas together its location.
    let ci95 = summary.mean_ci95.map(|ends| ends.map(|end| end - summary.mean + by));
    Difference { by, ci95 }
}

fn sorted(statistic: Statistic, times: &[u64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    statistic.of(&times)
}
