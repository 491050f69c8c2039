//! Measurements as stages make them, and how they become those of the run.

use std::collections::HashMap;

use pipeline::{Measurement, Nanos, Pass, Slot, Step, Value};

use super::plan::Plan;
use crate::measured::Measured;

/// When a slot ran, in nanoseconds since the epoch of the run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RawSlot {
    /// When what each of its passes needs from another stage was here, at the earliest: it cannot be
    /// before it was made, which its maker knows.
    pub(crate) arrivals: [Option<u64>; 2],
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// One step of one stage.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct RawStep {
    pub(crate) slots: Vec<RawSlot>,
    pub(crate) end: u64,
    pub(crate) loss: Option<f64>,
    /// Those of its updates, where weights change while the pipeline runs and the stage has the head.
    pub(crate) losses: Vec<f64>,
}

/// One stage.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct RawStage {
    /// The steps measured.
    pub(crate) steps: Vec<RawStep>,
    /// In how many steps, warm-up included, updates on trust were wrong.
    pub(crate) rollbacks: u32,
    /// In how many steps weights were left as they were.
    pub(crate) skipped: u32,
    /// Allocations made in the steps measured.
    pub(crate) allocations: u64,
}

/// Puts the measurements of all stages together.
pub(crate) fn measured(plan: &Plan, stages: &[RawStage]) -> Measured {
    let slots: Vec<Vec<Slot>> = (0..stages.len()).map(|stage| plan.slots(stage)).collect();
    let mut begun = None;
    let steps = (0..plan.steps() as usize).map(|number| {
        let raw: Vec<&RawStep> =
            stages.iter().filter_map(|stage| stage.steps.get(number)).collect();
        let zero = raw.iter().filter_map(|step| step.slots.first()).map(|slot| slot.start).min();
        let zero = zero.unwrap_or(0);
        let began = Nanos(zero.saturating_sub(*begun.get_or_insert(zero)));
        step(plan, &slots, &raw, zero, began)
    });
    Measured {
        steps: steps.collect(),
        rollbacks: stages.first().map_or(0, |stage| stage.rollbacks),
        skipped: stages.first().map_or(0, |stage| stage.skipped),
        allocations: stages.iter().map(|stage| stage.allocations).sum(),
        losses: stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .flat_map(|step| &step.losses)
            .copied()
            .collect(),
    }
}

fn step(plan: &Plan, slots: &[Vec<Slot>], raw: &[&RawStep], zero: u64, began: Nanos) -> Step {
    let since = |time: u64| Nanos(time.saturating_sub(zero));
    let mut made: HashMap<Value, u64> = HashMap::new();
    for (slots, raw) in slots.iter().zip(raw) {
        for (slot, times) in slots.iter().zip(&raw.slots) {
            made.extend(slot.passes().filter_map(Pass::makes).map(|value| (value, times.end)));
        }
    }
    let shape = plan.schedule().shape();
    let measurement = |(slot, times): (&Slot, &RawSlot)| {
        let arrivals = slot.passes().zip(times.arrivals).filter_map(|(pass, at)| {
            let value = pass.input(shape)?;
            // What a device has only been told to make is announced before it is there; and clocks
            // of two devices agree to some microseconds, which a pass may be shorter than.
            Some((value, at?.max(*made.get(&value)?).min(times.end)))
        });
        let last = arrivals.max_by_key(|&(_, at)| at);
        let arrived = last.map(|(value, at)| (value, since(at)));
        Measurement { slot: *slot, arrived, start: since(times.start), end: since(times.end) }
    };
    let stage = |(slots, raw): (&Vec<Slot>, &&RawStep)| {
        slots.iter().zip(&raw.slots).map(measurement).collect::<Vec<_>>()
    };
    let losses = raw.iter().filter_map(|step| step.loss);
    Step {
        stages: slots.iter().zip(raw).map(stage).collect(),
        ends: raw.iter().map(|step| since(step.end)).collect(),
        loss: losses.reduce(|sum, loss| sum + loss),
        began,
    }
}
