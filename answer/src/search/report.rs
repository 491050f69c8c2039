//! The results of searches, for tables and files.

mod certified;
pub(super) mod entry;
mod joint;
pub(super) mod on_hardware;
mod simulated;
mod tables;
mod under_noise;

use std::borrow::Cow;

use pipeline::overlap::{Overlap, Part, Stream};
use pipeline::{Bytes, Costs, Metrics, Nanos};
use profile::TrainerProfile;
use search::{Instance, Milestone, Objective, Published, Running};
use sim::{Details, Replay, Simulation, Study};

use cases::{Case, Searched};
use question::Diagnostic;
use question::scenario::Setting;
use question::search::ObjectiveArg;

pub(super) use self::certified::certificate;
pub(crate) use self::certified::certificate_of;
pub(super) use self::tables::sheet;
use super::joint_choice::gain;
use super::{Elsewhere, Improvements, JointChoice, Simulated, Solved};
use crate::front::Standing;

pub struct SearchRow {
    /// The order that was found, with its instance.
    pub searched: Searched,
    /// The limit as the question writes it, if there is one.
    pub(super) limit: Option<String>,
    metrics: Metrics,
    peak: Bytes,
    /// Its cost: its own, or a lower one found under a smaller limit.
    pub(super) cost: Nanos,
    /// Every improvement of the cost with the steps and the bound by then, and what there is after the last step. Where the
    /// objective is one of simulations, of that, as the search estimated it.
    pub history: Vec<Milestone>,
    /// Objective that was minimised.
    pub(super) objective: ObjectiveArg,
    /// The steps of the order where stages run on, if the objective is the span of one step.
    running: Option<Running>,
    solved: Option<Solved>,
    /// The keys that were simulated alone, if there are any.
    pub simulated: Option<Simulated>,
    /// The choice of a joint search beside the order, if it was one.
    pub chosen: Option<JointChoice>,
    /// A shorter published schedule of other chunks or another placement.
    pub elsewhere: Option<Elsewhere>,
    /// The step of the trainer itself, where its profile was searched.
    recorded: Option<Recorded>,
    /// The standing of the order found, and of the best published one, in the setting, once marked.
    pub found_standing: Option<Standing>,
    /// The same of the best published schedule.
    pub published_standing: Option<Standing>,
}

/// What the profile of a trainer says of its own step.
pub(crate) struct Recorded {
    /// By how much its predicted steps may be off, as a fraction.
    uncertainty: f64,
    /// The schedule that it runs, where that is a published one that fits.
    runs: Option<Published>,
}

/// The memory limit of `setting` as it is given: of activations, or of a whole device.
fn limit_of(setting: &Setting) -> Option<String> {
    fn joined<T: ToString>(all: &[T]) -> String {
        all.iter().map(T::to_string).collect::<Vec<_>>().join(",")
    }
    let keys = &setting.keys;
    keys.memory_limit.as_deref().map(joined).or_else(|| keys.memory.as_deref().map(joined))
}

impl SearchRow {
    /// `solved` is the result of the integer program, if it was solved.
    pub(super) fn of(
        searched: Searched,
        solved: Option<Solved>,
        objective: ObjectiveArg,
        setting: &Setting,
    ) -> Result<Self, Diagnostic> {
        let case = &searched.case;
        let (costs, footprints) = (searched_costs(case), case.problem.footprints());
        let simulation = Simulation::new(&case.schedule, &costs, footprints);
        let study = simulation.study(Details::default(), &mut Replay::new());
        let Study { metrics, memory, .. } = study.map_err(|error| case.error(&error))?;
        let peak = memory.peak.into_iter().max().unwrap_or_default();
        let limit = limit_of(setting);
        let cost = searched.found.cost;
        Ok(Self {
            searched,
            limit,
            metrics,
            peak,
            cost,
            history: Vec::new(),
            objective,
            running: None,
            solved,
            simulated: None,
            chosen: None,
            elsewhere: None,
            recorded: None,
            found_standing: None,
            published_standing: None,
        })
    }

    /// Tells `seen` its cost, where that is what was searched.
    pub(super) fn tell_cost(&self, seen: &Improvements<'_>) {
        if !self.is_simulated() {
            seen.see_beside(self.cost, Some(self.bound()));
        }
    }

