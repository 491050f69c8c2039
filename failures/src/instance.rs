//! All passes of all pipelines, each on the worker that runs it, with what it waits for.

use pipeline::{Costs, Footprints, Kind, Nanos, Pass, Placement, Schedule, Shape, Value};

use crate::dead::{Dead, Worker};
use crate::deal::{Deal, Dealt};
use crate::error::{FailureError, count};

/// The most passes of all pipelines together.
pub const MAX_PASSES: u64 = 1 << 19;
/// No pass.
pub(crate) const NONE: u32 = u32::MAX;

/// Pipelines that train one model on different data, all with the same schedule.
#[derive(Clone, Copy, Debug)]
pub struct Pipelines<'a> {
    /// The order of each pipeline as long as nothing is dead.
    pub schedule: &'a Schedule,
    /// How long its passes and hops take.
    pub costs: &'a Costs,
    /// What passes hold.
    pub footprints: &'a Footprints,
    /// Number of pipelines.
    pub pipelines: u64,
    /// How long a value takes to a worker of another pipeline; as a hop within a pipeline, unless given.
    pub peer_hop: Option<Nanos>,
    /// The all-reduce of the gradients of a stage and its optimizer, behind the last pass of the stage on any
    /// worker.
    pub optimizer: Nanos,
}

/// One pass on one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The pass.
    pub(crate) pass: Pass,
    /// The pipeline whose microbatch it is of.
    pub(crate) pipeline: u32,
    /// The worker that runs it: pipeline times stages plus stage.
    pub(crate) worker: u32,
    /// Its duration in nanoseconds.
    pub(crate) time: u64,
    /// What it waits for, and how long that takes here; [`NONE`] for nothing.
    pub(crate) inputs: [(u32, u64); 2],
    /// Bytes taken at its start.
    pub(crate) taken: u64,
    /// Bytes taken, and bytes freed, at its end.
    pub(crate) left: [u64; 2],
}

/// An instance: passes, and an order for each worker as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) shape: Shape,
    pub(crate) placement: Placement,
    pub(crate) pipelines: u32,
    pub(crate) nodes: Vec<Node>,
    /// The passes of one pipeline, stage by stage in its schedule's order, as numbers of nodes of pipeline 0.
    pub(crate) base: Vec<Vec<u32>>,
    pub(crate) optimizer: u64,
    /// The first of the successors of each node in `successors`.
    first: Vec<u32>,
    successors: Vec<u32>,
}

impl Pipelines<'_> {
    /// Checks that the schedule is of passes on one stream of each stage alone.
    ///
    /// # Errors
    /// [`FailureError::Unsuitable`], or too many passes.
    pub fn check(&self) -> Result<(), FailureError> {
        let schedule = self.schedule;
        let unsuitable = match schedule {
            _ if schedule.shape().has_shards() => {
                "a layer in shards over all stages ends with any of them: a schedule with a whole output layer is needed"
            }
            _ if schedule.placement() == Placement::Mirrored => {
                "both directions of a mirrored placement hold the same weights: give a schedule with each chunk on one stage"
            }
            _ if schedule.copies().is_some() => {
                "copies of activations to the host are not rerouted: give a schedule without them"
            }
            _ if schedule.parameter_ops().is_some() => {
                "workers that divide parameters (ZeRO, FSDP) lose a part with each dead one: leave --sharding out"
            }
            _ if self.costs.overlap().is_some() => {
                "passes of two streams are not rerouted: give --forward and its like instead of --chain"
            }
            _ => "",
        };
        if !unsuitable.is_empty() {
            return Err(FailureError::Unsuitable(unsuitable));
        }
        let passes = (schedule.passes() as u64).saturating_mul(self.pipelines);
        count("passes of all pipelines", passes, 1, MAX_PASSES).map(drop)
    }
}

impl Instance {
    /// The passes of `of` where the workers of `dead` run nothing. `split` makes a B and a W of each whole
    /// backward.
    pub(crate) fn new(
        of: &Pipelines<'_>,
        dead: &Dead,
        deal: Deal,
        split: bool,
    ) -> Result<Self, FailureError> {
        of.check()?;
        let schedule = of.schedule;
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let passes = one_pipeline(schedule, split);
        let mut builder = Builder::new(of, &passes);
        let work = builder.work();
        let dealt = Dealt::new(dead, shape.microbatches(), deal, |stage, microbatch| {
            Nanos(work[stage as usize * shape.microbatches() as usize + microbatch as usize])
        });
        for pipeline in 0..dead.pipelines() {
            builder.pipeline(pipeline, &passes, &dealt);
        }
        builder.check_sum()?;
        let base = builder.base(&passes);
        let (first, successors) = successors(&builder.nodes);
        Ok(Self {
            shape,
            placement,
            pipelines: dead.pipelines(),
            nodes: builder.nodes,
            base,
            optimizer: of.optimizer.0,
            first,
            successors,
        })
    }

