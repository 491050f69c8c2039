//! A run over TCP has the results of a run in one process, and unknown, malicious and dead peers
//! are named.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pipeline::{Measurement, Pass, Schedule, Step};
use runtime::{Boundary, Failure, Measured, Plan, Rendezvous, join};

use crate::faults::{patient_plan, small_plan};
use crate::hashed::{Hashed, Mishap, Weights};
use crate::support::{End, free_port, losses, on_threads, pairs, rendezvous, schedules};
use crate::threads::run_hashed;

/// Runs `plan` with a process for each stage, simulated by threads; `change` may alter the settings
/// of each.
fn join_all(
    plan: &Plan,
    mishap: Mishap,
    change: impl Fn(usize, &mut Plan, &mut Rendezvous) + Sync,
) -> (Vec<End>, BTreeMap<(usize, u16), u64>) {
    let (left, port) = (Weights::default(), free_port());
    let world = plan.schedule().shape().stages();
    let process = |rank| {
        let (mut plan, mut rendezvous) = (plan.clone(), rendezvous(rank, world, port));
        change(rank, &mut plan, &mut rendezvous);
        let schedule = plan.schedule().clone();
        join(&plan, &rendezvous, |stage| Ok(Hashed::new(&schedule, stage, mishap, &left)))
    };
    let ends = on_threads(world, process);
    let weights = left.lock().unwrap().clone();
    (ends, weights)
}

fn texts(ends: &[End]) -> Vec<String> {
    let text = |end: &End| end.as_ref().err().map(ToString::to_string).unwrap_or_default();
    ends.iter().map(text).collect()
}

#[test]
fn tcp_computes_what_threads_compute() {
    let all = schedules(2, 4).into_iter().chain(schedules(4, 8)).chain(pairs());
    let boundaries = [
        Boundary::Asynchronous,
        Boundary::Barrier { max_norm: 700.0 },
        Boundary::PostValidation { max_norm: 700.0 },
    ];
    for ((name, schedule), boundary) in all.zip(boundaries.into_iter().cycle()) {
        let mishap = Mishap::Nan { stage: 1, step: 1 };
        let plan = Plan::new(schedule, 3).unwrap().with_warm_up(1).unwrap();
        let plan = plan.with_boundary(boundary).unwrap();
        let (expected, weights) = run_hashed(&plan, mishap);
        let expected = expected.unwrap();
        let (mut ends, left) = join_all(&plan, mishap, |_, _, _| ());
        let others = ends.split_off(1);
        assert!(others.iter().all(|end| *end == Ok(None)), "{name} {others:?}");
        let measured = ends.remove(0).unwrap().unwrap();
        assert_eq!(losses(&measured), losses(&expected), "{name}");
        assert_eq!(left, weights, "{name}");
        let counts = |measured: &Measured| (measured.rollbacks, measured.skipped);
        assert_eq!(counts(&measured), counts(&expected), "{name}");
        for (one, other) in measured.steps.iter().zip(&expected.steps) {
            let slots = |step: &Step| {
                let slots = |stage: &Vec<Measurement>| stage.iter().map(|m| m.slot).collect();
                step.stages.iter().map(slots).collect::<Vec<Vec<_>>>()
            };
            assert_eq!(slots(one), slots(other));
        }
    }
}

#[test]
fn an_error_or_a_panic_is_told_to_all() {
    let pass = Pass::b(2, 3);
    for (mishap, text) in [
        (
            Mishap::Error { stage: 2, pass },
            "stage 2, step 0, B2.3: test failed: it was told to fail",
        ),
        (Mishap::Panic { stage: 2, pass }, "stage 2 broke down: it was told to panic"),
    ] {
        let begin = Instant::now();
        let (ends, _) = join_all(&patient_plan(), mishap, |_, _, _| ());
        assert_eq!(texts(&ends), vec![text; 4]);
        assert!(begin.elapsed() < Duration::from_secs(15), "nobody waited to the end");
    }
}

#[test]
fn a_stage_that_hangs_is_found_in_another_process() {
    let mishap = Mishap::Slow { stage: 3, pass: Pass::b(3, 1), millis: 600 };
    let (ends, _) = join_all(&small_plan(), mishap, |_, _, _| ());
    for text in texts(&ends) {
        assert!(text.contains("stage 3 has been running B3.1 for"), "{text}");
    }
}

#[test]
fn another_token_is_refused() {
    let (ends, _) = join_all(&small_plan(), Mishap::None, |rank, _, rendezvous| {
        if rank == 2 {
            rendezvous.token = b"another".to_vec();
        }
    });
    let texts = texts(&ends);
    assert!(texts[2].starts_with("rank 0 has another token"), "{}", texts[2]);
    assert!(texts[0].contains("ranks [2] did not come"), "{}", texts[0]);
    assert!(texts[0].contains("calls itself rank 2 has another token"), "{}", texts[0]);
    let (ends, _) =
        join_all(&small_plan(), Mishap::None, |_, _, rendezvous| rendezvous.token.clear());
    assert!(matches!(&ends[0], Err(Failure::Rendezvous(runtime::RendezvousError::NoToken))));
}

