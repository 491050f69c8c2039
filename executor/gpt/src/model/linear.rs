//! A linear layer and a layer norm: the place of their parameters, and their forward and backward.

use crate::model::device::{Buffer, Device};
use crate::model::parts::{Part, Parts};
use crate::operands::{At, Gemm};
use crate::ops::Ops;
use runtime::DeviceError;

/// y = x W^T + b. W is `[outputs, inputs]` at `at`, followed by b `[outputs]`, if there is a bias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Linear {
    pub(crate) at: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) has_bias: bool,
}

impl Linear {
    pub(crate) const fn weights(self) -> usize {
        self.inputs * self.outputs
    }

    pub(crate) const fn end(self) -> usize {
        self.at + self.weights() + if self.has_bias { self.outputs } else { 0 }
    }

    const fn bias(self) -> usize {
        self.at + self.weights()
    }

    /// y from x, `[rows, inputs]`.
    pub(crate) fn forward<O: Ops>(
        self,
        device: &mut Device<O>,
        rows: usize,
        weights: &O::Tensor,
        x: &O::Tensor,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let mut y = device.tensor(rows * self.outputs)?;
        let shape = Gemm { transpose_b: true, ..product(rows, self.outputs, self.inputs) };
        let weight = At { buffer: weights, from: self.at };
        device.ops.gemm(shape, At::start(x), weight, At::start(&mut y))?;
        if self.has_bias {
            let bias = At { buffer: weights, from: self.bias() };
            device.ops.add_bias(rows, self.outputs, bias, &mut y)?;
        }
        Ok(y)
    }

    /// dx = dy W.
    pub(crate) fn backward_input<O: Ops>(
        self,
        device: &mut Device<O>,
        rows: usize,
        weights: &O::Tensor,
        dy: &O::Tensor,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let mut dx = device.tensor(rows * self.inputs)?;
        let shape = product(rows, self.inputs, self.outputs);
        let weight = At { buffer: weights, from: self.at };
        device.ops.gemm(shape, At::start(dy), weight, At::start(&mut dx))?;
        Ok(dx)
    }

    /// dW += dy^T x, db += the sum over the rows of dy.
    pub(crate) fn backward_weight<O: Ops>(
        self,
        device: &mut Device<O>,
        rows: usize,
        gradients: &mut O::Accumulator,
        x: &O::Tensor,
        dy: &O::Tensor,
    ) -> Result<(), DeviceError> {
        let shape = Gemm { transpose_a: true, ..product(self.outputs, self.inputs, rows) };
        let into = At { buffer: &mut *gradients, from: self.at };
        device.ops.gemm_accumulate(shape, At::start(dy), At::start(x), into)?;
        if self.has_bias {
            let into = At { buffer: gradients, from: self.bias() };
            device.ops.sum_rows(rows, self.outputs, dy, into)?;
        }
        Ok(())
    }
}

/// One product of plain matrices.
pub(crate) const fn product(rows: usize, columns: usize, inner: usize) -> Gemm {
    Gemm { rows, columns, inner, transpose_a: false, transpose_b: false, count: 1, scale: 1.0 }
}

/// Layer norm over `columns`: gain at `at`, followed by the bias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Norming {
    pub(crate) at: usize,
    pub(crate) columns: usize,
}

/// The input of a layer norm, with mean and rstd of its rows, `[rows, 2]`.
pub(crate) struct Normed<O: Ops> {
    x: Buffer<O::Tensor>,
    stats: Buffer<O::Accumulator>,
}

impl<O: Ops> Normed<O> {
    /// The input.
    pub(crate) const fn x(&self) -> &Buffer<O::Tensor> {
        &self.x
    }

    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        all.extend([Part::Tensor(&mut self.x), Part::Accumulator(&mut self.stats)]);
    }

    /// The input alone.
    pub(crate) fn into_x(self) -> Buffer<O::Tensor> {
        self.x
    }
}

impl Norming {
    pub(crate) const fn end(self) -> usize {
        self.at + 2 * self.columns
    }

    const fn bias(self) -> usize {
        self.at + self.columns
    }

    /// y from x, `[rows, columns]`, and the activations that the backward needs.
    pub(crate) fn forward<O: Ops>(
        self,
        device: &mut Device<O>,
        rows: usize,
        weights: &O::Tensor,
        x: Buffer<O::Tensor>,
    ) -> Result<(Buffer<O::Tensor>, Normed<O>), DeviceError> {
        let mut y = device.tensor(rows * self.columns)?;
        let mut stats = device.accumulator(2 * rows)?;
        let gain = At { buffer: weights, from: self.at };
        let bias = At { buffer: weights, from: self.bias() };
        device.ops.layer_norm(rows, self.columns, &x, gain, bias, &mut y, &mut stats)?;
        Ok((y, Normed { x, stats }))
    }

    /// dx from dy. Accumulates the gradients of gain and bias in B, since M_W does not include the
    /// activations that they need.
    pub(crate) fn backward<O: Ops>(
        self,
        device: &mut Device<O>,
        rows: usize,
        weights: &O::Tensor,
        gradients: &mut O::Accumulator,
        kept: &Normed<O>,
        dy: &O::Tensor,
    ) -> Result<Buffer<O::Tensor>, DeviceError> {
        let mut dx = device.tensor(rows * self.columns)?;
        device.ops.layer_norm_backward(
            rows,
            self.columns,
            &kept.x,
            &kept.stats,
            At { buffer: weights, from: self.at },
            dy,
            &mut dx,
            gradients,
            self.at,
            self.bias(),
        )?;
        Ok(dx)
    }
}
