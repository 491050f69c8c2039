//! All passes of all pipelines as one graph: each on the worker that runs it, or on any of its peers.

use std::ops::Range;

use pipeline::{Costs, Footprints, Kind, Nanos, Pass, Placement, Schedule, Shape, Value};
use sim::graph::{Dependency, Graph, Group, Machine, NONE, Operation, Orders, signed};

use crate::dead::Dead;
use crate::deal::{Deal, Dealt};
use crate::error::{FailureError, count};
use crate::worker::Worker;

/// The most passes of all pipelines together.
pub const MAX_PASSES: u64 = 1 << 19;

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
    /// The all-reduce of the gradients of a stage and its optimizer, behind the last pass of the stage on any worker.
    pub optimizer: Nanos,
}

/// The passes of all pipelines as operations. Worker number w is machine w: pipeline times stages plus stage.
#[derive(Clone, Debug)]
pub(crate) struct Rerouted {
    pub(crate) graph: Graph,
    /// The pipeline and the pass of each operation.
    pub(crate) passes: Vec<(u32, Pass)>,
    /// The operations of pipeline 0, stage by stage in its schedule's order.
    base: Vec<Range<u32>>,
    pub(crate) stages: u32,
}

impl Pipelines<'_> {
    /// Checks that the schedule is of passes on one stream of each stage alone.
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

impl Rerouted {
    /// The passes of `of` where the workers of `dead` run nothing and those of each stage hold at most `limits`. `split`
    /// makes a B and a W of each whole backward. Microbatches of dead workers begin where `deal` has them.
    pub(crate) fn new(
        of: &Pipelines<'_>,
        dead: &Dead,
        (deal, split): (Deal, bool),
        limits: impl Fn(u32) -> i64,
    ) -> Result<Self, FailureError> {
        of.check()?;
        let maker = Maker::new(of, split);
        let (stages, shape) = (dead.stages(), maker.shape);
        let work = maker.work();
        let microbatches = shape.microbatches();
        let dealt = Dealt::new(dead, microbatches, deal, |stage, microbatch| {
            Nanos(work[(stage * microbatches + microbatch) as usize])
        });
        let mut groups = Vec::new();
        let (mut operations, mut dependencies, mut passes) = (Vec::new(), Vec::new(), Vec::new());
        for pipeline in 0..dead.pipelines() {
            for stage in 0..stages {
                let worker = Worker { pipeline, stage };
                let pool = if dead.has(worker) && deal == Deal::Balanced { stage } else { NONE };
                groups.extend((0..microbatches).map(|microbatch| Group {
                    machine: dealt.taker(worker, microbatch) * stages + stage,
                    pool,
                }));
            }
            for &pass in maker.passes.iter().flatten() {
                operations.push(maker.operation(pipeline, pass));
                passes.push((pipeline, pass));
                maker.waits(pipeline, pass, &mut dependencies);
            }
        }
        let machine = |number: u32| {
            let (row, flush) = (number / stages, number % stages);
            Machine { row, flush, limit: limits(flush) }
        };
        let machines = (0..dead.pipelines() * stages).map(machine).collect();
        let pool = |stage| dead.live(stage).map(|pipeline| pipeline * stages + stage).collect();
        let pools = (0..stages).map(pool).collect();
        // Orders are made of schedules without deadlock.
        let graph = Graph::new(operations, &dependencies, groups, (machines, pools))
            .map_err(|_| FailureError::Overflow)?;
        if graph.total_time() + i128::from(of.optimizer.0) >= 1 << 62 {
            return Err(FailureError::Overflow);
        }
        Ok(Self { graph, passes, base: maker.base(), stages })
    }

    /// The orders of all workers where each microbatch is run in the order of its own pipeline's schedule, by the
    /// `starts` of the passes there.
    pub(crate) fn inserted(&self, starts: &[i64]) -> Orders {
        let each = u32::try_from(starts.len()).unwrap_or(NONE);
        self.graph.orders_by(|&number| {
            let (pipeline, pass) = self.passes[number as usize];
            let local = number % each.max(1);
            (starts[local as usize], class(pass.kind), local, pipeline)
        })
    }

    /// The orders of all workers where none is dead: each pipeline as its schedule has it.
    pub(crate) fn published(&self) -> Orders {
        let each = self.base.last().map_or(0, |last| last.end);
        let pipelines = self.graph.numbers().end / each.max(1);
        let of = |pipeline: u32| {
            let moved = move |range: &Range<u32>| {
                (range.start + pipeline * each..range.end + pipeline * each).collect()
            };
            self.base.iter().map(moved)
        };
        let machines = self.graph.groups().iter().map(|group| group.machine).collect();
        Orders { machines, operations: (0..pipelines).flat_map(of).collect() }
    }
}

