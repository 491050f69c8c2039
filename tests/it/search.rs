//! The search: no schedule that breaks a limit, none worse than a published one, none below the
//! bound, the same on any number of threads, and the best so far when it is stopped.

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Limit, Limits, Memory, Nanos, PassTimes,
    Placement, Problem, Schedule, Shape,
};
use proptest::prelude::*;
use search::{Effort, Found, Instance, Objective, SearchError, search};
use sim::Replay;

use crate::draw;

/// A pipeline with unequal stages under limits that at least one microbatch fits.
fn instance() -> impl Strategy<Value = Instance> {
    let shape = (1..5u64, 1..4u64, 1..9u64, any::<bool>(), any::<bool>());
    shape.prop_flat_map(|(p, v, m, vee, makespan)| {
        let chunks = usize::try_from(p * v).unwrap();
        let times = (1..40u64, 1..40u64, 0..40u64, 0..9u64);
        let sizes = (1..60u64, 0..60u64);
        let each = (
            proptest::collection::vec(times, chunks),
            proptest::collection::vec(sizes, chunks),
            draw::hops(Shape::new(p, v, m).unwrap()),
            proptest::option::of(0..200u64),
        );
        each.prop_map(move |(times, sizes, hops, more)| {
            let shape = Shape::new(p, v, m).unwrap();
            let placement = if vee { Placement::Vee } else { Placement::Looped };
            let times = times.into_iter().map(|(f, b, w, quarters)| PassTimes {
                // Between the longer of B and W and both, as trainers have it; half of the time unknown.
                backward: (2 * quarters < 9).then(|| Nanos(b.max(w) + b.min(w) * quarters / 4)),
                ..PassTimes::new(Nanos(f), Nanos(b), Nanos(w))
            });
            let sizes = sizes.into_iter().map(|(until_backward, until_weight)| Footprint {
                until_backward: Bytes(until_backward),
                until_weight: Bytes(until_weight),
            });
            let costs = Costs::new(times.collect(), Nanos(0)).with_hops(hops);
            let footprints = Footprints::new(sizes.collect());
            let objective = if makespan { Objective::Makespan } else { Objective::Span };
            let free = Instance::new(shape, placement, costs, footprints, None, objective).unwrap();
            let least = search::bounds::smallest_limit(&free);
            let limits = more.map(|more| {
                let limits: Vec<Bytes> = least.iter().map(|one| Bytes(one.0 + more)).collect();
                Limits::new(shape, &limits).unwrap()
            });
            Instance { limits, ..free }
        })
    })
}

fn found(instance: &Instance, seed: u64) -> Found {
    let effort = Effort { times: Some(0), seed };
    search(instance, effort, |_| {}, &|| false).unwrap()
}

fn cost(instance: &Instance, schedule: &Schedule) -> Nanos {
    instance.objective.of(&Replay::new().metrics(schedule, &instance.costs).unwrap())
}

fn fits(instance: &Instance, schedule: &Schedule) -> bool {
    let memory = Memory::of(schedule, &instance.footprints).unwrap();
    instance.limits.as_ref().is_none_or(|limits| memory.over(limits).is_none())
}

/// The published schedules of the same placement that fit, with what they cost.
pub(crate) fn published(instance: &Instance) -> Vec<(Family, Nanos)> {
    let problem = Problem::new(instance.shape, instance.costs.clone()).unwrap();
    let mut problem = problem.with_footprints(instance.footprints.clone()).unwrap();
    if let Some(limits) = &instance.limits {
        let limits: Vec<Limit> = limits.by_stage().iter().copied().map(Limit::Bytes).collect();
        problem = problem.with_limits(&limits).unwrap();
    }
    let families = Family::ALL.into_iter().filter_map(|family| {
        let schedule = family.schedule(&problem).ok()?;
        let same = schedule.placement() == instance.placement
            && schedule.shape() == instance.shape
            && family != Family::Seq1F1B;
        (same && fits(instance, &schedule)).then(|| (family, cost(instance, &schedule)))
    });
    families.collect()
}

fn short(times: u64) -> Effort {
    Effort { times: Some(times), seed: 7 }
}

proptest! {
    #![proptest_config(draw::cases(60))]

    #[test]
    fn what_is_found_fits_and_lies_between_the_bound_and_what_was_published(
        instance in instance(),
    ) {
        let mut told = Vec::new();
        let found = search(&instance, short(0), |now| told.push(now.best), &|| false).unwrap();
        prop_assert_eq!(cost(&instance, &found.schedule), found.cost);
        prop_assert!(fits(&instance, &found.schedule));
        prop_assert!(found.cost >= found.bound.cost);
        prop_assert!(told.is_sorted_by(|one, next| one >= next));
        for (family, cost) in published(&instance) {
            prop_assert!(found.cost <= cost, "{}: {cost} beats {}", family.name(), found.cost);
        }
    }
}

proptest! {
    #![proptest_config(draw::cases(12))]

    #[test]
    fn more_effort_is_no_worse_and_threads_change_nothing(instance in instance(), seed in 0..4u64) {
        let effort = Effort { times: Some(1), seed };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| search(&instance, effort, |_| {}, &|| false).unwrap())
        };
        let (one, three) = (on(1), on(3));
        prop_assert_eq!(&one, &three);
        prop_assert!(fits(&instance, &one.schedule));
        prop_assert_eq!(cost(&instance, &one.schedule), one.cost);
        prop_assert!(one.cost >= one.bound.cost);
        prop_assert!(one.cost <= found(&instance, seed).cost);
    }
}

