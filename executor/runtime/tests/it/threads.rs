//! A run has the results of serial execution, under every schedule and boundary.

use std::collections::BTreeMap;

use pipeline::Schedule;
use runtime::{Boundary, Failure, Measured, Plan, run};

use crate::hashed::{Hashed, Mishap, Weights, serial};
use crate::support::{losses, pairs, schedules};

pub(crate) fn run_hashed(
    plan: &Plan,
    mishap: Mishap,
) -> (Result<Measured, Failure>, BTreeMap<(usize, u16), u64>) {
    let left = Weights::default();
    let (schedule, weights) = (plan.schedule().clone(), left.clone());
    let result = run(plan, move |stage| Ok(Hashed::new(&schedule, stage, mishap, &weights)));
    let left = left.lock().unwrap().clone();
    (result, left)
}

#[test]
fn every_schedule_computes_what_a_serial_run_computes() {
    let mut seen = 0;
    let counts = [1, 2, 4, 5].into_iter().flat_map(|p| (1..=8).map(move |m| (p, m)));
    for (name, schedule) in counts.flat_map(|(p, m)| schedules(p, m)).chain(pairs()) {
        same_as_serial(&name, &schedule, 2, Boundary::Asynchronous, Mishap::None);
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

/// Runs it both ways, asserts equal results, and returns the measurements.
pub(crate) fn same_as_serial(
    name: &str,
    schedule: &Schedule,
    steps: u32,
    boundary: Boundary,
    mishap: Mishap,
) -> Measured {
    let (expected, weights) = serial(schedule, steps, boundary, mishap);
    let timeout = std::time::Duration::from_secs(5);
    let plan = Plan::new(schedule.clone(), steps).unwrap().with_boundary(boundary).unwrap();
    let plan = plan.with_timeout(timeout).unwrap();
    let (result, left) = run_hashed(&plan, mishap);
    let measured = result.unwrap();
    assert_eq!(losses(&measured), expected, "{name}");
    assert_eq!(left, weights, "{name}");
    measured
}

#[test]
fn pairs_leave_together() {
    for (name, schedule) in pairs() {
        let measured = same_as_serial(&name, &schedule, 2, Boundary::Asynchronous, Mishap::None);
        assert_eq!(measured.steps[1].stages[0].len(), schedule.orders()[0].slots().count());
    }
}

/// Norms of [`Hashed`] lie around 400 to 500 for a stage.
const BOUNDARIES: [(f64, u32); 3] = [(f64::INFINITY, 0), (700.0, 4), (1e-3, 4)];

#[test]
fn post_validation_ends_where_the_barrier_ends() {
    let counts = [(1, 4), (2, 1), (2, 4), (4, 8), (5, 3)];
    for (name, schedule) in counts.into_iter().flat_map(|(p, m)| schedules(p, m)).chain(pairs()) {
        for (max_norm, most) in BOUNDARIES {
            let step = |boundary| same_as_serial(&name, &schedule, 4, boundary, Mishap::None);
            let barrier = step(Boundary::Barrier { max_norm });
            let validated = step(Boundary::PostValidation { max_norm });
            assert_eq!((barrier.rollbacks, barrier.skipped, validated.skipped), (0, 0, 0));
            assert!(validated.rollbacks <= most, "{name}");
            assert_eq!(validated.rollbacks == 4, max_norm < 1.0, "{name}");
        }
    }
}

#[test]
fn a_nan_anywhere_skips_the_step_everywhere() {
    for (name, schedule) in schedules(4, 6) {
        for (stage, step) in [(0, 0), (1, 2), (3, 1), (2, 3)] {
            let max_norm = f64::INFINITY;
            let mishap = Mishap::Nan { stage, step };
            let skip = |boundary| same_as_serial(&name, &schedule, 4, boundary, mishap);
            let barrier = skip(Boundary::Barrier { max_norm });
            assert_eq!((barrier.rollbacks, barrier.skipped), (0, 1));
            let validated = skip(Boundary::PostValidation { max_norm });
            assert_eq!((validated.rollbacks, validated.skipped), (1, 1));
        }
    }
}

#[test]
fn a_pair_put_off_by_an_early_final_norm_finds_its_values_again() {
    // Stage 1 waits with the pair F1.1&F4.0, of which the first value is here, when the last stage
    // comes out with the norm of the step before, later than all forwards that do not need it.
    let text = "F0.0 F0.1 F0.2 F3.0 F3.1 F3.2 BW3.0 BW3.1 BW3.2 BW0.0 BW0.1 BW0.2\n\
                F1.0 F1.1&F4.0 F1.2 F4.1 F4.2 BW4.0 BW4.1 BW4.2 BW1.0 BW1.1 BW1.2\n\
                F2.0 F2.1 F5.0 F2.2 F5.1 F5.2 BW5.0 BW5.1 BW5.2 BW2.0 BW2.1 BW2.2\n";
    let schedule: Schedule = text.parse().unwrap();
    let mishap = Mishap::SlowNorm { stage: 2, millis: 30 };
    for (max_norm, rollbacks) in [(f64::INFINITY, 0), (1e-3, 3)] {
        let boundary = Boundary::PostValidation { max_norm };
        let measured = same_as_serial(text, &schedule, 3, boundary, mishap);
        assert_eq!((measured.rollbacks, measured.skipped), (rollbacks, 0));
    }
}
