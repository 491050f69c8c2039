//! The kernels on one core of the host, in f32 or f64. The order of additions is always the same, so
//! the same numbers give the same bytes.

mod attention;
pub(crate) mod backend;
mod buffers;
mod movable;
mod product;
mod real;
mod rows;
mod segments;
mod shard;
#[cfg(test)]
mod tests;
mod tokens;

use std::marker::PhantomData;
use std::time::Instant;

use crate::cpu::buffers::{part, part_mut, read, two_parts, write, zeros};
use crate::model::ShardOps;
use crate::movable::Movable;
use crate::operands::{At, Gemm, Heads};
use crate::ops::{AdamW, Moments, Ops};
use crate::segment_kernels::SegmentKernels;
use runtime::DeviceError;

pub use real::Real;

/// One core of the host, computing in `T`.
///
/// Tensors and accumulators are vectors of `T`. An index out of range is a fault of the caller and
/// panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu<T>(PhantomData<T>);

impl<T: Real> Cpu<T> {
    /// A device without state.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Real> Ops for Cpu<T> {
    type Tensor = Vec<T>;
    type Accumulator = Vec<T>;
    type Tokens = Vec<u32>;
    type Transfer = Vec<T>;

    fn tensor(&mut self, len: usize) -> Result<Vec<T>, DeviceError> {
        zeros(len)
    }

    fn accumulator(&mut self, len: usize) -> Result<Vec<T>, DeviceError> {
        zeros(len)
    }

    fn tokens(&mut self, tokens: &[u32]) -> Result<Vec<u32>, DeviceError> {
        Ok(tokens.to_vec())
    }

    fn shard_ops(&mut self) -> Option<&mut dyn ShardOps<Vec<T>, Vec<T>, Vec<u32>>> {
        Some(self)
    }

    fn movable_tensor(tensor: &mut Vec<T>) -> Option<&mut dyn Movable> {
        Some(tensor)
    }

    fn movable_accumulator(sums: &mut Vec<T>) -> Option<&mut dyn Movable> {
        Some(sums)
    }

    fn movable_tokens(tokens: &mut Vec<u32>) -> Option<&mut dyn Movable> {
        Some(tokens)
    }

    fn write(&mut self, values: &[f64], to: At<&mut Vec<T>>) -> Result<(), DeviceError> {
        write(values, to);
        Ok(())
    }

    fn write_accumulator(
        &mut self,
        values: &[f64],
        to: At<&mut Vec<T>>,
    ) -> Result<(), DeviceError> {
        write(values, to);
        Ok(())
    }

    fn read(&mut self, from: &Vec<T>) -> Result<Vec<f64>, DeviceError> {
        Ok(read(from))
    }

    fn read_accumulator(&mut self, from: &Vec<T>) -> Result<Vec<f64>, DeviceError> {
        Ok(read(from))
    }

    fn clear(&mut self, sums: &mut Vec<T>) -> Result<(), DeviceError> {
        sums.fill(T::zero());
        Ok(())
    }

