//! An encoder as a part of the chunks of a pipeline: in front of the first one, in chunks of its own, or in chunks of
//! equal work.

use pipeline::{
    Bytes, Costs, Encoder, Family, Fault, Footprint, Footprints, Memory, Metrics, Nanos, PassTimes,
    Problem, Schedule, Timeline,
};
use sim::encoder::Together;
use sim::timed;

/// The most layers of encoder and model that are dealt to chunks.
pub const MAX_UNITS: u64 = 100_000;

/// Parts of the work of an encoder where layers are spread: a frozen one is tried with up to [`HEAVIEST`] of them, for
/// chunks of equal work have more forward where it is, which all microbatches pass first.
const WHOLE: u128 = 8;
const HEAVIEST: u128 = 4 * WHOLE;

/// Parts of a chunk of the model that are dealt where its layers are not known.
const PARTS: u64 = 64;

/// Where an encoder is a part of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncoderPlace {
    /// In the first chunk, in front of what it does, as Megatron-LM has it.
    First,
    /// In the chunks of so many stages of its own; the model has the rest.
    Own(u16),
    /// Layers of encoder and model in turn, in chunks whose work is as equal as can be.
    Spread,
}

/// What each chunk does for the encoder and for the model, in model order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncoderParts {
    /// The times of the model in each chunk.
    pub model: Vec<PassTimes>,
    /// The times of the encoder in each chunk, where the work of a microbatch is 1.
    pub encoder: Vec<PassTimes>,
    /// What each chunk holds of both.
    pub footprints: Vec<Footprint>,
}

/// A schedule of chunks that have the encoder among them.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The order.
    pub schedule: Schedule,
    /// When everything runs.
    pub timeline: Timeline,
    /// What each chunk does.
    pub parts: EncoderParts,
    /// The most that each stage holds.
    pub held: Vec<Bytes>,
}

/// The order of `family` for `problem` with the encoder at `place`; `layers` are those of the model, if it is cut only
/// between them.
///
/// # Errors
/// If the family cannot do the shape, `place` leaves the model no stage, or numbers overflow.
pub fn place_encoder(
    problem: &Problem,
    family: Family,
    encoder: &Encoder,
    (place, layers): (EncoderPlace, Option<u64>),
) -> Result<Placed, Fault> {
    let heaviest = match place {
        EncoderPlace::Spread if encoder.is_frozen() => HEAVIEST,
        _ => WHOLE,
    };
    let one = |weight| {
        let parts = parts_with(problem, encoder, (place, layers), weight)?;
        placed(problem, family, encoder, parts)
    };
    let end = |placed: &Placed| Metrics::of(&placed.timeline).makespan();
    let mut best = one(WHOLE)?;
    for weight in WHOLE + 1..=heaviest {
        let other = one(weight)?;
        if end(&other) < end(&best) {
            best = other;
        }
    }
    Ok(best)
}

/// The order of `family` for `problem` with its chunks and the encoder as `parts` have them.
fn placed(
    problem: &Problem,
    family: Family,
    encoder: &Encoder,
    parts: EncoderParts,
) -> Result<Placed, Fault> {
    let hops = problem.costs().hops().clone();
    let zero = Nanos(0);
    let model = Costs::new(parts.model.clone(), zero).with_hops(hops);
    let beside = Costs::new(parts.encoder.clone(), zero);
    let beside = match encoder.microbatch_work() {
        Some(work) => beside.with_microbatch_work(work.clone()),
        None => beside,
    };
    beside.check(problem.shape())?;
    let mean = beside.clone().of_mean_microbatch();
    let both: Vec<PassTimes> =
        parts.model.iter().zip(mean.chunks()).map(|(one, other)| sum(*one, *other)).collect();
    let footprints = Footprints::new(parts.footprints.clone());
    let changed = problem.clone().with_costs(model.clone().with_chunks(both))?;
    let changed = changed.with_footprints(footprints.clone())?;
    let schedule = family.schedule(&changed)?;
    let timing = Together { model: &model, encoder: &beside };
    let timeline = timed::timeline(&schedule, &timing);
    let held = Memory::of(&schedule, &footprints)?.peak;
    Ok(Placed { schedule, timeline, parts, held })
}

/// What each chunk of `problem` does with the encoder at `place`.
///
/// # Errors
/// If `place` leaves the model no stage, or there are more layers than [`MAX_UNITS`].
pub fn encoder_parts(
    problem: &Problem,
    encoder: &Encoder,
    (place, layers): (EncoderPlace, Option<u64>),
) -> Result<EncoderParts, Fault> {
    parts_with(problem, encoder, (place, layers), WHOLE)
}

