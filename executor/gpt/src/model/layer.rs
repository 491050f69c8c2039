//! One transformer layer, forward and backward in two parts:
//! x2 = x + out(attention(norm1(x))), y = x2 + down(gelu(up(norm2(x2)))).

use crate::model::Model;
use crate::model::attention::{self, Attended};
use crate::model::device::{Buffer, Device};
use crate::model::linear::{Linear, Normed, Norming};
use crate::model::parts::{Part, Parts};
use crate::model::segments::{self, AttendedBehind, Past};
use crate::operands::Heads;
use crate::ops::Ops;
use runtime::DeviceError;

/// A transformer layer: its sizes, and the place of its weights in a parameter vector.
///
/// Linears store W as `[outputs, inputs]`, followed by the bias; qkv has the outputs `[3, heads,
/// width]`.
///
/// ```
/// use gpt::{Cpu, Device, Layer, Model, Ops};
///
/// let model = Model::new(8, 2, 1, 16, 4, 1)?;
/// let layer = Layer::new(model, 0);
/// let mut device = Device::new(Cpu::<f32>::new());
/// let weights = device.ops.tensor(layer.end())?;
/// let mut gradients = device.ops.accumulator(layer.end())?;
///
/// let x = device.tensor(model.tokens() * model.hidden())?;
/// let (y, kept) = layer.forward(&mut device, &weights, x)?;
/// let dy = y;
/// let (dx, kept) = layer.backward_input(&mut device, &weights, &mut gradients, kept, dy)?;
/// layer.backward_weight(&mut device, &mut gradients, kept)?;
/// drop(dx);
/// assert_eq!(device.activations().held.0, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    model: Model,
    pub(crate) norm1: Norming,
    pub(crate) qkv: Linear,
    pub(crate) out: Linear,
    pub(crate) norm2: Norming,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// The activations that F keeps for B and W: per token 16 h elements, one per head and token of the
/// sequence, and mean and rstd of two layer norms.
pub struct Forwarded<O: Ops> {
    norm1: Normed<O>,
    h1: Buffer<O::Tensor>,
    attended: Attention<O>,
    merged: Buffer<O::Tensor>,
    norm2: Normed<O>,
    h2: Buffer<O::Tensor>,
    before_gelu: Buffer<O::Tensor>,
    after_gelu: Buffer<O::Tensor>,
}

/// The activations of attention that F keeps: of a whole sequence, or of a segment.
enum Attention<O: Ops> {
    Whole(Attended<O>),
    Behind(AttendedBehind<O>),
}

/// The activations that B keeps for W: the inputs of the four linears and the gradients of their
/// outputs, 16 h elements per token (Zero Bubble, section 2: M_W = 32 s b h bytes at 2 bytes each).
pub struct Backwarded<O: Ops> {
    h1: Buffer<O::Tensor>,
    d_qkv: Buffer<O::Tensor>,
    merged: Buffer<O::Tensor>,
    d_x2: Buffer<O::Tensor>,
    h2: Buffer<O::Tensor>,
    d_up: Buffer<O::Tensor>,
    after_gelu: Buffer<O::Tensor>,
    dy: Buffer<O::Tensor>,
}

impl<O: Ops> Attention<O> {
    /// Adds its buffers to `all`.
    fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        match self {
            Self::Whole(attended) => attended.parts(all),
            Self::Behind(attended) => attended.parts(all),
        }
    }
}

impl<O: Ops> Forwarded<O> {
    /// Discards the attention weights; [`Layer::recompute_attention`] recomputes them.
    pub fn discard_attention(&mut self) {
        // Those of a segment are kept: no schedule of segments recomputes.
        if let Attention::Whole(attended) = &mut self.attended {
            attended.discard();
        }
    }

    /// The input of the layer; the rest is discarded.
    #[must_use]
    pub fn into_input(self) -> Buffer<O::Tensor> {
        self.norm1.into_x()
    }

    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        let Self { norm1, h1, attended, merged, norm2, h2, before_gelu, after_gelu } = self;
        norm1.parts(all);
        attended.parts(all);
        norm2.parts(all);
        all.extend([h1, merged, h2, before_gelu, after_gelu].map(Part::Tensor));
    }
}

impl<O: Ops> Backwarded<O> {
    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        let Self { h1, d_qkv, merged, d_x2, h2, d_up, after_gelu, dy } = self;
        all.extend([h1, d_qkv, merged, d_x2, h2, d_up, after_gelu, dy].map(Part::Tensor));
    }
}

impl Layer {
    /// A layer of `model` whose weights begin at index `at`.
    #[must_use]
    pub const fn new(model: Model, at: usize) -> Self {
        let h = model.hidden();
        let norm1 = Norming { at, columns: h };
        let qkv = Linear { at: norm1.end(), inputs: h, outputs: 3 * h, has_bias: true };
        let out = Linear { at: qkv.end(), inputs: h, outputs: h, has_bias: true };
        let norm2 = Norming { at: out.end(), columns: h };
        let up = Linear { at: norm2.end(), inputs: h, outputs: 4 * h, has_bias: true };
        let down = Linear { at: up.end(), inputs: 4 * h, outputs: h, has_bias: true };
        Self { model, norm1, qkv, out, norm2, up, down }
    }

    /// The same weights for microbatches of `model`.
    pub(crate) const fn on(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// The index behind its last weight.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.down.end()
    }

    const fn heads(&self) -> Heads {
        let model = self.model;
        Heads {
            batch: model.microbatch_size(),
            sequence: model.sequence(),
            heads: model.heads(),
            width: model.hidden() / model.heads(),
        }
    }

