//! The event engine: equal to replay where nothing is contended, and to hand-derived times where
//! wires and devices are shared.

use pipeline::{Bandwidth, Costs, Family, Nanos};
use proptest::prelude::*;
use sim::cluster::Seating;
use sim::engine::{Communication, EngineError, Protocol};
use sim::{Replay, Sharing};

use crate::bench::{self, Bench, nodes};
use crate::draw;

proptest! {
    #![proptest_config(draw::cases(200))]

    #[test]
    fn equals_replay_where_nothing_is_contended(
        which in 0..Family::ALL.len(),
        p in 1..8u64,
        m in 1..20u64,
        times in prop::collection::vec([0..50u64, 0..50u64, 0..50u64], 16),
        hop in 0..30u64,
    ) {
        let which = Family::ALL[which];
        let Some((schedule, costs)) = bench::question(which, [p, m], &times, hop) else {
            return Ok(());
        };
        let replayed = Replay::new().timeline(&schedule, &costs).unwrap();
        let run = Bench::ideal(schedule, costs).run();
        prop_assert_eq!(run.timeline, replayed);
        let made_first = run.transfers.iter().all(|one| one.end.0 == one.made.0 + hop);
        prop_assert!(made_first);
    }

    /// The same for schedules of no family: pairs, mirrored placement, fused and split backwards.
    #[test]
    fn equals_replay_for_any_schedule((schedule, costs) in draw::schedule()) {
        let replayed = Replay::new().timeline(&schedule, &costs).unwrap();
        prop_assert_eq!(Bench::ideal(schedule, costs).run().timeline, replayed);
    }

    /// A longer latency, a larger message or a slower stage never makes a step shorter. Messages have
    /// a size where two stages have their wires for themselves; where others come in between, a
    /// delay may change who is first, and then anything may happen.
    #[test]
    fn slower_is_never_faster(
        (schedule, costs) in draw::schedule(),
        latency in 0..50u64,
        bytes in 0..50u64,
        slow in 0..8usize,
    ) {
        let stages = schedule.shape().stages() as u64;
        let alone = u64::from(stages <= 2);
        let step = |latency: u64, bytes: u64, costs: &Costs| {
            let mut spec = nodes(stages.div_ceil(2), 2);
            (spec.intra.latency, spec.inter.latency) = (Nanos(latency), Nanos(latency));
            let mut bench = Bench::ideal(schedule.clone(), costs.clone());
            bench.hardware.communication.sharing = Sharing::Queue;
            bench.on(spec, &Seating::Contiguous, alone * bytes).run().step_time()
        };
        let base = step(latency, bytes, &costs);
        prop_assert!(step(latency + 1, bytes, &costs) >= base);
        prop_assert!(step(latency, bytes + 1, &costs) >= base);
        let mut chunks = costs.chunks().to_vec();
        let slow = slow % chunks.len();
        chunks[slow].forward += Nanos(5);
        chunks[slow].backward_input += Nanos(5);
        let slower = costs.clone().with_chunks(chunks);
        prop_assert!(step(latency, bytes, &slower) >= base);
    }

    /// With shared wires nothing gets faster, everything sent arrives, and no wire carries more than
    /// one byte per nanosecond.
    #[test]
    fn conservation(
        which in 0..Family::ALL.len(),
        p in 2..6u64,
        m in 1..10u64,
        bytes in 0..60u64,
        fair: bool,
        blocking: bool,
        nics in 1..3u64,
        across: bool,
    ) {
        let which = Family::ALL[which];
        let question = bench::question(which, [p, m], &[[20, 21, 15]], 0);
        let Some((schedule, costs)) = question else { return Ok(()) };
        let ideal = Bench::ideal(schedule.clone(), costs.clone()).run();
        let seating = if across { Seating::AcrossNodes } else { Seating::Contiguous };
        let mut bench = Bench::ideal(schedule, costs)
            .on(nodes(p.div_ceil(2), nics), &seating, bytes);
        bench.hardware.communication.sharing = if fair { Sharing::Fair } else { Sharing::Queue };
        bench.hardware.communication.blocking = blocking;
        let run = bench.run();
        prop_assert!(run.metrics(0).makespan() >= ideal.metrics(0).makespan());
        prop_assert_eq!(run.transfers.len(), ideal.transfers.len());
        let mut on_wire = vec![(0, u64::MAX, 0); bench.hardware.cluster.wires().len()];
        for one in &run.transfers {
            let [from, to] = [one.from, one.to].map(|stage| bench.hardware.seats.device(stage));
            for wire in bench.hardware.cluster.route(from, to).wires {
                let (count, begin, end) = on_wire[wire];
                on_wire[wire] = (count + 1, begin.min(one.begin.0), end.max(one.end.0));
            }
        }
        for (count, begin, end) in on_wire {
            prop_assert!(count == 0 || end - begin >= count * bytes);
        }
        for one in &run.transfers {
            prop_assert!(one.made <= one.begin && one.end.0 - one.begin.0 >= bytes);
        }
    }
}

