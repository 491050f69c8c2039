use pipeline::{
    Bandwidth, Bytes, Costs, Footprint, Footprints, Nanos, PassTimes, Placement, Problem, Shape,
};
use sim::boundary::{Boundary, GradientReduction, Synchronisation};
use sim::cluster::{Cluster, ClusterSpec, Inter, Intra, Seating, Seats};
use sim::engine::{Messages, Protocol};
use sim::{Hardware, Sharing};

use super::*;

/// Passes of 10, 20 and 30 ns.
const TIMES: PassTimes = PassTimes::new(Nanos(10), Nanos(20), Nanos(30));

/// Devices in nodes of one, behind a NIC that carries a byte in a nanosecond, 5 ns away.
fn hardware(stages: usize, message: u64) -> Hardware {
    let bandwidth = Bandwidth::new(1_000_000_000).unwrap();
    let cluster = Cluster::new(ClusterSpec {
        nodes: stages as u64,
        devices_per_node: 1,
        memory: None,
        intra: Intra { bandwidth, latency: Nanos(0) },
        inter: Inter { nics: 1, bandwidth, latency: Nanos(5), oversubscription_percent: 100 },
        host: None,
    })
    .unwrap();
    let seats = Seats::new(&cluster, stages, &Seating::Contiguous).unwrap();
    Hardware { messages: Messages { bytes: Bytes(message) }, ..Hardware::new(cluster, seats) }
}

fn found(hardware: &Hardware, microbatches: u64, figure: Figure) -> FoundOnHardware {
    let shape = Shape::new(hardware.seats.devices().len() as u64, 1, microbatches).unwrap();
    let costs = Costs::uniform(shape, TIMES, Nanos(0));
    let held = Footprint { until_backward: Bytes(2), until_weight: Bytes(1) };
    let footprints = Footprints::uniform(shape, held);
    let problem = Problem::new(shape, costs.clone()).unwrap();
    let problem = problem.with_footprints(footprints.clone()).unwrap();
    let objective = figure.objective(hardware);
    let asked =
        Instance::new(shape, Placement::Looped, costs, footprints, None, objective).unwrap();
    let instance = where_no_link_is_shared(&asked, hardware, figure);
    let on = OnHardware { hardware, figure, asked: &problem, known: &[] };
    let effort = Effort { times: Some(0), seed: 0 };
    search_on_hardware(&instance, &on, effort, |_| {}, &|| false).unwrap()
}

/// Messages of 100 ns: the wire down carries three of them, one behind the other.
#[test]
fn a_wire_must_carry_all_that_goes_over_it() {
    let mut on = hardware(2, 100);
    on.communication.sharing = Sharing::Queue;
    let found = found(&on, 3, Figure::Makespan);
    assert_eq!(found.alone, [Nanos(105)]);
    // F, three messages, the latency; F and B of the last, the way back, B and W.
    let least = 10 + 300 + 5 + 10 + 20 + 105 + 20 + 30;
    assert_eq!(found.bound.cost, Nanos(least));
    assert!(matches!(found.bound.argument, ArgumentOnHardware::Wire(_)), "{:?}", found.bound);
    // And that is what the best order takes, where they go one by one.
    assert_eq!(found.answer.value, Nanos(least));
}

/// The bound of a step includes the time between two steps: of the busiest stage where there is no barrier.
#[test]
fn a_bound_on_steps_has_what_lies_between_them() {
    let boundary = |synchronisation, overlapped| Boundary {
        reduction: GradientReduction { time: Nanos(7), overlapped },
        synchronisation,
        exchange: Nanos(3),
        optimizer: Nanos(4),
    };
    let alone = found(&hardware(2, 0), 4, Figure::Makespan);
    for (synchronisation, overlapped, between) in [
        (Synchronisation::Barrier, false, 14),
        (Synchronisation::Barrier, true, 14),
        (Synchronisation::Asynchronous, false, 11),
    ] {
        let boundary = boundary(synchronisation.clone(), overlapped);
        let on = Hardware { steps: 3, boundary, ..hardware(2, 0) };
        let found = found(&on, 4, Figure::Step);
        assert_eq!(found.bound.between, Nanos(between));
        assert!(found.bound.cost <= found.answer.value);
        if synchronisation == Synchronisation::Barrier {
            assert_eq!(found.answer.value, alone.answer.value + Nanos(between));
        } else {
            // Four microbatches of 60 ns each, and what lies between.
            assert!(found.bound.cost >= Nanos(4 * 60 + between));
        }
    }
}

/// Where each transfer is a part of the pass that makes its value, the bound has it, too.
#[test]
fn transfers_that_block_are_work() {
    let mut on = hardware(3, 40);
    on.communication.blocking = true;
    let found = found(&on, 5, Figure::Span);
    // The stage between two others sends both F and B.
    assert!(found.bound.cost >= Nanos(5 * (60 + 2 * 45)), "{:?}", found.bound);
    assert!(found.bound.cost <= found.answer.value);
}

/// Values that are sent only when the receiver posts its receive arrive no sooner.
#[test]
fn a_receiver_that_asks_late_only_delays() {
    let mut on = hardware(4, 40);
    on.communication.protocol = Protocol::Rendezvous { ahead: 0 };
    let found = found(&on, 6, Figure::Makespan);
    let eager = self::found(&hardware(4, 40), 6, Figure::Makespan);
    assert_eq!(found.bound, eager.bound);
    assert!(!found.published.is_empty());
    assert!(found.published.iter().all(|(_, one)| one.value >= found.answer.value));
    assert!(found.bound.cost <= found.answer.value);
}

/// With no wire to share, the engine says what the search does.
#[test]
fn without_messages_the_nominal_order_is_the_answer() {
    let found = found(&hardware(4, 0), 8, Figure::Span);
    assert_eq!(found.answer.value, found.nominal_search.cost);
    assert_eq!((found.is_nominal, found.proxy), (true, found.answer.value));
    assert!(found.bound.cost <= found.answer.value);
    assert!(matches!(found.bound.argument, ArgumentOnHardware::NotShared(_)), "{:?}", found.bound);
}
