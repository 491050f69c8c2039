//! The step boundary, against times derived by hand.

use pipeline::{Family, Nanos};
use sim::boundary::{Boundary, GradientReduction, Synchronisation};

use crate::bench::Bench;
use crate::cli::{results, run, stdout};

#[test]
fn steps_follow_each_other_over_the_boundary() {
    let bench = |synchronisation, steps| {
        let mut bench = Bench::family(Family::ZbH2, [4, 1, 8], [10, 10, 10], 0);
        bench.hardware.steps = steps;
        let (exchange, optimizer) = (Nanos(3), Nanos(5));
        bench.hardware.boundary =
            Boundary { synchronisation, exchange, optimizer, ..Boundary::default() };
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
        let mut bench = Bench::family(Family::OneFOneB, [2, 1, 4], [10, 10, 10], 0);
        let reduction = GradientReduction { time: Nanos(time), overlapped };
        bench.hardware.boundary = Boundary { reduction, ..Boundary::default() };
        bench.run().step_time()
    };
    // Makespan (4 + 1) x 30 = 150: stage 1 ends at 130, stage 0 at 150.
    assert_eq!(step(false, 40), Nanos(190));
    // One chunk per stage: its last BW is the stage's last pass, so nothing is hidden.
    assert_eq!(step(true, 40), Nanos(190));
    let zb = |overlapped| {
        let mut bench = Bench::family(Family::ZbV, [2, 2, 4], [10, 10, 10], 0);
        let reduction = GradientReduction { time: Nanos(15), overlapped };
        bench.hardware.boundary = Boundary { reduction, ..Boundary::default() };
        bench.run()
    };
    // Two chunks: the one that ends first is reduced beside the last passes.
    assert!(zb(true).step_time() < zb(false).step_time());
}

/// Stages that meet at a barrier end a step before any begins the next; with post-validation stage 0 goes on.
#[test]
fn steps_of_a_run_overlap_without_a_barrier() {
    let question = "execute --stages 4 --microbatches 8 --schedule zb-2p --forward 5ms --backward-input 5ms \
                    --backward-weight 5ms --steps 4 --boundary";
    let text = stdout(&run(&format!("{question} post-validation")));
    assert!(text.contains("zb-2p: steps overlap: one begins every "), "{text}");
    assert!(!stdout(&run(&format!("{question} barrier"))).contains("overlap"));
    let measured = results(&format!("{question} barrier --json"));
    assert!(measured[0]["measured"]["period_ns"].as_u64() > Some(100_000_000), "{measured:?}");
    let alone =
        results(&format!("{} --json", question.replace("--steps 4 --boundary", "--steps 1")));
    assert!(alone[0]["measured"]["period_ns"].is_null());
}
