//! Infers the dependencies between the operations of a rank, and of collectives between ranks.

use std::collections::BTreeMap;
use std::ops::Range;

use pipeline::Shape;

use crate::dependency::{ALONE, Meeting, Parts, Wait, Waits};
use crate::error::TraceError;
use crate::operation::{Direction, OpType, Operation, Side};

/// The most operations that a rank has under way at once.
const CROWD: usize = 64;

/// Whether `first` was over when `second` started, but for what clocks and rounding do: an overlap
/// of at most a quarter of the shorter one.
pub(crate) fn was_over(first: &Operation, second: &Operation) -> bool {
    let slack = first.duration.0.min(second.duration.0) / 4;
    first.end().0 <= second.start.0.saturating_add(slack)
}

/// Whether two passes share their rank from start to end.
pub(crate) fn together(first: &Operation, second: &Operation) -> bool {
    let times = |one: &Operation| (one.start, one.duration);
    let passes = first.pass().is_some() && second.pass().is_some();
    passes && times(first) == times(second) && first.duration.0 > 0
}

/// Adds the waits within a rank: its operations start in the order in which they started in the
/// trace, and each waits for all that were over by then. The two sides of a transfer that a rank
/// posted at once do not wait for each other.
pub(crate) fn wait_in_rank(
    operations: &[Operation],
    rank: Range<usize>,
    waits: &mut Waits,
) -> Result<(), TraceError> {
    let begin = rank.start;
    let mut under_way: Vec<usize> = Vec::new();
    for at in rank {
        let one = &operations[at];
        let Operation { step, dp_rank, stage, .. } = *one;
        let place = |at: usize| u32::try_from(at).unwrap_or(ALONE);
        let mut wait = |on: usize, start_is_enough| {
            waits.push((place(at), Wait { on: place(on), start_is_enough, edge: ALONE }));
        };
        if at > begin {
            wait(at - 1, !was_over(&operations[at - 1], one));
        }
        under_way.retain(|&other| {
            let over = was_over(&operations[other], one);
            if over && other + 1 < at {
                wait(other, false);
            }
            !over
        });
        let is_pass = |other: &&usize| one.pass().is_some() && operations[**other].pass().is_some();
        let mut passes = under_way.iter().filter(is_pass);
        if let Some(&other) = passes.find(|&&other| !together(&operations[other], one)) {
            let (first, second) = (operations[other].to_string(), one.to_string());
            return Err(TraceError::Overlap { step, dp_rank, stage, first, second });
        }
        if under_way.len() >= CROWD {
            return Err(TraceError::Crowd { step, dp_rank, stage, limit: CROWD });
        }
        under_way.push(at);
    }
    Ok(())
}

/// The operations of several ranks that are one collective: the same number of the same operation.
type Key = (OpType, u32, u32, u32);

/// The meeting of each operation, all meetings, and their members.
pub(crate) type Meetings = (Vec<u32>, Vec<Meeting>, Vec<u32>);

pub(crate) fn meetings(parts: &Parts<'_>) -> Result<Meetings, TraceError> {
    let mut keys: Vec<(Key, u32)> = Vec::new();
    for (number, rank) in parts.ranks.iter().enumerate() {
        let pipeline = u32::try_from(number / parts.shape.stages()).unwrap_or(ALONE);
        let mut counts: BTreeMap<OpType, u32> = BTreeMap::new();
        for at in rank.clone() {
            let one = &parts.operations[at];
            let Some((optype, a, b)) = meets(one, pipeline, parts.shape) else { continue };
            let count = counts.entry(one.optype).or_default();
            keys.push(((optype, a, b, *count), u32::try_from(at).unwrap_or(ALONE)));
            *count += 1;
        }
    }
    keys.sort_unstable();
    let mut meeting = vec![ALONE; parts.operations.len()];
    let mut meetings = Vec::new();
    let mut first = 0;
    for members in keys.chunk_by(|one, other| one.0 == other.0) {
        let (key, at) = members[0];
        if matches!(key.0, OpType::Transfer(..)) && members.len() != 2 {
            let Operation { step, dp_rank, stage, optype, .. } = parts.operations[at as usize];
            let (optype, number) = (optype.name(), key.3);
            return Err(TraceError::Unmatched { step, dp_rank, stage, optype, number });
        }
        let number = u32::try_from(meetings.len()).unwrap_or(ALONE);
        members.iter().for_each(|&(_, at)| meeting[at as usize] = number);
        let count = u32::try_from(members.len()).unwrap_or(ALONE);
        meetings.push(Meeting { first, count, last: at });
        first += count;
    }
    Ok((meeting, meetings, keys.into_iter().map(|(_, at)| at).collect()))
}

/// Key of the collective to which `one` belongs; its members share it. `None` if it needs no other rank.
fn meets(one: &Operation, pipeline: u32, shape: Shape) -> Option<(OpType, u32, u32)> {
    let (stage, stages) = (u32::from(one.stage), u32::try_from(shape.stages()).unwrap_or(1));
    match one.optype {
        OpType::Transfer(direction, side) => {
            let sender = match (direction, side) {
                (_, Side::Send) => stage,
                (Direction::Forward, Side::Recv) => (stage + stages - 1) % stages,
                (Direction::Backward, Side::Recv) => (stage + 1) % stages,
            };
            Some((OpType::Transfer(direction, Side::Send), pipeline, sender))
        }
        OpType::ParamsAllGather | OpType::GradsReduceScatter => Some((one.optype, stage, 0)),
        OpType::EmbeddingAllReduce => Some((one.optype, pipeline, 0)),
        OpType::ClipGradients => Some((one.optype, 0, 0)),
        OpType::Pass(_)
        | OpType::LayernormAllReduce
        | OpType::Optimizer
        | OpType::GarbageCollection
        | OpType::Host => None,
    }
}
