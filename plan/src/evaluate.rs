//! A set-up simulated: what it takes, what it holds, how long a step is.

use pipeline::{
    Costs, Fault, Footprints, Limit, Memory, Metrics, Nanos, PassTimes, Placement, Problem,
    Schedule, Shape,
};
use sim::Replay;
use thiserror::Error;

use crate::layer::{self, LayerTimes, Times};
use crate::machine::{Machine, gathered};
use crate::memory::{self, Parameters, Share, StageMemory};
use crate::model::{Transformer, number};
use crate::setup::{self, Boundary, Cluster, Recipe, Setup, Unfit, Zero};
use crate::split::Deal;

/// Bytes that a step of Adam moves for one parameter: 4 + 4 + 4 read and written in 32 bits, weights
/// and gradients in 16. Fitted; 28 to 32 by counting.
const OPTIMIZER_TRAFFIC: f64 = 31.3;
/// Bytes of an activation, and of a weight on its way to another replica.
const HALF: f64 = 2.0;
/// The most passes of a set-up: many are simulated side by side.
const MAX_PASSES: u64 = 20_000_000;

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
    #[error("stage {stage} needs {needs}, of {has}", stage = .0.stage, needs = .0.needs, has = .0.has)]
    Memory(Overflow),
}

/// A stage that needs more than its device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// Which stage.
    pub stage: usize,
    /// What it needs.
    pub needs: pipeline::Bytes,
    /// What its device has.
    pub has: pipeline::Bytes,
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
    /// Time of the passes of each chunk; a stage takes part in transfers, so they are counted there.
    pub costs: Costs,
    /// What a microbatch holds in each chunk.
    pub footprints: Footprints,
    /// What each stage holds without activations.
    pub resident: Vec<StageMemory>,
    /// The memory of each stage's device.
    pub capacities: Vec<pipeline::Bytes>,
    /// Reduction of gradients and exchange of the tied embedding, as far as nothing hides them.
    pub exchange: Nanos,
    /// The optimizer.
    pub optimizer: Nanos,
    /// A layer of the slowest stage, for its parts.
    pub layer: LayerTimes,
    /// One transfer to the next stage, in seconds.
    pub hop: f64,
    /// The head, in seconds.
    pub head: Times,
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
        let shape = Shape::new(setup.pipeline, setup.chunks, microbatches)
            .ok()
            .filter(|shape| 3 * shape.cells() as u64 <= MAX_PASSES)
            .ok_or(Unfit::TooLarge)?;
        let kinds = self.cluster.machine_of_stages(setup.pipeline).ok_or(Unfit::Mixed)?;
        let machines: Vec<&Machine> =
            kinds.iter().map(|&kind| &self.cluster.parts[kind].0).collect();
        Ok(Costing { ground: *self, setup, shape, machines }.cost()?)
    }

    /// The least a step of `costed` can take in any order: the work of the busiest stage, and what
    /// lies between two steps.
    #[must_use]
    pub fn least(&self, costed: &Costed) -> Nanos {
        let mut work = vec![0u64; costed.shape.stages()];
        let placement = costed.setup.family.about().placement;
        for (chunk, times) in (0..costed.shape.chunks()).zip(costed.costs.chunks()) {
            let sum = times.forward + times.backward_input + times.backward_weight;
            // Of a mirrored pair, each stage runs half of the microbatches.
            let ways: &[u32] = match placement {
                Placement::Mirrored => &[0, 1],
                _ => &[0],
            };
            for way in ways {
                let microbatch = way * (costed.shape.microbatches() - 1);
                let stage = placement.stage(costed.shape, chunk, microbatch);
                work[stage] += sum.0 / ways.len() as u64;
            }
        }
        let most = work.into_iter().max().unwrap_or(0);
        let all = most.saturating_mul(u64::from(costed.shape.microbatches()));
        Nanos(all.saturating_add(costed.exchange.0).saturating_add(costed.optimizer.0))
    }

    /// Checks that each stage holds what it must at least: what is there all the time, and one
    /// microbatch.
    ///
    /// # Errors
    /// The stage that lacks most.
    pub fn check_least(&self, costed: &Costed) -> Result<(), Rejected> {
        let placement = costed.setup.family.about().placement;
        let one = costed.footprints.by_stage(costed.shape, placement);
        let needs = costed
            .resident
            .iter()
            .zip(&one)
            .map(|(held, one)| pipeline::Bytes(held.sum().0.saturating_add(one.0)));
        fits(needs, &costed.capacities)
    }

    /// The order of `costed` and what came of it.
    ///
    /// # Errors
    /// That the schedule cannot do it, or a device does not hold it.
    pub fn evaluate(&self, costed: Costed, replay: &mut Replay) -> Result<Evaluation, Rejected> {
        let schedule = costed.schedule().map_err(Rejected::Schedule)?;
        let metrics = replay.metrics(&schedule, &costed.costs).map_err(Rejected::Schedule)?;
        let peaks = Memory::of(&schedule, &costed.footprints).map_err(Rejected::Schedule)?;
        let memory: Vec<StageMemory> = (costed.resident.iter().zip(&peaks.peak))
            .map(|(held, &activations)| StageMemory { activations, ..*held })
            .collect();
        fits(memory.iter().map(StageMemory::sum), &costed.capacities)?;
        let step = costed.step(&metrics, self.recipe.boundary);
        Ok(Evaluation { costed, metrics, step, memory })
    }
}

