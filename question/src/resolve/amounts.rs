//! The numbers of a problem: its times and footprints.

use pipeline::{
    Bytes, Costs, Fault, Footprint, Footprints, Hops, Nanos, PassTimes, Shape, ShardTimes,
};

use super::backward::is_own;
use super::pipeline::Pipeline;
use super::vocabulary;
use crate::hardware::Hardware;
use crate::keys::Keys;

/// The time of a transfer over each link: as given, else that of the slowest link of `hardware`, else zero.
pub(super) fn hops(
    keys: &Keys,
    &Pipeline { shape, placement, .. }: &Pipeline,
    hardware: Option<&Hardware>,
) -> Result<Hops, Fault> {
    match (&keys.hop, hardware) {
        (Some(links), _) => Hops::placed(shape, placement, links),
        (None, Some(hardware)) => Ok(Hops::alike(hardware.longest_hop(shape, placement))),
        (None, None) => Ok(Hops::alike(Nanos(0))),
    }
}

/// Times by chunk and segment, from F, B, W and BW; a segment takes its share to the nearest nanosecond.
pub(super) fn costs(keys: &Keys, hops: Hops, pipeline: &Pipeline) -> Result<Costs, Fault> {
    let segments = u64::from(pipeline.segments);
    let overhead = keys.overhead.unwrap_or_default();
    let nearest = |time: &mut Nanos| *time = Nanos(time.0.saturating_add(segments / 2) / segments);
    let by_chunk = |what, values: &Option<Vec<Nanos>>| {
        let values = values.as_deref().unwrap_or_default();
        let mut times = pipeline.by_chunk(what, values)?;
        times.iter_mut().for_each(nearest);
        Ok::<_, Fault>(times)
    };
    let f = by_chunk("forward", &keys.forward)?.into_iter();
    let own = is_own(keys);
    // Errors name what the user wrote.
    let named = |apart| if own || keys.backward.is_none() { apart } else { "backward" };
    let b = by_chunk(named("backward-input"), &keys.backward_input)?;
    let w = by_chunk(named("backward-weight"), &keys.backward_weight)?;
    let whole = if own { by_chunk("backward", &keys.backward)? } else { Vec::new() };
    let times = f.zip(b).zip(w).enumerate().map(|(chunk, ((forward, input), weight))| PassTimes {
        forward: forward + overhead,
        backward_input: input + overhead,
        backward_weight: weight + overhead,
        // A whole backward begins once.
        backward: match whole.get(chunk) {
            Some(&whole) => Some(whole + overhead),
            None if overhead > Nanos(0) => Some(input + weight + overhead),
            None => None,
        },
    });
    with_shards(keys, Costs::new(times.collect(), Nanos(0)).with_hops(hops), pipeline.shape)
}

/// `costs` with the times of shards of the vocabulary, where there are any.
pub(super) fn with_shards(keys: &Keys, costs: Costs, shape: Shape) -> Result<Costs, Fault> {
    if !shape.has_shards() {
        return Ok(costs);
    }
    let overhead = keys.overhead.unwrap_or_default();
    let shards = vocabulary::times(keys, shape)?
        .into_iter()
        .map(|times| ShardTimes { before: times.before + overhead, after: times.after + overhead });
    Ok(costs.with_shards(shards.collect(), vocabulary::collectives(keys)))
}

/// Footprints by chunk, from the sizes of the model (Zero Bubble, section 2: 34h+5as and 32h per
/// layer and token) or from bytes, each segment its share; `None` if the keys give neither.
pub(super) fn footprints(keys: &Keys, pipeline: &Pipeline) -> Result<Option<Footprints>, Fault> {
    let (shape, segments) = (pipeline.shape, u64::from(pipeline.segments));
    let by_chunk = |what, values: &[Bytes]| {
        let mut held = pipeline.by_chunk(what, values)?;
        held.iter_mut().for_each(|held| *held = Bytes(held.0.div_ceil(segments)));
        Ok::<_, Fault>(held)
    };
    let (until_backward, until_weight) = match (&keys.activation, keys.hidden) {
        (Some(activation), _) => {
            let until_weight = keys.activation_until_weight.as_ref().unwrap_or(activation);
            (
                by_chunk("activation", activation)?,
                by_chunk("activation-until-weight", until_weight)?,
            )
        }
        (None, Some(hidden)) => {
            let [until_backward, until_weight] = model_footprint(keys, hidden)?;
            (by_chunk("hidden", &[until_backward])?, by_chunk("hidden", &[until_weight])?)
        }
        (None, None) => return Ok(None),
    };
    let pair = |(until_backward, until_weight)| Footprint { until_backward, until_weight };
    let held = until_backward.into_iter().zip(until_weight).map(pair).collect();
    let held = Footprints::new(of_frozen(keys, pipeline, held)?);
    Ok(Some(match &keys.vocab_activation {
        Some(shards) if shape.has_shards() => {
            held.with_shards(vocabulary::by_stage("vocab-activation", shards, shape)?)
        }
        _ => held,
    }))
}

