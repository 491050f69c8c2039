//! The engine under everything at once: whatever it is asked, a run obeys the laws, or the reason
//! why it stands still is true.

#![allow(clippy::cast_possible_truncation)] // What is drawn is small.

use std::collections::BTreeMap;

use pipeline::{
    Bandwidth, Bytes, Costs, Family, Footprint, Footprints, Nanos, PassTimes, Problem, Shape,
    Vocabulary,
};
use proptest::prelude::*;
use sim::boundary::{Boundary, GradientReduction, Synchronisation};
use sim::cluster::{Cluster, ClusterSpec, Host, Inter, Intra, Seating, Seats};
use sim::engine::{Communication, EngineError, Messages, Protocol, Run, StandstillCause};
use sim::{Hardware, Sharing};

use crate::bench::{self, Bench};
use crate::draw::{cases, chunks};

/// Draws whole numbers below a bound, one after the other, from `numbers`.
fn draw(numbers: &[u64]) -> impl FnMut(u64) -> u64 {
    let mut at = 0;
    move |bound| {
        at += 1;
        numbers[at % numbers.len()].rotate_left(7 * (at / numbers.len()) as u32) % bound
    }
}

fn cluster(draw: &mut impl FnMut(u64) -> u64) -> Cluster {
    let mut bandwidth = || Bandwidth::new([1, 3, 1_000_000_000][draw(3) as usize].max(1));
    let [intra, inter] = [bandwidth(), bandwidth()].map(Result::unwrap);
    let devices_per_node = 1 + draw(3);
    Cluster::new(ClusterSpec {
        nodes: 1 + draw(3),
        devices_per_node,
        memory: None,
        intra: Intra { bandwidth: intra, latency: Nanos(draw(9)) },
        host: Some(Host { bandwidth: intra, devices_per_link: 1 }),
        inter: Inter {
            nics: 1 + draw(devices_per_node),
            bandwidth: inter,
            latency: Nanos(draw(9)),
            oversubscription_percent: 100 + 150 * draw(2),
        },
    })
    .unwrap()
}

fn boundary(draw: &mut impl FnMut(u64) -> u64) -> Boundary {
    let mut time = || Nanos(draw(40));
    let (reduction, exchange, optimizer, rollback) = (time(), time(), time(), time());
    let synchronisation = match draw(3) {
        0 => Synchronisation::Asynchronous,
        1 => Synchronisation::Barrier,
        _ => Synchronisation::PostValidation { failing: vec![draw(3) as u32], rollback },
    };
    let reduction = GradientReduction { time: reduction, overlapped: draw(2) == 0 };
    Boundary { reduction, synchronisation, exchange, optimizer }
}

pub(crate) fn question(numbers: &[u64]) -> Option<Bench> {
    let mut draw = draw(numbers);
    let family = Family::ALL[draw(Family::ALL.len() as u64) as usize];
    let shape = Shape::new(1 + draw(6), chunks(family), 1 + draw(8)).unwrap();
    // Chunks without a backward: no gradient has bytes before them.
    let frozen = if draw(6) == 0 { draw(3) as u16 } else { 0 };
    let mut time = |chunk| match PassTimes::new(Nanos(draw(30)), Nanos(draw(30)), Nanos(draw(30))) {
        times if chunk < frozen => PassTimes::new(times.forward, Nanos(0), Nanos(0)),
        times => times,
    };
    let costs = Costs::new((0..shape.chunks()).map(&mut time).collect(), Nanos(0));
    let costs = bench::with_shards(costs, shape, &[[draw(30), draw(30), 0], [draw(30), 1, 0]]);
    let schedule = family.schedule(&Problem::new(shape, costs.clone()).unwrap()).ok()?;
    let cluster = cluster(&mut draw);
    let stages = shape.stages();
    let seating = match draw(3) {
        0 => Seating::Contiguous,
        1 => Seating::AcrossNodes,
        _ => {
            let devices = cluster.devices() as u64;
            Seating::Explicit((0..stages).map(|_| draw(devices) as usize).collect())
        }
    };
    let seats = Seats::new(&cluster, stages, &seating).unwrap();
    let protocol = match draw(4) {
        ahead @ 0..2 => Protocol::Rendezvous { ahead: ahead as u32 },
        _ => Protocol::Eager,
    };
    let sharing = if draw(2) == 0 { Sharing::Fair } else { Sharing::Queue };
    let communication = Communication { sharing, protocol, blocking: draw(3) == 0 };
    let mut held = |_| Footprint { until_backward: Bytes(draw(20)), until_weight: Bytes(draw(20)) };
    let footprints = Footprints::new((0..shape.chunks()).map(&mut held).collect());
    let resident = (0..stages).map(|_| Bytes(draw(20))).collect();
    let devices = cluster.devices();
    let limits = (draw(2) == 0).then(|| (0..devices).map(|_| Bytes(20 + draw(150))).collect());
    let (bytes, steps, boundary) = (draw(50), 1 + draw(3) as u32, boundary(&mut draw));
    Some(Bench {
        schedule,
        costs,
        footprints,
        hardware: Hardware {
            communication,
            messages: Messages { bytes: Bytes(bytes) },
            steps,
            boundary,
            resident,
            waits: limits.is_some(),
            capacities: limits,
            ..Hardware::new(cluster, seats)
        },
    })
}

