//! Merges ranks: which of them are the stages of a pipeline, and the operations of all.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Kind, Nanos};

use super::chain::{self, Ends, Place};
use super::passes::Pass;
use super::rank::Rank;
use super::{Observed, Span, steps};
use crate::error::{NotInferred, TraceError};
use crate::lack::Lack;
use crate::operation::{OpType, Operation};
use crate::torch_ranks::{begin_when_made, missing_ranks};

/// The operations of all ranks, and the information that they lack.
pub(crate) fn operations(
    observed: Vec<Observed>,
) -> Result<(Vec<Operation>, Vec<Lack>), TraceError> {
    let world = observed.iter().filter_map(|one| one.origin.world).max();
    let ranks = (0u32..).zip(observed).map(|(at, one)| Rank::of(one, at));
    let mut ranks = ranks.collect::<Result<Vec<Rank>, _>>().map_err(TraceError::Unnamed)?;
    ranks.sort_by_key(|rank| rank.number);
    let numbers: BTreeSet<u32> = ranks.iter().map(|rank| rank.number).collect();
    if numbers.len() < ranks.len() {
        let twice = ranks.windows(2).find(|two| two[0].number == two[1].number);
        return Err(TraceError::RankTwice { rank: twice.map_or(0, |two| two[0].number) });
    }
    let mut lacks = vec![Lack::Names];
    let given = ranks.len();
    let missing = missing_ranks(world, &numbers);
    let lost = |why| match world.filter(|_| !missing.is_empty()) {
        Some(world) => TraceError::RanksMissing { missing: missing.clone(), given, world },
        None => TraceError::Unnamed(why),
    };
    let knows_peers = ranks.iter().any(|rank| rank.next.is_some() || rank.previous.is_some());
    let pipelines = match knows_peers {
        true => by_peers(&ranks).map_err(lost)?,
        false if missing.is_empty() => {
            lacks.push(Lack::Stages);
            vec![by_number(&ranks).map_err(TraceError::Unnamed)?]
        }
        false => return Err(lost(NotInferred::Ranks)),
    };
    if let Some(world) = world.filter(|_| !missing.is_empty()) {
        lacks.push(Lack::Ranks { given, world });
    }
    let mut operations = Vec::new();
    for (dp_rank, pipeline) in (0u32..).zip(&pipelines) {
        let cut = add(dp_rank, pipeline, &mut operations).map_err(TraceError::Unnamed)?;
        lacks.extend(cut.filter(|cut| !lacks.contains(cut)));
    }
    begin_when_made(&mut operations);
    Ok((operations, lacks))
}

/// The pipelines that the peers of messages make of `ranks`: from each that only ends gradients to the
/// one that only ends outputs.
fn by_peers(ranks: &[Rank]) -> Result<Vec<Vec<&Rank>>, NotInferred> {
    let numbered: BTreeMap<u32, &Rank> = ranks.iter().map(|rank| (rank.number, rank)).collect();
    let mut used: BTreeSet<u32> = BTreeSet::new();
    let mut pipelines: Vec<Vec<&Rank>> = Vec::new();
    for first in ranks.iter().filter(|rank| rank.ends(false)) {
        let mut pipeline = Vec::new();
        let mut rank = first;
        loop {
            if !used.insert(rank.number) {
                return Err(NotInferred::Ranks);
            }
            pipeline.push(rank);
            if rank.ends(true) {
                break;
            }
            let next = rank.next.and_then(|next| numbered.get(&next)).ok_or(NotInferred::Ranks)?;
            if next.previous.is_some_and(|previous| previous != rank.number) {
                return Err(NotInferred::Ranks);
            }
            rank = next;
        }
        pipelines.push(pipeline);
    }
    let stages = pipelines.first().map_or(0, Vec::len);
    let is_alike = pipelines.iter().all(|one| one.len() == stages) && stages > 1;
    if is_alike && used.len() == ranks.len() { Ok(pipelines) } else { Err(NotInferred::Ranks) }
}

/// The pipeline that `ranks` are in the order of their numbers.
fn by_number(ranks: &[Rank]) -> Result<Vec<&Rank>, NotInferred> {
    let last = ranks.len().saturating_sub(1);
    let fits = |(at, rank): (usize, &Rank)| {
        rank.ends(false) == (at == 0) && rank.ends(true) == (at == last)
    };
    let is_one = last > 0 && ranks.iter().enumerate().all(fits);
    if is_one { Ok(ranks.iter().collect()) } else { Err(NotInferred::Ranks) }
}

