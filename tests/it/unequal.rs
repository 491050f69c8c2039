//! Microbatches of unequal work: every pass takes the time of its own microbatch, a searched order costs what a simulation
//! of it costs, and beats the published schedules with the microbatches as they come.

use std::fs;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

const SIZES: &str = "--stages 4 --microbatches 12 --forward 10ms --backward-input 11ms --backward-weight 9ms \
                     --hop 300us --memory-limit 1p";

fn whole(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// Lengths whose longest is twice the shortest, and longer tails.
fn lengths() -> Vec<String> {
    let twice = (0..4).map(|seed| format!("--microbatch-lengths uniform:4000-8000 --seed {seed}"));
    let tails = ["in-order", "tokens", "work"].map(|packing| {
        format!(
            "--microbatch-lengths lognormal:1000:1:20000 --documents 60 --packing {packing} --seed 7 \
             --hidden 4096 --heads 32 --seq 8192"
        )
    });
    let factors = "--microbatch-work 1,0.5,2,1,1,0.25,3,1,0.5,0.5,1,1".to_owned();
    twice.chain(tails).chain([factors]).collect()
}

#[test]
fn a_searched_order_costs_what_its_simulation_costs_and_beats_first_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    for chunks in ["", "--chunks 2"] {
        for asked in lengths() {
            let question = format!("{SIZES} {chunks} {asked}");
            let found =
                results(&format!("search {question} --export {} --json", path.display())).remove(0);
            let cost = whole(&found, "cost_ns");
            assert!(whole(&found, "bound_ns") <= cost, "{question}");
            let simulated = format!("simulate {question} --schedule {} --json", path.display());
            assert_eq!(whole(&results(&simulated)[0], "span_ns"), cost, "{question}");
            let family = found["published"].as_str().unwrap();
            let published = results(&format!("simulate {question} --schedule {family} --json"));
            assert_eq!(
                whole(&published[0], "span_ns"),
                whole(&found, "published_ns"),
                "{question}"
            );
            assert!(cost < whole(&found, "published_ns"), "{question}: {found}");
        }
    }
}

#[test]
fn a_step_of_one_stage_takes_the_sum_of_its_microbatches() {
    let question = "simulate --stages 1 --microbatches 3 --forward 10ms --backward-input 20ms \
                    --backward-weight 10ms --schedule 1f1b --json";
    let span = |more: &str| whole(&results(&format!("{question} {more}"))[0], "span_ns");
    assert_eq!(span("--microbatch-work 1,2,0.5"), 140_000_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.csv");
    fs::write(&path, "forward,backward_input,backward_weight\n1,1,1\n2,1,0\n# none\n1,0,1\n")
        .unwrap();
    let file = format!("--microbatch-work-file {}", path.display());
    assert_eq!(span(&file), 40_000_000 + 40_000_000 + 20_000_000);
    // On a cluster and under noise that does nothing, as long.
    assert_eq!(span(&format!("{file} --cluster dgx-a100 --message 1MiB")), 100_000_000);
    let steady = span("--microbatch-work 1,2,0.5 --slowdown stage:0=2");
    assert_eq!(steady, 280_000_000);
}

#[test]
fn lengths_that_give_the_mean_keep_the_work_of_a_step() {
    let question = "simulate --stages 2 --microbatches 16 --forward 10ms --backward-input 10ms \
                    --backward-weight 10ms --schedule zb-h1 --json --microbatch-lengths longtail:100-9000:1";
    for more in ["", "--seed 3", "--documents 64 --packing work"] {
        let work = whole(&results(&format!("{question} {more}"))[0], "work_ns");
        assert!(work.abs_diff(480_000_000) < 50, "{more}: {work}");
    }
}

#[test]
fn keys_that_are_not_searched_with_it_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    let work = "--microbatch-work 1,0.5,2,1,1,0.25,3,1,0.5,0.5,1,1";
    for (more, key) in [
        ("--cluster dgx-a100 --message 1MiB --activation 1GiB", "span_ns"),
        ("--sharding fsdp --gather 2ms --reduce 2ms", "span_ns"),
    ] {
        let question = format!("{SIZES} {work} {more}");
        let export = format!("search {question} --effort 0 --export {} --json", path.display());
        let found = results(&export).remove(0);
        let value = found["value_ns"].as_f64().unwrap();
        assert!(found["simulated_keys"].as_str().unwrap().contains("microbatch-work"), "{found}");
        let line = format!("simulate {question} --schedule {} --json", path.display());
        #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
        let simulated = whole(&results(&line)[0], key) as f64;
        assert!((simulated - value).abs() < 0.5, "{more}: {simulated} {found}");
    }
}

