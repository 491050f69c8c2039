//! How commands end before their time: a Ctrl-C that cuts an answer short prints what there is, says
//! so, and exits with 130; what takes long is not silent meanwhile.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::debubble;
use crate::ctrl_c::{interrupted, press_ctrl_c, spawn};

/// The same as soon as it has said that it is under way.
fn interrupted_under_way(line: &str) -> Option<Output> {
    let mut child = spawn(line);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("progress") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    if !press_ctrl_c(&mut child) {
        return None;
    }
    // Both at once: what nobody reads holds up the program.
    let rest = std::thread::spawn(move || {
        stderr.read_to_string(&mut said).unwrap();
        said
    });
    let mut output = child.wait_with_output().unwrap();
    output.stderr = rest.join().unwrap().into_bytes();
    Some(output)
}

/// Checks that `output` was cut short and says so, and gives what it printed.
fn cut_short(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted: "), "{stderr}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

const SMALL: &str = "--stages 4 --microbatches 8 --forward 10ms --backward 18ms --hop 1ms";

#[test]
fn simulate_says_how_far_it_is_and_prints_the_replicas_there_are() {
    let line = format!(
        "simulate {SMALL} --schedule 1f1b,zb-h1 --jitter pass=normal:0.1 --replicas 10000000"
    );
    let Some(output) = interrupted_under_way(&line) else { return };
    let table = cut_short(&output);
    assert!(table.contains("1f1b") && table.contains("replicas"), "{table}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = stderr.lines().find(|line| line.starts_with("progress: ")).unwrap();
    assert!(line.contains(" of 20000000 replicas, "), "{line}");
    // Replicas of ten million schedules take minutes: that is said first.
    let first = stderr.find("this takes about").unwrap();
    assert!(first < stderr.find("progress: ").unwrap(), "{stderr}");
}

#[test]
fn as_json_too() {
    let line = format!(
        "simulate {SMALL} --schedule 1f1b --jitter pass=normal:0.1 --replicas 10000000 --json"
    );
    let Some(output) = interrupted(&line) else { return };
    let json: Value = serde_json::from_str(&cut_short(&output)).unwrap();
    assert_eq!(json["interrupted"], true);
    let replicas = json["results"][0]["monte_carlo"]["replicas"].as_u64().unwrap();
    assert!((1..10_000_000).contains(&replicas), "{replicas}");
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["note"].is_string() || line["progress"].is_string(), "{line}");
    }
}

#[test]
fn a_sweep_goes_on_where_it_was_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["grid.toml", "rows.csv"].map(|name| folder.path().join(name));
    let text = "schedule = \"zb-heuristic\"\nstages = 8\nforward = \"10ms\"\nbackward = \"20ms\"\n\
                memory-limit = \"1p\"\n[sweep]\nmicrobatches = { from = 64, to = 2063, step = 1 }\n";
    fs::write(&file, text).unwrap();
    let line = format!("sweep {} --out {}", file.display(), out.display());
    let Some(output) = interrupted(&line) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(cut_short(&output).is_empty());
    assert!(stderr.contains("of 2000 questions are in") && stderr.contains("goes on"), "{stderr}");
    assert!(!out.exists() && folder.path().join("rows.csv.partial").exists());
}

#[test]
fn fsdp_tells_what_the_minibatches_so_far_came_to() {
    let line = "fsdp --devices 8 --minibatch-size 4 --minibatches 10000000 --json";
    let Some(output) = interrupted(line) else { return };
    let json: Value = serde_json::from_str(&cut_short(&output)).unwrap();
    assert_eq!(json["interrupted"], true);
    let rows = json["results"].as_array().unwrap();
    let counts: Vec<_> = rows.iter().map(|row| row["minibatches"].as_u64().unwrap()).collect();
    assert!(counts.iter().all(|count| *count == counts[0] && (1..10_000_000).contains(count)));
}

#[test]
fn search_as_json_says_that_it_was_cut_short() {
    // A V whose best order is not proved at once.
    let line = "search --stages 8 --microbatches 48 --chunks 2 --forward 3001us --backward-input 3.33ms \
                --backward-weight 1ms --hop 777us --memory-limit 0.8p --effort 1000000 --json";
    let Some(output) = interrupted(line) else { return };
    let json: Value = serde_json::from_str(&cut_short(&output)).unwrap();
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["results"].as_array().unwrap().len(), 1);
}

/// More steps than any machine goes through while a test lasts.
const ENDLESS: &str = "--stages 2 --microbatches 2 --steps 100000";

