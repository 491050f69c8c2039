//! The law that every schedule and every prediction obeys, written down a second time, from the
//! definition: every pass once, on its stage, after all it needs, and not later than that.

use std::collections::HashMap;

use pipeline::{
    Bytes, Costs, Family, Fault, Footprints, Kind, Limit, LimitUse, Limits, Memory, Metrics, Nanos,
    Order, Pass, Placement, Problem, Schedule, Shape, Timeline, Vocabulary, peak_in_flight,
};
use proptest::prelude::*;
use sim::Replay;

use crate::draw;

/// The stage of a chunk, from the words of the definition.
fn home(schedule: &Schedule, chunk: usize, microbatch: usize) -> usize {
    let shape = schedule.shape();
    let (p, m) = (shape.stages(), shape.microbatches() as usize);
    match schedule.placement() {
        Placement::Looped => chunk % p,
        Placement::Vee if (chunk / p).is_multiple_of(2) => chunk % p,
        Placement::Mirrored if microbatch < m.div_ceil(2) => chunk % p,
        Placement::Vee | Placement::Mirrored => p - 1 - chunk % p,
    }
}

/// When something ended, by chunk and microbatch.
type Ends = HashMap<(usize, usize), u64>;

/// When each forward, input gradient and weight gradient ended, each S and T by its shard, and each R.
/// Asserts that each is done once, on its stage.
fn ends(schedule: &Schedule, timeline: &Timeline) -> [Ends; 6] {
    let mut ends: [Ends; 6] = std::array::from_fn(|_| Ends::new());
    for (stage, spans) in timeline.stages.iter().enumerate() {
        for span in spans {
            for pass in span.slot.passes() {
                let cell = (usize::from(pass.chunk), pass.microbatch as usize);
                let home = match pass.kind {
                    Kind::S | Kind::T => cell.0,
                    _ => home(schedule, cell.0, cell.1),
                };
                assert_eq!(home, stage, "{pass}");
                let parts: &[usize] = match pass.kind {
                    Kind::S => &[3],
                    Kind::T => &[4],
                    Kind::F => &[0],
                    Kind::B => &[1],
                    Kind::W => &[2],
                    Kind::BW => &[1, 2],
                    Kind::R => &[5],
                };
                for &part in parts {
                    let before = ends[part].insert(cell, span.end.0);
                    assert_eq!(before, None, "{pass} is done twice");
                }
            }
        }
    }
    let shape = schedule.shape();
    let cells = usize::from(shape.chunks()) * shape.microbatches() as usize;
    assert!(ends[..3].iter().all(|part| part.len() == cells), "every cell has F, B and W");
    let shards = match shape.vocabulary() {
        Vocabulary::Whole => 0,
        _ => shape.stages() * shape.microbatches() as usize,
    };
    assert!(ends[3..5].iter().all(|part| part.len() == shards), "every shard has S and T");
    let again = (0..shape.chunks()).filter(|&chunk| schedule.recomputes(chunk)).count();
    assert_eq!(ends[5].len(), again * shape.microbatches() as usize, "every such chunk has R");
    ends
}

