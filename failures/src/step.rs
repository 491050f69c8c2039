//! The step that remains when passes of dead workers are run by their peers.

use pipeline::{Bytes, Nanos, Pass};

use crate::bound::{Bound, bound};
use crate::dead::{Dead, Worker};
use crate::deal::Deal;
use crate::error::FailureError;
use crate::improve::{evaluations, improve};
use crate::instance::{Instance, Pipelines, class};
use crate::list::{Room, Rule, schedule};
use crate::period::period;
use crate::timing::{Aim, Orders, Timing, peak};

/// Passes above which few rules of the list scheduler are tried.
const MANY: usize = 40_000;

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
    /// Its start.
    pub start: Nanos,
    /// Its end.
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
    /// Whether the search was stopped early.
    pub interrupted: bool,
}

impl Pipelines<'_> {
    /// The step as it is while nothing is dead: every pipeline runs its schedule as it stands.
    ///
    /// # Errors
    /// If the schedule is unsuitable, or times leave their range.
    pub fn healthy(&self) -> Result<Step, FailureError> {
        let stages = self.schedule.shape().stages() as u64;
        let dead = Dead::new(self.pipelines, stages, &[])?;
        let instance = Instance::new(self, &dead, Deal::default(), false)?;
        let orders = instance.published();
        let timing = timed(&instance, &orders)?;
        let bound = bound(self, &dead, false);
        Ok(answer(&instance, bound, [(&orders, &timing), (&orders, &timing)], false))
    }

    /// The step where the passes of the workers of `dead` are run by their peers, by the best orders found.
    ///
    /// # Errors
    /// If the schedule is unsuitable, times leave their range, or a worker cannot hold one microbatch.
    pub fn rerouted(
        &self,
        dead: &Dead,
        how: &Rerouting<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Step, FailureError> {
        // Pipelines are alike: which of them has a dead worker must not change the search.
        let (canonical, names) = dead.canonical();
        let starts = by_schedule(self, how.split)?;
        let searched = |dead: &Dead| self.searched(dead, how, &starts, stop);
        let last = searched(&canonical)?.renamed(&names);
        let names: Vec<u32> = names.into_iter().rev().collect();
        let reversed = dead.renumbered(&names);
        if reversed == canonical {
            return Ok(last);
        }
        Ok(last.or(searched(&reversed)?.renamed(&names)))
    }

    /// The same with pipelines as they are numbered in `dead`; `starts` are those of [`by_schedule`].
    fn searched(
        &self,
        dead: &Dead,
        how: &Rerouting<'_>,
        starts: &[u64],
        stop: &dyn Fn() -> bool,
    ) -> Result<Step, FailureError> {
        let instance = Instance::new(self, dead, how.deal, how.split)?;
        let limits: Vec<u64> = how.limits.iter().map(|limit| limit.0).collect();
        let room = Room::new(&instance, &limits);
        if let Some(fault) = unfit(&instance, &room) {
            return Err(fault);
        }
        let bound = bound(self, dead, how.split);
        let starts: Vec<u64> = starts.iter().copied().cycle().take(instance.nodes.len()).collect();
        let candidates = candidates(&instance, &room, &starts, stop);
        let best = |aim: Aim| {
            let timed = candidates.iter().filter_map(|orders| {
                Timing::of(&instance, orders)
                    .map(|timing| (aim.cost(&instance, &timing, orders), orders))
            });
            timed.min_by_key(|(cost, _)| *cost).map(|(_, orders)| orders.clone())
        };
        // Half of them for each of two orders of the pipelines.
        let count = evaluations(instance.nodes.len(), how.effort) / 2;
        let searched = |aim: Aim, least: Nanos| -> Result<Orders, FailureError> {
            let start = best(aim).ok_or_else(|| no_order(&instance, &room))?;
            Ok(improve((&instance, &room), aim, start, (least.0, count), stop).0)
        };
        let orders = [searched(Aim::Step, bound.step)?, searched(Aim::Span, bound.staggered)?];
        let timings = [timed(&instance, &orders[0])?, timed(&instance, &orders[1])?];
        let both = [(&orders[0], &timings[0]), (&orders[1], &timings[1])];
        Ok(answer(&instance, bound, both, stop()))
    }
}

