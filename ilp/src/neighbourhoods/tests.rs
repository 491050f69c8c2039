//! Improved orders beside the optimum, and windows that are left as they were.

use std::cell::Cell;

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Schedule, Shape,
};
use search::bounds::{Proof, best};
use search::{Effort, Found, Instance, Objective, search};

use super::{Budget, Neighbourhoods, improve, slants};
use crate::solve::{cost, fits, solve};
use crate::tests::{instance, instance_of, one_by_one, recomputing};

/// `schedule` as the result of a search.
fn found_as(instance: &Instance, schedule: Schedule) -> Found {
    let (cost, bound) = (cost(instance, &schedule).unwrap(), best(instance));
    let (proof, published) = (Proof::default(), Vec::new());
    Found { schedule, cost, bound, proof, published, interrupted: false }
}

/// The order of `from` improved with so many steps; checks that it is one, and no worse.
fn improved(instance: &Instance, from: Schedule, steps: u64) -> Found {
    let mut found = found_as(instance, from);
    let was = found.cost;
    let mut seen = was;
    let tell = |now| {
        assert!(now < seen, "{now:?} after {seen:?}");
        seen = now;
    };
    improve(instance, &mut found, steps, tell, &|| false).unwrap();
    assert_eq!(cost(instance, &found.schedule).unwrap(), found.cost);
    assert_eq!(seen, found.cost);
    assert!(fits(instance, &found.schedule) && found.cost <= was);
    found
}

#[test]
fn serial_orders_of_small_pipelines_come_close_to_the_optimum() {
    let (mut cases, mut optimal, mut above) = (0, 0, 0.0);
    for (placement, size) in [
        (Placement::Looped, [3, 6]),
        (Placement::Looped, [4, 8]),
        (Placement::Vee, [2, 4]),
        (Placement::Vee, [3, 4]),
    ] {
        for seed in 0..16 {
            let plain = instance(placement, size, seed, seed % 2 == 0);
            let asked = if seed % 4 == 3 { recomputing(&plain, seed, false) } else { plain };
            let order = one_by_one(&asked);
            let found = improved(&asked, order, u64::MAX);
            let looked = Cell::new(0);
            let stop = || looked.replace(looked.get() + 1) > 2_000;
            let answer =
                solve(&asked, found.schedule.clone(), Nanos(0), u64::MAX, |_, _, _| (), &stop);
            let answer = answer.unwrap();
            cases += 1;
            optimal += usize::from(answer.cost == found.cost);
            above += found.cost.0 as f64 / answer.cost.0 as f64 - 1.0;
        }
    }
    let mean = above / f64::from(cases);
    println!("{optimal} of {cases} orders are not improved further; {:.2} % above", 100.0 * mean);
    assert!(optimal >= 50 && mean < 0.02, "{optimal} of {cases}, {mean}");
}

#[test]
fn orders_of_a_search_are_improved_where_memory_is_short() {
    let mut better = 0;
    for seed in 0..12 {
        let placement = if seed % 2 == 0 { Placement::Vee } else { Placement::Looped };
        let asked = instance(placement, [6, 24], 6 * seed, true);
        let found = search(&asked, Effort::default(), |_| (), &|| false).unwrap();
        let now = improved(&asked, found.schedule.clone(), 1 << 26);
        better += usize::from(now.cost < found.cost);
    }
    println!("{better} of 12 orders are better");
    assert!(better >= 3, "{better}");
}

#[test]
fn the_same_steps_give_the_same_order_and_none_leave_it() {
    let asked = instance(Placement::Vee, [4, 12], 6, true);
    let order = one_by_one(&asked);
    assert_eq!(improved(&asked, order.clone(), 0).schedule, order);
    let [one, other] = [0; 2].map(|_| improved(&asked, order.clone(), 1 << 16));
    assert_eq!(one.schedule, other.schedule);
    let more = improved(&asked, order.clone(), 1 << 22);
    assert!(more.cost < one.cost && one.cost < cost(&asked, &order).unwrap());
    // Stopped, it has the best order known by then.
    let mut found = found_as(&asked, order);
    let looked = Cell::new(0);
    let stop = || looked.replace(looked.get() + 1) > 5_000;
    improve(&asked, &mut found, u64::MAX, |_| (), &stop).unwrap();
    assert!(found.cost > more.cost && fits(&asked, &found.schedule));
}

#[test]
fn a_neighbourhood_leaves_the_windows_of_the_order() {
    for (seed, placement) in [(0, Placement::Vee), (2, Placement::Vee), (3, Placement::Looped)] {
        let asked = instance(placement, [4, 10], seed, seed == 0);
        let budget = Budget { left: Cell::new(u64::MAX), each: Cell::new(0), stop: &|| false };
        let mut search = Neighbourhoods::new(&asked, one_by_one(&asked), &budget).unwrap();
        let state = |search: &Neighbourhoods<'_>| format!("{:?}", search.windows);
        // The first pass of the trail clears the stages that are stale at first.
        let mut before = None;
        let slants = slants(&search.compiled);
        assert_eq!(slants.len(), 2);
        for (at, slant) in (0..40).zip(slants.iter().cycle()) {
            let from = at * search.work / 2;
            let bands = search.open(from..from + 2 * search.work, slant);
            let most = search.incumbent.cost - 1;
            let _ = search.ask(&bands, most);
            let now = state(&search);
            assert_eq!(before.get_or_insert(now.clone()), &now, "at {at}");
        }
    }
}

#[test]
fn chunks_in_loops_have_times_that_no_input_leaves() {
    for seed in 0..6 {
        let asked = instance_of(Placement::Looped, [3, 2, 6], seed, seed % 2 == 0);
        let from = one_by_one(&asked);
        let was = cost(&asked, &from).unwrap();
        let found = improved(&asked, from, 1 << 22);
        assert!(found.cost < was, "{:?} of {was:?}", found.cost);
    }
}

#[test]
fn long_hops_and_a_first_stage_without_work_take_no_longer() {
    let shape = Shape::new(4, 1, 12).unwrap();
    let times = |stage: u64| PassTimes::new(Nanos(stage), Nanos(stage), Nanos(stage));
    let costs = Costs::new((0..4).map(|stage| times(100 * stage)).collect(), Nanos(1 << 40));
    let held = Footprint { until_backward: Bytes(2), until_weight: Bytes(1) };
    let footprints = Footprints::new(vec![held; 4]);
    let limits = Some(Limits::new(shape, &[Bytes(6)]).unwrap());
    let asked = Instance::new(shape, Placement::Looped, costs, footprints, limits, Objective::Span)
        .unwrap();
    let from = one_by_one(&asked);
    let was = cost(&asked, &from).unwrap();
    assert!(improved(&asked, from, u64::MAX).cost < was);
}