/// When all that `pass` needs is there, and how long it takes.
fn needs(schedule: &Schedule, costs: &Costs, ends: &[Ends; 6], pass: Pass) -> (u64, u64) {
    let [forward_ends, backward_ends, _, s_ends, t_ends, r_ends] = ends;
    if matches!(pass.kind, Kind::S | Kind::T) {
        return shard_needs(schedule, costs, ends, pass);
    }
    let (c, i) = (usize::from(pass.chunk), pass.microbatch as usize);
    let here = home(schedule, c, i);
    let from = |ends: &Ends, chunk: usize| {
        let hop = costs.hops().between(home(schedule, chunk, i), here).0;
        ends[&(chunk, i)] + hop
    };
    let times = costs.chunks()[c];
    let (f, b, w) = (times.forward.0, times.backward_input.0, times.backward_weight.0);
    let backward = || {
        let last = c + 1 == usize::from(schedule.shape().chunks());
        let gradient = match schedule.shape().vocabulary() {
            _ if !last => from(backward_ends, c + 1),
            Vocabulary::Whole => 0,
            Vocabulary::TwoBarriers => {
                all(schedule, t_ends, i) + costs.collectives().hidden_gradient.0
            }
            Vocabulary::OneBarrier => all(schedule, s_ends, i) + costs.collectives().statistics.0,
        };
        let again = r_ends.get(&(c, i)).copied().unwrap_or(0);
        gradient.max(from(forward_ends, c)).max(again)
    };
    match pass.kind {
        Kind::F if c == 0 => (0, f),
        Kind::F => (from(forward_ends, c - 1), f),
        Kind::B => (backward(), b),
        Kind::BW => (backward(), b + w),
        Kind::W => (from(backward_ends, c), w),
        Kind::R => (from(forward_ends, c), costs.recompute(pass.chunk).map_or(f, |time| time.0)),
        Kind::S | Kind::T => unreachable!(),
    }
}

/// The end of the last of all stages.
fn all(schedule: &Schedule, ends: &Ends, microbatch: usize) -> u64 {
    (0..schedule.shape().stages()).map(|shard| ends[&(shard, microbatch)]).max().unwrap()
}

fn shard_needs(schedule: &Schedule, costs: &Costs, ends: &[Ends; 6], pass: Pass) -> (u64, u64) {
    let (shard, i) = (usize::from(pass.chunk), pass.microbatch as usize);
    let times = costs.shards()[shard];
    if pass.kind == Kind::T {
        return (all(schedule, &ends[3], i) + costs.collectives().statistics.0, times.after.0);
    }
    let last = usize::from(schedule.shape().chunks()) - 1;
    let here = home(schedule, last, i) == shard;
    let hop = if here { 0 } else { costs.collectives().broadcast.0 };
    (ends[0][&(last, i)] + hop, times.before.0)
}

/// Asserts that `timeline` is what `schedule` takes under `costs`.
fn check_timeline(schedule: &Schedule, costs: &Costs, timeline: &Timeline) {
    let ends = ends(schedule, timeline);
    for (order, spans) in schedule.orders().iter().zip(&timeline.stages) {
        assert!(order.slots().eq(spans.iter().map(|span| span.slot)), "slots in order");
        let mut free = 0;
        for span in spans {
            let passes = span.slot.passes().map(|pass| needs(schedule, costs, &ends, pass));
            let (arrivals, durations): (Vec<u64>, Vec<u64>) = passes.unzip();
            let ready = arrivals.into_iter().fold(free, u64::max);
            assert_eq!(span.start.0, ready, "{} starts as soon as it may", span.slot);
            free = span.end.0;
            assert_eq!(free - ready, durations.iter().sum::<u64>(), "{}", span.slot);
        }
    }
}

/// Asserts that all that is said about the time of `schedule` is so.
fn check_replay(schedule: &Schedule, costs: &Costs, replay: &mut Replay) {
    let timeline = replay.timeline(schedule, costs).unwrap();
    check_timeline(schedule, costs, &timeline);
    let metrics = replay.metrics(schedule, costs).unwrap();
    assert_eq!(metrics, Metrics::of(&timeline));
    assert_eq!(Replay::new().metrics(schedule, costs).unwrap(), metrics);
    assert_eq!(Replay::new().timeline(schedule, costs).unwrap(), timeline);
    let busiest = metrics.stages.iter().map(|stage| stage.busy).max().unwrap();
    assert!(busiest <= metrics.span() && metrics.span() <= metrics.makespan());
    assert!((0.0..=1.0).contains(&metrics.bubble_rate()));
}

