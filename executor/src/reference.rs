//! The serial reference: the same model in one piece, microbatch by microbatch, without schedule,
//! stages or links. What a pipeline computes must equal this.

use std::sync::Arc;

use crate::data::Batches;
use crate::error::DeviceError;
use crate::model::chunk::{Chunk, Job, loss_scale};
use crate::model::device::Device;
use crate::model::{BuildError, Layout, Model, Training};
#[cfg(test)]
use crate::ops::At;
use crate::ops::Ops;

/// A model trained in one piece.
pub struct Reference<O: Ops> {
    device: Device<O>,
    model: Model,
    batches: Arc<dyn Batches>,
    training: Training,
    updates: u32,
    chunk: Chunk<O>,
}

impl<O: Ops> Reference<O> {
    /// `model` with the weights that `training` begins with.
    ///
    /// # Errors
    /// An optimizer that cannot be, or too little memory.
    pub fn new(
        mut ops: O,
        model: Model,
        batches: Arc<dyn Batches>,
        training: Training,
    ) -> Result<Self, BuildError> {
        training.check()?;
        let chunk = Chunk::new(&mut ops, Layout::whole(model), training.seed)?;
        Ok(Self { device: Device::new(ops), model, batches, training, updates: 0, chunk })
    }

    /// Computes step `step` of `microbatches`: its mean loss; the gradients are kept.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn run(&mut self, step: u32, microbatches: u32) -> Result<f64, DeviceError> {
        let Self { device, model, batches, chunk, .. } = self;
        chunk.clear(&mut device.ops)?;
        let scale = loss_scale(*model, microbatches);
        for microbatch in 0..microbatches {
            let job = Job { model: *model, batches: &**batches, step, microbatch, scale };
            let (_, kept) = chunk.forward(device, &job, None)?;
            let (_, kept) = chunk.backward_input(device, &job, kept, None)?;
            chunk.backward_weight(device, kept)?;
        }
        let loss = chunk.loss(&mut device.ops)?;
        loss.ok_or_else(|| DeviceError::NotAtHand { what: "the loss".to_owned() })
    }

    /// The gradients of the last step, for all parameters in model order.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.device.ops.read_sums(&self.chunk.gradients)
    }

    /// The weights as the optimizer keeps them, in model order.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn weights(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.device.ops.read_sums(&self.chunk.state.master)
    }

    /// One step of the optimizer with the gradients of the last step times `scale`.
    ///
    /// # Errors
    /// Whatever stops the device.
    pub fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.updates += 1;
        let Chunk { gradients, state, .. } = &mut self.chunk;
        self.device.ops.adamw(self.training.rule, self.updates, scale, gradients, state)
    }

    #[cfg(test)]
    pub(crate) fn set_weights(&mut self, values: &[f64]) {
        let to = At::start(&mut self.chunk.state.weights);
        self.device.ops.write(values, to).unwrap();
    }
}
