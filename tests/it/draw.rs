//! The values that the property tests draw: questions to families, and valid schedules of no
//! family.

use std::env;
use std::fmt::Debug;
use std::fs;
use std::path::Path;

use pipeline::{
    Bytes, Choice, Collectives, CopyTimes, Costs, Family, Footprint, Footprints, Hops, Kind, Limit,
    Nanos, Order, Pass, PassTimes, Placement, Problem, Schedule, Shape, ShardTimes, Slot,
    Vocabulary,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Settings for `cases` random cases, or `DEBUBBLE_CASES` times as many, without files of past
/// failures. The cases themselves are new in every run.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let times = env::var("DEBUBBLE_CASES").map_or(1, |times| {
        times.parse().expect("DEBUBBLE_CASES is a whole number: how many times the usual cases")
    });
    let cases = cases.saturating_mul(times);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// A table of reference figures, where it is at hand.
pub(crate) fn reference(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference/data");
    let file = folder.join(name);
    if !file.exists() {
        println!("skipped: there is no {}", file.display());
        return None;
    }
    Some(fs::read_to_string(file).unwrap())
}

/// How many chunks per stage to ask `family` with: two where it works with any number.
pub(crate) fn chunks(family: Family) -> u64 {
    family.about().chunks.of(Some(2))
}

/// Microbatches, about `m` of them, that every family can do over an even number of stages, `p`.
pub(crate) fn even_microbatches(p: u64, m: u64) -> u64 {
    2 * p * m.div_ceil(2 * p)
}

pub(crate) fn times() -> impl Strategy<Value = PassTimes> {
    let nanos = || (0..30u64).prop_map(Nanos);
    (nanos(), nanos(), nanos()).prop_map(|(forward, backward_input, backward_weight)| {
        PassTimes::new(forward, backward_input, backward_weight)
    })
}

/// Any footprint; in half of the cases one that has M_W <= M_B, like those of models.
pub(crate) fn footprint() -> impl Strategy<Value = Footprint> {
    (0..20u64, 0..20u64, any::<bool>()).prop_map(|(a, b, any_order)| {
        let (most, least) = if any_order { (a, b) } else { (a.max(b), a.min(b)) };
        Footprint { until_backward: Bytes(most), until_weight: Bytes(least) }
    })
}

/// One for each chunk, in half of the cases all alike.
fn per_chunk<T: Copy + Debug>(
    one: impl Strategy<Value = T>,
    chunks: u16,
) -> impl Strategy<Value = Vec<T>> {
    let chunks = usize::from(chunks);
    (proptest::collection::vec(one, chunks), any::<bool>())
        .prop_map(move |(all, equal)| if equal { vec![all[0]; chunks] } else { all })
}

/// Hops of links, in most cases all alike.
pub(crate) fn hops(shape: Shape) -> impl Strategy<Value = Hops> {
    // Two stages share a link.
    let links = if shape.stages() > 2 { shape.stages() } else { 1 };
    let alike = |hop: u64| Hops::alike(Nanos(hop));
    let each = proptest::collection::vec((0..40u64).prop_map(Nanos), links);
    let each = each.prop_map(move |links| Hops::new(shape, &links).unwrap());
    prop_oneof![Just(alike(0)), (0..40u64).prop_map(alike), each]
}

pub(crate) fn costs(shape: Shape) -> impl Strategy<Value = Costs> {
    (per_chunk(times(), shape.chunks()), hops(shape))
        .prop_map(|(chunks, hops)| Costs::new(chunks, Nanos(0)).with_hops(hops))
}

/// `costs` where every activation takes so long to the host and back.
pub(crate) fn copying(costs: Costs, shape: Shape, [out, back]: [u64; 2]) -> Costs {
    let times = CopyTimes { out: Nanos(out), back: Nanos(back) };
    costs.with_copies(vec![times; usize::from(shape.chunks())])
}

/// A limit from just above a microbatch to 3p, or one in bytes that may be too small.
fn limit(stages: u64) -> impl Strategy<Value = Limit> {
    let times_p = (1_000_000 / stages + 1)..3_000_000;
    prop_oneof![
        times_p.prop_map(|millionths| Limit::TimesP { millionths }),
        (0..40 * stages).prop_map(|bytes| Limit::Bytes(Bytes(bytes))),
    ]
}

