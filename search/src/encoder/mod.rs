//! An encoder in front of a model: its layers in the bubbles of a schedule, or as a part of the chunks.
//!
//! Layers that fill bubbles are dispatched event by event; which stage has the encoder of which microbatch, and where
//! layers come before slots, is searched by simulated annealing. Every result is timed anew by
//! [`sim::encoder::EncoderReplay`].

mod bound;
mod dispatch;
mod parts;
mod walk;

use pipeline::{
    Bytes, Costs, Encoder, EncoderKind, EncoderOrder, Fault, Footprints, Limits, Nanos, Schedule,
};
use sim::encoder::{EncoderReplay, EncoderTimeline, Linked, LinkedSlot, held};

pub use self::bound::encoder_bound;
use self::dispatch::{Dispatched, Job};
pub use self::parts::{
    EncoderParts, EncoderPlace, MAX_UNITS, Placed, encoder_parts, place_encoder,
};

/// The largest number of slots and layers of a step that are searched.
pub const MAX_ENCODER_OPERATIONS: usize = 2_000_000;

/// The operations that a search of normal effort dispatches.
const OPERATIONS: usize = 12_000_000;

/// The most steps that a search of normal effort dispatches.
const STEPS: usize = 2_000;

/// A schedule, and the encoder that runs beside it.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// The order of the passes of the model, which stays as it is.
    pub schedule: &'a Schedule,
    /// Their times.
    pub costs: &'a Costs,
    /// What the chunks of the model hold.
    pub footprints: &'a Footprints,
    /// The encoder, which every stage has.
    pub encoder: &'a Encoder,
    /// The most that each stage may hold, if that is limited.
    pub limits: Option<&'a Limits>,
}

/// The best order that was found of an encoder beside a schedule.
#[derive(Clone, Debug)]
pub struct FoundEncoder {
    /// Where the encoder runs.
    pub order: EncoderOrder,
    /// The stage that has the encoder of each microbatch.
    pub stages: Vec<u16>,
    /// When everything runs.
    pub timeline: EncoderTimeline,
    /// The least that a step can take with the passes of the model in this order.
    pub bound: Nanos,
    /// The most that each stage holds.
    pub held: Vec<Bytes>,
    /// Whether that is within the limits.
    pub fits: bool,
}

/// Searches where and when the encoder runs beside a schedule, so that the step is short: `effort` times as long as
/// normal, from `seed`, until `stop`. The same on any number of threads. Without effort, the best of a few rules.
///
/// # Errors
/// Faults of [`EncoderReplay::new`], [`Fault::EncoderOperations`] for more than [`MAX_ENCODER_OPERATIONS`], and
/// [`Fault::Overflow`] if times do not fit the clock.
pub fn search_encoder(
    beside: &Beside<'_>,
    (effort, seed): (u64, u64),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<FoundEncoder, Fault> {
    let Beside { schedule, costs, encoder, .. } = *beside;
    let replay = EncoderReplay::new(schedule, costs, encoder)?;
    check_times(replay.linked(), encoder)?;
    let operations = operations(schedule, encoder);
    if operations > MAX_ENCODER_OPERATIONS {
        return Err(Fault::EncoderOperations { operations });
    }
    let job = Job::new(schedule, encoder, replay.linked());
    let bound = bound::bound_of_order(schedule, costs, encoder, replay.linked());
    let steps = (OPERATIONS / operations.max(1)).clamp(1, STEPS);
    let steps = usize::try_from(effort).unwrap_or(usize::MAX).saturating_mul(steps);
    let best = walk::Search { beside, job: &job, bound, steps, seed }.best(stop);
    let Dispatched { order, stages, .. } = best;
    // A dispatched order is complete, and nothing in it waits for what comes later.
    let timeline = replay.timeline(&order).ok_or(Fault::BehindEncoder)?;
    let (held, fits) = over(beside, &order);
    Ok(FoundEncoder { order, stages, timeline, bound, held, fits: fits == 0 })
}

/// Checks that all operations one after the other, with their transfers, end before the clock does.
fn check_times(linked: &Linked, encoder: &Encoder) -> Result<(), Fault> {
    let time = |slot: &LinkedSlot| {
        let hops = slot.needs.iter().map(|need| u128::from(need.hop)).sum::<u128>();
        u128::from(slot.duration) + hops
    };
    let slots = linked.stages.iter().flatten().map(time).sum::<u128>();
    let of_encoder = |&microbatch: &u32| {
        let of = |kind| u128::from(encoder.pass(kind, microbatch).0);
        let passes = of(EncoderKind::Forward) + of(EncoderKind::Backward);
        passes + 2 * u128::from(encoder.transfer().0)
    };
    let all = slots + linked.microbatches.iter().map(of_encoder).sum::<u128>();
    match all < u128::from(u64::MAX) {
        true => Ok(()),
        false => Err(Fault::Overflow { what: "the times" }),
    }
}

/// Slots of `schedule` and layers of `encoder` in a step.
fn operations(schedule: &Schedule, encoder: &Encoder) -> usize {
    let passes = if encoder.is_frozen() { 1 } else { 2 };
    let microbatches = schedule.shape().microbatches() as usize;
    schedule.passes() + passes * microbatches * encoder.layers() as usize
}

/// What each stage holds along `order`, and by how many bytes the worst exceeds its limit.
fn over(beside: &Beside<'_>, order: &EncoderOrder) -> (Vec<Bytes>, u64) {
    let held = held(beside.schedule, beside.footprints, beside.encoder, order);
    let over = beside.limits.map_or(0, |limits| {
        let stages = held.iter().zip(limits.by_stage());
        stages.map(|(held, limit)| held.0.saturating_sub(limit.0)).max().unwrap_or(0)
    });
    (held, over)
}

#[cfg(test)]
mod tests;
