//! Splits the difference between two timelines of the same passes into its parts.
//!
//! A timeline is its order and, of every slot, its duration, the time in flight of its input, and its
//! delay beyond the earliest possible start. [`sim::timed`] rebuilds it from those to the nanosecond.
//! Replacing the predicted ones by the measured ones, one after the other, leads from one timeline to
//! the other in steps that add up exactly.

use pipeline::{
    Hops, Kind, Metrics, Nanos, Pass, Placement, Schedule, Shape, Slot, Step, Timeline, Value,
};
use serde::Serialize;
use sim::contention::interpolated;
use sim::timed::{self, Timing};

use super::neighbours::busy_beside;

/// The parts of a timeline, in the order in which they are replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimelinePart {
    /// The order of the slots of each stage.
    Order,
    /// How much the stages that were busy meanwhile change how long slots take; a part of kernels where
    /// nothing is predicted of it.
    Neighbours,
    /// How long slots take: kernel time.
    Kernels,
    /// How long values are on their way.
    Transfers,
    /// Delay of slots after their stage is free and their inputs are there: launches, the host, other
    /// work of the stage.
    Overhead,
}

impl TimelinePart {
    /// The name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Neighbours => "neighbours",
            Self::Kernels => "kernels",
            Self::Transfers => "transfers",
            Self::Overhead => "overhead",
        }
    }
}

/// The parts of a timeline without its order.
#[derive(Clone, Debug)]
struct Makeup {
    shape: Shape,
    /// By the first pass of a slot, how long it took.
    durations: Vec<u64>,
    /// By the first pass of a slot, how much later it began than it could; less than 0 where the
    /// clocks of two stages disagree.
    delays: Vec<i64>,
    /// By value, the time from the end of the pass that made it to its arrival.
    hops: Vec<u64>,
}

fn pass_cell(shape: Shape, pass: Pass) -> usize {
    pass.kind as usize * shape.cells() + shape.cell(pass.chunk, pass.microbatch)
}

fn value_cell(shape: Shape, value: Value) -> usize {
    shape.value_cell(value)
}

fn first(slot: Slot) -> Pass {
    match slot {
        Slot::One(pass) | Slot::Pair(pass, _) => pass,
    }
}

/// How long the slots of `step` took, by their first pass.
fn durations(shape: Shape, step: &Step) -> Vec<u64> {
    let mut all = vec![0; Kind::ALL.len() * shape.cells()];
    for one in step.stages.iter().flatten() {
        all[pass_cell(shape, first(one.slot))] = (one.end - one.start).0;
    }
    all
}

impl Makeup {
    /// The parts of `step`, with slots in the order of `schedule`. A value that is not the last one
    /// that a slot waits for has no arrival of its own: it is taken to need its one of `hops`, or less, so that
    /// it is there before the last one.
    fn of(schedule: &Schedule, step: &Step, hops: &Hops) -> Result<Self, (usize, Slot)> {
        let shape = schedule.shape();
        let values = shape.value_cells();
        let mut made = vec![0u64; values];
        for measured in step.stages.iter().flatten() {
            for value in measured.slot.passes().filter_map(Pass::makes) {
                let made = &mut made[value_cell(shape, value)];
                *made = measured.end.0.max(*made);
            }
        }
        let durations = durations(shape, step);
        let delays = vec![0; durations.len()];
        let mut makeup = Self { shape, durations, delays, hops: vec![0; values] };
        for (stage, slots) in step.stages.iter().enumerate() {
            let mut ready = 0;
            for one in slots {
                for value in one.slot.received((shape, schedule.placement()), stage) {
                    let cell = value_cell(shape, value);
                    let (last, at) = one.arrived.unwrap_or((value, one.start));
                    let longest = at.0.saturating_sub(made[cell]);
                    let nominal = match schedule.placement().maker(shape, value) {
                        Some(from) if !value.is_collective(shape) => hops.between(from, stage),
                        _ => hops.longest(),
                    };
                    let hop = if value == last { longest } else { longest.min(nominal.0) };
                    makeup.hops[cell] = hop;
                    ready = ready.max(made[cell] + hop);
                }
                let cell = pass_cell(shape, first(one.slot));
                makeup.delays[cell] = one.start.0.cast_signed() - ready.cast_signed();
                if one.end.0 < ready {
                    return Err((stage, one.slot));
                }
                ready = one.end.0;
            }
        }
        Ok(makeup)
    }

    /// The timeline that `schedule` has with this makeup.
    fn timeline(&self, schedule: &Schedule) -> Timeline {
        let mut timeline = timed::timeline(schedule, self);
        for span in timeline.stages.iter_mut().flatten() {
            span.start = Nanos(span.end.0.saturating_sub(self.duration_of(span.slot)));
        }
        timeline
    }

    fn duration_of(&self, slot: Slot) -> u64 {
        self.durations[pass_cell(self.shape, first(slot))]
    }
}

impl Timing for Makeup {
    /// The delay before a slot and the slot itself; all of a pair at its first pass.
    fn duration(&self, _: usize, pass: Pass, _: u64) -> u64 {
        let cell = pass_cell(self.shape, pass);
        self.durations[cell].saturating_add_signed(self.delays[cell])
    }

    fn hop(&self, value: Value, _: usize, _: usize, _: u64) -> u64 {
        self.hops[value_cell(self.shape, value)]
    }

    fn collective(&self, value: Value, _: u64) -> u64 {
        self.hops[value_cell(self.shape, value)]
    }
}

