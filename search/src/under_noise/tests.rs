#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

use pipeline::{Bytes, Costs, Footprint, Footprints, Hops, Limits, PassTimes, Placement, Shape};
use sim::straggler::{Jitter, Profile, Target};
use sim::timed;

use super::draws::BLOCK;
use super::walk::Walk;
use super::*;
use crate::chance::Chance;
use crate::local::Local;
use crate::start;
use crate::timing::Clock;
use crate::{Objective, bounds};

/// A pipeline of unequal stages; some chunks recompute if that is asked for.
fn instance(
    [p, v, m]: [u64; 3],
    placement: Placement,
    objective: Objective,
    recomputes: bool,
) -> Instance {
    let shape = Shape::new(p, v, m).unwrap();
    let times = (0..u64::from(shape.chunks())).map(|chunk| {
        PassTimes::new(
            Nanos(50_000 + 7_000 * chunk % 11_000),
            Nanos(60_000 + 5_000 * chunk % 13_000),
            Nanos(30_000 + 3_000 * chunk % 7_000),
        )
    });
    let again = |chunk| (recomputes && chunk % 2 == 0).then_some(Nanos(40_000));
    let kept = |chunk| (recomputes && chunk % 2 == 0).then_some(Bytes(4));
    // Links differ where chunks recompute.
    let links = match (shape.stages(), recomputes) {
        (3, true) => vec![Nanos(9_000), Nanos(20_000), Nanos(4_000)],
        _ => vec![Nanos(9_000)],
    };
    let hops = Hops::placed(shape, placement, &links).unwrap();
    let costs = Costs::new(times.collect(), Nanos(0)).with_hops(hops);
    let costs = costs.with_recompute((0..shape.chunks()).map(again).collect());
    let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(7) };
    let footprints = Footprints::uniform(shape, held);
    let footprints = footprints.with_kept((0..shape.chunks()).map(kept).collect());
    let limits = Limits::new(shape, &[Bytes(20 * p * v + 20)]).unwrap();
    Instance::new(shape, placement, costs, footprints, Some(limits), objective).unwrap()
}

fn stormy(stages: usize, varying: bool) -> Stragglers {
    let mut noise = Stragglers::new(stages, 5);
    noise.slow(Target::Stage(1), 1.3).unwrap();
    noise.slow(Target::Link(0, 1), 3.0).unwrap();
    noise.jitter_passes(Jitter::log_normal(0.2).unwrap());
    noise.jitter_hops(Jitter::pareto(2.5).unwrap());
    noise.stall(0.05, Nanos(70_000)).unwrap();
    if varying {
        let profile = Profile::new(&[(Nanos(400_000), 2.0), (Nanos(900_000), 1.0)]).unwrap();
        noise.slow_over_time(Target::Stage(0), &profile).unwrap();
        noise.slow_over_time(Target::Link(1, 2), &profile).unwrap();
    }
    noise
}

const SHAPES: [([u64; 3], Placement); 3] =
    [([3, 1, 6], Placement::Looped), ([3, 2, 6], Placement::Looped), ([3, 2, 7], Placement::Vee)];

/// Block timing of the search equals the simulator replica by replica.
#[test]
fn blocks_of_replicas_are_timed_as_the_simulator_does() {
    for (size, placement) in SHAPES {
        for (objective, recomputes, varying) in [
            (Objective::Span, false, false),
            (Objective::Makespan, true, false),
            (Objective::Span, true, true),
        ] {
            let instance = instance(size, placement, objective, recomputes);
            let compiled = CompiledInstance::of(&instance);
            let noise = stormy(3, varying);
            let draws = Draws::new(&instance, &compiled, &noise, 1..3);
            let mut walk = Walk::new(&compiled);
            let mut clock = Clock::default();
            let published = start::published(&instance, start::Starts::All, &compiled, &mut clock);
            let sequences = published.into_iter().map(|(_, _, sequence)| sequence);
            for sequence in sequences.chain([start::one_by_one(&compiled)]) {
                let schedule = compiled.schedule(&instance, &sequence).unwrap();
                let local = Local::new(&compiled, &sequence, &mut clock).unwrap();
                assert!(walk.find(local.order()));
                for block in 0..2 {
                    for (at, time) in walk.time(&draws, block).into_iter().enumerate() {
                        let replica = ((block + 1) * BLOCK + at) as u64;
                        let timing = noise.sample(replica, 0);
                        let metrics = timed::metrics(&schedule, &timing.timing(&instance.costs));
                        assert_eq!(objective.of(&metrics).0, time as u64, "{size:?} {replica}");
                    }
                }
            }
        }
    }
}

fn found(instance: &Instance, noise: &Stragglers, statistic: Statistic) -> FoundUnderNoise {
    let under = UnderNoise { noise, statistic, replicas: 400, known: &[] };
    let effort = Effort { times: Some(0), seed: 3 };
    search_under_noise(instance, &under, effort, |_| {}, &|| false).unwrap()
}

