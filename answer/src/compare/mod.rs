//! A predicted and a measured timeline side by side.

mod neighbours;
mod passes;
pub mod report;
mod split;
#[cfg(test)]
pub(crate) mod tests;
mod waits;

use pipeline::{Hops, Metrics, Nanos, Step, Timeline};

use crate::timelines::Recorded;
use measured::accuracy;
use passes::Passes;
use question::Diagnostic;
use split::{Replaced, Share, Side, TimelinePart};
use waits::Wait;

/// How many waits are shown.
const WAITS: usize = 10;

/// The differences between two timelines of the same passes.
pub struct Comparison<'a> {
    /// The prediction.
    pub predicted: &'a Recorded,
    /// The measurement.
    pub measured: &'a Recorded,
    /// The prediction beside busy neighbours, where `predicted` is without any, and the difference has
    /// a part for them.
    pub beside: Option<&'a Recorded>,
    /// The representative step of each.
    pub chosen: [usize; 2],
    /// When the stages worked in those two steps.
    pub metrics: [Metrics; 2],
    /// When the stages worked in every measured step.
    pub steps: Vec<Metrics>,
    /// The difference between the chosen steps, part by part.
    pub shares: Vec<(TimelinePart, Share)>,
    /// All of the difference.
    pub total: Share,
    /// Times of passes by stage, chunk and kind.
    pub passes: Vec<Passes>,
    /// The waits that differ most.
    pub waits: Vec<Wait>,
}

impl<'a> Comparison<'a> {
    /// Compares the representative step of each.
    pub fn of(predicted: &'a Recorded, measured: &'a Recorded) -> Result<Self, Diagnostic> {
        Self::new(predicted, measured, None)
    }

    /// The same where `predicted` has the times of passes without busy neighbours, and `beside` those
    /// with all other stages busy: the effect of neighbours is a part of its own.
    pub fn beside(
        predicted: &'a Recorded,
        measured: &'a Recorded,
        beside: &'a Recorded,
    ) -> Result<Self, Diagnostic> {
        Self::new(predicted, measured, Some(beside))
    }

    fn new(
        predicted: &'a Recorded,
        measured: &'a Recorded,
        beside: Option<&'a Recorded>,
    ) -> Result<Self, Diagnostic> {
        check([("predicted", predicted), ("measured", measured)], RUN_CURE)?;
        if let Some(beside) = beside {
            check([("predicted", predicted), ("--beside", beside)], BESIDE_CURE)?;
        }
        let both = [predicted, measured];
        let chosen = both.map(Recorded::chosen);
        let steps = [&predicted.steps[chosen[0]], &measured.steps[chosen[1]]];
        let none = Hops::alike(Nanos(0));
        let costs = predicted.costs.as_ref().or(measured.costs.as_ref());
        let hops = costs.map_or(&none, pipeline::Costs::hops);
        let side = |at: usize| Side { schedule: &both[at].schedule, step: steps[at], hops };
        let step_beside = beside.map(|one| &one.steps[one.chosen()]);
        let replaced = split::between(side(0), side(1), step_beside).map_err(|torn| {
            let which = if torn.measured { "measured" } else { "predicted" };
            let (stage, slot) = (torn.stage, torn.slot);
            Diagnostic::new(format!(
                "the {which} timeline is torn: {slot} on stage {stage} ended before what it needs \
                 was made; the clocks of its stages disagree"
            ))
        })?;
        let metrics = steps.map(|step| Metrics::of(&step.timeline()));
        Ok(Self {
            predicted,
            measured,
            beside,
            chosen,
            total: Share::between(&metrics[0], &metrics[1]),
            shares: shares(&replaced, &metrics),
            steps: measured.steps.iter().map(|step| Metrics::of(&step.timeline())).collect(),
            passes: passes::all(steps[0], &measured.steps),
            waits: waits::largest(steps[0], steps[1], WAITS),
            metrics,
        })
    }

    /// The two chosen steps.
    pub fn chosen_steps(&self) -> [&'a Step; 2] {
        [&self.predicted.steps[self.chosen[0]], &self.measured.steps[self.chosen[1]]]
    }

    /// When their slots ran.
    pub fn timelines(&self) -> [Timeline; 2] {
        self.chosen_steps().map(Step::timeline)
    }

    /// How far the predicted span and makespan lie from the measured ones, the larger of both:
    /// |predicted - measured| / measured.
    pub fn error(&self) -> f64 {
        let error = |of: fn(&Metrics) -> Nanos| {
            let [predicted, measured] = self.metrics.each_ref().map(|one| seconds(of(one)));
            accuracy::error(predicted, measured).abs()
        };
        error(Metrics::span).max(error(Metrics::makespan))
    }
}

/// Seconds, for ratios.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 * 1e-9
}

/// Change of the metrics by each part, in the order from the first to the last of `ends`.
fn shares(replaced: &Replaced, ends: &[Metrics; 2]) -> Vec<(TimelinePart, Share)> {
    let mut before = Metrics::of(&replaced.predicted);
    debug_assert!(before == ends[0]);
    let mut shares = Vec::with_capacity(replaced.parts.len());
    for (part, timeline) in &replaced.parts {
        let after = Metrics::of(timeline);
        shares.push((*part, Share::between(&before, &after)));
        before = after;
    }
    debug_assert!(before == ends[1]);
    shares
}

/// Help for a prediction and a measurement of different passes.
const RUN_CURE: &str =
    "predict what was run: `debubble simulate --schedule ... --timeline FILE.json`";

/// Help for two predictions of different passes.
const BESIDE_CURE: &str = "ask `debubble simulate` the same question twice, with a profile measured \
                           alone and with one of `debubble calibrate --workers N`";

/// Checks that both are of the same passes on the same stages.
fn check(both: [(&str, &Recorded); 2], cure: &str) -> Result<(), Diagnostic> {
    let of = |one: &Recorded| {
        let shape = one.shape();
        let (stages, chunks) = (shape.stages(), shape.chunks_per_stage());
        let microbatches = shape.microbatches();
        format!("{} (p = {stages}, v = {chunks}, m = {microbatches})", one.name)
    };
    let [(first, one), (second, other)] = both;
    let differ = |why: String| {
        let message = format!("{} and {} cannot be compared: {why}", of(one), of(other));
        Err(Diagnostic::new(message).with_help(cure))
    };
    if !split::same_place(&one.schedule, &other.schedule) {
        return differ("they are not of the same pipeline".to_owned());
    }
    match split::same_slots(&one.schedule, &other.schedule) {
        Ok(()) => Ok(()),
        Err((stage, slot, in_first)) => {
            let which = if in_first { first } else { second };
            differ(format!("only the {which} one has {slot} on stage {stage}"))
        }
    }
}
