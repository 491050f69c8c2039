//! Quantities of plans in words.

use measured::interval_in_words;
use question::format;

use super::priced::Plan;
use crate::solution::against_bound_in_time;

/// How far the order of `plan` may be from the best, in words, where a bound is known.
#[must_use]
pub fn least(plan: &Plan) -> Option<String> {
    let bound = against_bound_in_time(plan.step, Some(plan.least_step?));
    Some(format!("of all orders of passes in this memory: {bound}"))
}

/// How far the step of `plan` may be off, or that nothing of its kind was measured.
pub fn error(plan: &Plan) -> String {
    plan.error.map_or_else(|| "unknown".to_owned(), interval_in_words)
}

/// A number of days, with more digits where it is less than ten.
pub fn days(days: f64) -> String {
    match days {
        ..1.0 => format!("{days:.4}"),
        ..10.0 => format!("{days:.2}"),
        ..1e5 => format!("{days:.1}"),
        _ => amount(days),
    }
}

/// A number without decimals, as a power of ten where it is very large.
pub fn amount(value: f64) -> String {
    if value < 1e10 { format::grouped(value) } else { format!("{value:.2e}") }
}

/// Ascending numbers in words: `1, 4-6`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| *next == one + 1);
    let one = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    };
    runs.map(one).collect::<Vec<_>>().join(", ")
}
