//! The kernels of a transformer stage, as a device implements them.
//!
//! All matrices are row-major. A `Tensor` holds activations and the weights as kernels read them
//! (bf16 on a GPU that computes in bf16); an `Accumulator` holds gradients of weights, which are
//! summed over microbatches, and the optimizer state: master weights and moments (f32 there).
//! Kernels may be enqueued: only [`Ops::synchronize`] and methods that return numbers to the host
//! wait.

use std::time::Instant;

use crate::model::ShardOps;
use crate::movable::Movable;
use crate::operands::{At, Gemm, Heads};
use crate::segment_kernels::SegmentKernels;
use runtime::DeviceError;

/// AdamW (Loshchilov and Hutter, 2019): decoupled weight decay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamW {
    pub learning_rate: f64,
    /// Decay of the first moment, beta 1.
    pub beta1: f64,
    /// Decay of the second moment, beta 2.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay per unit of learning rate.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 }
    }
}

/// Master weights and moments of AdamW, and the weights as kernels read them; all of one length.
#[derive(Debug)]
pub struct Moments<T, S> {
    /// Weights as kernels read them.
    pub weights: T,
    /// Master weights of the optimizer.
    pub master: S,
    /// First moment, m.
    pub first: S,
    /// Second moment, v.
    pub second: S,
}

