//! A schedule for other tools: its order, or its timeline.

use question::case::{self, Case};
use question::scenario::Scenario;
use question::{Context, Diagnostic, Warnings};
use sim::engine::Run;
use sim::occupancy::Curve;
use sim::{Details, Replay};

use crate::outcome::{self, Outcome};

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

/// The run of a schedule with everything that trace events show.
pub struct Traced {
    /// The outcome of the schedule.
    pub outcome: Outcome,
    /// Every slot, transfer and copy of its run.
    pub run: Run,
    /// The memory of each device over the run; none without a cluster.
    pub memory: Vec<Curve>,
}

/// Simulates `case` and keeps its run.
///
/// # Errors
/// If the clock overflows or the pipeline gets stuck.
pub fn trace(case: Case) -> Result<Traced, Diagnostic> {
    let details = Details { run: true, ..Details::default() };
    let outcome = Outcome::of(case, details, &mut Replay::new())?;
    let run = outcome::recorded(&outcome)?.into_owned();
    let memory = outcome::memory_curves(&outcome, &run)?.into_owned();
    Ok(Traced { outcome, run, memory })
}
