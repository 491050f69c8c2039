//! A predicted and a measured timeline side by side.

mod passes;
pub mod report;
mod split;
#[cfg(test)]
pub(crate) mod tests;
mod waits;

use pipeline::{Hops, Metrics, Nanos, Step, Timeline};

use crate::timelines::Recorded;
use papers::accuracy;
use passes::Passes;
use question::Diagnostic;
use split::{Part, Share, Side};
use waits::Wait;

/// How many waits are shown.
const WAITS: usize = 10;

/// The differences between two timelines of the same passes.
pub struct Comparison<'a> {
    /// The prediction.
    pub predicted: &'a Recorded,
    /// The measurement.
    pub measured: &'a Recorded,
    /// Which step of each stands for all.
    pub chosen: [usize; 2],
    /// When the stages worked in those two steps.
    pub metrics: [Metrics; 2],
    /// When the stages worked in every measured step.
    pub steps: Vec<Metrics>,
    /// The difference between the chosen steps, part by part.
    pub shares: [(Part, Share); 4],
    /// All of the difference.
    pub total: Share,
    /// Times of passes by stage, chunk and kind.
    pub passes: Vec<Passes>,
    /// The waits that differ most.
    pub waits: Vec<Wait>,
}

impl<'a> Comparison<'a> {
    /// Compares the step that stands for all of each.
    ///
    /// # Errors
    /// If they are not of the same passes, or a pass ended before what it needs was made.
    pub fn of(predicted: &'a Recorded, measured: &'a Recorded) -> Result<Self, Diagnostic> {
        check(predicted, measured)?;
        let both = [predicted, measured];
        let chosen = both.map(Recorded::chosen);
        let steps = [&predicted.steps[chosen[0]], &measured.steps[chosen[1]]];
        let none = Hops::alike(Nanos(0));
        let costs = predicted.costs.as_ref().or(measured.costs.as_ref());
        let hops = costs.map_or(&none, pipeline::Costs::hops);
        let side = |at: usize| Side { schedule: &both[at].schedule, step: steps[at], hops };
        let timelines = split::between(side(0), side(1)).map_err(|torn| {
            let which = if torn.measured { "measured" } else { "predicted" };
            let (stage, slot) = (torn.stage, torn.slot);
            Diagnostic::new(format!(
                "the {which} timeline is torn: {slot} on stage {stage} ended before what it needs \
                 was made; the clocks of its stages disagree"
            ))
        })?;
        let metrics = steps.map(|step| Metrics::of(&step.timeline()));
        let all = timelines.each_ref().map(Metrics::of);
        debug_assert!(all[0] == metrics[0] && all[4] == metrics[1]);
        let share = |at: usize| (Part::ALL[at], Share::between(&all[at], &all[at + 1]));
        Ok(Self {
            predicted,
            measured,
            chosen,
            total: Share::between(&metrics[0], &metrics[1]),
            shares: [0, 1, 2, 3].map(share),
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

/// Checks that both are of the same passes on the same stages.
fn check(predicted: &Recorded, measured: &Recorded) -> Result<(), Diagnostic> {
    let of = |one: &Recorded| {
        let shape = one.shape();
        let (stages, chunks) = (shape.stages(), shape.chunks_per_stage());
        let microbatches = shape.microbatches();
        format!("{} (p = {stages}, v = {chunks}, m = {microbatches})", one.name)
    };
    let differ = |why: String| {
        let (predicted, measured) = (of(predicted), of(measured));
        let message = format!("{predicted} and {measured} cannot be compared: {why}");
        Err(Diagnostic::new(message).with_help(
            "predict what was run: `debubble simulate --schedule ... --timeline FILE.json`",
        ))
    };
    if !split::same_place(&predicted.schedule, &measured.schedule) {
        return differ("they are not of the same pipeline".to_owned());
    }
    match split::same_slots(&predicted.schedule, &measured.schedule) {
        Ok(()) => Ok(()),
        Err((stage, slot, in_first)) => {
            let which = if in_first { "predicted" } else { "measured" };
            differ(format!("only the {which} one has {slot} on stage {stage}"))
        }
    }
}