impl Step {
    /// The better of both for either end of a step.
    fn or(self, other: Self) -> Self {
        let staggered = self.staggered.min(other.staggered);
        let peaks = self.peaks.iter().zip(&other.peaks).map(|(one, two)| *one.max(two)).collect();
        let interrupted = self.interrupted || other.interrupted;
        let better = if other.step < self.step { other } else { self };
        Self { staggered, peaks, interrupted, ..better }
    }

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

fn timed(instance: &Instance, orders: &Orders) -> Result<Timing, FailureError> {
    // Orders are made of schedules without deadlock, or of changes that were timed.
    Timing::of(instance, orders).ok_or(FailureError::Unsuitable("passes wait for each other"))
}

fn unfit(instance: &Instance, room: &Room) -> Option<FailureError> {
    let needed = room.needed(instance);
    let stage = (0..needed.len()).find(|&stage| needed[stage] > room.limits[stage])?;
    Some(memory_fault(stage, &needed, room))
}

fn no_order(instance: &Instance, room: &Room) -> FailureError {
    let needed = room.needed(instance);
    let short = |&stage: &usize| room.limits[stage].saturating_sub(needed[stage]);
    let stage = (0..needed.len()).min_by_key(short).unwrap_or(0);
    memory_fault(stage, &needed, room)
}

fn memory_fault(stage: usize, needed: &[u64], room: &Room) -> FailureError {
    FailureError::Memory {
        stage: u32::try_from(stage).unwrap_or(u32::MAX),
        limit: room.limits[stage],
        needed: needed[stage],
    }
}

/// The step and the staggered step of two orders.
fn answer(
    instance: &Instance,
    bound: Bound,
    both: [(&Orders, &Timing); 2],
    interrupted: bool,
) -> Step {
    let [(orders, timing), _] = both;
    let periods = both.map(|(orders, timing)| period(instance, timing, orders));
    let mut peaks = vec![Bytes(0); instance.shape.stages()];
    for (orders, _) in both {
        for (worker, order) in (0u32..).zip(orders) {
            let most = &mut peaks[instance.stage(worker)];
            *most = (*most).max(Bytes(peak(instance, order)));
        }
    }
    Step {
        step: Nanos(Aim::Step.cost(instance, timing, orders)),
        staggered: Nanos(periods[0].min(periods[1])),
        bound,
        peaks,
        passes: passes(instance, timing, orders),
        interrupted,
    }
}

fn passes(instance: &Instance, timing: &Timing, orders: &Orders) -> Vec<Ran> {
    let stages = u32::try_from(instance.shape.stages()).unwrap_or(u32::MAX);
    let ran = |&number: &u32| {
        let node = &instance.nodes[number as usize];
        Ran {
            worker: Worker { pipeline: node.worker / stages, stage: node.worker % stages },
            pipeline: node.pipeline,
            pass: node.pass,
            start: Nanos(timing.starts[number as usize]),
            end: Nanos(timing.end(instance, number)),
        }
    };
    orders.iter().flatten().map(ran).collect()
}

/// Orders to begin a search with: the passes of peers inserted where their own pipelines have them, and list
/// schedules by several rules. `by_schedule` has the start of each pass in its own pipeline's schedule. At a stop no more
/// than one of them is made.
fn candidates(
    instance: &Instance,
    room: &Room,
    by_schedule: &[u64],
    stop: &dyn Fn() -> bool,
) -> Vec<Orders> {
    let by_tail = by_tail(instance);
    let by_microbatch: Vec<u64> = instance
        .nodes
        .iter()
        .map(|node| (u64::from(node.pass.microbatch) << 16) | u64::from(node.pass.chunk))
        .collect();
    let is_large = instance.nodes.len() > MANY;
    let urgencies: &[&[u64]] =
        if is_large { &[by_schedule, &by_tail] } else { &[by_schedule, &by_tail, &by_microbatch] };
    let patience: &[u64] = if is_large { &[0, 100] } else { &[0, 50, 100] };
    let mut all: Vec<Orders> = inserted(instance, by_schedule, room).into_iter().collect();
    for urgency in urgencies {
        for backward_first in [true, false] {
            for &patience in patience {
                if !all.is_empty() && stop() {
                    return all;
                }
                let rule = Rule { urgency, backward_first, patience };
                all.extend(schedule(instance, rule, room));
            }
        }
    }
    all
}

/// The start of each pass of one pipeline in its schedule, as long as nothing is dead, without hops.
fn by_schedule(of: &Pipelines<'_>, split: bool) -> Result<Vec<u64>, FailureError> {
    let costs = of.costs.clone().with_hop(Nanos(0));
    let alone = Pipelines { costs: &costs, pipelines: 1, peer_hop: None, ..*of };
    let nothing = Dead::new(1, of.schedule.shape().stages() as u64, &[])?;
    let instance = Instance::new(&alone, &nothing, Deal::default(), split)?;
    Ok(timed(&instance, &instance.published())?.starts)
}

/// Less for passes behind which more time must follow.
fn by_tail(instance: &Instance) -> Vec<u64> {
    let count = instance.nodes.len();
    let mut tails = vec![0u64; count];
    let mut open: Vec<u32> = vec![0; count];
    for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        open[number as usize] =
            u32::try_from(instance.successors(number).len()).unwrap_or(u32::MAX);
    }
    let mut stack: Vec<usize> = (0..count).filter(|&number| open[number] == 0).collect();
    while let Some(number) = stack.pop() {
        let node = &instance.nodes[number];
        tails[number] += node.time;
        for &(input, delay) in node.inputs.iter().filter(|input| (input.0 as usize) < count) {
            let input = input as usize;
            tails[input] = tails[input].max(tails[number] + delay);
            open[input] -= 1;
            if open[input] == 0 {
                stack.push(input);
            }
        }
    }
    tails.into_iter().map(|tail| u64::MAX - tail).collect()
}

/// Every worker's own passes and those it takes over, by their starts in their own pipelines; none if that
/// needs more memory than there is.
fn inserted(instance: &Instance, starts: &[u64], room: &Room) -> Option<Orders> {
    let each = instance.nodes.len() / instance.pipelines.max(1) as usize;
    let mut orders: Orders = vec![Vec::new(); instance.workers()];
    let mut place = vec![0usize; each];
    for order in &instance.base {
        for (at, &number) in order.iter().enumerate() {
            place[number as usize] = at;
        }
    }
    for number in 0..u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX) {
        orders[instance.nodes[number as usize].worker as usize].push(number);
    }
    for order in &mut orders {
        order.sort_by_key(|&number| {
            let node = &instance.nodes[number as usize];
            let local = number as usize % each;
            (starts[number as usize], class(node.pass.kind), place[local], node.pipeline)
        });
    }
    let fits = (0u32..)
        .zip(&orders)
        .all(|(worker, order)| peak(instance, order) <= room.limits[instance.stage(worker)]);
    (fits && Timing::of(instance, &orders).is_some()).then_some(orders)
}
