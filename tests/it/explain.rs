//! Why stages wait: causes that add up, a critical path that is a chain, and hand-derived cases.

use pipeline::{
    Bytes, Costs, Family, Footprint, Footprints, Metrics, Nanos, PassTimes, Problem, Schedule,
    Shape,
};
use proptest::prelude::*;
use serde_json::Value;
use sim::boundary::{Boundary, Synchronisation};
use sim::cluster::{Bandwidth, Cluster, ClusterSpec, Host, Inter, Intra, Seating, Seats};
use sim::engine::{self, Communication, Messages, Offload, Protocol, Room, Setup};
use sim::explain::{Cause, Causes, Link, Wait, Waits, unshared};
use sim::straggler::{Jitter, Stragglers, Target};
use sim::{Replay, Sharing, timed};

use crate::cli::{debubble, refused, results, run, stdout};
use crate::draw::{cases, chunks};

fn times([f, b, w]: [u64; 3]) -> PassTimes {
    PassTimes { forward: Nanos(f), backward_input: Nanos(b), backward_weight: Nanos(w) }
}

/// `family` over `p` stages and `m` microbatches, with the times of each chunk, over and over.
fn question(
    family: Family,
    [p, m]: [u64; 2],
    chunk_times: &[[u64; 3]],
    hop: u64,
) -> Option<(Schedule, Costs)> {
    let shape = Shape::new(p, chunks(family), m).unwrap();
    let all = chunk_times.iter().cycle().take(usize::from(shape.chunks()));
    let costs = Costs::new(all.map(|&chunk| times(chunk)).collect(), Nanos(hop));
    let schedule = family.schedule(&Problem::new(shape, costs.clone()).unwrap()).ok()?;
    Some((schedule, costs))
}

fn one_f_one_b(chunk_times: &[[u64; 3]], hop: u64) -> (Schedule, Costs) {
    question(Family::OneFOneB, [2, 1], chunk_times, hop).unwrap()
}

/// By stage, what `cause` is given.
fn of(causes: &Causes, cause: Cause) -> Vec<i64> {
    causes.idle.iter().map(|stage| stage[cause as usize]).collect()
}

fn assert_exact(causes: &Causes, actual: &Metrics) {
    assert_eq!(causes.cost, actual.span());
    for (stage, (idle, times)) in causes.idle.iter().zip(&actual.stages).enumerate() {
        let waited = actual.span().0 - times.busy.0;
        assert_eq!(idle.iter().sum::<i64>(), i64::try_from(waited).unwrap(), "stage {stage}");
    }
    let steps = [causes.cost].into_iter().chain(causes.without);
    let changes = steps.clone().zip(steps.skip(1));
    for ((with, without), cause) in changes.zip(Cause::ALL) {
        // The busy time changes only where passes do.
        if !matches!(cause, Cause::Noise | Cause::UnequalStages) {
            let change = i64::try_from(with.0).unwrap() - i64::try_from(without.0).unwrap();
            assert!(of(causes, cause).iter().all(|&share| share == change), "{cause:?}");
        }
    }
}

/// Asserts that every link was set off by the one before it.
fn assert_chain(waits: &Waits<'_>) {
    let stages = &waits.run().timeline.stages;
    let links = waits.critical_path().links;
    let end = stages.iter().flatten().map(|span| span.end).max().unwrap();
    assert_eq!(links.last().unwrap().span.end, end);
    let first = links[0];
    assert!(first.after.is_none());
    assert!(first.span.start == Nanos(0) || first.wait == Wait::Boundary, "{first:?}");
    for pair in links.windows(2) {
        let [Link { stage, at, span: before, .. }, Link { span, wait, after, .. }] = pair else {
            unreachable!()
        };
        assert_eq!(*after, Some((*stage, *at)));
        match wait {
            Wait::Order | Wait::Device => assert_eq!(span.start, before.end, "{pair:?}"),
            Wait::Value(one) | Wait::Sending(one) => {
                assert_eq!((one.made, one.end), (before.end, span.start), "{pair:?}");
            }
            Wait::HostCopy(copy) => {
                assert!(before.end <= copy.out[0] && copy.back[1] == span.start);
            }
            Wait::HostRoom(copy) => assert!(before.end <= copy.out[0] && copy.out[1] == span.start),
            Wait::Nothing | Wait::Boundary => panic!("{pair:?}"),
        }
    }
    let summary = waits.critical_path().summary(stages.len());
    let passes = summary.passes.iter().map(|time| time.0).sum::<u64>() + summary.pairs.0;
    assert_eq!(summary.begin.0 + passes + summary.transfers.0, summary.end.0);
    assert_eq!(summary.stages.iter().map(|time| time.0).sum::<u64>(), passes);
}

