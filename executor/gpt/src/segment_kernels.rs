//! The kernels that attention over earlier segments of a sequence needs, beside those of [`crate::Ops`].

use runtime::DeviceError;

/// Kernels for microbatches that are cut along the sequence. Buffers of several segments hold, for every
/// head of every sequence, their rows one behind the other.
pub trait SegmentKernels {
    /// Activations.
    type Tensor;

    /// Puts `parts`, one for each segment, together in `all`: for each head, as many elements
    /// of every part as `heads_each` says.
    ///
    /// # Errors
    /// Whatever stops the device, here and below.
    fn join_segments(
        &mut self,
        heads_each: (usize, usize),
        parts: &[&Self::Tensor],
        all: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Takes the part whose number, of how many, is `index_count` out of `all`, as [`SegmentKernels::join_segments`] put it
    /// there.
    fn segment_of(
        &mut self,
        heads_each: (usize, usize),
        index_count: (usize, usize),
        all: &Self::Tensor,
        part: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `x`, `heads` matrices `[rows, columns]` (`rows_columns`) of the scores of the last rows of a sequence of `columns`,
    /// becomes the softmax of each row over what it may look at: row i over its first
    /// `columns - rows + i + 1` elements; those behind become 0.
    fn causal_softmax_behind(
        &mut self,
        heads: usize,
        rows_columns: (usize, usize),
        x: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `dp`, the gradient of p = softmax(x), becomes `scale` times that of x, as in
    /// [`crate::Ops::softmax_backward`].
    fn softmax_backward_behind(
        &mut self,
        heads: usize,
        rows_columns: (usize, usize),
        scale: f32,
        p: &Self::Tensor,
        dp: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;
}
