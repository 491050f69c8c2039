//! Timeline files and what is said about two of them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{refused, run, stdout};

const QUESTION: &str = "--stages 4 --microbatches 8 --forward 10ms --backward-input 11ms \
                        --backward-weight 8ms --gantt never";

/// Writes the predicted timeline of `flags` and returns its path.
fn predict(folder: &Path, name: &str, flags: &str) -> String {
    let path = folder.join(name).display().to_string();
    stdout(&run(&format!("simulate {QUESTION} {flags} --timeline {path}")));
    path
}

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&run(line))).unwrap()
}

/// The share of `part` in what `key` differs by.
fn share(comparison: &Value, part: &str, key: &str) -> i64 {
    let parts = comparison["difference"].as_array().unwrap();
    parts.iter().find(|one| one["part"] == part).unwrap()[key].as_i64().unwrap()
}

#[test]
fn a_file_and_itself_differ_in_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let flags = "--hop 1ms --schedule zb-h1 --cluster dgx-a100 --steps 3 --hidden 4096 --heads 32 \
                 --seq 1024 --layers-per-stage 2 --microbatch-size 1";
    let path = predict(folder.path(), "one.json", &flags.replace("--hop 1ms ", ""));
    let compared = json(&format!("compare {path} {path} --json --fail-above 0"));
    assert_eq!(compared["error"], 0.0);
    for part in ["order", "kernels", "transfers", "overhead", "all"] {
        for key in ["span_ns", "makespan_ns", "idle_ns"] {
            assert_eq!(share(&compared, part, key), 0, "{part} {key}");
        }
    }
    assert!(compared["waits"].as_array().unwrap().is_empty());
    assert!(compared["passes"].as_array().unwrap().iter().all(|one| one["error"] == 0.0));
    let tables = stdout(&run(&format!("compare {path} {path}")));
    assert!(tables.contains("bubble") && tables.contains("F3"), "{tables}");
}

#[test]
fn slower_passes_and_longer_hops_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let one = predict(folder.path(), "one.json", "--schedule 1f1b --hop 1ms");
    let hops = predict(folder.path(), "hops.json", "--schedule 1f1b --hop 2ms");
    let compared = json(&format!("compare {one} {hops} --json"));
    // K = 2(p-1)m/p + 2(p-2) hops.
    assert_eq!(share(&compared, "transfers", "makespan_ns"), 16_000_000);
    assert_eq!(share(&compared, "all", "makespan_ns"), 16_000_000);
    let svg = folder.path().join("both.svg");
    let failed = run(&format!("compare {one} {hops} --svg {} --fail-above 1", svg.display()));
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("more than 1 %"));
    assert!(fs::read_to_string(svg).unwrap().contains("</svg>"));
    stdout(&run(&format!("compare {one} {hops} --fail-above 10")));
}

#[test]
fn foreign_timelines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = predict(folder.path(), "one.json", "--schedule 1f1b");
    let other = predict(folder.path(), "other.json", "--schedule zb-h1");
    let output = run(&format!("compare {one} {other}"));
    refused(&output, &["1f1b (p = 4", "zb-h1 (p = 4", "BW0.0 on stage 0"]);
    refused(&run(&format!("compare {one} {one} --fail-above NaN")), &["--fail-above"]);
    refused(&run(&format!("compare {one} missing.json")), &["missing.json"]);
    let output = run(&format!("simulate {QUESTION} --schedule 1f1b,zb-h1 --timeline x.json"));
    refused(&output, &["--timeline takes one timeline, but there are 2"]);
}

#[test]
fn damaged_files_are_refused() {
    type Damage = fn(&mut Value);
    let damages: [(Damage, &str); 17] = [
        (|file| file["version"] = json!(2), "version 2"),
        (|file| file["version"] = json!("one"), "not a timeline"),
        (|file| file["source"] = json!("guessed"), "guessed"),
        (|file| file["extra"] = json!(1), "extra"),
        (|file| file["steps"] = json!([]), "no steps"),
        (|file| file["steps"][0]["stages"][1]["slots"][2]["start_ns"] = json!(-1), "-1"),
        (|file| file["steps"][0]["stages"][1]["slots"][2]["end_ns"] = json!(1.5), "1.5"),
        (|file| file["steps"][0]["stages"][1]["slots"][2]["end_ns"] = json!(1), "slot 2, F1.2"),
        (|file| file["steps"][0]["stages"][1]["slots"][2]["start_ns"] = json!(1), "one before"),
        (|file| file["steps"][0]["stages"][0]["slots"][0]["end_ns"] = json!(u64::MAX), "at most"),
        (|file| file["steps"][0]["stages"][1]["slots"][0]["slot"] = json!("F1.7"), "the order has"),
        (|file| drop(file["steps"][0]["stages"][1]["slots"][0]["arrived"].take()), "arrived"),
        (
            |file| file["steps"][0]["stages"][1]["slots"][0]["arrived"]["chunk"] = json!(3),
            "needs no",
        ),
        (|file| drop(file["steps"][0]["stages"].as_array_mut().unwrap().pop()), "3 stages"),
        (|file| file["steps"][0]["stages"][1]["end_ns"] = json!(0), "is done at 0 ns"),
        (|file| file["costs"]["forward_ns"] = json!([1]), "same number of chunks"),
        (|file| file["schedule"]["order"][0] = json!("F0.0 F0.99999999"), "order"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let whole = predict(folder.path(), "whole.json", "--schedule 1f1b --hop 1ms");
    let text = fs::read_to_string(&whole).unwrap();
    let damaged = folder.path().join("damaged.json").display().to_string();
    for (damage, message) in damages {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        damage(&mut file);
        fs::write(&damaged, file.to_string()).unwrap();
        refused(&run(&format!("compare {whole} {damaged}")), &["damaged.json", message]);
    }
    fs::write(&damaged, &text[..text.len() / 2]).unwrap();
    refused(&run(&format!("compare {whole} {damaged}")), &["damaged.json", "EOF"]);
    let long = vec!["1"; 70_000].join(",");
    let start = text.find("\"forward_ns\":[").unwrap() + "\"forward_ns\":[".len();
    fs::write(&damaged, format!("{}{long},{}", &text[..start], &text[start..])).unwrap();
    refused(&run(&format!("compare {whole} {damaged}")), &["longer than 65535"]);
}