/// The kernels of a device. Buffers must have the shapes given; a buffer that is too short is a
/// fault of the caller, which gets an error or a panic, never a read past its end.
pub trait Ops: 'static {
    /// Activations, and weights as kernels read them.
    type Tensor: Send + 'static;
    /// Gradients of weights, master weights and moments, in f32 on a GPU.
    type Accumulator: Send + 'static;
    /// Token numbers.
    type Tokens: Send + 'static;
    /// A tensor in transfer to another stage: on a GPU, with the event after which it is ready.
    type Transfer: Send + 'static;

    /// A tensor of `len` elements, of unspecified content.
    fn tensor(&mut self, len: usize) -> Result<Self::Tensor, DeviceError>;

    /// An accumulator of `len` zeros.
    fn accumulator(&mut self, len: usize) -> Result<Self::Accumulator, DeviceError>;

    /// Token numbers, copied to the device.
    fn tokens(&mut self, tokens: &[u32]) -> Result<Self::Tokens, DeviceError>;

    /// The kernels of an output layer in shards; `None` if the device has none.
    #[allow(clippy::type_complexity)]
    fn shard_ops(
        &mut self,
    ) -> Option<&mut dyn ShardOps<Self::Tensor, Self::Accumulator, Self::Tokens>> {
        None
    }

    /// `tensor` as a buffer that can be offloaded to the host; `None` if it cannot.
    fn movable_tensor(tensor: &mut Self::Tensor) -> Option<&mut dyn Movable> {
        let _ = tensor;
        None
    }

    /// The same for an accumulator.
    fn movable_accumulator(sums: &mut Self::Accumulator) -> Option<&mut dyn Movable> {
        let _ = sums;
        None
    }

    /// The same for tokens.
    fn movable_tokens(tokens: &mut Self::Tokens) -> Option<&mut dyn Movable> {
        let _ = tokens;
        None
    }

    /// Copies `values` to the elements of `to`, as many as there are values.
    fn write(&mut self, values: &[f64], to: At<&mut Self::Tensor>) -> Result<(), DeviceError>;

    /// The same for an accumulator.
    fn write_accumulator(
        &mut self,
        values: &[f64],
        to: At<&mut Self::Accumulator>,
    ) -> Result<(), DeviceError>;

    /// Copies the elements of `from` to the host.
    fn read(&mut self, from: &Self::Tensor) -> Result<Vec<f64>, DeviceError>;

    /// The same for an accumulator.
    fn read_accumulator(&mut self, from: &Self::Accumulator) -> Result<Vec<f64>, DeviceError>;

    /// Sets all elements of `sums` to zero.
    fn clear(&mut self, sums: &mut Self::Accumulator) -> Result<(), DeviceError>;

    /// Bytes of one element of a tensor.
    fn element_bytes(&self) -> usize;

    /// Waits until all enqueued kernels are done.
    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Whether calls return before their kernels are done.
    fn runs_ahead(&self) -> bool {
        false
    }

    /// Called before a pass begins, after the stamps of earlier passes: where calls return before
    /// their kernels are done, waits until the launch queue is short enough.
    fn pace(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Number of allocations of this thread that can stall a device: of its memory, and of pinned
    /// host memory.
    fn allocations(&self) -> u64 {
        0
    }

    /// Records a timestamp in the order of the kernels.
    fn stamp(&mut self) -> Result<(), DeviceError>;

    /// The timestamps recorded since the last call, in nanoseconds since `epoch`, by the clock of
    /// the device; `None` where kernels are done when their call returns, so that the host's clock
    /// is right. Called when all kernels are done.
    fn stamps(&mut self, epoch: Instant) -> Result<Option<Vec<u64>>, DeviceError>;

    /// Releases `tensor` for transfer to another stage: it is ready when the kernels enqueued so
    /// far are done.
    fn send(&mut self, tensor: Self::Tensor) -> Result<Self::Transfer, DeviceError>;

    /// Receives a tensor of another stage: kernels enqueued from now on run after those that made
    /// it.
    fn receive(&mut self, transfer: Self::Transfer) -> Result<Self::Tensor, DeviceError>;

    /// Kernels enqueued from now on run after those that made `transfer`, which is received later.
    fn wait(&mut self, transfer: &Self::Transfer) -> Result<(), DeviceError> {
        let _ = transfer;
        Ok(())
    }

    /// The elements as bytes, least significant first, [`Ops::element_bytes`] each.
    fn pack(&mut self, transfer: Self::Transfer) -> Result<Vec<u8>, DeviceError>;

    /// The inverse of [`Ops::pack`].
    fn unpack(&mut self, bytes: &[u8]) -> Result<Self::Transfer, DeviceError>;

    /// C = scale op(A) op(B).
    fn gemm(
        &mut self,
        shape: Gemm,
        a: At<&Self::Tensor>,
        b: At<&Self::Tensor>,
        c: At<&mut Self::Tensor>,
    ) -> Result<(), DeviceError>;

    /// C += scale op(A) op(B), into an accumulator: the gradient of a weight.
    fn gemm_accumulate(
        &mut self,
        shape: Gemm,
        a: At<&Self::Tensor>,
        b: At<&Self::Tensor>,
        c: At<&mut Self::Accumulator>,
    ) -> Result<(), DeviceError>;

    /// Adds `bias`, `[columns]`, to every row of `x`, `[rows, columns]`.
    fn add_bias(
        &mut self,
        rows: usize,
        columns: usize,
        bias: At<&Self::Tensor>,
        x: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Adds the sum over the rows of `x`, `[rows, columns]`, to `into`, `[columns]`: the gradient of
    /// a bias.
    fn sum_rows(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Self::Tensor,
        into: At<&mut Self::Accumulator>,
    ) -> Result<(), DeviceError>;

    /// `to += x`, the first `len` elements.
    fn add(
        &mut self,
        len: usize,
        x: &Self::Tensor,
        to: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// y = (x - mean) rstd gain + bias for each row of x, `[rows, columns]`; `gain` and `bias` are
    /// `[columns]`; `stats`, `[rows, 2]`, becomes mean and rstd = 1 / sqrt(variance + 1e-5), in the
    /// precision of accumulators.
    #[allow(clippy::too_many_arguments)]
    fn layer_norm(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Self::Tensor,
        gain: At<&Self::Tensor>,
        bias: At<&Self::Tensor>,
        y: &mut Self::Tensor,
        stats: &mut Self::Accumulator,
    ) -> Result<(), DeviceError>;

    /// From the gradient `dy` of y: `dx` becomes the gradient of x, and those of gain and bias are
    /// added to `dgain` and `dbias` of `gradients`, given as indices.
    #[allow(clippy::too_many_arguments)]
    fn layer_norm_backward(
        &mut self,
        rows: usize,
        columns: usize,
        x: &Self::Tensor,
        stats: &Self::Accumulator,
        gain: At<&Self::Tensor>,
        dy: &Self::Tensor,
        dx: &mut Self::Tensor,
        gradients: &mut Self::Accumulator,
        dgain: usize,
        dbias: usize,
    ) -> Result<(), DeviceError>;

    /// y = GELU(x), the tanh form (Hendrycks and Gimpel, 2016, section 2), `len` elements.
    fn gelu(
        &mut self,
        len: usize,
        x: &Self::Tensor,
        y: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `dy`, the gradient of y = GELU(x), becomes that of x.
    fn gelu_backward(
        &mut self,
        len: usize,
        x: &Self::Tensor,
        dy: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// From `qkv`, `[batch, sequence, 3, heads, width]`, the three `[batch, heads, sequence, width]`
    /// of queries, keys and values.
    fn split_heads(
        &mut self,
        sizes: Heads,
        qkv: &Self::Tensor,
        q_k_v: [&mut Self::Tensor; 3],
    ) -> Result<(), DeviceError>;

    /// The inverse of [`Ops::split_heads`], for gradients.
    fn join_heads(
        &mut self,
        sizes: Heads,
        q_k_v: [&Self::Tensor; 3],
        qkv: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// From `x`, `[batch, heads, sequence, width]`, `y`, `[batch, sequence, heads, width]`.
    fn merge_heads(
        &mut self,
        sizes: Heads,
        x: &Self::Tensor,
        y: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// The inverse of [`Ops::merge_heads`], for gradients.
    fn unmerge_heads(
        &mut self,
        sizes: Heads,
        y: &Self::Tensor,
        x: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `x`, `count` matrices `[n, n]`, becomes the causal softmax: of each row over its elements up
    /// to and including the diagonal; later ones become 0.
    fn causal_softmax(
        &mut self,
        count: usize,
        n: usize,
        x: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `dp`, the gradient of p = softmax(x), becomes `scale` times that of x:
    /// scale p (dp - sum over the row of p dp).
    fn softmax_backward(
        &mut self,
        count: usize,
        n: usize,
        scale: f32,
        p: &Self::Tensor,
        dp: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// y = row `token` of `table` + row `position` of `positions` for every token of `tokens`,
    /// `[batch, sequence]`; both tables have `columns` columns.
    #[allow(clippy::too_many_arguments)]
    fn embed(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Self::Tokens,
        table: At<&Self::Tensor>,
        positions: At<&Self::Tensor>,
        y: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Adds `dy`, the gradient of y = embed(tokens), to the rows of the tables' gradients, which
    /// begin at the indices `table` and `positions` of `gradients`.
    #[allow(clippy::too_many_arguments)]
    fn embed_backward(
        &mut self,
        sequence: usize,
        columns: usize,
        tokens: &Self::Tokens,
        dy: &Self::Tensor,
        gradients: &mut Self::Accumulator,
        table: usize,
        positions: usize,
    ) -> Result<(), DeviceError>;

    /// Cross entropy: adds `-log softmax(row)[target]`, over all rows of `logits`, `[rows, columns]`,
    /// times `scale`, to element 0 of `loss`.
    #[allow(clippy::too_many_arguments)]
    fn cross_entropy(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &Self::Tensor,
        targets: &Self::Tokens,
        loss: &mut Self::Accumulator,
    ) -> Result<(), DeviceError>;

    /// `logits` become the gradient of that sum: scale (softmax(row) - one at the target).
    fn cross_entropy_backward(
        &mut self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: &mut Self::Tensor,
        targets: &Self::Tokens,
    ) -> Result<(), DeviceError>;

    /// The kernels for microbatches cut along the sequence, if the device has them.
    fn segment_kernels(&mut self) -> Option<&mut dyn SegmentKernels<Tensor = Self::Tensor>> {
        None
    }

    /// The sum of squares of `sums`, and whether any is NaN or infinite. Waits for the result.
    fn norm(&mut self, sums: &Self::Accumulator) -> Result<(f64, bool), DeviceError>;

    /// Step number `step`, from 1, of AdamW with `gradients` times `scale`:
    /// w -= rate (m' / (sqrt(v') + eps) + decay w), with m' and v' the moments without bias.
    fn adamw(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Self::Accumulator,
        state: &mut Moments<Self::Tensor, Self::Accumulator>,
    ) -> Result<(), DeviceError>;

    /// Undoes the step of the same arguments, from the state after it (Zero Bubble, appendix on
    /// in-place rollback): exact but for rounding.
    fn adamw_undo(
        &mut self,
        rule: AdamW,
        step: u32,
        scale: f64,
        gradients: &Self::Accumulator,
        state: &mut Moments<Self::Tensor, Self::Accumulator>,
    ) -> Result<(), DeviceError>;

    fn copy_tensor(&mut self, from: &Self::Tensor) -> Result<Self::Tensor, DeviceError> {
        let values = self.read(from)?;
        let mut copy = self.tensor(values.len())?;
        self.write(&values, At::start(&mut copy))?;
        Ok(copy)
    }

    /// Copies the whole optimizer state, for an exact rollback.
    fn copy_state(
        &mut self,
        from: &Moments<Self::Tensor, Self::Accumulator>,
    ) -> Result<Moments<Self::Tensor, Self::Accumulator>, DeviceError>;
}
