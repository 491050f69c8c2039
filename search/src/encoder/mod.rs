//! An encoder in front of a model: its layers in the bubbles of a schedule, or as a part of the chunks.
//!
//! Layers that fill bubbles are operations of a graph, which any stage may run ([`EncoderStep`]); which stage has the
//! encoder of which microbatch, and where layers come before slots, is found by the search of graphs.

mod bound;
mod parts;

use pipeline::{Bytes, Fault, Nanos};
use sim::encoder::{Beside, EncoderStep, EncoderTimeline, ModelOrder};
use sim::graph::{Goal, Orders};

pub use self::bound::encoder_bound;
pub use self::parts::{
    EncoderParts, EncoderPlace, MAX_UNITS, Placed, encoder_parts, place_encoder,
};
use crate::side_by_side::Stop;
use crate::{GraphFound, GraphSearch, Milestone};

/// The largest number of slots and layers of a step that are searched.
pub const MAX_ENCODER_OPERATIONS: usize = 2_000_000;

/// Operations that a search of normal effort places or times.
const STEPS: u64 = 10_000_000;

/// The part of a normal search, one of so many, that is made without effort.
const SHORT: u64 = 40;

/// The best order that was found of an encoder beside a schedule.
#[derive(Clone, Debug)]
pub struct FoundEncoder {
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
    /// The best steps of the search after so many of its own steps, until this one.
    pub history: Vec<Milestone>,
}

/// Searches where and when the encoder runs beside a schedule, so that the step is short: `effort` times as long as
/// normal, from `seed`, until `stop`; then, where the order of the model is [`ModelOrder::Free`], how its passes run
/// beside it. The same on any number of threads. Without effort, a fortieth of that.
///
/// # Errors
/// Faults of [`EncoderStep::new`], and [`Fault::EncoderOperations`] for more than [`MAX_ENCODER_OPERATIONS`].
pub fn search_encoder(
    beside: &Beside<'_>,
    model: ModelOrder,
    (effort, seed): (u64, u64),
    stop: Stop<'_>,
) -> Result<FoundEncoder, Fault> {
    let operations = operations(beside);
    if operations > MAX_ENCODER_OPERATIONS {
        return Err(Fault::EncoderOperations { operations });
    }
    let kept = EncoderStep::new(beside, ModelOrder::Kept)?;
    let bound = bound::bound_of_order(beside);
    let search = GraphSearch {
        goal: Goal::Makespan,
        bound: i64::try_from(bound.0).unwrap_or(i64::MAX),
        seed,
        steps: STEPS.saturating_mul(effort).max(STEPS / SHORT),
    };
    let Some(beside_kept) = search.run(&kept.graph, &[], stop) else {
        // Nothing fits: the shortest step that does not.
        let beside = Beside { limits: None, ..*beside };
        let found = search_encoder(&beside, model, (effort, seed), stop)?;
        return Ok(FoundEncoder { fits: false, ..found });
    };
    if model == ModelOrder::Kept {
        return found(&kept, &beside_kept, bound);
    }
    let free = EncoderStep::new(beside, ModelOrder::Free)?;
    let (shape, costs) = (beside.schedule.shape(), beside.costs);
    let bound = encoder_bound(costs, beside.encoder, shape.stages(), shape.microbatches());
    let search = GraphSearch { bound: i64::try_from(bound.0).unwrap_or(i64::MAX), ..search };
    // Operations have the same numbers; groups of the model are others.
    let GraphFound { score, orders, history } = beside_kept;
    let machines = free.graph.groups().iter().zip(0..).map(|(group, at)| match group.pool {
        sim::graph::NONE => group.machine,
        _ => orders.machines[at],
    });
    let orders = Orders { machines: machines.collect(), operations: orders.operations };
    let beside_free = search.run(&free.graph, std::slice::from_ref(&orders), stop);
    let start = GraphFound { score, orders, history };
    found(&free, &beside_free.unwrap_or(start), bound)
}

fn found(step: &EncoderStep, found: &GraphFound, bound: Nanos) -> Result<FoundEncoder, Fault> {
    let orders = &found.orders;
    // Orders were timed when they were found.
    let timeline = step.timeline(orders).ok_or(Fault::BehindEncoder)?;
    let (stages, held) = (step.stages(orders), step.held(orders));
    let history = found.milestones(bound, Nanos(0));
    Ok(FoundEncoder { stages, timeline, bound, held, fits: true, history })
}

/// Slots of the schedule and layers of the encoder in a step.
fn operations(beside: &Beside<'_>) -> usize {
    let passes = if beside.encoder.is_frozen() { 1 } else { 2 };
    let microbatches = beside.schedule.shape().microbatches() as usize;
    beside.schedule.passes() + passes * microbatches * beside.encoder.layers() as usize
}

#[cfg(test)]
mod tests;
