//! A set-up with its costs, before and after an order is made for it.

use std::borrow::Cow;

use pipeline::{
    Bytes, Costs, Fault, Footprint, Footprints, LayerLayout, Limit, Memory, Metrics, Nanos,
    PassTimes, Problem, Schedule, Shape,
};
use sim::Replay;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};
use thiserror::Error;

use crate::experts::Load;
use crate::layer::PartTimes;
use crate::memory::{self, StageMemory};
use crate::memory_budget::Overflow;
use crate::model::{Recompute, Transformer};
use crate::setup::{Boundary, Setup, Unfit};
use crate::times::Times;

/// Why a set-up cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Rejected {
    /// It does not divide.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The schedule cannot do it.
    #[error("{0}")]
    Schedule(Fault),
    /// A device does not hold it.
    #[error("{0}")]
    Memory(Overflow),
}

/// A set-up with its costs, before any order is made.
#[derive(Clone, Debug)]
pub struct Costed {
    /// The set-up.
    pub setup: Setup,
    /// Stages, chunks and microbatches.
    pub shape: Shape,
    /// Layers of each chunk in model order.
    pub layers: Vec<u64>,
    /// Layers of multi-token prediction of each chunk in model order.
    pub mtp: Vec<u64>,
    /// Time of the passes of each chunk, with the transfer of its output: a stage does nothing else meanwhile.
    pub costs: Costs,
    /// The same without transfers, for an engine that runs them.
    pub apart: Costs,
    /// The costs that a family sees when it orders by times: a transfer takes a fixed share of a forward, and
    /// collectives take no time unless activations are copied to the host. So faster links do not change the order.
    pub ordering: Costs,
    /// The memory limit that the order is made under, where the family takes one; `limits.rs` chooses it.
    pub limit: Option<Limit>,
    /// Bytes that a device sends to the next stage for a microbatch.
    pub message: Bytes,
    /// The activations that a microbatch holds in each chunk.
    pub footprints: Footprints,
    /// The static buffers of CUDA graphs for a microbatch in each chunk, from F to B; empty if there are none.
    pub graphs: Vec<Bytes>,
    /// The whole gradients of each chunk, where they are held from its first backward to its last alone
    /// ([`Reshard::AfterLast`](crate::Reshard::AfterLast)); else they are resident.
    pub gradients: Vec<Bytes>,
    /// The memory of each stage without activations.
    pub resident: Vec<StageMemory>,
    /// The memory that may be used on each stage's device: [`MemoryBudget`](crate::MemoryBudget).
    pub capacities: Vec<Bytes>,
    /// Reduction of gradients and exchange of the tied embedding, as far as nothing hides them.
    pub exchange: Nanos,
    pub optimizer: Nanos,
    /// How stages meet between steps.
    pub boundary: Boundary,
    /// Fixed overhead of a step: the slowest of many devices, and work done once a step.
    pub latency: Nanos,
    /// Time of the layers of each chunk for a microbatch, part by part, in seconds.
    pub parts: Vec<PartTimes>,
    /// Send time of the output of a pass of each chunk: forward to the next chunk, backward to the one before.
    pub sends: Vec<[Nanos; 2]>,
    /// The passes of each chunk without its layers (embedding, head and loss), in seconds.
    pub ends: Vec<Times>,
    /// Rows of the experts of a device over those with tokens spread evenly.
    pub load: Load,
}

/// Longest step, 30 years: sums of times stay far below the largest time.
const LONGEST: u128 = 1_000_000_000_000_000_000;

impl Costed {
    /// Whether all work, one after the other, would take longer than anybody waits.
    pub(crate) fn is_endless(&self) -> bool {
        let sum = |times: &PassTimes| {
            let all = [times.forward, times.backward_input, times.backward_weight];
            all.into_iter().map(|one| u128::from(one.0)).sum::<u128>()
        };
        let passes: u128 = self.costs.chunks().iter().map(sum).sum();
        let shards = self
            .costs
            .shards()
            .iter()
            .map(|one| u128::from(one.before.0) + u128::from(one.after.0));
        let passes = passes + shards.sum::<u128>();
        let others =
            u128::from(self.exchange.0) + u128::from(self.optimizer.0) + u128::from(self.latency.0);
        passes * u128::from(self.shape.microbatches()) + others > LONGEST
    }

