//! Times of both streams of the stages of an outcome, where passes are chains of segments.

use std::borrow::Cow;

use pipeline::{Metrics, Nanos, Order, Span};
use sim::Kept;
use sim::streams::{StreamTimes, Streams};

use question::Diagnostic;
use question::case::Case;

use crate::explain::report::{ratio, whole};
use crate::explain::streams::hidden;
use crate::outcome::Outcome;

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

impl Outcome {
    /// Summed times of the streams of all stages, where passes are chains of segments.
    pub fn all_streams(&self) -> Option<StreamTimes> {
        let all = self.streams.as_ref()?.iter().copied();
        Some(all.fold(StreamTimes::default(), StreamTimes::and))
    }

    /// The share of the span in which the compute stream of an average stage runs, where passes are
    /// chains of segments.
    pub fn compute_utilisation(&self) -> Option<f64> {
        let (all, stages) = (self.all_streams()?, self.metrics.stages.len() as u64);
        let span = Nanos(self.metrics.span().0.saturating_mul(stages));
        Some(ratio(whole(all.computing), span))
    }

    /// The share of the communication of segments that runs beside compute, if there is any.
    pub fn communication_hidden(&self) -> Option<f64> {
        self.all_streams().as_ref().and_then(hidden)
    }
}
