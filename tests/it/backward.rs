//! `backward`: B and W together, split by a rule that is said.

use std::fs;

use serde_json::Value;

use crate::cli::{debubble, refused, results, run, stdout};

const SHAPE: &str = "--stages 4 --microbatches 8 --forward 10ms";
const SIZES: &str = "--hidden 4096 --heads 32 --seq 1024";

fn simulate(rest: &str) -> Vec<Value> {
    results(&format!("simulate {SHAPE} {rest} --json"))
}

#[test]
fn halves_where_nothing_is_known_of_the_model() {
    let schedules = "--schedule 1f1b,zb-h1";
    let together = simulate(&format!("--backward 20ms {schedules}"));
    let apart = simulate(&format!("--backward-input 10ms --backward-weight 10ms {schedules}"));
    for (together, apart) in together.iter().zip(&apart) {
        assert_eq!(together["makespan_ns"], apart["makespan_ns"]);
        assert_eq!(together["backward_split"]["backward_input"], 0.5);
        assert_eq!(together["backward_split"]["rule"], "halves");
        assert!(apart.get("backward_split").is_none());
    }
    let output = run(&format!("simulate {SHAPE} --backward 20ms --schedule 1f1b"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("backward is split into halves"), "{said}");
}

#[test]
fn by_flops_where_the_sizes_are_known() {
    // (24h + 8s) / (48h + 8s) of 39 ms with h = 4s: 13 to 12, of 25.
    let together = simulate(&format!("--backward 25ms --schedule zb-h1 {SIZES}"));
    let apart =
        simulate(&format!("--backward-input 13ms --backward-weight 12ms --schedule zb-h1 {SIZES}"));
    assert_eq!(together[0]["span_ns"], apart[0]["span_ns"]);
    assert_eq!(together[0]["peak_activation_bytes"], apart[0]["peak_activation_bytes"]);
    assert_eq!(together[0]["backward_split"]["rule"], "flops");
    assert_eq!(together[0]["backward_split"]["backward_input"], 0.52);
    let output = run(&format!("export {SHAPE} --backward 25ms --schedule zb-2p {SIZES}"));
    assert!(!stdout(&output).is_empty());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("52.00 % is B"), "{said}");
}

#[test]
fn one_for_each_stage_adds_up() {
    let all = simulate("--backward 20ms,21ms,22ms,23ms --schedule 1f1b");
    let busy: Vec<u64> = [20, 21, 22, 23].map(|time| 8 * (10 + time) * 1_000_000).into();
    assert_eq!(all[0]["busy_ns"], serde_json::json!(busy));
    let wrong = run(&format!("simulate {SHAPE} --backward 20ms,21ms --schedule 1f1b"));
    refused(&wrong, &["backward"]);
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("backward-input has"));
}

#[test]
fn not_together_with_one_part_alone() {
    for (part, other) in
        [("backward-input", "backward-weight"), ("backward-weight", "backward-input")]
    {
        let line = format!("simulate {SHAPE} --schedule 1f1b --backward 20ms --{part} 10ms");
        refused(&run(&line), &[&format!("{other} is missing"), "or backward alone"]);
    }
}

#[test]
fn a_scenario_says_it_flags_overrule_it_and_a_sweep_varies_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let head = "schedule = \"zb-h1\"\nstages = 4\nmicrobatches = 8\nforward = \"10ms\"\n";
    fs::write(path("a.toml"), format!("{head}backward = \"20ms\"\n")).unwrap();
    let file = path("a.toml");
    let both = |rest: &str| results(&format!("simulate {} --json {rest}", file.display()));
    assert_eq!(both("")[0]["work_ns"], 8 * 30_000_000);
    let parts = both("--backward-input 9ms --backward-weight 8ms");
    assert_eq!(parts[0]["work_ns"], 8 * 27_000_000);
    assert!(parts[0].get("backward_split").is_none());
    let axes = "[sweep]\nbackward = [\"20ms\", \"30ms\"]\nseq = [1024, 65536]\n";
    let sizes = "hidden = 4096\nheads = 32\n";
    fs::write(path("b.toml"), format!("{head}{sizes}{axes}")).unwrap();
    let out = path("rows.csv");
    let line = [
        "sweep".to_owned(),
        path("b.toml").display().to_string(),
        "--out".to_owned(),
        out.display().to_string(),
    ];
    assert_eq!(debubble(&line).status.code(), Some(0));
    let rows = fs::read_to_string(&out).unwrap();
    assert_eq!(rows.lines().count(), 5, "{rows}");
    // Long sequences give B more of the backward pass: the order and its span change.
    let asked = results(&format!(
        "simulate {} --json --backward 30ms --hidden 4096 --heads 32 --seq 65536",
        file.display()
    ));
    let span = asked[0]["span_ns"].to_string();
    assert!(rows.lines().last().unwrap().contains(&span), "{span} is not in {rows}");
}

#[test]
fn a_search_takes_it() {
    let line = format!("search {SHAPE} --backward 20ms --memory-limit 1p --effort 0 --json");
    let output = run(&line);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("backward is split into halves"));
}
