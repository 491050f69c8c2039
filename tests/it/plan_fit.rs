//! `debubble plan --fit`: a machine is fitted to iterations, written, and planned with; what is not a table of
//! iterations is refused where it is wrong.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::command;

/// Set-ups of a small model: devices, tensor, pipeline, microbatch and batch.
const SETUPS: [[u64; 5]; 5] = [
    [8, 1, 1, 1, 64],
    [8, 2, 1, 2, 64],
    [16, 1, 4, 1, 128],
    [32, 4, 1, 1, 128],
    [64, 2, 2, 1, 256],
];

fn run(arguments: &[&str], folder: &Path) -> Output {
    command().arg("plan").args(arguments).current_dir(folder).output().unwrap()
}

fn json(arguments: &[&str], folder: &Path) -> Value {
    let out = run(&[arguments, &["--json"]].concat(), folder);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The step of a set-up on `machine`, in seconds, as the planner answers `[setup]`.
fn step(
    folder: &Path,
    machine: &str,
    [devices, tensor, pipeline, microbatch, batch]: [u64; 5],
) -> f64 {
    let question = format!(
        "model = \"config.json\"\ntokens = 1e9\nbatch = {batch}\nsequence = 4096\n\
         [[cluster]]\nmachine = \"{machine}\"\ndevices = {devices}\n\
         [setup]\ntensor = {tensor}\npipeline = {pipeline}\nmicrobatch = {microbatch}\n\
         [noise]\nreplicas = 2\n"
    );
    fs::write(folder.join("plan.toml"), question).unwrap();
    json(&["plan.toml"], folder)["plans"][0]["step_ns"].as_f64().unwrap() / 1e9
}

/// A folder with a model, a machine that computes at `share` of an A100, and a table of iterations there, as a
/// fit predicts them; and their seconds.
fn measured(share: f64) -> (TempDir, Vec<f64>) {
    let folder = TempDir::new().unwrap();
    let config = fs::read_to_string("tests/configs/llama-3-8b.json").unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    let a100 = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let changed = format!("[efficiency]\npower = {share}\n");
    let memory = format!("\nmemory = {}\n", 0.7847 * share);
    let slow = a100.replace("[efficiency]\n", &changed).replace("\nmemory = 0.7847\n", &memory);
    assert!(slow.contains(&changed) && slow.contains(&memory), "the file of the A100 has changed");
    fs::write(folder.path().join("slow.toml"), slow).unwrap();
    write_table(folder.path(), &[100.0; 5]);
    let predicted = json(&["--fit", "measured.csv", "--machine", "slow.toml"], folder.path());
    let rows = predicted["rows"].as_array().unwrap();
    let seconds: Vec<f64> = rows.iter().map(|row| row["base"].as_f64().unwrap()).collect();
    write_table(folder.path(), &seconds);
    (folder, seconds)
}

/// Writes a table in which the set-ups take `seconds`.
fn write_table(folder: &Path, seconds: &[f64]) {
    let mut table =
        "model,devices,tensor,pipeline,microbatch,batch,sequence,step-seconds\n".to_owned();
    assert_eq!(seconds.len(), SETUPS.len());
    for (setup, seconds) in SETUPS.iter().zip(seconds) {
        let [devices, tensor, pipeline, microbatch, batch] = setup;
        writeln!(
            table,
            "config.json,{devices},{tensor},{pipeline},{microbatch},{batch},4096,{seconds}"
        )
        .unwrap();
    }
    fs::write(folder.join("measured.csv"), table).unwrap();
}

/// Whether the planner answers `seconds`, too.
fn near(step: f64, seconds: f64) -> bool {
    (step / seconds - 1.0).abs() < 1e-6
}

#[test]
fn a_slower_machine_is_found_written_and_planned_with() {
    let (folder, seconds) = measured(0.8);
    let flags = ["--fit", "measured.csv", "--machine", "a100-80g", "--output", "own.toml"];
    let answer = json(&flags, folder.path());
    let error = |name: &str| answer[name]["mean"].as_f64().unwrap();
    assert_eq!(answer["improved"], true);
    assert!(error("before") > 0.1 && error("left_out") < 0.01, "{answer}");
    let machine = fs::read_to_string(folder.path().join("own.toml")).unwrap();
    assert!(machine.starts_with("# Made by `debubble plan --fit`"), "{machine}");
    for (setup, seconds) in [1, 4].map(|at| (SETUPS[at], seconds[at])) {
        let steps = ["slow.toml", "own.toml"].map(|machine| step(folder.path(), machine, setup));
        assert!(near(steps[0], seconds), "{setup:?} {steps:?} {seconds}");
        assert!((steps[1] / steps[0] - 1.0).abs() < 0.01, "{setup:?} {steps:?}");
    }
}

#[test]
fn a_machine_that_is_right_is_kept() {
    let (folder, seconds) = measured(1.0);
    for (setup, seconds) in SETUPS.into_iter().zip(seconds) {
        assert!(near(step(folder.path(), "slow.toml", setup), seconds), "{setup:?} {seconds}");
    }
    let flags = ["--fit", "measured.csv", "--machine", "a100-80g", "--output", "own.toml"];
    let out = run(&flags, folder.path());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("The base is kept"), "{text}");
    let base = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let own = fs::read_to_string(folder.path().join("own.toml")).unwrap();
    assert!(own.ends_with(&base) && own.len() > base.len(), "{own}");
}

/// The message of arguments that are refused.
fn refusal(arguments: &[&str], folder: &Path) -> String {
    let out = run(arguments, folder);
    let text = String::from_utf8_lossy(&out.stderr).replace('│', " ");
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(!folder.join("own.toml").exists());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let folder = TempDir::new().unwrap();
    let table = "model,gpus,tp,pp,micro_batch,global_batch,sequence,step_seconds\n\
                 llama3-8b,8,1,1,1,64,4096,2.0\nllama3-8b,8,2,1,1,64,4096,2.2\n";
    let flags = ["--fit", "measured.csv", "--machine", "h100", "--output", "own.toml"];
    let ask = |table: &str| {
        fs::write(folder.path().join("measured.csv"), table).unwrap();
        refusal(&flags, folder.path())
    };
    let text = ask(&table.replace("2.2", "fast"));
    assert!(text.contains("step-seconds is `fast`") && text.contains("measured.csv:3"), "{text}");
    let text = ask(&table.replace("2.2", "2.2e-9"));
    assert!(text.contains("2.200e-9 s is above the peak of 8 h100"), "{text}");
    assert!(text.contains("measured.csv:3"), "{text}");
    let text = ask(&table.replace("8,2,1", "8,2,5"));
    assert!(text.contains("measured.csv:3"), "{text}");
    let text = ask(&table.replace("tp,", "tensr,"));
    assert!(text.contains("did you mean `tensor`"), "{text}");
    let text = ask("");
    assert!(text.contains("there is no column model"), "{text}");
    let text = ask(&format!("{}\n", "x,".repeat(600_000)));
    assert!(text.contains("larger than"), "{text}");
    let missing = refusal(&["--fit", "none.csv", "--machine", "h100"], folder.path());
    assert!(missing.contains("there is no such file"), "{missing}");
    fs::write(folder.path().join("measured.csv"), table).unwrap();
    let text = refusal(&["--fit", "measured.csv", "--machine", "h10"], folder.path());
    assert!(text.contains("did you mean `h100`"), "{text}");
    for flags in [&["--machine", "h100"][..], &["--fit", "measured.csv", "--validate"]] {
        assert!(run(flags, folder.path()).status.code() == Some(2), "{flags:?}");
    }
}
