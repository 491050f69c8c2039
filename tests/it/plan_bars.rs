//! `debubble plan`: how far predicted steps may be off, and where that is known from.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;
use crate::plan::{SMALL, command, json, refusal};

/// The bar of the first machine of a plan on `machine`, a file of that content.
fn bar(machine: &str) -> Value {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("own.toml"), machine).unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, SMALL.replace("a100-80g", "own.toml").replace("[8, 16]", "[8]")).unwrap();
    let answer = stdout(&command().arg("plan").arg(&path).arg("--json").output().unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["plans"][0]["error"], answer["errors"][0]["error"]);
    answer["errors"][0].clone()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

#[test]
fn the_bar_of_a_machine_is_its_largest_error_on_published_rows() {
    let answer = json(SMALL);
    let bar = &answer["errors"][0];
    let out = command().args(["plan", "--validate", "--json"]).output().unwrap();
    let sets: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = sets.as_array().unwrap()[..3].iter().flat_map(|set| set["rows"].as_array().unwrap());
    let of_steps = |row: &&Value| {
        ["s per iteration", "samples/GPU/s"].contains(&row["quantity"].as_str().unwrap())
    };
    let errors: Vec<f64> = rows.filter(of_steps).map(|row| number(row, "error").abs()).collect();
    assert_eq!(number(bar, "rows"), 33.0);
    assert_eq!(errors.len(), 33);
    assert_eq!(number(bar, "error"), errors.iter().fold(0.0, |a: f64, b| a.max(*b)));
    assert!((number(bar, "mean") - errors.iter().sum::<f64>() / 33.0).abs() < 1e-12);
    assert_eq!(bar["sources"].as_array().unwrap().len(), 3);
    for plan in answer["plans"].as_array().unwrap() {
        assert_eq!(plan["error"], bar["error"]);
    }
}

#[test]
fn machines_of_which_nothing_is_published_say_so() {
    let h100 = SMALL.replace("a100-80g", "h100");
    let bar = &json(&h100)["errors"][0];
    assert_eq!(number(bar, "rows"), 0.0);
    assert!(bar["mean"].is_null() && number(bar, "error") >= 0.2);
    let folder = TempDir::new().unwrap();
    let [path, page] = ["plan.toml", "page.html"].map(|name| folder.path().join(name));
    fs::write(&path, h100).unwrap();
    let out = command().arg("plan").arg(&path).arg("--html").arg(&page).output().unwrap();
    let said = "h100: no published measurements; +- 20.00 % is an assumption";
    assert!(stdout(&out).contains(said) && fs::read_to_string(&page).unwrap().contains(said));
}

#[test]
fn constants_of_ones_own_have_their_own_error() {
    let a100 = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let same = bar(&a100);
    assert_eq!(number(&same, "rows"), 33.0);
    let slow = bar(&a100.replace("matmul = 0.7878", "matmul = 0.4"));
    assert!(number(&slow, "error") > 5.0 * number(&same, "error"), "{slow}");
    let unknown = bar(&a100.replace("type = ", "# type = "));
    assert_eq!(number(&unknown, "rows"), 0.0);
    assert!(number(&unknown, "error") > number(&same, "error"));
    let folder = TempDir::new().unwrap();
    let typed = a100.replace("[efficiency]", "[efficiency]\nerror = 0.01");
    let machine = folder.path().join("own.toml");
    fs::write(&machine, typed).unwrap();
    let text = refusal(&SMALL.replace("a100-80g", machine.to_str().unwrap()));
    assert!(text.contains("unknown field `error`"), "{text}");
}

#[test]
fn measurements_of_an_unknown_device_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("own.csv");
    let text = fs::read_to_string("scenarios/paper/megatron2021.csv").unwrap();
    fs::write(&path, text.replace("A100 80GB", "B300")).unwrap();
    let out = command().args(["plan", "--validate"]).arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("B300") && text.contains("H100 80GB"), "{text}");
}
