//! The kernels of attention over earlier segments of a sequence, beside those of [`crate::Ops`].

use runtime::DeviceError;

/// Kernels for microbatches cut along the sequence. Buffers of several segments hold, for every
/// head of every sequence, their rows in order of the segments.
pub trait SegmentKernels {
    /// Activations.
    type Tensor;

    /// Concatenates `parts`, one for each segment, in `all`: for each of `heads` heads, `each`
    /// elements of every part.
    fn join_segments(
        &mut self,
        heads: usize,
        each: usize,
        parts: &[&Self::Tensor],
        all: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Copies part number `index` of `count` out of `all`, in the layout of
    /// [`SegmentKernels::join_segments`].
    fn segment_of(
        &mut self,
        heads: usize,
        each: usize,
        index: usize,
        count: usize,
        all: &Self::Tensor,
        part: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `x`, `heads` matrices `[rows, columns]` of the scores of the last rows of a
    /// sequence of `columns`, becomes the causal softmax of each row: of row i over its first
    /// `columns - rows + i + 1` elements; later ones become 0.
    fn causal_softmax_behind(
        &mut self,
        heads: usize,
        rows: usize,
        columns: usize,
        x: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `dp`, the gradient of p = softmax(x), becomes `scale` times that of x, as in
    /// [`crate::Ops::softmax_backward`].
    fn softmax_backward_behind(
        &mut self,
        heads: usize,
        rows: usize,
        columns: usize,
        scale: f32,
        p: &Self::Tensor,
        dp: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;
}
