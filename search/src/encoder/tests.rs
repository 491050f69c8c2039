use std::collections::HashMap;

use pipeline::{
    Costs, Encoder, EncoderKind, Family, Footprint, Footprints, Kind, Limit, MicrobatchWork, Pass,
    PassTimes, Problem, Schedule, Shape, Slot, Value, Work,
};
use proptest::prelude::*;
use sim::encoder::{EncoderOperation, EncoderSpan};
use sim::graph::Times;

use super::*;

fn ms(time: u64) -> Nanos {
    Nanos(time * 1_000_000)
}

fn problem((stages, chunks, microbatches): (u64, u64, u64), times: [u64; 3], hop: u64) -> Problem {
    let shape = Shape::new(stages, chunks, microbatches).unwrap();
    let [forward, input, weight] = times.map(Nanos);
    let times = PassTimes::new(forward, input, weight);
    Problem::new(shape, Costs::uniform(shape, times, Nanos(hop))).unwrap()
}

fn encoder(times: [u64; 3], layers: u64, transfer: u64) -> Encoder {
    let [forward, input, weight] = times.map(Nanos);
    let times = PassTimes::new(forward, input, weight);
    Encoder::new(times, layers, Nanos(transfer), Bytes(1)).unwrap()
}

fn beside<'a>(problem: &'a Problem, schedule: &'a Schedule, encoder: &'a Encoder) -> Beside<'a> {
    let (costs, footprints) = (problem.costs(), problem.footprints());
    Beside { schedule, costs, footprints, encoder, limits: None }
}

fn search(problem: &Problem, schedule: &Schedule, encoder: &Encoder) -> FoundEncoder {
    let beside = beside(problem, schedule, encoder);
    search_encoder(&beside, ModelOrder::Kept, (1, 0), &|| false).unwrap()
}

/// Checks a timeline from the definition of the problem alone: every operation once, for its time, after what it
/// needs, and one at a time on a stage.
fn check(problem: &Problem, schedule: &Schedule, encoder: &Encoder, found: &FoundEncoder) {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let mut ends: HashMap<Pass, (usize, u64)> = HashMap::new();
    let mut layers: HashMap<(EncoderKind, u32), Vec<(usize, EncoderSpan)>> = HashMap::new();
    for (stage, spans) in found.timeline.stages.iter().enumerate() {
        let mut free = 0;
        let mut slots = Vec::new();
        for span in spans {
            assert!(span.start.0 >= free, "overlap on stage {stage}");
            free = span.end.0;
            match span.operation {
                EncoderOperation::Slot(slot) => {
                    slots.push(slot);
                    assert_eq!(span.end.0 - span.start.0, problem.costs().of_slot(slot).0);
                    for pass in slot.passes() {
                        assert!(ends.insert(pass, (stage, span.end.0)).is_none());
                    }
                }
                EncoderOperation::Encoder(run) => {
                    assert_eq!(span.end.0 - span.start.0, encoder.time(run).0);
                    layers.entry((run.kind, run.microbatch)).or_default().push((stage, *span));
                }
            }
        }
        assert!(schedule.orders()[stage].slots().eq(slots), "another order on stage {stage}");
    }
    check_model(problem, schedule, found, &ends);
    let entry = placement.stage(shape, 0, 0);
    for microbatch in 0..shape.microbatches() {
        let transfer = |stage| if stage == entry { 0 } else { encoder.transfer().0 };
        let forward = pass_of(encoder, &layers[&(EncoderKind::Forward, microbatch)]);
        assert_eq!(forward.0, usize::from(found.stages[microbatch as usize]));
        let first = start_of(found, Pass::f(0, microbatch));
        assert!(forward.2 + transfer(forward.0) <= first, "F of {microbatch} before its encoder");
        if encoder.is_frozen() {
            assert!(!layers.contains_key(&(EncoderKind::Backward, microbatch)));
            continue;
        }
        let backward = pass_of(encoder, &layers[&(EncoderKind::Backward, microbatch)]);
        assert_eq!(backward.0, forward.0, "activations lie on another stage");
        let gradient = [Pass::b(0, microbatch), Pass::bw(0, microbatch)];
        let gradient = gradient.iter().find_map(|pass| ends.get(pass)).unwrap().1;
        assert!(gradient + transfer(backward.0) <= backward.1, "backward of {microbatch} too soon");
    }
}