/// Asserts that the walk takes every stage to its end and never uses a value before it is made.
fn check_walk(schedule: &Schedule) {
    let mut at = vec![0usize; schedule.orders().len()];
    let mut made = std::collections::HashSet::new();
    let mut parts = std::collections::HashMap::new();
    for run in schedule.walk() {
        let stage = run.stage as usize;
        let end = at[stage] + run.passes as usize;
        while at[stage] < end {
            let slot = schedule.orders()[stage].slot_at(at[stage]);
            for value in slot.passes().flat_map(|pass| pass.needs(schedule.shape())) {
                assert!(made.contains(&value), "{slot} on stage {stage} needs {value:?}");
            }
            for value in slot.passes().filter_map(Pass::makes) {
                let done = parts.entry(value).or_insert(0);
                *done += 1;
                if value.chunk().is_some() || *done == schedule.orders().len() {
                    made.insert(value);
                }
            }
            at[stage] += slot.passes().count();
        }
        assert_eq!(at[stage], end, "a pair is torn apart");
    }
    assert!(schedule.orders().iter().zip(at).all(|(order, at)| order.passes().len() == at));
}

/// Asserts that the text of `schedule` is read back as the same. A placement is read off the passes,
/// so that one of two that are the same for this shape may become the other.
fn check_text(schedule: &Schedule) {
    let back: Schedule = schedule.to_string().parse().unwrap();
    assert_eq!((back.shape(), back.orders()), (schedule.shape(), schedule.orders()));
    for chunk in 0..usize::from(schedule.shape().chunks()) {
        for microbatch in 0..schedule.shape().microbatches() as usize {
            let homes = [&back, schedule].map(|one| home(one, chunk, microbatch));
            assert_eq!(homes[0], homes[1]);
        }
    }
}

/// Peak bytes and peak chunk activations of each stage, from the definition: M_B from the start of F
/// to the end of B, then M_W to the end of W; where F keeps less, only that until the start of R.
fn peaks(schedule: &Schedule, footprints: &Footprints) -> Vec<(Bytes, u32)> {
    let stage = |order: &Order| {
        let (mut bytes, mut most_bytes, mut count, mut most) = (0i128, 0i128, 0i32, 0i32);
        for slot in order.slots() {
            for at_start in [true, false] {
                for pass in slot.passes() {
                    let shard = footprints.shards().get(usize::from(pass.chunk));
                    let shard = shard.map_or(0, |bytes| i128::from(bytes.0));
                    let held = footprints.of(pass.chunk);
                    let [full, rest] =
                        [held.until_backward, held.until_weight].map(|bytes| i128::from(bytes.0));
                    let kept = footprints.kept(pass.chunk).map_or(full, |kept| kept.0.into());
                    let (change, activations) = match pass.kind {
                        Kind::F if at_start => (kept, 1),
                        Kind::R if at_start => (full - kept, 0),
                        Kind::S if at_start => (shard, 0),
                        Kind::T if !at_start => (-shard, 0),
                        Kind::B if !at_start => (rest - full, 0),
                        Kind::W if !at_start => (-rest, -1),
                        Kind::BW if !at_start => (-full, -1),
                        _ => (0, 0),
                    };
                    (bytes, count) = (bytes + change, count + activations);
                }
                (most_bytes, most) = (most_bytes.max(bytes), most.max(count));
            }
        }
        assert_eq!((bytes, count), (0, 0), "everything is freed in the end");
        (Bytes(most_bytes.try_into().unwrap()), most.try_into().unwrap())
    };
    schedule.orders().iter().map(stage).collect()
}

fn check_memory(schedule: &Schedule, footprints: &Footprints) {
    let peaks = peaks(schedule, footprints);
    let (bytes, in_flight): (Vec<_>, Vec<_>) = peaks.into_iter().unzip();
    assert_eq!(Memory::of(schedule, footprints).unwrap().peak, bytes);
    assert_eq!(peak_in_flight(schedule), in_flight);
}