/// No limit, one for all stages, or one each.
fn limits(stages: usize) -> impl Strategy<Value = Option<Vec<Limit>>> {
    let one = || limit(stages as u64);
    prop_oneof![
        Just(None),
        one().prop_map(|limit| Some(vec![limit])),
        proptest::collection::vec(one(), stages).prop_map(Some),
    ]
}

/// [`costs`] of a pipeline with a shard of the vocabulary on every stage.
fn costs_with_shards(shape: Shape) -> impl Strategy<Value = Costs> {
    let time = || prop_oneof![Just(0), 0..30u64].prop_map(Nanos);
    let shard = (time(), time()).prop_map(|(before, after)| ShardTimes { before, after });
    let shards = proptest::collection::vec(shard, shape.stages());
    let collectives =
        (time(), time(), time()).prop_map(|(broadcast, statistics, hidden_gradient)| Collectives {
            broadcast,
            statistics,
            hidden_gradient,
        });
    (costs(shape), shards, collectives)
        .prop_map(|(costs, shards, collectives)| costs.with_shards(shards, collectives))
}

fn problem(shape: Shape) -> impl Strategy<Value = (Problem, Option<Vec<Limit>>)> {
    let footprints = proptest::option::of(per_chunk(footprint(), shape.chunks()));
    let limits = limits(shape.stages());
    (costs_with_shards(shape), footprints, limits).prop_map(move |(costs, footprints, limits)| {
        let mut problem = Problem::new(shape, costs).unwrap();
        if let Some(footprints) = footprints {
            let shards = (0..shape.stages() as u64).map(|stage| Bytes(7 * stage)).collect();
            let footprints = Footprints::new(footprints).with_shards(shards);
            problem = problem.with_footprints(footprints).unwrap();
        }
        match limits {
            None => (problem, None),
            Some(limits) => (problem.with_limits(&limits).unwrap(), Some(limits)),
        }
    })
}

/// A family, a problem of a shape that it allows, and the memory limits given with it.
pub(crate) fn question() -> impl Strategy<Value = (Family, Problem, Option<Vec<Limit>>)> {
    let sizes = (select(&Family::ALL[..]), 1..=12u64, 1..=40u64, 1..=4u64);
    sizes.prop_flat_map(|(family, stages, microbatches, any_chunks)| {
        // A search over deep pipelines takes long.
        let stages = if family == Family::VAdaptive { stages.div_ceil(2) } else { stages };
        let chunks = family.about().chunks.of(Some(any_chunks));
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        (problem(shape), 1..=stages, 1..=4u32, [0..60u64, 0..60u64]).prop_map(
            move |((mut problem, limit), group, cut, copies)| {
                match family.about().choice {
                    Choice::Nothing => {}
                    Choice::Group => problem = problem.with_group(group),
                    Choice::Offload => {
                        let costs = copying(problem.costs().clone(), shape, copies);
                        problem = problem.with_costs(costs).unwrap().with_group(group);
                    }
                    Choice::Segments { .. } => problem = problem.with_segments(cut).unwrap(),
                }
                (family, problem, limit)
            },
        )
    })
}

const VOCABULARIES: [Vocabulary; 3] =
    [Vocabulary::Whole, Vocabulary::TwoBarriers, Vocabulary::OneBarrier];

/// A valid schedule in no particular order, and costs for it: any order in which passes can be
/// done, with fused and split backwards, passes in pairs, all placements, and the vocabulary in shards.
pub(crate) fn schedule() -> impl Strategy<Value = (Schedule, Costs)> {
    let placement = select(&[Placement::Looped, Placement::Vee, Placement::Mirrored][..]);
    let pairs = any::<bool>();
    let sizes =
        (placement, 1..=5u64, 1..=3u64, 1..=6u64, pairs, any::<u64>(), select(&VOCABULARIES[..]));
    sizes.prop_flat_map(|(placement, stages, chunks, microbatches, pairs, seed, vocabulary)| {
        let mirrored = placement == Placement::Mirrored;
        let vocabulary = if mirrored { Vocabulary::Whole } else { vocabulary };
        let chunks = if placement == Placement::Mirrored { 1 } else { chunks };
        let shape = Shape::new(stages, chunks, microbatches).unwrap();
        let shape = shape.with_vocabulary(vocabulary).unwrap();
        let schedule = random_schedule(shape, placement, pairs, Random(seed | 1));
        costs_with_shards(shape).prop_map(move |costs| (schedule.clone(), costs))
    })
}

