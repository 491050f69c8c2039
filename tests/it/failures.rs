//! `debubble failures`: steps with dead workers, policies against failures, and what is refused.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cli::{debubble, refused, run, stdout};

/// Equal times, three pipelines of four stages, six microbatches each.
const SMALL: &str = "failures --stages 4 --microbatches 6 --forward 1ms --backward-input 1ms \
                     --backward-weight 1ms --data-parallel 3";

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(&format!("{line} --json")))).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn row<'a>(answer: &'a Value, schedule: &str, backward: &str) -> &'a Value {
    let all = answer["results"].as_array().unwrap();
    let found = all.iter().find(|row| row["schedule"] == schedule && row["backward"] == backward);
    found.unwrap()
}

fn policy<'a>(row: &'a Value, name: &str) -> &'a Value {
    row["policies"].as_array().unwrap().iter().find(|one| one["policy"] == name).unwrap()
}

#[test]
fn bubbles_hold_the_passes_of_a_dead_worker() {
    let answer = json(&format!("{SMALL} --schedule 1f1b --dead 0.3"));
    let [whole, split] = ["whole", "split"].map(|backward| row(&answer, "1f1b", backward));
    for one in [whole, split] {
        assert_eq!(one["healthy"]["step_ns"], 27_000_000);
        // Nine microbatches instead of six: the head of three F is all that no order hides.
        assert_eq!(one["rerouted"]["staggered_bound_ns"], 27_000_000);
        let rerouted = &one["rerouted"];
        assert!(number(&rerouted["bound_ns"]) <= number(&rerouted["step_ns"]));
        assert!(number(&rerouted["staggered_ns"]) <= number(&rerouted["step_ns"]));
    }
    let step = |row: &Value, which: &str| number(&row["rerouted"][which]);
    // The techniques of ReCycle one by one: whole backwards, B and W apart, a staggered optimizer, memory.
    assert_eq!(step(whole, "step_ns"), 36e6);
    assert_eq!(step(split, "step_ns"), 30e6);
    assert!(step(split, "staggered_ns") <= 30e6);
    assert_eq!(split["unlimited"]["staggered_ns"], 27_000_000);
    assert!(number(&split["unlimited"]["peak_bytes"]) > number(&split["rerouted"]["peak_bytes"]));
    // Two pipelines are left, with nine microbatches each; ideally 12 workers' work on 11.
    assert_eq!(whole["dropped"]["microbatches"], 9);
    assert_eq!(whole["dropped"]["step_ns"], 36_000_000);
    assert_eq!(whole["fault_scaled_ns"], 27_000_000 * 12 / 11);
}

#[test]
fn without_named_workers_the_worst_stage_is_asked() {
    let answer = json(&format!("{SMALL} --schedule zb-h1 --most-dead 1"));
    let row = row(&answer, "zb-h1", "split");
    let step = |stage: usize| {
        let one = json(&format!("{SMALL} --schedule zb-h1 --most-dead 0 --dead 0.{stage}"));
        number(&one["results"][0]["rerouted"]["step_ns"])
    };
    let each: Vec<f64> = (0..4).map(step).collect();
    let worst = each.iter().copied().fold(0.0, f64::max);
    assert_eq!(number(&row["rerouted"]["step_ns"]), worst);
    let borne = &row["borne"][0];
    assert_eq!(
        (&borne["dead"], &borne["sets"], &borne["survival"]),
        (&1.into(), &4.into(), &1.0.into())
    );
    assert_eq!(number(&borne["worst"]["step_ns"]), worst);
    assert!((number(&borne["mean"]["step_ns"]) - each.iter().sum::<f64>() / 4.0).abs() < 1.0);
}

#[test]
fn two_dead_peers_of_one_stage_cost_more_than_two_of_different_ones() {
    let step = |dead: &str| {
        let answer = json(&format!("{SMALL} --schedule zb-h1 --most-dead 0 --dead {dead}"));
        number(&answer["results"][0]["rerouted"]["step_ns"])
    };
    assert!(step("0.1,1.1") > 1.5 * step("0.1,1.2"));
    // Pipelines are alike.
    assert_eq!(step("0.1,1.2"), step("2.1,0.2"));
}

