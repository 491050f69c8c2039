//! The result of a search: the order by its objective, beside the schedule that it is compared with.

use pipeline::Nanos;

use super::SearchRow;
use super::report::on_hardware;
use crate::solution::Solution;

/// The objective of a row: of the order found, of the schedule that it is compared with, and its lower bound.
pub(super) struct Values {
    pub(super) found: Nanos,
    /// The best published one, or the one that a recorded trainer runs.
    pub(super) published: Option<(&'static str, Nanos)>,
    /// Whether a recorded trainer runs it.
    pub(super) is_trainers: bool,
    pub(super) bound: Option<Nanos>,
    /// Whether the recording or the replicas cannot tell the order from the published one.
    pub(super) is_within_error: bool,
}

impl Values {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // No time is below zero.
    pub(super) fn of(row: &SearchRow) -> Self {
        let searched = &row.searched;
        if let Some(found) = &searched.under_noise {
            let time = |value: f64| Nanos(value.round() as u64);
            let published =
                found.published.as_ref().map(|(family, one)| (family.name(), time(one.value)));
            let interval = found.published_gain.and_then(|gain| gain.ci95);
            return Self {
                found: time(found.answer.value),
                published,
                is_trainers: false,
                bound: found.bound.map(|bound| bound.cost),
                is_within_error: interval.is_none_or(|[low, _]| low <= 0.0),
            };
        }
        let sure = |found, published, bound| Self {
            found,
            published,
            is_trainers: false,
            bound,
            is_within_error: false,
        };
        if let Some(figures) = row.simulated.as_ref().and_then(|one| one.figures.as_ref()) {
            let published = figures.published.map(|(family, time)| (family.name(), time));
            return sure(figures.value, published, figures.bound);
        }
        if let Some(found) = &searched.on_hardware {
            let published = found.published.first().map(|(family, one)| (family.name(), one.value));
            return sure(found.answer.value, published, Some(found.bound.cost));
        }
        if let Some(choice) = &row.chosen {
            let published = choice.published.first().map(|one| (one.schedule, Nanos(one.cost_ns)));
            return sure(row.cost, published, choice.bound);
        }
        let trainers = row.trainer().map(|(runs, _)| runs);
        let published = trainers.or(row.published()).map(|one| (one.family.name(), one.cost));
        Self {
            is_trainers: trainers.is_some(),
            is_within_error: published.is_some_and(|(_, cost)| row.is_within_error(cost)),
            ..sure(row.cost, published, Some(row.bound()))
        }
    }
}

impl SearchRow {
    /// The order found, by the objective that was asked for.
    #[must_use]
    pub fn solution(&self) -> Solution {
        let Values { found, bound, .. } = Values::of(self);
        let searched = &self.searched;
        let argument = match (&searched.under_noise, &searched.on_hardware) {
            (Some(noisy), _) => noisy.bound.map(|bound| bound.argument.to_string()),
            (None, Some(found)) => Some(on_hardware::argument(self, found)),
            (None, None) if self.is_simulated() || self.chosen.is_some() => None,
            (None, None) => Some(self.argument()),
        };
        let out_of_memory = searched.on_hardware.as_ref().map(|one| one.answer.is_out_of_memory);
        Solution {
            argument,
            among: Some(self.orders()),
            fits: out_of_memory != Some(true),
            ..Solution::new((self.objective.name(), found), bound, &self.history)
        }
    }
}
