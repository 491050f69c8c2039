//! Steps with dynamic context parallelism: in every microbatch, context groups as large as their
//! documents need.
//!
//! All devices of the data x context group of a stage begin a microbatch together: it takes as long as its
//! slowest group. So replicas are one pipeline, and need not be waited for at the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pipeline::{Kind, Nanos, Pass, Value};
use rayon::prelude::*;
use sim::engine::{Durations, EngineError};

use super::groups::{self, Group, group_sizes, pairs};
use super::{DocumentSteps, STEPS, times};
use crate::costed::{Costed, Rejected};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::model::number;
use crate::noise::{affordable, of_slowest};
use crate::setup::{Recipe, Setup};

/// Fill of a group's capacity at the points between which pass times are interpolated linearly.
const FILLED: [f64; 6] = [0.0625, 0.125, 0.25, 0.5, 0.75, 1.0];
/// The parts of the range of shares of pairs, at whose ends passes are computed.
const GRID: usize = 8;
/// How often documents are distributed with a few less until they fit into the microbatches.
const ROUNDS: u32 = 32;
/// The largest share of the documents that is distributed again.
const LESS: f64 = 0.998;

/// Steps whose context groups are as large as their documents need.
#[derive(Clone, PartialEq, Debug)]
pub struct Dynamic {
    pub steps: DocumentSteps,
    /// The most tokens of a microbatch on a device.
    pub tokens_per_device: u64,
    /// Mean share of the tokens of a step that fit into its microbatches; the rest belongs to later
    /// steps.
    pub filled: f64,
    /// The sizes that groups have, the smallest first.
    pub groups: Vec<GroupShare>,
}

/// Load of the context groups of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupShare {
    /// Devices that share each document.
    pub context: u64,
    /// The share of all tokens that they have.
    pub tokens: f64,
}