/// The JSON of `line` under way when Ctrl-C was pressed, and its notes; it ends soon, though what is left
/// to do takes minutes.
fn execution_under_way(line: &str) -> Option<(Value, Vec<String>)> {
    let output = interrupted_under_way(&format!("{line} --json"))?;
    let json: Value = serde_json::from_str(&cut_short(&output)).unwrap();
    assert_eq!(json["interrupted"], true);
    let lines = String::from_utf8(output.stderr).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let note = |line: Value| line["note"].as_str().map(str::to_owned);
    Some((json, lines.filter_map(note).collect()))
}

#[test]
fn execute_keeps_the_steps_that_all_stages_have_completed() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("rows.csv");
    let line = format!(
        "execute {ENDLESS} --schedule 1f1b,zb-h1 --forward 1ms --backward 2ms --csv {}",
        csv.display()
    );
    let Some((json, notes)) = execution_under_way(&line) else { return };
    let results = json["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["schedule"]), (1, &Value::from("1f1b")));
    let steps = results[0]["measured"]["steps"].as_array().unwrap();
    assert!((1..100_000).contains(&steps.len()), "{}", steps.len());
    // Two passes of 1 ms and two of 2 ms on each stage, all of them done.
    let whole = |step: &Value| step["makespan_ns"].as_u64().unwrap() >= 9_000_000;
    assert!(steps.iter().all(whole), "{steps:?}");
    let cut = format!("1f1b: cut short after {} of 100000 measured steps", steps.len());
    assert!(notes.contains(&cut), "{notes:?}");
    assert!(notes.iter().any(|note| note.ends_with("none of zb-h1")), "{notes:?}");
    let rows = fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(rows.contains(&format!(",{},", steps.len())), "{rows}");
}

#[test]
fn execute_compares_no_run_that_was_cut_short() {
    let model = "--device cpu --hidden 8 --heads 1 --seq 4 --layers 2 --vocabulary 8";
    let line = format!("execute {ENDLESS} {model} --schedule 1f1b --check --boundary barrier");
    let Some((json, notes)) = execution_under_way(&line) else { return };
    let measured = &json["results"][0]["measured"];
    assert!(measured["steps"][0]["loss"].is_f64() && measured.get("check").is_none(), "{measured}");
    assert!(notes.iter().any(|note| note.contains("not compared with the reference")), "{notes:?}");
}

#[test]
fn execute_tells_nothing_of_a_run_without_a_whole_step() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("rows.csv");
    // The step that warms up takes minutes.
    let long = "--stages 2 --microbatches 2000 --forward 100ms --backward 200ms";
    let line = format!("execute {long} --schedule 1f1b,zb-h1 --csv {}", csv.display());
    for json in ["", " --json"] {
        let begin = Instant::now();
        let Some(output) = interrupted(&format!("{line}{json}")) else { return };
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        let said = cut_short(&output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("no step was measured"), "{stderr}");
        match json {
            "" => assert!(said.is_empty(), "{said}"),
            _ => {
                let said: Value = serde_json::from_str(&said).unwrap();
                assert_eq!(said, serde_json::json!({ "results": [], "interrupted": true }));
            }
        }
        assert!(!csv.exists());
    }
}

#[test]
fn calibrate_says_that_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("profile.toml");
    let line = format!("calibrate --effort thorough --out {}", out.display());
    let Some(output) = interrupted(&line) else { return };
    assert!(cut_short(&output).is_empty());
    assert!(!out.exists());
}

#[test]
fn what_is_whole_ends_with_success() {
    let output = debubble(format!("simulate {SMALL} --schedule 1f1b --json").split_whitespace());
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json.get("interrupted").is_none());
}

/// A named pipe is waited for, but not for ever.
#[test]
fn a_pipe_that_nobody_writes_to_is_refused_and_another_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("question.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ask = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.arg("simulate").arg(&pipe).args(["--json"]);
        command
    };
    let alone = ask().output().unwrap();
    let message = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(2), "{message}");
    assert!(message.contains("a pipe without a writer"), "{message}");
    // With a writer that comes later it is read like a file.
    let text = "schedule = [\"1f1b\"]\nstages = 2\nmicrobatches = 2\nforward = \"1ms\"\n\
                backward-input = \"1ms\"\nbackward-weight = \"1ms\"\n";
    let child = ask().stdout(Stdio::piped()).spawn().unwrap();
    fs::write(&pipe, text).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

/// Thousands of threads are not started because the environment says so.
#[test]
fn a_wild_number_of_threads_is_not_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    let question = "simulate --schedule 1f1b --stages 2 --microbatches 2 --forward 1ms --backward-input 1ms \
                    --backward-weight 1ms";
    command.args(question.split(' ')).env("RAYON_NUM_THREADS", "100000");
    let out = command.output().unwrap();
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{message}");
    assert!(message.contains("RAYON_NUM_THREADS is 100000"), "{message}");
}
