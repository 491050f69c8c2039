//! A profile's prediction is compared with a run only on the machine and for the model that it was
//! measured for; and a model that does not fit is refused before anything is allocated.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

const SHAPE: &str = "--hidden 32 --heads 4 --seq 16 --vocabulary 64 --microbatch-size 2";
const PIPELINE: &str = "--stages 2 --microbatches 4 --layers 5";

/// A profile of this machine.
fn calibrated(folder: &Path) -> String {
    let path = folder.join("here.toml").display().to_string();
    let flags = "--effort quick --max-time 1s --links queue --workers 2";
    stdout(&run(&format!("calibrate {SHAPE} {flags} --out {path}")));
    path
}

fn execute(profile: &str, rest: &str) -> std::process::Output {
    run(&format!("execute --device cpu {PIPELINE} --profile {profile} {rest}"))
}

#[test]
fn a_run_is_predicted_from_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let profile = calibrated(folder.path());
    let schedules = "--schedule gpipe,1f1b,zb-2p,zb-v";
    let flags = format!("{schedules} --pin --check --steps 2 --json");
    let said = stdout(&execute(&profile, &flags));
    let ran: Value = serde_json::from_str(&said).unwrap();
    let question = format!("{PIPELINE} --profile {profile} {schedules}");
    let simulated = results(&format!("simulate {question} --json"));
    for (ran, simulated) in ran["results"].as_array().unwrap().iter().zip(&simulated) {
        for key in ["schedule", "makespan_ns", "busy_ns", "span_ns", "peak_activation_bytes"] {
            assert_eq!(ran[key], simulated[key], "{key}");
        }
        assert!(ran["measured"]["makespan_ns"].as_u64() > Some(0));
        let check = &ran["measured"]["check"];
        assert!(check["gradient_error"].as_f64() <= check["tolerance"].as_f64(), "{check}");
    }
    // No prediction is as exact as a millionth of a percent.
    let output = execute(&profile, "--schedule 1f1b --fail-steps-above 0.000001");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_profile_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let profile = calibrated(folder.path());
    for (key, value) in
        [("hidden", 64), ("heads", 8), ("seq", 32), ("vocabulary", 65), ("microbatch-size", 1)]
    {
        let output = execute(&profile, &format!("--schedule 1f1b --{key} {value}"));
        let message = format!("{key} is {value}, but the profile was measured for");
        refused(&output, &[&message, "debubble calibrate"]);
    }
    let text = fs::read_to_string(&profile).unwrap();
    let line = |key: &str| {
        let start = format!("{key} = ");
        text.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
    };
    for (key, other, what) in [
        ("cpu", "\"Z80\"", "processor is Z80"),
        ("cores", "4096", "number of cores is 4096"),
        ("device", "\"gpu\"", "device is gpu"),
        ("element", "\"bf16\"", "element is bf16"),
    ] {
        fs::write(&profile, text.replace(&line(key), &format!("{key} = {other}"))).unwrap();
        let output = execute(&profile, "--schedule 1f1b");
        refused(&output, &["the profile is of another machine", what, "debubble calibrate --pin"]);
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_built() {
    let huge = "execute --device cpu --stages 2 --microbatches 4 --schedule 1f1b --hidden 65536 \
                --heads 1 --layers 64";
    for rest in ["", "--check", "--processes"] {
        let output = run(&format!("{huge} {rest}"));
        refused(&output, &["training", "parameters takes about", "are free", "--layers"]);
    }
    // What overflows nothing but the memory for activations.
    let long = "execute --device cpu --stages 2 --microbatches 1024 --schedule gpipe --hidden 64 \
                --heads 4 --seq 16384";
    refused(&run(long), &["are free"]);
}

#[test]
fn peaks_of_a_run_are_those_of_the_executor() {
    // A layer keeps 16 h + a s elements of 4 bytes and mean and rstd of two norms; the first stage
    // its tokens; both microbatches at once under GPipe.
    let line = format!("execute --device cpu --stages 2 --microbatches 2 --layers 2 {SHAPE}");
    let ran = &results(&format!("{line} --schedule gpipe --json"))[0];
    let layer = 16 * (4 * (16 * 32 + 4 * 16) + 16);
    assert_eq!(ran["peak_activation_bytes"][0], 2 * 2 * (layer + 16 * 4));
}