fn check_model(
    problem: &Problem,
    schedule: &Schedule,
    found: &FoundEncoder,
    ends: &HashMap<Pass, (usize, u64)>,
) {
    let shape = schedule.shape();
    assert_eq!(ends.len(), schedule.passes());
    for (stage, spans) in found.timeline.stages.iter().enumerate() {
        for span in spans {
            let EncoderOperation::Slot(slot) = span.operation else { continue };
            for value in slot.passes().flat_map(|pass| pass.needs(shape)) {
                let makers = match value {
                    Value::Output { chunk, microbatch } => vec![Pass::f(chunk, microbatch)],
                    Value::Gradient { chunk, microbatch } => {
                        vec![Pass::b(chunk, microbatch), Pass::bw(chunk, microbatch)]
                    }
                    _ => unreachable!(),
                };
                let (from, end) = *makers.iter().find_map(|pass| ends.get(pass)).unwrap();
                let hop = problem.costs().hops().between(from, stage).0;
                assert!(end + hop <= span.start.0, "{slot:?} before {value:?}");
            }
        }
    }
}

fn start_of(found: &FoundEncoder, wanted: Pass) -> u64 {
    let spans = found.timeline.stages.iter().flatten();
    let has = |span: &&EncoderSpan| match span.operation {
        EncoderOperation::Slot(slot) => slot.passes().any(|pass| pass == wanted),
        EncoderOperation::Encoder(_) => false,
    };
    spans.into_iter().find(has).unwrap().start.0
}

/// Stage, start and end of the layers of a pass, which are all there, in turn and on one stage.
fn pass_of(encoder: &Encoder, spans: &[(usize, EncoderSpan)]) -> (usize, u64, u64) {
    let (mut next, stage) = (0, spans[0].0);
    for &(on, span) in spans {
        let EncoderOperation::Encoder(run) = span.operation else { unreachable!() };
        assert_eq!((run.first, on), (next, stage));
        next += run.layers;
    }
    assert_eq!(next, encoder.layers());
    (stage, spans[0].1.start.0, spans[spans.len() - 1].1.end.0)
}

const FAMILIES: [(Family, u64); 9] = [
    (Family::GPipe, 1),
    (Family::OneFOneB, 1),
    (Family::ZbH1, 1),
    (Family::ZbH2, 1),
    (Family::Interleaved, 2),
    (Family::Interleaved, 3),
    (Family::ZbV, 2),
    (Family::VHalf, 2),
    (Family::OneFOneBOverlap, 1),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_timeline_holds(
        (family, chunks) in proptest::sample::select(&FAMILIES[..]),
        stages in 1u64..5,
        rounds in 1u64..4,
        times in [1u64..40, 1u64..40, 1u64..40],
        hop in 0u64..10,
        of_encoder in [0u64..60, 0u64..60, 0u64..40],
        (layers, transfer, frozen) in (1u32..6, 0u64..20, any::<bool>()),
        factors in proptest::collection::vec(0.0f64..3.0, 12),
        is_unequal in any::<bool>(),
    ) {
        let microbatches = stages * rounds;
        let problem = problem((stages, chunks, microbatches), times, hop);
        let shape = problem.shape();
        let Ok(schedule) = family.schedule(&problem) else { return Ok(()) };
        let of_encoder = if frozen { [of_encoder[0], 0, 0] } else { of_encoder };
        let mut encoder = encoder(of_encoder, layers.into(), transfer);
        if is_unequal {
            let each = factors.iter().take(shape.microbatches() as usize);
            let each = each.map(|&factor| Work::alike(factor).unwrap()).collect();
            encoder = encoder.with_microbatch_work(MicrobatchWork::new(each));
        }
        let found = search(&problem, &schedule, &encoder);
        check(&problem, &schedule, &encoder, &found);
        let step = found.timeline.step();
        prop_assert!(step >= found.bound, "{step} below the bound {}", found.bound);
        let all = encoder_bound(problem.costs(), &encoder, shape.stages(), shape.microbatches());
        prop_assert!(all <= step);
        for place in [EncoderPlace::First, EncoderPlace::Own(1), EncoderPlace::Spread] {
            let Ok(placed) = place_encoder(&problem, family, &encoder, (place, None)) else { continue };
            let ends = placed.timeline.stages.iter().flatten().map(|span| span.end);
            let end = ends.max().unwrap_or_default();
            // Times of a microbatch of unequal work are rounded chunk by chunk.
            let passes = if is_unequal { placed.schedule.passes() as u64 } else { 0 };
            prop_assert!(all <= end + Nanos(passes), "{place:?} takes {end}, below the bound {all}");
        }
        let alone = sim::Replay::new().metrics(&schedule, problem.costs()).unwrap().makespan();
        prop_assert!(alone <= step, "{step} below the model alone, {alone}");
    }
}

