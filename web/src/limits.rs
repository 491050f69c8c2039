//! Limits of a browser: smaller than those of the library on a machine of its own.

use question::case::{self, ScheduleSource};
use question::scenario::Scenario;
use question::{Context, Diagnostic};

/// The most bytes of a file. The page, its worker and a parser each hold it once.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The most passes of an order that is searched or written down.
const MOST_PASSES: u64 = 300_000;

/// Refuses the file `name` of `bytes` bytes, if it is too large to be read here.
///
/// # Errors
/// If it is.
pub(crate) fn check_file(name: &str, bytes: u64) -> Result<(), Diagnostic> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let [size, most] = [bytes.div_ceil(1 << 20), MOST_BYTES >> 20];
    let name = question::quote::clip(name);
    let message = format!("{name} has {size} MiB: this page reads at most {most} MiB of a file");
    Err(Diagnostic::new(message).with_help("give it to `debubble` on the command line"))
}

/// Refuses `scenario` if `rule` makes more passes of one of its settings than can be searched or written here.
///
/// # Errors
/// If it does.
pub(crate) fn check_passes(scenario: &Scenario, rule: &ScheduleSource) -> Result<(), Diagnostic> {
    let passes = scenario.settings.iter().map(|one| case::forwards(one, rule).saturating_mul(3));
    check_count(passes.max().unwrap_or(0))
}

/// The same for all schedules that `scenario` names.
///
/// # Errors
/// If there are too many passes, or a schedule cannot be had.
pub(crate) fn check_schedules(
    context: &Context<'_>,
    scenario: &Scenario,
) -> Result<(), Diagnostic> {
    for setting in &scenario.settings {
        for rule in case::rules(context, scenario, setting)? {
            check_count(case::forwards(setting, &rule).saturating_mul(3))?;
        }
    }
    Ok(())
}

fn check_count(passes: u64) -> Result<(), Diagnostic> {
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!("{passes} passes are too many for this: at most {MOST_PASSES} on a page");
    Err(Diagnostic::new(message).with_help("ask `debubble` on the command line"))
}
