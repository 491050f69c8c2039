//! Checks that there is memory for the requested output files before any of them is made.

use super::Simulate;
use crate::error::Error;
use answer::outcome::Outcome;
use native::memory;

/// Bytes per pass of a timeline in each kind of file. Measured, and rounded up.
const SVG: u64 = 64;
const HTML: u64 = 560;
const TRACE: u64 = 480;
const RECORDED: u64 = 350;

/// Refuses output files that do not fit into free memory.
pub(super) fn check(asked: &Simulate, outcomes: &[Outcome]) -> Result<(), Error> {
    let passes = outcomes.iter().map(|outcome| outcome.case.schedule.passes() as u64);
    let passes = passes.fold(0u64, u64::saturating_add);
    let files = [
        ("--html", asked.html.is_some(), HTML),
        ("--trace", asked.trace.is_some(), TRACE),
        ("--timeline", asked.timeline.is_some(), RECORDED),
        ("--svg", asked.svg.is_some(), SVG),
    ];
    for (flag, _, each) in files.into_iter().filter(|(_, is_asked, _)| *is_asked) {
        let what = format!("{flag}: a file of {passes} passes");
        memory::demand(&what, passes.saturating_mul(each), CURE)?;
    }
    Ok(())
}

const CURE: &str =
    "ask for fewer --microbatches, --stages or schedules, or give the process more memory";
