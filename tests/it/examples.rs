//! The programs of `examples/`, as a reader would run them. `cargo test` builds them; a run of this
//! binary alone (`--test it`) may not have, and then says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::cli::stdout;

/// The example `name`, if it has been built.
fn built(name: &str) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_debubble")).with_file_name("examples").join(name);
    if !built.exists() {
        println!("skipped: the example {name} has not been built");
        return None;
    }
    Some(built)
}

/// The output of the example `name`, if it has been built.
fn example(name: &str) -> Option<String> {
    Some(stdout(&Command::new(built(name)?).output().unwrap()))
}

#[test]
fn time_a_schedule() {
    let Some(text) = example("time_a_schedule") else { return };
    assert!(text.contains("1f1b           2.018s   20.7 %    7.5GiB"), "{text}");
}

#[test]
fn search_a_schedule() {
    let Some(text) = example("search_a_schedule") else { return };
    assert!(text.contains("found: 572.16ms\nlower bound: 572.16ms (head 0)"), "{text}");
}

#[test]
fn ask_for_a_plan() {
    let Some(text) = example("ask_for_a_plan") else { return };
    assert!(text.starts_with("160 set-ups, 32 of them simulated\nd 16 t 1 p 1"), "{text}");
    assert!(text.contains("5.35 s per step, 60.2 GiB on stage 0"), "{text}");
}

#[test]
fn add_noise() {
    let Some(text) = example("add_noise") else { return };
    assert!(text.contains("1f1b        120.4ms   126.687 ms"), "{text}");
}

/// The output of the example `answer_questions` for `lines`, if it has been built.
fn answered(lines: &str) -> Option<Vec<Value>> {
    let mut program = Command::new(built("answer_questions")?);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let text = stdout(&child.wait_with_output().unwrap());
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn answer_questions() {
    let keys = "\"stages\": 4, \"microbatches\": 8, \"forward\": \"1ms\", \"backward\": \"2ms\"";
    let lines = format!(
        "{{\"question\": {{\"schedule\": [\"1f1b\", \"zb-h1\"], {keys}}}, \"sort\": \"bubble\"}}\n\
         {{\"question\": {{\"schedule\": \"1f1c\", {keys}}}}}\n"
    );
    let Some(answers) = answered(&lines) else { return };
    let results = answers[0]["results"].as_array().unwrap();
    let names: Vec<&Value> = results.iter().map(|one| &one["schedule"]).collect();
    assert_eq!(names, ["zb-h1", "1f1b"]);
    let error = answers[1]["error"]["message"].as_str().unwrap();
    assert!(error.contains("1f1c"), "{error}");
    assert_eq!(answers.len(), 2);
}