#[test]
fn communication_is_what_free_links_would_save() {
    // F = 10, BW = 30, hop 5. F0 0-10, F1 15-25, BW1 25-55, BW0 60-90: each stage works for 40 of
    // 90. With no hop BW0 ends at 80: 10 of the 50 idle are owed to communication.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10]], 5);
    let actual = Replay::new().metrics(&schedule, &costs).unwrap();
    let causes = Causes::of_replay(&schedule, &costs, &actual).unwrap();
    assert_eq!(of(&causes, Cause::Communication), [10, 10]);
    assert_eq!(of(&causes, Cause::Structure), [40, 40]);
    assert_exact(&causes, &actual);
    let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
    let run = unshared(&schedule, timeline, |_, _, _, _| 5);
    let waits = Waits::new(&schedule, &run, &[0, 1]);
    assert_chain(&waits);
    let path = waits.critical_path();
    let stages: Vec<usize> = path.links.iter().map(|link| link.stage).collect();
    assert_eq!(stages, [0, 1, 1, 0]);
    let summary = path.summary(2);
    assert_eq!(summary.passes, [20, 0, 0, 60].map(Nanos));
    assert_eq!((summary.transfers, &summary.stages[..]), (Nanos(10), &[Nanos(40), Nanos(40)][..]));
}

#[test]
fn a_slow_stage_makes_the_other_wait_and_waits_less_itself() {
    // F = 20 on stage 1: F0 0-10, F1 10-30, BW1 30-60, BW0 60-90. Busy 40 and 50, idle 50 and 40.
    // With F = 15 on both: F0 0-15, F1 15-30, BW1 30-60, BW0 60-90. Busy 45, idle 45.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10], [20, 20, 10]], 0);
    let actual = Replay::new().metrics(&schedule, &costs).unwrap();
    let causes = Causes::of_replay(&schedule, &costs, &actual).unwrap();
    assert_eq!(of(&causes, Cause::UnequalStages), [5, -5]);
    assert_eq!(of(&causes, Cause::Structure), [45, 45]);
    assert_eq!(causes.average()[Cause::UnequalStages as usize], 0);
    assert_exact(&causes, &actual);
}

#[test]
fn a_straggler_makes_the_other_wait() {
    // Stage 1 at half pace: F0 0-10, F1 10-30, BW1 30-90, BW0 90-120. Idle 80 and 40; without the
    // straggler the step is 80, and both are idle for 40.
    let (schedule, costs) = one_f_one_b(&[[10, 20, 10]], 0);
    let mut stragglers = Stragglers::new(2, 1);
    stragglers.slow(Target::Stage(1), 2.0).unwrap();
    let actual = timed::metrics(&schedule, &stragglers.weather(0, 0).timing(&costs));
    let causes = Causes::of_replay(&schedule, &costs, &actual).unwrap();
    assert_eq!(of(&causes, Cause::Noise), [40, 0]);
    assert_exact(&causes, &actual);
}

/// Nodes of two devices; a byte takes 1 ns on any wire, and no latency.
fn nodes(nodes: u64, nics: u64, percent: u64) -> ClusterSpec {
    let bandwidth = Bandwidth::new(1_000_000_000).unwrap();
    let latency = Nanos(0);
    ClusterSpec {
        nodes,
        devices_per_node: 2,
        memory: None,
        intra: Intra { bandwidth, latency },
        inter: Inter { nics, bandwidth, latency, oversubscription_percent: percent },
        host: Some(Host { bandwidth, devices_per_link: 1 }),
    }
}