impl Costed {
    /// The problem that the schedule orders, under the memory that is left for activations.
    ///
    /// # Errors
    /// If the times overflow.
    pub fn problem(&self) -> Result<Problem, Fault> {
        let problem = Problem::new(self.shape, self.costs.clone())?;
        let problem = problem.with_footprints(self.footprints.clone())?;
        let left =
            self.capacities.iter().zip(&self.resident).map(|(has, held)| {
                Limit::Bytes(pipeline::Bytes(has.0.saturating_sub(held.sum().0)))
            });
        let shapes = self.setup.family.about().limit;
        match shapes {
            pipeline::LimitUse::Shapes { .. } => problem.with_limits(&left.collect::<Vec<_>>()),
            _ => Ok(problem),
        }
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
    /// The stage that holds most, and what it holds.
    #[must_use]
    pub fn fullest(&self) -> (usize, StageMemory) {
        let stages = self.memory.iter().copied().enumerate();
        stages.rev().max_by_key(|(_, held)| held.sum()).unwrap_or_default()
    }
}

/// The stage that lacks most, if any does.
fn fits(
    needs: impl Iterator<Item = pipeline::Bytes>,
    capacities: &[pipeline::Bytes],
) -> Result<(), Rejected> {
    let over = needs.zip(capacities).enumerate().filter(|(_, (needs, has))| needs > has);
    let worst =
        over.max_by_key(|(stage, (needs, has))| (needs.0 - has.0, std::cmp::Reverse(*stage)));
    match worst {
        Some((stage, (needs, &has))) => Err(Rejected::Memory(Overflow { stage, needs, has })),
        None => Ok(()),
    }
}

/// What the costs of one set-up are made from.
struct Costing<'a> {
    ground: Ground<'a>,
    setup: &'a Setup,
    shape: Shape,
    /// By stage.
    machines: Vec<&'a Machine>,
}

