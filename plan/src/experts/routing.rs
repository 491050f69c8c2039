//! Choices of experts by tokens, layer by layer and microbatch by microbatch, and the load that
//! results.
//!
//! A layer's experts are as popular as a law or a measurement says, and lie on the devices of their group
//! in order. Every token visits k different experts. How many choose each of many experts is nearly
//! normal, with the variance T q (1 - q) of T tokens of which a share q chooses an expert, and all
//! together are k T: the covariances of sampling with a fixed size (Hájek 1964, *Asymptotic theory of
//! rejective sampling*), which are exact for experts that are all alike.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rand::SeedableRng;
use rand_xoshiro::SplitMix64;

use super::Load;
use super::capacity::{Capacity, Moments};
use super::chance::normal;
use super::error::RoutingError;
use super::popularity::{Placement, Popularity};
use crate::model::{Experts, number};
use crate::partition::Partition;

/// Layers, each with a microbatch, that are drawn of a group.
const DRAWS: usize = 1024;
/// Experts of all layers that are drawn, but at least those of [`FEWEST`] layers.
const MOST_DRAWN: usize = 1 << 20;
/// As few layers as are drawn of however many experts.
const FEWEST: usize = 64;
/// The share of layers and microbatches that do not exceed the tail.
const TAIL: f64 = 0.95;

/// How tokens choose among the experts of a model.
#[derive(Debug)]
pub struct Routing {
    popularity: Popularity,
    capacity: Option<Capacity>,
    experts: Experts,
    seed: u64,
    /// The lists of shares that layers have, and the layers.
    shares: Vec<Vec<f64>>,
    layers: Vec<Placement>,
    /// Filled as groups are asked for.
    known: Mutex<HashMap<Group, Load>>,
}

/// The devices that share the experts of a layer, and their tokens in a microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Group {
    /// Parts into which experts are divided.
    parts: u64,
    /// Devices that bring tokens.
    sources: u64,
    /// Tokens of a microbatch over all devices of a tensor and a context group.
    tokens: u64,
    /// Devices that have them.
    sharing: u64,
}

impl PartialEq for Routing {
    /// The fields that are drawn follow from these.
    fn eq(&self, other: &Self) -> bool {
        (&self.popularity, self.capacity, self.experts, self.seed)
            == (&other.popularity, other.capacity, other.experts, other.seed)
    }
}

impl Routing {
    /// Of tokens that choose among `experts` by their `popularity`, where chance begins at `seed`. With a
    /// `capacity` tokens are dropped.
    pub fn new(
        popularity: Popularity,
        capacity: Option<Capacity>,
        experts: Experts,
        seed: u64,
    ) -> Result<Self, RoutingError> {
        popularity.check(experts)?;
        let most = number(experts.count) / number(experts.top_k.max(1));
        if let Some(Capacity { factor: given, .. }) = capacity
            && !(given > 0.0 && given <= most)
        {
            return Err(RoutingError::Capacity { given, most });
        }
        let count = usize::try_from(experts.count).unwrap_or(usize::MAX).max(1);
        let draws = DRAWS.min((MOST_DRAWN / count).max(FEWEST));
        let mut chance = SplitMix64::seed_from_u64(seed);
        let (shares, layers) = popularity.layers(experts, draws, &mut chance);
        let known = Mutex::default();
        Ok(Self { popularity, capacity, experts, seed, shares, layers, known })
    }

    /// The capacity of an expert, if there is one.
    #[must_use]
    pub const fn capacity(&self) -> Option<Capacity> {
        self.capacity
    }

    /// The load of a layer on the devices of its group, with `partition` of the model and sequences of
    #[must_use]
    pub fn load(&self, partition: Partition, sequence: u64) -> Load {
        let group = Group {
            parts: partition.expert.clamp(1, self.experts.count.max(1)),
            sources: partition.expert.max(1).saturating_mul(partition.expert_tensor.max(1)),
            tokens: partition.microbatch.saturating_mul(sequence),
            sharing: partition.tensor.saturating_mul(partition.context).max(1),
        };
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(load) = lock().get(&group) {
            return *load;
        }
        let load = self.drawn(group);
        lock().insert(group, load);
        load
    }

