//! The two ends of the model: embeddings before the first layer, head and loss after the last.

use crate::model::Model;
use crate::model::device::{Buffer, Device};
use crate::model::linear::{Linear, Normed, Norming};
use crate::model::parts::{Part, Parts};
use crate::operands::At;
use crate::ops::Ops;
use runtime::DeviceError;

/// Token table `[vocabulary, hidden]` at `at`, followed by positions `[sequence, hidden]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Embedding {
    model: Model,
    pub(crate) at: usize,
    /// Rows of the table of positions: the tokens of a whole sequence.
    places: usize,
}

impl Embedding {
    pub(crate) const fn new(model: Model, at: usize) -> Self {
        Self { model, at, places: model.sequence() }
    }

    /// The same weights for microbatches of `model`, whose sequences are segments.
    pub(crate) const fn on(self, model: Model) -> Self {
        Self { model, ..self }
    }

    const fn positions(self) -> usize {
        self.at + self.model.vocabulary() * self.model.hidden()
    }

    pub(crate) const fn end(self) -> usize {
        self.positions() + self.places * self.model.hidden()
    }

    /// Index of the first position of segment number `segment`.
    const fn positions_of(self, segment: usize) -> usize {
        self.positions() + segment * self.model.sequence() * self.model.hidden()
    }

    /// The input of the first layer.
    pub fn forward<O: Ops>(
        self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        tokens: &O::Tokens,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        self.forward_segment(device, weights, tokens, 0)
    }

    /// The same for the tokens of `segment` of their sequences.
    pub(crate) fn forward_segment<O: Ops>(
        self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        tokens: &O::Tokens,
        segment: usize,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let (sequence, columns) = (self.model.sequence(), self.model.hidden());
        let mut y = device.tensor(self.model.tokens() * columns)?;
        let table = At { buffer: weights, from: self.at };
        let positions = At { buffer: weights, from: self.positions_of(segment) };
        device.ops.embed(sequence, columns, tokens, table, positions, &mut y)?;
        Ok(y)
    }

    /// Accumulates the gradients of both tables. A part of B: there is no product, so W need not
    /// keep `dy`.
    pub fn backward<O: Ops>(
        self,
        device: &mut Device<O>,
        gradients: &mut O::Accumulator,
        tokens: &O::Tokens,
        dy: &O::Tensor,
    ) -> Result<(), DeviceError> {
        self.backward_segment(device, gradients, tokens, 0, dy)
    }

    /// The same for the tokens of `segment` of their sequences.
    pub(crate) fn backward_segment<O: Ops>(
        self,
        device: &mut Device<O>,
        gradients: &mut O::Accumulator,
        tokens: &O::Tokens,
        segment: usize,
        dy: &O::Tensor,
    ) -> Result<(), DeviceError> {
        let (sequence, columns) = (self.model.sequence(), self.model.hidden());
        let (table, positions) = (self.at, self.positions_of(segment));
        device.ops.embed_backward(sequence, columns, tokens, dy, gradients, table, positions)
    }
}

/// Final layer norm, logits = h W^T with W `[vocabulary, hidden]`, and the mean cross entropy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    model: Model,
    pub(crate) norm: Norming,
    pub(crate) logits: Linear,
}

/// The activations that F keeps of the head.
pub struct HeadForwarded<O: Ops> {
    norm: Normed<O>,
    h: Buffer<O::Tensor>,
    logits: Buffer<O::Tensor>,
    targets: Buffer<O::Tokens>,
}

/// The activations that B keeps of the head for W.
pub struct HeadBackwarded<O: Ops> {
    h: Buffer<O::Tensor>,
    d_logits: Buffer<O::Tensor>,
}

impl<O: Ops> HeadForwarded<O> {
    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        let Self { norm, h, logits, targets } = self;
        norm.parts(all);
        all.extend([Part::Tensor(h), Part::Tensor(logits), Part::Tokens(targets)]);
    }
}

impl<O: Ops> HeadBackwarded<O> {
    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        all.extend([&mut self.h, &mut self.d_logits].map(Part::Tensor));
    }
}

impl Head {
    pub(crate) const fn new(model: Model, at: usize) -> Self {
        let columns = model.hidden();
        let norm = Norming { at, columns };
        let outputs = model.vocabulary();
        let logits = Linear { at: norm.end(), inputs: columns, outputs, has_bias: false };
        Self { model, norm, logits }
    }

    pub(crate) const fn end(self) -> usize {
        self.logits.end()
    }

    /// The same weights for microbatches of `model`.
    pub(crate) const fn on(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// Adds `scale` times the cross entropy of all tokens to `loss`.
    pub fn forward<O: Ops>(
        self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        x: Buffer<O::Tensor>,
        targets: Buffer<O::Tokens>,
        scale: f32,
        loss: &mut O::Accumulator,
    ) -> Result<HeadForwarded<O>, DeviceError> {
        let (rows, columns) = (self.model.tokens(), self.model.vocabulary());
        let made = self.activations(device, weights, x, targets)?;
        device.ops.cross_entropy(rows, columns, scale, &made.logits, &made.targets, loss)?;
        Ok(made)
    }

    /// The activations that [`Head::forward`] keeps, without the loss: recomputed by R.
    pub fn activations<O: Ops>(
        self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        x: Buffer<O::Tensor>,
        targets: Buffer<O::Tokens>,
    ) -> Result<HeadForwarded<O>, DeviceError> {
        let rows = self.model.tokens();
        let (h, norm) = self.norm.forward(device, rows, weights, x)?;
        let logits = self.logits.forward(device, rows, weights, &h)?;
        Ok(HeadForwarded { norm, h, logits, targets })
    }

    /// The gradient of x.
    pub fn backward_input<O: Ops>(
        self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        gradients: &mut O::Accumulator,
        kept: HeadForwarded<O>,
        scale: f32,
    ) -> Result<(Buffer<O::Tensor>, HeadBackwarded<O>), DeviceError> {
        let (rows, columns) = (self.model.tokens(), self.model.vocabulary());
        let HeadForwarded { norm, h, logits: mut d_logits, targets } = kept;
        device.ops.cross_entropy_backward(rows, columns, scale, &mut d_logits, &targets)?;
        let dh = self.logits.backward_input(device, rows, weights, &d_logits)?;
        let dx = self.norm.backward(device, rows, weights, gradients, &norm, &dh)?;
        Ok((dx, HeadBackwarded { h, d_logits }))
    }

    /// Accumulates the gradient of W.
    pub fn backward_weight<O: Ops>(
        self,
        device: &mut Device<O>,
        gradients: &mut O::Accumulator,
        kept: &HeadBackwarded<O>,
    ) -> Result<(), DeviceError> {
        let rows = self.model.tokens();
        self.logits.backward_weight(device, rows, gradients, &kept.h, &kept.d_logits)
    }
}
