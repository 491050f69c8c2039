//! The step that remains when passes of dead workers are run by their peers.

use pipeline::{Bytes, Nanos, Pass};
use search::{GraphFound, GraphSearch, Milestone};
use sim::graph::{self, Goal, Graph, Orders, Times, UNLIMITED, signed};

use crate::bound::{Bound, bound};
use crate::dead::Dead;
use crate::deal::Deal;
use crate::error::FailureError;
use crate::period::period;
use crate::pipelines::{Pipelines, Rerouted};
use crate::worker::Worker;

/// Passes that are placed or timed in one search at effort 1, over all orders: so many, and more for each pass.
const STEPS: u64 = 2_000_000;
/// See [`STEPS`].
const STEPS_EACH: u64 = 1_000;
/// No search at effort 1 takes more.
const MOST_STEPS: u64 = 20_000_000;
/// The seed of all searches.
const SEED: u64 = 0;

/// How passes are rerouted.
#[derive(Clone, Debug)]
pub struct Rerouting<'a> {
    /// How microbatches of the dead are dealt.
    pub deal: Deal,
    /// Whether B and W of a whole backward are done apart.
    pub split: bool,
    /// What a worker may hold, in bytes by stage.
    pub limits: &'a [Bytes],
    /// How long is searched, in multiples of the default; 0 for list schedules alone.
    pub effort: u64,
}

/// A pass as it ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The worker that ran it.
    pub worker: Worker,
    /// The pipeline whose microbatch it is of.
    pub pipeline: u32,
    /// The pass; a backward of a chunk that recomputes does so at its start.
    pub pass: Pass,
    pub start: Nanos,
    pub end: Nanos,
}

/// A step in which every pass of every pipeline is run once, by a live worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The time of a step where all stages wait for each other at its end, as gradient clipping makes them.
    pub step: Nanos,
    /// The same with a staggered optimizer: a stage begins the next step when its own optimizer is done. In the
    /// long run.
    pub staggered: Nanos,
    /// What no order undercuts.
    pub bound: Bound,
    /// The most that a worker of each stage holds, in both.
    pub peaks: Vec<Bytes>,
    /// The passes of the first, worker by worker in their order.
    pub passes: Vec<Ran>,
    /// Best costs of the two searches after so many steps, for the step and for the span of a stage; empty where the
    /// orders were not searched.
    pub histories: [Vec<Milestone>; 2],
    /// Whether the search was stopped early.
    pub interrupted: bool,
}

impl Pipelines<'_> {
    /// The step as it is while nothing is dead: every pipeline runs its schedule as it stands.
    pub fn healthy(&self) -> Result<Step, FailureError> {
        let stages = self.schedule.shape().stages() as u64;
        let dead = Dead::new(self.pipelines, stages, &[])?;
        let rerouted = Rerouted::new(self, &dead, (Deal::default(), false), |_| UNLIMITED)?;
        let orders = rerouted.published();
        let times = timed(&rerouted.graph, &orders)?;
        let both = [(&orders, &times), (&orders, &times)];
        Ok(self.answer(&rerouted, bound(self, &dead, false), both, false))
    }

    /// The step where the passes of the workers of `dead` are run by their peers, by the best orders found.
    pub fn rerouted(
        &self,
        dead: &Dead,
        how: &Rerouting<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Step, FailureError> {
        // Pipelines are alike: which of them has a dead worker must not change the search.
        let (dead, names) = dead.canonical();
        let limit = |stage: u32| graph::limit(how.limits[stage as usize].0);
        let rerouted = Rerouted::new(self, &dead, (how.deal, how.split), limit)?;
        let graph = &rerouted.graph;
        check_memory(graph)?;
        let bound = bound(self, &dead, how.split);
        let start = rerouted.inserted(&self.starts(how.split)?);
        let steps = STEPS_EACH.saturating_mul(graph.operations().len() as u64);
        let steps = steps.saturating_add(STEPS).min(MOST_STEPS).saturating_mul(how.effort);
        let searched = |goal: Goal, least: Nanos, start: &Orders| {
            let search = GraphSearch {
                goal,
                bound: signed(least.0) - signed(self.optimizer.0),
                seed: SEED,
                steps,
            };
            let found = search.run(graph, std::slice::from_ref(start), stop);
            found.ok_or_else(|| no_order(graph))
        };
        let step = searched(Goal::Makespan, bound.step, &start)?;
        let span = searched(Goal::Span, bound.staggered, &step.orders)?;
        let times = [timed(graph, &step.orders)?, timed(graph, &span.orders)?];
        let both = [(&step.orders, &times[0]), (&span.orders, &times[1])];
        let mut answer = self.answer(&rerouted, bound, both, stop()).renamed(&names);
        let milestones = |found: &GraphFound, bound| found.milestones(bound, self.optimizer);
        answer.histories = [milestones(&step, bound.step), milestones(&span, bound.staggered)];
        Ok(answer)
    }

    /// The start of each pass of one pipeline in its schedule, as long as nothing is dead, without hops.
    fn starts(&self, split: bool) -> Result<Vec<i64>, FailureError> {
        let costs = self.costs.clone().with_hop(Nanos(0));
        let alone = Pipelines { costs: &costs, pipelines: 1, peer_hop: None, ..*self };
        let nothing = Dead::new(1, self.schedule.shape().stages() as u64, &[])?;
        let rerouted = Rerouted::new(&alone, &nothing, (Deal::default(), split), |_| UNLIMITED)?;
        Ok(timed(&rerouted.graph, &rerouted.published())?.starts)
    }

    /// The step of the first orders, and the staggered step of both.
    fn answer(
        &self,
        rerouted: &Rerouted,
        bound: Bound,
        both: [(&Orders, &Times); 2],
        interrupted: bool,
    ) -> Step {
        let graph = &rerouted.graph;
        let [(orders, times), _] = both;
        let periods =
            both.map(|(orders, times)| period(graph, times, orders, signed(self.optimizer.0)));
        let mut peaks = vec![Bytes(0); rerouted.stages as usize];
        for (orders, _) in both {
            for (machine, order) in graph.machines().iter().zip(&orders.operations) {
                let most = &mut peaks[machine.flush as usize];
                *most = (*most).max(Bytes(unsigned(graph.peak(order))));
            }
        }
        let end = unsigned(times.score(graph, orders, Goal::Makespan).cost);
        Step {
            step: Nanos(end) + self.optimizer,
            staggered: Nanos(periods[0].min(periods[1])),
            bound,
            peaks,
            passes: rerouted.ran(times, orders),
            histories: [const { Vec::new() }; 2],
            interrupted,
        }
    }
}