    /// F: y from x, both `[tokens, hidden]`.
    pub fn forward<O: Ops>(
        &self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        x: Buffer<O::Tensor>,
    ) -> Result<(Buffer<O::Tensor>, Forwarded<O>), DeviceError> {
        self.forward_behind(device, weights, x, None)
    }

    /// F of a segment after those in `past`, or of whole sequences.
    pub(crate) fn forward_behind<O: Ops>(
        &self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        x: Buffer<O::Tensor>,
        past: Option<&mut Past<O>>,
    ) -> Result<(Buffer<O::Tensor>, Forwarded<O>), DeviceError> {
        let rows = self.model.tokens();
        let len = rows * self.model.hidden();
        let (h1, norm1) = self.norm1.forward(device, rows, weights, x)?;
        let qkv = self.qkv.forward(device, rows, weights, &h1)?;
        let (merged, attended) = match past {
            None => {
                let (merged, kept) = attention::forward(device, self.heads(), &qkv)?;
                (merged, Attention::Whole(kept))
            }
            Some(past) => {
                let (merged, kept) = segments::forward(device, self.heads(), &qkv, past)?;
                (merged, Attention::Behind(kept))
            }
        };
        drop(qkv);
        let mut x2 = self.out.forward(device, rows, weights, &merged)?;
        device.ops.add(len, norm1.x(), &mut x2)?;
        let (h2, norm2) = self.norm2.forward(device, rows, weights, x2)?;
        let before_gelu = self.up.forward(device, rows, weights, &h2)?;
        let mut after_gelu = device.tensor(4 * len)?;
        device.ops.gelu(4 * len, &before_gelu, &mut after_gelu)?;
        let mut y = self.down.forward(device, rows, weights, &after_gelu)?;
        device.ops.add(len, norm2.x(), &mut y)?;
        let kept = Forwarded { norm1, h1, attended, merged, norm2, h2, before_gelu, after_gelu };
        Ok((y, kept))
    }

    /// Recomputes the attention weights that were discarded.
    pub fn recompute_attention<O: Ops>(
        &self,
        device: &mut Device<O>,
        kept: &mut Forwarded<O>,
    ) -> Result<(), DeviceError> {
        match &mut kept.attended {
            Attention::Whole(attended) => attended.recompute(device, self.heads()),
            Attention::Behind(_) => Ok(()),
        }
    }

    /// B: the gradient of x from that of y; accumulates the gradients of the layer norms' weights.
    pub fn backward_input<O: Ops>(
        &self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        gradients: &mut O::Accumulator,
        kept: Forwarded<O>,
        dy: Buffer<O::Tensor>,
    ) -> Result<(Buffer<O::Tensor>, Backwarded<O>), DeviceError> {
        self.backward_input_behind(device, weights, gradients, kept, dy, None)
    }

    /// B of the last segment in `past`, or of whole sequences.
    pub(crate) fn backward_input_behind<O: Ops>(
        &self,
        device: &mut Device<O>,
        weights: &O::Tensor,
        gradients: &mut O::Accumulator,
        kept: Forwarded<O>,
        dy: Buffer<O::Tensor>,
        past: Option<&mut Past<O>>,
    ) -> Result<(Buffer<O::Tensor>, Backwarded<O>), DeviceError> {
        let rows = self.model.tokens();
        let len = rows * self.model.hidden();
        let Forwarded { norm1, h1, attended, merged, norm2, h2, before_gelu, after_gelu } = kept;
        let mut d_up = self.down.backward_input(device, rows, weights, &dy)?;
        device.ops.gelu_backward(4 * len, &before_gelu, &mut d_up)?;
        drop(before_gelu);
        let d_h2 = self.up.backward_input(device, rows, weights, &d_up)?;
        let mut d_x2 = self.norm2.backward(device, rows, weights, gradients, &norm2, &d_h2)?;
        drop((norm2, d_h2));
        device.ops.add(len, &dy, &mut d_x2)?;

        let d_merged = self.out.backward_input(device, rows, weights, &d_x2)?;
        let d_qkv = match (attended, past) {
            (Attention::Whole(kept), _) => {
                attention::backward(device, self.heads(), kept, d_merged)?
            }
            (Attention::Behind(kept), Some(past)) => {
                segments::backward(device, self.heads(), kept, d_merged, past)?
            }
            (Attention::Behind(_), None) => {
                let what = "the segments before this one".to_owned();
                return Err(DeviceError::NotAtHand { what });
            }
        };
        let d_h1 = self.qkv.backward_input(device, rows, weights, &d_qkv)?;
        let mut dx = self.norm1.backward(device, rows, weights, gradients, &norm1, &d_h1)?;
        device.ops.add(len, &d_x2, &mut dx)?;
        Ok((dx, Backwarded { h1, d_qkv, merged, d_x2, h2, d_up, after_gelu, dy }))
    }

    /// W: accumulates the gradients of the linears.
    pub fn backward_weight<O: Ops>(
        &self,
        device: &mut Device<O>,
        gradients: &mut O::Accumulator,
        kept: Backwarded<O>,
    ) -> Result<(), DeviceError> {
        let rows = self.model.tokens();
        let Backwarded { h1, d_qkv, merged, d_x2, h2, d_up, after_gelu, dy } = kept;
        let linears = [
            (self.down, after_gelu, dy),
            (self.up, h2, d_up),
            (self.out, merged, d_x2),
            (self.qkv, h1, d_qkv),
        ];
        for (linear, x, dy) in linears {
            linear.backward_weight(device, rows, gradients, &x, &dy)?;
        }
        Ok(())
    }
}