#[test]
fn contention_is_what_a_transfer_takes_longer_than_alone() {
    // F = 1, BW = 1, 10 bytes on one wire. F0.0 0-1, F0.1 1-2; their outputs share the wire from 2
    // on: the first, with 9 bytes left then, is there at 20, the second at 21. F1 20-22, BW1
    // 22-24, gradients likewise at 42 and 43, BW0 42-44. Alone: outputs at 11 and 12, F1 11-13,
    // BW1 13-15, gradients at 24 and 25, BW0 24-26. At once: F1 1-3, BW1 3-5, BW0 4-6.
    let (schedule, costs) = question(Family::GPipe, [2, 2], &[[1, 1, 0]], 0).unwrap();
    let cluster = Cluster::new(nodes(1, 1, 100)).unwrap();
    let seats = Seats::new(&cluster, 2, &Seating::Contiguous).unwrap();
    let setup = Setup {
        schedule: &schedule,
        costs: &costs,
        cluster: &cluster,
        seats: &seats,
        communication: Communication::default(),
        messages: Messages { bytes: Bytes(10) },
        room: None,
        offload: None,
        steps: 1,
        boundary: &Boundary::default(),
    };
    let run = engine::run(&setup, &engine::Steady).unwrap();
    let actual = run.metrics(0);
    let causes = Causes::of_engine(&setup, &actual).unwrap();
    assert_eq!(causes.cost, Nanos(44));
    assert_eq!(of(&causes, Cause::SharedLinks), [18, 18]);
    assert_eq!(of(&causes, Cause::Communication), [20, 20]);
    assert_eq!(of(&causes, Cause::Structure), [2, 2]);
    assert_exact(&causes, &actual);
    assert_chain(&Waits::new(&schedule, &run, seats.devices()));
}

fn stragglers(devices: &[usize], factor: f64, sigma: f64, stall: u64) -> Stragglers {
    let mut stragglers = Stragglers::on_devices(devices.to_vec(), 7);
    stragglers.slow(Target::Stage(0), factor).unwrap();
    stragglers.jitter_passes(Jitter::log_normal(sigma).unwrap());
    stragglers.jitter_hops(Jitter::log_normal(sigma).unwrap());
    stragglers.stall(0.05, Nanos(stall)).unwrap();
    stragglers
}

fn family() -> impl Strategy<Value = Family> {
    (0..Family::ALL.len()).prop_map(|which| Family::ALL[which])
}

fn chunk_times() -> impl Strategy<Value = Vec<[u64; 3]>> {
    prop::collection::vec([0..50u64, 0..50u64, 0..50u64], 1..16)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn replays_are_explained_to_the_nanosecond(
        family in family(),
        shape in [1..8u64, 1..20u64],
        chunk_times in chunk_times(),
        hop in 0..30u64,
        noise in proptest::option::of((0.5..3.0f64, 0.0..0.3f64, 0..100u64)),
    ) {
        let Some((schedule, costs)) = question(family, shape, &chunk_times, hop) else {
            return Ok(());
        };
        let devices: Vec<usize> = (0..schedule.shape().stages()).collect();
        let timed_run = match noise {
            Some((factor, sigma, stall)) => {
                let stragglers = stragglers(&devices, factor, sigma, stall);
                let timing = stragglers.weather(0, 0).timing(&costs);
                let hop = |value, from, to, made| {
                    timed::Timing::hop(&timing, value, from, to, made)
                };
                unshared(&schedule, timed::timeline(&schedule, &timing), hop)
            }
            None => {
                let timeline = Replay::new().timeline(&schedule, &costs).unwrap();
                unshared(&schedule, timeline, |_, _, _, _| hop)
            }
        };
        let actual = Metrics::of(&timed_run.timeline);
        let causes = Causes::of_replay(&schedule, &costs, &actual).unwrap();
        assert_exact(&causes, &actual);
        if noise.is_none() {
            prop_assert!(of(&causes, Cause::Noise).iter().all(|&share| share == 0));
        }
        assert_chain(&Waits::new(&schedule, &timed_run, &devices));
    }
}

#[derive(Clone, Debug)]
struct Surroundings {
    bytes: u64,
    communication: Communication,
    nics: u64,
    percent: u64,
    devices: Option<u64>,
    across: bool,
    steps: u32,
    asynchronous: bool,
    room: Option<u64>,
    offload: Option<u32>,
    noise: Option<(f64, f64, u64)>,
}

fn communication() -> impl Strategy<Value = Communication> {
    let protocol = prop_oneof![
        Just(Protocol::Eager),
        (0..4u32).prop_map(|ahead| Protocol::Rendezvous { ahead }),
    ];
    (any::<bool>(), protocol, any::<bool>()).prop_map(|(fair, protocol, blocking)| Communication {
        sharing: if fair { Sharing::Fair } else { Sharing::Queue },
        protocol,
        blocking,
    })
}

fn surroundings() -> impl Strategy<Value = Surroundings> {
    let network = (0..60u64, communication(), 1..3u64, 100..300u64);
    let seats = (proptest::option::of(1..4u64), any::<bool>(), 1..4u32, any::<bool>());
    let memory = (proptest::option::of(1..20u64), proptest::option::of(100..900u32));
    let noise = proptest::option::of((0.5..3.0f64, 0.0..0.3f64, 0..100u64));
    (network, seats, memory, noise).prop_map(
        |(
            (bytes, communication, nics, percent),
            (devices, across, steps, asynchronous),
            (room, offload),
            noise,
        )| Surroundings {
            bytes,
            communication,
            nics,
            percent,
            devices,
            across,
            steps,
            asynchronous,
            room,
            offload,
            noise,
        },
    )
}

