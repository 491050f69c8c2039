//! Steps of many microbatches whose order repeats: the order of few stands for that of all.

use pipeline::{Period, Schedule};
use sim::Repeating;

use super::{ScheduleSource, headroom, is_plain};
use question::host::Host;
use question::keys::Keys;
use question::noise;
use question::resolve::Resolved;

/// Steps of at most this many forwards are always timed pass by pass: that takes no longer than some milliseconds, and
/// their orders may be shared by questions that differ in times.
pub const FEW_FORWARDS: usize = 1 << 15;

/// The order of few microbatches that stands for that of `rule` in the question of `keys`, `resolved` for it, and the
/// step of all microbatches by it. Nothing where the order is not known to repeat, and where more than passes of equal
/// microbatches decides on times or memory.
pub(super) fn of(
    host: &dyn Host,
    keys: &Keys,
    rule: &ScheduleSource,
    resolved: &Resolved,
) -> Option<(Schedule, Repeating)> {
    let ScheduleSource::Family(family) = rule else { return None };
    let (shape, problem) = (resolved.shape, &resolved.problem);
    let costs = problem.costs();
    let is_asked_plainly = !noise::is_given(keys)
        && resolved.hardware.is_none()
        && resolved.steady.is_none()
        && resolved.parameters.is_none()
        && is_plain(costs)
        && costs.overlap().is_none()
        && !problem.copies_to_host();
    if shape.cells() <= FEW_FORWARDS || !is_asked_plainly {
        return None;
    }
    let Period { microbatches, shown_by } = family.period(problem)?;
    // A round is looked for at several times the cost of a replay.
    if shown_by > shape.microbatches() / 8 {
        return None;
    }
    // Whatever is wrong with the few is said of all of them.
    let few = problem.clone().with_microbatches(shown_by).ok()?;
    if !headroom::has_room_for_rounds(host, few.shape().cells()) {
        return None;
    }
    let schedule = family.schedule(&few).ok()?;
    let repeating = Repeating::of(&schedule, microbatches, shape.microbatches())?;
    Some((schedule, repeating))
}