/// The family whose limit shapes the order of `family`.
fn base(family: Family) -> Family {
    match family {
        Family::Zb2pVocab1 | Family::Zb2pVocab2 => Family::Zb2p,
        Family::ZbVVocab1 | Family::ZbVVocab2 => Family::ZbV,
        other => other,
    }
}

/// By stage, the limit under which `family` makes its order, in bytes, and what one microbatch takes
/// there at least.
fn limits_in_force(
    family: Family,
    problem: &Problem,
    given: Option<Vec<Limit>>,
) -> Option<Vec<(Bytes, Bytes)>> {
    let limits = match family.about().limit {
        LimitUse::Checked => None,
        LimitUse::Own(limit) => Some(vec![limit]),
        LimitUse::Shapes { default } => given.or(default.map(|limit| vec![limit])),
    }?;
    let (p, vee) = (problem.shape().stages(), problem.shape().chunks_per_stage() == 2);
    let held = |chunk: usize| problem.footprints().of(u16::try_from(chunk).unwrap());
    let full = |chunk: usize| held(chunk).until_backward.0;
    let peak = |chunk: usize| full(chunk).max(held(chunk).until_weight.0);
    let stage = |s: usize| match vee {
        true => (full(s) + full(2 * p - 1 - s), peak(s).max(full(s) + peak(2 * p - 1 - s))),
        false => (full(s), peak(s)),
    };
    let (units, peaks): (Vec<u64>, Vec<u64>) = (0..p).map(stage).unzip();
    let unit = units.into_iter().max().unwrap();
    let limits = limits.into_iter().cycle();
    let limits = limits.map(|limit| limit.bytes(problem.shape(), Bytes(unit)));
    Some(limits.zip(peaks.into_iter().map(Bytes)).collect())
}

/// Asserts that `fault` says truly why `family` has no order.
fn check_fault(
    family: Family,
    problem: &Problem,
    limits: Option<&[(Bytes, Bytes)]>,
    fault: &Fault,
) {
    let shape = problem.shape();
    match *fault {
        Fault::BelowOneMicrobatch { stage, needs, limit } => {
            let over = limits.unwrap().iter().filter(|(limit, needs)| needs > limit);
            assert_eq!(limits.unwrap()[stage], (limit, needs));
            assert_eq!(over.map(|&(_, needs)| needs).max(), Some(needs));
        }
        Fault::Needs { .. } => {
            let (p, m) = (shape.stages(), shape.microbatches() as usize);
            assert!(match family {
                Family::Interleaved
                | Family::InterleavedOverlap
                | Family::OneFOneBOverlap
                | Family::InterleavedVocab1
                | Family::InterleavedVocab2 => !m.is_multiple_of((m / p).max(1)),
                Family::Seq1F1B => !m.is_multiple_of(problem.segments() as usize),
                Family::DualPipe => !p.is_multiple_of(2) || !m.is_multiple_of(2) || m < 2 * p,
                Family::DualPipeV | Family::DualPipeVVocab1 | Family::DualPipeVVocab2 => m < 2 * p,
                Family::Stp => m + 1 < 3 * p,
                Family::Chimera => !p.is_multiple_of(2),
                Family::PipeDream2Bw => m < p,
                Family::Hanayo => !shape.chunks_per_stage().is_multiple_of(2),
                _ => false,
            });
        }
        // No block fits, and V-Min, which takes least, neither.
        Fault::Infeasible { needs, limit, .. } if family == Family::VAdaptive => {
            let least = Family::VMin.schedule(problem).unwrap();
            let memory = Memory::of(&least, problem.footprints()).unwrap();
            let limits: Vec<Bytes> = limits.unwrap().iter().map(|&(limit, _)| limit).collect();
            let limits = Limits::new(shape, &limits).unwrap();
            assert!(memory.over(&limits).is_some() && needs > limit);
        }
        // Only activations that grow in B, which the published procedure does not know.
        Fault::Infeasible { needs, limit, .. } => {
            let grows = |chunk| {
                let held = problem.footprints().of(chunk);
                held.until_weight > held.until_backward
            };
            assert!(base(family) == Family::ZbV && (0..shape.chunks()).any(grows) && needs > limit);
        }
        _ => panic!("{} on {problem:?}: {fault:?}", family.name()),
    }
}