    fn drawn(&self, group: Group) -> Load {
        let tokens = number(group.tokens) / number(group.sharing);
        let most = self.capacity.map(|capacity| capacity.rows(self.experts, tokens));
        let moments: Vec<Vec<Moments>> = self
            .shares
            .iter()
            .map(|list| list.iter().map(|share| Moments::of(*share, tokens, most)).collect())
            .collect();
        let even = tokens * number(self.experts.top_k) * number(group.sources);
        let part = even / number(group.parts);
        let mut chance = SplitMix64::seed_from_u64(self.seed ^ group.parts);
        let (mut fullest, mut kept) = (Vec::with_capacity(self.layers.len()), 0.0);
        for layer in &self.layers {
            let parts = self.parts(layer, &moments[layer.shares], group);
            let own: f64 = parts.iter().map(|own| own.kept).sum();
            kept += own;
            let capacity = most.unwrap_or(tokens) * number(group.sources) * self.experts_of(group);
            // Without drops rows add up to all choices, but for rounding.
            let part = if most.is_some() { part } else { own / number(group.parts) };
            fullest.push(rows_of_fullest(&parts, &mut chance).min(capacity) / part);
        }
        let draws = number(fullest.len().max(1) as u64);
        let dropped = most.map_or(0.0, |_| (1.0 - kept / draws / even).max(0.0));
        if let Some((rows, true)) = most.zip(self.capacity.map(|capacity| capacity.padded)) {
            let padded = rows * number(self.experts.count) / (tokens * number(self.experts.top_k));
            return Load { mean: padded, tail: padded, sent: padded, dropped };
        }
        // No device has more than the fullest, though so few draws may come out just below.
        let mean = (fullest.iter().sum::<f64>() / draws).max(1.0 - dropped);
        fullest.sort_by(f64::total_cmp);
        let tail = fullest.get(quantile(fullest.len())).copied().unwrap_or(mean);
        Load { mean, tail, sent: 1.0 - dropped, dropped }
    }

    /// Experts of each part of `group`.
    fn experts_of(&self, group: Group) -> f64 {
        number(self.experts.count) / number(group.parts)
    }

    /// Rows of the experts of each part of `layer`, from all devices of `group`.
    fn parts(&self, layer: &Placement, moments: &[Moments], group: Group) -> Vec<Part> {
        let count = moments.len();
        // A sample of a fixed size has as much more spread before its size is fixed.
        let fixed = number(count as u64) / number((count as u64).saturating_sub(1).max(1));
        let each = (count / usize::try_from(group.parts).unwrap_or(usize::MAX)).max(1);
        let sources = number(group.sources);
        let expert = |at: usize| match &layer.order {
            Some(order) => moments[usize::from(order[at])],
            None => moments[at],
        };
        let part = |first: usize| {
            let mut sum = Part::default();
            (first..(first + each).min(count)).for_each(|at| sum.add(expert(at), fixed));
            sum.times(sources)
        };
        (0..count).step_by(each).map(part).collect()
    }
}

/// The place of the tail among so many, ascending.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // From 0 to the number of draws.
fn quantile(count: usize) -> usize {
    ((number(count as u64) * TAIL).ceil() as usize).clamp(1, count.max(1)) - 1
}

/// Rows of the experts of one part of a group.
#[derive(Clone, Copy, Default)]
struct Part {
    /// Rows, in the mean.
    kept: f64,
    /// The variance of how many choose them, before all choices add up.
    chosen: f64,
    /// Its covariance with rows that are kept.
    both: f64,
    /// The variance of rows that are kept, before all choices add up.
    spread: f64,
}

impl Part {
    /// With another expert, whose choices have `fixed` times as much variance before they add up.
    fn add(&mut self, expert: Moments, fixed: f64) {
        self.kept += expert.kept;
        self.chosen += expert.chosen * fixed;
        self.both += expert.both * fixed;
        // Of kept rows, only the share that follows the choices is tied to those of other experts.
        let follows = match expert.chosen > 0.0 {
            true => expert.both / expert.chosen * expert.both,
            false => 0.0,
        };
        self.spread += expert.spread + follows * (fixed - 1.0);
    }

    fn times(self, count: f64) -> Self {
        Self {
            kept: self.kept * count,
            chosen: self.chosen * count,
            both: self.both * count,
            spread: self.spread * count,
        }
    }
}

/// Rows of the fullest of `parts` in a microbatch.
fn rows_of_fullest(parts: &[Part], chance: &mut SplitMix64) -> f64 {
    let chosen: Vec<f64> = parts.iter().map(|part| part.chosen.sqrt() * normal(chance)).collect();
    let all: f64 = parts.iter().map(|part| part.chosen).sum();
    let over = if all > 0.0 { chosen.iter().sum::<f64>() / all } else { 0.0 };
    let rows = |(part, chosen): (&Part, &f64)| {
        if part.chosen <= 0.0 {
            return part.kept;
        }
        let follows = part.both / part.chosen;
        let alone = (part.spread - part.both * follows).max(0.0);
        let own = if alone > 0.0 { alone.sqrt() * normal(chance) } else { 0.0 };
        part.kept + follows * (chosen - part.chosen * over) + own
    };
    parts.iter().zip(&chosen).map(rows).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
