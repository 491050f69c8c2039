//! The answer of a search in a sentence for each row.

use pipeline::{Nanos, Placement};
use question::format;

use super::SearchRow;
use super::joint_choice::gain;
use super::solution::Values;
use crate::headline::MOST_SENTENCES;
use crate::solution::against_bound;

/// How much shorter than the best published schedule each order is, and how much shorter any order can be; of many rows,
/// in how many.
pub(super) fn headline(rows: &[SearchRow]) -> String {
    if rows.len() <= MOST_SENTENCES {
        return rows.iter().map(sentence).collect::<Vec<_>>().join("\n");
    }
    let all: Vec<Values> = rows.iter().map(Values::of).collect();
    let count = |is: fn(&Values) -> bool| all.iter().filter(|one| is(one)).count();
    let elsewhere = match rows.iter().filter(|row| row.elsewhere.is_some()).count() {
        0 => String::new(),
        count => {
            format!(
                " A published schedule of other chunks or placement that fits is shorter in {count}."
            )
        }
    };
    format!(
        "The order found is shorter than every published one of its chunks that fits in {} of {} rows, and proved optimal \
         among those of its chunks in {}.{elsewhere}",
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
    let elsewhere = row.elsewhere.map(|one| format!(". But {}", one.in_words(values.found)));
    format!(
        "{setting}Best order found of {}{limit}: {bubble}{} {}, {}; {}{}.",
        row.orders(),
        row.objective.name(),
        format::time(values.found).trim(),
        values.against_published(),
        values.against_bound(row),
        elsewhere.unwrap_or_default(),
    )
}

impl Values {
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
        against_bound(self.found, self.bound, Some(&row.orders()), bound)
    }
}

impl SearchRow {
    /// The orders that are searched, compared and bounded.
    pub(super) fn orders(&self) -> String {
        if self.chosen.is_some() {
            return "all choices".to_owned();
        }
        let instance = &self.searched.instance;
        match (instance.shape.chunks_per_stage(), instance.placement) {
            (1, _) => "1 chunk per stage".to_owned(),
            (chunks, Placement::Vee) => format!("{chunks} chunks per stage in a V"),
            (chunks, _) => format!("{chunks} looped chunks per stage"),
        }
    }
}