/// A small generator (xorshift): what matters here is variety, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).unwrap()
    }
}

/// A random schedule of `shape`, with pairs or without.
pub(crate) fn random(shape: Shape, placement: Placement, pairs: bool, seed: u64) -> Schedule {
    random_schedule(shape, placement, pairs, Random(seed | 1))
}

/// Does passes at random, one of those whose needs are there, until all are done.
fn random_schedule(
    shape: Shape,
    placement: Placement,
    pairs: bool,
    mut random: Random,
) -> Schedule {
    let mut to_do: Vec<Pass> = Vec::new();
    for chunk in 0..shape.chunks() {
        for i in 0..shape.microbatches() {
            to_do.push(Pass::f(chunk, i));
            match random.below(2) {
                0 => to_do.push(Pass::bw(chunk, i)),
                _ => to_do.extend([Pass::b(chunk, i), Pass::w(chunk, i)]),
            }
        }
    }
    let shards = if shape.has_shards() { shape.stages() } else { 0 };
    for chunk in (0..u16::MAX).take(shards) {
        let of = |kind| (0..shape.microbatches()).map(move |i| Pass { kind, chunk, microbatch: i });
        to_do.extend(of(Kind::S).chain(of(Kind::T)));
    }
    let stage_of = |pass: &Pass| placement.stage_of(shape, *pass);
    let mut made = std::collections::HashSet::new();
    let mut parts = std::collections::HashMap::new();
    let mut orders = vec![Order::default(); shape.stages()];
    while !to_do.is_empty() {
        let ready = |pass: &Pass| pass.needs(shape).all(|value| made.contains(&value));
        let mut open: Vec<usize> = (0..to_do.len()).filter(|&i| ready(&to_do[i])).collect();
        let first = open.swap_remove(random.below(open.len()));
        let stage = stage_of(&to_do[first]);
        open.retain(|&i| stage_of(&to_do[i]) == stage);
        let mut chosen = vec![first];
        if pairs && !open.is_empty() && random.below(2) == 0 {
            chosen.push(open[random.below(open.len())]);
        }
        let slot = match chosen[..] {
            [a, b] => Slot::Pair(to_do[a], to_do[b]),
            _ => Slot::One(to_do[first]),
        };
        orders[stage].push(slot);
        for value in slot.passes().filter_map(Pass::makes) {
            let done = parts.entry(value).or_insert(0usize);
            *done += 1;
            if value.chunk().is_some() || *done == shape.stages() {
                made.insert(value);
            }
        }
        chosen.sort_unstable();
        for i in chosen.into_iter().rev() {
            to_do.swap_remove(i);
        }
    }
    Schedule::new(shape, placement, orders).unwrap()
}

/// `schedule` where the chunks that are bits of `wanted` recompute: each R stands somewhere between its
/// forward and its backward.
pub(crate) fn recomputing(schedule: &Schedule, wanted: u16, seed: u64) -> Schedule {
    let mut random = Random(seed);
    let orders = schedule.orders().iter().map(|order| {
        let slots: Vec<Slot> = order.slots().collect();
        let mut before: Vec<Vec<Pass>> = vec![Vec::new(); slots.len()];
        let mut forwards = std::collections::HashMap::new();
        for (at, slot) in slots.iter().enumerate() {
            for pass in slot.passes().filter(|pass| wanted >> (pass.chunk % 16) & 1 == 1) {
                let cell = (pass.chunk, pass.microbatch);
                match pass.kind {
                    Kind::F => drop(forwards.insert(cell, at)),
                    Kind::B | Kind::BW => {
                        let place = forwards[&cell] + 1 + random.below(at - forwards[&cell]);
                        before[place].push(Pass::r(pass.chunk, pass.microbatch));
                    }
                    _ => {}
                }
            }
        }
        let slots = before.into_iter().zip(slots);
        let with =
            |(before, slot): (Vec<Pass>, Slot)| before.into_iter().map(Slot::One).chain([slot]);
        slots.flat_map(with).collect::<Order>()
    });
    Schedule::new(schedule.shape(), schedule.placement(), orders.collect()).unwrap()
}
