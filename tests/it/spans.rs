//! Traces of tools that more people have than a profiler's: spans of OpenTelemetry that Megatron-core exported, and
//! lines that Nsight Systems exports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{debubble, refused, stdout};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name)
}

fn replay(paths: &[PathBuf], flags: &str) -> Output {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    debubble(["replay"].into_iter().chain(paths).chain(flags.split_whitespace()))
}

fn answer(paths: &[PathBuf], flags: &str) -> Value {
    serde_json::from_str(&stdout(&replay(paths, &format!("{flags} --json")))).unwrap()
}

/// The files of two ranks.
fn ranks(name: &str, ending: &str) -> [PathBuf; 2] {
    [0, 1].map(|rank| recorded(&format!("spans/{name}.{rank}.{ending}")))
}

#[test]
fn spans_of_megatron_core_are_replayed_within_a_hundredth() {
    for files in [ranks("1f1b", "otlp.jsonl"), ranks("interleaved", "console.jsonl.gz")] {
        let seen = answer(&files, "");
        assert_eq!(seen["steps"][0]["step"], 2);
        assert_eq!(seen["steps"].as_array().unwrap().len(), 2);
        assert!(seen["max_abs_error"].as_f64().unwrap() < 0.01, "{seen}");
        let lacks = seen["lacks"].to_string();
        assert!(lacks.contains("no sends and receives in most of a step"), "{lacks}");
        assert!(!lacks.contains("no optimizer") && !lacks.contains("GPU"), "{lacks}");
        let [first, second] = files;
        assert_eq!(answer(&[second, first], ""), seen);
    }
}

#[test]
fn a_collector_writes_all_ranks_to_one_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("collected");
    let files = ranks("1f1b", "otlp.jsonl");
    let all = files.each_ref().map(|file| fs::read(file).unwrap()).concat();
    fs::write(&path, all).unwrap();
    let flags = "--what-if free-links --schedule zb-h1";
    let seen = answer(&[path], flags);
    assert_eq!(seen, answer(&files, flags));
    // Two stages and eight microbatches: 1F1B idles for one forward and one backward pass, which B fills.
    let order = &seen["what_if"][1];
    assert_eq!(order["name"], "zb-h1");
    assert!(order["saved_ns"].as_u64().unwrap() > 0, "{seen}");
}

#[test]
fn spans_and_reports_that_are_not_a_run() {
    let [first, second] = ranks("1f1b", "otlp.jsonl");
    refused(
        &replay(std::slice::from_ref(&second), ""),
        &["spans of 1 of the 2 ranks", "MEGATRON_OTEL_EXPORT_STRATEGY=all_ranks"],
    );
    let [other, _] = ranks("interleaved", "console.jsonl.gz");
    refused(
        &replay(&[other, second], ""),
        &["no step has all its passes", "the same number on each"],
    );
    let report = recorded("nsys/report.jsonl");
    refused(
        &replay(&[first.clone(), report.clone()], ""),
        &["a report of Nsight Systems", "spans of OpenTelemetry", "replay them apart"],
    );
    refused(&replay(&[report.clone(), report], ""), &["profile all ranks of the run in one"]);
    let other = debubble(["simulate", first.to_str().unwrap()]);
    refused(&other, &["a trace, for `debubble replay`"]);
}

#[test]
fn kernels_of_nsight_systems_are_passes() {
    let seen = answer(&[recorded("nsys/report.jsonl")], "");
    let of = |at: usize| seen["steps"][at]["measured_ns"].as_u64().unwrap();
    // Three forward and two backward passes of the first stage's clock, the last backward, and two hops of 400 us.
    assert_eq!((of(0), of(1)), (90_800_000, 90_800_000));
    assert!(seen["max_abs_error"].as_f64().unwrap() < 1e-9, "{seen}");
    assert_eq!(seen["hops"]["links"][0]["median_ns"], 400_000);
}