/// Every slot once per step and in order, no device doing two at once, every value there before
/// its use.
fn check_law(question: &Bench, run: &Run) {
    let met: BTreeMap<_, _> =
        run.collectives.iter().map(|one| ((one.step, one.value), one.end)).collect();
    let arrived: BTreeMap<_, _> =
        run.transfers.iter().map(|one| ((one.step, one.value, one.to), one.end)).collect();
    let mut on_device: BTreeMap<usize, Vec<(Nanos, Nanos)>> = BTreeMap::new();
    for (stage, spans) in run.timeline.stages.iter().enumerate() {
        let order: Vec<_> = question.schedule.orders()[stage].slots().collect();
        assert_eq!(spans.len(), order.len() * question.hardware.steps as usize);
        for (at, span) in spans.iter().enumerate() {
            let step = (at / order.len()) as u32;
            assert_eq!(span.slot, order[at % order.len()]);
            assert!(step == 0 || span.start >= run.releases[step as usize - 1][stage]);
            on_device
                .entry(question.hardware.seats.device(stage))
                .or_default()
                .push((span.start, span.end));
            for value in span.slot.passes().flat_map(|pass| pass.needs(question.schedule.shape())) {
                let (shape, placement) = (question.schedule.shape(), question.schedule.placement());
                if placement.maker(shape, value) == Some(stage) {
                    continue;
                }
                let arrived = match value.is_collective(shape) {
                    true => met[&(step, value)],
                    false => arrived[&(step, value, stage)],
                };
                assert!(arrived <= span.start);
            }
        }
        assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
    for spans in on_device.values_mut() {
        spans.sort();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "a device does two things");
    }
}

/// Between any begin and any end, each wire has carried no more than it can.
fn check_wires(question: &Bench, run: &Run) {
    let mut on_wire: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for one in &run.transfers {
        let [from, to] = [one.from, one.to].map(|stage| question.hardware.seats.device(stage));
        assert!(one.made <= one.begin && one.begin <= one.end);
        // A gradient for chunks that are not trained has no bytes.
        if question.costs.is_empty(one.value) {
            continue;
        }
        let route = question.hardware.cluster.route(from, to);
        for wire in route.wires {
            on_wire.entry(wire).or_default().push((one.begin.0, one.end.0 - route.latency.0));
        }
    }
    for (wire, transfers) in on_wire {
        let bandwidth =
            u128::from(question.hardware.cluster.wires()[wire].bandwidth.bytes_per_second());
        for &(begin, _) in &transfers {
            for &(_, end) in &transfers {
                let inside = transfers.iter().filter(|one| one.0 >= begin && one.1 <= end).count();
                let nanobytes =
                    inside as u128 * u128::from(question.hardware.messages.bytes.0) * 1_000_000_000;
                assert!(nanobytes <= bandwidth * u128::from(end.saturating_sub(begin)));
            }
        }
    }
}

fn check_standstill(question: &Bench, stuck: &EngineError) {
    let EngineError::Stuck(standstills) = stuck else { panic!("{stuck}") };
    assert!(!standstills.is_empty());
    let stands = |stage: usize| standstills.iter().any(|one| one.stage == stage);
    let limit_of = |stage: usize| {
        question
            .hardware
            .capacities
            .as_ref()
            .map(|limits| limits[question.hardware.seats.device(stage)])
    };
    for one in standstills {
        assert!(one.step < question.hardware.steps);
        match one.cause {
            StandstillCause::Value { on } => assert!(on != one.stage && stands(on), "{stuck}"),
            StandstillCause::Collective => {
                let shape = question.schedule.shape();
                assert!(shape.vocabulary() != Vocabulary::Whole && standstills.len() > 1);
            }
            StandstillCause::Memory { needs, limit } => {
                assert!(needs > limit && Some(limit) == limit_of(one.stage), "{stuck}");
            }
            StandstillCause::Unreceived { by } => {
                assert!(question.hardware.communication.blocking, "{stuck}");
                assert!(
                    question.hardware.communication.protocol != Protocol::Eager && stands(by),
                    "{stuck}"
                );
            }
            StandstillCause::HostCopy => panic!("nothing is offloaded: {stuck}"),
            StandstillCause::Device => {
                let device = |stage| question.hardware.seats.device(stage);
                let other = |two: &&sim::engine::Standstill| {
                    two.stage != one.stage && device(two.stage) == device(one.stage)
                };
                assert!(standstills.iter().any(|two| other(&two)), "{stuck}");
            }
            StandstillCause::Boundary => assert!(one.step > 0 && standstills.len() > 1, "{stuck}"),
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_run_obeys_the_laws_or_its_standstill_is_true(numbers in prop::collection::vec(any::<u64>(), 40)) {
        let Some(question) = question(&numbers) else { return Ok(()) };
        let result = question.try_run();
        prop_assert_eq!(&result, &question.try_run());
        match result {
            Ok(run) => {
                check_law(&question, &run);
                check_wires(&question, &run);
            }
            Err(stuck) => check_standstill(&question, &stuck),
        }
    }
}
