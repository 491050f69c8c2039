//! Causal attention between its two linears: from queries, keys and values to their weighted mean.

use crate::model::device::{Buffer, Device};
use crate::model::linear::product;
use crate::model::not_at_hand::not_at_hand;
use crate::model::parts::{Part, Parts};
use crate::operands::{At, Gemm, Heads};
use crate::ops::Ops;
use runtime::DeviceError;

/// The activations that the backward of attention needs: queries, keys and values, `[batch, heads,
/// sequence, width]` each, and the attention weights, `[batch, heads, sequence, sequence]`, unless they
/// are discarded.
pub(crate) struct Attended<O: Ops> {
    q: Buffer<O::Tensor>,
    k: Buffer<O::Tensor>,
    v: Buffer<O::Tensor>,
    p: Option<Buffer<O::Tensor>>,
}

impl<O: Ops> Attended<O> {
    /// Discards the attention weights.
    pub(crate) fn discard(&mut self) {
        self.p = None;
    }

    /// Recomputes the attention weights.
    pub(crate) fn recompute(
        &mut self,
        device: &mut Device<O>,
        sizes: Heads,
    ) -> Result<(), DeviceError> {
        self.p = Some(weights(device, sizes, &self.q, &self.k)?);
        Ok(())
    }

    /// Adds its buffers to `all`.
    pub(crate) fn parts<'a>(&'a mut self, all: &mut Parts<'a, O>) {
        let Self { q, k, v, p } = self;
        all.extend([q, k, v].map(Part::Tensor));
        all.extend(p.iter_mut().map(Part::Tensor));
    }
}

pub(super) const fn elements(sizes: Heads) -> usize {
    sizes.batch * sizes.sequence * sizes.heads * sizes.width
}

const fn scores(sizes: Heads) -> usize {
    sizes.batch * sizes.heads * sizes.sequence * sizes.sequence
}

/// One product per head, such as `[sequence, width]`.
pub(super) const fn per_head(sizes: Heads, rows: usize, columns: usize, inner: usize) -> Gemm {
    Gemm { count: sizes.batch * sizes.heads, ..product(rows, columns, inner) }
}

/// 1 / sqrt(width).
#[allow(clippy::cast_possible_truncation)] // Kernels take their factors as f32.
pub(super) fn score_scale(sizes: Heads) -> f32 {
    (1.0 / (sizes.width as f64).sqrt()) as f32
}

/// softmax(q k^T / sqrt(width)) v, with heads side by side: `[batch, sequence, heads, width]`.
pub(crate) fn forward<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    qkv: &O::Tensor,
) -> Result<(Buffer<O::Tensor>, Attended<O>), DeviceError> {
    let Heads { sequence: s, width, .. } = sizes;
    let len = elements(sizes);
    let (mut q, mut k, mut v) = (device.tensor(len)?, device.tensor(len)?, device.tensor(len)?);
    device.ops.split_heads(sizes, qkv, [&mut q, &mut k, &mut v])?;
    let p = weights(device, sizes, &q, &k)?;
    let mut mean = device.tensor(len)?;
    let shape = per_head(sizes, s, width, s);
    device.ops.gemm(shape, At::start(&p), At::start(&v), At::start(&mut mean))?;
    let mut merged = device.tensor(len)?;
    device.ops.merge_heads(sizes, &mean, &mut merged)?;
    Ok((merged, Attended { q, k, v, p: Some(p) }))
}

/// softmax(q k^T / sqrt(width)), over earlier tokens and the token itself.
fn weights<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    q: &O::Tensor,
    k: &O::Tensor,
) -> Result<Buffer<O::Tensor>, DeviceError> {
    let Heads { sequence: s, width, .. } = sizes;
    let mut p = device.tensor(scores(sizes))?;
    let shape =
        Gemm { transpose_b: true, scale: score_scale(sizes), ..per_head(sizes, s, s, width) };
    device.ops.gemm(shape, At::start(q), At::start(k), At::start(&mut p))?;
    device.ops.causal_softmax(sizes.batch * sizes.heads, s, &mut p)?;
    Ok(p)
}

/// The gradient of qkv from that of the merged heads.
pub(crate) fn backward<O: Ops>(
    device: &mut Device<O>,
    sizes: Heads,
    kept: Attended<O>,
    d_merged: Buffer<O::Tensor>,
) -> Result<Buffer<O::Tensor>, DeviceError> {
    let Heads { sequence: s, width, .. } = sizes;
    let len = elements(sizes);
    let Attended { q, k, v, p } = kept;
    let p = p.ok_or_else(|| not_at_hand("the attention weights, which were discarded"))?;
    let mut d_mean = device.tensor(len)?;
    device.ops.unmerge_heads(sizes, &d_merged, &mut d_mean)?;
    drop(d_merged);

    let mut dv = device.tensor(len)?;
    let transposed = Gemm { transpose_a: true, ..per_head(sizes, s, width, s) };
    device.ops.gemm(transposed, At::start(&p), At::start(&d_mean), At::start(&mut dv))?;
    let mut dp = device.tensor(scores(sizes))?;
    let shape = Gemm { transpose_b: true, ..per_head(sizes, s, s, width) };
    device.ops.gemm(shape, At::start(&d_mean), At::start(&v), At::start(&mut dp))?;
    drop((d_mean, v));
    let count = sizes.batch * sizes.heads;
    device.ops.softmax_backward(count, s, score_scale(sizes), &p, &mut dp)?;
    drop(p);

    let mut dq = device.tensor(len)?;
    let shape = per_head(sizes, s, width, s);
    device.ops.gemm(shape, At::start(&dp), At::start(&k), At::start(&mut dq))?;
    drop(k);
    let mut dk = device.tensor(len)?;
    device.ops.gemm(transposed, At::start(&dp), At::start(&q), At::start(&mut dk))?;
    drop((q, dp));
    let mut d_qkv = device.tensor(3 * len)?;
    device.ops.join_heads(sizes, [&dq, &dk, &dv], &mut d_qkv)?;
    Ok(d_qkv)
}
