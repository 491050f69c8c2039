//! Merges the ranks of a run: the stage and the pipeline of each, and the operations of all.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Kind, Nanos};

use super::between;
use super::order::Order;
use super::steps::{self, Step, Time};
use super::{Process, Sizes, Span, SpanFault, Spans};
use crate::error::{Place, TraceError};
use crate::hops::median;
use crate::lack::Lack;
use crate::numbers::count;
use crate::operation::{OpType, Operation};

/// How ranks are numbered.
#[derive(Clone, Copy)]
enum Numbering {
    /// Megatron-core's: a stage is a run of ranks.
    StageOutside,
    /// That of `--use-tp-pp-dp-mapping`: a replica is one.
    ReplicaOutside,
}

impl Sizes {
    /// The pipeline that a rank is in, and its stage.
    const fn place(self, rank: u32, numbering: Numbering) -> (u32, u32) {
        let Self { world, stages, replicas } = self;
        match numbering {
            Numbering::StageOutside => {
                let each = world / stages;
                (rank % each, rank / each)
            }
            Numbering::ReplicaOutside => {
                let peers = world / (stages * replicas);
                (rank / (peers * stages) * peers + rank % peers, rank / peers % stages)
            }
        }
    }
}

struct Rank {
    number: u32,
    steps: BTreeMap<u64, Step>,
}

/// A step that all ranks have whole.
struct Whole {
    number: u64,
    order: Order,
}

/// The operations of all ranks, and the information that they lack.
pub(crate) fn operations(found: Spans) -> Result<(Vec<Operation>, Vec<Lack>), TraceError> {
    let Spans { spans, processes, skipped } = found;
    let sizes = sizes(&processes, skipped)?;
    let mut by_rank: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for one in spans {
        by_rank.entry(one.rank).or_default().push(one);
    }
    let ranks = by_rank.into_iter().map(|(number, spans)| {
        Ok::<_, SpanFault>(Rank { number, steps: steps::of(number, spans)? })
    });
    let ranks: Vec<Rank> = ranks.collect::<Result<_, _>>()?;
    let mut all = ranks.iter().flat_map(|rank| rank.steps.values());
    if !all.any(|step| !step.forwards.is_empty() && step.microbatches > 0) {
        return Err(SpanFault::NoPasses { skipped }.into());
    }
    let arranged = Arranged::of(&ranks, sizes, Numbering::StageOutside);
    let arranged = arranged.or_else(|fault| {
        Arranged::of(&ranks, sizes, Numbering::ReplicaOutside).map_err(|_| fault)
    })?;
    let mut lacks = arranged.lacks();
    lacks.push(Lack::Between);
    if arranged.given() < usize::try_from(sizes.world).unwrap_or(usize::MAX) {
        lacks.push(Lack::Ranks { given: arranged.given(), world: sizes.world });
    }
    if processes.values().any(|one| one.has_gpu) {
        lacks.push(Lack::DeviceTimes);
    }
    let mut operations = arranged.operations(sizes)?;
    between::add(&mut operations);
    Ok((operations, lacks))
}

/// The sizes that all processes agree on.
fn sizes(processes: &BTreeMap<u32, Process>, skipped: usize) -> Result<Sizes, TraceError> {
    let Some((_, first)) = processes.first_key_value() else {
        return Err(SpanFault::NoPasses { skipped }.into());
    };
    processes.values().try_for_each(|one| first.agrees(one))?;
    let sizes @ Sizes { world, stages, replicas } = first.sizes;
    let parts = u64::from(stages) * u64::from(replicas);
    if parts == 0 || u64::from(world) % parts != 0 || world == 0 {
        return Err(SpanFault::Sizes { world, replicas, stages }.into());
    }
    count::<u16>(stages.into(), Place::Resource, "dl.pipeline_parallel.size")?;
    match processes.last_key_value() {
        Some((rank, _)) if *rank < world => Ok(sizes),
        _ => Err(SpanFault::Sizes { world, replicas, stages }.into()),
    }
}

