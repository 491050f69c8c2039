//! The memory of a model, before any allocation: one microbatch in each chunk, and a whole stage.

use pipeline::{Bytes, Footprint, Footprints, Memory, Shape};

use crate::model::device::{TOKEN_BYTES, sum_bytes};
use runtime::Undo;

use crate::model::{Layout, Model, ModelError, Recomputed};
use runtime::Plan;

/// M_B and M_W of every chunk of `model` cut for `shape`, with tensors of `element_bytes` per
/// element: exactly what [`crate::Gpt`] keeps of one microbatch between its passes.
///
/// A layer keeps (16 h + heads x sequence) elements per token until B and mean and rstd of two
/// layer norms in the precision of sums (f32 at least), 16 h until W. The first chunk keeps its
/// tokens until B. The last keeps its targets, mean and rstd, and the input of the final layer norm
/// until B, and (h + vocabulary) elements per token until W. Where the vocabulary is in shards, the last
/// chunk keeps of these the input of the layer norm, mean and rstd alone, and every shard keeps from S to
/// T its targets and (h + tokens of the shard + 3) elements per token.
pub fn footprints(
    model: Model,
    shape: Shape,
    element_bytes: usize,
) -> Result<Footprints, ModelError> {
    let chunks = Layout::by_chunk(model, shape)?;
    let held =
        Footprints::new(chunks.iter().map(|chunk| of(model, chunk, element_bytes)).collect());
    Ok(held.with_shards(shards_held(model, shape, element_bytes)?))
}

/// The bytes that the shard of each stage keeps of one microbatch from S to T; empty where the
/// vocabulary is whole.
fn shards_held(model: Model, shape: Shape, element_bytes: usize) -> Result<Vec<Bytes>, ModelError> {
    let shard = |layout: &Layout| {
        // The output of the last chunk, exp of the logits, maximum, sum and logit of the target.
        let columns = layout.shard_tokens().map_or(0, |tokens| tokens.len());
        let elements = model.hidden() + columns + 3;
        Bytes((model.tokens() * (elements * element_bytes + TOKEN_BYTES)) as u64)
    };
    Ok(Layout::shards(model, shape)?.iter().map(shard).collect())
}

/// The bytes that F of every chunk of `model` keeps of one microbatch where a part of it is
/// recomputed, by `parts`; `None` where it keeps all activations.
pub fn kept(
    model: Model,
    shape: Shape,
    element_bytes: usize,
    parts: &[Option<Recomputed>],
) -> Result<Vec<Option<Bytes>>, ModelError> {
    let chunks = Layout::by_chunk(model, shape)?;
    let parts = parts.iter().copied().chain(std::iter::repeat(None));
    let kept = |(chunk, part): (&Layout, Option<Recomputed>)| {
        part.map(|part| kept_of(model, chunk, element_bytes, part))
    };
    Ok(chunks.iter().zip(parts).map(kept).collect())
}

/// The bytes that each stage of `plan` needs to train `model` with tensors of `element_bytes` per
/// element, whose chunks recompute their `parts`: weights; master weights, two moments and
/// gradients in accumulators; a copy of all but the gradients under [`Undo::Snapshot`]; older
/// versions of the weights where they change while the pipeline runs; the peak of the activations
/// between passes; and those of its largest chunk once more, for buffers that live within a pass
/// only. Where another stage holds the same weights: three host copies of their gradients, to read,
/// send and receive. A segment is counted as if it attended to all of its sequence, and with the
/// gradients of its keys and values.
pub fn needs(
    model: Model,
    plan: &Plan,
    element_bytes: usize,
    undo: Undo,
    parts: &[Recomputed],
) -> Result<Vec<Bytes>, ModelError> {
    let (schedule, undo) = (plan.schedule(), plan.undo(undo));
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let layouts = Layout::by_chunk(model, shape)?;
    let part = |chunk: u16| {
        let part = parts.get(usize::from(chunk)).copied().unwrap_or_default();
        schedule.recomputes(chunk).then_some(part)
    };
    let parts: Vec<Option<Recomputed>> = (0..shape.chunks()).map(part).collect();
    let held = in_segments(&layouts, model, plan.segments(), element_bytes);
    let held = held.with_shards(shards_held(model, shape, element_bytes)?);
    let shards = Layout::shards(model, shape)?;
    let held = held.with_kept(kept(model, shape, element_bytes, &parts)?);
    // The footprints have the shape of the schedule.
    let peaks = Memory::of(schedule, &held).map(|memory| memory.peak).unwrap_or_default();
    let stage = |(stage, peak): (usize, Bytes)| {
        let chunks = || placement.chunks_of(shape, stage);
        let parameters: u64 =
            chunks().map(|chunk| layouts[usize::from(chunk)].parameters() as u64).sum();
        let parameters = parameters + shards.get(stage).map_or(0, |one| one.parameters() as u64);
        let passing = chunks().map(|chunk| held.of(chunk).until_backward.0).max().unwrap_or(0);
        let exchanged = match placement.twin(shape, stage) {
            Some(_) => 8 + 2 * sum_bytes(element_bytes) as u64,
            None => 0,
        };
        let versions = plan.updates().map_or(1, |one| one.most_versions(stage, shape.stages()));
        let older = versions.saturating_sub(1) * element_bytes;
        let each = parameter_bytes(element_bytes, undo) + exchanged + older as u64;
        let state = parameters.saturating_mul(each);
        Bytes(state.saturating_add(peak.0).saturating_add(passing))
    };
    Ok(peaks.into_iter().enumerate().map(stage).collect())
}

