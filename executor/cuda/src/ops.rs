//! The operations: sizes are checked against buffers, then kernels are launched.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::element::Element;
use super::kernels::{Kernels, NormBackward, State, TokenList};
use super::memory::{Buffer, allocations};
use super::stage::{Cuda, Tokens};
use super::tensor_transfer::TensorTransfer;
use gpt::{AdamW, At, Gemm, Heads, Moments, Ops};
use runtime::DeviceError;

type Done = Result<(), DeviceError>;

/// The product of `sizes`, if it does not overflow.
fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1, |all: usize, size| all.checked_mul(*size))
}

/// Elements of all heads.
fn elements(sizes: Heads) -> Option<usize> {
    product(&[sizes.batch, sizes.sequence, sizes.heads, sizes.width])
}

/// Sizes of A, B and C.
fn sizes(shape: Gemm) -> [Option<usize>; 3] {
    let Gemm { rows, columns, inner, count, .. } = shape;
    [[rows, inner], [inner, columns], [rows, columns]].map(|[m, n]| product(&[m, n, count]))
}

/// Whether the result is empty.
fn is_nothing(shape: Gemm) -> bool {
    shape.rows == 0 || shape.columns == 0 || shape.count == 0
}

/// Addresses of the optimizer state, all of the length of the master weights.
fn state<E: Element>(
    what: &'static str,
    gradients: &Buffer<f32>,
    of: &Moments<Buffer<E>, Buffer<f32>>,
) -> Result<(usize, State), DeviceError> {
    let n = of.master.len();
    let all = State {
        weights: of.weights.at(what, 0, Some(n))?,
        master: of.master.at(what, 0, Some(n))?,
        first: of.first.at(what, 0, Some(n))?,
        second: of.second.at(what, 0, Some(n))?,
        gradients: gradients.at(what, 0, Some(n))?,
    };
    Ok((n, all))
}

impl<E: Element> Cuda<E> {
    fn copied<T>(&self, from: &Buffer<T>) -> Result<Buffer<T>, DeviceError> {
        let to = self.scratch(from.len())?;
        self.duplicate(from.memory.address(), to.memory.address(), from.memory.bytes())?;
        Ok(to)
    }

    /// Scratch for the partial sums over the rows of `[rows, columns]`.
    fn parts(&self, rows: usize, columns: usize) -> Result<Buffer<f32>, DeviceError> {
        self.scratch(Kernels::parts(rows, columns))
    }
}

impl<E: Element> Ops for Cuda<E> {
    type Tensor = Buffer<E>;
    type Accumulator = Buffer<f32>;
    type Tokens = Tokens;
    type Transfer = TensorTransfer<E>;

    fn tensor(&mut self, len: usize) -> Result<Buffer<E>, DeviceError> {
        self.scratch(len)
    }

    fn accumulator(&mut self, len: usize) -> Result<Buffer<f32>, DeviceError> {
        let mut sums = self.scratch(len)?;
        self.clear(&mut sums)?;
        Ok(sums)
    }

    fn tokens(&mut self, tokens: &[u32]) -> Result<Tokens, DeviceError> {
        self.new_tokens(tokens)
    }

    fn write(&mut self, values: &[f64], to: At<&mut Buffer<E>>) -> Done {
        self.write_values(values, to.buffer, to.from)
    }

    fn write_accumulator(&mut self, values: &[f64], to: At<&mut Buffer<f32>>) -> Done {
        self.write_values(values, to.buffer, to.from)
    }

    fn read(&mut self, from: &Buffer<E>) -> Result<Vec<f64>, DeviceError> {
        self.values(from)
    }

    fn read_accumulator(&mut self, from: &Buffer<f32>) -> Result<Vec<f64>, DeviceError> {
        self.values(from)
    }

    fn clear(&mut self, sums: &mut Buffer<f32>) -> Done {
        self.zero(sums.memory.address(), sums.memory.bytes())
    }

    fn element_bytes(&self) -> usize {
        E::BYTES
    }

