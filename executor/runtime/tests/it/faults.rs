//! A run that cannot go on ends on all stages, soon, and names the first cause.

use std::time::{Duration, Instant};

use pipeline::{Nanos, Pass, Schedule};
use runtime::{Boundary, DeviceError, Failure, Plan, PlanError, Timed, run};

use crate::hashed::Mishap;
use crate::support::schedules;
use crate::threads::run_hashed;

/// ZB-H1 on four stages, with a short timeout.
pub(crate) fn small_plan() -> Plan {
    let named =
        |(name, schedule): (String, Schedule)| name.starts_with("zb-h1").then_some(schedule);
    let schedule = schedules(4, 8).into_iter().find_map(named).unwrap();
    Plan::new(schedule, 3).unwrap().with_timeout(Duration::from_millis(300)).unwrap()
}

/// The same with a timeout longer than a test may take, for runs that must not reach it.
pub(crate) fn patient_plan() -> Plan {
    small_plan().with_timeout(Duration::from_secs(20)).unwrap()
}

/// The threads of this process that run stages.
fn stage_threads() -> usize {
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("stage")).count()
    };
    // A thread that has ended is listed for a moment more.
    let begin = Instant::now();
    while count() > 0 && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    count()
}

#[test]
fn the_first_cause_is_named_and_no_thread_is_left() {
    // In a process of its own, so that no other test's threads are counted.
    let marker = "EXECUTOR_TEST_ALONE";
    if std::env::var_os(marker).is_none() {
        let test = "faults::the_first_cause_is_named_and_no_thread_is_left";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", test]).env(marker, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let pass = Pass::b(2, 3);
    let error = DeviceError::Call { call: "test", message: "it was told to fail".to_owned() };
    let failed = Failure::Device { stage: 2, step: Some(0), slot: Some(pass.into()), error };
    let text = "stage 2, step 0, B2.3: test failed: it was told to fail";
    assert_eq!(failed.to_string(), text);
    let panicked = Failure::Panicked { stage: 2, message: "it was told to panic".to_owned() };
    for (mishap, expected) in
        [(Mishap::Error { stage: 2, pass }, failed), (Mishap::Panic { stage: 2, pass }, panicked)]
    {
        let begin = Instant::now();
        let (result, _) = run_hashed(&patient_plan(), mishap);
        assert_eq!(result, Err(expected));
        assert!(begin.elapsed() < Duration::from_secs(15), "nobody waited to the end");
        assert_eq!(stage_threads(), 0);
    }
    run_hashed(&small_plan(), Mishap::None).0.unwrap();
    assert_eq!(stage_threads(), 0);
}

#[test]
fn a_stage_that_hangs_is_found_along_the_chain() {
    let mishap = Mishap::Slow { stage: 3, pass: Pass::b(3, 1), millis: 500 };
    let (result, _) = run_hashed(&small_plan(), mishap);
    let failure = result.unwrap_err();
    assert!(matches!(failure, Failure::Stuck { .. }), "{failure}");
    let text = failure.to_string();
    let waits =
        "has been waiting for the gradient of chunk 3 for microbatch 1 (for B2.1) from stage 3";
    assert!(text.contains(waits), "{text}");
    assert!(text.contains("; stage 3 has been running B3.1 for"), "{text}");
}

#[test]
fn a_worker_that_cannot_be_made_ends_the_run() {
    let make = |stage: usize| match stage {
        1 => Err(DeviceError::NotAtHand { what: "a device".to_owned() }),
        _ => Ok(Timed::new(std::sync::Arc::new(pipeline::Costs::new(Vec::new(), Nanos(0))))),
    };
    let failure = run(&small_plan(), make).unwrap_err();
    assert_eq!(failure.to_string(), "stage 1: a device is not available");
}

#[test]
fn impossible_plans_are_refused() {
    let plan = small_plan();
    let schedule = plan.schedule().clone();
    assert_eq!(Plan::new(schedule.clone(), 0), Err(PlanError::NoStep));
    assert!(matches!(Plan::new(schedule, u32::MAX), Err(PlanError::TooMuch { .. })));
    assert!(matches!(plan.clone().with_warm_up(u32::MAX), Err(PlanError::TooManySteps { .. })));
    for max_norm in [0.0, -1.0, f64::NAN] {
        let bounded = plan.clone().with_boundary(Boundary::Barrier { max_norm });
        assert!(matches!(bounded, Err(PlanError::MaxNorm(_))));
    }
    assert!(matches!(plan.clone().with_timeout(Duration::ZERO), Err(PlanError::Timeout(_))));
    assert!(matches!(plan.with_hop(Nanos(1 << 40)), Err(PlanError::Hop { .. })));
}
