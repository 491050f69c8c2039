//! The pipeline of a setting: its shape, where its chunks lie, and the layers that they have.

use pipeline::{Choice, Fault, MAX_CHUNKS, Placement, Shape, Share, SteadyState, spread_by_layers};

use super::checks::{agree, explain};
use super::layout;
use crate::diagnostic::Diagnostic;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::source::ScheduleSource;

/// The pipeline that a schedule orders for a setting.
pub(crate) struct Pipeline {
    /// Its stages, chunks and microbatches.
    pub(crate) shape: Shape,
    /// Where its chunks lie.
    pub(crate) placement: Placement,
    /// How many segments each microbatch is cut into.
    pub(crate) segments: u32,
    /// The run that is measured, if it never flushes.
    pub(crate) steady: Option<SteadyState>,
    /// The layers of each chunk, if there is a layout; else none.
    pub(crate) layers: Vec<u64>,
}

impl Pipeline {
    /// The pipeline that `rule` orders for `setting`.
    pub(crate) fn of(
        scenario: &Scenario,
        setting: &Setting,
        rule: &ScheduleSource,
    ) -> Result<Self, Diagnostic> {
        let keys = &setting.keys;
        let segments = segments(keys, rule);
        let shaped = shape(keys, rule, segments);
        let (shape, placement) =
            shaped.map_err(|fault| explain(scenario, setting, rule, &fault))?;
        agree(scenario, setting, rule, shape, segments)?;
        layout::agree(scenario, setting, rule, shape)?;
        let layers = layout::layers(keys).to_vec();
        Ok(Self { shape, placement, segments, steady: steady(keys, rule), layers })
    }

    /// The values of the key `what` by chunk, in model order: one for all stages, or one per stage or chunk.
    pub(crate) fn by_chunk<T: Share>(
        &self,
        what: &'static str,
        values: &[T],
    ) -> Result<Vec<T>, Fault> {
        let stage = |chunk| self.placement.stage(self.shape, chunk, 0);
        spread_by_layers(what, values, self.shape, &self.layers, stage)
    }
}

/// How many segments each microbatch is cut into: 1 where the schedule does not cut.
fn segments(keys: &Keys, rule: &ScheduleSource) -> u32 {
    let given = keys.segments.map(|given| u32::try_from(given).unwrap_or(u32::MAX));
    match rule {
        ScheduleSource::Family(family) => match family.about().choice {
            Choice::Segments { default } => given.unwrap_or(default),
            Choice::Nothing | Choice::Group | Choice::Offload => 1,
        },
        ScheduleSource::File(..) => given.unwrap_or(1),
        ScheduleSource::Searched(_) => 1,
    }
}

/// The run that `rule` is asked about in its steady state; `None` if it flushes after each step.
pub(crate) fn steady(keys: &Keys, rule: &ScheduleSource) -> Option<SteadyState> {
    let (stages, microbatches) = (keys.stages?, keys.microbatches?);
    (rule.is_asynchronous() && stages.min(microbatches) > 0 && stages <= MAX_CHUNKS)
        .then(|| SteadyState::of(stages, microbatches))
}

/// The shape asked for, with `segments` for each microbatch, and where its chunks lie.
fn shape(keys: &Keys, rule: &ScheduleSource, segments: u32) -> Result<(Shape, Placement), Fault> {
    if segments == 0 {
        return Err(Fault::Zero { what: "segments" });
    }
    match rule {
        ScheduleSource::File(_, schedule) => Ok((schedule.shape(), schedule.placement())),
        ScheduleSource::Family(family) => {
            let about = family.about();
            let chunks = about.chunks.of(keys.chunks);
            let updates = steady(keys, rule).map_or(1, SteadyState::updates);
            let passes = keys.microbatches.unwrap_or(0).saturating_mul(u64::from(segments));
            let passes = passes.saturating_mul(u64::from(updates));
            let shape = Shape::new(keys.stages.unwrap_or(0), chunks, passes)?;
            let shape = shape.with_vocabulary(family.vocabulary())?;
            Ok((shape, about.placement))
        }
        ScheduleSource::Searched(placement) => {
            // A V of one chunk would be none.
            let least = if *placement == Some(Placement::Vee) { 2 } else { 1 };
            let (chunks, microbatches) =
                (keys.chunks.unwrap_or(least), keys.microbatches.unwrap_or(0));
            let shape = Shape::new(keys.stages.unwrap_or(0), chunks, microbatches)?;
            // Two chunks lie in a V by default, as those of the published schedules do.
            let usual = if chunks == 2 { Placement::Vee } else { Placement::Looped };
            Ok((shape, placement.unwrap_or(usual)))
        }
    }
}

/// How many forwards `rule` has in `setting`; none if it cannot do its shape.
pub fn forwards(setting: &Setting, rule: &ScheduleSource) -> u64 {
    let shape = shape(&setting.keys, rule, segments(&setting.keys, rule));
    shape.map_or(0, |(shape, _)| shape.cells() as u64)
}