/// The pipelines all of whose ranks have spans, and the steps that these have whole.
struct Arranged<'r> {
    /// The ranks of each by stage.
    pipelines: Vec<Vec<&'r Rank>>,
    /// With the microbatches of a group of each pipeline.
    steps: Vec<(Whole, Vec<u32>)>,
    cut: Vec<u64>,
}

impl<'r> Arranged<'r> {
    fn of(ranks: &'r [Rank], sizes: Sizes, numbering: Numbering) -> Result<Self, SpanFault> {
        let mut pipelines: BTreeMap<u32, BTreeMap<u32, &Rank>> = BTreeMap::new();
        for rank in ranks {
            let (pipeline, stage) = sizes.place(rank.number, numbering);
            pipelines.entry(pipeline).or_default().insert(stage, rank);
        }
        let is_whole = |one: &BTreeMap<u32, &Rank>| u32::try_from(one.len()) == Ok(sizes.stages);
        let whole = pipelines.into_values().filter(is_whole);
        let pipelines: Vec<Vec<&Rank>> = whole.map(|one| one.into_values().collect()).collect();
        if pipelines.is_empty() {
            let Sizes { world, stages, .. } = sizes;
            return Err(SpanFault::Ranks { given: ranks.len(), world, stages });
        }
        let mut arranged = Self { pipelines, steps: Vec::new(), cut: Vec::new() };
        arranged.find_steps(sizes)?;
        Ok(arranged)
    }

    fn ranks(&self) -> impl Iterator<Item = &'r Rank> + '_ {
        self.pipelines.iter().flatten().copied()
    }

    fn given(&self) -> usize {
        self.ranks().count()
    }

    fn find_steps(&mut self, sizes: Sizes) -> Result<(), SpanFault> {
        let numbers: BTreeSet<u64> =
            self.ranks().flat_map(|rank| rank.steps.keys().copied()).collect();
        let mut whole: Vec<Whole> = Vec::new();
        let mut partial = None;
        for number in numbers {
            match self.whole(number, sizes) {
                Ok(order) => whole.push(Whole { number, order }),
                Err(fault) => {
                    self.cut.push(number);
                    partial = partial.or(fault);
                }
            }
        }
        let chunks = whole.iter().map(|one| one.order.chunks).max();
        let Some(chunks) = chunks else {
            return Err(partial.unwrap_or(SpanFault::NoPasses { skipped: 0 }));
        };
        for one in whole {
            if one.order.chunks < chunks {
                self.cut.push(one.number);
                continue;
            }
            let groups: Result<Vec<u32>, SpanFault> =
                self.pipelines.iter().map(|ranks| group(&one, ranks)).collect();
            self.steps.push((one, groups?));
        }
        self.cut.sort_unstable();
        Ok(())
    }

    /// The order of a step, if all ranks have the same number of passes in it; else a rank that has not all.
    fn whole(&self, number: u64, sizes: Sizes) -> Result<Order, Option<SpanFault>> {
        let mut found: Option<Order> = None;
        for rank in self.ranks() {
            let step = rank.steps.get(&number).ok_or(None)?;
            let microbatches = step.microbatches;
            let chunks = step.chunks().filter(|chunks| {
                found.is_none_or(|one| (one.chunks, one.microbatches) == (*chunks, microbatches))
            });
            let Some(chunks) = chunks else {
                return Err(Some(SpanFault::NoWholeStep {
                    rank: rank.number,
                    step: number,
                    forwards: step.forwards.len(),
                    backwards: step.backwards.len(),
                    microbatches,
                }));
            };
            found = Some(Order { stages: sizes.stages, chunks, microbatches });
        }
        found.ok_or(None)
    }

    fn lacks(&self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        if !self.cut.is_empty() {
            lacks.push(Lack::CutSteps { steps: self.cut.clone() });
        }
        let outside = self.steps.iter().map(|(one, _)| {
            let steps = || self.ranks().filter_map(|rank| rank.steps.get(&one.number));
            let begin = steps().map(|step| step.whole.0).min().unwrap_or_default();
            let end = steps().map(|step| step.whole.1).max().unwrap_or_default();
            let times = || steps().flat_map(Step::times);
            let first = times().map(|time| time.0).min().unwrap_or_default();
            let last = times().map(|time| time.1).max().unwrap_or_default();
            (end - begin).0.saturating_sub((last - first).0)
        });
        let nanos = median(&mut outside.collect::<Vec<u64>>());
        lacks.push(Lack::OutsidePasses { nanos });
        lacks
    }