/// With zero effort only the proposed orders are validated: the answer is no worse than the nominal order.
#[test]
fn the_answer_is_the_nominal_order_unless_another_is_better_beyond_chance() {
    for (size, placement) in SHAPES {
        let instance = instance(size, placement, Objective::Span, false);
        for noise in [stormy(3, false), stormy(3, true)] {
            for statistic in [Statistic::Mean, Statistic::P95] {
                let found = found(&instance, &noise, statistic);
                assert!(found.answer.value <= found.nominal.value);
                assert_eq!(found.is_nominal, found.answer == found.nominal);
                assert_eq!(found.is_nominal, !found.robust_gain.is_beyond_chance());
                let under = UnderNoise { noise: &noise, statistic, replicas: 400, known: &[] };
                let schedule = found.answer.schedule.clone();
                let again = HeldOut::of(&instance, &under, schedule, &|| false).unwrap();
                assert_eq!(ValidatedOrder::of(&again, statistic, 400), found.answer);
            }
        }
    }
}

#[test]
fn a_search_that_is_stopped_judges_the_best_by_then() {
    let instance = instance([3, 1, 6], Placement::Looped, Objective::Span, false);
    let noise = stormy(3, false);
    let under = UnderNoise { noise: &noise, statistic: Statistic::Mean, replicas: 50, known: &[] };
    let effort = Effort { times: None, seed: 0 };
    let stopped = search_under_noise(&instance, &under, effort, |_| {}, &|| true).unwrap();
    assert!(stopped.interrupted);
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 30_000;
    let later = search_under_noise(&instance, &under, effort, |_| {}, &stop).unwrap();
    assert!(later.interrupted && later.answer.value <= stopped.nominal.value);
}

#[test]
fn what_cannot_be_searched_under_noise_is_refused() {
    let huge = Shape::new(2, 1, 100_000).unwrap();
    let costs = Costs::uniform(huge, PassTimes::default(), Nanos(0));
    let footprints = Footprints::uniform(huge, Footprint::default());
    let huge = Instance::new(huge, Placement::Looped, costs, footprints, None, Objective::Span);
    let noise = stormy(2, false);
    let under = UnderNoise { noise: &noise, statistic: Statistic::Mean, replicas: 5, known: &[] };
    let effort = Effort { times: Some(0), seed: 0 };
    let refused = search_under_noise(&huge.unwrap(), &under, effort, |_| {}, &|| false);
    assert_eq!(refused.unwrap_err(), SearchError::TooLargeUnderNoise(600_000));
}

/// Every order takes at least the bound: in the mean over its replicas, but for five standard errors, and in
/// each of them where no time falls below a least one.
#[test]
fn no_order_undercuts_the_bounds() {
    for (size, placement) in SHAPES {
        for objective in [Objective::Span, Objective::Makespan] {
            let instance = instance(size, placement, objective, true);
            let mut noise = Stragglers::new(3, 8);
            noise.slow(Target::Stage(2), 1.4).unwrap();
            noise.slow(Target::Link(0, 1), 3.0).unwrap();
            noise.jitter_passes(Jitter::pareto(4.0).unwrap());
            noise.stall(0.02, Nanos(50_000)).unwrap();
            let mean = bound_under_noise(&instance, &noise, Statistic::Mean).unwrap().cost;
            let least = bound_under_noise(&instance, &noise, Statistic::P95).unwrap().cost;
            // A stage is slow: the mean is bound to be longer than without noise. Times are 3/4 at the least.
            let nominal = bounds::best(&instance).cost;
            assert!(least < mean && nominal < mean && 4 * least.0 > 3 * nominal.0);
            for times in published_times(&instance, objective, &noise) {
                assert!(times.iter().all(|&time| time >= least.0));
                let times = Summary::of(times, |time| time as f64);
                let error = times.stddev / 200f64.sqrt();
                assert!(times.mean >= mean.0 as f64 - 5.0 * error, "{} {mean}", times.mean);
            }
        }
    }
}

/// Step times of the published orders in 200 replicas of `noise`, order by order.
fn published_times(instance: &Instance, objective: Objective, noise: &Stragglers) -> Vec<Vec<u64>> {
    let compiled = CompiledInstance::of(instance);
    let published =
        start::published(instance, start::Starts::All, &compiled, &mut Clock::default());
    assert!(!published.is_empty());
    let times = |sequence: &[u16]| {
        let schedule = compiled.schedule(instance, sequence).unwrap();
        validation::times(&schedule, (&instance.costs, objective), noise, 200, &|| false).unwrap()
    };
    published.iter().map(|(_, _, sequence)| times(sequence)).collect()
}

