//! `debubble plan` with `[lengths]`: steps of microbatches whose documents differ, and context groups that
//! are as large as documents need.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::command;

const QUESTION: &str = r#"
title = "long"
tokens = 1e10
batch = 16
sequence = 65536
model = { layers = 16, hidden = 4096, heads = 32, kv-heads = 8, ffn = 8192, gated = true, vocabulary = 32000 }

[[cluster]]
machine = "h100"
devices = 16
"#;

/// A table of documents, most of them short.
const DOCUMENTS: &str = "[lengths]\ndocuments = \"lognormal:800:1.6:65536\"\n";

fn told(setup: &str, lengths: &str, flags: &[&str]) -> std::process::Output {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, format!("{QUESTION}{setup}\n{lengths}")).unwrap();
    command().arg("plan").arg(&path).args(flags).output().unwrap()
}

fn json(setup: &str, lengths: &str) -> Value {
    let out = told(setup, lengths, &["--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn refusal(setup: &str, lengths: &str) -> String {
    let out = told(setup, lengths, &[]);
    assert_eq!(out.status.code(), Some(2), "{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stderr).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn a_step_is_the_mean_of_those_that_documents_make() {
    let setup = "[setup]\ncontext = 4\npipeline = 2\nchunks = 2";
    let answer = json(setup, DOCUMENTS);
    let own = &answer["setups"][0];
    let documents = &own["documents"];
    let [even, mean, p95] =
        ["even_step_ns", "mean_step_ns", "p95_step_ns"].map(|key| number(&documents[key]));
    assert!(even < mean && mean < p95, "{documents}");
    assert_eq!(number(&own["step_ns"]), mean);
    assert_eq!(number(&answer["plans"][0]["step_ns"]), mean);
    // Days follow from it, and the parts add up to it.
    let tokens = 16.0 * 65_536.0;
    let rate = number(&answer["plans"][0]["tokens_per_second"]);
    assert!((rate * mean / 1e9 / tokens - 1.0).abs() < 1e-9);
    let parts = own["time"].as_array().unwrap().iter();
    let sum: f64 = parts.clone().map(|part| number(&part["seconds"])).sum();
    assert!((sum - mean / 1e9).abs() < 1e-6, "{sum} {mean}");
    let uneven = parts.clone().find(|part| part["name"] == "uneven documents").unwrap();
    assert!((number(&uneven["seconds"]) - (mean - even) / 1e9).abs() < 1e-6);
    // The step of a question without lengths whose sequences are one document is what it was.
    let alike = "[lengths]\ndocuments = \"in-order:lengths.txt\"\n";
    assert!(refusal(setup, alike).contains("lengths.txt"));
    let whole = json(setup, "");
    let one = json(setup, "[lengths]\ndocuments = \"uniform:65536-65536\"\n");
    for key in ["even_step_ns", "mean_step_ns", "p95_step_ns"] {
        assert_eq!(one["setups"][0]["documents"][key], whole["setups"][0]["step_ns"], "{key}");
    }
}

#[test]
fn a_seed_gives_the_same_steps_on_any_number_of_threads() {
    let setup = "[setup]\ncontext = 4\ndynamic-context = true";
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    let ask = |threads: &str, seed: u64| {
        fs::write(&path, format!("{QUESTION}{setup}\n{DOCUMENTS}seed = {seed}\n")).unwrap();
        let mut ask = command();
        ask.arg("plan").arg(&path).arg("--json").env("RAYON_NUM_THREADS", threads);
        ask.output().unwrap().stdout
    };
    let one = ask("1", 5);
    assert!(!one.is_empty());
    assert_eq!(one, ask("3", 5));
    assert_ne!(one, ask("1", 6));
}

#[test]
fn context_groups_as_large_as_documents_need_are_faster_for_short_ones() {
    let fixed = json("[setup]\ncontext = 16", DOCUMENTS);
    let dynamic = json("[setup]\ncontext = 16\ndynamic-context = true", DOCUMENTS);
    let [fixed, dynamic] = [&fixed, &dynamic].map(|answer| &answer["setups"][0]);
    let own = &dynamic["documents"]["dynamic"];
    assert!(fixed["documents"].get("dynamic").is_none());
    assert_eq!(dynamic["documents"]["mean_step_ns"], fixed["step_ns"]);
    assert_eq!(own["mean_step_ns"], dynamic["step_ns"]);
    assert!(number(&dynamic["step_ns"]) < 0.97 * number(&fixed["step_ns"]), "{own}");
    assert!(number(&own["filled"]) > 0.95, "{own}");
    assert_eq!(own["tokens_per_device"], 4096);
    let groups = own["groups"].as_array().unwrap();
    let sizes: Vec<u64> = groups.iter().map(|one| one["context"].as_u64().unwrap()).collect();
    assert!(sizes.starts_with(&[1, 2, 4]), "{groups:?}");
    let tokens: f64 = groups.iter().map(|one| number(&one["tokens"])).sum();
    assert!((tokens - 1.0).abs() < 1e-9);
    // Devices hold what they held.
    assert_eq!(dynamic["memory"], fixed["memory"]);
    let parts = dynamic["time"].as_array().unwrap().iter();
    let sum: f64 = parts.clone().map(|part| number(&part["seconds"])).sum();
    assert!((sum - number(&dynamic["step_ns"]) / 1e9).abs() < 1e-6);
    assert!(parts.clone().any(|part| part["name"] == "context groups by documents"));
    // Where every document fills a sequence, there is nothing to deal otherwise.
    let long = "[lengths]\ndocuments = \"uniform:65536-65536\"\n";
    let [one, other] = ["", "dynamic-context = true"].map(|key| {
        number(&json(&format!("[setup]\ncontext = 16\n{key}"), long)["setups"][0]["step_ns"])
    });
    assert!((one / other - 1.0).abs() < 1e-3, "{one} {other}");
}

#[test]
fn dynamic_context_is_told_and_exported() {
    let setup = "[setup]\ncontext = 16\nmicrobatch = 2\ndynamic-context = true";
    let folder = TempDir::new().unwrap();
    let into = folder.path().join("run");
    let out = told(setup, DOCUMENTS, &["--export", into.to_str().unwrap()]);
    let text = String::from_utf8(out.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("with context groups by documents"), "{text}");
    assert!(text.contains("up to 8192 tokens on a device"), "{text}");
    assert!(text.contains("forming new context groups takes no time"), "{text}");
    let script = fs::read_to_string(into.join("megatron.sh")).unwrap();
    assert!(script.contains("--hybrid-context-parallel"), "{script}");
    assert!(script.contains("--max-seqlen-per-dp-cp-rank 8192"), "{script}");
}

#[test]
fn what_cannot_be_dealt_is_refused_with_a_cure() {
    let setup = "[setup]\ncontext = 4\ndynamic-context = true";
    let none = refusal(setup, "");
    assert!(none.contains("no lengths of documents are given"), "{none}");
    assert!(none.contains("help: add a table [lengths]"), "{none}");
    let single = format!("{QUESTION}{setup}\n[lengths]\ndocuments = \"uniform:1-1\"\n");
    let of = |text: &str| {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        let out = command().arg("plan").arg(&path).output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        let why = String::from_utf8(out.stderr).unwrap();
        why.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let many = of(&single.replace("batch = 16", "batch = 65536"));
    assert!(many.contains("documents of a step one by one"), "{many}");
    assert!(many.contains("help: give a smaller batch"), "{many}");
    let torch =
        of(&format!("framework = \"torchtitan\"\n{QUESTION}{setup}\nzero = 3\n{DOCUMENTS}"));
    assert!(torch.contains("torchtitan has context groups of one size"), "{torch}");
    for hostile in
        ["\"lognormal:800:nan:99\"", "\"uniform:0-9\"", "\"lognormal:800:1:99999999999\""]
    {
        let why = refusal(setup, &format!("[lengths]\ndocuments = {hostile}\n"));
        assert!(why.contains("documents"), "{why}");
    }
}
