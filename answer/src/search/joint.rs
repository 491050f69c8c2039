//! One search of order, layers, chunks, recomputation, copies to the host and pairs together.

use cases::Joint;
use pipeline::Schedule;
use question::scenario::{Scenario, Setting};
use question::{Diagnostic, keywords};
use search::Choice;

use super::joint_choice::JointChoice;
use super::{Asked, SearchRow};

/// How many searches of an order a joint one takes about as long as.
pub(super) const SEARCHES: u128 = 10;

/// The question that a joint search has chosen for `row`, as a scenario file for `debubble simulate`:
/// with the order beside it, it has the cost of the row.
pub fn scenario(row: &SearchRow) -> Result<String, Diagnostic> {
    let Some(chosen) = &row.chosen else {
        let message = "a scenario is written of what --vary has chosen, and nothing was varied";
        return Err(Diagnostic::new(message).with_help("give --vary all, or leave it out"));
    };
    let setting = Setting::new(chosen.setting.name.clone(), chosen.setting.keys.clone());
    keywords::written(&Scenario::from(vec![setting]))
}

/// Searches order and choice of a question, from those of the earlier rows of smaller limits on, too.
pub(super) fn row(asked: &Asked<'_>) -> Result<SearchRow, Diagnostic> {
    let Asked { context, scenario, setting, keys, .. } = *asked;
    let stop = asked.stop();
    let joint = Joint::of(context, scenario, setting, keys)?;
    let known = asked.same().filter_map(|row| {
        let chosen = row.chosen.as_ref()?;
        Some((chosen.choice.clone(), row.searched.found.schedule.clone()))
    });
    let known: Vec<(Choice, Schedule)> = known.collect();
    // The clock may end it, but never is all that does.
    let times = Some(keys.effort.unwrap_or(1));
    let work = context.host().begin(1, "");
    let mut tell = |now| asked.tell(&*work, now);
    let done = joint.search(&known, asked.effort(times), &mut tell, &stop)?;
    asked.warn_of_clock(times, done.found.interrupted);
    let chosen = JointChoice::of(&joint, &done);
    let mut row = SearchRow::of(done.searched, None, keys.objective, setting)?;
    row.chosen = Some(chosen);
    Ok(row)
}
