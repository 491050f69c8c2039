//! Times of both streams of the stages of an outcome, where passes are chains of segments.

use std::borrow::Cow;

use pipeline::{Metrics, Order, Span};
use sim::Kept;
use sim::streams::{StreamTimes, Streams};

use cases::Case;
use question::Diagnostic;

/// Times of the streams of each stage of `case`: in the last step of `kept` on hardware, in replica 0
/// under noise.
pub(crate) fn of(
    case: &Case,
    metrics: &Metrics,
    kept: &Kept,
) -> Result<Option<Vec<StreamTimes>>, Diagnostic> {
    let Some(mut streams) = Streams::of(case.problem.costs()) else { return Ok(None) };
    let simulation = case.simulation();
    let timeline = match (&case.hardware, simulation.shown(), kept.timeline()) {
        (None, None, _) => None,
        (_, _, Some(timeline)) => Some(Cow::Borrowed(timeline)),
        (_, shown, None) => {
            let timeline = simulation.timeline(shown).map_err(|error| case.error(&error))?;
            Some(Cow::Owned(timeline))
        }
    };
    let steps = case.hardware.as_ref().map_or(1, |hardware| hardware.steps.max(1) as usize);
    let of = |(stage, order): (usize, &Order)| {
        let all = match &timeline {
            None => streams.order(order),
            Some(timeline) => {
                let spans: &Vec<Span> = &timeline.stages[stage];
                streams.spans(&spans[spans.len() / steps * (steps - 1)..])
            }
        };
        // Of a pipeline that never flushes the metrics are a mean.
        metrics.stages.get(stage).map_or(all, |times| all.at_pace(times.busy))
    };
    Ok(Some(case.schedule.orders().iter().enumerate().map(of).collect()))
}