/// The same, where the work of the encoder counts `weight` parts of [`WHOLE`].
fn parts_with(
    problem: &Problem,
    encoder: &Encoder,
    (place, layers): (EncoderPlace, Option<u64>),
    weight: u128,
) -> Result<EncoderParts, Fault> {
    let (shape, costs) = (problem.shape(), problem.costs());
    let chunks = shape.chunks();
    let of_encoder = u64::from(encoder.layers());
    let of_model = layers.unwrap_or(PARTS * u64::from(chunks));
    let all = of_encoder.saturating_add(of_model);
    if all > MAX_UNITS {
        return Err(Fault::EncoderUnits { layers: all, most: MAX_UNITS });
    }
    let total = costs.chunks().iter().fold(PassTimes::default(), |all, one| sum(all, *one));
    // Times of a layer, both with the same denominator: nothing is rounded, so that a cut does not depend on the unit.
    let weights = [
        encoder.mean().forward_and_backward() * u128::from(of_model.max(1)) * weight,
        total.forward_and_backward() * u128::from(of_encoder) * WHOLE,
    ];
    let counts: Vec<[u64; 2]> = match place {
        EncoderPlace::First => return Ok(first(problem, encoder)),
        EncoderPlace::Own(stages) => {
            if shape.chunks_per_stage() != 1 || stages == 0 || stages >= chunks {
                return Err(Fault::EncoderStages { own: stages, stages: shape.stages() });
            }
            let own = cut([of_encoder, 0], weights, stages);
            own.into_iter().chain(cut([0, of_model], weights, chunks - stages)).collect()
        }
        EncoderPlace::Spread => cut([of_encoder, of_model], weights, chunks),
    };
    let model_bytes = (0..chunks).map(|chunk| problem.footprints().of(chunk));
    let model_bytes = model_bytes.fold([0u128; 2], |[backward, weight], one| {
        let Footprint { until_backward, until_weight } = one;
        [backward + u128::from(until_backward.0), weight + u128::from(until_weight.0)]
    });
    let mut parts = EncoderParts { model: vec![], encoder: vec![], footprints: vec![] };
    let mut done = [0, 0];
    for count in counts {
        let next = [done[0] + count[0], done[1] + count[1]];
        let encoder_range = [done[0], next[0], of_encoder];
        let model_range = [done[1], next[1], of_model];
        parts.encoder.push(times_of(encoder.nominal(), encoder_range));
        parts.model.push(times_of(total, model_range));
        let kept = share(u128::from(encoder_bytes(encoder).until_backward.0), encoder_range);
        let kept_weight = share(u128::from(encoder_bytes(encoder).until_weight.0), encoder_range);
        parts.footprints.push(Footprint {
            until_backward: Bytes(share(model_bytes[0], model_range).saturating_add(kept)),
            until_weight: Bytes(share(model_bytes[1], model_range).saturating_add(kept_weight)),
        });
        done = next;
    }
    Ok(parts)
}

/// The whole encoder in front of the first chunk.
fn first(problem: &Problem, encoder: &Encoder) -> EncoderParts {
    let chunks = problem.shape().chunks();
    let mut parts = EncoderParts {
        model: problem.costs().chunks().to_vec(),
        encoder: vec![PassTimes::default(); usize::from(chunks)],
        footprints: (0..chunks).map(|chunk| problem.footprints().of(chunk)).collect(),
    };
    parts.encoder[0] = encoder.nominal();
    let own = encoder_bytes(encoder);
    let first = &mut parts.footprints[0];
    first.until_backward = Bytes(first.until_backward.0.saturating_add(own.until_backward.0));
    first.until_weight = Bytes(first.until_weight.0.saturating_add(own.until_weight.0));
    parts
}

/// What the encoder keeps of a microbatch: nothing behind its forward where it is frozen.
fn encoder_bytes(encoder: &Encoder) -> Footprint {
    let none = Bytes(0);
    let kept = if encoder.is_frozen() { none } else { encoder.activation() };
    let until_weight = if encoder.nominal().backward_weight == Nanos(0) { none } else { kept };
    Footprint { until_backward: kept, until_weight }
}