    /// Number of workers, dead ones too.
    pub(crate) fn workers(&self) -> usize {
        self.pipelines as usize * self.shape.stages()
    }

    /// The stage of worker number `worker`.
    pub(crate) fn stage(&self, worker: u32) -> usize {
        worker as usize % self.shape.stages()
    }

    /// The passes that wait for `node`.
    pub(crate) fn successors(&self, node: u32) -> &[u32] {
        let at = node as usize;
        &self.successors[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// The orders of all workers where none is dead: each pipeline as its schedule has it.
    pub(crate) fn published(&self) -> Vec<Vec<u32>> {
        let each = u32::try_from(self.nodes.len()).unwrap_or(NONE) / self.pipelines.max(1);
        let of = |pipeline: u32| {
            self.base
                .iter()
                .map(move |order| order.iter().map(|&node| node + pipeline * each).collect())
        };
        (0..self.pipelines).flat_map(of).collect()
    }
}

/// The passes of one pipeline, stage by stage: R is done with its B.
fn one_pipeline(schedule: &Schedule, split: bool) -> Vec<Vec<Pass>> {
    let of = |pass: Pass| match pass.kind {
        Kind::R => [None, None],
        Kind::BW if split => {
            [Some(Pass { kind: Kind::B, ..pass }), Some(Pass { kind: Kind::W, ..pass })]
        }
        _ => [Some(pass), None],
    };
    let stages = schedule.orders().iter();
    stages.map(|order| order.passes().iter().copied().flat_map(of).flatten().collect()).collect()
}

struct Builder<'a> {
    of: &'a Pipelines<'a>,
    shape: Shape,
    placement: Placement,
    /// Number of nodes of one pipeline by kind (F, any backward, W), chunk and microbatch.
    numbers: Vec<u32>,
    each: u32,
    nodes: Vec<Node>,
}

impl<'a> Builder<'a> {
    fn new(of: &'a Pipelines<'a>, passes: &[Vec<Pass>]) -> Self {
        let shape = of.schedule.shape();
        let mut numbers = vec![NONE; 3 * shape.cells()];
        let mut each = 0;
        for &pass in passes.iter().flatten() {
            numbers[class(pass.kind) * shape.cells() + shape.cell(pass.chunk, pass.microbatch)] =
                each;
            each += 1;
        }
        let nodes = Vec::with_capacity(each as usize * usize::try_from(of.pipelines).unwrap_or(1));
        Self { of, shape, placement: of.schedule.placement(), numbers, each, nodes }
    }

    fn number(&self, class: usize, chunk: u16, microbatch: u32) -> u32 {
        self.numbers[class * self.shape.cells() + self.shape.cell(chunk, microbatch)]
    }

    fn stage(&self, chunk: u16) -> u32 {
        u32::try_from(self.placement.stage(self.shape, chunk, 0)).unwrap_or(NONE)
    }

    /// The work of each stage on each microbatch.
    fn work(&self) -> Vec<u64> {
        let microbatches = self.shape.microbatches();
        let mut work = vec![0u64; self.shape.stages() * microbatches as usize];
        for chunk in 0..self.shape.chunks() {
            for microbatch in 0..microbatches {
                let times = self.of.costs.times(chunk, microbatch);
                let sum = times.forward.0.saturating_add(times.least_backward().0);
                let at = self.stage(chunk) as usize * microbatches as usize + microbatch as usize;
                work[at] = work[at].saturating_add(sum);
            }
        }
        work
    }

