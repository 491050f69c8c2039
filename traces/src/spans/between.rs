//! What a rank does between its passes: Megatron-core sends and receives there, in calls that end before the next
//! pass begins.

use std::collections::BTreeMap;

use pipeline::{Kind, Nanos};

use crate::operation::{OpType, Operation};

/// Chunk and microbatch of a value, and whether it is an output.
type Made = (u64, u32, bool, u16, u32);

/// Adds the time between two operations of a rank as work of its own, but for passes that waited for a value: how
/// long its transfer took is not known then.
pub(super) fn add(operations: &mut Vec<Operation>) {
    operations.sort_by_key(|one| (one.step, one.dp_rank, one.stage, one.start, one.end()));
    let last = operations.iter().map(|one| one.chunk).max().unwrap_or(0);
    let key = |one: &Operation, is_output, chunk| -> Made {
        (one.step, one.dp_rank, is_output, chunk, one.microbatch)
    };
    let mut made: BTreeMap<Made, Nanos> = BTreeMap::new();
    for one in operations.iter() {
        if let OpType::Pass(kind) = one.optype {
            made.insert(key(one, kind == Kind::F, one.chunk), one.end());
        }
    }
    let needed = |one: &Operation| match one.optype {
        OpType::Pass(Kind::F) => Some(key(one, true, one.chunk.checked_sub(1)?)),
        OpType::Pass(_) if one.chunk < last => Some(key(one, false, one.chunk + 1)),
        _ => None,
    };
    let work = |two: &[Operation]| {
        let (before, next) = (&two[0], &two[1]);
        let rank = |one: &Operation| (one.step, one.dp_rank, one.stage);
        let start = before.end();
        let waited = needed(next).and_then(|value| made.get(&value)).is_some_and(|at| *at > start);
        let duration = Nanos(next.start.0.saturating_sub(start.0));
        let is_work = rank(before) == rank(next) && !waited && duration.0 > 0;
        is_work.then_some(Operation { optype: OpType::Host, start, duration, ..*before })
    };
    let more: Vec<Operation> = operations.windows(2).filter_map(work).collect();
    operations.extend(more);
}
