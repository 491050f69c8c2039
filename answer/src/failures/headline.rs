//! The answer about dead workers in sentences.

use question::failures::FailureKeys;
use question::format;

use super::report::{name, time};
use super::{FailureRow, PolicyRow, StepRow};
use crate::headline::{MOST_SENTENCES, counted};

/// A way to go on with dead workers.
struct Way<'a> {
    row: &'a FailureRow,
    /// The step in nanoseconds.
    step: u64,
    is_dropped: bool,
}

/// For each setting the shortest step that fits, and the policy with the most steps in the long run; of many settings,
/// how often each is the best.
pub(super) fn headline(rows: &[FailureRow], keys: &FailureKeys) -> String {
    let settings: Vec<&[FailureRow]> =
        rows.chunk_by(|one, other| one.setting == other.setting).collect();
    if settings.len() > MOST_SENTENCES {
        let names = settings.iter().map(|rows| {
            let best = best(rows, keys.staggered)?;
            Some(format!("{} {}", best.row.schedule, best.in_words()))
        });
        return counted("Shortest step that fits,", &names.collect::<Vec<_>>());
    }
    let lines = settings.iter().flat_map(|rows| [step(rows, keys), policy(rows)]);
    lines.flatten().collect::<Vec<_>>().join("\n")
}

/// The ways of `rows` that fit: rerouted, which always does, and with pipelines dropped.
fn ways(rows: &[FailureRow], staggered: bool) -> impl Iterator<Item = Way<'_>> {
    rows.iter().filter(|row| row.healthy_fits != Some(false)).flat_map(move |row| {
        let way = |step: StepRow, is_dropped| Way { row, step: step.taken(staggered), is_dropped };
        let dropped = row.dropped_that_fits().map(|one| way(one.step, true));
        [Some(way(row.rerouted.step, false)), dropped].into_iter().flatten()
    })
}

fn best(rows: &[FailureRow], staggered: bool) -> Option<Way<'_>> {
    ways(rows, staggered).min_by_key(|way| way.step)
}

impl Way<'_> {
    const fn in_words(&self) -> &'static str {
        if self.is_dropped { "with the pipeline dropped" } else { "with passes rerouted to peers" }
    }
}

/// The sentence about the shortest step.
fn step(rows: &[FailureRow], keys: &FailureKeys) -> Option<String> {
    let dead = match (keys.dead.len(), rows.first()?.dead.as_slice()) {
        (0, _) => "With one worker dead where it costs most".to_owned(),
        (_, [one]) => format!("With worker {one} dead"),
        (_, many) => format!("With workers {} dead", many.join(", ")),
    };
    let Some(best) = best(rows, keys.staggered) else {
        return Some("No healthy step of these schedules fits the memory limit.".to_owned());
    };
    let fits = if rows.iter().any(|row| row.healthy_fits.is_some()) { " that fits" } else { "" };
    let healthy = best.row.healthy.taken(keys.staggered);
    let mut others = ways(rows, keys.staggered);
    let other = others
        .find(|way| std::ptr::eq(way.row, best.row) && way.is_dropped != best.is_dropped)
        .map_or_else(String::new, |way| format!(" ({} {})", spoken(way.step), way.in_words()));
    let bound = match best.is_dropped {
        true => String::new(),
        false => format!("; {}", best.row.rerouted.taken(keys.staggered).against_bound()),
    };
    Some(format!(
        "{dead}, {} with {} backwards has the shortest step{fits}: {} {}{other}, {} than the {} of all workers{bound}.",
        name(best.row),
        best.row.backward,
        spoken(best.step),
        best.in_words(),
        longer_in_words(best.step, healthy),
        spoken(healthy),
    ))
}

/// `time` without the spaces that line it up.
fn spoken(nanos: u64) -> String {
    time(nanos).trim().to_owned()
}

fn longer_in_words(time: u64, than: u64) -> String {
    let share = super::float(time) / super::float(than.max(1)) - 1.0;
    let word = if share < 0.0 { "shorter" } else { "longer" };
    format!("{} {word}", format::percent(share.abs()))
}

/// The sentence about the policy with the most steps per hour of those that fit.
fn policy(rows: &[FailureRow]) -> Option<String> {
    let all = rows.iter().flat_map(|row| row.policies.iter().map(move |policy| (row, policy)));
    let fit = all.filter(|(_, policy)| policy.fits != Some(false));
    let most =
        fit.min_by(|(_, one), (_, other)| other.steps_per_hour.total_cmp(&one.steps_per_hour));
    let (row, PolicyRow { policy, steps_per_hour, goodput, .. }) = most?;
    Some(format!(
        "In the long run {} with {} backwards and the policy {policy} does the most steps: {} per hour, {} of a training \
         without failures.",
        name(row),
        row.backward,
        format::grouped(steps_per_hour.round()),
        format::percent(*goodput),
    ))
}
