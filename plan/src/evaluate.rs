//! A set-up simulated: what it takes, what it holds, how long a step is.

use pipeline::{
    Bytes, Costs, Fault, Footprints, Limit, Memory, Metrics, Nanos, PassTimes, Problem, Schedule,
    Shape,
};
use sim::Replay;
use sim::occupancy::activation_peaks;
use sim::timed::{self, Nominal};
use thiserror::Error;

use crate::bound;
use crate::costing::Costing;
use crate::layer::{LayerTimes, Times};
use crate::limits;
use crate::machine::Machine;
use crate::memory::StageMemory;
use crate::model::Transformer;
use crate::orders::Orders;
use crate::setup::{self, Boundary, Cluster, Recipe, Setup, Unfit};

/// The most passes of a set-up: what many orders side by side take of memory stays below a gigabyte.
pub(crate) const MAX_PASSES: u64 = 2_000_000;
/// As many passes as take as long to follow as one with copies to the host.
const COPYING: u64 = 5;

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

/// A stage that needs more than its device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("stage {stage} needs {needs}, of {has}")]
pub struct Overflow {
    /// Which stage.
    pub stage: usize,
    /// What it needs.
    pub needs: Bytes,
    /// What its device has.
    pub has: Bytes,
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
    /// Time of the passes of each chunk, with the transfer of what each makes: a stage does nothing
    /// else meanwhile.
    pub costs: Costs,
    /// The same without transfers, for an engine that runs them.
    pub apart: Costs,
    /// What families reckon with that order by times: a transfer takes a fixed share of a forward,
    /// and collectives nothing but where activations are copied to the host. So orders are the same
    /// on faster links.
    pub ordering: Costs,
    /// What limit the order is made under, where the family takes one: `limits.rs`.
    pub limit: Option<Limit>,
    /// Bytes that a device sends to the next stage for a microbatch.
    pub message: Bytes,
    /// What a microbatch holds in each chunk.
    pub footprints: Footprints,
    /// What each stage holds without activations.
    pub resident: Vec<StageMemory>,
    /// What may be held of each stage's device: [`Room`](crate::Room).
    pub capacities: Vec<Bytes>,
    /// Reduction of gradients and exchange of the tied embedding, as far as nothing hides them.
    pub exchange: Nanos,
    /// The optimizer.
    pub optimizer: Nanos,
    /// A layer of the slowest stage, for its parts.
    pub layer: LayerTimes,
    /// How long a stage sends what a pass of each chunk made: forward to the next chunk, backward to
    /// the one before.
    pub sends: Vec<[Nanos; 2]>,
    /// What each chunk does besides layers, in seconds.
    pub ends: Vec<Times>,
}

/// A set-up that has been simulated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Its costs.
    pub costed: Costed,
    /// When each stage works.
    pub metrics: Metrics,
    /// A step with all that lies between two.
    pub step: Nanos,
    /// The most each stage holds.
    pub memory: Vec<StageMemory>,
}

/// What of a question is the same for all its set-ups.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The cluster.
    pub cluster: &'a Cluster,
}

impl<'a> Ground<'a> {
    /// The costs of `setup`.
    ///
    /// # Errors
    /// What does not divide, or that the pipeline is too large.
    pub fn cost(&self, setup: &Setup) -> Result<Costed, Rejected> {
        setup::check(setup, self.model, self.recipe, self.cluster)?;
        let microbatches = setup.microbatches(self.recipe.batch).ok_or(Unfit::Batch)?;
        let effort = if setup.copies() { COPYING } else { 1 };
        let shape = Shape::new(setup.pipeline, setup.chunks, microbatches)
            .and_then(|shape| shape.with_vocabulary(setup.family.vocabulary()))
            .ok()
            .filter(|shape| 3 * shape.cells() as u64 * effort <= MAX_PASSES)
            .ok_or(Unfit::TooLarge)?;
        let kinds = self.cluster.machine_of_stages(setup.pipeline).ok_or(Unfit::Mixed)?;
        let machines: Vec<&Machine> =
            kinds.iter().map(|&kind| &self.cluster.parts[kind].0).collect();
        let costed = Costing { ground: *self, setup, shape, machines }.cost()?;
        if costed.is_endless() { Err(Unfit::Endless)? } else { Ok(costed) }
    }

