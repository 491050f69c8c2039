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

/// The order of `case` as `torch.distributed.pipelining` reads it. Copies to the host are left out, with a
/// warning.
///
/// # Errors
/// If torch cannot run it, with the reason.
pub fn torch_csv(context: &Context<'_>, case: &Case) -> Result<String, Diagnostic> {
    let refused = |why: &str| {
        let cure = "`debubble schedules` says of each schedule what runs it";
        Err(case.error(&format!("torch cannot run it: {why}")).with_help(cure))
    };
    if case.steady.is_some() {
        return refused("its orders have no updates while the pipeline runs");
    }
    if case.problem.segments() > 1 {
        return refused("its orders have no segments of a microbatch");
    }
    let csv = match pipeline::torch_csv::write(&case.schedule) {
        Ok(csv) => csv,
        Err(refusal) => return refused(&refusal.to_string()),
    };
    if case.schedule.copies().is_some() {
        let name = &case.name;
        context.warn(format!(
            "{name}: copies to the host are left out, for torch has none: all activations stay on \
             the device"
        ));
    }
    Ok(csv)
}

/// Simulates `case` and keeps its run.
///
/// # Errors
/// If the clock overflows or the pipeline gets stuck.
pub fn run(case: Case) -> Result<Outcome, Diagnostic> {
    Outcome::of(case, Details { run: true, ..Details::default() }, &mut Replay::new())
}