/// `held` by chunk, less what frozen weights spare as far as no key says otherwise: nothing is held for a W that takes
/// no time, nor on the first chunks whose whole backward takes none.
fn of_frozen(
    keys: &Keys,
    pipeline: &Pipeline,
    mut held: Vec<Footprint>,
) -> Result<Vec<Footprint>, Fault> {
    let times =
        [("backward-weight", &keys.backward_weight), ("backward-input", &keys.backward_input)];
    let [Some(weight), Some(input)] =
        times.map(|(what, times)| times.as_ref().map(|one| (what, one)))
    else {
        return Ok(held);
    };
    let by_chunk = |(what, times): (_, &Vec<Nanos>)| pipeline.by_chunk(what, times);
    let times: Vec<_> = by_chunk(weight)?.into_iter().zip(by_chunk(input)?).collect();
    if keys.activation_until_weight.is_none() {
        let no_weight = held.iter_mut().zip(&times).filter(|(_, (weight, _))| *weight == Nanos(0));
        no_weight.for_each(|(held, _)| held.until_weight = Bytes(0));
    }
    if keys.activation.is_none() {
        let has_none = |times: &&(Nanos, Nanos)| **times == (Nanos(0), Nanos(0));
        let frozen = times.iter().take_while(has_none).count();
        held.iter_mut().take(frozen).for_each(|held| held.until_backward = Bytes(0));
    }
    Ok(held)
}

/// The footprints of a problem whose keys give no sizes of activations: proportional to the layers of each chunk where
/// these differ, less what frozen weights spare; `None` where each chunk holds one unit.
pub(super) fn units(keys: &Keys, pipeline: &Pipeline) -> Result<Option<Footprints>, Fault> {
    let held = layers_held(pipeline);
    let chunks = usize::from(pipeline.shape.chunks());
    let before = match &held {
        Some(held) => (0..pipeline.shape.chunks()).map(|chunk| held.of(chunk)).collect(),
        None => vec![Footprint { until_backward: Bytes(1), until_weight: Bytes(1) }; chunks],
    };
    let after = of_frozen(keys, pipeline, before.clone())?;
    Ok(if after == before { held } else { Some(Footprints::new(after)) })
}

/// Footprints proportional to the layers of each chunk, for an uneven layout without activation sizes.
fn layers_held(pipeline: &Pipeline) -> Option<Footprints> {
    let layers = &pipeline.layers;
    let is_even = layers.iter().all(|one| *one == layers[0]);
    if is_even || layers.len() != usize::from(pipeline.shape.chunks()) {
        return None;
    }
    let one = |&layers: &u64| {
        let held = Bytes(layers.saturating_mul(LAYER));
        Footprint { until_backward: held, until_weight: held }
    };
    Some(Footprints::new(layers.iter().map(one).collect()))
}

/// Nominal footprint of a layer where activations are counted in layers; small numbers of segments divide it.
const LAYER: u64 = 5040;

/// M_B and M_W of one stage and microbatch, or of one layer and token if neither layers nor
/// microbatch size are given.
fn model_footprint(keys: &Keys, hidden: u64) -> Result<[Bytes; 2], Fault> {
    let (hidden, heads) = (u128::from(hidden), u128::from(keys.heads.unwrap_or(0)));
    let seq = u128::from(keys.seq.unwrap_or(0));
    let tokens = match (keys.layers_per_stage, keys.microbatch_size) {
        (Some(layers), Some(size)) => {
            u128::from(layers).saturating_mul(u128::from(size)).saturating_mul(seq)
        }
        _ => 1,
    };
    let attention = heads.saturating_mul(seq).saturating_mul(5);
    let per_token = [(34 * hidden).saturating_add(attention), 32 * hidden];
    let bytes = per_token.map(|bytes| u64::try_from(bytes.saturating_mul(tokens)));
    match bytes {
        [Ok(until_backward), Ok(until_weight)] => Ok([Bytes(until_backward), Bytes(until_weight)]),
        _ => Err(Fault::Overflow { what: "the activations" }),
    }
}