/// Runs `schedule` in `around`, where it does not get stuck, and checks its explanation.
fn check_engine(schedule: &Schedule, costs: &Costs, around: &Surroundings) {
    let shape = schedule.shape();
    let stages = shape.stages();
    let count = around.devices.unwrap_or(stages as u64).div_ceil(2);
    let cluster = Cluster::new(nodes(count, around.nics, around.percent)).unwrap();
    let seating = if around.across { Seating::AcrossNodes } else { Seating::Contiguous };
    let seats = Seats::new(&cluster, stages, &seating).unwrap();
    let footprint = Footprint { until_backward: Bytes(4), until_weight: Bytes(2) };
    let footprints = Footprints::uniform(shape, footprint);
    let synchronisation = match around.asynchronous {
        true => Synchronisation::Asynchronous,
        false => Synchronisation::Barrier,
    };
    let boundary = Boundary { synchronisation, optimizer: Nanos(11), ..Boundary::default() };
    let resident = vec![Bytes(0); stages];
    let (footprints, resident) = (&footprints, &resident);
    let room = |multiple| Room { footprints, resident, limit: Bytes(8 * multiple) };
    let setup = Setup {
        schedule,
        costs,
        cluster: &cluster,
        seats: &seats,
        communication: around.communication,
        messages: Messages { bytes: Bytes(around.bytes) },
        room: around.room.map(room),
        offload: around.offload.map(|per_mille| Offload { footprints, per_mille, ahead: 2 }),
        steps: around.steps,
        boundary: &boundary,
    };
    let run = match around.noise {
        Some((factor, sigma, stall)) => {
            let stragglers = stragglers(seats.devices(), factor, sigma, stall);
            engine::run(&setup, &stragglers.conditions(0, costs))
        }
        None => engine::run(&setup, &engine::Steady),
    };
    let Ok(run) = run else { return };
    assert_chain(&Waits::new(schedule, &run, seats.devices()));
    let actual = run.metrics(around.steps - 1);
    if let Ok(causes) = Causes::of_engine(&setup, &actual) {
        assert_exact(&causes, &actual);
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn runs_on_clusters_are_explained_to_the_nanosecond(
        family in family(),
        shape in [1..6u64, 1..10u64],
        chunk_times in chunk_times(),
        around in surroundings(),
    ) {
        if let Some((schedule, costs)) = question(family, shape, &chunk_times, 0) {
            check_engine(&schedule, &costs, &around);
        }
    }
}

const ALL: &str = "gpipe,1f1b,1f1b-i,zb-h1,zb-h2,zb-heuristic,zb-1p,zb-2p,zb-v";

/// The lever of that name: step, change, and what became of the order.
fn lever<'a>(result: &'a Value, name: &str) -> (u64, i64, &'a str) {
    let levers = result["explain"]["levers"].as_array().unwrap();
    let one = levers.iter().find(|one| one["lever"] == name).unwrap_or_else(|| panic!("{name}"));
    let (step, change) = (one["step_ns"].as_u64().unwrap(), one["change_ns"].as_i64().unwrap());
    (step, change, one["order"].as_str().unwrap())
}

fn explained(rest: &str) -> Vec<Value> {
    let times = "--forward 10ms,10ms,10ms,14ms --backward-input 11ms --backward-weight 7ms";
    let shape = "--stages 4 --microbatches 8 --explain --json";
    results(&format!("simulate {shape} {times} {rest}"))
}

#[test]
fn machines_read_causes_that_add_up() {
    let noise = "--slowdown stage:1=1.2 --jitter pass=lognormal:0.05 --seed 3";
    let cluster =
        "--cluster a100-roce --message 100MB --seating across-nodes --steps 2 --exchange 5ms";
    for rest in ["--hop 1ms", &format!("--hop 1ms {noise}"), &format!("{cluster} {noise}")] {
        for result in explained(&format!("--schedule {ALL} {rest}")) {
            let why = &result["explain"];
            let cost = why["cost_ns"].as_i64().unwrap();
            assert_eq!(cost, result["span_ns"]);
            for (stage, busy) in why["stages"].as_array().unwrap().iter().zip(0..) {
                let keys = Cause::ALL.map(|cause| stage[cause.key()].as_i64().unwrap());
                assert_eq!(keys.iter().sum::<i64>(), stage["idle_ns"]);
                let busy = result["busy_ns"][busy].as_i64().unwrap();
                assert_eq!(cost - busy, stage["idle_ns"], "{}", result["schedule"]);
            }
            let path = why["critical_path"].as_array().unwrap();
            assert!(!path.is_empty() && path.iter().all(|link| link["waited_for"].is_string()));
        }
    }
}

