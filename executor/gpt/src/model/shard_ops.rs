//! The kernels of the output layer on a shard of the vocabulary, as a device implements them.

use crate::operands::At;
use runtime::DeviceError;

/// The sizes of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardSizes {
    /// Tokens of a microbatch.
    pub rows: usize,
    /// Tokens of the vocabulary in the shard.
    pub columns: usize,
    /// The first of these tokens.
    pub first: usize,
}

impl ShardSizes {
    /// The column of token `target`, if it is in the shard.
    #[must_use]
    pub fn column(self, target: u32) -> Option<usize> {
        (target as usize).checked_sub(self.first).filter(|&column| column < self.columns)
    }
}

/// The kernels of the output layer on a shard. Statistics are `[rows, 2]`: maximum and sum of
/// exp(logit - maximum) over the columns.
pub trait ShardOps<T, S, K> {
    /// Copies `len` elements.
    fn copy(&mut self, len: usize, from: &T, to: &mut T) -> Result<(), DeviceError>;

    /// The first `len` elements become 0.
    fn zero(&mut self, len: usize, to: &mut T) -> Result<(), DeviceError>;

    /// `logits` become exp(logit - maximum of the row); `statistics` are those of the shard, and
    /// `picked`, `[rows]`, the logits of the targets that lie in it.
    fn shard_softmax(
        &mut self,
        sizes: ShardSizes,
        targets: &K,
        logits: &mut T,
        statistics: &mut T,
        picked: &mut T,
    ) -> Result<(), DeviceError>;

    /// The rows of `table`, `[columns, width]`, of the targets; 0 for those that lie elsewhere.
    fn target_rows(
        &mut self,
        sizes: ShardSizes,
        width: usize,
        targets: &K,
        table: At<&T>,
        to: At<&mut T>,
    ) -> Result<(), DeviceError>;

    /// From the statistics of all shards: `factors`, `[shards, rows]`, by which the softmax of each
    /// shard is multiplied; and `whole`, `[rows, 2]`, the maximum and the logarithm of the sum of
    /// each whole row.
    fn merge_statistics(
        &mut self,
        rows: usize,
        statistics: &[&T],
        factors: &mut T,
        whole: &mut T,
    ) -> Result<(), DeviceError>;

    /// `softmax` becomes the gradient of the logits: scale (softmax factor - one at the target).
    fn shard_gradient(
        &mut self,
        sizes: ShardSizes,
        scale: f32,
        targets: &K,
        factors: At<&T>,
        softmax: &mut T,
    ) -> Result<(), DeviceError>;

    /// Adds `scale` times the cross entropy of the targets in the shard, from `whole` and `picked`, to
    /// element 0 of `loss`.
    fn shard_loss(
        &mut self,
        sizes: ShardSizes,
        scale: f32,
        targets: &K,
        whole_and_picked: (&T, &T),
        loss: &mut S,
    ) -> Result<(), DeviceError>;

    /// Adds scale (A factor - B) to `to`, `[rows, width]`; `parts` holds A followed by B.
    fn add_hidden(
        &mut self,
        sizes: ShardSizes,
        width: usize,
        scale: f32,
        factors: At<&T>,
        parts: &T,
        to: &mut T,
    ) -> Result<(), DeviceError>;
}