impl Step {
    /// The same with the pipeline `names[k]` in place of k.
    fn renamed(mut self, names: &[u32]) -> Self {
        for Ran { worker, pipeline, .. } in &mut self.passes {
            worker.pipeline = names[worker.pipeline as usize];
            *pipeline = names[*pipeline as usize];
        }
        self.passes.sort_by_key(|ran| (ran.worker, ran.start));
        self
    }
}

impl Rerouted {
    fn ran(&self, times: &Times, orders: &Orders) -> Vec<Ran> {
        let ran = |&number: &u32| {
            let (pipeline, pass) = self.passes[number as usize];
            let machine = orders.machine(&self.graph, number);
            Ran {
                worker: Worker { pipeline: machine / self.stages, stage: machine % self.stages },
                pipeline,
                pass,
                start: Nanos(unsigned(times.starts[number as usize])),
                end: Nanos(unsigned(times.end(&self.graph, number))),
            }
        };
        orders.operations.iter().flatten().map(ran).collect()
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn timed(graph: &Graph, orders: &Orders) -> Result<Times, FailureError> {
    // Orders are made of schedules without deadlock, or of changes that were timed.
    Times::of(graph, orders).ok_or(FailureError::Unsuitable("passes wait for each other"))
}

/// By stage, its limit and the least one under which a microbatch gets through.
fn needed(graph: &Graph) -> Vec<[i64; 2]> {
    let mut all: Vec<[i64; 2]> = Vec::new();
    for (operation, need) in graph.operations().iter().zip(graph.needs()) {
        let machine = graph.groups()[operation.group as usize].machine;
        let machine = graph.machines()[machine as usize];
        let stage = machine.flush as usize;
        all.resize(all.len().max(stage + 1), [UNLIMITED, 0]);
        all[stage] = [machine.limit, all[stage][1].max(need)];
    }
    all
}

fn check_memory(graph: &Graph) -> Result<(), FailureError> {
    let needed = needed(graph);
    match needed.iter().position(|[limit, needed]| needed > limit) {
        Some(stage) => Err(memory_fault(stage, needed[stage])),
        None => Ok(()),
    }
}

fn no_order(graph: &Graph) -> FailureError {
    let needed = needed(graph);
    let tightest = (0..needed.len()).min_by_key(|&stage| needed[stage][0] - needed[stage][1]);
    let stage = tightest.unwrap_or(0);
    memory_fault(stage, needed.get(stage).copied().unwrap_or_default())
}

fn memory_fault(stage: usize, [limit, needed]: [i64; 2]) -> FailureError {
    let stage = u32::try_from(stage).unwrap_or(u32::MAX);
    FailureError::Memory { stage, limit: unsigned(limit), needed: unsigned(needed) }
}