    fn pipeline(&mut self, pipeline: u32, passes: &[Vec<Pass>], dealt: &Dealt) {
        for &pass in passes.iter().flatten() {
            let at = |chunk: u16| {
                let stage = self.stage(chunk);
                (dealt.taker(Worker { pipeline, stage }, pass.microbatch), stage)
            };
            let (taker, stage) = at(pass.chunk);
            let worker = taker * u32::try_from(self.shape.stages()).unwrap_or(NONE) + stage;
            let from = |class: usize, chunk: u16, is_free: bool| {
                let number = self.number(class, chunk, pass.microbatch);
                let delay = if is_free { 0 } else { self.hop(at(chunk), (taker, stage)) };
                (number + pipeline * self.each, delay)
            };
            let none = (NONE, 0);
            let inputs = match pass.kind {
                Kind::F if pass.chunk == 0 => [none, none],
                Kind::F => [from(0, pass.chunk - 1, false), none],
                Kind::W => [from(1, pass.chunk, true), none],
                _ if pass.chunk + 1 == self.shape.chunks() => [from(0, pass.chunk, true), none],
                _ => {
                    let next = pass.chunk + 1;
                    let value = Value::Gradient { chunk: next, microbatch: pass.microbatch };
                    let is_free = self.of.costs.is_empty(value);
                    [from(0, pass.chunk, true), from(1, next, is_free)]
                }
            };
            let (time, taken, left) = self.amounts(pass);
            self.nodes.push(Node { pass, pipeline, worker, time, inputs, taken, left });
        }
    }

    /// Time and bytes of `pass`; a backward that recomputes does so at its start.
    fn amounts(&self, pass: Pass) -> (u64, u64, [u64; 2]) {
        let Pipelines { costs, footprints, .. } = self.of;
        let change = footprints.change(pass);
        let mut time = costs.of(pass).0;
        let mut taken = change.taken_at_start.0;
        let is_backward = matches!(pass.kind, Kind::B | Kind::BW);
        if is_backward && self.of.schedule.recomputes(pass.chunk) {
            let again = Pass { kind: Kind::R, ..pass };
            time = time.saturating_add(costs.of(again).0);
            taken = taken.saturating_add(footprints.change(again).taken_at_start.0);
        }
        (time, taken, [change.taken_at_end.0, change.freed_at_end.0])
    }

    fn hop(&self, from: (u32, u32), to: (u32, u32)) -> u64 {
        let within = self.of.costs.hops().between(from.1 as usize, to.1 as usize);
        match from.0 == to.0 {
            true => within.0,
            false => self.of.peer_hop.unwrap_or(within).0,
        }
    }

    /// Refuses times and bytes whose sums could leave their range.
    fn check_sum(&self) -> Result<(), FailureError> {
        let inputs =
            |node: &Node| node.inputs.iter().map(|input| u128::from(input.1)).sum::<u128>();
        let time = |node: &Node| u128::from(node.time) + inputs(node);
        let bytes = |node: &Node| u128::from(node.taken) + u128::from(node.left[0]);
        let time = self.nodes.iter().map(time).sum::<u128>() + u128::from(self.of.optimizer.0);
        let bytes = self.nodes.iter().map(bytes).sum::<u128>();
        match time.max(bytes) < 1 << 62 {
            true => Ok(()),
            false => Err(FailureError::Overflow),
        }
    }

    fn base(&self, passes: &[Vec<Pass>]) -> Vec<Vec<u32>> {
        let mut next = 0;
        let of = |stage: &Vec<Pass>| {
            let count = u32::try_from(stage.len()).unwrap_or(NONE);
            next += count;
            (next - count..next).collect()
        };
        passes.iter().map(of).collect()
    }
}

/// 0 of F, 1 of a backward for the input, 2 of W.
pub(crate) const fn class(kind: Kind) -> usize {
    match kind {
        Kind::F => 0,
        Kind::W => 2,
        _ => 1,
    }
}

/// Who waits for whom, packed.
fn successors(nodes: &[Node]) -> (Vec<u32>, Vec<u32>) {
    let inputs = || {
        (0u32..).zip(nodes).flat_map(|(number, node)| {
            node.inputs
                .into_iter()
                .filter(|input| input.0 != NONE)
                .map(move |input| (input.0, number))
        })
    };
    let mut first = vec![0u32; nodes.len() + 1];
    inputs().for_each(|(from, _)| first[from as usize + 1] += 1);
    for at in 0..nodes.len() {
        first[at + 1] += first[at];
    }
    let mut next = first.clone();
    let mut all = vec![0u32; first[nodes.len()] as usize];
    for (from, to) in inputs() {
        all[next[from as usize] as usize] = to;
        next[from as usize] += 1;
    }
    (first, all)
}