/// The steps of `finalist` with context groups formed anew in every microbatch, for `documents` of
/// these lengths in tokens, in this order; a document longer than a sequence is split. A step takes as
/// many documents as fit into its microbatches; times are scaled to all its tokens. `None` if `stop`
/// returns true before the last.
pub fn dynamic(
    inputs: &Inputs<'_>,
    finalist: &Finalist,
    documents: &[u32],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Dynamic>, FinalistError> {
    let costed = finalist.costed();
    let table = Table::of(inputs, costed)?;
    let drawn = affordable(finalist).clamp(1, STEPS);
    let steps = table.cut_steps(documents, inputs.recipe.batch, drawn);
    let assign = |documents: &Vec<u64>| (!stop()).then(|| table.assign(documents));
    let assigned: Option<Vec<StepGroups>> = steps.par_iter().map(assign).collect();
    let Some(assigned) = assigned else { return Ok(None) };
    let step = |own: &StepGroups| {
        let run = || finalist.step_under(&table.durations(&own.microbatches));
        let whole = |step: Nanos| crate::nanos(number(step.0) / own.filled / 1e9);
        (!stop()).then(run).transpose().map(|step| step.map(whole))
    };
    let all: Result<Option<Vec<Nanos>>, EngineError> = assigned.par_iter().map(step).collect();
    let Some(all) = all? else { return Ok(None) };
    let drawn = all.len() as u64;
    let [mean, p95] = of_slowest(all, 1);
    Ok(Some(Dynamic {
        steps: DocumentSteps { drawn, mean, p95 },
        tokens_per_device: table.capacity,
        filled: assigned.iter().map(|own| own.filled).sum::<f64>() / number(drawn),
        groups: shares(&assigned),
    }))
}

/// The documents of a step, distributed over microbatches.
struct StepGroups {
    /// The groups of each microbatch, the longest first.
    microbatches: Vec<Vec<Group>>,
    /// The share of the tokens of a step that they have.
    filled: f64,
}

/// The tokens of the groups of each size, as a share of all.
fn shares(steps: &[StepGroups]) -> Vec<GroupShare> {
    let mut tokens: BTreeMap<u64, u64> = BTreeMap::new();
    for group in steps.iter().flat_map(|own| &own.microbatches).flatten() {
        *tokens.entry(group.devices).or_default() += group.tokens;
    }
    let all = number(tokens.values().sum::<u64>().max(1));
    let share = |(context, tokens)| GroupShare { context, tokens: number(tokens) / all };
    tokens.into_iter().map(share).collect()
}

/// How long the passes of groups take, by their size, how full they are, and the share of their pairs.
struct Table {
    /// The sizes that groups may have.
    sizes: Vec<u64>,
    /// The most tokens on a device, and of a sequence.
    capacity: u64,
    sequence: u64,
    /// By size, filling and share: F, B and W of every chunk in nanoseconds.
    passes: Vec<Vec<Vec<Vec<[f64; 3]>>>>,
    /// The same for all passes together.
    sums: Vec<Vec<Vec<f64>>>,
    /// The microbatches of a step.
    microbatches: usize,
}

impl Table {
    fn of(inputs: &Inputs<'_>, costed: &Costed) -> Result<Self, Rejected> {
        let Setup { data, context, microbatch, .. } = costed.setup;
        let sizes = group_sizes(data.saturating_mul(context));
        let sequence = inputs.model.sequence;
        let capacity = microbatch.saturating_mul(sequence).div_ceil(context).max(1);
        let of_size = |&size: &u64| -> Result<Vec<_>, Rejected> {
            let most = number(size.saturating_mul(capacity));
            let tokens = FILLED.map(|filled| crate::nanos(filled * most / 1e9).0.max(1));
            tokens.iter().map(|&tokens| at_tokens(inputs, costed, size, tokens)).collect()
        };
        let passes: Vec<Vec<Vec<Vec<[f64; 3]>>>> =
            sizes.iter().map(of_size).collect::<Result<_, Rejected>>()?;
        let sum = |chunks: &Vec<[f64; 3]>| chunks.iter().flatten().sum::<f64>();
        let of_filled = |shares: &Vec<Vec<[f64; 3]>>| shares.iter().map(sum).collect();
        let sums = passes.iter().map(|filled| filled.iter().map(of_filled).collect()).collect();
        let microbatches = costed.shape.microbatches() as usize;
        Ok(Self { sizes, capacity, sequence, passes, sums, microbatches })
    }

    /// The documents of each of up to `steps` steps of `batch` sequences. A list that ends begins anew.
    fn cut_steps(&self, documents: &[u32], batch: u64, steps: u64) -> Vec<Vec<u64>> {
        let tokens = batch.saturating_mul(self.sequence);
        let all: u64 = documents.iter().map(|one| u64::from(*one)).sum();
        let steps = (all / tokens.max(1)).clamp(1, steps);
        let mut rest = 0;
        let mut next = documents.iter().cycle().map(|one| u64::from(*one).max(1));
        let mut one = |_| {
            let (mut left, mut own) = (tokens, Vec::new());
            while left > 0 {
                if rest == 0 {
                    rest = next.next().unwrap_or(left);
                }
                let piece = rest.min(self.sequence).min(left);
                own.push(piece);
                rest -= piece;
                left -= piece;
            }
            own
        };
        (0..steps).map(&mut one).collect()
    }

    /// Distributes as many of `documents`, from the first on, as fit into the microbatches.
    fn assign(&self, documents: &[u64]) -> StepGroups {
        let time = |group: &Group| self.time(group);
        let devices = self.sizes.last().copied().unwrap_or(1);
        let may = number(devices.saturating_mul(self.microbatches as u64));
        let all = number(documents.iter().sum::<u64>().max(1));
        let mut share = 1.0;
        let mut round = 0;
        loop {
            let mut taken = 0;
            let fits = |document: &&u64| {
                taken += **document;
                number(taken) <= share * all
            };
            let mut own: Vec<u64> = documents.iter().take_while(fits).copied().collect();
            own.sort_unstable_by_key(|document| Reverse(*document));
            let groups = groups::groups(&own, &self.sizes, self.capacity);
            let needed = number(groups.iter().map(|group| group.devices).sum::<u64>());
            let mut microbatches = groups::microbatches(groups, &self.sizes, &time);
            round += 1;
            if microbatches.len() > self.microbatches && round < ROUNDS && own.len() > 1 {
                share *= (may / needed).min(LESS);
                continue;
            }
            microbatches.truncate(self.microbatches);
            let microbatches = groups::split(microbatches, self.microbatches, &self.sizes, &time);
            let tokens = microbatches.iter().flatten().map(|group| group.tokens).sum::<u64>();
            return StepGroups { microbatches, filled: number(tokens.max(1)) / all };
        }
    }

    /// The value for `group`, interpolated between the points of the table: `of` takes a size, a fill
    /// and a share.
    fn between(&self, group: &Group, of: impl Fn([usize; 3]) -> f64) -> f64 {
        let size = self.sizes.partition_point(|size| *size < group.devices);
        let size = size.min(self.sizes.len() - 1);
        let filled = number(group.tokens) / number(group.devices.saturating_mul(self.capacity));
        let above = FILLED.partition_point(|one| *one < filled).clamp(1, FILLED.len() - 1);
        let [low, high] = [FILLED[above - 1], FILLED[above]];
        let full = ((filled - low) / (high - low)).clamp(0.0, 1.0);
        let (below, part) = times::place(group.pairs / pairs(group.tokens).max(1.0), GRID);
        let on = |filled: usize| {
            let [low, high] = [below, below + 1].map(|share| of([size, filled, share]));
            low + (high - low) * part
        };
        on(above - 1) * (1.0 - full) + on(above) * full
    }

    /// F, B and W of `chunk` for the documents of `group`.
    fn of_chunk(&self, group: &Group, chunk: usize) -> [f64; 3] {
        let at = |[size, filled, share]: [usize; 3], pass: usize| {
            self.passes[size][filled][share][chunk][pass]
        };
        std::array::from_fn(|pass| self.between(group, |point| at(point, pass)))
    }

    /// How long all passes of `group` take together, in nanoseconds.
    fn time(&self, group: &Group) -> u64 {
        let all = self.between(group, |[size, filled, share]| self.sums[size][filled][share]);
        u64::try_from(times::whole(all)).unwrap_or(0)
    }

    /// The passes of microbatches that take as long as the longest of their groups.
    fn durations(&self, microbatches: &[Vec<Group>]) -> Longest {
        let chunks = self.passes[0][0][0].len();
        let of = |own: &Vec<Group>| {
            let longest = own.first();
            let one = |chunk| longest.map_or([0.0; 3], |group| self.of_chunk(group, chunk));
            let whole = |nanos: f64| u64::try_from(times::whole(nanos)).unwrap_or(0);
            (0..chunks).map(|chunk| one(chunk).map(whole)).collect()
        };
        Longest(microbatches.iter().map(of).collect())
    }
}

/// The passes of a group of `size` devices with `tokens` tokens, by the share of pairs.
fn at_tokens(
    inputs: &Inputs<'_>,
    costed: &Costed,
    size: u64,
    tokens: u64,
) -> Result<Vec<Vec<[f64; 3]>>, Rejected> {
    let all = costed.setup.data.saturating_mul(costed.setup.context);
    let setup = Setup { context: size, data: all / size.max(1), microbatch: 1, ..costed.setup };
    let model = inputs.model.with_sequence(tokens);
    let at = |share: usize| {
        let attended = number(share as u64) / number(GRID as u64);
        let recipe = Recipe { attended, ..inputs.recipe.clone() };
        let inputs = Inputs { model: &model, recipe: &recipe, ..*inputs };
        times::passes_of(&inputs, &setup, costed)
    };
    (0..=GRID).map(at).collect()
}

/// F, B and W by microbatch and chunk, in nanoseconds.
struct Longest(Vec<Vec<[u64; 3]>>);

impl Durations for Longest {
    fn pass(&self, nominal: u64, _: usize, pass: Pass, _: u32, _: u64) -> u64 {
        let own = || self.0.get(pass.microbatch as usize)?.get(usize::from(pass.chunk));
        let [forward, backward, weight] = own().copied().unwrap_or_default();
        match pass.kind {
            Kind::S | Kind::T => nominal,
            Kind::F | Kind::R => forward,
            Kind::B => backward,
            Kind::W => weight,
            Kind::BW => backward.saturating_add(weight),
        }
    }

    fn hop(&self, nominal: u64, _: Value, _: usize, _: usize, _: u32, _: u64) -> u64 {
        nominal
    }
}
