//! What is asked of GPUs is refused with its cure where it cannot be, before anything is run.

use std::process::{Command, Output};

use crate::cli::{refused, run};

/// Runs a command line where no GPU is seen, whatever this machine has.
fn without_gpus(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.args(line.split_whitespace()).env("CUDA_VISIBLE_DEVICES", "-1").output().unwrap()
}

const RUN: &str = "execute --stages 2 --microbatches 2 --schedule 1f1b";

#[test]
fn without_a_gpu_it_is_said_what_is_missing_and_what_to_do() {
    let what = if cfg!(feature = "cuda") { "is missing" } else { "built without CUDA" };
    for line in [
        format!("{RUN} --device cuda"),
        format!("{RUN} --device cuda --processes"),
        format!("{RUN} --device cuda --element f32 --gpus 0"),
        "calibrate --device cuda".to_owned(),
        "calibrate --device cuda --partition 8".to_owned(),
    ] {
        refused(&without_gpus(&line), &["--device cuda: ", what, "help: "]);
    }
}

#[test]
fn flags_of_gpus_are_refused_elsewhere() {
    for flag in ["--element bf16", "--gpus 0,1"] {
        for device in ["cpu", "timed"] {
            let line = format!("{RUN} --forward 1ms --device {device} {flag}");
            refused(&run(&line), &["is for --device cuda"]);
        }
    }
    for flag in ["--element f32", "--gpu 0", "--partition 2"] {
        refused(&run(&format!("calibrate {flag}")), &["is for --device cuda"]);
    }
    for link in ["hand-over", "peer", "host-copy"] {
        let parts = [&*format!("--links {link}"), "--device cuda"];
        refused(&run(&format!("calibrate --links {link}")), &parts);
    }
    refused(&run(&format!("{RUN} --device cpu --links nccl")), &["NCCL joins GPUs"]);
    if !cfg!(feature = "nccl") {
        let asked = without_gpus(&format!("{RUN} --device cuda --links nccl"));
        refused(&asked, &["built without NCCL", "--features nccl"]);
    }
}

#[test]
fn a_run_is_held_against_f64_or_against_its_own_device() {
    let model = "--device cpu --hidden 16 --heads 2 --seq 8 --vocabulary 32 --steps 1";
    for (flag, most) in [("--check", 1e-5), ("--check=f64", 1e-5), ("--check=device", 1e-6)] {
        let ran = crate::cli::results(&format!("{RUN} {model} {flag} --json"));
        let check = &ran[0]["measured"]["check"];
        assert!(check["gradient_error"].as_f64().unwrap() < most, "{flag} {check}");
        assert_eq!(check["tolerance"], 1e-4);
    }
    refused(&run(&format!("{RUN} {model} --check=what")), &["f64", "device"]);
}
