use pipeline::{
    Costs, Family, Hops, Kind, MicrobatchWork, Nanos, Order, Pass, PassTimes, Placement, Problem,
    Schedule, Shape, Value, Work,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use super::*;
use crate::straggler::{Jitter, Profile, Stragglers, Target};
use crate::{Replay, Simulation, timed};

/// An order in which stages run whichever pass they can, at random; chunks recompute, and microbatches have whole
/// backwards, at random, too.
fn random_order(shape: Shape, placement: Placement, rng: &mut SplitMix64) -> Schedule {
    let mut left: Vec<Vec<Pass>> = vec![Vec::new(); shape.stages()];
    for chunk in 0..shape.chunks() {
        let recomputes = rng.random_bool(0.3);
        for microbatch in 0..shape.microbatches() {
            let stage = placement.stage(shape, chunk, microbatch);
            let backward = if rng.random_bool(0.5) { &[Kind::BW][..] } else { &[Kind::B, Kind::W] };
            let again = if recomputes { &[Kind::R][..] } else { &[] };
            let kinds = [&[Kind::F][..], again, backward].concat();
            left[stage].extend(kinds.into_iter().map(|kind| Pass { kind, chunk, microbatch }));
        }
    }
    let mut orders: Vec<Order> = left.iter().map(|_| Order::default()).collect();
    let mut made: Vec<Value> = Vec::new();
    while left.iter().any(|left| !left.is_empty()) {
        let stage = rng.random_range(0..left.len());
        let waits = |pass: &Pass| {
            let again = Pass { kind: Kind::R, ..*pass };
            let is_backward = matches!(pass.kind, Kind::B | Kind::BW);
            (is_backward && left[stage].contains(&again))
                || pass.needs(shape).any(|value| !made.contains(&value))
        };
        let ready: Vec<usize> =
            (0..left[stage].len()).filter(|&at| !waits(&left[stage][at])).collect();
        if ready.is_empty() {
            continue;
        }
        let pass = left[stage].swap_remove(ready[rng.random_range(0..ready.len())]);
        made.extend(pass.makes());
        orders[stage].push(pass);
    }
    Schedule::new(shape, placement, orders).unwrap()
}

/// Times and hops of a pipeline, some of them 0.
fn random_costs(shape: Shape, placement: Placement, most: u64, rng: &mut SplitMix64) -> Costs {
    let mut time = |zero: f64| {
        let time = rng.random_range(1..=most);
        Nanos(if rng.random_bool(zero) { 0 } else { time })
    };
    let times: Vec<PassTimes> =
        (0..shape.chunks()).map(|_| PassTimes::new(time(0.1), time(0.1), time(0.2))).collect();
    let links: Vec<Nanos> = (0..shape.stages()).map(|_| time(0.3)).collect();
    let again = (0..shape.chunks()).map(|_| Some(time(0.1))).collect();
    let hops = Hops::placed(shape, placement, &links)
        .or_else(|_| Hops::new(shape, &links[1..]))
        .unwrap_or_else(|_| Hops::alike(links[0]));
    Costs::new(times, Nanos(0)).with_hops(hops).with_recompute(again)
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    stages: u64,
    laps: u64,
    microbatches: u64,
    placement: Placement,
    most: u64,
}

impl Case {
    fn schedule(&self, rng: &mut SplitMix64) -> Schedule {
        let shape = Shape::new(self.stages, self.laps, self.microbatches).unwrap();
        random_order(shape, self.placement, rng)
    }

    fn rng(&self) -> SplitMix64 {
        SplitMix64::seed_from_u64(self.seed)
    }
}

prop_compose! {
    fn case()(
        seed: u64,
        stages in 1..7u64,
        laps in 1..3u64,
        microbatches in 1..9u64,
        placement in prop::sample::select(&[Placement::Looped, Placement::Vee, Placement::Mirrored][..]),
        most in prop::sample::select(&[3, 1000, 30_000_000, 1 << 50][..]),
    ) -> Case {
        let laps = if placement == Placement::Mirrored { 1 } else { laps };
        Case { seed, stages, laps, microbatches, placement, most }
    }
}

fn noise(case: &Case, rng: &mut SplitMix64) -> Stragglers {
    let stages = usize::try_from(case.stages).unwrap();
    let mut noise = Stragglers::new(stages, case.seed);
    let laws = [
        Jitter::log_normal(0.1),
        Jitter::normal(0.3),
        Jitter::pareto(1.2),
        Jitter::factors(vec![0.5, 1.0, 1.7]),
    ];
    let mut jitter = || laws[rng.random_range(0..laws.len())].clone().unwrap();
    let (passes, hops) = (jitter(), jitter());
    if rng.random_bool(0.7) {
        noise.jitter_passes(passes);
    }
    if rng.random_bool(0.5) {
        noise.jitter_hops(hops);
    }
    if rng.random_bool(0.5) {
        noise.stall(0.2, Nanos(rng.random_range(0..1_000_000))).unwrap();
    }
    if rng.random_bool(0.5) {
        noise.slow(Target::Stage(rng.random_range(0..stages)), 1.7).unwrap();
    }
    if stages > 1 {
        noise.slow(Target::Link(0, 1), 2.3).unwrap();
    }
    noise
}

proptest! {
    /// Lanes of other costs give what replay gives, or nothing where a clock would be inexact.
    #[test]
    fn scenarios_are_replayed(case in case()) {
        let mut rng = case.rng();
        let schedule = case.schedule(&mut rng);
        let order = CompiledOrder::new(&schedule).unwrap();
        let mut scenarios = Scenarios::new(&order);
        let costs: Vec<Costs> = (0..SCENARIOS)
            .map(|_| random_costs(schedule.shape(), case.placement, case.most, &mut rng))
            .collect();
        for (lane, costs) in costs.iter().enumerate() {
            prop_assert_eq!(scenarios.set(lane, costs), Ok(true));
        }
        for (times, costs) in scenarios.replay().into_iter().zip(&costs) {
            let metrics = Replay::new().metrics(&schedule, costs).unwrap();
            match times {
                Some(times) => prop_assert_eq!(times, StepTimes::from(&metrics)),
                None => prop_assert!(u128::from(metrics.makespan().0) * 8 > 1 << 51),
            }
        }
    }

    /// Lanes of replicas give what every replica gives by itself.
    #[test]
    fn replicas_are_replayed(case in case(), first: u32) {
        let mut rng = case.rng();
        let schedule = case.schedule(&mut rng);
        let costs = random_costs(schedule.shape(), case.placement, case.most, &mut rng);
        let noise = noise(&case, &mut rng);
        let order = NoisyOrder::new(&schedule, &costs, &noise).unwrap();
        let mut tables = order.tables();
        for first in [u64::from(first), 0] {
            for (times, replica) in order.replay(&mut tables, first).into_iter().zip(first..) {
                let metrics = timed::metrics(&schedule, &noise.sample(replica, 0).timing(&costs));
                match times {
                    Some(times) => prop_assert_eq!(times, StepTimes::from(&metrics)),
                    None => prop_assert!(u128::from(metrics.makespan().0) * 8 > 1 << 51),
                }
            }
        }
    }

    /// Replicas of all families that have an order here are distributed alike, in lanes or not.
    #[test]
    fn families_are_distributed_alike(stages in 2..6u64, microbatches in 1..9u64, seed: u64) {
        let times = PassTimes::new(Nanos(1_000_000), Nanos(1_100_000), Nanos(700_000));
        for family in Family::ALL {
            let chunks = family.about().chunks.of(None);
            let Ok(shape) = Shape::new(stages, chunks, microbatches) else { continue };
            let costs = Costs::uniform(shape, times, Nanos(50_000));
            let Ok(problem) = Problem::new(shape, costs.clone()) else { continue };
            let Ok(schedule) = family.schedule(&problem) else { continue };
            let mut noise = Stragglers::new(schedule.shape().stages(), seed);
            noise.jitter_passes(Jitter::log_normal(0.2).unwrap());
            let simulation = Simulation::new(&schedule, problem.costs(), problem.footprints());
            let simulation = simulation.under(&noise);
            // Eight replicas are timed in lanes, seven are not.
            let [few, many] = [7, 8].map(|count| simulation.replicas(count, || {}, || false).unwrap());
            let last = simulation.metrics(Some(7), &mut Replay::new()).unwrap();
            prop_assert_eq!(many.makespan.max, few.makespan.max.max(last.makespan().0));
            prop_assert_eq!(many.span.min, few.span.min.min(last.span().0));
            let rate = many.bubble_rate.max;
            prop_assert!(rate == few.bubble_rate.max || rate == last.bubble_rate());
        }
    }
}

/// 1F1B on 8 stages reuses places: as many as stages need at a time, whatever the number of microbatches.
#[test]
fn places_are_used_again() {
    let places = |microbatches| {
        let shape = Shape::new(8, 1, microbatches).unwrap();
        let costs = Costs::uniform(shape, PassTimes::new(Nanos(1), Nanos(1), Nanos(1)), Nanos(0));
        let problem = Problem::new(shape, costs).unwrap();
        let schedule = Family::OneFOneB.schedule(&problem).unwrap();
        CompiledOrder::new(&schedule).unwrap().slots
    };
    assert_eq!(places(64), places(1024));
    assert!(places(64) < 64, "{}", places(64));
}

#[test]
fn questions_that_lanes_leave_to_others() {
    let mut rng = SplitMix64::seed_from_u64(1);
    let shape = Shape::new(3, 1, 4).unwrap();
    let schedule = random_order(shape, Placement::Looped, &mut rng);
    let costs = random_costs(shape, Placement::Looped, 1000, &mut rng);
    let mut noise = Stragglers::new(3, 1);
    assert!(NoisyOrder::new(&schedule, &costs, &noise).is_some());
    let work = [1.0, 2.0, 1.0, 1.0].map(|factor| Work::alike(factor).unwrap());
    let unequal = costs.clone().with_microbatch_work(MicrobatchWork::new(work.to_vec()));
    assert!(NoisyOrder::new(&schedule, &unequal, &noise).is_none());
    let order = CompiledOrder::new(&schedule).unwrap();
    assert_eq!(Scenarios::new(&order).set(0, &unequal), Ok(false));
    let others = random_costs(Shape::new(2, 1, 4).unwrap(), Placement::Looped, 9, &mut rng);
    assert!(Scenarios::new(&order).set(0, &others).is_err());
    assert!(NoisyOrder::new(&schedule, &others, &noise).is_none());
    let profile = Profile::new(&[(Nanos(5), 2.0)]).unwrap();
    noise.slow_over_time(Target::Stage(1), &profile).unwrap();
    assert!(NoisyOrder::new(&schedule, &costs, &noise).is_none());
}