#[test]
fn bounds_are_told_only_where_they_are_proved() {
    let of = |objective, statistic, noise: &Stragglers| {
        let instance = instance([3, 1, 6], Placement::Looped, objective, false);
        bound_under_noise(&instance, noise, statistic).map(|bound| bound.cost)
    };
    let with = |change: &dyn Fn(&mut Stragglers)| {
        let mut noise = Stragglers::new(3, 1);
        change(&mut noise);
        noise
    };
    let normal = with(&|noise| noise.jitter_passes(Jitter::normal(0.1).unwrap()));
    let heavy = with(&|noise| noise.jitter_passes(Jitter::pareto(1.2).unwrap()));
    let slow = with(&|noise| noise.slow(Target::Stage(1), 1.5).unwrap());
    for objective in [Objective::Span, Objective::Makespan] {
        assert!(of(objective, Statistic::Mean, &normal).is_some());
        assert_eq!(of(objective, Statistic::P95, &normal), None);
        // The mean of so heavy a tail is not that of the factors drawn; they have a least one all the same.
        assert_eq!(of(objective, Statistic::Mean, &heavy), None);
        assert!(of(objective, Statistic::P99, &heavy).is_some());
        assert_eq!(of(objective, Statistic::Mean, &stormy(3, true)), None);
        // Without chance all figures are the same.
        let all = [Statistic::Mean, Statistic::P95, Statistic::P99];
        let [mean, p95, p99] = all.map(|statistic| of(objective, statistic, &slow));
        assert!(mean.is_some() && mean == p95 && p95 == p99);
    }
}

#[test]
fn differences_are_told_with_their_interval() {
    let one: Vec<u64> = (0..200).map(|at| 1000 + at * 37 % 200).collect();
    let other: Vec<u64> = one.iter().zip(0..).map(|(time, at)| time + 10 + at % 2).collect();
    let mean = Difference::between(Statistic::Mean, &one, &other);
    assert!((mean.by - 10.5).abs() < 1e-9 && mean.is_beyond_chance());
    // The differences scatter by a half: t with 199 degrees of freedom is 1.972.
    let [low, high] = mean.ci95.unwrap();
    let margin = 1.972 * 0.501_254 / 200f64.sqrt();
    assert!((high - mean.by - margin).abs() < 1e-4 && (low + high - 21.0).abs() < 1e-9);
    let p95 = Difference::between(Statistic::P95, &one, &other);
    assert!((10.0..=11.0).contains(&p95.by) && p95.is_beyond_chance());
    assert_eq!(Difference::between(Statistic::P99, &one, &other).ci95, None);
    let same = Difference::between(Statistic::P95, &one, &one);
    assert_eq!((same.by, same.is_beyond_chance()), (0.0, false));
}

/// The window around a percentile, and the mean, by hand.
#[test]
fn energies_are_means_around_the_statistic() {
    let blocks: Vec<[f64; BLOCK]> =
        (0..5).map(|block| std::array::from_fn(|at| (block * BLOCK + at) as f64)).collect();
    let mut sorted = Vec::new();
    assert!((Statistic::Mean.energy(&blocks, &mut sorted) - 79.5).abs() < 1e-9);
    // Of 160 values from 0 on, the numbers 144 to 155.
    assert!((Statistic::P95.energy(&blocks, &mut sorted) - 149.5).abs() < 1e-9);
    let all: Vec<u64> = (1..=100).collect();
    assert!((Statistic::P95.of(&all) - 95.0).abs() < 1e-9);
    assert!((Statistic::P99.of(&all) - 99.0).abs() < 1e-9);
}

/// Changes keep an order whole, within its limits, and what is said of it true.
#[test]
fn annealing_makes_orders_that_take_what_it_says() {
    for (size, placement) in SHAPES {
        let instance = instance(size, placement, Objective::Span, true);
        let compiled = CompiledInstance::of(&instance);
        let noise = stormy(3, false);
        let draws = Draws::new(&instance, &compiled, &noise, 0..3);
        let mut timer = Timer::new(&compiled, &draws, Statistic::P95);
        let sequence = start::one_by_one(&compiled);
        let energy = timer.energy(&sequence).unwrap();
        let cooling = Cooling::between((2_000.0, 100.0), 1.0, 2_000_000);
        let (mut chance, from) = (Chance::new(1, 1), (energy, sequence));
        let ((least, best), _) = timer.anneal(&from, &mut chance, cooling, &|| false);
        assert!(10.0 * least < 9.0 * energy, "{least} {energy}");
        assert_eq!(timer.energy(&best), Some(least));
        let schedule = compiled.schedule(&instance, &best).unwrap();
        let memory = pipeline::Memory::of(&schedule, &instance.footprints).unwrap();
        assert_eq!(memory.over(instance.limits.as_ref().unwrap()), None);
    }
}
