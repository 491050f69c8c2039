//! The numbers of a problem: its shape, times and footprints.

use pipeline::{
    Bytes, Choice, Costs, Fault, Footprint, Footprints, Hops, MAX_CHUNKS, Nanos, PassTimes,
    Placement, Semantics, Shape, ShardTimes, SteadyState, spread_by_layers,
};

use super::{ScheduleSource, vocabulary};
use crate::hardware::Hardware;
use crate::keys::Keys;
use crate::resolve::{is_own, layers_of_layout};

/// How many segments each microbatch is cut into: 1 where the schedule does not cut.
pub(super) fn segments(keys: &Keys, rule: &ScheduleSource) -> u32 {
    let told = keys.segments.map(|told| u32::try_from(told).unwrap_or(u32::MAX));
    match rule {
        ScheduleSource::Family(family) => match family.about().choice {
            Choice::Segments { default } => told.unwrap_or(default),
            Choice::Nothing | Choice::Group | Choice::Offload => 1,
        },
        ScheduleSource::File(..) => told.unwrap_or(1),
        ScheduleSource::Searched(_) => 1,
    }
}

/// The run that `rule` is asked about in its steady state; `None` if it flushes after each step.
pub(super) fn steady(keys: &Keys, rule: &ScheduleSource) -> Option<SteadyState> {
    let semantics = rule.family().map(|family| family.about().semantics);
    let asynchronous = semantics == Some(Semantics::Asynchronous);
    let (stages, microbatches) = (keys.stages?, keys.microbatches?);
    (asynchronous && stages.min(microbatches) > 0 && stages <= MAX_CHUNKS)
        .then(|| SteadyState::of(stages, microbatches))
}

/// The shape asked for, with `segments` for each microbatch, and where its chunks lie.
pub(super) fn shape(
    keys: &Keys,
    rule: &ScheduleSource,
    segments: u32,
) -> Result<(Shape, Placement), Fault> {
    if segments == 0 {
        return Err(Fault::Zero { what: "segments" });
    }
    match rule {
        ScheduleSource::File(_, schedule) => Ok((schedule.shape(), schedule.placement())),
        ScheduleSource::Family(family) => {
            let about = family.about();
            let chunks = about.chunks.of(keys.chunks);
            let updates = steady(keys, rule).map_or(1, SteadyState::updates);
            let passes = keys.microbatches.unwrap_or(0).saturating_mul(u64::from(segments));
            let passes = passes.saturating_mul(u64::from(updates));
            let shape = Shape::new(keys.stages.unwrap_or(0), chunks, passes)?;
            let shape = shape.with_vocabulary(family.vocabulary())?;
            Ok((shape, about.placement))
        }
        ScheduleSource::Searched(placement) => {
            // A V of one chunk would be none.
            let least = if *placement == Some(Placement::Vee) { 2 } else { 1 };
            let (chunks, microbatches) =
                (keys.chunks.unwrap_or(least), keys.microbatches.unwrap_or(0));
            let shape = Shape::new(keys.stages.unwrap_or(0), chunks, microbatches)?;
            // Two chunks lie in a V unless told, as those of the published schedules do.
            let usual = if chunks == 2 { Placement::Vee } else { Placement::Looped };
            Ok((shape, placement.unwrap_or(usual)))
        }
    }
}

/// How long a transfer takes over each link: as told, or as long as the slowest link of `hardware` takes.
pub(super) fn hops(
    keys: &Keys,
    (shape, placement): (Shape, Placement),
    hardware: Option<&Hardware>,
) -> Result<Hops, Fault> {
    match (&keys.hop, hardware) {
        (Some(links), _) => Hops::placed(shape, placement, links),
        (None, Some(hardware)) => Ok(Hops::alike(hardware.longest_hop(shape, placement))),
        (None, None) => Ok(Hops::alike(Nanos(0))),
    }
}

/// Times by chunk and segment, from F, B, W and BW; a segment takes its share to the nearest nanosecond.
pub(super) fn costs(
    keys: &Keys,
    hops: Hops,
    shape: Shape,
    placement: Placement,
    segments: u32,
) -> Result<Costs, Fault> {
    let segments = u64::from(segments);
    let overhead = keys.overhead.unwrap_or_default();
    let nearest = |time: &mut Nanos| *time = Nanos(time.0.saturating_add(segments / 2) / segments);
    let by_chunk = |what, values: &Option<Vec<Nanos>>| {
        let values = values.as_deref().unwrap_or_default();
        let stage = |chunk| placement.stage(shape, chunk, 0);
        let mut times = spread_by_layers(what, values, shape, layers_of_layout(keys), stage)?;
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
    with_shards(keys, Costs::new(times.collect(), Nanos(0)).with_hops(hops), shape)
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
/// layer and token) or from bytes, each segment its share; `None` if the keys say nothing.
pub(super) fn footprints(
    keys: &Keys,
    shape: Shape,
    placement: Placement,
    segments: u32,
) -> Result<Option<Footprints>, Fault> {
    let by_chunk = |what, values: &[Bytes]| {
        let stage = |chunk| placement.stage(shape, chunk, 0);
        let mut held = spread_by_layers(what, values, shape, layers_of_layout(keys), stage)?;
        held.iter_mut().for_each(|held| *held = Bytes(held.0.div_ceil(u64::from(segments))));
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
    let held = Footprints::new(until_backward.into_iter().zip(until_weight).map(pair).collect());
    Ok(Some(match &keys.vocab_activation {
        Some(shards) if shape.has_shards() => {
            held.with_shards(vocabulary::by_stage("vocab-activation", shards, shape)?)
        }
        _ => held,
    }))
}

/// Footprints by the layers of each chunk, in no unit of bytes: those of a layout whose activations are not told.
pub(super) fn layers_held(keys: &Keys, shape: Shape) -> Option<Footprints> {
    let layers = layers_of_layout(keys);
    let is_even = layers.iter().all(|one| *one == layers[0]);
    if is_even || layers.len() != usize::from(shape.chunks()) {
        return None;
    }
    let one = |&layers: &u64| {
        let held = Bytes(layers.saturating_mul(LAYER));
        Footprint { until_backward: held, until_weight: held }
    };
    Some(Footprints::new(layers.iter().map(one).collect()))
}

/// What stands for a layer where layers are counted: segments cut it evenly.
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