#[test]
fn another_schedule_plan_or_world_is_refused_by_name() {
    let refused = |change: &(dyn Fn(&mut Plan, &mut Rendezvous) + Sync), what: &str| {
        let (ends, _) = join_all(&small_plan(), Mishap::None, |rank, plan, rendezvous| {
            if rank == 1 {
                change(plan, rendezvous);
            }
        });
        let texts = texts(&ends);
        assert!(texts[0].starts_with(&format!("rank 1 has another {what}")), "{}", texts[0]);
        assert!(texts[1].starts_with(&format!("rank 0 has another {what}")), "{}", texts[1]);
        assert!(texts.iter().all(|text| !text.is_empty()));
    };
    let timeout = Duration::from_millis(300);
    let gpipe: Schedule = schedules(4, 8).remove(0).1;
    let other = Plan::new(gpipe, 3).unwrap().with_timeout(timeout).unwrap();
    refused(&|plan, _| *plan = other.clone(), "schedule");
    refused(&|plan, _| *plan = plan.clone().with_warm_up(7).unwrap(), "plan");
    refused(&|_, rendezvous| rendezvous.about = "another model".to_owned(), "plan");
    let five = Plan::new(schedules(5, 8).remove(0).1, 3).unwrap().with_timeout(timeout).unwrap();
    let world = |plan: &mut Plan, rendezvous: &mut Rendezvous| {
        *plan = five.clone();
        rendezvous.launch.world = 5;
    };
    refused(&world, "number of processes: ");
    let (ends, _) = join_all(&small_plan(), Mishap::None, |_, _, m| m.launch.world = 3);
    assert_eq!(texts(&ends)[0], "3 processes for 4 stages: start one for each stage");
}

#[test]
fn a_peer_that_never_comes_is_named() {
    let (plan, port) = (small_plan(), free_port());
    let make = |stage| Ok(Hashed::new(plan.schedule(), stage, Mishap::None, &Weights::default()));
    let text = join(&plan, &rendezvous(0, 4, port), make).unwrap_err().to_string();
    assert!(text.starts_with("ranks [1, 2, 3] did not come within 3"), "{text}");
    let make = |stage| Ok(Hashed::new(plan.schedule(), stage, Mishap::None, &Weights::default()));
    let text = join(&plan, &rendezvous(1, 4, port), make).unwrap_err().to_string();
    assert!(text.contains("rank 0 at 127.0.0.1:") && text.contains("did not answer"), "{text}");
}

#[test]
fn a_stranger_is_turned_away_and_the_run_goes_on() {
    let (plan, left, port) = (small_plan(), Weights::default(), free_port());
    let process = |rank| {
        let make = |stage| Ok(Hashed::new(plan.schedule(), stage, Mishap::None, &left));
        join(&plan, &rendezvous(rank, 4, port), make)
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| process(0));
        let mut stranger = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        stranger.write_all(&[b'G'; 4096]).unwrap();
        let others: Vec<_> = (1..4).map(|rank| scope.spawn(move || process(rank))).collect();
        assert!(first.join().unwrap().unwrap().is_some());
        assert!(others.into_iter().all(|other| other.join().unwrap() == Ok(None)));
    });
}

/// Many callers that send nothing, or half a hello: they delay no process of the run.
#[test]
fn idle_callers_cost_nobody_time() {
    let (plan, left, port) = (patient_plan(), Weights::default(), free_port());
    let process = |rank| {
        let make = |stage| Ok(Hashed::new(plan.schedule(), stage, Mishap::None, &left));
        join(&plan, &rendezvous(rank, 4, port), make)
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| process(0));
        let mut idle = Vec::new();
        while idle.len() < 100 {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(mut stream) => {
                    let half = if idle.len() % 2 == 0 { &b""[..] } else { &b"debubble"[..] };
                    stream.write_all(half).unwrap();
                    idle.push(stream);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        let begin = Instant::now();
        let others: Vec<_> = (1..4).map(|rank| scope.spawn(move || process(rank))).collect();
        assert!(first.join().unwrap().unwrap().is_some());
        assert!(others.into_iter().all(|other| other.join().unwrap() == Ok(None)));
        // Sequential handshakes would have cost three seconds each.
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    });
}

/// One of the processes of [`a_killed_process_ends_the_others`].
fn be_a_process(place: &str) {
    let (rank, port) = place.split_once(' ').unwrap();
    let (rank, port): (usize, u16) = (rank.parse().unwrap(), port.parse().unwrap());
    let timeout = Duration::from_secs(5);
    let plan = Plan::new(small_plan().schedule().clone(), 100_000).unwrap();
    let plan = plan.with_timeout(timeout).unwrap();
    // It reports its progress after some steps.
    let mishap = Mishap::Say { stage: rank, step: 20 };
    let left = Weights::default();
    let make = |stage| Ok(Hashed::new(plan.schedule(), stage, mishap, &left));
    let end = join(&plan, &rendezvous(rank, 4, port), make);
    println!("ended: {}", end.err().map(|failure| failure.to_string()).unwrap_or_default());
}

#[test]
fn a_killed_process_ends_the_others() {
    let marker = "EXECUTOR_TEST_PROCESS";
    if let Ok(place) = std::env::var(marker) {
        return be_a_process(&place);
    }
    let port = free_port();
    let start = |rank: usize| -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "tcp::a_killed_process_ends_the_others"])
            .env(marker, format!("{rank} {port}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<Child> = (0..4).map(start).collect();
    let mut victim = children.remove(2);
    let mut said = Vec::new();
    let mut stdout = victim.stdout.take().unwrap();
    while !said.ends_with(b"running\n") {
        let mut byte = [0];
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    let begin = Instant::now();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("ended: stage 2 is lost: its "), "{text}");
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "sooner than the timeout");
}
