//! Orders that local search may begin with.
// Rounding of times does not matter to a search.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

use pipeline::{Costs, Family, Nanos, PassTimes};

use super::anneal::Timer;
use super::draws::Draws;
use super::{UnderNoise, most_blocks, training};
use crate::compiled_instance::CompiledInstance;
use crate::error::SearchError;
use crate::found::{Effort, Found, Progress};
use crate::instance::Instance;
use crate::search::search;
use crate::side_by_side::Stop;
use crate::start;
use crate::timing::Clock;

/// By how much hops are longer in the searches of orders that leave room between stages, in mean passes.
const ROOM: [f64; 4] = [0.1, 0.25, 0.5, 1.0];
/// The most blocks of replicas in which published orders are compared.
const PUBLISHED_BLOCKS: usize = 8;

/// Adds to `proposed` the order of the nominal search `found`, those of searches for other times, and the
/// published ones. The order for the mean times of `draws` is returned, too.
pub(super) fn all(
    (instance, compiled): (&Instance, &CompiledInstance),
    (found, draws): (&Found, &Draws<'_>),
    effort: Effort,
    proposed: &mut Vec<Vec<u16>>,
    progress: &mut dyn FnMut(Progress),
    stop: Stop<'_>,
) -> Result<Option<Vec<u16>>, SearchError> {
    proposed.extend(compiled.sequence(&found.schedule));
    let mut clock = Clock::default();
    let published = start::published(instance, start::Starts::All, compiled, &mut clock);
    proposed.extend(published.into_iter().map(|(_, _, sequence)| sequence));
    let mean = mean_costs(instance, compiled, draws);
    let mut ask = |costs: Costs| -> Result<Option<Vec<u16>>, SearchError> {
        if stop() {
            return Ok(None);
        }
        let other = Instance { costs, ..instance.clone() };
        let found = search(&other, effort, &mut *progress, stop)?;
        Ok(compiled.sequence(&found.schedule))
    };
    let expected = ask(mean.clone())?;
    proposed.extend(expected.clone());
    for room in ROOM {
        let more = Nanos((room * compiled.mean_pass()) as u64);
        proposed.extend(ask(mean.clone().with_hops(mean.hops().map(|hop| hop + more)))?);
    }
    Ok(expected)
}

/// The costs of `instance` with the mean times of `draws`.
fn mean_costs(instance: &Instance, compiled: &CompiledInstance, draws: &Draws<'_>) -> Costs {
    let at = (instance.shape, instance.placement);
    let mut chunks = instance.costs.chunks().to_vec();
    let mut again: Vec<Option<Nanos>> =
        (0..instance.shape.chunks()).map(|chunk| instance.costs.recompute(chunk)).collect();
    for (lane, (_, pass)) in compiled.first_passes(at).enumerate() {
        let time = Nanos(draws.mean_pass(lane));
        let chunk = usize::from(pass.chunk);
        let times: &mut PassTimes = &mut chunks[chunk];
        match pass.kind {
            pipeline::Kind::F => times.forward = time,
            pipeline::Kind::B => times.backward_input = time,
            pipeline::Kind::W => times.backward_weight = time,
            _ => again[chunk] = again[chunk].map(|_| time),
        }
    }
    let costs = instance.costs.clone().with_chunks(chunks);
    if instance.costs.has_recompute() { costs.with_recompute(again) } else { costs }
}

/// The published order that does best in replicas of the noise that were not searched for it.
pub(super) fn best_published(
    instance: &Instance,
    compiled: &CompiledInstance,
    under: &UnderNoise<'_>,
) -> Option<(Family, Vec<u16>)> {
    let trained = training(under.noise);
    let blocks = PUBLISHED_BLOCKS.min(most_blocks(compiled));
    let draws = Draws::new(instance, compiled, &trained, 0..blocks);
    let mut timer = Timer::new(compiled, &draws, under.statistic);
    let mut clock = Clock::default();
    let mut best: Option<(f64, Family, Vec<u16>)> = None;
    for (one, _, sequence) in start::published(instance, start::Starts::All, compiled, &mut clock) {
        let Some(energy) = timer.energy(&sequence) else { continue };
        if best.as_ref().is_none_or(|(least, ..)| energy < *least) {
            best = Some((energy, one.family, sequence));
        }
    }
    best.map(|(_, family, sequence)| (family, sequence))
}
