//! The activations that a pass of a stage keeps for the next.

use crate::model::chunk::{ChunkBackwarded, ChunkForwarded};
use crate::model::recompute::ChunkKept;
use crate::ops::Ops;

/// The activations that a pass kept for the next pass of its chunk and microbatch.
#[allow(clippy::enum_variant_names)] // Until which pass is what tells them apart.
pub(super) enum Kept<O: Ops> {
    Discarded(ChunkKept<O>),
    UntilBackward(ChunkForwarded<O>),
    UntilWeight(ChunkBackwarded<O>),
}