    /// The least a step of `costed` can take in any order: the work of the busiest stage with what
    /// fills and drains the pipeline, and what lies between two steps.
    #[must_use]
    pub fn least(&self, costed: &Costed) -> Nanos {
        let passes = bound::least(costed, self.recipe.boundary);
        Nanos(passes.0.saturating_add(costed.exchange.0).saturating_add(costed.optimizer.0))
    }

    /// Checks that each stage holds what it must at least: what is there all the time, and one
    /// microbatch.
    ///
    /// # Errors
    /// The stage that lacks most.
    pub fn check_least(&self, costed: &Costed) -> Result<(), Rejected> {
        let placement = costed.setup.family.about().placement;
        // What goes to the host need not be there with the rest.
        let one = match costed.setup.copies() {
            true => vec![Bytes(0); costed.shape.stages()],
            false => costed.footprints.by_stage(costed.shape, placement),
        };
        let needs = costed
            .resident
            .iter()
            .zip(&one)
            .map(|(held, one)| Bytes(held.sum().0.saturating_add(one.0)));
        fits(needs, &costed.capacities)
    }

    /// The order of `costed` and what came of it: of the orders under several limits, where the family
    /// takes one, that which is worth its memory.
    ///
    /// # Errors
    /// That the schedule cannot do it, or a device does not hold it.
    pub fn evaluate(&self, costed: &Costed, replay: &mut Replay) -> Result<Evaluation, Rejected> {
        self.evaluate_in(costed, replay, &Orders::default())
    }

    /// The same with orders that are known already.
    ///
    /// # Errors
    /// The same.
    pub fn evaluate_in(
        &self,
        costed: &Costed,
        replay: &mut Replay,
        orders: &Orders,
    ) -> Result<Evaluation, Rejected> {
        if !limits::are_tried(costed.setup.family) {
            return self.evaluate_one(costed.clone(), replay, orders);
        }
        let mut all = self.evaluate_all(costed, replay, orders)?;
        let taken = limits::worth(all.iter().map(|one| one.step)).unwrap_or_default();
        Ok(all.swap_remove(taken))
    }

    /// What came of the order of `costed` under every limit that is tried and fits, the smallest
    /// first: at least one.
    pub(crate) fn evaluate_all(
        &self,
        costed: &Costed,
        replay: &mut Replay,
        orders: &Orders,
    ) -> Result<Vec<Evaluation>, Rejected> {
        let mut one = |limit| self.evaluate_one(Costed { limit, ..costed.clone() }, replay, orders);
        if !limits::are_tried(costed.setup.family) {
            return Ok(vec![one(None)?]);
        }
        let mut all = Vec::new();
        for limit in limits::ample(costed) {
            let Ok(evaluation) = one(Some(limit)) else { break };
            let binds = evaluation.is_bound();
            all.push(evaluation);
            // An order that leaves room under its limit is the same under a larger one.
            if !binds {
                break;
            }
        }
        if all.is_empty() {
            costed.lacks(limits::LEAST)?;
            let mut scarce = limits::scarce(costed).map(|limit| one(Some(limit)));
            let mut last = scarce.next();
            while let Some(Err(_)) = last {
                match scarce.next() {
                    Some(next) => last = Some(next),
                    None => break,
                }
            }
            all.extend(last.transpose()?);
        }
        Ok(all)
    }

    fn evaluate_one(
        &self,
        costed: Costed,
        replay: &mut Replay,
        orders: &Orders,
    ) -> Result<Evaluation, Rejected> {
        let schedule = orders.of(&costed).map_err(Rejected::Schedule)?;
        let (metrics, memory) = costed.timed(&schedule, replay).map_err(Rejected::Schedule)?;
        fits(memory.iter().map(StageMemory::sum), &costed.capacities)?;
        let step = costed.step(&metrics, self.recipe.boundary);
        Ok(Evaluation { costed, metrics, step, memory })
    }
}

/// The longest step, 30 years: sums of times stay far below what a clock can show.
const LONGEST: u128 = 1_000_000_000_000_000_000;

impl Costed {
    /// Whether all work, one after the other, would take longer than anybody waits.
    fn is_endless(&self) -> bool {
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
        let others = u128::from(self.exchange.0) + u128::from(self.optimizer.0);
        passes * u128::from(self.shape.microbatches()) + others > LONGEST
    }

