use pipeline::overlap::{
    Chain as Segments, Contention, Interleaving, Layer, Overlap, Rule, Segment, WeightSegment,
    Weights,
};
use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Limits, Memory, Nanos, Placement, Shape,
};

use sim::Replay;

use super::*;
use crate::{Effort, Objective, bounds};

/// Segments of `layers` layers with times at random, up to 9; compute alone where `quiet`.
fn segments(chance: &mut Chance, layers: u32, quiet: bool) -> Segments {
    let name = |text: &str| text.parse().unwrap();
    let mut time = || Nanos(chance.below(10) as u64);
    let contention = Contention::new(200, 1200).unwrap();
    let mut layer = |_| {
        let mut compute = |text| Segment::compute(name(text), time());
        let (attention, experts) = (compute("attention"), compute("experts"));
        let back = [compute("experts"), compute("attention")];
        let weights = [compute("experts"), compute("attention")];
        let mut moved = |text| {
            let time = if quiet { Nanos(0) } else { time() };
            Segment::communication(name(text), time).under(contention)
        };
        let [dispatch, combine, give, take] =
            ["dispatch", "combine", "combine", "dispatch"].map(&mut moved);
        let [experts_back, attention_back] = back;
        let behind = weights.into_iter().zip([1, 3]);
        Layer {
            forward: vec![attention, dispatch, experts, combine],
            backward: vec![give, experts_back, take, attention_back],
            weight: behind.map(|(segment, behind)| WeightSegment { segment, behind }).collect(),
        }
    };
    let layers = (0..layers).map(|at| (layer(at), 1)).collect();
    Segments::new(Layer::default(), layers, Layer::default()).unwrap()
}

struct Asked {
    shape: (u64, u64, u64),
    placement: Placement,
    objective: Objective,
    quiet: bool,
    lone: bool,
    limit: Option<u64>,
}

fn instance(seed: u64, asked: &Asked) -> Instance {
    let mut chance = Chance::new(seed, 7);
    let (p, v, m) = asked.shape;
    let shape = Shape::new(p, v, m).unwrap();
    let chains = (0..shape.chunks()).map(|_| segments(&mut chance, 2, asked.quiet)).collect();
    let interleaving = Interleaving::Published;
    let rule = Rule { interleaving, weights: Weights::Delayed, lone: asked.lone };
    let costs = Costs::overlapped(Overlap::new(chains, rule).unwrap(), Nanos(3));
    let held = Footprint { until_backward: Bytes(10), until_weight: Bytes(4) };
    let footprints = Footprints::uniform(shape, held);
    let limits = asked.limit.map(|limit| Limits::new(shape, &[Bytes(limit)]).unwrap());
    Instance::new(shape, asked.placement, costs, footprints, limits, asked.objective).unwrap()
}

fn kinds() -> impl Iterator<Item = (u64, Asked)> {
    let shapes = [
        ((1, 1, 3), Placement::Looped),
        ((2, 1, 3), Placement::Looped),
        ((3, 1, 4), Placement::Looped),
        ((2, 2, 4), Placement::Looped),
        ((2, 2, 3), Placement::Vee),
        ((3, 2, 5), Placement::Vee),
    ];
    let each = shapes.into_iter().flat_map(|shape| (0..4).map(move |seed| (seed, shape)));
    each.map(|(seed, (shape, placement))| {
        let objective = if seed % 2 == 0 { Objective::Span } else { Objective::Makespan };
        let limit = (seed >= 2).then_some(10 * shape.1 * (shape.0 + 1));
        (seed, Asked { shape, placement, objective, quiet: false, lone: seed % 2 == 1, limit })
    })
}

/// Orders met by changes at random: each that runs is one of the pipeline, takes by replay what the clock
/// says, holds no more than its limit, and no less time than any bound says.
#[test]
fn orders_met_take_what_replay_says_and_no_less_than_bounds() {
    for (seed, asked) in kinds() {
        let instance = instance(seed, &asked);
        let table = Table::of(&instance);
        let (mut clock, mut chance) = (Clock::default(), Chance::new(seed, 1));
        let mut slots = one_by_one(&table);
        let bounds = bounds::all(&instance);
        assert!(!bounds.is_empty());
        let (mut met, mut pairs) = (0, 0);
        for _ in 0..1500 {
            let Some((stage, old)) = changes::change(&mut slots, &mut chance) else { continue };
            let Some(score) = clock.time(&table, &slots) else {
                slots[stage] = old;
                continue;
            };
            let orders = table.orders(&slots);
            pairs += orders.iter().map(|order| order.pairs().len()).sum::<usize>();
            let schedule = Schedule::new(instance.shape, instance.placement, orders).unwrap();
            let metrics = Replay::new().metrics(&schedule, &instance.costs).unwrap();
            assert_eq!(instance.objective.of(&metrics), nanos(score.cost), "{schedule}");
            let memory = Memory::of(&schedule, &instance.footprints).unwrap();
            assert!(instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none()));
            assert_eq!(table.slots(&schedule).as_ref(), Some(&slots));
            for bound in &bounds {
                assert!(bound.cost <= nanos(score.cost), "{bound:?} {} {schedule}", score.cost);
            }
            met += 1;
        }
        assert!(met > 50 && pairs > 0, "{met} orders, {pairs} pairs");
    }
}

/// Searches from a seed until so many slots are timed.
fn within(instance: &Instance, (seed, slots): (u64, u64)) -> Found {
    let none = None::<fn(Progress)>;
    search(instance, bounds::best(instance), (seed, slots / QUICK), none, &|| false).unwrap()
}

#[test]
fn what_is_found_keeps_the_limit_and_beats_what_is_published() {
    for (seed, asked) in kinds() {
        let instance = instance(seed, &asked);
        let found = within(&instance, (seed, 400_000));
        assert!(found.bound.cost <= found.cost);
        assert!(found.published.iter().all(|one| found.cost <= one.cost), "{:?}", found.published);
        let memory = Memory::of(&found.schedule, &instance.footprints).unwrap();
        assert!(instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none()));
    }
}

/// The order found on a V of three stages beats the published ones, and is the same on one thread as on two.
#[test]
fn a_search_is_the_same_on_any_number_of_threads() {
    let asked = Asked {
        shape: (3, 2, 6),
        placement: Placement::Vee,
        objective: Objective::Span,
        quiet: false,
        lone: false,
        limit: None,
    };
    let instance = instance(5, &asked);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| within(&instance, (3, 3_000_000)))
    };
    let found = on(1);
    assert_eq!(found, on(2));
    assert!(found.best_published().is_some_and(|one| found.cost < one.cost));
    assert!(found.published.iter().any(|one| one.family == Family::DualPipeV));
}

/// Without communication the search is that of passes without segments.
#[test]
fn without_communication_the_search_is_the_plain_one() {
    let asked = Asked {
        shape: (3, 1, 6),
        placement: Placement::Looped,
        objective: Objective::Span,
        quiet: true,
        lone: true,
        limit: Some(40),
    };
    let quiet = instance(11, &asked);
    let plain = Instance { costs: quiet.costs.clone().apart(), ..quiet.clone() };
    let of = |instance: &Instance| {
        let found = crate::search(instance, Effort::default(), |_| {}, &|| false).unwrap();
        (found.schedule, found.cost)
    };
    assert_eq!(of(&quiet), of(&plain));
}