/// All orders of a tiny instance, by brute force over stages and places.
fn least_step(problem: &Problem, schedule: &Schedule, encoder: &Encoder) -> Nanos {
    let step = EncoderStep::new(&beside(problem, schedule, encoder), ModelOrder::Kept).unwrap();
    let mut orders = step.graph.orders_by(|&number| number);
    let is_slot =
        |number: &u32| matches!(step.operations[*number as usize], EncoderOperation::Slot(_));
    orders.operations.iter_mut().for_each(|order| order.retain(is_slot));
    let layers: Vec<u32> = step.graph.numbers().filter(|number| !is_slot(number)).collect();
    let mut best = Nanos(u64::MAX);
    extend(&step, &layers, &orders, &mut best);
    best
}

/// Inserts the first of `layers` in every place of `orders`, and so on.
fn extend(step: &EncoderStep, layers: &[u32], orders: &Orders, best: &mut Nanos) {
    let Some((&layer, rest)) = layers.split_first() else {
        if Times::of(&step.graph, orders).is_some() {
            *best = step.timeline(orders).unwrap().step().min(*best);
        }
        return;
    };
    let group = step.graph.operation(layer).group as usize;
    let is_first =
        step.graph.numbers().find(|&one| step.graph.operation(one).group as usize == group);
    for stage in 0..orders.operations.len() {
        if is_first != Some(layer) && orders.machines[group] as usize != stage {
            continue;
        }
        for at in 0..=orders.operations[stage].len() {
            let mut next = orders.clone();
            next.machines[group] = u32::try_from(stage).unwrap();
            next.operations[stage].insert(at, layer);
            extend(step, rest, &next, best);
        }
    }
}

#[test]
fn no_order_of_a_small_step_is_better() {
    let mut equal = 0;
    for (at, times) in [[4, 4, 3], [2, 3, 3], [5, 4, 0], [3, 3, 3]].into_iter().enumerate() {
        for of_encoder in [[3, 4, 2], [6, 3, 3], [1, 1, 1]] {
            let problem = problem((2, 1, 2), times, at as u64 % 2);
            let schedule = Family::OneFOneB.schedule(&problem).unwrap();
            let encoder = encoder(of_encoder, 1, 1);
            let found = search(&problem, &schedule, &encoder).timeline.step();
            let least = least_step(&problem, &schedule, &encoder);
            assert!(found >= least, "{found} below all orders, {least}");
            equal += usize::from(found == least);
        }
    }
    assert_eq!(equal, 12);
}

#[test]
fn an_encoder_that_fits_into_bubbles_costs_its_first_and_last_pass() {
    // By hand: 1F1B of 4 stages waits 3 (F + B) on stage 0. An encoder of 1 ms forward and 1 ms backward on four
    // stages: four forwards at once, then the model; each later forward lies in a bubble.
    let problem = problem((4, 1, 4), [10_000_000, 10_000_000, 10_000_000], 0);
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let encoder = encoder([1_000_000, 1_000_000, 0], 2, 0);
    let found = search(&problem, &schedule, &encoder);
    // The model alone takes (4 + 3) 30 ms.
    assert_eq!(found.timeline.step(), ms(210 + 2));
    assert_eq!(found.bound, ms(210 + 2));
}

/// Random steps, the same at each run.
fn laws() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig {
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::with_cases(8 * crate::times_as_many())
    }
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn less_work_is_never_slower_and_units_do_not_matter(
        (family, chunks) in proptest::sample::select(&FAMILIES[..8]),
        (stages, rounds) in (1u64..4, 1u64..3),
        times in [1u64..40, 1u64..40, 1u64..40],
        (forward, backward) in (1u64..60, 1u64..60),
        (layers, unit) in (1u64..4, 2u64..500),
    ) {
        let shape = (stages, chunks, stages * rounds);
        let step = |unit: u64, forward: u64, backward: u64| {
            let problem = problem(shape, times.map(|time| time * unit * layers), 0);
            let schedule = family.schedule(&problem).unwrap();
            let all = [forward * unit * layers, backward * unit * layers, 0];
            let encoder = encoder(all, layers, 0);
            [ModelOrder::Kept, ModelOrder::Free].map(|model| {
                let beside = beside(&problem, &schedule, &encoder);
                search_encoder(&beside, model, (1, 0), &|| false).unwrap().timeline.step()
            })
        };
        let trained = step(1, forward, backward);
        let frozen = step(1, forward, 0);
        let nothing = step(1, 0, 0);
        let scaled = step(unit, forward, backward);
        for at in 0..2 {
            prop_assert!(nothing[at] <= frozen[at] && frozen[at] <= trained[at]);
            prop_assert_eq!(scaled[at], Nanos(trained[at].0 * unit));
        }
        prop_assert!(trained[1] <= trained[0], "a free order costs more");
        let problem = problem(shape, times.map(|time| time * layers), 0);
        let schedule = family.schedule(&problem).unwrap();
        let alone = sim::Replay::new().metrics(&schedule, problem.costs()).unwrap().makespan();
        prop_assert_eq!(nothing[0], alone);
    }
}