#[test]
fn a_slow_link_between_pipelines_counts() {
    let step = |more: &str| {
        let answer = json(&format!("{SMALL} --schedule zb-h1 --most-dead 0 --dead 0.1 {more}"));
        number(&answer["results"][0]["rerouted"]["step_ns"])
    };
    assert!(step("--peer-hop 5ms") > step(""));
    assert_eq!(step("--update 4ms"), step("") + 4e6);
}

#[test]
fn the_timeline_has_every_pass_once_on_live_workers() {
    let line = format!("{SMALL} --schedule zb-h1 --most-dead 0 --dead 0.1,2.3 --timeline");
    let answer = json(&line);
    let row = &answer["results"][0];
    let passes = row["timeline"].as_array().unwrap();
    assert_eq!(passes.len(), 3 * 4 * 6 * 3);
    let mut seen = std::collections::BTreeSet::new();
    for one in passes {
        assert!(one["worker"] != "0.1" && one["worker"] != "2.3", "{one}");
        assert!(seen.insert((one["of_pipeline"].as_u64(), one["pass"].as_str())), "{one}");
        assert_eq!(number(&one["end_ns"]) - number(&one["start_ns"]), 1e6);
    }
    let end = passes.iter().map(|one| number(&one["end_ns"])).fold(0.0, f64::max);
    assert_eq!(end, number(&row["rerouted"]["step_ns"]));
    assert!(json(&line.replace("--timeline", ""))["results"][0]["timeline"].is_null());
}

#[test]
fn a_cluster_gives_hops_and_its_step_boundary_the_update() {
    let step = |more: &str| {
        let line = format!("{SMALL} --schedule zb-h1 --most-dead 0 --dead 0.1 {more}");
        number(&json(&line)["results"][0]["rerouted"]["step_ns"])
    };
    let alike = "--cluster dgx-a100 --seating contiguous --message 30MB";
    let near = step(alike);
    assert!(near > step(""), "{near}");
    let boundary = step(&format!("{alike} --exchange 2ms --optimizer 3ms"));
    assert_eq!(boundary, near + 5e6);
    assert_eq!(step(&format!("{alike} --exchange 2ms --optimizer 3ms --update 1ms")), near + 1e6);
}

#[test]
fn policies_are_ranked_with_their_assumptions() {
    let rates = "--schedule zb-h1 --mtbf 7200s --staggered --draws 4";
    let quick = json(&format!("{SMALL} {rates} --repair 60s --restart 10s --checkpoint 1s"));
    let slow = json(&format!("{SMALL} {rates} --repair 7200s"));
    for answer in [&quick, &slow] {
        let policies = row(answer, "zb-h1", "split")["policies"].as_array().unwrap();
        let steps: Vec<f64> = policies.iter().map(|one| number(&one["steps_per_hour"])).collect();
        assert!(steps.is_sorted_by(|one, other| one >= other), "{steps:?}");
        for one in policies {
            let goodput = number(&one["goodput"]);
            assert!((0.0..1.0).contains(&goodput), "{one}");
            let busy = 1.0 - number(&one["overhead"]) - number(&one["stopped"]);
            assert!(goodput <= busy + 1e-12, "{one}");
        }
        let assumed: Vec<&str> =
            answer["assumed"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        assert!(assumed.iter().any(|one| one.contains("every 7200s")), "{assumed:?}");
        assert!(assumed.iter().any(|one| one.contains("Daly")), "{assumed:?}");
    }
    // Without a spare a repair of two hours stops the job half of the time.
    let waits = policy(row(&slow, "zb-h1", "split"), "wait-for-spare");
    assert!((number(&waits["stopped"]) - 0.5).abs() < 1e-9);
    let reroutes = policy(row(&slow, "zb-h1", "split"), "reroute");
    assert!(number(&reroutes["goodput"]) > 1.3 * number(&waits["goodput"]));
    // Spares help whoever waits, and are paid for.
    let spare = json(&format!("{SMALL} {rates} --repair 7200s --spares 2"));
    let with = policy(row(&spare, "zb-h1", "split"), "wait-for-spare");
    assert!(number(&with["goodput"]) > number(&waits["goodput"]));
    assert_eq!((&with["workers"], &waits["workers"]), (&14.into(), &12.into()));
}

#[test]
fn the_same_question_has_the_same_answer_on_any_number_of_threads() {
    let line =
        format!("{SMALL} --schedule zb-h1,zb-v --mtbf 7200s --repair 7200s --draws 3 --json");
    let of = |threads: &str| {
        let words = line.split_whitespace();
        let output = Command::new(env!("CARGO_BIN_EXE_debubble"))
            .args(words)
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        stdout(&output)
    };
    assert_eq!(of("1"), of("3"));
}

#[test]
fn the_shipped_example_is_answered() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/failures.toml");
    let words = ["failures", scenario, "--data-parallel", "4", "--effort", "0", "--most-dead", "0"];
    let text = stdout(&debubble(words));
    for schedule in ["1f1b", "zb-h1", "zb-2p", "zb-v"] {
        assert!(text.contains(schedule), "{text}");
    }
    assert!(text.contains("4 pipelines of 8 stages, 16 microbatches each"), "{text}");
    assert!(text.contains("assumed: "), "{text}");
}

