//! Merges the traces that `torch.profiler` wrote of each rank: assigns stages to ranks, and steps to passes.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Kind, Nanos, Pass};

use crate::error::TraceError;
use crate::lack::Lack;
use crate::operation::{OpType, Operation};
use crate::torch::{Action, Rank};

/// A rank with its passes by start.
struct Seen {
    first_step: u64,
    passes: Vec<Action>,
    /// Host work between passes: step, start and end.
    between: Vec<(u64, Nanos, Nanos)>,
    /// Chunks that it holds, ascending.
    chunks: Vec<u16>,
}

/// The operations of all `ranks`, and the information that they lack.
///
/// Ranks that hold the same chunks are data-parallel to each other; stages are in the order of the
/// first chunk that they hold. The n-th time that a rank does a pass is its n-th step.
pub(crate) fn operations(mut ranks: Vec<Rank>) -> Result<(Vec<Operation>, Vec<Lack>), TraceError> {
    let mut lacks = Vec::new();
    ranks.sort_by_key(|rank| rank.number);
    let numbers = ranks.iter().filter_map(|rank| rank.number);
    let mut known = BTreeSet::new();
    if let Some(rank) = numbers.clone().find(|number| !known.insert(*number)) {
        return Err(TraceError::RankTwice { rank });
    }
    let world = ranks.iter().filter_map(|rank| rank.world).max();
    let missing = missing_ranks(world, &known);
    if !ranks.iter().all(Rank::has_arrivals) && ranks.len() > 1 {
        lacks.push(Lack::Arrivals);
    }
    let given = ranks.len();
    let unnamed = ranks.iter().any(|rank| !rank.names_stages());
    if unnamed {
        lacks.push(Lack::Stages);
    }
    // Whoever waits for a gradient is not the last.
    let later: BTreeSet<u16> = ranks.iter().flat_map(Rank::with_gradients).collect();
    let seen: Vec<Seen> = (0u32..).zip(ranks).map(|(at, rank)| see(at, rank)).collect();
    let stages: BTreeSet<Vec<u16>> = seen.iter().map(|rank| rank.chunks.clone()).collect();
    let held: BTreeSet<u16> = stages.iter().flatten().copied().collect();
    let is_whole = held.last().is_some_and(|last| usize::from(*last) + 1 == held.len())
        && !held.last().is_some_and(|last| later.contains(last));
    if let Some(world) = world.filter(|_| !missing.is_empty()) {
        if !is_whole || unnamed {
            return Err(TraceError::RanksMissing { missing, given, world });
        }
        lacks.push(Lack::Ranks { given, world });
    }
    let stages: Vec<Vec<u16>> = stages.into_iter().collect();
    let mut operations = Vec::new();
    let mut peers: BTreeMap<usize, u32> = BTreeMap::new();
    for rank in seen {
        let stage = stages.iter().position(|chunks| *chunks == rank.chunks).unwrap_or_default();
        let dp_rank = peers.entry(stage).or_default();
        add(&rank, u16::try_from(stage).unwrap_or(u16::MAX), *dp_rank, &mut operations);
        *dp_rank += 1;
    }
    begin_when_made(&mut operations);
    Ok((operations, lacks))
}

/// The first of the ranks of a run of `world` that are not among `known`.
pub(crate) fn missing_ranks(world: Option<u32>, known: &BTreeSet<u32>) -> Vec<u32> {
    let missing = world.map(|world| (0..world).filter(|one| !known.contains(one)).take(8));
    missing.into_iter().flatten().collect()
}

fn see(at: u32, mut rank: Rank) -> Seen {
    let number = rank.number.unwrap_or(at);
    let first_step = rank.first_step();
    let between = rank.between();
    let mut passes = rank.passes();
    // Who names no stages has one for each rank.
    let own = u16::try_from(number).unwrap_or(u16::MAX);
    passes.iter_mut().for_each(|one| one.chunk = Some(one.chunk.unwrap_or(own)));
    let chunks: BTreeSet<u16> = passes.iter().filter_map(|one| one.chunk).collect();
    Seen { first_step, passes, between, chunks: chunks.into_iter().collect() }
}

/// Adds the operations of `rank`, which is `stage` of `dp_rank`.
fn add(rank: &Seen, stage: u16, dp_rank: u32, operations: &mut Vec<Operation>) {
    let mut push = |step, optype, (chunk, microbatch), start, end: Nanos| {
        let duration = end - start;
        operations.push(Operation {
            step,
            dp_rank,
            stage,
            optype,
            chunk,
            microbatch,
            start,
            duration,
        });
    };
    let mut times: BTreeMap<Pass, u64> = BTreeMap::new();
    for one in &rank.passes {
        let chunk = one.chunk.unwrap_or_default();
        let Action { kind, microbatch, start, end, .. } = *one;
        let step = times.entry(Pass { kind, chunk, microbatch }).or_insert(rank.first_step);
        let step = std::mem::replace(step, *step + 1);
        push(step, OpType::Pass(kind), (chunk, microbatch), start, end);
    }
    let last = times.into_values().max().unwrap_or(0);
    let steps = rank.first_step..last;
    for &(step, start, end) in rank.between.iter().filter(|one| steps.contains(&one.0)) {
        push(step, OpType::Host, (0, 0), start, end);
    }
}

/// Lets no pass begin before what it needs was made: it waited for that within its own time.
pub(crate) fn begin_when_made(operations: &mut [Operation]) {
    let last = operations.iter().map(|one| one.chunk).max().unwrap_or(0);
    let mut made: BTreeMap<(u64, u32, bool, u16, u32), Nanos> = BTreeMap::new();
    let key = |one: &Operation, forward: bool, chunk: u16| {
        (one.step, one.dp_rank, forward, chunk, one.microbatch)
    };
    for one in operations.iter() {
        if let OpType::Pass(kind @ (Kind::F | Kind::B | Kind::BW)) = one.optype {
            made.insert(key(one, kind == Kind::F, one.chunk), one.end());
        }
    }
    for one in operations {
        let needed = match one.optype {
            OpType::Pass(Kind::F) => one.chunk.checked_sub(1).map(|chunk| key(one, true, chunk)),
            OpType::Pass(Kind::B | Kind::BW) if one.chunk < last => {
                Some(key(one, false, one.chunk + 1))
            }
            _ => None,
        };
        let end = one.end();
        // A value made after the end shows a clock offset between hosts, which is reported elsewhere.
        let made = needed.and_then(|needed| made.get(&needed)).filter(|made| **made <= end);
        if let Some(made) = made {
            one.start = one.start.max(*made);
            one.duration = end - one.start;
        }
    }
}
