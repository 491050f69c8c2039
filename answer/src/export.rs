//! A schedule for other tools: its order, or its timeline.

use std::path::Path;

use cases::Case;
use pipeline::{Schedule, primus, torch_csv};
use question::export::Form;
use question::scenario::Scenario;
use question::{Context, Diagnostic, Warnings, quote};
use sim::{Details, Replay};

use crate::outcome::Outcome;

/// The one schedule that `scenario` asks for.
///
/// Where only the order is wanted (`needs_times` is false), a setting may do without times, unless the
/// order depends on them.
pub fn export(
    context: &Context<'_>,
    mut scenario: Scenario,
    needs_times: bool,
) -> Result<Case, Diagnostic> {
    if let (false, [setting]) = (needs_times, &mut scenario.settings[..]) {
        cases::allow_without_times(setting);
    }
    let [setting] = &scenario.settings[..] else {
        let count = scenario.settings.len();
        let message = format!("export takes one setting, but the scenario has {count}");
        return Err(Diagnostic::new(message));
    };
    let rules = cases::rules(context, &scenario, setting)?;
    let [rule] = &rules[..] else {
        let message = format!("export takes one schedule, not {}", rules.len());
        return Err(scenario.error(setting, Some("schedule"), message));
    };
    let case = cases::case(context, &scenario, setting, rule)?;
    let mut warnings = Warnings::default();
    warnings.add_ignored(setting, rule);
    case.split.into_iter().for_each(|split| warnings.add_of_setting(split.note()));
    warnings.lines().into_iter().for_each(|line| context.warn(line));
    Ok(case)
}

/// The order of `case` in `form`; a timeline as the text of its order.
pub fn order(context: &Context<'_>, case: &Case, form: Form) -> Result<String, Diagnostic> {
    let trainer = match form {
        Form::Text | Form::Chrome => return Ok(case.schedule.to_string()),
        Form::TorchCsv => "torch",
        Form::Primus => "Primus",
    };
    let order = match (case.steady.is_some(), case.problem.segments() > 1) {
        (true, _) => Err("its orders have no updates while the pipeline runs".to_owned()),
        (_, true) => Err("its orders have no segments of a microbatch".to_owned()),
        (false, false) => written(context, &case.name, &case.schedule, form),
    };
    let cure = "`debubble schedules` says of each schedule what runs it";
    order.map_err(|why| case.error(&format!("{trainer} cannot run it: {why}")).with_help(cure))
}

/// `schedule`, called `name`, in the form of a file called `path` ([`Form::of_order_in`]).
pub fn order_in(
    context: &Context<'_>,
    path: &Path,
    name: &str,
    schedule: &Schedule,
) -> Result<String, Diagnostic> {
    let form = Form::of_order_in(path);
    written(context, name, schedule, form).map_err(|why| {
        let file = quote::path(path);
        let cure = "name a file that ends in .txt: it has the order as text, which debubble reads";
        Diagnostic::new(format!("{name} cannot be written as {file}: {why}")).with_help(cure)
    })
}

/// `schedule` in `form`, or why its trainer cannot run it. What is left out is warned of.
fn written(
    context: &Context<'_>,
    name: &str,
    schedule: &Schedule,
    form: Form,
) -> Result<String, String> {
    let copies = schedule.copies();
    match form {
        Form::Text | Form::Chrome => Ok(schedule.to_string()),
        Form::TorchCsv => {
            let csv = torch_csv::write(schedule).map_err(|refusal| refusal.to_string())?;
            if copies.is_some() {
                context.warn(format!(
                    "{name}: copies to the host are left out, for torch has none: all activations stay on \
                     the device"
                ));
            }
            Ok(csv)
        }
        Form::Primus => {
            let table = primus::write(schedule).map_err(|refusal| refusal.to_string())?;
            if copies.is_some() {
                context.warn(format!(
                    "{name}: Primus copies what its offload_ops name of an activation, out and back on one stream; train \
                     with offload: true"
                ));
            }
            Ok(table)
        }
    }
}

/// Simulates `case` and keeps its run.
pub fn run(case: Case) -> Result<Outcome, Diagnostic> {
    Outcome::of(case, Details { run: true, ..Details::default() }, &mut Replay::new())
}
