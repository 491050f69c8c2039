//! Steps whose context groups are dealt anew in every microbatch, each as large as its documents need.
//!
//! All devices of the data x context group of a stage begin a microbatch together: it takes as long as its
//! slowest group. So replicas are one pipeline, and need not be waited for at the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pipeline::{Bytes, Fault, Kind, Nanos, Pass, Value};
use rayon::prelude::*;
use sim::Replay;
use sim::engine::{Durations, EngineError};

use super::deal::{self, Group, group_sizes, pairs};
use super::{DocumentSteps, STEPS, times};
use crate::costed::{Costed, Rejected};
use crate::finalist::{Finalist, FinalistError};
use crate::inputs::Inputs;
use crate::model::number;
use crate::noise::{affordable, of_slowest};
use crate::orders::Orders;
use crate::setup::{Recipe, Setup, Unfit};

/// The share of a group's room that is filled, at points between which passes lie on a line.
const FILLED: [f64; 6] = [0.0625, 0.125, 0.25, 0.5, 0.75, 1.0];
/// The parts of the range of shares of pairs, at whose ends passes are computed.
const GRID: usize = 8;
/// The rounds of all stages in which a schedule must take one of the counts of microbatches that are tried.
const ROUNDS: usize = 2;

/// Steps whose context groups are as large as their documents need.
#[derive(Clone, PartialEq, Debug)]
pub struct Dynamic {
    /// The steps.
    pub steps: DocumentSteps,
    /// The most tokens of a microbatch on a device.
    pub tokens_per_device: u64,
    /// Microbatches of a step in the mean.
    pub microbatches: f64,
    /// The sizes that groups have, the smallest first.
    pub groups: Vec<GroupShare>,
}

/// What groups of one size have to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupShare {
    /// Devices that share each document.
    pub context: u64,
    /// The share of all tokens that they have.
    pub tokens: f64,
}

/// The steps of `finalist` if its context groups are dealt anew in every microbatch, for `documents` of so
/// many tokens, one behind the other; what is longer than a sequence is cut. Nothing if `stop` is so before
/// the last.
///
/// # Errors
/// If there are no documents, or a step cannot be run.
pub fn dynamic(
    inputs: &Inputs<'_>,
    finalist: &Finalist,
    documents: &[u32],
    orders: &Orders,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Dynamic>, FinalistError> {
    let costed = finalist.costed();
    let table = Table::of(inputs, costed)?;
    let drawn = affordable(finalist).clamp(1, STEPS);
    let steps = table.cut_steps(documents, inputs.recipe.batch, drawn);
    let deal = |documents: &Vec<u64>| (!stop()).then(|| table.deal(documents));
    let dealt: Option<Vec<Vec<Vec<Group>>>> = steps.par_iter().map(deal).collect();
    let Some(dealt) = dealt else { return Ok(None) };
    let groups = table.shares(&dealt);
    let pipelines = Pipelines::of(inputs, finalist, orders, dealt.iter().map(Vec::len))?;
    let step = |own: Vec<Vec<Group>>| {
        let Some(pipeline) = pipelines.of_microbatches(own.len()) else {
            return Err(FinalistError::Rejected(Rejected::Unfit(Unfit::TooLarge)));
        };
        let count = pipeline.costed().shape.microbatches() as usize;
        let own = deal::cut(own, count, &table.sizes, &|group| table.time(group));
        let step = (!stop()).then(|| pipeline.step_under(&table.durations(&own)));
        let step: Option<Result<Nanos, EngineError>> = step;
        Ok(step.transpose()?.map(|step| (step, count)))
    };
    let all: Result<Option<Vec<(Nanos, usize)>>, FinalistError> =
        dealt.into_par_iter().map(step).collect();
    let Some(all) = all? else { return Ok(None) };
    let drawn = all.len() as u64;
    let count: usize = all.iter().map(|(_, count)| count).sum();
    let [mean, p95] = of_slowest(all.into_iter().map(|(step, _)| step).collect(), 1);
    Ok(Some(Dynamic {
        steps: DocumentSteps { drawn, mean, p95 },
        tokens_per_device: table.room,
        microbatches: number(count as u64) / number(drawn),
        groups,
    }))
}

/// The set-up with as many microbatches as steps have.
struct Pipelines(BTreeMap<usize, Finalist>);

impl Pipelines {
    /// For steps of each of `counts`, the least microbatches from it on that the schedule takes.
    fn of(
        inputs: &Inputs<'_>,
        finalist: &Finalist,
        orders: &Orders,
        counts: impl Iterator<Item = usize>,
    ) -> Result<Self, FinalistError> {
        let mut known: BTreeMap<usize, Finalist> = BTreeMap::new();
        let mut counts: Vec<usize> = counts.collect();
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let taken = known.last_key_value().is_some_and(|(most, _)| *most >= count);
            if !taken {
                let more = (count..).take(ROUNDS * finalist.costed().shape.stages());
                let mut tried =
                    more.map(|count| with_microbatches(inputs, finalist, orders, count));
                let refused = |tried: &Result<Finalist, FinalistError>| {
                    matches!(tried, Err(FinalistError::Rejected(Rejected::Schedule(_))))
                };
                let run = tried.find(|one| !refused(one));
                let none = || FinalistError::from(Fault::Overflow { what: "the microbatches" });
                let run = run.ok_or_else(none)??;
                known.insert(run.costed().shape.microbatches() as usize, run);
            }
        }
        Ok(Self(known))
    }

    /// That with the least microbatches that are not fewer than `count`.
    fn of_microbatches(&self, count: usize) -> Option<&Finalist> {
        self.0.range(count..).next().map(|(_, one)| one)
    }
}