impl Costing<'_> {
    fn cost(&self) -> Result<Costed, Unfit> {
        let Ground { model, recipe, .. } = self.ground;
        let cut = self.setup.cut(recipe);
        let layer_of = |machine: &&Machine| layer::layer(model, machine, cut, self.setup.recompute);
        let by_stage: Vec<LayerTimes> = self.machines.iter().map(layer_of).collect();
        let placement = self.setup.family.about().placement;
        let stages: Vec<usize> =
            (0..self.shape.chunks()).map(|chunk| placement.stage(self.shape, chunk, 0)).collect();
        let ends = self.ends(&stages);
        let deal = Deal {
            layers: model.layers,
            stages: &stages,
            layer: &by_stage.iter().map(|one| one.times.sum()).collect::<Vec<_>>(),
            ends: &ends.iter().map(|times| times.sum()).collect::<Vec<_>>(),
        };
        let layers = deal.by(self.setup.split);
        let chunks = stages.iter().zip(&layers).zip(&ends);
        let passes: Vec<Times> = chunks
            .map(|((&stage, &layers), end)| by_stage[stage].times.times(number(layers)).plus(*end))
            .collect();
        let shares = self.shares(&stages, &layers);
        let slowest = by_stage.iter().max_by(|a, b| a.times.sum().total_cmp(&b.times.sum()));
        let layer = slowest.copied().unwrap_or_default();
        let hop = self.hop();
        let costs = self.costs(&passes, &shares, &stages, hop);
        let footprint = |&layers: &u64| memory::footprint(model, cut, self.setup.recompute, layers);
        let held = |share: &Share| memory::resident(model, self.setup, recipe, *share);
        let backward = self.last_backward(&stages, &passes);
        Ok(Costed {
            setup: *self.setup,
            shape: self.shape,
            costs,
            footprints: Footprints::new(layers.iter().map(footprint).collect()),
            resident: shares.iter().map(held).collect(),
            capacities: self.machines.iter().map(|machine| machine.memory).collect(),
            exchange: nanos(self.exchange(&shares, &backward)),
            optimizer: nanos(self.optimizer(&shares)),
            layers,
            layer,
            hop,
            head: ends.last().copied().unwrap_or_default(),
        })
    }

    /// What each chunk does besides layers. The embedding's lookup is left out: below 0.1 % of a
    /// layer.
    fn ends(&self, stages: &[usize]) -> Vec<Times> {
        let Ground { model, recipe, .. } = self.ground;
        let cut = self.setup.cut(recipe);
        let last = stages.len() - 1;
        let own = |(chunk, &stage): (usize, &usize)| {
            let head = layer::head(model, self.machines[stage], cut);
            match (self.setup.vocabulary_parallel, chunk == last) {
                // Every chunk of a stage has its part: columns are dealt to all p v.
                (true, _) => head.times(1.0 / number(stages.len() as u64)),
                (false, true) => head,
                (false, false) => Times::default(),
            }
        };
        stages.iter().enumerate().map(own).collect()
    }

    /// What each stage has of the model.
    fn shares(&self, stages: &[usize], layers: &[u64]) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.shape.stages()];
        let mirrored = self.setup.family.about().placement == Placement::Mirrored;
        let last = stages.len() - 1;
        for (chunk, (&stage, &layers)) in stages.iter().zip(layers).enumerate() {
            // Of a mirrored pipeline every stage holds the chunks of its twin too.
            let twin = if mirrored { Some(self.shape.stages() - 1 - stage) } else { None };
            for stage in [Some(stage), twin].into_iter().flatten() {
                shares[stage].layers += layers;
                shares[stage].embedding |= chunk == 0;
                shares[stage].head |= chunk == last;
            }
        }
        shares
    }

    /// One transfer to the next stage, in seconds.
    fn hop(&self) -> f64 {
        let Ground { model, recipe, .. } = self.ground;
        if self.setup.pipeline < 2 {
            return 0.0;
        }
        let tokens =
            number(self.setup.microbatch) * number(model.sequence) / number(self.setup.context);
        let cut = recipe.sequence_parallel || recipe.scatter_gather;
        let share = if cut { number(self.setup.tensor) } else { 1.0 };
        let bytes = tokens * number(model.hidden) * HALF / share;
        let stride = self.setup.stage_stride();
        self.slowest(|machine| machine.hop(bytes, stride))
    }

    /// The longest of a time over all kinds of devices.
    fn slowest(&self, time: impl Fn(&Machine) -> f64) -> f64 {
        self.machines.iter().map(|machine| time(machine)).fold(0.0, f64::max)
    }

    /// The times of all passes, with what a stage waits for its transfers and for parameters of other
    /// replicas.
    fn costs(&self, passes: &[Times], shares: &[Share], stages: &[usize], hop: f64) -> Costs {
        let one = |(times, &stage): (&Times, &usize)| {
            let mut times = *times;
            if self.setup.zero >= Zero::Gradients {
                let whole = Parameters::of(self.ground.model, self.setup, shares[stage]).sum();
                let own = whole * HALF / number(u64::from(self.shape.chunks_per_stage()));
                let gather = gathered(own, self.replicas(), self.ring(stage));
                if self.setup.zero == Zero::Parameters {
                    times.forward = times.forward.max(gather);
                    times.backward_input = times.backward_input.max(gather);
                }
                times.backward_weight = times.backward_weight.max(gather);
            }
            PassTimes {
                forward: nanos(times.forward + hop),
                backward_input: nanos(times.backward_input + hop),
                backward_weight: nanos(times.backward_weight),
            }
        };
        Costs::new(passes.iter().zip(stages).map(one).collect(), Nanos(0))
    }

    /// Devices that hold the same parameters.
    fn replicas(&self) -> u64 {
        self.setup.data * self.setup.context
    }

    /// Bytes per second of the ring of replicas of `stage`.
    fn ring(&self, stage: usize) -> f64 {
        self.machines[stage].ring(self.replicas(), self.setup.tensor)
    }

    /// The backward of the last microbatch on each stage, in seconds.
    fn last_backward(&self, stages: &[usize], passes: &[Times]) -> Vec<f64> {
        let mut backward = vec![0.0; self.shape.stages()];
        for (&stage, times) in stages.iter().zip(passes) {
            backward[stage] += times.backward_input + times.backward_weight;
        }
        backward
    }

    /// Gradients of all stages reduced side by side, and the tied embedding between its two stages,
    /// in seconds.
    fn exchange(&self, shares: &[Share], backward: &[f64]) -> f64 {
        let Ground { model, recipe, .. } = self.ground;
        let one = |(stage, share): (usize, &Share)| {
            let parameters = Parameters::of(model, self.setup, *share).sum();
            let bytes = match self.setup.zero {
                Zero::None => 2.0 * number(recipe.gradient_bytes),
                Zero::Optimizer => number(recipe.gradient_bytes) + HALF,
                // Reduced in every microbatch; the weights are gathered once.
                Zero::Gradients => HALF,
                Zero::Parameters => 0.0,
            };
            let time = gathered(bytes * parameters, self.replicas(), self.ring(stage));
            if recipe.overlap_gradients { (time - backward[stage]).max(0.0) } else { time }
        };
        let reduced = shares.iter().enumerate().map(one).fold(0.0, f64::max);
        let tied = model.tied && self.setup.pipeline > 1 && !self.setup.vocabulary_parallel;
        if !tied {
            return reduced;
        }
        let embedding = number(model.vocabulary * model.hidden) / number(self.setup.tensor);
        let bytes = embedding * number(recipe.gradient_bytes);
        let stride = self.setup.stage_stride();
        reduced + self.slowest(|machine| machine.hop(bytes, stride))
    }

    /// The optimizer on the stage that has most to do, in seconds.
    fn optimizer(&self, shares: &[Share]) -> f64 {
        let one = |(stage, share): (usize, &Share)| {
            let parameters = Parameters::of(self.ground.model, self.setup, *share);
            let own = parameters.shared(self.setup, Zero::Optimizer);
            self.machines[stage].stream(own * OPTIMIZER_TRAFFIC)
        };
        shares.iter().enumerate().map(one).fold(0.0, f64::max)
    }
}

/// Whole nanoseconds, rounded up: a float becomes a time once, here.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
#[must_use]
pub fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds.max(0.0) * 1e9).ceil() as u64)
}
