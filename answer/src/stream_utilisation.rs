//! Utilisation of the streams of an outcome, where passes are chains of segments.

use pipeline::Nanos;
use sim::streams::StreamTimes;

use crate::explain::quantities::{hidden, ratio, whole};
use crate::outcome::Outcome;

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
