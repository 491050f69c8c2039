//! Two copies of the model, in opposite directions: the stages that hold the same weights
//! all-reduce their gradients before the boundary between two steps.

use super::board::Awaited;
use super::failure::Halt;
use super::link::Link;
use super::stage::Stage;
use crate::worker::Trainer;

impl<W: Trainer, L: Link<W>> Stage<'_, W, L> {
    /// All-reduces the gradients with the other stage that holds the same weights, if there is such
    /// a stage. A sum of two terms does not depend on their order: both stages get the same bits.
    pub(super) fn add_gradients_of_twin(&mut self) -> Result<(), Halt> {
        let Some(twin) = self.plan.twin(self.stage) else { return Ok(()) };
        let step = self.step;
        let ours = self.device(None, |worker, _| worker.share())?;
        self.link.send_gradients(twin, step, ours)?;
        loop {
            if let Some(theirs) = self.inbox.take_gradients(step) {
                return self.device(None, |worker, _| worker.merge(&theirs));
            }
            self.wait_for(Awaited::Gradients(step), twin, |inbox| inbox.has_gradients(step))?;
        }
    }
}
