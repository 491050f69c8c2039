//! One chunk of the model with its weights, and its passes of one microbatch.

use crate::data::{Batch, Batches};
use crate::model::device::{Buffer, Device, Made};
use crate::model::ends::{HeadBackwarded, HeadForwarded};
use crate::model::layer::{Backwarded, Forwarded};
use crate::model::linear::Normed;
use crate::model::not_at_hand::not_at_hand;
use crate::model::parts::{Part, Parts};
use crate::model::segments::{Past, Segment};
use crate::model::{Layout, Model, initial};
use crate::ops::{Moments, Ops};
use runtime::DeviceError;

/// The microbatch and step of a pass, and the scale of its loss.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) model: Model,
    pub(crate) batches: &'a dyn Batches,
    pub(crate) step: u32,
    pub(crate) microbatch: u32,
    /// The segment of the microbatch's sequences; `model` has the sizes of a segment.
    pub(crate) segment: Segment,
    /// 1 / (tokens of a microbatch x microbatches).
    pub(crate) scale: f32,
}

impl Job<'_> {
    pub(crate) fn targets(&self) -> Result<Vec<u32>, DeviceError> {
        Ok(self.batch()?.targets)
    }

    /// The tokens and targets, checked against the model: no kernel may read past a table.
    pub(crate) fn batch(&self) -> Result<Batch, DeviceError> {
        let batch = self.batches.batch(self.step, self.microbatch);
        let batch = self.segment.of(batch, self.model);
        let (tokens, vocabulary) = (self.model.tokens(), self.model.vocabulary());
        let fits = |all: &[u32]| {
            all.len() == tokens && all.iter().all(|&token| (token as usize) < vocabulary)
        };
        if fits(&batch.tokens) && fits(&batch.targets) {
            return Ok(batch);
        }
        let what = format!("a microbatch of {tokens} tokens below {vocabulary}");
        Err(DeviceError::NotAtHand { what })
    }
}

/// 1 / (tokens of a microbatch x microbatches): the share of a token in the mean loss of a step.
#[allow(clippy::cast_possible_truncation)] // Kernels take their factors as f32.
pub(crate) fn loss_scale(model: Model, microbatches: u32) -> f32 {
    (1.0 / (model.tokens() as f64 * f64::from(microbatches))) as f32
}

/// A chunk of the model on a device.
pub(crate) struct Chunk<O: Ops> {
    pub(crate) layout: Layout,
    pub(crate) state: Moments<O::Tensor, O::Accumulator>,
    pub(crate) gradients: O::Accumulator,
    /// The loss of the step, in the chunk with the head; in a shard of the head, the loss of its
    /// targets.
    pub(crate) loss: Option<O::Accumulator>,
}

/// The input of the first layer, and the tokens that it was embedded from.
pub(crate) type Entered<O> = (Buffer<<O as Ops>::Tensor>, Option<Buffer<<O as Ops>::Tokens>>);

/// Activations that F keeps of the end of the model, in the last chunk.
pub(crate) enum End<O: Ops> {
    Head(HeadForwarded<O>),
    /// Of the final layer norm alone, where the output layer is in shards.
    Norm(Normed<O>),
}

impl<O: Ops> End<O> {
    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        match self {
            Self::Head(head) => head.parts(all),
            Self::Norm(norm) => norm.parts(all),
        }
    }
}

/// The activations that F keeps of one microbatch.
pub(crate) struct ChunkForwarded<O: Ops> {
    pub(crate) tokens: Option<Buffer<O::Tokens>>,
    pub(crate) layers: Vec<Forwarded<O>>,
    pub(crate) end: Option<End<O>>,
}

/// The activations that B keeps of one microbatch for W.
pub(crate) struct ChunkBackwarded<O: Ops> {
    layers: Vec<Backwarded<O>>,
    head: Option<HeadBackwarded<O>>,
}

impl<O: Ops> ChunkForwarded<O> {
    /// Its buffers.
    pub(crate) fn parts(&mut self) -> Parts<'_, O> {
        let Self { tokens, layers, end } = self;
        let mut all: Parts<'_, O> = tokens.iter_mut().map(Part::Tokens).collect();
        layers.iter_mut().for_each(|layer| layer.parts(&mut all));
        end.iter_mut().for_each(|end| end.parts(&mut all));
        all
    }
}

impl<O: Ops> ChunkBackwarded<O> {
    /// Its buffers.
    pub(crate) fn parts(&mut self) -> Parts<'_, O> {
        let mut all = Vec::new();
        self.layers.iter_mut().for_each(|layer| layer.parts(&mut all));
        self.head.iter_mut().for_each(|head| head.parts(&mut all));
        all
    }
}

impl<O: Ops> Chunk<O> {
    /// The chunk of `layout` with the initial weights of `seed`.
    pub(crate) fn new(ops: &mut O, layout: Layout, seed: u64) -> Result<Self, DeviceError> {
        let state = initial(ops, &layout, seed)?;
        let gradients = ops.accumulator(layout.parameters())?;
        let has_loss = layout.head().is_some() || layout.shard().is_some();
        let loss = has_loss.then(|| ops.accumulator(1)).transpose()?;
        Ok(Self { layout, state, gradients, loss })
    }

