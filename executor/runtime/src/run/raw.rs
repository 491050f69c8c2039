//! Measurements of stages, and their assembly into those of the run.

use std::collections::HashMap;

use pipeline::{Bytes, Measurement, Nanos, Pass, Slot, Step, Value};

use super::plan::Plan;
use crate::measured::{HostBound, Measured, MeasuredCopy};

/// Times of a slot, in nanoseconds since the epoch of the run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RawSlot {
    /// Earliest arrival of the input of each of its passes from another stage: no earlier than it
    /// was made, a time that only its maker knows.
    pub(crate) arrivals: [Option<u64>; 2],
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When the host had launched all kernels of each of its passes. Not part of a report.
    pub(crate) launched: [u64; 2],
}

/// One step of one stage.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct RawStep {
    pub(crate) slots: Vec<RawSlot>,
    /// Start and end of each copy to the host or back, stream by stream.
    pub(crate) copies: Vec<[u64; 2]>,
    pub(crate) end: u64,
    pub(crate) loss: Option<f64>,
    /// The losses of its updates, where weights change while the pipeline runs and the stage has
    /// the head.
    pub(crate) losses: Vec<f64>,
}

#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct RawStage {
    /// The steps measured.
    pub(crate) steps: Vec<RawStep>,
    /// Steps, warm-up included, whose optimistic update was wrong.
    pub(crate) rollbacks: u32,
    /// Steps whose update was skipped.
    pub(crate) skipped: u32,
    /// Allocations in the measured steps.
    pub(crate) allocations: u64,
    /// Peak of activation bytes in a measured step, if anything was computed.
    pub(crate) peak: Option<u64>,
    /// Host-bound passes of the measured steps, where the device runs ahead of the host.
    pub(crate) host_bound: Option<HostBound>,
}

/// Assembles the measurements of all stages: the steps that every stage has completed.
pub(crate) fn measured(plan: &Plan, stages: &[RawStage]) -> Measured {
    let slots: Vec<Vec<Slot>> = (0..stages.len()).map(|stage| plan.slots(stage)).collect();
    let mut begun = None;
    let mut copies = Vec::new();
    let whole = stages.iter().map(|stage| stage.steps.len()).min().unwrap_or(0);
    let steps = (0..whole).map(|number| {
        let raw: Vec<&RawStep> =
            stages.iter().filter_map(|stage| stage.steps.get(number)).collect();
        let zero = raw.iter().filter_map(|step| step.slots.first()).map(|slot| slot.start).min();
        let zero = zero.unwrap_or(0);
        let began = Nanos(zero.saturating_sub(*begun.get_or_insert(zero)));
        copies.push(copies_of(plan, &raw, zero));
        step(plan, &slots, &raw, zero, began)
    });
    let steps = steps.collect();
    let peaks: Option<Vec<Bytes>> = stages.iter().map(|stage| stage.peak.map(Bytes)).collect();
    let host_bound: Option<Vec<HostBound>> = stages.iter().map(|stage| stage.host_bound).collect();
    Measured {
        steps,
        copies,
        peaks: peaks.unwrap_or_default(),
        rollbacks: stages.first().map_or(0, |stage| stage.rollbacks),
        skipped: stages.first().map_or(0, |stage| stage.skipped),
        allocations: stages.iter().map(|stage| stage.allocations).sum(),
        host_bound: host_bound.unwrap_or_default(),
        losses: stages
            .iter()
            .flat_map(|stage| stage.steps.iter().take(whole))
            .flat_map(|step| &step.losses)
            .copied()
            .collect(),
    }
}

/// The copies of a step that began at `zero`, by stage and stream.
fn copies_of(plan: &Plan, raw: &[&RawStep], zero: u64) -> Vec<MeasuredCopy> {
    let of_stage = |(stage, step): (usize, &&RawStep)| {
        let copies = plan.copies(stage).streams.iter().flatten();
        let since = |time: u64| Nanos(time.saturating_sub(zero));
        let timed = copies.zip(&step.copies).map(|(turn, &[start, end])| MeasuredCopy {
            stage,
            op: turn.op,
            start: since(start),
            end: since(end),
        });
        timed.collect::<Vec<_>>()
    };
    raw.iter().enumerate().flat_map(of_stage).collect()
}

fn step(plan: &Plan, slots: &[Vec<Slot>], raw: &[&RawStep], zero: u64, began: Nanos) -> Step {
    let since = |time: u64| Nanos(time.saturating_sub(zero));
    let mut made: HashMap<Value, u64> = HashMap::new();
    for (slots, raw) in slots.iter().zip(raw) {
        for (slot, times) in slots.iter().zip(&raw.slots) {
            for value in slot.passes().filter_map(Pass::makes) {
                // A collective value is made when the last stage has made its part.
                let made = made.entry(value).or_default();
                *made = times.end.max(*made);
            }
        }
    }
    let shape = plan.schedule().shape();
    let measurement = |(slot, times): (&Slot, &RawSlot)| {
        let arrivals = slot.passes().zip(times.arrivals).filter_map(|(pass, at)| {
            let value = pass.input(shape)?;
            // The host sends an enqueued value before the device has made it; and the clocks of two
            // devices agree only to some microseconds, which a pass may be shorter than.
            let there = *made.get(&value)? + plan.delay(value).0;
            Some((value, at?.max(there).min(times.end)))
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