#[test]
fn rows_are_written_as_csv() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    stdout(&run(&format!(
        "{SMALL} --schedule 1f1b --dead 0.1 --most-dead 0 --csv {}",
        file.display()
    )));
    let text = fs::read_to_string(file).unwrap();
    assert!(text.starts_with("setting,schedule,backward,pipelines,"), "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_cure() {
    let no = |more: &str, says: &[&str]| refused(&run(&format!("{SMALL} {more}")), says);
    refused(
        &run("failures --schedule 1f1b --stages 4 --microbatches 6 --forward 1ms --backward 2ms"),
        &["--data-parallel 4"],
    );
    let alone = "failures --schedule 1f1b --stages 4 --microbatches 6 --forward 1ms --backward 2ms";
    refused(&run(&format!("{alone} --data-parallel 1")), &["peer", "2 or more"]);
    refused(&run(&format!("{alone} --data-parallel 99999999999")), &["passes of all pipelines"]);
    no("--schedule 1f1b --dead 3.0", &["no worker 3.0", "0 to 2"]);
    no("--schedule 1f1b --dead 0.4", &["no worker 0.4"]);
    no("--schedule 1f1b --dead 0.1,0.1", &["twice"]);
    no("--schedule 1f1b --dead 0.1,1.1,2.1", &["all 3 workers of stage 1", "checkpoint"]);
    no("--schedule 1f1b --dead 01", &["PIPELINE.STAGE"]);
    no("--schedule 1f1b --dead -1.0", &["PIPELINE.STAGE"]);
    let mirrored =
        "failures --stages 4 --microbatches 8 --forward 1ms --backward 2ms --data-parallel 3";
    refused(&run(&format!("{mirrored} --schedule dualpipe")), &["dualpipe", "mirrored"]);
    let many =
        "failures --schedule 1f1b --stages 4 --microbatches 100000 --forward 1ms --backward 2ms";
    refused(&run(&format!("{many} --data-parallel 100")), &["passes of all pipelines"]);
    no("--schedule zb-h1 --memory-limit 0.1p", &["zb-h1", "memory limit is 0.1p"]);
    no(
        "--schedule 1f1b --mtbf 1s --repair 100s --restart 0s --reconfigure 0s --checkpoint 0s",
        &["dead at a time"],
    );
    no("--schedule 1f1b --mtbf 100s", &["restart"]);
    no("--schedule 1f1b --jitter pass=lognormal:0.1", &["noise"]);
    no("--schedule seq1f1b", &["segments"]);
    no("--schedule 1f1b --effort 9999", &["effort"]);
    no("--schedule 1f1b --sharding fsdp --gather 1ms --reduce 1ms", &["ZeRO"]);
}

#[test]
fn the_picture_has_a_bar_for_each_step_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.svg");
    let line = format!(
        "{SMALL} --schedule 1f1b,zb-h1,zb-h2 --activation 1GiB --memory-limit 4GiB --svg {}",
        path.display()
    );
    stdout(&run(&line));
    let svg = fs::read_to_string(&path).unwrap();
    for text in
        ["1f1b whole", "1f1b split", "zb-h1 split", "healthy", "lower bound of rerouted orders"]
    {
        assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
    }
    assert!(!svg.contains("zb-h2"), "it breaks the limit");
    let nothing = format!(
        "{SMALL} --schedule zb-h2 --activation 1GiB --memory-limit 4GiB --svg {}",
        path.display()
    );
    refused(&run(&nothing), &["no group has a bar"]);
}