    fn synchronize(&mut self) -> Done {
        self.synchronize_all()
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn pace(&mut self) -> Done {
        self.keep_pace()
    }

    fn allocations(&self) -> u64 {
        allocations()
    }

    fn stamp(&mut self) -> Done {
        self.new_stamp()
    }

    fn stamps(&mut self, epoch: Instant) -> Result<Option<Vec<u64>>, DeviceError> {
        self.all_stamps(epoch).map(Some)
    }

    fn send(&mut self, tensor: Buffer<E>) -> Result<TensorTransfer<E>, DeviceError> {
        self.send_tensor(tensor)
    }

    fn receive(&mut self, transfer: TensorTransfer<E>) -> Result<Buffer<E>, DeviceError> {
        self.receive_tensor(transfer)
    }

    fn wait(&mut self, transfer: &TensorTransfer<E>) -> Result<(), DeviceError> {
        self.wait_for_value(transfer)
    }

    fn pack(&mut self, transfer: TensorTransfer<E>) -> Result<Vec<u8>, DeviceError> {
        self.packed(&transfer)
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<TensorTransfer<E>, DeviceError> {
        self.unpacked(bytes)
    }

    fn gemm(
        &mut self,
        shape: Gemm,
        a: At<&Buffer<E>>,
        b: At<&Buffer<E>>,
        c: At<&mut Buffer<E>>,
    ) -> Done {
        let [m, n, out] = sizes(shape);
        let (a, b) = (a.buffer.at("gemm", a.from, m)?, b.buffer.at("gemm", b.from, n)?);
        let c = c.buffer.at("gemm", c.from, out)?;
        match out {
            _ if is_nothing(shape) => Ok(()),
            Some(out) if shape.inner == 0 => self.zero(c, out * E::BYTES),
            _ => self.multiply(shape, [a, b, c], false),
        }
    }

    fn gemm_accumulate(
        &mut self,
        shape: Gemm,
        a: At<&Buffer<E>>,
        b: At<&Buffer<E>>,
        c: At<&mut Buffer<f32>>,
    ) -> Done {
        let [m, n, out] = sizes(shape);
        let what = "gemm_into_sums";
        let (a, b) = (a.buffer.at(what, a.from, m)?, b.buffer.at(what, b.from, n)?);
        let c = c.buffer.at(what, c.from, out)?;
        match is_nothing(shape) || shape.inner == 0 {
            true => Ok(()),
            false => self.multiply(shape, [a, b, c], true),
        }
    }

    fn add_bias(
        &mut self,
        rows: usize,
        columns: usize,
        bias: At<&Buffer<E>>,
        x: &mut Buffer<E>,
    ) -> Done {
        let x = x.at("add_bias", 0, product(&[rows, columns]))?;
        let bias = bias.buffer.at("add_bias", bias.from, Some(columns))?;
        self.launch(&self.kernels.add_bias(rows, columns, bias, x)?)
    }

    fn sum_rows(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Buffer<E>,
        into: At<&mut Buffer<f32>>,
    ) -> Done {
        let x = x.at("sum_rows", 0, product(&[rows, columns]))?;
        let into = into.buffer.at("sum_rows", into.from, Some(columns))?;
        let parts = self.parts(rows, columns)?;
        self.launch(&Kernels::sum_rows(rows, columns, x, parts.memory.address(), into)?)
    }

    fn add(&mut self, len: usize, x: &Buffer<E>, to: &mut Buffer<E>) -> Done {
        let (x, to) = (x.at("add", 0, Some(len))?, to.at("add", 0, Some(len))?);
        self.launch(&self.kernels.add(len, x, to)?)
    }

    fn layer_norm(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Buffer<E>,
        gain: At<&Buffer<E>>,
        bias: At<&Buffer<E>>,
        y: &mut Buffer<E>,
        stats: &mut Buffer<f32>,
    ) -> Done {
        let (what, all) = ("layer_norm", product(&[rows, columns]));
        let buffers = [
            x.at(what, 0, all)?,
            gain.buffer.at(what, gain.from, Some(columns))?,
            bias.buffer.at(what, bias.from, Some(columns))?,
            y.at(what, 0, all)?,
            stats.at(what, 0, product(&[rows, 2]))?,
        ];
        self.launch(&self.kernels.layer_norm(rows, columns, buffers)?)
    }

    fn layer_norm_backward(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Buffer<E>,
        stats: &Buffer<f32>,
        gain: At<&Buffer<E>>,
        dy: &Buffer<E>,
        dx: &mut Buffer<E>,
        gradients: &mut Buffer<f32>,
        dgain: usize,
        dbias: usize,
    ) -> Done {
        let (what, all) = ("layer_norm_backward", product(&[rows, columns]));
        let (x, dy, dx) = (x.at(what, 0, all)?, dy.at(what, 0, all)?, dx.at(what, 0, all)?);
        let parts: Buffer<f32> = self.scratch(2 * Kernels::parts(rows, columns))?;
        let at = NormBackward {
            x,
            stats: stats.at(what, 0, product(&[rows, 2]))?,
            gain: gain.buffer.at(what, gain.from, Some(columns))?,
            dy,
            dx,
            parts: parts.memory.address(),
            dgain: gradients.at(what, dgain, Some(columns))?,
            dbias: gradients.at(what, dbias, Some(columns))?,
        };
        self.launch(&self.kernels.layer_norm_backward(rows, columns, at)?)
    }

    fn gelu(&mut self, len: usize, x: &Buffer<E>, y: &mut Buffer<E>) -> Done {
        let (x, y) = (x.at("gelu", 0, Some(len))?, y.at("gelu", 0, Some(len))?);
        self.launch(&self.kernels.gelu(len, x, y)?)
    }

    fn gelu_backward(&mut self, len: usize, x: &Buffer<E>, dy: &mut Buffer<E>) -> Done {
        let what = "gelu_backward";
        let (x, dy) = (x.at(what, 0, Some(len))?, dy.at(what, 0, Some(len))?);
        self.launch(&self.kernels.gelu_backward(len, x, dy)?)
    }

    fn split_heads(
        &mut self,
        sizes: Heads,
        qkv: &Buffer<E>,
        [q, k, v]: [&mut Buffer<E>; 3],
    ) -> Done {
        let (what, n) = ("split_heads", elements(sizes));
        let qkv = qkv.at(what, 0, n.and_then(|n| n.checked_mul(3)))?;
        let parts = [q.at(what, 0, n)?, k.at(what, 0, n)?, v.at(what, 0, n)?];
        self.launch(&self.kernels.split_heads(sizes, qkv, parts)?)
    }

    fn join_heads(
        &mut self,
        sizes: Heads,
        [q, k, v]: [&Buffer<E>; 3],
        qkv: &mut Buffer<E>,
    ) -> Done {
        let (what, n) = ("join_heads", elements(sizes));
        let qkv = qkv.at(what, 0, n.and_then(|n| n.checked_mul(3)))?;
        let parts = [q.at(what, 0, n)?, k.at(what, 0, n)?, v.at(what, 0, n)?];
        self.launch(&self.kernels.join_heads(sizes, parts, qkv)?)
    }

    fn merge_heads(&mut self, sizes: Heads, x: &Buffer<E>, y: &mut Buffer<E>) -> Done {
        let n = elements(sizes);
        let (x, y) = (x.at("merge_heads", 0, n)?, y.at("merge_heads", 0, n)?);
        self.launch(&self.kernels.merge_heads(sizes, x, y)?)
    }

    fn unmerge_heads(&mut self, sizes: Heads, y: &Buffer<E>, x: &mut Buffer<E>) -> Done {
        let n = elements(sizes);
        let (x, y) = (x.at("unmerge_heads", 0, n)?, y.at("unmerge_heads", 0, n)?);
        self.launch(&self.kernels.unmerge_heads(sizes, y, x)?)
    }

    fn causal_softmax(&mut self, count: usize, n: usize, x: &mut Buffer<E>) -> Done {
        let x = x.at("causal_softmax", 0, product(&[count, n, n]))?;
        self.launch(&self.kernels.causal_softmax(count, n, x)?)
    }

    fn softmax_backward(
        &mut self,
        count: usize,
        n: usize,
        scale: f32,
        p: &Buffer<E>,
        dp: &mut Buffer<E>,
    ) -> Done {
        let (what, all) = ("softmax_backward", product(&[count, n, n]));
        let (p, dp) = (p.at(what, 0, all)?, dp.at(what, 0, all)?);
        self.launch(&self.kernels.softmax_backward(count, n, scale, p, dp)?)
    }

    fn embed(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Tokens,
        table: At<&Buffer<E>>,
        positions: At<&Buffer<E>>,
        y: &mut Buffer<E>,
    ) -> Done {
        let what = "embed";
        tokens.are_sequences(what, sequence)?;
        let places = product(&[sequence, columns]);
        let buffers = [
            tokens.words.memory.address(),
            table.buffer.at(what, table.from, product(&[tokens.vocabulary, columns]))?,
            positions.buffer.at(what, positions.from, places)?,
            y.at(what, 0, product(&[tokens.len, columns]))?,
        ];
        self.launch(&self.kernels.embed(tokens.len, sequence, columns, buffers)?)
    }

    fn embed_backward(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Tokens,
        dy: &Buffer<E>,
        gradients: &mut Buffer<f32>,
        table: usize,
        positions: usize,
    ) -> Done {
        let what = "embed_backward";
        let words = &tokens.words;
        let list = TokenList {
            tokens: words.at(what, 0, Some(tokens.len))?,
            order: words.at(what, tokens.len, Some(tokens.len))?,
            starts: words.at(what, 2 * tokens.len, Some(tokens.runs + 1))?,
            runs: tokens.runs,
        };
        tokens.are_sequences(what, sequence)?;
        let to = [
            dy.at(what, 0, product(&[tokens.len, columns]))?,
            gradients.at(what, table, product(&[tokens.vocabulary, columns]))?,
            gradients.at(what, positions, product(&[sequence, columns]))?,
        ];
        self.launch(&self.kernels.embed_backward(tokens.len, sequence, columns, list, to)?)
    }

    fn cross_entropy(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &Buffer<E>,
        targets: &Tokens,
        loss: &mut Buffer<f32>,
    ) -> Done {
        let what = "cross_entropy";
        let losses: Buffer<f32> = self.scratch(rows)?;
        let at = [
            logits.at(what, 0, product(&[rows, columns]))?,
            targets.up_to(what, rows, columns)?,
            losses.memory.address(),
            loss.at(what, 0, Some(1))?,
        ];
        self.launch(&self.kernels.cross_entropy(rows, columns, scale, at)?)
    }

    fn cross_entropy_backward(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &mut Buffer<E>,
        targets: &Tokens,
    ) -> Done {
        let what = "cross_entropy_backward";
        let logits = logits.at(what, 0, product(&[rows, columns]))?;
        let targets = targets.up_to(what, rows, columns)?;
        self.launch(&self.kernels.cross_entropy_backward(rows, columns, scale, logits, targets)?)
    }

    fn norm(&mut self, sums: &Buffer<f32>) -> Result<(f64, bool), DeviceError> {
        let n = sums.len();
        let parts: Buffer<f64> = self.scratch(Kernels::norm_parts(n))?;
        let total: Buffer<f64> = self.scratch(2)?;
        let (from, to) = (parts.memory.address(), total.memory.address());
        self.launch(&Kernels::norm(n, sums.memory.address(), from, to)?)?;
        match self.doubles(&total)?[..] {
            [squares, bad] => Ok((squares, bad > 0.0)),
            _ => Err(DeviceError::NotAtHand { what: "the norm".to_owned() }),
        }
    }

    fn adamw(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Buffer<f32>,
        state_of: &mut Moments<Buffer<E>, Buffer<f32>>,
    ) -> Done {
        let (n, all) = state("adamw", gradients, state_of)?;
        self.launch(&Kernels::adamw(rule, step, scale, n, all, false)?)
    }

    fn adamw_undo(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Buffer<f32>,
        state_of: &mut Moments<Buffer<E>, Buffer<f32>>,
    ) -> Done {
        let (n, all) = state("adamw_undo", gradients, state_of)?;
        self.launch(&Kernels::adamw(rule, step, scale, n, all, true)?)
    }

    fn copy_tensor(&mut self, from: &Buffer<E>) -> Result<Buffer<E>, DeviceError> {
        self.copied(from)
    }

    fn copy_state(
        &mut self,
        from: &Moments<Buffer<E>, Buffer<f32>>,
    ) -> Result<Moments<Buffer<E>, Buffer<f32>>, DeviceError> {
        Ok(Moments {
            weights: self.copied(&from.weights)?,
            master: self.copied(&from.master)?,
            first: self.copied(&from.first)?,
            second: self.copied(&from.second)?,
        })
    }
}
