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
    assert!(tables.contains("idle/span") && tables.contains("F3"), "{tables}");
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
fn what_neighbours_cost_is_told_apart_from_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let one = predict(folder.path(), "alone.json", "--schedule 1f1b --hop 1ms");
    let longer = QUESTION.replace("10ms", "14ms").replace("11ms", "15ms");
    let predict_longer = |name: &str, flags: &str| {
        let path = folder.path().join(name).display().to_string();
        stdout(&run(&format!("simulate {longer} --schedule 1f1b {flags} --timeline {path}")));
        path
    };
    let beside = predict_longer("beside.json", "--hop 1ms");
    let measured = predict_longer("measured.json", "--hop 2ms");
    let plain = json(&format!("compare {one} {measured} --json"));
    let cut = json(&format!("compare {one} {measured} --beside {beside} --json"));
    let names = |compared: &Value| -> Vec<String> {
        let parts = compared["difference"].as_array().unwrap().iter();
        parts.map(|part| part["part"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&plain), ["order", "kernels", "transfers", "overhead", "all"]);
    assert_eq!(names(&cut), ["order", "neighbours", "kernels", "transfers", "overhead", "all"]);
    for key in ["span_ns", "makespan_ns", "idle_ns"] {
        let of = |part| share(&cut, part, key);
        assert_eq!(of("neighbours") + of("kernels"), share(&plain, "kernels", key), "{key}");
        for part in ["order", "transfers", "overhead", "all"] {
            assert_eq!(of(part), share(&plain, part, key), "{part} {key}");
        }
    }
    // Passes took what they take beside three busy neighbours, of which some were idle in the ramps.
    let all = share(&plain, "kernels", "span_ns");
    let neighbours = share(&cut, "neighbours", "span_ns");
    assert!(all / 4 < neighbours && neighbours < all, "{neighbours} of {all}");
    let text = stdout(&run(&format!("compare {one} {measured} --beside {beside}")));
    let percent = share(&cut, "neighbours", "span_ns") * 100 / share(&cut, "all", "span_ns");
    let sentence = |percent| format!("\nneighbours: {percent} % of the difference of +");
    let rounded = [sentence(percent), sentence(percent + 1)];
    assert!(rounded.iter().any(|one| text.contains(one)), "{text}");
    let mut rest = cut;
    for key in ["difference", "headline"] {
        rest[key] = plain[key].clone();
    }
    assert_eq!(rest, plain);
}

#[test]
fn a_prediction_beside_neighbours_is_of_the_same_slots() {
    let folder = tempfile::tempdir().unwrap();
    let one = predict(folder.path(), "one.json", "--schedule 1f1b");
    let other = predict(folder.path(), "other.json", "--schedule zb-h1");
    let more = folder.path().join("more.json").display().to_string();
    let twelve = QUESTION.replace("--microbatches 8", "--microbatches 12");
    stdout(&run(&format!("simulate {twelve} --schedule 1f1b --timeline {more}")));
    let beside = |path: &str| run(&format!("compare {one} {one} --beside {path}"));
    refused(&beside(&other), &["1f1b (p = 4", "zb-h1 (p = 4", "BW0.0", "--workers N"]);
    refused(&beside(&more), &["m = 12", "not of the same pipeline", "--workers N"]);
    refused(&beside("missing.json"), &["missing.json"]);
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
    refused(&run(&format!("compare {whole} {damaged}")), &["damaged.json", "empty or cut off"]);
    let long = vec!["1"; 70_000].join(",");
    let start = text.find("\"forward_ns\":[").unwrap() + "\"forward_ns\":[".len();
    fs::write(&damaged, format!("{}{long},{}", &text[..start], &text[start..])).unwrap();
    refused(&run(&format!("compare {whole} {damaged}")), &["longer than 65535"]);
}
