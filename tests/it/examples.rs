//! The programs of `examples/`, as a reader would run them. `cargo test` builds them; a run of this
//! binary alone (`--test it`) may not have, and then says so.

use std::path::Path;
use std::process::Command;

use super::cli::stdout;

/// The output of the example `name`, if it has been built.
fn example(name: &str) -> Option<String> {
    let built = Path::new(env!("CARGO_BIN_EXE_debubble")).with_file_name("examples").join(name);
    if !built.exists() {
        println!("skipped: the example {name} has not been built");
        return None;
    }
    Some(stdout(&Command::new(built).output().unwrap()))
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
    assert!(text.contains("5.35 s per step, 61.2 GiB on stage 0"), "{text}");
}

#[test]
fn add_noise() {
    let Some(text) = example("add_noise") else { return };
    assert!(text.contains("1f1b        120.4ms   126.638 ms"), "{text}");
}