/// Bytes of one parameter: its weight, master weight, two moments and gradient, and copies of all
/// but the gradient under [`Undo::Snapshot`].
fn parameter_bytes(element_bytes: usize, undo: Undo) -> u64 {
    let (element, sum) = (element_bytes as u64, sum_bytes(element_bytes) as u64);
    let copies = match undo {
        Undo::Inverse => 0,
        Undo::Snapshot => element + 3 * sum,
    };
    element + 4 * sum + copies
}

/// The bytes that the serial reference of `model` needs ([`crate::Reference`]): one microbatch at a
/// time, in one chunk.
pub fn reference_needs(model: Model, element_bytes: usize) -> Result<Bytes, ModelError> {
    let Ok(whole) = Shape::new(1, 1, 1) else { return Ok(Bytes(0)) };
    let held = footprints(model, whole, element_bytes)?.of(0).until_backward.0;
    let parameters = model.parameters() as u64;
    let state = parameters.saturating_mul(parameter_bytes(element_bytes, Undo::Inverse));
    Ok(Bytes(state.saturating_add(held.saturating_mul(2))))
}

/// The largest footprint of one of `segments` segments in each chunk.
fn in_segments(
    layouts: &[Layout],
    model: Model,
    segments: u32,
    element_bytes: usize,
) -> Footprints {
    let share = |bytes: Bytes| Bytes(bytes.0.div_ceil(u64::from(segments.max(1))));
    let of_segment = |chunk: &Layout| {
        let Footprint { until_backward, until_weight } = of(model, chunk, element_bytes);
        let elements = 2 * model.hidden() * model.tokens() * chunk.layers().len();
        let gradients = if segments > 1 { (elements * element_bytes) as u64 } else { 0 };
        let until_backward = share(Bytes(until_backward.0 + gradients));
        Footprint { until_backward, until_weight: share(until_weight) }
    };
    Footprints::new(layouts.iter().map(of_segment).collect())
}

/// The bytes that F of `chunk` keeps of one microbatch until R recomputes `part`.
fn kept_of(model: Model, chunk: &Layout, element_bytes: usize, part: Recomputed) -> Bytes {
    let whole = of(model, chunk, element_bytes).until_backward;
    let bytes = |per_token: usize| Bytes((per_token * model.tokens()) as u64);
    let layers = chunk.layers().len();
    let input = match chunk.embedding() {
        Some(_) => TOKEN_BYTES,
        None => model.hidden() * element_bytes,
    };
    match part {
        Recomputed::Everything => bytes(input),
        Recomputed::Attention => {
            whole - bytes(layers * model.heads() * model.sequence() * element_bytes)
        }
        Recomputed::Layers(_) => {
            let again = part.layers(layers) * layer_per_token(model, element_bytes);
            // Tokens are a part of all that the first chunk keeps; an input is the first layer's own.
            let input = if chunk.embedding().is_some() { 0 } else { input };
            whole - bytes(again) + bytes(input)
        }
    }
}

/// The bytes per token that a layer keeps until B.
const fn layer_per_token(model: Model, element_bytes: usize) -> usize {
    let elements = 16 * model.hidden() + model.heads() * model.sequence();
    elements * element_bytes + 2 * 2 * sum_bytes(element_bytes)
}

fn of(model: Model, chunk: &Layout, element_bytes: usize) -> Footprint {
    let hidden = model.hidden();
    let stats = 2 * sum_bytes(element_bytes);
    let layers = chunk.layers().len();
    let mut until_backward = layers * layer_per_token(model, element_bytes);
    let mut until_weight = layers * 16 * hidden * element_bytes;
    if chunk.embedding().is_some() {
        until_backward += TOKEN_BYTES;
    }
    if chunk.head().is_some() {
        let until_both = (hidden + model.vocabulary()) * element_bytes;
        until_backward += hidden * element_bytes + stats + TOKEN_BYTES + until_both;
        until_weight += until_both;
    }
    if chunk.norm().is_some() {
        until_backward += hidden * element_bytes + stats;
    }
    let bytes = |per_token: usize| Bytes((per_token * model.tokens()) as u64);
    Footprint { until_backward: bytes(until_backward), until_weight: bytes(until_weight) }
}