#[test]
fn threads_do_not_change_the_order() {
    let problem = problem((4, 1, 12), [20, 21, 19], 1);
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let encoder = encoder([17, 13, 14], 5, 3);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| search(&problem, &schedule, &encoder).timeline)
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn a_limit_of_memory_is_kept() {
    let shape = Shape::new(4, 1, 16).unwrap();
    let plain = problem((4, 1, 16), [20, 20, 20], 0);
    let held = Footprint { until_backward: Bytes(1), until_weight: Bytes(0) };
    let problem = plain.with_footprints(Footprints::uniform(shape, held)).unwrap();
    let schedule = Family::OneFOneB.schedule(&problem).unwrap();
    let encoder = encoder([10, 10, 10], 2, 0);
    let free = search(&problem, &schedule, &encoder);
    let most = free.held.iter().max().unwrap().0;
    let limit = most - 1;
    let limited = problem.clone().with_limit(Limit::Bytes(Bytes(limit)));
    let limits = limited.limits(schedule.placement()).unwrap().unwrap();
    let beside = Beside {
        schedule: &schedule,
        costs: problem.costs(),
        footprints: problem.footprints(),
        encoder: &encoder,
        limits: Some(&limits),
    };
    let found = search_encoder(&beside, ModelOrder::Kept, (1, 0), &|| false).unwrap();
    assert!(found.fits && found.held.iter().all(|held| held.0 <= limit), "{:?}", found.held);
    check(&problem, &schedule, &encoder, &found);
}

#[test]
fn an_encoder_in_front_of_the_first_chunk_is_a_longer_chunk() {
    // By hand: one microbatch goes down, 6 + 3 * 10, and up, 3 * 20 + 9.
    let problem = problem((3, 1, 1), [10, 12, 8], 0);
    let encoder = encoder([6, 5, 4], 3, 0);
    let placed =
        place_encoder(&problem, Family::OneFOneB, &encoder, (EncoderPlace::First, None)).unwrap();
    let end = placed.timeline.stages.iter().flatten().map(|span| span.end.0).max().unwrap();
    assert_eq!(end, 36 + 69);
    let slots = placed.timeline.stages[0].iter();
    assert!(slots.clone().any(|span| span.slot == Slot::One(Pass::f(0, 0)) && span.end.0 == 16));
    assert!(slots.into_iter().any(|span| span.slot.passes().any(|pass| pass.kind == Kind::BW)));
}

#[test]
fn a_frozen_encoder_that_is_spread_takes_no_longer_than_a_trained_one() {
    for (chunks, family) in [(1, "1f1b"), (2, "1f1b-i"), (1, "zb-h1")] {
        for (stages, microbatches) in [(4, 8), (8, 8), (8, 16)] {
            let half = chunks * 2;
            let times = [52_000 / half, 25_000 / half, 25_000 / half];
            let problem = problem((stages, chunks, microbatches), times, 0);
            let family = Family::named(family).unwrap();
            let step = |backward| {
                let encoder = encoder([89_000, backward, 0], 24, 0);
                let place = (EncoderPlace::Spread, None);
                let placed = place_encoder(&problem, family, &encoder, place).unwrap();
                pipeline::Metrics::of(&placed.timeline).makespan()
            };
            let frozen = step(0);
            for backward in [1_000, 40_000, 89_000, 108_000, 178_000, 300_000] {
                let trained = step(backward);
                assert!(frozen <= trained, "{family:?} {stages} {backward}: {frozen} {trained}");
            }
        }
    }
}

#[test]
fn parts_of_an_encoder_add_up_wherever_they_lie() {
    let problem = problem((4, 1, 8), [100, 90, 80], 0);
    let encoder = encoder([70, 60, 50], 10, 0);
    for place in
        [EncoderPlace::First, EncoderPlace::Own(1), EncoderPlace::Own(3), EncoderPlace::Spread]
    {
        let parts = encoder_parts(&problem, &encoder, (place, None)).unwrap();
        let all = |of: &[PassTimes]| {
            let sum = |time: fn(&PassTimes) -> Nanos| of.iter().map(time).sum::<Nanos>().0;
            [sum(|one| one.forward), sum(|one| one.backward_input), sum(|one| one.backward_weight)]
        };
        assert_eq!(all(&parts.encoder), [70, 60, 50], "{place:?}");
        assert_eq!(all(&parts.model), [400, 360, 320], "{place:?}");
    }
    let refused = |own| encoder_parts(&problem, &encoder, (EncoderPlace::Own(own), None)).is_err();
    assert!(refused(0) && refused(4));
}