    fn operations(&self, sizes: Sizes) -> Result<Vec<Operation>, TraceError> {
        let mut operations = Vec::new();
        for (one, groups) in &self.steps {
            let optimizers: Vec<Time> = self
                .ranks()
                .filter_map(|rank| rank.steps.get(&one.number)?.optimizer.first().copied())
                .collect();
            let met = met(&optimizers).filter(|_| optimizers.len() == self.given());
            for (dp_rank, (ranks, group)) in (0u32..).zip(self.pipelines.iter().zip(groups)) {
                for (stage, rank) in (0u16..).zip(ranks) {
                    let Some(step) = rank.steps.get(&one.number) else { continue };
                    let place = Rooted { step: one.number, dp_rank, stage };
                    place.passes(step, one.order, *group, &mut operations)?;
                    place.others(step, met, sizes.replicas > 1, &mut operations);
                }
            }
        }
        Ok(operations)
    }
}

/// Microbatches of a group in the order that `ranks` ran.
fn group(one: &Whole, ranks: &[&Rank]) -> Result<u32, SpanFault> {
    let firsts: Vec<(u32, usize)> = (0u32..)
        .zip(ranks)
        .map(|(stage, rank)| (stage, rank.steps.get(&one.number).map_or(0, Step::first)))
        .collect();
    let Order { stages, chunks, microbatches } = one.order;
    one.order.group(&firsts).map_err(|stage| {
        let at = usize::try_from(stage).unwrap_or(0);
        let (rank, first) = (ranks[at].number, firsts[at].1);
        SpanFault::Order { rank, step: one.number, first, stages, chunks, microbatches }
    })
}

/// The moment at which ranks that do something together had all begun, if none was over by then.
fn met(all: &[Time]) -> Option<Nanos> {
    let begun = all.iter().map(|one| one.0).max()?;
    all.iter().all(|one| one.1 >= begun).then_some(begun)
}

/// A rank in a step.
#[derive(Clone, Copy)]
struct Rooted {
    step: u64,
    dp_rank: u32,
    stage: u16,
}

impl Rooted {
    const fn operation(self, optype: OpType, (start, end): Time) -> Operation {
        let Self { step, dp_rank, stage } = self;
        let duration = Nanos(end.0.saturating_sub(start.0));
        Operation { step, dp_rank, stage, optype, chunk: 0, microbatch: 0, start, duration }
    }

    fn passes(
        self,
        step: &Step,
        order: Order,
        group: u32,
        operations: &mut Vec<Operation>,
    ) -> Result<(), TraceError> {
        let lists = [(Kind::F, &step.forwards), (Kind::BW, &step.backwards)];
        for (kind, times) in lists {
            for (&time, (chunk, microbatch)) in times.iter().zip(order.table(group)) {
                let chunk = if kind == Kind::F { chunk } else { order.chunks - 1 - chunk };
                let chunk = i64::from(chunk) * i64::from(order.stages) + i64::from(self.stage);
                let chunk = count(chunk, Place::Resource, "number of chunks")?;
                let pass = self.operation(OpType::Pass(kind), time);
                operations.push(Operation { chunk, microbatch, ..pass });
            }
        }
        Ok(())
    }

    /// Adds the reduction of gradients, and the optimizer, which waits until all have `met`.
    fn others(self, step: &Step, met: Option<Nanos>, has_replicas: bool, all: &mut Vec<Operation>) {
        let reduction = if has_replicas { OpType::GradsReduceScatter } else { OpType::Host };
        all.extend(step.reductions.iter().map(|time| self.operation(reduction, *time)));
        for &(start, end) in &step.optimizer {
            let begun = met.map_or(start, |met| met.clamp(start, end));
            if met.is_some() {
                all.push(self.operation(OpType::ClipGradients, (start, begun)));
            }
            all.push(self.operation(OpType::Optimizer, (begun, end)));
        }
    }
}