    /// F: the output, unless the chunk has the head. With segmented sequences, each layer has its
    /// `past`.
    pub(crate) fn forward(
        &mut self,
        device: &mut Device<O>,
        job: &Job<'_>,
        input: Made<O>,
        past: &mut [Past<O>],
    ) -> Result<(Made<O>, ChunkForwarded<O>), DeviceError> {
        let (mut x, tokens) = self.enter(device, job, input)?;
        let weights = &self.state.weights;
        let mut layers = Vec::with_capacity(self.layout.layers().len());
        for (at, layer) in self.layout.layers().iter().enumerate() {
            let (y, kept) = layer.forward_behind(device, weights, x, past.get_mut(at))?;
            layers.push(kept);
            x = y;
        }
        let (output, end) = self.leave(device, job, x)?;
        Ok((output, ChunkForwarded { tokens, layers, end }))
    }

    /// The input of the first layer, and in the first chunk the tokens that it is embedded from.
    pub(crate) fn enter(
        &self,
        device: &mut Device<O>,
        job: &Job<'_>,
        input: Made<O>,
    ) -> Result<Entered<O>, DeviceError> {
        let Some(embedding) = self.layout.embedding() else {
            let x = input.ok_or_else(|| not_at_hand("the output of the chunk before"))?;
            return Ok((x, None));
        };
        let tokens = device.tokens(&job.batch()?.tokens)?;
        let (weights, segment) = (&self.state.weights, job.segment.index);
        Ok((embedding.forward_segment(device, weights, &tokens, segment)?, Some(tokens)))
    }

    /// The output of the chunk from that of its last layer; in the last chunk, the loss.
    pub(crate) fn leave(
        &mut self,
        device: &mut Device<O>,
        job: &Job<'_>,
        x: Buffer<O::Tensor>,
    ) -> Result<(Made<O>, Option<End<O>>), DeviceError> {
        if let Some(norm) = self.layout.norm() {
            let (h, kept) = norm.forward(device, job.model.tokens(), &self.state.weights, x)?;
            return Ok((Some(h), Some(End::Norm(kept))));
        }
        let (Some(head), Some(loss)) = (self.layout.head(), &mut self.loss) else {
            return Ok((Some(x), None));
        };
        let targets = device.tokens(&job.batch()?.targets)?;
        let weights = &self.state.weights;
        let head = head.forward(device, weights, x, targets, job.scale, loss)?;
        Ok((None, Some(End::Head(head))))
    }

    /// B: the gradient of the input, unless this is the first chunk. Frees all activations that W
    /// does not need.
    pub(crate) fn backward_input(
        &mut self,
        device: &mut Device<O>,
        job: &Job<'_>,
        kept: ChunkForwarded<O>,
        gradient: Made<O>,
        past: &mut [Past<O>],
    ) -> Result<(Made<O>, ChunkBackwarded<O>), DeviceError> {
        let (weights, sums) = (&self.state.weights, &mut self.gradients);
        let ChunkForwarded { tokens, layers, end } = kept;
        let next = || gradient.ok_or_else(|| not_at_hand("the gradient of the next chunk"));
        let (mut dy, head) = match (end, self.layout.head(), self.layout.norm()) {
            (Some(End::Head(kept)), Some(head), _) => {
                let (dx, kept) = head.backward_input(device, weights, sums, kept, job.scale)?;
                (dx, Some(kept))
            }
            (Some(End::Norm(kept)), _, Some(norm)) => {
                let (rows, dh) = (job.model.tokens(), next()?);
                (norm.backward(device, rows, weights, sums, &kept, &dh)?, None)
            }
            _ => (next()?, None),
        };
        let mut left = Vec::with_capacity(layers.len());
        for ((at, layer), kept) in self.layout.layers().iter().enumerate().zip(layers).rev() {
            let past = past.get_mut(at);
            let (dx, kept) = layer.backward_input_behind(device, weights, sums, kept, dy, past)?;
            left.push(kept);
            dy = dx;
        }
        let left = ChunkBackwarded { layers: left, head };
        let (Some(embedding), Some(tokens)) = (self.layout.embedding(), tokens) else {
            return Ok((Some(dy), left));
        };
        embedding.backward_segment(device, sums, &tokens, job.segment.index, &dy)?;
        Ok((None, left))
    }

    /// W: accumulates the gradients of the linears, and frees the remaining activations.
    pub(crate) fn backward_weight(
        &mut self,
        device: &mut Device<O>,
        kept: ChunkBackwarded<O>,
    ) -> Result<(), DeviceError> {
        let ChunkBackwarded { layers, head } = kept;
        if let Some((head, kept)) = self.layout.head().zip(head) {
            head.backward_weight(device, &mut self.gradients, &kept)?;
        }
        for (layer, kept) in self.layout.layers().iter().rev().zip(layers) {
            layer.backward_weight(device, &mut self.gradients, kept)?;
        }
        Ok(())
    }

    /// Sets gradients and loss to zero.
    pub(crate) fn clear(&mut self, ops: &mut O) -> Result<(), DeviceError> {
        ops.clear(&mut self.gradients)?;
        self.clear_loss(ops)
    }

    /// Sets the loss to zero.
    pub(crate) fn clear_loss(&mut self, ops: &mut O) -> Result<(), DeviceError> {
        self.loss.as_mut().map_or(Ok(()), |loss| ops.clear(loss))
    }

    /// The loss so far, in the chunk with the head.
    pub(crate) fn loss(&self, ops: &mut O) -> Result<Option<f64>, DeviceError> {
        let Some(loss) = &self.loss else { return Ok(None) };
        Ok(ops.read_accumulator(loss)?.first().copied())
    }
}