#[test]
fn a_recorded_timeline_keeps_the_work_of_its_microbatches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    let question = format!("{SIZES} --microbatch-work 1,0.5,2,1,1,0.25,3,1,0.5,0.5,1,1");
    results(&format!("simulate {question} --schedule zb-h1 --timeline {} --json", path.display()));
    let text = fs::read_to_string(&path).unwrap();
    let raw: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(raw["costs"]["microbatch_work"][6], serde_json::json!([3.0, 3.0, 3.0]));
    stdout(&run(&format!("compare {} {}", path.display(), path.display())));
    let wrong = text.replace("[3.0,3.0,3.0]", "[-3.0,3.0,3.0]");
    assert_ne!(wrong, text);
    fs::write(&path, wrong).unwrap();
    let compared = run(&format!("compare {} {}", path.display(), path.display()));
    refused(&compared, &["its work of a microbatch is not a factor"]);
}

/// Stages that wait for the time of each microbatch: all that the machine adds comes on top.
#[test]
fn a_run_takes_the_time_of_each_microbatch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    let work = [1.0, 0.5, 2.0, 1.0, 1.0, 0.25, 3.0, 1.0, 0.5, 0.5, 1.0, 1.0];
    let question =
        format!("{SIZES} --microbatch-work 1,0.5,2,1,1,0.25,3,1,0.5,0.5,1,1 --schedule zb-h1");
    let scaled = format!("{question} --time-scale 0.5 --steps 1 --timeline {}", path.display());
    let ran = results(&format!("execute {scaled} --json")).remove(0);
    let simulated = results(&format!("simulate {question} --json")).remove(0);
    assert!(
        whole(&ran, "span_ns").abs_diff(whole(&simulated, "span_ns") / 2) < 50,
        "{ran} {simulated}"
    );
    let raw: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let stages = raw["steps"][0]["stages"].as_array().unwrap();
    let slots: Vec<&Value> =
        stages.iter().flat_map(|one| one["slots"].as_array().unwrap()).collect();
    assert_eq!(slots.len(), 4 * 12 * 3);
    for slot in slots {
        let pass = slot["slot"].as_str().unwrap();
        let microbatch: usize = pass.rsplit('.').next().unwrap().parse().unwrap();
        let alike = match &pass[..1] {
            "F" => 5e6,
            "B" => 5.5e6,
            _ => 4.5e6,
        };
        #[allow(clippy::cast_precision_loss)] // Times below 100 days have exact floats.
        let took = (whole(slot, "end_ns") - whole(slot, "start_ns")) as f64;
        assert!(took >= alike * work[microbatch], "{pass} took {took} ns");
    }
    let trained = format!("execute --device cpu --layers 4 {question}");
    refused(&run(&trained), &["as many tokens", "--device timed"]);
}

#[test]
fn questions_without_an_answer_are_refused() {
    let one = "simulate --stages 2 --microbatches 4 --forward 1ms --backward-input 1ms --backward-weight 1ms";
    for (more, said) in [
        (
            "--schedule zb-h1 --microbatch-work 1,2",
            "the work of 2 microbatches is given, and the step has 4",
        ),
        ("--schedule zb-h1 --microbatch-work 1,2,x,1", "write a number from 0 to 1000"),
        ("--schedule zb-h1 --documents 9", "documents needs the lengths of documents"),
        (
            "--schedule zb-h1 --microbatch-lengths uniform:1-9 --documents 3",
            "3 documents do not fill 4",
        ),
        ("--schedule zb-h1 --microbatch-lengths uniform:1-9 --documents 99999", "at most 65536"),
        (
            "--schedule zb-h1 --microbatch-lengths uniform:1-9 --microbatch-work 1",
            "exclude each other",
        ),
        ("--schedule zb-h1 --microbatch-work-file missing.csv", "there is no such file"),
        (
            "--schedule seq1f1b --microbatch-work 1,1,1,1",
            "seq1f1b cuts every microbatch into segments",
        ),
        ("--schedule pipedream --microbatch-work 1,1,1,1", "pipedream never flushes"),
    ] {
        refused(&run(&format!("{one} {more}")), &[said]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.csv");
    for (text, said) in [
        ("cost\n1\n", "no column of work"),
        ("work\n1\ny\n", "line 3: `y` is not a number"),
        ("work\n1\n-1\n", "line 3: work must be between 0 and 1000"),
        ("work\n1\n", "the work of 1 microbatches is given"),
    ] {
        fs::write(&path, text).unwrap();
        refused(
            &run(&format!("{one} --schedule zb-h1 --microbatch-work-file {}", path.display())),
            &[said],
        );
    }
    let search = one.replacen("simulate", "search", 1);
    let unequal = "--microbatch-work 1,2,1,1";
    for (more, said) in [
        ("--ilp", "microbatches of unequal work are not modelled"),
        ("--certificate c.toml", "microbatches that all take as long"),
    ] {
        refused(&run(&format!("{search} {unequal} {more}")), &[said]);
    }
}