/// The passes of one rank in one step.
#[derive(Default)]
struct OfStep<'r> {
    /// The forward passes, as the rank numbers them.
    forwards: Vec<usize>,
    passes: Vec<&'r (Pass, Span)>,
}

/// Adds the operations of a pipeline, whose stages are `ranks` in order.
fn add(
    dp_rank: u32,
    ranks: &[&Rank],
    operations: &mut Vec<Operation>,
) -> Result<Option<Lack>, NotInferred> {
    let (steps, cut) = steps::of(ranks)?;
    let ends: Vec<Vec<Ends>> = ranks.iter().map(|rank| rank.forwards()).collect();
    for (step, of_ranks) in by_step(ranks, &steps) {
        let places = places(&of_ranks, &ends).ok_or(NotInferred::Chain { step })?;
        for (stage, ((one, places), rank)) in (0u16..).zip(of_ranks.iter().zip(&places).zip(ranks))
        {
            for (pass, span) in &one.passes {
                let Some(&(chunk, microbatch)) = places.get(&pass.forward) else { continue };
                let operation = |optype, chunk, microbatch, Span { start, end }| {
                    let duration = end - start;
                    let start = Nanos(start.0.saturating_add(rank.base));
                    Operation { step, dp_rank, stage, optype, chunk, microbatch, start, duration }
                };
                operations.push(operation(OpType::Pass(pass.kind), chunk, microbatch, *span));
                if !rank.on_device && pass.posts_until > span.end {
                    let posts = Span { start: span.end, end: pass.posts_until };
                    operations.push(operation(OpType::Host, 0, 0, posts));
                }
            }
        }
    }
    Ok(cut)
}

/// The passes of each step, by rank. `steps` are those of the forward passes of each.
fn by_step<'r>(ranks: &[&'r Rank], steps: &[Vec<Option<u64>>]) -> BTreeMap<u64, Vec<OfStep<'r>>> {
    let mut by_step: BTreeMap<u64, Vec<OfStep<'r>>> = BTreeMap::new();
    for (at, (rank, steps)) in ranks.iter().zip(steps).enumerate() {
        for timed in &rank.passes {
            let forward = timed.0.forward;
            let Some(step) = steps.get(forward).copied().flatten() else { continue };
            let of_ranks = by_step.entry(step).or_default();
            of_ranks.resize_with(ranks.len(), OfStep::default);
            if timed.0.kind == Kind::F {
                of_ranks[at].forwards.push(forward);
            }
            of_ranks[at].passes.push(timed);
        }
    }
    by_step
}

/// The places of the forward passes of each rank in a step, if outputs and gradients agree on them.
fn places(of_ranks: &[OfStep<'_>], ends: &[Vec<Ends>]) -> Option<Vec<BTreeMap<usize, Place>>> {
    let own = |(one, ends): (&OfStep<'_>, &Vec<Ends>)| {
        one.forwards.iter().map(|at| ends[*at]).collect::<Vec<Ends>>()
    };
    let own: Vec<Vec<Ends>> = of_ranks.iter().zip(ends).map(own).collect();
    let numbered = of_ranks.iter().zip(chain::places(&own)?);
    let places: Vec<BTreeMap<usize, Place>> =
        numbered.map(|(one, places)| one.forwards.iter().copied().zip(places).collect()).collect();
    let parts = of_ranks.iter().zip(&places).zip(ends);
    let backwards: Vec<_> =
        parts.map(|((one, places), ends)| backwards(one, places, ends)).collect();
    chain::gradients_agree(&backwards).then_some(places)
}

/// The places of the backward passes of a rank in order, and whether gradients come and go.
fn backwards(
    of_step: &OfStep<'_>,
    places: &BTreeMap<usize, Place>,
    ends: &[Ends],
) -> Vec<(Place, Ends)> {
    let passes = of_step.passes.iter().map(|(pass, _)| pass);
    let passes = passes.filter(|pass| matches!(pass.kind, Kind::B | Kind::BW));
    let place = |pass: &Pass| {
        let receives = ends[pass.forward].sends;
        Some((*places.get(&pass.forward)?, Ends { receives, sends: pass.sends }))
    };
    passes.filter_map(place).collect()
}
