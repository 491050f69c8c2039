//! A constraint solver that looks for a better order, and proves how good an order can be.

use std::time::Duration;

use pipeline::Nanos;

use crate::commands::note;
use crate::error::Error;
use question::case::Searched;

/// It is there.
pub(super) fn check() -> Result<(), Error> {
    Ok(())
}

/// Asks the solver about what was searched, for about `time`. Replaces the order by a better one if
/// there is one, and gives what no order undercuts where that is more than the search knows.
///
/// # Errors
/// If the pipeline is one that the solver does not model.
pub(super) fn prove(
    searched: &mut Searched,
    time: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Nanos>, Error> {
    let found = &mut searched.found;
    if found.is_optimal() {
        return Ok(None);
    }
    let known = Some(found.schedule.clone());
    let answer = exact::solve(&searched.instance, known, time, stop).map_err(|unsuitable| {
        Error::question(format!("--exact: {unsuitable}")).with_help("leave out --exact")
    })?;
    if let Some((schedule, cost)) = answer.found.filter(|(_, cost)| *cost < found.cost) {
        note(&format!("the solver found an order of {cost}, the search one of {}", found.cost));
        searched.case.schedule = schedule.clone();
        (found.schedule, found.cost) = (schedule, cost);
    }
    Ok(Some(answer.proved).filter(|proved| *proved > found.bound.cost))
}