/// Deals layers of encoder and model, in this order, to `chunks`, so that the chunk of most work has as little as can
/// be, and the others are as equal as that allows. Gives the numbers of both in each chunk.
fn cut(layers: [u64; 2], weights: [u128; 2], chunks: u16) -> Vec<[u64; 2]> {
    let [encoder, model] = layers;
    let weight = |at: u64| if at < encoder { weights[0] } else { weights[1] };
    let all = encoder + model;
    let total = (0..all).map(weight).sum::<u128>();
    let chunks = u64::from(chunks);
    let (mut least, mut most) = (total / u128::from(chunks), total);
    while least < most {
        let cap = least + (most - least) / 2;
        match needed(all, weight, cap).is_some_and(|needed| needed[0] <= chunks) {
            true => most = cap,
            false => least = cap + 1,
        }
    }
    let needed = needed(all, weight, most).unwrap_or_default();
    let (mut at, mut left, mut counts) = (0, total, Vec::new());
    for chunk in 0..chunks {
        let rest = chunks - chunk;
        let aim = left / u128::from(rest);
        let (from, mut own) = (at, 0);
        while at < all && own + weight(at) <= most {
            let is_short = needed.get(at_index(at)).is_some_and(|&needed| needed > rest - 1);
            // Nearer to the mean of what is left with this layer than without it.
            if !is_short
                && own + weight(at) > aim
                && own + weight(at) - aim > aim.saturating_sub(own)
            {
                break;
            }
            own += weight(at);
            at += 1;
        }
        left -= own;
        let of_encoder = at.min(encoder) - from.min(encoder);
        counts.push([of_encoder, at - from - of_encoder]);
    }
    counts
}

fn at_index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The least number of chunks that the layers from each on need, none of more work than `cap`; `None` if a layer
/// exceeds it.
fn needed(all: u64, weight: impl Fn(u64) -> u128, cap: u128) -> Option<Vec<u64>> {
    let mut needed = vec![0; at_index(all) + 1];
    let (mut end, mut own) = (all, 0);
    for at in (0..all).rev() {
        own += weight(at);
        while own > cap {
            if end == at + 1 {
                return None;
            }
            end -= 1;
            own -= weight(end);
        }
        needed[at_index(at)] = 1 + needed[at_index(end)];
    }
    Some(needed)
}

/// The share of `all` that the units from `range[0]` to `range[1]` of `range[2]` have; shares add up to all of it.
fn share(all: u128, range: [u64; 3]) -> u64 {
    let [from, to, of] = range.map(u128::from);
    let before = |units: u128| all * units / of.max(1);
    u64::try_from(before(to) - before(from)).unwrap_or(u64::MAX)
}

fn times_of(times: PassTimes, range: [u64; 3]) -> PassTimes {
    let of = |time: Nanos| Nanos(share(u128::from(time.0), range));
    PassTimes {
        forward: of(times.forward),
        backward_input: of(times.backward_input),
        backward_weight: of(times.backward_weight),
        backward: times.backward.map(of),
    }
}

fn sum(one: PassTimes, other: PassTimes) -> PassTimes {
    one.joined(&other, |time, more| Nanos(time.0.saturating_add(more.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_cut_so_that_the_longest_chunk_is_short() {
        // By hand: 4 layers of 1 and 4 of 3 in 4 chunks: two long ones in a chunk make 6, the short ones with a long one 7.
        let counts = cut([4, 4], [1, 3], 4);
        let works: Vec<u64> = counts.iter().map(|[encoder, model]| encoder + 3 * model).collect();
        assert_eq!(works.iter().sum::<u64>(), 16);
        assert_eq!(works.iter().max(), Some(&6), "{counts:?}");
        assert_eq!(counts.iter().map(|[encoder, _]| encoder).sum::<u64>(), 4);
        assert_eq!(cut([0, 6], [1, 1], 3), [[0, 2]; 3]);
        assert_eq!(cut([5, 0], [2, 1], 2).iter().map(|one| one[0]).sum::<u64>(), 5);
    }

    #[test]
    fn no_cut_is_better_than_the_one_found() {
        for (layers, weights, chunks) in
            [([3, 5], [2, 7], 3), ([6, 4], [5, 3], 4), ([2, 7], [9, 4], 5)]
        {
            let weight = |at: u64| if at < layers[0] { weights[0] } else { weights[1] };
            let all = layers[0] + layers[1];
            let best = least_most(0, all, chunks, &weight);
            let counts = cut(layers, weights, chunks);
            let most = counts.iter().map(|[one, other]| {
                u128::from(*one) * weights[0] + u128::from(*other) * weights[1]
            });
            assert_eq!(most.max(), Some(best));
            assert_eq!(counts.iter().flatten().sum::<u64>(), all);
        }
    }

    /// By trying all cuts.
    fn least_most(from: u64, all: u64, chunks: u16, weight: &dyn Fn(u64) -> u128) -> u128 {
        let own = |to: u64| (from..to).map(weight).sum::<u128>();
        match chunks {
            1 => own(all),
            _ => (from..=all)
                .map(|to| own(to).max(least_most(to, all, chunks - 1, weight)))
                .min()
                .unwrap(),
        }
    }
}