    /// Whether its objective is one of simulations, and not its cost where no link is shared.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        let Searched { under_noise, on_hardware, .. } = &self.searched;
        under_noise.is_some() || on_hardware.is_some() || self.simulated.is_some()
    }

    /// The same with the steps of its order where stages run on, if it was searched for the span of one step.
    pub(super) fn with_running(self) -> Result<Self, Diagnostic> {
        let (instance, found) = (&self.searched.instance, &self.searched.found);
        if self.is_simulated() {
            return Ok(self);
        }
        let running = Running::of(instance, &found.schedule);
        let running = running.map_err(|fault| self.searched.case.error(&fault))?;
        Ok(Self { running, ..self })
    }

    /// The same of a question whose times are those of `profile`, if they are a trainer's.
    pub(super) fn with_recorded(self, profile: Option<&TrainerProfile>) -> Self {
        let recorded = profile.map(|profile| Recorded {
            uncertainty: profile.uncertainty(),
            runs: self
                .searched
                .found
                .published
                .iter()
                .copied()
                .find(|one| one.family.name() == profile.schedule),
        });
        Self { recorded, ..self }
    }

    /// The schedule that the trainer runs, and how much less time the order found takes, as a fraction.
    pub(super) fn trainer(&self) -> Option<(Published, f64)> {
        let runs = self.recorded.as_ref()?.runs?;
        Some((runs, gain(self.cost, runs.cost)))
    }

    /// The best published schedule and the gain of the order found, as a fraction, where the times of a
    /// recording cannot separate the two.
    #[must_use]
    fn within_noise(&self) -> Option<(&'static str, f64, f64)> {
        let published = self.searched.found.best_published()?;
        let uncertainty = self.recorded.as_ref()?.uncertainty;
        let gain = gain(self.cost, published.cost);
        self.is_within_error(published.cost).then(|| (published.family.name(), gain, uncertainty))
    }

    /// Whether the times of a recording cannot separate the order found from one of a larger `cost`.
    pub(super) fn is_within_error(&self, cost: Nanos) -> bool {
        let gain = gain(self.cost, cost);
        self.recorded.as_ref().is_some_and(|one| gain > 0.0 && gain <= one.uncertainty)
    }

    /// The title of a drawing of it.
    #[must_use]
    pub fn title(&self) -> String {
        let name = Some(self.searched.case.name.as_str());
        [name].into_iter().chain(self.parts()).flatten().collect::<Vec<_>>().join(", ")
    }

    /// The names of its setting and of its limit, if it has them.
    fn parts(&self) -> [Option<&str>; 2] {
        [self.setting(), self.limit.as_deref()]
    }

    /// These between two words.
    fn named(&self, first: &str, last: &str) -> String {
        let [setting, limit] = self.parts().map(Option::unwrap_or_default);
        let words = [first, setting, limit, last].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether its passes share the two streams of their devices.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.searched.instance.costs.overlap().is_some_and(Overlap::communicates)
    }

    /// The part of `cost` in which the average stage waits; where passes overlap, in which its compute stream
    /// waits, since how long slots take is then a matter of the order; and where backwards may be whole, the part that
    /// the least work leaves, for an order that splits more works more.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn rate(&self, cost: Nanos) -> f64 {
        let Instance { shape, costs, .. } = &self.searched.instance;
        let overlap = costs.overlap().filter(|_| self.overlaps());
        if overlap.is_none() && !costs.has_whole() {
            return self.metrics.bubble_rate_of(cost);
        }
        let work = |chunk: u16| match overlap {
            Some(overlap) => {
                let chain = overlap.chain(chunk);
                Part::ALL.into_iter().map(|part| chain.work(part, Stream::Compute).0).sum::<u64>()
            }
            None => {
                let times = costs.chunks()[usize::from(chunk)];
                let again = costs.recompute(chunk).unwrap_or_default();
                (times.forward + times.least_backward() + again).0
            }
        };
        let all =
            (0..shape.chunks()).map(work).sum::<u64>() as f64 * f64::from(shape.microbatches());
        1.0 - all / (shape.stages() as f64 * cost.0.max(1) as f64)
    }

    /// The bubble rate of the order found.
    #[must_use]
    pub fn bubble(&self) -> f64 {
        self.rate(self.cost)
    }

    /// The peak of the stage that holds most, in microbatches of the stage that holds most.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.in_microbatches(self.peak)
    }

    #[allow(clippy::cast_precision_loss)]
    fn in_microbatches(&self, peak: Bytes) -> f64 {
        peak.0 as f64 / self.searched.case.microbatch_bytes().0.max(1) as f64
    }

    /// `peak` in multiples of the microbatches that there are stages, and the bubble at `cost`.
    #[allow(clippy::cast_precision_loss)]
    fn at(&self, peak: Bytes, cost: Nanos) -> (f64, f64) {
        let stages = self.searched.instance.shape.stages() as f64;
        (self.in_microbatches(peak) / stages, self.rate(cost))
    }

    /// Peak memory and bubble of the order found.
    #[must_use]
    pub fn found_at(&self) -> (f64, f64) {
        self.at(self.peak, self.cost)
    }

    /// The same of the best published one.
    #[must_use]
    pub fn published_at(&self) -> Option<(f64, f64)> {
        self.published().map(|one| self.at(one.peak, one.cost))
    }

    /// The largest limit of a stage, or without one the peak of the order found, and the bubble that no
    /// order under it undercuts.
    #[must_use]
    pub fn bound_at(&self) -> (f64, f64) {
        let limits = self.searched.instance.limits.as_ref();
        let limit = limits.and_then(|limits| limits.by_stage().iter().max().copied());
        self.at(limit.unwrap_or(self.peak), self.bound())
    }

    /// The setting that is searched, without its limit.
    #[must_use]
    pub fn setting(&self) -> Option<&str> {
        self.searched.case.setting.as_deref()
    }

    /// The published schedule that costs least of those that fit.
    #[must_use]
    pub fn published(&self) -> Option<Published> {
        self.searched.found.best_published()
    }

    /// Whether cost and bound are of the span, and not of the makespan.
    #[must_use]
    pub fn is_of_span(&self) -> bool {
        self.searched.instance.objective == Objective::Span
    }

    /// The lower bound on the cost of any order.
    #[must_use]
    pub fn bound(&self) -> Nanos {
        self.searched.found.bound.cost
    }

    /// The result of the integer program, if it was solved.
    #[must_use]
    pub const fn solved(&self) -> Option<&Solved> {
        self.solved.as_ref()
    }

    /// The argument that proves the bound.
    pub(super) fn argument(&self) -> String {
        self.searched.found.bound.argument.to_string()
    }

    fn gap(&self) -> Nanos {
        self.cost - self.bound()
    }
}