#[test]
fn levers_are_what_the_change_would_be_worth() {
    // F = 100, BW = 300, hop 50: F0 0-100, F1 150-250, BW1 250-550, BW0 600-900, all in one chain.
    // Half the hops save 50. Stage 0 works for 400 of it: 5 % are 20.
    let times = "--forward 100ns --backward-input 200ns --backward-weight 100ns --hop 50ns";
    let shape = "simulate --stages 2 --microbatches 1 --explain --json";
    let result = &results(&format!("{shape} {times} --schedule 1f1b"))[0];
    assert_eq!(lever(result, "all links twice as fast"), (850, -50, "kept"));
    assert_eq!(lever(result, "link 0-1 twice as fast"), (850, -50, "kept"));
    assert_eq!(lever(result, "stage 0 5 % slower"), (920, 20, "kept"));
    assert_eq!(lever(result, "stage 1 5 % faster"), (880, -20, "kept"));
}

#[test]
fn levers_point_where_they_should() {
    let results = explained("--schedule 1f1b,zb-heuristic,zb-v --hop 1ms --memory-limit 1p");
    for stage in 0..4 {
        assert!(lever(&results[0], &format!("stage {stage} 5 % slower")).1 >= 0);
        assert!(lever(&results[0], &format!("stage {stage} 5 % faster")).1 <= 0);
    }
    assert!(lever(&results[0], "a layer from stage 3 to stage 0").1 < 0);
    // More memory buys the search a shorter step, and 1F1B nothing.
    let (_, change, order) = lever(&results[1], "1 M_B more for activations");
    assert!(change < 0 && order == "rebuilt", "{change}");
    assert_eq!(lever(&results[2], "all links twice as fast").2, "rebuilt");
    let names = results[0]["explain"]["levers"].to_string();
    assert!(!names.contains("activations"));
    assert!(results[0]["explain"]["notes"].to_string().contains("8 are assumed"));
}

#[test]
fn activations_called_back_late_are_waited_for() {
    // Called back only when its backward is next, an activation of 3.6 GiB is waited for.
    let cluster = "--cluster a100-roce --message 50MB --activation 4GiB";
    let late = &explained(&format!("--schedule 1f1b {cluster} --offload 0.9 --reload-ahead 0"))[0];
    for stage in late["explain"]["stages"].as_array().unwrap() {
        assert!(stage["memory_ns"].as_i64().unwrap() > 0);
    }
    let links = late["explain"]["critical_path"].to_string();
    assert!(links.contains("on the way from the host"));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let small = "simulate --stages 2 --microbatches 2 --explain";
    let times = "--forward 1ms --backward-input 1ms --backward-weight 1ms";
    refused(&run(&format!("{small} {times} --schedule zb-h3")), &["there is no schedule"]);
    refused(&run(&format!("{small} --schedule 1f1b")), &["--forward"]);
    let full = "--activation 2GiB --device-memory 3GiB --when-full wait --schedule gpipe";
    refused(&run(&format!("{small} {times} {full}")), &["stuck", "device"]);
}

#[test]
fn the_page_is_whole_and_takes_no_markup_from_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let order = folder.path().join("<b onclick=1>.txt");
    std::fs::write(&order, "F0.0 BW0.0\n").unwrap();
    let page = folder.path().join("page.html");
    let times = ["--forward", "1ms", "--backward-input", "1ms", "--backward-weight", "1ms"];
    let files = ["--schedule".as_ref(), order.as_os_str(), "--html".as_ref(), page.as_os_str()];
    let words = std::iter::once("simulate").chain(times).map(std::ffi::OsStr::new);
    stdout(&debubble(words.chain(files)));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("<b onclick") && html.contains("\\u003cb onclick"));
    let nothing = "--forward 0ms --backward-input 0ms --backward-weight 0ms --html unwritten.html";
    let empty = format!("simulate --stages 2 --microbatches 2 --schedule 1f1b {nothing}");
    refused(&run(&empty), &["nothing to draw"]);
}