#[test]
fn a_transfer_takes_its_size_over_the_bandwidth() {
    // p = 2, m = 1, on one node: F0 until 10, 7 bytes until 17, F1 until 27, BW1 until 57, gradient
    // until 64, BW0 until 94.
    let bench = Bench::family(Family::OneFOneB, [2, 1, 1], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    assert_eq!(bench.spans(0), [(0, 10), (64, 94)]);
    assert_eq!(bench.spans(1), [(17, 27), (27, 57)]);
}

/// Four stages on two nodes, each node with one NIC; stages 0 and 2 on node 0, 1 and 3 on node 1.
fn crossing(sharing: Sharing) -> Bench {
    let mut bench = Bench::family(Family::GPipe, [4, 1, 2], [10, 20, 10], 0);
    bench.hardware.communication.sharing = sharing;
    bench.on(nodes(2, 1), &Seating::AcrossNodes, 10)
}

#[test]
fn stages_of_a_node_share_its_nic() {
    // Forward 0 -> 1 uses NIC 0 out and NIC 1 in; 1 -> 2 uses NIC 1 out and NIC 0 in; 2 -> 3 again
    // NIC 0 out and NIC 1 in. F0.0 ends at 10, arrives at 20; F0.1 ends at 20, arrives at 30.
    // F1.0 runs 20..30, arrives at stage 2 at 40; F1.1 30..40, arrives at 50. F2.0 runs 40..50, its
    // output has NIC 0 out for itself until 60; F3.0 runs 60..70. F2.1 runs 50..60, arrives at 70.
    let queued = crossing(Sharing::Queue);
    assert_eq!(queued.spans(3)[..2], [(60, 70), (70, 80)]);
    // The same where stage 0 makes more than its NIC carries: three microbatches of 5 ns each.
    // Outputs are made at 5, 10, 15. Queued: they arrive at 15, 25, 35.
    let fast = |sharing| {
        let mut bench = Bench::family(Family::GPipe, [2, 1, 3], [5, 20, 10], 0);
        bench.hardware.communication.sharing = sharing;
        bench.on(nodes(2, 1), &Seating::AcrossNodes, 10)
    };
    let arrivals = |bench: &Bench| {
        let run = bench.run();
        let forward = run.transfers.iter().filter(|one| one.from == 0);
        forward.map(|one| one.end.0).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(&fast(Sharing::Queue)), [15, 25, 35]);
    // Fair: the first is alone until 10 (5 bytes left), shares with the second until 15 (2.5 and
    // 7.5 left), then all three have 1/3: the first is done at 22.5, which is rounded up to 23. By
    // then 4 5/6 of the second and 7 1/3 of the third are left, at 1/2 each: the second is done at
    // 32 2/3, rounded to 33, with 2 1/3 of the third left: 35 1/3, rounded to 36.
    assert_eq!(arrivals(&fast(Sharing::Fair)), [23, 33, 36]);
}

#[test]
fn blocking_communication_holds_the_stage() {
    // p = 2, m = 2, GPipe: stage 0 may start F0.1 only when F0.0's output has arrived at 10 + 7.
    let mut bench = Bench::family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    bench.hardware.communication.blocking = true;
    assert_eq!(bench.spans(0)[..2], [(0, 10), (17, 27)]);
    assert_eq!(bench.spans(1)[..2], [(17, 27), (34, 44)]);
}

#[test]
fn a_receiver_that_asks_late_delays_the_transfer() {
    // p = 2, m = 2, 1F1B: stage 1 runs F0 17..27, BW0 27..57. F0.1 of stage 0 is made at 20. Asked
    // for when stage 1 comes to its F1 at 57, it arrives at 64; asked for one slot ahead, when BW0
    // starts at 27, it is there long before.
    let spans = |protocol| {
        let mut bench = Bench::family(Family::OneFOneB, [2, 1, 2], [10, 20, 10], 0);
        bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
        bench.hardware.communication.protocol = protocol;
        bench.spans(1)
    };
    let late = spans(Protocol::Rendezvous { ahead: 0 });
    assert_eq!(late, [(17, 27), (27, 57), (64, 74), (74, 104)]);
    let ahead = spans(Protocol::Rendezvous { ahead: 1 });
    assert_eq!(ahead, [(17, 27), (27, 57), (57, 67), (67, 97)]);
    assert_eq!(spans(Protocol::Eager), ahead);
}

#[test]
fn sends_that_wait_for_each_other_are_a_deadlock_that_is_named() {
    // Blocking sends, received only on demand: stage 0 has made F0.1 and holds on until stage 1
    // asks for it; stage 1 has made the gradient of microbatch 0 and holds on until stage 0 asks.
    let mut bench = Bench::family(Family::OneFOneB, [2, 1, 4], [10, 20, 10], 0);
    bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    bench.hardware.communication = Communication {
        protocol: Protocol::Rendezvous { ahead: 0 },
        blocking: true,
        ..Communication::default()
    };
    let message = bench.try_run().unwrap_err().to_string();
    assert!(message.contains("stage 0 waits before"), "{message}");
    assert!(message.contains("stage 1 has not requested the transfer"), "{message}");
    assert!(message.contains("stage 0 has not requested the transfer"), "{message}");
}

#[test]
fn stages_that_share_a_device_take_turns() {
    // Both stages on device 0: F0.0 0..10, then F0.1 and F1.0 are ready at 10. Stage 0 was ready
    // first (its device was free the moment it ended), so F0.1 runs 10..20, F1.0 20..30, F1.1 30..40.
    let bench = Bench::family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 7);
    let run = bench.run();
    let mut spans: Vec<_> = run.timeline.stages.concat();
    spans.sort_by_key(|span| span.start);
    assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert_eq!(spans.last().unwrap().end.0, 2 * 2 * 40);
    assert!(run.transfers.iter().all(|one| one.made == one.end), "no wire within a device");
}

#[test]
fn too_many_steps_are_refused() {
    let mut bench = Bench::family(Family::OneFOneB, [2, 1, 4], [10, 10, 10], 0);
    bench.hardware.steps = u32::MAX;
    assert!(matches!(bench.try_run(), Err(EngineError::TooManyPasses { .. })));
}

#[test]
fn a_run_longer_than_the_clock_is_refused_and_not_called_stuck() {
    let mut spec = nodes(1, 1);
    spec.intra.bandwidth = Bandwidth::new(1).unwrap();
    let bench = Bench::family(Family::OneFOneB, [2, 1, 1], [10, 20, 10], 0);
    let bench = bench.on(spec, &Seating::Contiguous, 1 << 44);
    let message = bench.try_run().unwrap_err().to_string();
    assert!(message.contains("the times of the whole step"), "{message}");
}
