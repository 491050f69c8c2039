//! The serial emulation of a pipeline that updates its weights while it runs: microbatch by
//! microbatch, each with the versions of the weights that it would have used on the stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::{Kind, Schedule};

use crate::data::Batches;
use crate::model::chunk::{Chunk, Job, loss_scale};
use crate::model::device::Device;
use crate::model::segments::Segment;
use crate::model::{BuildError, Layout, Model, Training};
use crate::ops::Ops;
use runtime::DeviceError;
use runtime::{Updates, Versions};

/// A model trained one microbatch at a time with the weight staleness of a pipeline.
pub struct Stale<O: Ops> {
    device: Device<O>,
    model: Model,
    batches: Arc<dyn Batches>,
    training: Training,
    updates: Updates,
    /// By chunk and microbatch, the number of updates in the step that its stage has made before
    /// the forward.
    made_before: Vec<Vec<u32>>,
    /// Number of updates so far.
    made: u32,
    chunks: Vec<Versioned<O>>,
    first_gradients: Option<Vec<f64>>,
}

/// A chunk with all versions of its weights that a later microbatch may use.
struct Versioned<O: Ops> {
    chunk: Chunk<O>,
    versions: BTreeMap<u32, O::Tensor>,
}

impl<O: Ops> Stale<O> {
    /// `model`, partitioned as in `schedule`, with the initial weights of `training`.
    pub fn new(
        mut ops: O,
        model: Model,
        schedule: &Schedule,
        updates: Updates,
        batches: Arc<dyn Batches>,
        training: Training,
    ) -> Result<Self, BuildError> {
        training.check()?;
        let build = |layout: Layout| -> Result<_, DeviceError> {
            let chunk = Chunk::new(&mut ops, layout, training.seed)?;
            let first = ops.copy_tensor(&chunk.state.weights)?;
            Ok(Versioned { chunk, versions: BTreeMap::from([(0, first)]) })
        };
        let chunks = Layout::by_chunk(model, schedule.shape())?.into_iter().map(build);
        Ok(Self {
            chunks: chunks.collect::<Result<_, _>>()?,
            device: Device::new(ops),
            model,
            batches,
            training,
            updates,
            made_before: made_before(schedule, updates),
            made: 0,
            first_gradients: None,
        })
    }

    /// Trains through step `step`. Returns the mean loss of every update.
    pub fn run(&mut self, step: u32) -> Result<Vec<f64>, DeviceError> {
        let (every, before) = (self.updates.microbatches, self.made);
        let microbatches = self.made_before.first().map_or(0, Vec::len);
        let mut losses = Vec::new();
        for microbatch in 0..u32::try_from(microbatches).unwrap_or(u32::MAX) {
            self.microbatch(step, microbatch, before)?;
            if (microbatch + 1).is_multiple_of(every) {
                losses.extend(self.update()?);
            }
        }
        Ok(losses)
    }

    /// Forward and backward of one microbatch; `before` updates were made before its step.
    fn microbatch(&mut self, step: u32, microbatch: u32, before: u32) -> Result<(), DeviceError> {
        let Updates { microbatches: every, versions } = self.updates;
        let Self { device, model, batches, made_before, chunks, .. } = self;
        let job = Job {
            model: *model,
            batches: &**batches,
            step,
            microbatch,
            segment: Segment::WHOLE,
            scale: loss_scale(*model, every),
        };
        let of_chunk: Vec<u32> = made_before
            .iter()
            .map(|made| match versions {
                Versions::Stashed => before + made[microbatch as usize],
                Versions::DoubleBuffered => (before + microbatch / every).saturating_sub(1),
            })
            .collect();
        let mut value = None;
        let mut kept = Vec::with_capacity(chunks.len());
        for (one, &version) in chunks.iter_mut().zip(&of_chunk) {
            one.exchange(version)?;
            let (output, left) = one.chunk.forward(device, &job, value.take(), &mut [])?;
            one.exchange(version)?;
            (value, _) = (output, kept.push(left));
        }
        for ((one, left), &version) in chunks.iter_mut().zip(kept).zip(&of_chunk).rev() {
            one.exchange(version)?;
            let (gradient, left) =
                one.chunk.backward_input(device, &job, left, value.take(), &mut [])?;
            one.chunk.backward_weight(device, left)?;
            one.exchange(version)?;
            value = gradient;
        }
        Ok(())
    }

    /// Updates all chunks, and clears the gradients. Returns the loss of this update.
    fn update(&mut self) -> Result<Option<f64>, DeviceError> {
        if self.first_gradients.is_none() {
            let ops = &mut self.device.ops;
            let read = |one: &Versioned<O>| ops.read_accumulator(&one.chunk.gradients);
            let parts: Vec<Vec<f64>> =
                self.chunks.iter().map(read).collect::<Result<_, DeviceError>>()?;
            self.first_gradients = Some(parts.concat());
        }
        self.made += 1;
        // No stage has more microbatches in flight than there are stages.
        let chunks = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        let (made, oldest) = (self.made, self.made.saturating_sub(chunks.saturating_add(1)));
        let (ops, rule) = (&mut self.device.ops, self.training.rule);
        let mut loss = None;
        for Versioned { chunk, versions } in &mut self.chunks {
            loss = chunk.loss(ops)?.or(loss);
            ops.adamw(rule, made, 1.0, &chunk.gradients, &mut chunk.state)?;
            chunk.clear(ops)?;
            versions.insert(made, ops.copy_tensor(&chunk.state.weights)?);
            versions.retain(|&version, _| version >= oldest);
        }
        Ok(loss)
    }

    /// The gradients of the first update, for all parameters in model order; `None` before it.
    #[must_use]
    pub fn first_gradients(&self) -> Option<&[f64]> {
        self.first_gradients.as_deref()
    }

    /// The master weights, in model order.
    pub fn weights(&mut self) -> Result<Vec<f64>, DeviceError> {
        let ops = &mut self.device.ops;
        let read = |one: &Versioned<O>| ops.read_accumulator(&one.chunk.state.master);
        let parts: Vec<Vec<f64>> = self.chunks.iter().map(read).collect::<Result<_, _>>()?;
        Ok(parts.concat())
    }
}

impl<O: Ops> Versioned<O> {
    /// Swaps the newest weights with another version, or back.
    fn exchange(&mut self, version: u32) -> Result<(), DeviceError> {
        let missing =
            || DeviceError::NotAtHand { what: format!("version {version} of the weights") };
        let kept = self.versions.get_mut(&version).ok_or_else(missing)?;
        std::mem::swap(&mut self.chunk.state.weights, kept);
        Ok(())
    }
}

/// By stage and microbatch, the number of updates in the step that a stage has made before the
/// forward, by its order alone.
fn made_before(schedule: &Schedule, updates: Updates) -> Vec<Vec<u32>> {
    let microbatches = schedule.shape().microbatches() as usize;
    let of_stage = |order: &pipeline::Order| {
        let (mut made, mut weighed) = (vec![0; microbatches], 0);
        for pass in order.passes() {
            match pass.kind {
                Kind::F => made[pass.microbatch as usize] = weighed / updates.microbatches,
                Kind::W | Kind::BW => weighed += 1,
                _ => {}
            }
        }
        made
    };
    schedule.orders().iter().map(of_stage).collect()
}