/// A schedule, a step of it, and the hops that may be assumed where a value has no arrival.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    /// The order.
    pub schedule: &'a Schedule,
    /// When its slots ran.
    pub step: &'a Step,
    /// The hops that the prediction assumed.
    pub hops: &'a Hops,
}

/// A timeline that cannot be split into parts, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Torn {
    /// Whether it is the measured one.
    pub measured: bool,
    pub stage: usize,
    /// The slot that ended before its inputs were made.
    pub slot: Slot,
}

/// The predicted timeline, and the replays in which its parts are replaced by measured ones.
pub(super) struct Replaced {
    pub predicted: Timeline,
    /// The timelines with one part more replaced each, up to the measured one.
    pub parts: Vec<(TimelinePart, Timeline)>,
}

/// The timelines from the predicted to the measured one. Both sides must have the same slots on every stage,
/// and so must `beside`, the prediction beside busy neighbours, where there is one.
pub(super) fn between(
    predicted: Side<'_>,
    measured: Side<'_>,
    beside: Option<&Step>,
) -> Result<Replaced, Torn> {
    let torn = |measured: bool| move |(stage, slot)| Torn { measured, stage, slot };
    let makeup = |side: Side<'_>| Makeup::of(side.schedule, side.step, side.hops);
    let from = makeup(predicted).map_err(torn(false))?;
    let to = makeup(measured).map_err(torn(true))?;
    let order = measured.schedule;
    let mut parts = vec![(TimelinePart::Order, from.timeline(order))];
    if let Some(beside) = beside {
        let durations = by_busy_stages(&from, beside, measured.step);
        let neighbours = Makeup { durations, ..from.clone() };
        parts.push((TimelinePart::Neighbours, neighbours.timeline(order)));
    }
    let durations = Makeup { durations: to.durations.clone(), ..from.clone() };
    parts.push((TimelinePart::Kernels, durations.timeline(order)));
    let hops = Makeup { hops: to.hops.clone(), ..durations };
    parts.push((TimelinePart::Transfers, hops.timeline(order)));
    parts.push((TimelinePart::Overhead, to.timeline(order)));
    Ok(Replaced { predicted: from.timeline(predicted.schedule), parts })
}

/// Duration of each slot between that in `alone` and in `beside`: by the mean number of other stages
/// that were busy while it ran in `measured`, as a share of all other stages. A slot of zero duration
/// there has its duration in `alone`.
fn by_busy_stages(alone: &Makeup, beside: &Step, measured: &Step) -> Vec<u64> {
    let shape = alone.shape;
    let beside = durations(shape, beside);
    let others = shape.stages() as u128 - 1;
    let mut all = alone.durations.clone();
    let slots = measured.stages.iter().flatten();
    for (one, busy) in slots.zip(busy_beside(measured).into_iter().flatten()) {
        let cell = pass_cell(shape, first(one.slot));
        let [least, most] = [all[cell], beside[cell]].map(Nanos);
        let most_busy = others * u128::from((one.end - one.start).0);
        all[cell] = interpolated(least, most, busy, most_busy).0;
    }
    all
}

/// One part of the difference: measured less predicted.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Share {
    /// Nanoseconds of the longest span of a stage.
    #[serde(rename = "span_ns")]
    pub span: i64,
    /// Nanoseconds of the makespan.
    #[serde(rename = "makespan_ns")]
    pub makespan: i64,
    /// Nanoseconds of idle time over all stages, within the longest span.
    #[serde(rename = "idle_ns")]
    pub idle: i64,
    pub bubble_rate: f64,
}

impl Share {
    /// The difference between two timelines.
    pub fn between(before: &Metrics, after: &Metrics) -> Self {
        let difference = |of: fn(&Metrics) -> Nanos| {
            of(after).0.cast_signed().saturating_sub(of(before).0.cast_signed())
        };
        Self {
            span: difference(Metrics::span),
            makespan: difference(Metrics::makespan),
            idle: idle(after).saturating_sub(idle(before)),
            bubble_rate: after.bubble_rate() - before.bubble_rate(),
        }
    }
}

/// Idle time over all stages, within the longest span of one.
fn idle(metrics: &Metrics) -> i64 {
    let span = i128::from(metrics.span().0);
    let idle = metrics.stages.iter().map(|stage| span - i128::from(stage.busy.0)).sum::<i128>();
    i64::try_from(idle).unwrap_or(i64::MAX)
}

/// Whether two orders have the same slots on every stage, in any sequence; else the stage and a slot
/// that only the first (`true`) or the second has.
pub(super) fn same_slots(one: &Schedule, other: &Schedule) -> Result<(), (usize, Slot, bool)> {
    for (stage, (one, other)) in one.orders().iter().zip(other.orders()).enumerate() {
        let sorted = |order: &pipeline::Order| {
            let mut slots: Vec<Slot> = order.slots().collect();
            slots.sort_unstable();
            slots
        };
        let (one, other) = (sorted(one), sorted(other));
        let lacks = |all: &[Slot], slot: &Slot| all.binary_search(slot).is_err();
        if let Some(&slot) = one.iter().find(|slot| lacks(&other, slot)) {
            return Err((stage, slot, true));
        }
        if let Some(&slot) = other.iter().find(|slot| lacks(&one, slot)) {
            return Err((stage, slot, false));
        }
    }
    Ok(())
}

/// Whether two schedules are of the same pipeline.
pub(super) fn same_place(one: &Schedule, other: &Schedule) -> bool {
    let place =
        |schedule: &Schedule| -> (Shape, Placement) { (schedule.shape(), schedule.placement()) };
    place(one) == place(other)
}