    fn element_bytes(&self) -> usize {
        T::BYTES
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn stamp(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn stamps(&mut self, _: Instant) -> Result<Option<Vec<u64>>, DeviceError> {
        Ok(None)
    }

    fn send(&mut self, tensor: Vec<T>) -> Result<Vec<T>, DeviceError> {
        Ok(tensor)
    }

    fn receive(&mut self, transfer: Vec<T>) -> Result<Vec<T>, DeviceError> {
        Ok(transfer)
    }

    fn pack(&mut self, transfer: Vec<T>) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::with_capacity(transfer.len() * T::BYTES);
        transfer.into_iter().for_each(|x| x.put(&mut bytes));
        Ok(bytes)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<Vec<T>, DeviceError> {
        let numbers: Option<Vec<T>> = bytes.chunks(T::BYTES).map(T::get).collect();
        let message = || format!("{} bytes are not numbers of {} bytes", bytes.len(), T::BYTES);
        numbers.ok_or_else(|| DeviceError::Call { call: "unpack", message: message() })
    }

    fn gemm(
        &mut self,
        shape: Gemm,
        a: At<&Vec<T>>,
        b: At<&Vec<T>>,
        c: At<&mut Vec<T>>,
    ) -> Result<(), DeviceError> {
        product::gemm(shape, &a.buffer[a.from..], &b.buffer[b.from..], T::zero(), c)
    }

    fn gemm_accumulate(
        &mut self,
        shape: Gemm,
        a: At<&Vec<T>>,
        b: At<&Vec<T>>,
        c: At<&mut Vec<T>>,
    ) -> Result<(), DeviceError> {
        product::gemm(shape, &a.buffer[a.from..], &b.buffer[b.from..], T::one(), c)
    }

    fn add_bias(
        &mut self,
        rows: usize,
        columns: usize,
        bias: At<&Vec<T>>,
        x: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        rows::add_bias(columns, part(&bias, columns), &mut x[..rows * columns]);
        Ok(())
    }

    fn sum_rows(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Vec<T>,
        into: At<&mut Vec<T>>,
    ) -> Result<(), DeviceError> {
        rows::sum_rows(columns, &x[..rows * columns], part_mut(into, columns));
        Ok(())
    }

    fn add(&mut self, len: usize, x: &Vec<T>, to: &mut Vec<T>) -> Result<(), DeviceError> {
        rows::add(&x[..len], &mut to[..len]);
        Ok(())
    }

    fn layer_norm(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Vec<T>,
        gain: At<&Vec<T>>,
        bias: At<&Vec<T>>,
        y: &mut Vec<T>,
        stats: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let len = rows * columns;
        let (gain, bias) = (part(&gain, columns), part(&bias, columns));
        rows::layer_norm(columns, &x[..len], gain, bias, &mut y[..len], &mut stats[..2 * rows]);
        Ok(())
    }

    fn layer_norm_backward(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Vec<T>,
        stats: &Vec<T>,
        gain: At<&Vec<T>>,
        dy: &Vec<T>,
        dx: &mut Vec<T>,
        gradients: &mut Vec<T>,
        dgain: usize,
        dbias: usize,
    ) -> Result<(), DeviceError> {
        let len = rows * columns;
        let (x, stats, dy) = (&x[..len], &stats[..2 * rows], &dy[..len]);
        let from = rows::NormBack { x, stats, gain: part(&gain, columns), dy };
        let (dgain, dbias) = two_parts(gradients, dgain, dbias, columns);
        rows::layer_norm_backward(columns, &from, &mut dx[..len], dgain, dbias);
        Ok(())
    }

    fn gelu(&mut self, len: usize, x: &Vec<T>, y: &mut Vec<T>) -> Result<(), DeviceError> {
        rows::gelu(&x[..len], &mut y[..len]);
        Ok(())
    }

    fn gelu_backward(
        &mut self,
        len: usize,
        x: &Vec<T>,
        dy: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        rows::gelu_backward(&x[..len], &mut dy[..len]);
        Ok(())
    }

    fn split_heads(
        &mut self,
        sizes: Heads,
        qkv: &Vec<T>,
        q_k_v: [&mut Vec<T>; 3],
    ) -> Result<(), DeviceError> {
        for (part, apart) in q_k_v.into_iter().enumerate() {
            attention::split(sizes, (part, 3), qkv, apart);
        }
        Ok(())
    }

    fn join_heads(
        &mut self,
        sizes: Heads,
        q_k_v: [&Vec<T>; 3],
        qkv: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        for (part, apart) in q_k_v.into_iter().enumerate() {
            attention::join(sizes, (part, 3), apart, qkv);
        }
        Ok(())
    }

    fn merge_heads(&mut self, sizes: Heads, x: &Vec<T>, y: &mut Vec<T>) -> Result<(), DeviceError> {
        attention::join(sizes, (0, 1), x, y);
        Ok(())
    }

    fn unmerge_heads(
        &mut self,
        sizes: Heads,
        y: &Vec<T>,
        x: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        attention::split(sizes, (0, 1), y, x);
        Ok(())
    }

    fn causal_softmax(
        &mut self,
        count: usize,
        n: usize,
        x: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        attention::causal_softmax(n, &mut x[..count * n * n]);
        Ok(())
    }

    fn softmax_backward(
        &mut self,
        count: usize,
        n: usize,
        scale: f32,
        p: &Vec<T>,
        dp: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let len = count * n * n;
        attention::softmax_backward(n, T::of(scale.into()), &p[..len], &mut dp[..len]);
        Ok(())
    }

    fn embed(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Vec<u32>,
        table: At<&Vec<T>>,
        positions: At<&Vec<T>>,
        y: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let (table, positions) = (&table.buffer[table.from..], &positions.buffer[positions.from..]);
        tokens::embed(sequence, columns, tokens, table, positions, y);
        Ok(())
    }

    fn embed_backward(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Vec<u32>,
        dy: &Vec<T>,
        gradients: &mut Vec<T>,
        table: usize,
        positions: usize,
    ) -> Result<(), DeviceError> {
        tokens::embed_backward(sequence, columns, tokens, dy, gradients, table, positions);
        Ok(())
    }

    fn cross_entropy(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &Vec<T>,
        targets: &Vec<u32>,
        loss: &mut Vec<T>,
    ) -> Result<(), DeviceError> {
        let logits = &logits[..rows * columns];
        let scale = T::of(scale.into());
        tokens::cross_entropy(columns, scale, logits, &targets[..rows], &mut loss[0]);
        Ok(())
    }

    fn cross_entropy_backward(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &mut Vec<T>,
        targets: &Vec<u32>,
    ) -> Result<(), DeviceError> {
        let logits = &mut logits[..rows * columns];
        tokens::cross_entropy_backward(columns, T::of(scale.into()), logits, &targets[..rows]);
        Ok(())
    }

    fn segment_kernels(&mut self) -> Option<&mut dyn SegmentKernels<Tensor = Vec<T>>> {
        Some(self)
    }

    fn norm(&mut self, sums: &Vec<T>) -> Result<(f64, bool), DeviceError> {
        Ok(rows::norm(sums))
    }

    fn adamw(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Vec<T>,
        state: &mut Moments<Vec<T>, Vec<T>>,
    ) -> Result<(), DeviceError> {
        rows::adamw(rule, step, scale, gradients, state);
        Ok(())
    }

    fn adamw_undo(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Vec<T>,
        state: &mut Moments<Vec<T>, Vec<T>>,
    ) -> Result<(), DeviceError> {
        rows::adamw_undo(rule, step, scale, gradients, state);
        Ok(())
    }

    fn copy_tensor(&mut self, from: &Vec<T>) -> Result<Vec<T>, DeviceError> {
        Ok(from.clone())
    }

    fn copy_state(
        &mut self,
        from: &Moments<Vec<T>, Vec<T>>,
    ) -> Result<Moments<Vec<T>, Vec<T>>, DeviceError> {
        let Moments { weights, master, first, second } = from;
        Ok(Moments {
            weights: weights.clone(),
            master: master.clone(),
            first: first.clone(),
            second: second.clone(),
        })
    }
}
