//! A constraint solver that looks for a better order, and proves how good an order can be.

use std::time::Duration;

use pipeline::Nanos;

use question::case::Searched;
use question::{Context, Diagnostic};

/// It is there.
pub(super) fn check() -> Result<(), Diagnostic> {
    Ok(())
}

/// Asks the solver about what was searched, for about `time`. Replaces the order by a better one if
/// there is one, and gives what no order undercuts where that is more than the search knows.
///
/// # Errors
/// If the pipeline is one that the solver does not model.
pub(super) fn prove(
    context: &Context<'_>,
    searched: &mut Searched,
    time: Duration,
) -> Result<Option<Nanos>, Diagnostic> {
    let found = &mut searched.found;
    if found.is_optimal() {
        return Ok(None);
    }
    let known = Some(found.schedule.clone());
    // Without a clock only whoever asks ends it.
    let clock = || context.host().clock().unwrap_or_default();
    let answer = exact::solve(&searched.instance, known, time, &clock, &|| context.stopped())
        .map_err(|unsuitable| {
            Diagnostic::new(format!("--exact: {unsuitable}")).with_help("leave out --exact")
        })?;
    if let Some((schedule, cost)) = answer.found.filter(|(_, cost)| *cost < found.cost) {
        let was = found.cost;
        context.warn(format!("the solver found an order of {cost}, the search one of {was}"));
        searched.case.schedule = schedule.clone();
        (found.schedule, found.cost) = (schedule, cost);
    }
    Ok(Some(answer.proved).filter(|proved| *proved > found.bound.cost))
}
