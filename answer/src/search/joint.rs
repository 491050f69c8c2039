//! One search of order, layers, chunks, recomputation, copies to the host and pairs together.

use pipeline::Schedule;
use question::case::Joint;
use question::scenario::{Scenario, Setting};
use question::search::SearchKeys;
use question::{Context, Diagnostic, format, keywords};
use search::{Choice, Effort};

use super::joint_choice::JointChoice;
use super::{Improvements, SearchRow, late, warn_of_clock};

/// How many searches of an order a joint one takes about as long as.
pub(super) const SEARCHES: u128 = 10;

/// The question that a joint search has chosen for `row`, as a scenario file for `debubble simulate`:
/// with the order beside it, it has the cost of the row.
///
/// # Errors
/// If the row is not of a joint search.
pub fn scenario(row: &SearchRow) -> Result<String, Diagnostic> {
    let Some(chosen) = &row.chosen else {
        let message = "a scenario is written of what --vary has chosen, and nothing was varied";
        return Err(Diagnostic::new(message).with_help("give --vary all, or leave it out"));
    };
    let setting = Setting::new(chosen.setting.name.clone(), chosen.setting.keys.clone());
    keywords::written(&Scenario::from(vec![setting]))
}

/// Searches order and choice for `setting`, from those of the `earlier` rows of smaller limits on, too.
///
/// # Errors
/// The errors of [`Joint::of`] and [`Joint::search`].
pub(super) fn row(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    keys: &SearchKeys,
    (earlier, seen): (&[SearchRow], &Improvements<'_>),
) -> Result<SearchRow, Diagnostic> {
    let late = late(context, keys);
    let stop = || context.stopped() || late();
    let joint = Joint::of(context, scenario, setting, keys)?;
    let same = earlier.iter().filter(|row| row.setting() == setting.name.as_deref());
    let known: Vec<(Choice, Schedule)> = same
        .filter_map(|row| {
            let chosen = row.chosen.as_ref()?;
            Some((chosen.choice.clone(), row.searched.found.schedule.clone()))
        })
        .collect();
    let times = Some(keys.effort.unwrap_or(1));
    let effort = Effort { times, seed: setting.keys.seed.unwrap_or(0) };
    let work = context.host().begin(1, "");
    let mut progress = |now: search::ProgressJointly| {
        work.set_length(now.of);
        work.set_position(now.tried);
        if let Some(best) = now.best {
            seen.see(best, None, now.tried);
        }
        let best = now.best.map_or_else(|| "none fits yet".to_owned(), format::time);
        work.set_message(format!("choices, best {best}"));
    };
    let done = joint.search(&known, effort, &mut progress, &stop)?;
    // The clock may end it, but never is all that does.
    let limited = SearchKeys { effort: times, ..keys.clone() };
    warn_of_clock(context, &limited, done.found.interrupted);
    let chosen = JointChoice::of(&joint, &done);
    let mut row = SearchRow::of(done.searched, None, keys.objective, setting)?;
    row.chosen = Some(chosen);
    Ok(row)
}
