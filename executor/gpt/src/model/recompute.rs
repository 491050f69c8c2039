//! Recomputation: the activations that F keeps of a chunk that discards the rest, and R.
//!
//! R runs the kernels of F again, with the same weights and in the same order, so that B gets the
//! same bits; only the loss is not added a second time.

use crate::model::chunk::{Chunk, ChunkForwarded, End, Job};
use crate::model::device::{Buffer, Device, Made};
use crate::model::layer::Forwarded;
use crate::model::not_at_hand::not_at_hand;
use crate::model::parts::{Part, Parts};
use crate::ops::Ops;
use runtime::DeviceError;

/// The part of a chunk whose activations are discarded after F and recomputed by R.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recomputed {
    /// The attention weights of every layer: all activations of the attention core except queries,
    /// keys and values.
    Attention,
    /// The first layers of the chunk, up to this number.
    Layers(usize),
    /// All layers, and the head.
    #[default]
    Everything,
}

impl Recomputed {
    /// Number of the `layers` layers of a chunk that run again, from the first on.
    pub(crate) fn layers(self, layers: usize) -> usize {
        match self {
            Self::Attention => 0,
            Self::Layers(again) => again.min(layers),
            Self::Everything => layers,
        }
    }
}

/// The activations that F keeps of one microbatch until R.
pub(crate) struct ChunkKept<O: Ops> {
    part: Recomputed,
    tokens: Option<Buffer<O::Tokens>>,
    /// The input of the first layer, if that layer runs again and has no embedding before it.
    input: Option<Buffer<O::Tensor>>,
    /// Activations of the layers that do not run again.
    layers: Vec<Forwarded<O>>,
    end: Option<End<O>>,
}

impl<O: Ops> ChunkKept<O> {
    /// Its buffers.
    pub(crate) fn parts(&mut self) -> Parts<'_, O> {
        let Self { tokens, input, layers, end, .. } = self;
        let mut all: Parts<'_, O> = tokens.iter_mut().map(Part::Tokens).collect();
        all.extend(input.iter_mut().map(Part::Tensor));
        layers.iter_mut().for_each(|layer| layer.parts(&mut all));
        end.iter_mut().for_each(|end| end.parts(&mut all));
        all
    }
}

impl<O: Ops> Chunk<O> {
    /// F where `part` is recomputed: the output, and the kept activations. Each layer discards its
    /// own as soon as it has run.
    pub(crate) fn forward_keeping(
        &mut self,
        device: &mut Device<O>,
        job: &Job<'_>,
        input: Made<O>,
        part: Recomputed,
    ) -> Result<(Made<O>, ChunkKept<O>), DeviceError> {
        let weights = &self.state.weights;
        let again = part.layers(self.layout.layers().len());
        let (mut x, tokens) = self.enter(device, job, input)?;
        let (mut input, mut layers) = (None, Vec::new());
        for (number, layer) in self.layout.layers().iter().enumerate() {
            let (y, mut kept) = layer.forward(device, weights, x)?;
            x = y;
            if part == Recomputed::Attention {
                kept.discard_attention();
            }
            match number < again {
                false => layers.push(kept),
                true if number == 0 && tokens.is_none() => input = Some(kept.into_input()),
                true => drop(kept),
            }
        }
        let (output, end) = self.leave(device, job, x)?;
        let end = end.filter(|_| part != Recomputed::Everything);
        Ok((output, ChunkKept { part, tokens, input, layers, end }))
    }

    /// R: all activations that F would have kept, had it discarded none.
    pub(crate) fn recompute(
        &self,
        device: &mut Device<O>,
        job: &Job<'_>,
        kept: ChunkKept<O>,
    ) -> Result<ChunkForwarded<O>, DeviceError> {
        let ChunkKept { part, tokens, input, layers: mut rest, end } = kept;
        if part == Recomputed::Attention {
            for (layer, kept) in self.layout.layers().iter().zip(&mut rest) {
                layer.recompute_attention(device, kept)?;
            }
            return Ok(ChunkForwarded { tokens, layers: rest, end });
        }
        let weights = &self.state.weights;
        let mut x = match (self.layout.embedding(), &tokens) {
            (Some(embedding), Some(tokens)) => embedding.forward(device, weights, tokens)?,
            _ => input.ok_or_else(|| not_at_hand("the input that a recomputation starts from"))?,
        };
        let again = part.layers(self.layout.layers().len());
        let mut layers = Vec::with_capacity(self.layout.layers().len());
        for layer in &self.layout.layers()[..again] {
            let (y, kept) = layer.forward(device, weights, x)?;
            layers.push(kept);
            x = y;
        }
        layers.append(&mut rest);
        let end = match (self.layout.head(), self.layout.norm(), part) {
            (Some(own), _, Recomputed::Everything) => {
                let targets = device.tokens(&job.batch()?.targets)?;
                Some(End::Head(own.activations(device, weights, x, targets)?))
            }
            (None, Some(norm), Recomputed::Everything) => {
                let (_, kept) = norm.forward(device, job.model.tokens(), weights, x)?;
                Some(End::Norm(kept))
            }
            _ => end,
        };
        Ok(ChunkForwarded { tokens, layers, end })
    }
}
