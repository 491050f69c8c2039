//! The event engine: equal to replay where nothing is contended, and to hand-derived times where
//! something is.

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Kind, Nanos, Order, Pass, PassTimes, Placement,
    Problem, Schedule, Shape,
};
use proptest::prelude::*;
use sim::boundary::{Boundary, GradientReduction, Synchronisation};
use sim::cluster::{Bandwidth, Cluster, ClusterSpec, Host, Inter, Intra, Seating, Seats};
use sim::engine::{
    Communication, EngineError, Messages, Offload, Protocol, Room, Run, Setup, Steady, run,
};
use sim::occupancy::Occupancy;
use sim::{Replay, Sharing};

use crate::draw;

/// A question to the engine that owns its parts.
struct Bench {
    schedule: Schedule,
    costs: Costs,
    cluster: Cluster,
    seats: Seats,
    communication: Communication,
    bytes: u64,
    steps: u32,
    boundary: Boundary,
}

impl Bench {
    /// `schedule` on an ideal cluster, a device for each stage.
    fn ideal(schedule: Schedule, costs: Costs) -> Self {
        let stages = schedule.shape().stages();
        let cluster = Cluster::ideal(stages, costs.hop());
        let seats = Seats::new(&cluster, stages, &Seating::Contiguous).unwrap();
        let (communication, boundary) = (Communication::default(), Boundary::default());
        Self { schedule, costs, cluster, seats, communication, bytes: 0, steps: 1, boundary }
    }

    /// The same on `cluster`.
    fn on(mut self, spec: ClusterSpec, seating: &Seating, bytes: u64) -> Self {
        self.cluster = Cluster::new(spec).unwrap();
        self.seats = Seats::new(&self.cluster, self.schedule.shape().stages(), seating).unwrap();
        self.bytes = bytes;
        self
    }

    fn run_in(&self, room: Option<Room<'_>>) -> Result<Run, EngineError> {
        run(&self.setup(room), &Steady)
    }

    fn setup<'a>(&'a self, room: Option<Room<'a>>) -> Setup<'a> {
        Setup {
            schedule: &self.schedule,
            costs: &self.costs,
            cluster: &self.cluster,
            seats: &self.seats,
            communication: self.communication,
            messages: Messages { bytes: Bytes(self.bytes) },
            room,
            offload: None,
            steps: self.steps,
            boundary: &self.boundary,
        }
    }

    fn run(&self) -> Run {
        self.run_in(None).unwrap()
    }

    /// Start and end of each slot of `stage`.
    fn spans(&self, stage: usize) -> Vec<(u64, u64)> {
        let spans = &self.run().timeline.stages[stage];
        spans.iter().map(|span| (span.start.0, span.end.0)).collect()
    }
}

/// F, B and W of every chunk.
fn costs(shape: Shape, [f, b, w]: [u64; 3], hop: u64) -> Costs {
    let (forward, backward_input, backward_weight) = (Nanos(f), Nanos(b), Nanos(w));
    Costs::uniform(shape, PassTimes { forward, backward_input, backward_weight }, Nanos(hop))
}

fn family(family: Family, [p, v, m]: [u64; 3], times: [u64; 3], hop: u64) -> Bench {
    let shape = Shape::new(p, v, m).unwrap();
    let costs = costs(shape, times, hop);
    let problem = Problem::new(shape, costs.clone()).unwrap();
    Bench::ideal(family.schedule(&problem).unwrap(), costs)
}

/// Nodes of two devices with one NIC; a byte takes 1 ns on any wire, and no latency.
fn nodes(nodes: u64, sharing_nics: u64) -> ClusterSpec {
    let bandwidth = Bandwidth::new(1_000_000_000).unwrap();
    ClusterSpec {
        nodes,
        devices_per_node: 2,
        memory: None,
        intra: Intra { bandwidth, latency: Nanos(0) },
        inter: Inter {
            nics: sharing_nics,
            bandwidth,
            latency: Nanos(0),
            oversubscription_percent: 100,
        },
        host: None,
    }
}

