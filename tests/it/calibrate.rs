//! Calibrating: what it measures is a profile that questions can name, and a profile never speaks of
//! anything but what it was measured for.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::{debubble, refused, results, run, stdout};

const SHAPE: &str = "--hidden 32 --heads 4 --seq 16 --vocabulary 64";
const PIPELINE: &str = "--schedule 1f1b --stages 2 --microbatches 4";

/// A profile as `debubble calibrate` would write it on another machine, of round numbers: a layer takes 10, 20 and 8
/// us, the embeddings 1, 2 and 0, the head 5, 6 and 4, a message of the model's 4 us over a queue.
pub(crate) fn profile(folder: &Path) -> PathBuf {
    let samples = |time: u64| format!("samples = [{}]", vec![time.to_string(); 7].join(", "));
    let part = |name: &str, [f, b, w]: [u64; 3], [m_b, m_w]: [u64; 2]| {
        format!(
            "[{name}]\nfootprint = {{ until-backward = {m_b}, until-weight = {m_w} }}\n\
             [{name}.forward]\n{}\n[{name}.backward-input]\n{}\n[{name}.backward-weight]\n{}\n",
            samples(f),
            samples(b),
            samples(w)
        )
    };
    let link = |bytes: u64, time| {
        let time = samples(time);
        format!(
            "[[link.message]]\nbytes = {bytes}\npairs = 1\nboth-ways = false\n[link.message.time]\n{time}\n"
        )
    };
    let text = [
        "version = 1\nhalf-width = 0.02\n\
         [machine]\ncpu = \"example\"\ncores = 2\nos = \"example\"\ndevice = \"cpu\"\n\
         pinned = false\ndate = \"2026-11-30\"\nprogram = \"debubble\"\n\
         [model]\nhidden = 32\nheads = 4\nseq = 16\nmicrobatch-size = 2\nvocabulary = 64\n\
         element = \"f32\"\n"
            .to_owned(),
        format!("[overhead]\n{}\n", samples(0)),
        part("layer", [10_000, 20_000, 8_000], [3_000, 2_000]),
        part("embedding", [1_000, 2_000, 0], [100, 0]),
        part("head", [5_000, 6_000, 4_000], [700, 400]),
        format!("[optimizer]\nparameters = 1000\n[optimizer.step]\n{}\n", samples(9_000)),
        "[[link]]\nkind = \"queue\"\n".to_owned(),
        link(4096, 4_000),
        link(1 << 20, 80_000),
    ];
    let path = folder.join("profile.toml");
    fs::write(&path, text.concat()).unwrap();
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A question about `profile`, with `rest`.
fn ask(profile: &Path, rest: &str) -> std::process::Output {
    run(&format!("simulate {PIPELINE} --json --profile {} {rest}", profile.display()))
}

fn result(profile: &Path, rest: &str) -> Value {
    let json: Value = serde_json::from_str(&stdout(&ask(profile, rest))).unwrap();
    json["results"][0].clone()
}

#[test]
fn a_measured_profile_predicts_stages() {
    let folder = folder();
    let path = folder.path().join("here.toml");
    let line = format!(
        "calibrate {SHAPE} --effort quick --max-time 1s --links queue,copy,queue --remark test --pin \
         --workers 2 --json --out {}",
        path.display()
    );
    let json: Value = serde_json::from_str(&stdout(&run(&line))).unwrap();
    let names: Vec<&str> = json["quantities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|q| q["name"].as_str().unwrap())
        .collect();
    for name in ["clock, taken off", "square product", "layer F", "layer B", "layer W", "head W"] {
        assert!(names.contains(&name), "{name} not in {names:?}");
    }
    for quantity in json["quantities"].as_array().unwrap() {
        assert!(quantity["samples"].as_u64() >= Some(1), "{quantity}");
        if let (Some(low), Some(high)) = (quantity["low_ns"].as_u64(), quantity["high_ns"].as_u64())
        {
            let median = quantity["median_ns"].as_u64().unwrap();
            assert!(low <= median && median <= high, "{quantity}");
        }
    }
    let links = json["links"].as_array().unwrap();
    assert!(links.iter().any(|one| one["link"] == "queue" && one["both_ways"] == true));
    assert!(links.iter().any(|one| one["link"] == "copy"));
    assert_eq!(json["checks"].as_array().unwrap().len(), 6);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("remark = \"test\"") && text.contains("samples = ["), "{text}");
    let line = format!("simulate {PIPELINE} --json --layers 8 --profile {}", path.display());
    let result = &results(&line)[0];
    // F of the middle layers at least: 4 microbatches of 4 layers on each of 2 stages.
    let layer = json["quantities"].as_array().unwrap();
    let layer = layer.iter().find(|one| one["name"] == "layer F").unwrap();
    assert!(result["span_ns"].as_u64().unwrap() > 16 * layer["median_ns"].as_u64().unwrap());
    // 16 h + a s elements of 4 bytes for each token and layer, and two norms; tokens.
    let of_layer = 16 * (4 * (16 * 32 + 4 * 16) + 16);
    assert_eq!(result["peak_activation_bytes"][0], 2 * (4 * of_layer + 16 * 4));
}

#[test]
fn chunks_are_layers_with_both_ends() {
    let folder = folder();
    let profile = profile(folder.path());
    // 5 layers: 3 with the embeddings, 2 with the head.
    let busy = result(&profile, "--layers 5")["busy_ns"].clone();
    let stage = |f: u64, b: u64, w: u64| 4 * (f + b + w);
    assert_eq!(
        busy,
        serde_json::json!([stage(31_000, 62_000, 24_000), stage(25_000, 46_000, 20_000)])
    );
    let more = result(&profile, "--layers 5 --forward 1us,2us --hop 0ns");
    assert_eq!(
        more["busy_ns"],
        serde_json::json!([stage(1_000, 62_000, 24_000), stage(2_000, 46_000, 20_000)])
    );
    let held = result(&profile, "--layers 5")["peak_activation_bytes"].clone();
    assert_eq!(held, serde_json::json!([2 * 9_100, 6_700]));
    let given = result(&profile, "--layers 5 --activation 1KiB")["peak_activation_bytes"].clone();
    assert_eq!(given, serde_json::json!([2048, 1024]));
    let even = result(&profile, "--layers-per-stage 2")["busy_ns"].clone();
    assert_eq!(even, result(&profile, "--layers 4")["busy_ns"]);
}

#[test]
fn a_hop_is_that_of_the_message_of_the_model() {
    let folder = folder();
    let profile = profile(folder.path());
    // 1F1B of 2 stages crosses twice in the first and last microbatch, and once in each turn.
    let span = |rest: &str| result(&profile, rest)["makespan_ns"].as_u64().unwrap();
    let measured = span("--layers 4");
    assert_eq!(measured, span("--layers 4 --hop 4us"));
    assert!(measured > span("--layers 4 --hop 0ns"));
    // Under the engine too.
    assert_eq!(measured, span("--layers 4 --steps 1"));
}

#[test]
fn a_scenario_finds_its_profile_beside_itself() {
    let folder = folder();
    let profile = profile(folder.path());
    let scenario = folder.path().join("question.toml");
    let keys = "schedule = [\"1f1b\"]\nstages = 2\nmicrobatches = 4\nlayers = 4\n";
    fs::write(&scenario, format!("profile = \"profile.toml\"\n{keys}")).unwrap();
    let beside = results(&format!("simulate --json {}", scenario.display()));
    assert_eq!(beside[0]["busy_ns"], result(&profile, "--layers 4")["busy_ns"]);
    let sweep = folder.path().join("sweep.toml");
    let keys = keys.replace("layers = 4\n", "");
    let axes = "[sweep]\nprofile = [\"profile.toml\"]\nlayers = [4, 6]\n";
    fs::write(&sweep, format!("{keys}{axes}")).unwrap();
    let rows = folder.path().join("rows.csv");
    let [sweep, rows] = [&sweep, &rows].map(|path| path.to_str().unwrap());
    assert!(debubble(["sweep", sweep, "--out", rows]).status.success());
    assert_eq!(fs::read_to_string(rows).unwrap().lines().count(), 3);
    let text = "schedule = [\"1f1b\"]\nstages = 2\nmicrobatches = 4\nlayers = 4\nprofile = \"none.toml\"\n";
    fs::write(&scenario, text).unwrap();
    let missing = run(&format!("simulate {}", scenario.display()));
    refused(&missing, &["cannot read", "none.toml"]);
}

#[test]
fn a_profile_speaks_of_no_other_model() {
    let folder = folder();
    let profile = profile(folder.path());
    for (key, value, measured) in [
        ("hidden", 64, 32),
        ("heads", 8, 4),
        ("seq", 32, 16),
        ("microbatch-size", 1, 2),
        ("vocabulary", 100, 64),
    ] {
        let message = format!("{key} is {value}, but the profile was measured for {measured}");
        let output = ask(&profile, &format!("--layers 4 --{key} {value}"));
        refused(&output, &[&message, "debubble calibrate"]);
        assert!(ask(&profile, &format!("--layers 4 --{key} {measured}")).status.success(), "{key}");
    }
    // In a file, at the key.
    let scenario = folder.path().join("question.toml");
    let text = "schedule = [\"1f1b\"]\nstages = 2\nmicrobatches = 4\nlayers = 4\nhidden = 48\n\
                profile = \"profile.toml\"\n";
    fs::write(&scenario, text).unwrap();
    let output = run(&format!("simulate {}", scenario.display()));
    refused(&output, &["question.toml:5:10", "hidden is 48"]);
}

#[test]
fn questions_that_a_profile_cannot_answer() {
    let folder = folder();
    let profile = profile(folder.path());
    for (rest, message) in [
        ("", "--layers missing"),
        ("--layers 1", "1 layers cannot be cut into 2 chunks"),
        ("--layers 0", "layers must be at least 1"),
        ("--layers 9999999", "at most"),
        ("--layers 5 --layers-per-stage 2", "layers-per-stage over 2 stages gives 4"),
        ("--layers 5 --vocabulary 64 --cluster dgx-a100", "give resident"),
        ("--layers 4 --activation 1KiB --hidden 32", "exclude each other"),
    ] {
        refused(&ask(&profile, rest), &[message]);
    }
    let alone =
        format!("simulate {PIPELINE} --forward 1ms --backward-input 1ms --backward-weight 1ms");
    refused(&run(&format!("{alone} --layers 4")), &["layers are for a profile"]);
    assert!(ask(&profile, "--layers 4 --vocabulary 64 --cluster dgx-a100").status.success());
}

#[test]
fn the_optimizer_of_a_profile_lies_between_steps() {
    let folder = folder();
    let profile = profile(folder.path());
    // 2 layers of 12 h^2 + 13 h on each stage, and embeddings of (V + s) h on the first, more than
    // the V h + 2 h of the head; 9 ns for each parameter.
    let layers = 2 * (12 * 32 * 32 + 13 * 32);
    let largest = layers + (64 + 16) * 32;
    let step = |rest: &str| result(&profile, rest)["hardware"]["step_ns"].as_u64().unwrap();
    let own = step("--layers 4 --steps 2");
    assert_eq!(own, step(&format!("--layers 4 --steps 2 --optimizer {}ns", 9 * largest)));
    assert_eq!(own - step("--layers 4 --steps 2 --optimizer 0ns"), 9 * largest);
}

#[test]
fn a_bad_profile_is_shown_with_its_line() {
    let folder = folder();
    let path = profile(folder.path());
    let good = fs::read_to_string(&path).unwrap();
    for (from, to, message, line) in [
        ("version = 1", "version = 7", "version 7", ":1:"),
        ("cores = 2", "cores = 2\nspeed = 1", "unknown field `speed`", ":6:"),
        ("samples = [10000", "samples = [-1", "-1 is not a time", "profile.toml:"),
        ("samples = [10000", "samples = [1e999", "", "profile.toml:"),
        ("half-width = 0.02", "half-width = nan", "NaN", ":2:"),
        ("hidden = 32", "hidden = 1", "not a multiple", "profile.toml:"),
        ("[overhead]", "", "", "profile.toml:"),
    ] {
        fs::write(&path, good.replacen(from, to, 1)).unwrap();
        refused(&ask(&path, "--layers 4"), &[message, line]);
    }
    fs::write(&path, "").unwrap();
    refused(&ask(&path, "--layers 4"), &["missing field"]);
    fs::write(&path, [0xff, 0xfe]).unwrap();
    refused(&ask(&path, "--layers 4"), &["not UTF-8"]);
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    for (rest, message) in [
        ("--device tpu", "possible values"),
        ("--links pigeon", "possible values"),
        ("--hidden 0", "hidden must be at least 1"),
        ("--hidden -3", "invalid value"),
        ("--hidden NaN", "invalid value"),
        ("--heads 7", "not a multiple of 7 heads"),
        ("--hidden 99999999999999999999", "invalid value"),
        ("--hidden 2000000", "at most 1048576"),
        ("--hidden 1048576", "free"),
        ("--max-time 0s", "from 1s to 24h"),
        ("--max-time 5", "no unit"),
        ("--max-time -1s", "negative"),
        ("--max-time 900000s", "from 1s to 24h"),
        ("--workers 0", "--workers 0: from 1 to 1024"),
        ("--workers 1025", "from 1 to 1024"),
        ("--workers 1000 --hidden 4096", "free"),
    ] {
        refused(&run(&format!("calibrate {rest}")), &[message]);
    }
}
