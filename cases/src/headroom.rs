//! Estimates the memory that building an order takes, and refuses orders that exceed the spare memory.

use pipeline::Family;

use super::ScheduleSource;
use question::diagnostic::Diagnostic;
use question::host::Host;
use question::memory;
use question::resolve::Resolved;

/// Bytes per pass for an order, its validation and its timing; measured and rounded up, as are all constants here.
const PASS: u64 = 24;
/// Bytes per pass of a searched order, including the candidates of the search.
const SEARCHED: u64 = 64;
/// Bytes per pass of an order with planned host offloading.
const COPIED: u64 = 180;
/// Bytes per pass of an order in which rounds are looked for.
const REPEATING: u64 = 120;
/// Bytes per pass of a run in the event engine, which simulates every transfer.
const ENGINE: u64 = 300;

/// Refuses an order that needs more than the spare memory.
pub(super) fn check(
    host: &dyn Host,
    rule: &ScheduleSource,
    resolved: &Resolved,
) -> Result<(), Diagnostic> {
    let each = match rule {
        ScheduleSource::Family(Family::PoH | Family::PoF) => COPIED,
        ScheduleSource::Family(_) | ScheduleSource::File(..) => PASS,
        ScheduleSource::Searched(_) => SEARCHED,
    };
    let each = if resolved.hardware.is_some() { each + ENGINE } else { each };
    let of_cell = if resolved.problem.costs().has_recompute() { 4 } else { 3 };
    let passes = of_cell * resolved.shape.cells() as u64;
    let what = format!("{}: an order of {passes} passes", rule.name());
    memory::demand(host, &what, passes.saturating_mul(each), CURE)
}

/// Whether there is room to look for rounds in the order of so many `cells`.
pub(super) fn has_room_for_rounds(host: &dyn Host, cells: usize) -> bool {
    let bytes = (3 * cells as u64).saturating_mul(REPEATING);
    memory::demand(host, "rounds", bytes, CURE).is_ok()
}

/// Refuses a search on hardware that needs more than the spare memory: the engine runs several orders side by side,
/// each over all steps.
pub(super) fn check_on_hardware(
    host: &dyn Host,
    rule: &ScheduleSource,
    resolved: &Resolved,
    steps: u32,
) -> Result<(), Diagnostic> {
    check(host, rule, resolved)?;
    let of_cell = if resolved.problem.costs().has_recompute() { 4 } else { 3 };
    let passes = of_cell * resolved.shape.cells() as u64 * u64::from(steps);
    let what =
        format!("{}: {} runs of {passes} passes side by side", rule.name(), search::SIDE_BY_SIDE);
    let each = SEARCHED + ENGINE * search::SIDE_BY_SIDE;
    memory::demand(host, &what, passes.saturating_mul(each), CURE)
}

const CURE: &str = "ask for fewer --microbatches or --stages, or give the process more memory";