struct Maker<'a> {
    of: &'a Pipelines<'a>,
    shape: Shape,
    /// The passes of one pipeline, stage by stage: R is done with its B.
    passes: Vec<Vec<Pass>>,
    /// Number of the operation of pipeline 0 by kind (F, any backward, W), chunk and microbatch.
    numbers: Vec<u32>,
    each: u32,
}

impl<'a> Maker<'a> {
    fn new(of: &'a Pipelines<'a>, split: bool) -> Self {
        let shape = of.schedule.shape();
        let parts = |pass: Pass| match pass.kind {
            Kind::R => [None, None],
            Kind::BW if split => {
                [Some(Pass { kind: Kind::B, ..pass }), Some(Pass { kind: Kind::W, ..pass })]
            }
            _ => [Some(pass), None],
        };
        let stages = of.schedule.orders().iter().map(|order| order.passes().iter().copied());
        let passes: Vec<Vec<Pass>> =
            stages.map(|order| order.flat_map(parts).flatten().collect()).collect();
        let mut maker = Self { of, shape, passes, numbers: vec![NONE; 3 * shape.cells()], each: 0 };
        for &Pass { kind, chunk, microbatch } in maker.passes.iter().flatten() {
            let cell = class(kind) * shape.cells() + shape.cell(chunk, microbatch);
            maker.numbers[cell] = maker.each;
            maker.each += 1;
        }
        maker
    }

    fn number(&self, class: usize, chunk: u16, microbatch: u32) -> u32 {
        self.numbers[class * self.shape.cells() + self.shape.cell(chunk, microbatch)]
    }

    fn stage(&self, chunk: u16) -> usize {
        self.of.schedule.placement().stage(self.shape, chunk, 0)
    }

    /// The work of each stage on each microbatch.
    fn work(&self) -> Vec<u64> {
        let microbatches = self.shape.microbatches();
        let mut work = vec![0u64; self.shape.stages() * microbatches as usize];
        for chunk in 0..self.shape.chunks() {
            for microbatch in 0..microbatches {
                let times = self.of.costs.times(chunk, microbatch);
                let sum = times.forward.0.saturating_add(times.least_backward().0);
                let at = self.stage(chunk) * microbatches as usize + microbatch as usize;
                work[at] = work[at].saturating_add(sum);
            }
        }
        work
    }

    /// Time and memory of `pass`; a backward that recomputes does so at its start.
    fn operation(&self, pipeline: u32, pass: Pass) -> Operation {
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
        let stages = u32::try_from(self.shape.stages()).unwrap_or(NONE);
        let stage = u32::try_from(self.stage(pass.chunk)).unwrap_or(NONE);
        Operation {
            time: signed(time),
            take: signed(taken),
            leave: signed(change.taken_at_end.0).saturating_sub(signed(change.freed_at_end.0)),
            group: (pipeline * stages + stage) * self.shape.microbatches() + pass.microbatch,
            block: NONE,
        }
    }

    /// What `pass` waits for.
    fn waits(&self, pipeline: u32, pass: Pass, into: &mut Vec<Dependency>) {
        let Pass { kind, chunk, microbatch } = pass;
        let to = self.number(class(kind), chunk, microbatch) + pipeline * self.each;
        let mut wait = |class: usize, from: u16, is_free: bool| {
            let within = self.of.costs.hops().between(self.stage(from), self.stage(chunk));
            let lags = match is_free || from == chunk {
                true => [0, 0],
                false => [within, self.of.peer_hop.unwrap_or(within)].map(|lag| signed(lag.0)),
            };
            let from = self.number(class, from, microbatch) + pipeline * self.each;
            into.push(Dependency { from, to, lags });
        };
        match kind {
            Kind::F if chunk == 0 => {}
            Kind::F => wait(0, chunk - 1, false),
            Kind::W => wait(1, chunk, true),
            _ => {
                wait(0, chunk, true);
                if chunk + 1 < self.shape.chunks() {
                    let value = Value::Gradient { chunk: chunk + 1, microbatch };
                    wait(1, chunk + 1, self.of.costs.is_empty(value));
                }
            }
        }
    }

    fn base(&self) -> Vec<Range<u32>> {
        let mut next = 0;
        let of = |stage: &Vec<Pass>| {
            let count = u32::try_from(stage.len()).unwrap_or(NONE);
            next += count;
            next - count..next
        };
        self.passes.iter().map(of).collect()
    }
}

/// 0 of F, 1 of a backward for the input, 2 of W.
const fn class(kind: Kind) -> usize {
    match kind {
        Kind::F => 0,
        Kind::W => 2,
        _ => 1,
    }
}
