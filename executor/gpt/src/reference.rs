//! The serial reference: the same model on one device, microbatch by microbatch, without schedule,
//! stages or links. A pipeline must compute the same.

use std::ops::Range;
use std::sync::Arc;

use crate::data::Batches;
use crate::model::chunk::{Chunk, Job, loss_scale};
use crate::model::device::Device;
use crate::model::segments::Segment;
use crate::model::{BuildError, Layout, Model, Training};
use crate::operands::At;
use crate::ops::Ops;
use runtime::DeviceError;

/// A model trained without a pipeline.
pub struct Reference<O: Ops> {
    device: Device<O>,
    model: Model,
    batches: Arc<dyn Batches>,
    training: Training,
    updates: u32,
    chunk: Chunk<O>,
}

impl<O: Ops> Reference<O> {
    /// `model` with the initial weights of `training`.
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

    /// Computes step `step` of `microbatches`. Returns its mean loss; the gradients are kept.
    pub fn run(&mut self, step: u32, microbatches: u32) -> Result<f64, DeviceError> {
        self.run_part(step, microbatches, 0..microbatches)
    }

    /// The same as two copies of the model compute it, one with the first half of the microbatches
    /// and one with the second, whose gradients and losses are then added: to the bit the result of
    /// a bidirectional pipeline. It differs from [`Reference::run`] by the order of m - 1
    /// additions.
    pub fn run_in_halves(&mut self, step: u32, microbatches: u32) -> Result<f64, DeviceError> {
        let half = microbatches.div_ceil(2);
        let loss = self.run_part(step, microbatches, 0..half)?;
        if half == microbatches {
            return Ok(loss);
        }
        let first = self.gradients()?;
        let loss = loss + self.run_part(step, microbatches, half..microbatches)?;
        let mut sums = self.gradients()?;
        sums.iter_mut().zip(first).for_each(|(sum, other)| *sum += other);
        self.device.ops.write_accumulator(&sums, At::start(&mut self.chunk.gradients))?;
        Ok(loss)
    }

    /// Computes the microbatches in `part` of a step of `microbatches`. Returns their share of the
    /// mean loss.
    fn run_part(
        &mut self,
        step: u32,
        microbatches: u32,
        part: Range<u32>,
    ) -> Result<f64, DeviceError> {
        let Self { device, model, batches, chunk, .. } = self;
        chunk.clear(&mut device.ops)?;
        let scale = loss_scale(*model, microbatches);
        for microbatch in part {
            let (model, segment) = (*model, Segment::WHOLE);
            let job = Job { model, batches: &**batches, step, microbatch, segment, scale };
            let (_, kept) = chunk.forward(device, &job, None, &mut [])?;
            let (_, kept) = chunk.backward_input(device, &job, kept, None, &mut [])?;
            chunk.backward_weight(device, kept)?;
        }
        let loss = chunk.loss(&mut device.ops)?;
        loss.ok_or_else(|| DeviceError::NotAtHand { what: "the loss".to_owned() })
    }

    /// The gradients of the last step, for all parameters in model order.
    pub fn gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.device.ops.read_accumulator(&self.chunk.gradients)
    }

    /// The master weights, in model order.
    pub fn weights(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.device.ops.read_accumulator(&self.chunk.state.master)
    }

    /// One optimizer step with the gradients of the last step times `scale`.
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
