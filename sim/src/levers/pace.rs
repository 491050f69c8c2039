//! Less work on a stage, or the same at another pace.

use pipeline::{Costs, Nanos, PassTimes, Placement, ShardTimes};

use super::{Baseline, LeverNote, Place, Variant, Variants};

/// Layers of a stage where they are not known.
const ASSUMED_LAYERS: u64 = 8;

/// One layer from the slowest stage to the fastest.
pub(super) fn move_layer(baseline: &Baseline<'_>, _: Place) -> Variants {
    let (shape, placement) = (baseline.simulation.schedule().shape(), baseline.placement());
    if placement == Placement::Mirrored {
        return Ok(Vec::new());
    }
    let costs = baseline.simulation.costs();
    let work = |stage: usize| -> Nanos {
        placement.chunks_of(shape, stage).map(|chunk| whole(costs, chunk)).sum()
    };
    let stages = || 0..shape.stages();
    let slowest = stages().rev().max_by_key(|&stage| work(stage)).unwrap_or(0);
    let fastest = stages().min_by_key(|&stage| work(stage)).unwrap_or(0);
    let layers = baseline.layers_per_stage.unwrap_or(ASSUMED_LAYERS).max(1);
    if work(slowest) == work(fastest) || layers == 1 {
        return Ok(Vec::new());
    }
    let mut chunks = costs.chunks().to_vec();
    let pairs = placement.chunks_of(shape, slowest).zip(placement.chunks_of(shape, fastest));
    let mut again = costs.clone();
    for (from, to) in pairs {
        let layer = each(&chunks[usize::from(from)], |time| time / layers);
        again = again.with_recompute_changed(|chunk, time| match chunk {
            _ if chunk == from => time - Nanos(time.0 / layers),
            _ if chunk == to => Nanos(time.0.saturating_add(layer.forward.0)),
            _ => time,
        });
        let (from, to) = (usize::from(from), usize::from(to));
        chunks[from] = both(&chunks[from], &layer, |time, layer| time - layer);
        chunks[to] = both(&chunks[to], &layer, |time, layer| time.saturating_add(layer));
    }
    let name = format!("a layer from stage {slowest} to stage {fastest}");
    let assumed = baseline.layers_per_stage.is_none();
    let note = assumed.then_some(LeverNote::AssumedLayers(ASSUMED_LAYERS));
    let variant = baseline.with_costs(name, again.with_chunks(chunks))?;
    Ok(vec![Variant { note, ..variant }])
}

/// A stage 5 % slower and 5 % faster; of a mirrored pair, which holds the same two chunks, both.
pub(super) fn slower_and_faster(baseline: &Baseline<'_>, place: Place) -> Variants {
    let Place::Stage(stage) = place else { return Ok(Vec::new()) };
    let is_mirrored = baseline.placement() == Placement::Mirrored;
    if is_mirrored && stage >= baseline.stages().div_ceil(2) {
        return Ok(Vec::new());
    }
    let twin = baseline.stages() - 1 - stage;
    let variant = |(percent, word): (u64, &str)| {
        let name = match is_mirrored && twin != stage {
            true => format!("stages {stage} and {twin} 5 % {word}"),
            false => format!("stage {stage} 5 % {word}"),
        };
        Ok(baseline.with_costs(name, at_pace(baseline, stage, percent))?)
    };
    [(105, "slower"), (95, "faster")].into_iter().map(variant).collect()
}

/// The costs where passes of `stage` take `percent` of their time.
fn at_pace(baseline: &Baseline<'_>, stage: usize, percent: u64) -> Costs {
    let (shape, costs) = (baseline.simulation.schedule().shape(), baseline.simulation.costs());
    let mut chunks = costs.chunks().to_vec();
    let own: Vec<u16> = baseline.placement().chunks_of(shape, stage).collect();
    for chunk in own.iter().copied().map(usize::from) {
        chunks[chunk] = each(&chunks[chunk], |time| scale(time, percent));
    }
    let recompute = |chunk, time: Nanos| match own.contains(&chunk) {
        true => Nanos(scale(time.0, percent)),
        false => time,
    };
    let mut shards = costs.shards().to_vec();
    if let Some(times) = shards.get_mut(stage) {
        let [before, after] = [times.before, times.after].map(|time| Nanos(scale(time.0, percent)));
        *times = ShardTimes { before, after };
    }
    let costs = costs.clone().with_recompute_changed(recompute).with_chunks(chunks);
    let collectives = costs.collectives();
    costs.with_shards(shards, collectives)
}

/// The time of all passes of `chunk` for a microbatch.
fn whole(costs: &Costs, chunk: u16) -> Nanos {
    let times = costs.chunks()[usize::from(chunk)];
    let again = costs.recompute(chunk).unwrap_or_default();
    times.forward + times.least_backward() + again
}

fn each(times: &PassTimes, change: impl Fn(u64) -> u64) -> PassTimes {
    both(times, times, |time, _| change(time))
}

fn both(times: &PassTimes, others: &PassTimes, join: impl Fn(u64, u64) -> u64) -> PassTimes {
    times.joined(others, |time, other| Nanos(join(time.0, other.0)))
}

/// `percent` of `time`, to the nearest nanosecond.
fn scale(time: u64, percent: u64) -> u64 {
    let scaled = (u128::from(time) * u128::from(percent) + 50) / 100;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
