//! What orders take in replicas that no search has seen, side by side.
// Times lose nothing that a judgement minds.
#![allow(clippy::cast_precision_loss)]

use pipeline::{Costs, Fault, Schedule};
use rayon::prelude::*;
use sim::monte_carlo::Summary;
use sim::straggler::Stragglers;
use sim::timed;

use super::Statistic;
use crate::instance::Objective;

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

/// How long the step of `schedule` takes in each of `replicas` of `noise`, from replica 0 on.
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
    // Groups say how far the difference scatters; all replicas together, where it lies.
    let ci95 = summary.mean_ci95.map(|ends| ends.map(|end| end - summary.mean + by));
    Difference { by, ci95 }
}

fn sorted(statistic: Statistic, times: &[u64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    statistic.of(&times)
}
