//! Policies in the long run.

use std::cmp::Ordering;

use failures::Goodput;
use question::Diagnostic;
use serde::Serialize;

use super::asked::Asked;
use super::borne::Sets;
use super::dropped::DroppedRow;
use super::{StepRow, float};

/// A policy in the long run.
#[derive(Serialize, Clone, Debug)]
pub struct PolicyRow {
    /// `reroute`, `drop-pipeline` or `wait-for-spare`.
    pub policy: &'static str,
    /// Useful steps per hour.
    pub steps_per_hour: f64,
    /// The same over what a training without failures would do.
    pub goodput: f64,
    /// Workers that are paid for, spares among them.
    pub workers: u64,
    /// Useful steps per hour of each.
    pub steps_per_worker_hour: f64,
    /// The share of the time that goes to restarts, new groups, checkpoints and work that is done again.
    pub overhead: f64,
    /// The share of the time in which nothing can be computed.
    pub stopped: f64,
    /// Whether all of its steps keep the memory limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
}

impl PolicyRow {
    fn new(policy: &'static str, goodput: &Goodput, healthy: f64, fits: Option<bool>) -> Self {
        let steps_per_hour = 3600.0 * goodput.steps_per_second;
        Self {
            policy,
            steps_per_hour,
            goodput: goodput.steps_per_second * healthy,
            workers: goodput.workers,
            steps_per_worker_hour: steps_per_hour / float(goodput.workers.max(1)),
            overhead: goodput.overhead,
            stopped: goodput.stopped,
            fits,
        }
    }
}

impl PolicyRow {
    /// The order of policies: those that fit first, then by steps per hour, the most first.
    pub(super) fn by_rate(&self, other: &Self) -> Ordering {
        let unfit = |row: &Self| row.fits == Some(false);
        let rates = other.steps_per_hour.total_cmp(&self.steps_per_hour);
        unfit(self).cmp(&unfit(other)).then(rates)
    }
}

/// The policies of `asked`, those that fit first, by steps per hour; none where it does not say how often workers fail.
pub(super) fn rows(
    asked: &Asked<'_>,
    (healthy, fits): (StepRow, Option<bool>),
    sets: &Sets,
    dropped: &[Option<DroppedRow>],
) -> Result<Vec<PolicyRow>, Diagnostic> {
    let Some(policy) = asked.policy() else { return Ok(Vec::new()) };
    let staggered = asked.keys.staggered;
    let seconds = |step: StepRow| float(step.taken(staggered).max(1)) / 1e9;
    let healthy = seconds(healthy);
    let steps: Vec<f64> = std::iter::once(healthy).chain(sets.seconds(staggered)).collect();
    let mut rows = vec![PolicyRow::new("reroute", &policy.rerouting(&steps), healthy, fits)];
    let left: Vec<&DroppedRow> = dropped.iter().map_while(Option::as_ref).collect();
    if left.len() > 1 {
        let fits = fits.map(|fits| fits && left.iter().all(|row| row.fits != Some(false)));
        let left: Vec<f64> = left.iter().map(|row| seconds(row.step)).collect();
        rows.push(PolicyRow::new("drop-pipeline", &policy.dropping(&left), healthy, fits));
    }
    rows.push(PolicyRow::new("wait-for-spare", &policy.waiting(healthy), healthy, fits));
    rows.sort_by(PolicyRow::by_rate);
    Ok(rows)
}
