//! Updates while the pipeline runs: a stage updates as soon as it has the gradients of the update's
//! microbatches, without synchronization.

use pipeline::Slot;

use super::failure::Halt;
use super::link::Link;
use super::stage::Stage;
use super::update_order::weighs;
use crate::weights::Updates;
use crate::worker::Trainer;

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