    /// The problem that the schedule orders, under [`Costed::limit`].
    ///
    /// # Errors
    /// If the times overflow.
    pub fn problem(&self) -> Result<Problem, Fault> {
        let problem = Problem::new(self.shape, self.ordering.clone())?;
        let problem = problem.with_footprints(self.footprints.clone())?;
        Ok(match self.limit {
            Some(limit) => problem.with_limit(limit),
            None => problem,
        })
    }

    /// Whether the stages that hold most of a microbatch have room for all that `limit` allows.
    pub(crate) fn holds(&self, limit: Limit) -> bool {
        self.lacks(limit).is_ok()
    }

    /// What the one of them lacks that lacks most.
    ///
    /// # Errors
    /// If one does.
    fn lacks(&self, limit: Limit) -> Result<(), Rejected> {
        let one = self.footprints.by_stage(self.shape, self.setup.family.about().placement);
        let most = one.iter().copied().max().unwrap_or_default();
        let needs = self.resident.iter().zip(&one).map(|(held, one)| {
            let activations = limit.bytes(self.shape, most).min(self.all_of(most));
            let activations = if *one == most { activations } else { Bytes(0) };
            Bytes(held.sum().0.saturating_add(activations.0))
        });
        fits(needs, &self.capacities)
    }

    /// What all microbatches hold together of which one holds `one`.
    fn all_of(&self, one: Bytes) -> Bytes {
        Bytes(one.0.saturating_mul(self.shape.microbatches().into()))
    }

    /// When each stage works along `schedule`, and the most it holds; while copies go to the host,
    /// by replay.
    fn timed(
        &self,
        schedule: &Schedule,
        replay: &mut Replay,
    ) -> Result<(Metrics, Vec<StageMemory>), Fault> {
        if schedule.copies().is_none() {
            let metrics = replay.metrics(schedule, &self.costs)?;
            return Ok((
                metrics,
                self.with_activations(Memory::of(schedule, &self.footprints)?.peak),
            ));
        }
        let timeline = replay.timeline(schedule, &self.costs)?;
        let copies = timed::host_copies(schedule, &Nominal(&self.costs), &self.footprints);
        let peaks = activation_peaks(schedule, &timeline, &copies, &self.footprints)?;
        Ok((Metrics::of(&timeline), self.with_activations(peaks)))
    }

    /// What each stage holds where its activations are `peaks` at the most.
    pub(crate) fn with_activations(&self, peaks: Vec<Bytes>) -> Vec<StageMemory> {
        let stages = self.resident.iter().zip(peaks);
        stages.map(|(held, activations)| StageMemory { activations, ..*held }).collect()
    }

    /// The order.
    ///
    /// # Errors
    /// If the family cannot do the shape or finds no order in the memory.
    pub fn schedule(&self) -> Result<Schedule, Fault> {
        self.setup.family.schedule(&self.problem()?)
    }

    /// A step whose passes went as `metrics` say.
    #[must_use]
    pub fn step(&self, metrics: &Metrics, boundary: Boundary) -> Nanos {
        let passes = match boundary {
            Boundary::Barrier => metrics.makespan(),
            Boundary::PostValidation => metrics.span(),
        };
        passes + self.exchange + self.optimizer
    }
}

impl Evaluation {
    /// Whether some stage is so full that another activation of its largest chunk would be over the
    /// limit of the order.
    fn is_bound(&self) -> bool {
        let costed = &self.costed;
        let Some(limit) = costed.limit else { return false };
        let placement = costed.setup.family.about().placement;
        let one = costed.footprints.by_stage(costed.shape, placement);
        let most = limit.bytes(costed.shape, one.iter().copied().max().unwrap_or_default());
        let mut stages = self.memory.iter().zip(one);
        stages.any(|(held, one)| held.activations.0.saturating_add(one.0) > most.0)
    }

    /// The stage that holds most, and what it holds.
    #[must_use]
    pub fn fullest(&self) -> (usize, StageMemory) {
        let stages = self.memory.iter().copied().enumerate();
        stages.rev().max_by_key(|(_, held)| held.sum()).unwrap_or_default()
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

/// Whole nanoseconds, rounded up: a float becomes a time once, here.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
#[must_use]
pub fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds.max(0.0) * 1e9).ceil() as u64)
}