    /// Hardware FLOPs of one token, as [`Transformer::hardware_flops`] counts them, with the layers that
    /// are computed again in each chunk.
    #[must_use]
    pub fn hardware_flops(&self, model: &Transformer) -> f64 {
        let recompute = self.setup.recompute;
        if !matches!(recompute, Recompute::First(_)) {
            return model.hardware_flops(recompute);
        }
        let mut begun = 0;
        let again = self.layers.iter().map(|&layers| {
            let first = recompute.of_chunk(layers).1;
            let counts = model.counts(begun..begun + first);
            begun += layers;
            counts.sum_of(model.layer_kinds(), |kind| model.flops_again(kind))
        });
        model.model_flops() + again.sum::<f64>()
    }

    /// The layers of the chunks, with those of multi-token prediction; none where there are no words for them.
    #[must_use]
    pub fn layout(&self) -> Option<LayerLayout> {
        LayerLayout::of(self.layers.clone()).ok()?.with_mtp_by_chunk(&self.mtp)
    }

    /// The problem that the schedule orders, under [`Costed::limit`].
    pub fn problem(&self) -> Result<Problem, Fault> {
        let problem = Problem::new(self.shape, self.ordering.clone())?;
        let problem = problem.with_footprints(self.held_by_microbatch().into_owned())?;
        Ok(match self.limit {
            Some(limit) => problem.with_limit(limit),
            None => problem,
        })
    }

    /// Whether `limit` fits into the memory of the stages that hold most of a microbatch.
    pub(crate) fn holds(&self, limit: Limit) -> bool {
        self.lacks(limit).is_ok()
    }

    /// Checks that `limit` fits into the memory of the stages that hold most of a microbatch.
    pub(crate) fn lacks(&self, limit: Limit) -> Result<(), Rejected> {
        let placement = self.setup.family.about().placement;
        let one = self.held_by_microbatch().by_stage(self.shape, placement);
        let most = one.iter().copied().max().unwrap_or_default();
        let needs = self.resident.iter().zip(&one).map(|(held, one)| {
            let activations = limit.bytes(self.shape, most).min(self.all_of(most));
            let activations = if *one == most { activations } else { Bytes(0) };
            Bytes(held.sum().0.saturating_add(activations.0))
        });
        fits(needs, &self.capacities)
    }

    /// The memory of all microbatches together, if one holds `one`.
    fn all_of(&self, one: Bytes) -> Bytes {
        Bytes(one.0.saturating_mul(self.shape.microbatches().into()))
    }

    /// When each stage works along `schedule`, and the most it holds, if its devices hold it; while copies go to the
    /// host, by replay.
    pub(crate) fn timed(
        &self,
        schedule: &Schedule,
        replay: &mut Replay,
    ) -> Result<(Metrics, Vec<StageMemory>), Rejected> {
        let fault = Rejected::Schedule;
        let fits = |held: &[StageMemory]| fits(held.iter().map(StageMemory::sum), &self.capacities);
        if schedule.copies().is_none() {
            let held = self.held_along(schedule).map_err(fault)?;
            fits(&held)?;
            return Ok((replay.metrics(schedule, &self.costs).map_err(fault)?, held));
        }
        let timeline = replay.timeline(schedule, &self.costs).map_err(fault)?;
        let copies = timed::host_copies(schedule, &Nominal(&self.costs), &self.footprints);
        let peaks = activation_peaks(schedule, &timeline, &copies, &self.footprints);
        let held = self.with_activations(peaks.map_err(fault)?);
        let held = self.with_graphs(schedule, held).map_err(fault)?;
        fits(&held)?;
        Ok((Metrics::of(&timeline), held))
    }

