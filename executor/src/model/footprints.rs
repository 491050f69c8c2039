//! What one microbatch holds in each chunk, before anything is run.

use pipeline::{Bytes, Footprint, Footprints, Shape};

use crate::model::device::{TOKEN_BYTES, sum_bytes};
use crate::model::{Layout, Model, ModelError};

/// M_B and M_W of every chunk of `model` cut for `shape`, with tensors of `element_bytes` per
/// element: exactly what [`crate::Gpt`] keeps of one microbatch between its passes.
///
/// A layer keeps (16 h + heads x sequence) elements per token until B and mean and rstd of two
/// layer norms in the precision of sums (f32 at least), 16 h until W. The first chunk keeps its
/// tokens until B. The last keeps its targets, mean and rstd, and the input of the final layer norm
/// until B, and (h + vocabulary) elements per token until W.
///
/// # Errors
/// Fewer layers than chunks.
pub fn footprints(
    model: Model,
    shape: Shape,
    element_bytes: usize,
) -> Result<Footprints, ModelError> {
    let chunks = Layout::by_chunk(model, shape)?;
    Ok(Footprints::new(chunks.iter().map(|chunk| of(model, chunk, element_bytes)).collect()))
}

fn of(model: Model, chunk: &Layout, element_bytes: usize) -> Footprint {
    let hidden = model.hidden();
    let stats = 2 * sum_bytes(element_bytes);
    let layer_elements = 16 * hidden + model.heads() * model.sequence();
    let layers = chunk.layers().len();
    let mut until_backward = layers * (layer_elements * element_bytes + 2 * stats);
    let mut until_weight = layers * 16 * hidden * element_bytes;
    if chunk.embedding().is_some() {
        until_backward += TOKEN_BYTES;
    }
    if chunk.head().is_some() {
        let until_both = (hidden + model.vocabulary()) * element_bytes;
        until_backward += hidden * element_bytes + stats + TOKEN_BYTES + until_both;
        until_weight += until_both;
    }
    let bytes = |per_token: usize| Bytes((per_token * model.tokens()) as u64);
    Footprint { until_backward: bytes(until_backward), until_weight: bytes(until_weight) }
}