/// A setting of the paper's table 5, with a limit of `limit` p.
fn paper(p: u64, m: u64, [f, b, w]: [u64; 3], hop: u64, model: [u64; 2], limit: u64) -> Instance {
    let shape = Shape::new(p, 1, m).unwrap();
    let us = |time: u64| Nanos(time * 1000);
    let times = PassTimes::new(us(f), us(b), us(w));
    let [hidden, heads] = model;
    let size = Footprint {
        until_backward: Bytes(34 * hidden + 5 * heads * 1024),
        until_weight: Bytes(32 * hidden),
    };
    let limits = Limits::new(shape, &[Bytes(limit * p * size.until_backward.0)]).unwrap();
    let costs = Costs::uniform(shape, times, us(hop));
    let footprints = Footprints::uniform(shape, size);
    let limits = Some(limits);
    Instance::new(shape, Placement::Looped, costs, footprints, limits, Objective::Span).unwrap()
}

#[test]
fn published_rates_of_table_5_are_beaten_and_the_bound_is_met() {
    let rate = |instance: &Instance, found: &Found| {
        let metrics = Replay::new().metrics(&found.schedule, &instance.costs).unwrap();
        format!("{:.6}", metrics.bubble_rate())
    };
    let settings = [
        (paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 2), "0.001681"),
        (paper(8, 64, [18546, 18097, 9321], 762, [2304, 24], 2), "0.001095"),
        (paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 1), "0.124186"),
    ];
    for (instance, best) in settings {
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        assert!(found.is_optimal());
        assert_eq!(rate(&instance, &found), best);
    }
}

#[test]
fn a_search_that_is_stopped_has_the_best_so_far() {
    let instance = paper(8, 32, [18513, 18086, 9331], 626, [2304, 24], 1);
    let limits = Limits::new(instance.shape, &[Bytes(1_100_000)]).unwrap();
    let instance = Instance { limits: Some(limits), ..instance };
    let stopped = search(&instance, Effort { times: None, seed: 0 }, |_| {}, &|| true).unwrap();
    assert!(stopped.interrupted && fits(&instance, &stopped.schedule));
    assert!(published(&instance).iter().all(|(_, cost)| stopped.cost <= *cost));
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 2_000;
    let mut told = Vec::new();
    let later = search(&instance, Effort { times: None, seed: 0 }, |now| told.push(now), &stop);
    let later = later.unwrap();
    assert!(later.cost < stopped.cost && later.interrupted);
    let last = told.last().and_then(|now| now.best.zip(now.bound));
    assert_eq!(last, Some((later.cost, later.bound.cost)));
    assert!(told.iter().all(|now| now.of.is_none()));
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let instance = paper(4, 8, [3, 2, 1], 0, [16, 1], 1);
    let with = |instance: &Instance| search(instance, Effort::default(), |_| {}, &|| false);
    let tight = Limits::new(instance.shape, &[Bytes(100)]).unwrap();
    let tight = Instance { limits: Some(tight), ..instance.clone() };
    assert!(matches!(with(&tight), Err(SearchError::Infeasible(_))));
    let mirrored = Instance { placement: Placement::Mirrored, ..instance };
    assert_eq!(with(&mirrored).unwrap_err(), SearchError::Mirrored);
    let huge = Shape::new(2, 1, 1_000_000).unwrap();
    let costs = Costs::uniform(huge, PassTimes::default(), Nanos(0));
    let footprints = Footprints::uniform(huge, Footprint::default());
    let huge = Instance::new(huge, Placement::Looped, costs, footprints, None, Objective::Span);
    assert_eq!(with(&huge.unwrap()).unwrap_err(), SearchError::TooLarge(6_000_000));
}

/// Light first and last stages, a heavy last one, a slow device: never worse than published.
#[test]
fn unequal_stages_are_never_worse_than_published() {
    let mut wins = 0;
    for case in 0..9u64 {
        let (p, m) = (3 + case % 3, 8 + 2 * case);
        let shape = Shape::new(p, 1, m).unwrap();
        let times = (0..p).map(|stage| {
            let part = match (case % 3, stage) {
                (0, 0) => 80,
                (0, last) if last + 1 == p => 80,
                (1, last) if last + 1 == p => 140,
                (2, 1) => 125,
                _ => 100,
            };
            let [f, b, w] = [29 * part, 30 * part, (15 + case) * part].map(Nanos);
            PassTimes::new(f, b, w)
        });
        let costs = Costs::new(times.collect(), Nanos(100));
        let size = Footprint { until_backward: Bytes(300), until_weight: Bytes(130) };
        let limits = Limits::new(shape, &[Bytes(300 * p * (2 + case % 4) / 2)]).unwrap();
        let (footprints, limits) = (Footprints::uniform(shape, size), Some(limits));
        let looped = Placement::Looped;
        let instance = Instance::new(shape, looped, costs, footprints, limits, Objective::Span);
        let instance = instance.unwrap();
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        let best = published(&instance).into_iter().map(|(_, cost)| cost).min().unwrap();
        assert!(found.cost <= best, "case {case}");
        wins += u32::from(found.cost < best);
    }
    assert!(wins >= 4, "{wins} of 9");
}
