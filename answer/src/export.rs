//! A schedule for other tools: its order, or its timeline.

use question::case::{self, Case};
use question::scenario::Scenario;
use question::{Context, Diagnostic, Warnings};
use sim::{Details, Replay};

use crate::outcome::Outcome;

/// The one schedule that `scenario` asks for.
///
/// Where only the order is wanted (`needs_times` is false), a setting may do without times, unless the
/// order depends on them.
///
/// # Errors
/// If the scenario has several settings or schedules, or the schedule cannot do its question.
pub fn export(
    context: &Context<'_>,
    mut scenario: Scenario,
    needs_times: bool,
) -> Result<Case, Diagnostic> {
    if let (false, [setting]) = (needs_times, &mut scenario.settings[..]) {
        case::allow_without_times(setting);
    }
    let [setting] = &scenario.settings[..] else {
        let count = scenario.settings.len();
        let message = format!("export takes one setting, but the scenario has {count}");
        return Err(Diagnostic::new(message));
    };
    let rules = case::rules(context, &scenario, setting)?;
    let [rule] = &rules[..] else {
        let message = format!("export takes one schedule, not {}", rules.len());
        return Err(scenario.error(setting, Some("schedule"), message));
    };
    let case = case::case(context, &scenario, setting, rule)?;
    let mut warnings = Warnings::default();
    warnings.add_ignored(setting, rule);
    case.split.into_iter().for_each(|split| warnings.add_of_setting(split.note()));
    warnings.lines().into_iter().for_each(|line| context.warn(line));
    Ok(case)
}

/// Simulates `case` and keeps its run.
///
/// # Errors
/// If the clock overflows or the pipeline gets stuck.
pub fn run(case: Case) -> Result<Outcome, Diagnostic> {
    Outcome::of(case, Details { run: true, ..Details::default() }, &mut Replay::new())
}
