//! How often the event engine runs for one answer.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    simulate: Simulate,
}

const CLUSTER: &str = "simulate --stages 4 --microbatches 8 --forward 10ms,10ms,10ms,14ms \
                       --backward-input 10ms --backward-weight 8ms --hidden 1024 --heads 16 \
                       --seq 1024 --layers-per-stage 2 --microbatch-size 1 --cluster a100-roce \
                       --seating across-nodes --steps 2 --gantt never";

/// The runs of the event engine for `more` than [`CLUSTER`], and how many of them are levers.
fn engine_runs(more: &str) -> Vec<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let more = more.replace("FILE", &file("out"));
    let words = CLUSTER.split_whitespace().chain(more.split_whitespace());
    let simulate = Line::parse_from(words).simulate;
    let answers = simulate.answers(&simulate.asked.read().unwrap()).unwrap();
    simulate.write(&mut Vec::new(), None, &answers).unwrap();
    let levers = |one: &Outcome| one.explanation.as_ref().map_or(0, |why| why.levers.ranked.len());
    let counts = |one: &Outcome| (one.engine_runs.count(), levers(one) as u64);
    answers.outcomes.iter().map(counts).collect()
}

const FILES: &str = "--svg FILE.svg --html FILE.html --trace FILE.json --timeline FILE.t.json";

#[test]
fn one_run_serves_the_table_and_every_file() {
    for schedule in ["zb-h1", "1f1b --offload 0.5"] {
        assert_eq!(engine_runs(&format!("--schedule {schedule}")), [(1, 0)]);
        for file in FILES.split(" --").map(|file| file.trim_start_matches("--")) {
            // A page says what each gap is owed to: without synchronisation, shared links,
            // communication and unequal stages, and without copies where there are any.
            let removed = if file.starts_with("html") { 4 } else { 0 };
            let copies = u64::from(removed > 0 && schedule.contains("offload"));
            let runs = engine_runs(&format!("--schedule {schedule} --{file}"));
            assert_eq!(runs, [(1 + removed + copies, 0)], "{schedule}, {file}");
        }
    }
}

#[test]
fn an_explanation_and_all_files_take_a_run_for_each_cause_and_lever() {
    let all = format!("--explain --explain-svg FILE.levers.svg {FILES}");
    let [(runs, levers)] = engine_runs(&format!("--schedule zb-h1 {all}"))[..] else { panic!() };
    assert!(levers > 8);
    assert_eq!(runs, 1 + 4 + levers);
    let [(runs, levers)] = engine_runs(&format!("--schedule 1f1b --offload 0.5 {all}"))[..] else {
        panic!()
    };
    assert_eq!(runs, 1 + 5 + levers);
    // Under noise there is replica 0 besides, and twenty more than those two are runs of their own.
    let noise = "--jitter pass=lognormal:0.05 --seed 3";
    let [(runs, levers)] = engine_runs(&format!("--schedule zb-h1 {noise} {all}"))[..] else {
        panic!()
    };
    assert_eq!(runs, 2 + 4 + levers);
    let runs = engine_runs(&format!("--schedule zb-h1,zb-h2 {noise} --replicas 20"));
    assert_eq!(runs, [(2 + 20, 0); 2]);
}
