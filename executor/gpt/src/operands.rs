//! The operands of kernels: positions in buffers, and sizes.

/// A position in a buffer.
#[derive(Debug)]
pub struct At<T> {
    pub buffer: T,
    /// Index of the first element.
    pub from: usize,
}

impl<T> At<T> {
    /// The beginning of `buffer`.
    pub const fn start(buffer: T) -> Self {
        Self { buffer, from: 0 }
    }
}

/// `count` products C = scale op(A) op(B), contiguous in each buffer: op(A) is `[rows, inner]`,
/// op(B) `[inner, columns]`, C `[rows, columns]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gemm {
    /// Rows of op(A) and C.
    pub rows: usize,
    /// Columns of op(B) and C.
    pub columns: usize,
    /// Columns of op(A), rows of op(B).
    pub inner: usize,
    /// Whether A lies in memory as `[inner, rows]`.
    pub transpose_a: bool,
    /// Whether B lies in memory as `[columns, inner]`.
    pub transpose_b: bool,
    /// Number of products.
    pub count: usize,
    /// The factor of every product.
    pub scale: f32,
}

/// Sizes of the heads in a row of queries, keys or values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    /// Sequences.
    pub batch: usize,
    /// Tokens of each sequence.
    pub sequence: usize,
    pub heads: usize,
    /// Elements of a head.
    pub width: usize,
}