/// Gives every row the best order among the rows of its setting with no larger limits: an order that
/// fits those fits the larger ones too.
pub(super) fn keep_smaller(rows: &mut [SearchRow]) {
    for at in 0..rows.len() {
        for other in 0..rows.len() {
            if other != at && rows[other].cost < rows[at].cost && fits(&rows[other], &rows[at]) {
                let (cost, peak) = (rows[other].cost, rows[other].peak);
                let schedule = rows[other].searched.found.schedule.clone();
                let metrics = rows[other].metrics.clone();
                let row = &mut rows[at];
                (row.cost, row.peak, row.metrics) = (cost, peak, metrics);
                row.searched.case.schedule = schedule.clone();
                (row.searched.found.cost, row.searched.found.schedule) = (cost, schedule);
            }
        }
    }
}

/// Whether the order found for `small` is valid for `large`.
fn fits(small: &SearchRow, large: &SearchRow) -> bool {
    // A search under noise, on hardware or of layers and recomputation starts, under the larger limit,
    // from the order of the smaller one.
    if large.is_simulated() || large.chosen.is_some() {
        return false;
    }
    let [a, b] = [&small.searched.instance, &large.searched.instance];
    let alike = a.shape == b.shape && a.placement == b.placement && a.objective == b.objective;
    if !alike || a.costs != b.costs || a.footprints != b.footprints {
        return false;
    }
    match (&a.limits, &b.limits) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(a), Some(b)) => a.by_stage().iter().zip(b.by_stage()).all(|(a, b)| a <= b),
    }
}

/// The costs that orders of `case` are searched by: of microbatches that differ, those of the mean.
fn searched_costs(case: &Case) -> Cow<'_, Costs> {
    let costs = case.problem.costs();
    match costs.microbatch_work() {
        None => Cow::Borrowed(costs),
        Some(_) => Cow::Owned(costs.clone().of_mean_microbatch()),
    }
}