proptest! {
    #![proptest_config(draw::cases(600))]

    #[test]
    fn equals_replay_where_nothing_is_contended(
        which in 0..Family::ALL.len(),
        p in 1..8u64,
        m in 1..20u64,
        times in prop::collection::vec([0..50u64, 0..50u64, 0..50u64], 16),
        hop in 0..30u64,
    ) {
        let which = Family::ALL[which];
        let chunks = match which.about().chunks {
            pipeline::Chunks::Exactly(chunks) => u64::from(chunks),
            pipeline::Chunks::Any { .. } => 2,
        };
        let shape = Shape::new(p, chunks, m).unwrap();
        let time = |[f, b, w]: [u64; 3]| PassTimes {
            forward: Nanos(f),
            backward_input: Nanos(b),
            backward_weight: Nanos(w),
        };
        let times = (0..usize::from(shape.chunks())).map(|chunk| time(times[chunk % 16]));
        let costs = Costs::new(times.collect(), Nanos(hop));
        let problem = Problem::new(shape, costs.clone()).unwrap();
        let Ok(schedule) = which.schedule(&problem) else { return Ok(()) };
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
            bench.communication.sharing = Sharing::Queue;
            bench.on(spec, &Seating::Contiguous, alone * bytes).run().step_time()
        };
        let base = step(latency, bytes, &costs);
        prop_assert!(step(latency + 1, bytes, &costs) >= base);
        prop_assert!(step(latency, bytes + 1, &costs) >= base);
        let mut chunks = costs.chunks().to_vec();
        let slow = slow % chunks.len();
        chunks[slow].forward += Nanos(5);
        chunks[slow].backward_input += Nanos(5);
        let slower = Costs::new(chunks, costs.hop());
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
        let chunks = draw::two_chunks_or_one(which);
        let shape = Shape::new(p, chunks, m).unwrap();
        let problem = Problem::new(shape, costs(shape, [20, 21, 15], 0)).unwrap();
        let Ok(schedule) = which.schedule(&problem) else { return Ok(()) };
        let ideal = Bench::ideal(schedule.clone(), problem.costs().clone()).run();
        let seating = if across { Seating::AcrossNodes } else { Seating::Contiguous };
        let mut bench = Bench::ideal(schedule, problem.costs().clone())
            .on(nodes(p.div_ceil(2), nics), &seating, bytes);
        bench.communication.sharing = if fair { Sharing::Fair } else { Sharing::Queue };
        bench.communication.blocking = blocking;
        let run = bench.run();
        prop_assert!(run.metrics(0).makespan() >= ideal.metrics(0).makespan());
        prop_assert_eq!(run.transfers.len(), ideal.transfers.len());
        let mut on_wire = vec![(0, u64::MAX, 0); bench.cluster.wires().len()];
        for one in &run.transfers {
            let [from, to] = [one.from, one.to].map(|stage| bench.seats.device(stage));
            for wire in bench.cluster.route(from, to).wires {
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
    let bench = family(Family::OneFOneB, [2, 1, 1], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    assert_eq!(bench.spans(0), [(0, 10), (64, 94)]);
    assert_eq!(bench.spans(1), [(17, 27), (27, 57)]);
}

/// Four stages on two nodes, each node with one NIC; stages 0 and 2 on node 0, 1 and 3 on node 1.
fn crossing(sharing: Sharing) -> Bench {
    let mut bench = family(Family::GPipe, [4, 1, 2], [10, 20, 10], 0);
    bench.communication.sharing = sharing;
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
        let mut bench = family(Family::GPipe, [2, 1, 3], [5, 20, 10], 0);
        bench.communication.sharing = sharing;
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
    let mut bench = family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    bench.communication.blocking = true;
    assert_eq!(bench.spans(0)[..2], [(0, 10), (17, 27)]);
    assert_eq!(bench.spans(1)[..2], [(17, 27), (34, 44)]);
}

#[test]
fn a_receiver_that_asks_late_delays_the_transfer() {
    // p = 2, m = 2, 1F1B: stage 1 runs F0 17..27, BW0 27..57. F0.1 of stage 0 is made at 20. Asked
    // for when stage 1 comes to its F1 at 57, it arrives at 64; asked for one slot ahead, when BW0
    // starts at 27, it is there long before.
    let spans = |protocol| {
        let mut bench = family(Family::OneFOneB, [2, 1, 2], [10, 20, 10], 0);
        bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
        bench.communication.protocol = protocol;
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
    let mut bench = family(Family::OneFOneB, [2, 1, 4], [10, 20, 10], 0);
    bench = bench.on(nodes(1, 1), &Seating::Contiguous, 7);
    bench.communication = Communication {
        protocol: Protocol::Rendezvous { ahead: 0 },
        blocking: true,
        ..Communication::default()
    };
    let message = bench.run_in(None).unwrap_err().to_string();
    assert!(message.contains("stage 0 stands before"), "{message}");
    assert!(message.contains("stage 1 has not asked for what it sends"), "{message}");
    assert!(message.contains("stage 0 has not asked for what it sends"), "{message}");
}

#[test]
fn stages_that_share_a_device_take_turns() {
    // Both stages on device 0: F0.0 0..10, then F0.1 and F1.0 are ready at 10. Stage 0 was ready
    // first (its device was free the moment it ended), so F0.1 runs 10..20, F1.0 20..30, F1.1 30..40.
    let bench = family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 7);
    let run = bench.run();
    let mut spans: Vec<_> = run.timeline.stages.concat();
    spans.sort_by_key(|span| span.start);
    assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert_eq!(spans.last().unwrap().end.0, 2 * 2 * 40);
    assert!(run.transfers.iter().all(|one| one.made == one.end), "no wire within a device");
}

#[test]
fn a_pass_waits_for_memory_or_the_run_says_why_it_cannot() {
    // Two stages on one device, 10 bytes each until BW. GPipe, m = 1: stage 1's F waits for nobody.
    let bench = family(Family::GPipe, [2, 1, 2], [10, 20, 10], 0);
    let bench = bench.on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 0);
    let shape = bench.schedule.shape();
    let held = Footprint { until_backward: Bytes(10), until_weight: Bytes(10) };
    let footprints = Footprints::uniform(shape, held);
    let resident = [Bytes(3), Bytes(4)];
    let room =
        |limit| Some(Room { footprints: &footprints, resident: &resident, limit: Bytes(limit) });
    assert_eq!(bench.run_in(room(47)).unwrap().timeline, bench.run().timeline);
    let message = bench.run_in(room(46)).unwrap_err().to_string();
    assert!(message.contains("its device would hold 47B, but has 46B"), "{message}");
    // 1F1B on stage 1 needs one activation there: with room for two of stage 0 and one of stage 1
    // it runs, F1.1 waiting until BW1.0 has freed its own.
    let orders = ["F0.0 F0.1 BW0.0 BW0.1", "F1.0 BW1.0 F1.1 BW1.1"];
    let order = |text: &str| -> Order {
        let read = |word: &str| {
            let microbatch = word[word.len() - 1..].parse().unwrap();
            let chunk = word[word.len() - 3..word.len() - 2].parse().unwrap();
            if word.starts_with('F') {
                Pass::f(chunk, microbatch)
            } else {
                Pass::bw(chunk, microbatch)
            }
        };
        text.split(' ').map(read).collect()
    };
    let orders = orders.map(order).to_vec();
    let schedule = Schedule::new(shape, Placement::Looped, orders).unwrap();
    let bench =
        Bench::ideal(schedule, bench.costs).on(nodes(1, 1), &Seating::Explicit(vec![0, 0]), 0);
    assert!(bench.run_in(room(37)).is_ok());
    assert!(bench.run_in(room(36)).is_err());
}

#[test]
fn steps_follow_each_other_over_the_boundary() {
    let bench = |synchronisation, steps| {
        let mut bench = family(Family::ZbH2, [4, 1, 8], [10, 10, 10], 0);
        bench.steps = steps;
        let (exchange, optimizer) = (Nanos(3), Nanos(5));
        bench.boundary = Boundary { synchronisation, exchange, optimizer, ..Boundary::default() };
        bench.run()
    };
    // ZB-H2 with F = B = W has span 240 and makespan 270. With a barrier a step takes 270 + 3 + 5.
    let barrier = bench(Synchronisation::Barrier, 3);
    assert_eq!(barrier.step_time(), Nanos(278));
    assert_eq!(barrier.releases[1], [Nanos(2 * 278); 4]);
    // Without one, stages follow each other: 240 + 5 for each step.
    let free = bench(Synchronisation::Asynchronous, 3);
    assert_eq!(free.step_time(), Nanos(245));
    // Post-validation: stage i is done 10 i later, and the state needs only 3 from stage to stage.
    let validated = Synchronisation::PostValidation { failing: vec![], rollback: Nanos(7) };
    assert_eq!(bench(validated, 3).step_time(), Nanos(245));
    // If step 0 fails: the state passes stages 0 to 3 at 240, 250, 260, 270; the full value is back
    // at 270, 273, 276, 279 from the last to the first stage; stage 0 takes its step back until 286
    // and steps again until 291.
    let failing = Synchronisation::PostValidation { failing: vec![0], rollback: Nanos(7) };
    let rolled_back = bench(failing, 2);
    assert_eq!(rolled_back.releases[0][0], Nanos(279 + 7 + 5));
    // Stage 3 steps until 275, when the value is long there: 275 + 7 + 5.
    assert_eq!(rolled_back.releases[0][3], Nanos(287));
}

#[test]
fn gradient_reduction_is_exposed_or_hidden() {
    let step = |overlapped, time| {
        let mut bench = family(Family::OneFOneB, [2, 1, 4], [10, 10, 10], 0);
        let reduction = GradientReduction { time: Nanos(time), overlapped };
        bench.boundary = Boundary { reduction, ..Boundary::default() };
        bench.run().step_time()
    };
    // Makespan (4 + 1) x 30 = 150: stage 1 ends at 130, stage 0 at 150.
    assert_eq!(step(false, 40), Nanos(190));
    // One chunk per stage: its last BW is the stage's last pass, so nothing is hidden.
    assert_eq!(step(true, 40), Nanos(190));
    let zb = |overlapped| {
        let mut bench = family(Family::ZbV, [2, 2, 4], [10, 10, 10], 0);
        let reduction = GradientReduction { time: Nanos(15), overlapped };
        bench.boundary = Boundary { reduction, ..Boundary::default() };
        bench.run()
    };
    // Two chunks: the one that ends first is reduced beside the last passes.
    assert!(zb(true).step_time() < zb(false).step_time());
}

#[test]
fn too_many_steps_are_refused() {
    let mut bench = family(Family::OneFOneB, [2, 1, 4], [10, 10, 10], 0);
    bench.steps = u32::MAX;
    assert!(matches!(bench.run_in(None), Err(EngineError::TooManyPasses { .. })));
}

#[test]
fn a_run_longer_than_the_clock_is_refused_and_not_called_stuck() {
    let mut spec = nodes(1, 1);
    spec.intra.bandwidth = Bandwidth::new(1).unwrap();
    let bench = family(Family::OneFOneB, [2, 1, 1], [10, 20, 10], 0);
    let bench = bench.on(spec, &Seating::Contiguous, 1 << 44);
    let message = bench.run_in(None).unwrap_err().to_string();
    assert!(message.contains("the times of the whole step"), "{message}");
}

proptest! {
    #![proptest_config(draw::cases(300))]

    /// Copies leave after the forward and are back before the backward, one at a time on each stream,
    /// and nothing is faster for them.
    #[test]
    fn offloaded_activations_are_back_in_time(
        which in 0..Family::ALL.len(),
        p in 1..6u64,
        m in 1..10u64,
        held in 1..200u64,
        per_mille in 0..1001u32,
        ahead in 0..5u32,
    ) {
        let which = Family::ALL[which];
        let chunks = draw::two_chunks_or_one(which);
        let m = if which == Family::Interleaved { p * m } else { m };
        let bench = family(which, [p, chunks, m], [20, 21, 15], 0);
        let spec = ClusterSpec { nodes: p.div_ceil(2), ..with_host() };
        let bench = bench.on(spec, &Seating::Contiguous, 3);
        let until_backward = Bytes(held);
        let footprint = Footprint { until_backward, until_weight: Bytes(0) };
        let footprints = Footprints::uniform(bench.schedule.shape(), footprint);
        let mut setup = bench.setup(None);
        setup.offload = Some(Offload { footprints: &footprints, per_mille, ahead });
        let offloaded = run(&setup, &Steady).unwrap();
        prop_assert!(offloaded.metrics(0).makespan() >= bench.run().metrics(0).makespan());
        let copied = held * u64::from(per_mille) / 1000;
        let mut streams = std::collections::BTreeMap::<_, Vec<_>>::new();
        for copy in &offloaded.copies {
            let span = |wanted: fn(Kind) -> bool| {
                let mut spans = offloaded.timeline.stages[copy.stage].iter();
                let found = spans.find(|span| span.slot.passes().any(|pass| {
                    let same = (pass.chunk, pass.microbatch);
                    wanted(pass.kind) && same == (copy.pass.chunk, copy.pass.microbatch)
                }));
                *found.unwrap()
            };
            prop_assert_eq!(copy.bytes, Bytes(copied));
            prop_assert!(span(|kind| kind == Kind::F).end <= copy.out[0]);
            prop_assert!(copy.out[1] <= copy.back[0]);
            let backward = span(|kind| matches!(kind, Kind::B | Kind::BW));
            prop_assert!(copy.back[1] <= backward.start);
            for (way, times) in [copy.out, copy.back].into_iter().enumerate() {
                prop_assert!(times[1].0 - times[0].0 >= copied);
                streams.entry((copy.stage, way)).or_default().push(times);
            }
        }
        for stream in streams.values_mut() {
            stream.sort();
            prop_assert!(stream.windows(2).all(|pair| pair[0][1] <= pair[1][0]));
        }
    }
}

/// One device per link of 1 byte/ns to its host.
fn with_host() -> ClusterSpec {
    let bandwidth = Bandwidth::new(1_000_000_000).unwrap();
    ClusterSpec { host: Some(Host { bandwidth, devices_per_link: 1 }), ..nodes(1, 1) }
}

#[test]
fn offloaded_activations_are_away_between_forward_and_backward() {
    // GPipe, p = 1, m = 3: F 0..10, 10..20, 20..30, then BW of 30 each. 8 of 16 bytes are copied,
    // called back when their BW is one slot away.
    let offload = |bench: &Bench, held: u64, ahead| {
        let held = Footprint { until_backward: Bytes(held), until_weight: Bytes(0) };
        let footprints = Footprints::uniform(bench.schedule.shape(), held);
        let mut setup = bench.setup(None);
        setup.offload = Some(Offload { footprints: &footprints, per_mille: 500, ahead });
        let run = run(&setup, &Steady).unwrap();
        let resident = vec![Bytes(0); bench.schedule.shape().stages()];
        let occupancy = Occupancy::of(&run, &setup, &footprints, &resident, None).unwrap();
        (run, occupancy)
    };
    let bench = family(Family::GPipe, [1, 1, 3], [10, 20, 10], 0);
    let bench = bench.on(with_host(), &Seating::Contiguous, 0);
    let (run, occupancy) = offload(&bench, 16, 1);
    // Microbatch 0: out 10..18, its BW is one slot away when F0.2 starts at 20: back 20..28.
    // Microbatch 1: out 20..28, wanted from 30 on: back 30..38. Microbatch 2: out 30..38, wanted
    // when BW0.1 starts at 60: back 60..68.
    let times: Vec<_> = run.copies.iter().map(|copy| [copy.out, copy.back].concat()).collect();
    let nanos = |times: [u64; 4]| times.map(Nanos).to_vec();
    assert_eq!(times, [[10, 18, 20, 28], [20, 28, 30, 38], [30, 38, 60, 68]].map(nanos));
    let spans: Vec<u64> = run.timeline.stages[0].iter().map(|span| span.end.0).collect();
    assert_eq!(spans, [10, 20, 30, 60, 90, 120], "all copies are hidden");
    // Held: 16 until 10, 32 until 18, 24 until 20; at 20 F0.2 takes 16 and 8 come back: 48; 8 leave
    // at 28: 40; at 30 8 come back: 48; 8 leave at 38: 40. Without copies 48 as well, but longer.
    let peak = &occupancy.peaks[0];
    assert_eq!((peak.bytes, peak.at, peak.on_host), (Bytes(48), Nanos(20), Bytes(0)));
    assert!(occupancy.curves[0].contains(&(Nanos(18), Bytes(24))));
    assert_eq!(occupancy.curves[0].last(), Some(&(Nanos(120), Bytes(0))));

    // Ten times as large, the copies are exposed: out 10..90, 90..170, 170..250; microbatch 0 is
    // back at 170, and its BW runs 170..200; 1 is wanted from 30 on: back 170..250, BW 250..280; 2
    // is away until 250: back 250..330, BW 330..360.
    let (run, _) = offload(&bench, 160, 1);
    let spans: Vec<u64> = run.timeline.stages[0].iter().map(|span| span.start.0).collect();
    assert_eq!(spans, [0, 10, 20, 170, 250, 330]);

    // 1F1B on the last stage: every backward follows its forward, so nothing is copied there.
    let bench = family(Family::OneFOneB, [2, 1, 4], [10, 20, 10], 0);
    let (run, _) = offload(&bench.on(with_host(), &Seating::Contiguous, 0), 16, 0);
    assert!(run.copies.iter().all(|copy| copy.stage == 0) && !run.copies.is_empty());
}