proptest! {
    #![proptest_config(draw::cases(400))]

    #[test]
    fn every_family_obeys((family, problem, limits) in draw::question()) {
        // What is made from the order of another family has the limit of that one, and holds a microbatch
        // more for each barrier.
        let base = base(family);
        let limits = limits_in_force(base, &problem, limits.filter(|_| base == family));
        match family.schedule(&problem) {
            Err(fault) => check_fault(family, &problem, limits.as_deref(), &fault),
            Ok(schedule) => {
                check_replay(&schedule, problem.costs(), &mut Replay::new());
                check_walk(&schedule);
                check_text(&schedule);
                check_memory(&schedule, problem.footprints());
                let memory = Memory::of(&schedule, problem.footprints()).unwrap();
                for (stage, (limit, _)) in
                    limits.filter(|_| base == family).into_iter().flatten().enumerate()
                {
                    prop_assert!(memory.peak[stage] <= limit);
                }
                let exact = Limits::new(problem.shape(), &memory.peak).unwrap();
                prop_assert_eq!(memory.over(&exact), None);
            }
        }
    }

    #[test]
    fn every_order_that_can_be_done_is_a_schedule(
        (schedule, costs) in draw::schedule(),
        (other, other_costs) in draw::schedule(),
        held in draw::footprint(),
        (wanted, seed, again) in any::<(u16, u64, [u8; 2])>(),
    ) {
        let mut replay = Replay::new();
        check_replay(&schedule, &costs, &mut replay);
        check_replay(&other, &other_costs, &mut replay);
        check_replay(&schedule, &costs, &mut replay);
        check_walk(&schedule);
        check_text(&schedule);
        check_memory(&schedule, &Footprints::uniform(schedule.shape(), held));
        let recomputing = draw::recomputing(&schedule, wanted, seed);
        let by_chunk = |number: u8| -> Vec<Option<u64>> {
            let chunks = 0..recomputing.shape().chunks();
            let of = |chunk| (number.into(), recomputing.recomputes(chunk));
            chunks.map(of).map(|(number, recomputes)| recomputes.then_some(number)).collect()
        };
        let [times, kept] = again.map(by_chunk);
        let times = times.into_iter().map(|time| time.map(Nanos)).collect();
        let kept = kept.into_iter().map(|kept| kept.map(Bytes)).collect();
        check_replay(&recomputing, &costs, &mut replay);
        check_replay(&recomputing, &costs.with_recompute(times), &mut replay);
        check_walk(&recomputing);
        check_text(&recomputing);
        let footprints = Footprints::uniform(schedule.shape(), held);
        check_memory(&recomputing, &footprints);
        check_memory(&recomputing, &footprints.with_kept(kept));
    }

    /// A ZB-V with room for all it could ever hold is never refused.
    #[test]
    fn memory_enough_is_enough((_, problem, _) in draw::question()) {
        let (p, m) = (problem.shape().stages() as u64, u64::from(problem.shape().microbatches()));
        for family in [Family::ZbV, Family::ZbHeuristic] {
            let chunks = if family == Family::ZbV { 2 } else { 1 };
            let shape = Shape::new(p, chunks, m).unwrap();
            let costs = Costs::uniform(shape, problem.costs().chunks()[0], problem.costs().hops().longest());
            let held = problem.footprints().of(0);
            let all = 2 * m * held.until_backward.0.max(held.until_weight.0);
            let problem = Problem::new(shape, costs).unwrap();
            let problem = problem.with_footprints(Footprints::uniform(shape, held)).unwrap();
            let schedule = family.schedule(&problem.with_limit(Limit::Bytes(Bytes(all))));
            prop_assert!(schedule.is_ok(), "{:?}", schedule);
        }
    }
}
