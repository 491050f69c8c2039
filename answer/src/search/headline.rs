//! The answer of a search in a sentence for each row.

use pipeline::{Nanos, Placement};
use question::format;

use super::SearchRow;
use super::joint_choice::gain;
use crate::headline::MOST_SENTENCES;

/// The objective of a row: of the order found, of the schedule that it is compared with, and its lower bound.
struct Values {
    found: Nanos,
    /// The best published one, or the one that a recorded trainer runs.
    published: Option<(&'static str, Nanos)>,
    /// Whether a recorded trainer runs it.
    is_trainers: bool,
    bound: Option<Nanos>,
    /// Whether the recording or the replicas cannot tell the order from the published one.
    is_within_error: bool,
}

/// How much shorter than the best published schedule each order is, and how much shorter any order can be; of many rows,
/// in how many.
pub(super) fn headline(rows: &[SearchRow]) -> String {
    if rows.len() <= MOST_SENTENCES {
        return rows.iter().map(sentence).collect::<Vec<_>>().join("\n");
    }
    let all: Vec<Values> = rows.iter().map(Values::of).collect();
    let count = |is: fn(&Values) -> bool| all.iter().filter(|one| is(one)).count();
    format!(
        "The order found is shorter than every published one of its chunks that fits in {} of {} rows, and proved optimal in {}.",
        count(|one| one.published.is_none_or(|(_, time)| one.found < time) && !one.is_within_error),
        rows.len(),
        count(|one| one.bound == Some(one.found)),
    )
}

fn sentence(row: &SearchRow) -> String {
    let values = Values::of(row);
    let bubble = match row.is_simulated() {
        true => String::new(),
        false => format!("{} bubble, ", format::percent(row.bubble())),
    };
    let limit = row.limit.as_ref().map_or_else(String::new, |limit| format!(" under {limit}"));
    let setting = row.setting().map_or_else(String::new, |setting| format!("{setting}: "));
    format!(
        "{setting}Best order found of {}{limit}: {bubble}{} {}, {}; {}.",
        orders(row),
        row.objective.name(),
        format::time(values.found).trim(),
        values.against_published(),
        values.against_bound(row),
    )
}

impl Values {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // No time is below zero.
    fn of(row: &SearchRow) -> Self {
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

    fn against_published(&self) -> String {
        let why = match self.is_trainers {
            true => "which the trainer runs",
            false => "the best published one that fits",
        };
        match self.published {
            None => "where no published one fits".to_owned(),
            Some((name, time)) if time <= self.found => format!("not shorter than {name}, {why}"),
            Some((name, time)) => {
                let error = if self.is_within_error { ", which is within the error" } else { "" };
                let gain = format::percent(gain(self.found, time));
                format!("{gain} shorter than {name}, {why}{error}")
            }
        }
    }

    fn against_bound(&self, row: &SearchRow) -> String {
        let bound = |time: Nanos| match row.is_simulated() || row.chosen.is_some() {
            true => format::time(time).trim().to_owned(),
            false => format!("{} bubble", format::percent(row.rate(time))),
        };
        match self.bound {
            None => "no lower bound is proved for this objective".to_owned(),
            Some(time) if time >= self.found => "proved optimal".to_owned(),
            Some(time) => {
                let less = format::percent(gain(time, self.found));
                format!("lower bound {}, {less} shorter", bound(time))
            }
        }
    }
}

/// The orders that are searched, compared and bounded.
fn orders(row: &SearchRow) -> String {
    if row.chosen.is_some() {
        return "all choices".to_owned();
    }
    let instance = &row.searched.instance;
    match (instance.shape.chunks_per_stage(), instance.placement) {
        (1, _) => "1 chunk per stage".to_owned(),
        (chunks, Placement::Vee) => format!("{chunks} chunks per stage in a V"),
        (chunks, _) => format!("{chunks} looped chunks per stage"),
    }
}
