//! Finds out from a trace who waited for whom: on a rank, for a value, and for others to join.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pipeline::{Shape, Value};

use crate::error::TraceError;
use crate::graph::{ALONE, Meeting, Parts, Wait, Waits};
use crate::operation::{Direction, OpType, Operation, Side};

/// The most operations that a rank has under way at once.
const CROWD: usize = 64;

/// Whether `first` was over when `second` started, but for what clocks and rounding do: an overlap
/// of at most a quarter of the shorter one.
fn was_over(first: &Operation, second: &Operation) -> bool {
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
            waits.push((place(at), Wait { on: place(on), start_is_enough, hop: 0 }));
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

/// The value that `user` needs comes from `maker`.
struct Need {
    user: usize,
    maker: usize,
    link: Link,
}

/// Between which stages, and which way.
type Link = (u16, u16, Direction);

/// Passes wait for the values they need. On a link whose transfers are not in the trace, a hop
/// takes the shortest time seen between the end of a maker and the start of its user.
pub(crate) fn wait_for_values(parts: &Parts<'_>, waits: &mut Waits) -> Result<(), TraceError> {
    let operations = parts.operations;
    let needs = needs(parts);
    let mut hops: BTreeMap<Link, u64> = BTreeMap::new();
    for &Need { user, maker, link } in &needs {
        let (maker, user) = (&operations[maker], &operations[user]);
        if user.end() <= maker.start && maker.duration.0 > 0 {
            let Operation { step, dp_rank, .. } = *user;
            let (user, maker) = (user.to_string(), maker.to_string());
            return Err(TraceError::Backwards { step, dp_rank, user, maker });
        }
        let gap = user.start.0.saturating_sub(maker.end().0);
        hops.entry(link).and_modify(|hop| *hop = gap.min(*hop)).or_insert(gap);
    }
    let sends = operations.iter().filter_map(|one| match one.optype {
        OpType::Transfer(direction, Side::Send) => Some((one.stage, direction)),
        _ => None,
    });
    let recorded: BTreeSet<_> = sends.collect();
    let place = |at: usize| u32::try_from(at).unwrap_or(ALONE);
    for &Need { user, maker, link } in &needs {
        let (from, to, direction) = link;
        let free = from == to || recorded.contains(&(from, direction));
        let hop = if free { 0 } else { hops[&link] };
        let wait = Wait { on: place(maker), start_is_enough: false, hop };
        waits.push((place(user), wait));
        // The first of two passes that share a rank waits for what the second needs.
        if user > 0 && together(&operations[user - 1], &operations[user]) {
            waits.push((place(user - 1), wait));
        }
    }
    Ok(())
}

/// Every value that a pass needs, but for what its own rank made just before.
fn needs(parts: &Parts<'_>) -> Vec<Need> {
    let (shape, placement) = (parts.shape, parts.placement);
    let mut made = vec![0usize; shape.value_cells()];
    let mut needs = Vec::new();
    // A pipeline is as many ranks as it has stages, one after the other.
    for ranks in parts.ranks.chunks(shape.stages()) {
        let places = || ranks.iter().cloned().flatten();
        let passes = || places().filter_map(|at| Some((at, parts.operations[at].pass()?)));
        for (at, pass) in passes() {
            pass.makes().into_iter().for_each(|value| made[shape.value_cell(value)] = at);
        }
        for (user, pass) in passes() {
            for value in pass.needs(shape) {
                let direction = match value {
                    Value::Output { .. } => Direction::Forward,
                    Value::Gradient { .. } => Direction::Backward,
                    // A trace has no passes of a vocabulary in shards.
                    Value::Statistics { .. } | Value::HiddenGradient { .. } => continue,
                };
                let Some(home) = placement.maker(shape, value) else { continue };
                let from = u16::try_from(home).unwrap_or(u16::MAX);
                let to = parts.operations[user].stage;
                if from != to {
                    needs.push(Need {
                        user,
                        maker: made[shape.value_cell(value)],
                        link: (from, to, direction),
                    });
                }
            }
        }
    }
    needs
}

/// Which operations are one thing done by several ranks: the same number of the same operation.
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

/// Who takes part in `one`: those with the same answer. `None` if it needs no other rank.
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
        | OpType::GarbageCollection => None,
    }
}