    /// The most that each stage holds along `schedule`, which copies nothing to the host.
    pub(crate) fn held_along(&self, schedule: &Schedule) -> Result<Vec<StageMemory>, Fault> {
        let activations = Memory::of(schedule, &self.footprints)?.peak;
        if self.gradients.is_empty() {
            return self.with_graphs(schedule, self.with_activations(activations));
        }
        let peaks = memory::peaks(schedule, &self.footprints, &self.gradients);
        let with = |(held, peak): (&StageMemory, memory::Peak)| StageMemory {
            activations: peak.activations,
            gradients: held.gradients + peak.gradients,
            ..*held
        };
        self.with_graphs(schedule, self.resident.iter().zip(peaks).map(with).collect())
    }

    /// All that a microbatch holds in each chunk, which orders and their limits count: [`Costed::footprints`] and
    /// [`Costed::graphs`].
    #[must_use]
    pub fn held_by_microbatch(&self) -> Cow<'_, Footprints> {
        if self.graphs.is_empty() {
            return Cow::Borrowed(&self.footprints);
        }
        let with = |(chunk, &graphs): (u16, &Bytes)| {
            let own = self.footprints.of(chunk);
            Footprint { until_backward: own.until_backward + graphs, ..own }
        };
        let chunks = (0..).zip(&self.graphs).map(with).collect();
        Cow::Owned(self.footprints.clone().with_chunks(chunks))
    }

    /// `held` with the static buffers of graphs for the most microbatches in flight along `schedule`.
    pub(crate) fn with_graphs(
        &self,
        schedule: &Schedule,
        mut held: Vec<StageMemory>,
    ) -> Result<Vec<StageMemory>, Fault> {
        if self.graphs.is_empty() {
            return Ok(held);
        }
        let own = |&until_backward: &Bytes| Footprint { until_backward, ..Footprint::default() };
        let footprints = Footprints::new(self.graphs.iter().map(own).collect());
        for (stage, peak) in held.iter_mut().zip(Memory::of(schedule, &footprints)?.peak) {
            stage.graphs = peak;
        }
        Ok(held)
    }

    /// The memory of each stage with activations that peak at `peaks`, and all gradients of its chunks.
    pub(crate) fn with_activations(&self, peaks: Vec<Bytes>) -> Vec<StageMemory> {
        let placement = self.setup.family.about().placement;
        let gradients = |stage: usize| {
            let own = placement.chunks_of(self.shape, stage);
            own.filter_map(|chunk| self.gradients.get(usize::from(chunk)).copied()).sum::<Bytes>()
        };
        let with = |(stage, (held, activations)): (usize, (&StageMemory, Bytes))| StageMemory {
            activations,
            gradients: held.gradients + gradients(stage),
            ..*held
        };
        self.resident.iter().zip(peaks).enumerate().map(with).collect()
    }

    /// A step whose passes went as `metrics` say.
    #[must_use]
    pub fn step(&self, metrics: &Metrics) -> Nanos {
        self.step_of(self.boundary.objective().of(metrics))
    }

    /// A step whose passes take `passes`.
    pub(crate) fn step_of(&self, passes: Nanos) -> Nanos {
        passes + self.exchange + self.optimizer + self.latency
    }
}

/// The stage that lacks most, if any does.
pub(crate) fn fits(
    needs: impl Iterator<Item = Bytes>,
    capacities: &[Bytes],
) -> Result<(), Rejected> {
    let over = needs.zip(capacities).enumerate().filter(|(_, (needs, has))| needs > has);
    let worst =
        over.max_by_key(|(stage, (needs, has))| (needs.0 - has.0, std::cmp::Reverse(*stage)));
    match worst {
        Some((stage, (needs, &has))) => Err(Rejected::Memory(Overflow { stage, needs, has })),
        None => Ok(()),
    }
}