/// `finalist` with other microbatches, whether its devices hold them or not.
fn with_microbatches(
    inputs: &Inputs<'_>,
    finalist: &Finalist,
    orders: &Orders,
    microbatches: usize,
) -> Result<Finalist, FinalistError> {
    let known = finalist.costed();
    if known.shape.microbatches() as usize == microbatches {
        return Ok(finalist.clone());
    }
    let costed = inputs.cost_of(&known.setup, microbatches as u64)?;
    let capacities = vec![Bytes(u64::MAX); known.capacities.len()];
    let costed = Costed { limit: known.limit, capacities, ..costed };
    let evaluation = inputs.evaluate_one(costed, &mut Replay::new(), orders)?;
    inputs.finalist_in(evaluation, orders)
}

/// How long the passes of groups take, by their size, how full they are, and the share of their pairs.
struct Table {
    /// The sizes that groups may have.
    sizes: Vec<u64>,
    /// The most tokens on a device, and of a sequence.
    room: u64,
    sequence: u64,
    /// By size, filling and share: F, B and W of every chunk in nanoseconds.
    passes: Vec<Vec<Vec<Vec<[f64; 3]>>>>,
}

impl Table {
    fn of(inputs: &Inputs<'_>, costed: &Costed) -> Result<Self, Rejected> {
        let Setup { data, context, microbatch, .. } = costed.setup;
        let sizes = group_sizes(data.saturating_mul(context));
        let sequence = inputs.model.sequence;
        let room = microbatch.saturating_mul(sequence).div_ceil(context).max(1);
        let of_size = |&size: &u64| -> Result<Vec<_>, Rejected> {
            let most = number(size.saturating_mul(room));
            let tokens = FILLED.map(|filled| crate::nanos(filled * most / 1e9).0.max(1));
            tokens.iter().map(|&tokens| at_tokens(inputs, costed, size, tokens)).collect()
        };
        let passes = sizes.iter().map(of_size).collect::<Result<_, Rejected>>()?;
        Ok(Self { sizes, room, sequence, passes })
    }

    /// The documents of each of up to `steps` steps of `batch` sequences, the longest first. A list that ends
    /// begins anew, once at most.
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
            own.sort_unstable_by_key(|piece| Reverse(*piece));
            own
        };
        (0..steps).map(&mut one).collect()
    }

    /// The groups of each microbatch of a step of `documents`, the longest first.
    fn deal(&self, documents: &[u64]) -> Vec<Vec<Group>> {
        let groups = deal::groups(documents, &self.sizes, self.room);
        deal::microbatches(groups, &self.sizes, &|group| self.time(group))
    }

    /// The tokens of the groups of each size, as a share of all.
    fn shares(&self, steps: &[Vec<Vec<Group>>]) -> Vec<GroupShare> {
        let mut tokens: BTreeMap<u64, u64> = BTreeMap::new();
        for group in steps.iter().flatten().flatten() {
            *tokens.entry(group.devices).or_default() += group.tokens;
        }
        let all = number(tokens.values().sum::<u64>().max(1));
        let share = |(context, tokens)| GroupShare { context, tokens: number(tokens) / all };
        tokens.into_iter().map(share).collect()
    }

    /// F, B and W of `chunk` for the documents of `group`.
    fn of_chunk(&self, group: &Group, chunk: usize) -> [f64; 3] {
        let at = self.sizes.partition_point(|size| *size < group.devices).min(self.sizes.len() - 1);
        let filled = number(group.tokens) / number(group.devices.saturating_mul(self.room));
        let above = FILLED.partition_point(|one| *one < filled).clamp(1, FILLED.len() - 1);
        let [low, high] = [FILLED[above - 1], FILLED[above]];
        let full = ((filled - low) / (high - low)).clamp(0.0, 1.0);
        let share = group.pairs / pairs(group.tokens).max(1.0);
        let (below, part) = times::place(share, GRID);
        let on = |filled: usize, pass: usize| {
            let shares = &self.passes[at][filled];
            let [low, high] = [below, below + 1].map(|share| shares[share][chunk][pass]);
            low + (high - low) * part
        };
        std::array::from_fn(|pass| on(above - 1, pass) * (1.0 - full) + on(above, pass) * full)
    }

    /// How long all passes of `group` take together, in nanoseconds.
    fn time(&self, group: &Group) -> u64 {
        let chunks = self.passes[0][0][0].len();
        let all: f64 = (0..chunks).flat_map(|chunk| self.of_chunk(group, chunk)).sum();
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
        let recipe = Recipe { attended, ..*inputs.recipe };
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
