//! Updates while the pipeline runs: a stage updates as soon as it has the gradients of the update's
//! microbatches, without synchronization.

use pipeline::{Kind, Pass, Placement, Schedule, Slot};

use super::failure::Halt;
use super::link::Link;
use super::stage::Stage;
use crate::weights::Updates;
use crate::worker::Trainer;

/// Whether `pass` adds to gradients of weights.
const fn weighs(pass: Pass) -> bool {
    matches!(pass.kind, Kind::W | Kind::BW)
}

/// The reason why weights cannot change this way while `schedule` runs, if there is one: every
/// stage must have all gradients of an update before any of the next, and the last stage no forward
/// of the next.
pub(super) fn obstacle(schedule: &Schedule, updates: Updates) -> Option<String> {
    let (shape, every) = (schedule.shape(), updates.microbatches);
    if schedule.placement() != Placement::Looped || shape.chunks_per_stage() != 1 {
        return Some("every stage must hold one chunk of its own".to_owned());
    }
    if every == 0 || !shape.microbatches().is_multiple_of(every) {
        let all = shape.microbatches();
        return Some(format!("{all} microbatches are no whole updates of {every}"));
    }
    let last = shape.stages() - 1;
    for (stage, order) in schedule.orders().iter().enumerate() {
        let mut done = 0;
        for pass in order.passes() {
            let update = pass.microbatch / every;
            let is_early = (weighs(*pass) || (stage == last && pass.kind == Kind::F))
                && update != done / every;
            if is_early {
                return Some(format!("{pass} of stage {stage} comes before update {update}"));
            }
            done += u32::from(weighs(*pass));
        }
    }
    None
}

impl<W: Trainer, L: Link<W>> Stage<'_, W, L> {
    /// Updates the weights if `slot` completed the gradients of an update, and begins the next
    /// update.
    pub(super) fn update_if_due(&mut self, slot: Slot) -> Result<(), Halt> {
        let Some(Updates { microbatches, .. }) = self.plan.updates() else { return Ok(()) };
        let added = slot.passes().filter(|pass| weighs(*pass)).count();
        let before = self.added;
        self.added += u32::try_from(added).unwrap_or(u32::MAX);
        if before / microbatches == self.added / microbatches {
            return Ok(());
        }
        let loss = self.device(None, |worker, _| worker.loss())?;
        self.losses.extend(loss);
        self.device(None, |worker, _| worker.update(1.0))?;
        let step = self.step;
        // The loss of the next update starts from zero.
        self.device(None, |worker, _| worker.begin_step(step))?;
        self.device(None, |worker, _| worker.clear())
    }
}
