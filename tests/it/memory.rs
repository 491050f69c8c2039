//! Whoever asks for more than there is memory for is told so before it is taken: exit code 2, both
//! figures and a cure, instead of a program that the system ends.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::cli::{refused, stdout};

/// The program with `megabytes` of address space.
fn limited(megabytes: u64, words: &str) -> Output {
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes << 10);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_debubble")]);
    // An arena of its own for a thread takes 64 MiB of addresses, now and then.
    shell.env("MALLOC_ARENA_MAX", "1");
    shell.args(words.split_whitespace()).output().unwrap()
}

const TIMES: &str = "--forward 10ms --backward-input 10ms --backward-weight 8ms --hop 1ms";

#[test]
fn an_order_that_is_too_large_is_refused() {
    let asked = format!("--schedule zb-h1 --stages 1024 --microbatches 8192 {TIMES}");
    for command in ["simulate", "export"] {
        let parts = ["zb-h1: an order of 25165824 passes takes about", " of memory, and ", "free"];
        let output = limited(300, &format!("{command} {asked}"));
        refused(&output, &parts);
        refused(&output, &["--microbatches"]);
    }
    // What fits is answered under the same limit.
    let small = asked.replace("8192", "64");
    assert!(stdout(&limited(300, &format!("simulate {small}"))).contains("zb-h1"));
}

#[test]
fn files_that_are_too_large_are_not_begun() {
    let folder = TempDir::new().unwrap();
    let asked = format!("simulate --schedule 1f1b --stages 128 --microbatches 2048 {TIMES}");
    for flag in ["--html", "--trace", "--timeline"] {
        let file = folder.path().join("file");
        let output = limited(160, &format!("{asked} {flag} {}", file.display()));
        refused(&output, &[&format!("{flag}: a file of 524288 passes takes about")]);
        assert!(!file.exists());
    }
}

#[test]
fn a_schedule_file_that_is_too_large_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("long.txt");
    fs::write(&file, "F0.0 ".repeat(6_000_000)).unwrap();
    let asked =
        format!("simulate --schedule {} --stages 1 --microbatches 1 {TIMES}", file.display());
    refused(&limited(160, &asked), &["long.txt", " takes about ", " of memory, and "]);
}

/// Three bytes can be a value of TOML, for which its parser takes two hundred.
#[test]
fn a_file_of_millions_of_values_is_refused_before_it_is_parsed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("lists.toml");
    fs::write(&file, format!("a = [{}]\n", "[],".repeat(2_000_000))).unwrap();
    let path = file.display();
    for asked in [
        format!("simulate {path}"),
        format!("sweep {path} --out {path}.csv"),
        format!("simulate --profile {path} --layers 2 --stages 2 --microbatches 2 --schedule 1f1b"),
        format!("verify {path}"),
    ] {
        refused(&limited(200, &asked), &["lists.toml", "values and lines: at most 1048576"]);
    }
}

/// An allocation that fails midway would end the process with a signal.
#[test]
fn a_plan_is_refused_where_its_threads_have_no_room() {
    let plan = |megabytes: u64| {
        let script = format!("ulimit -v {}; exec \"$0\" plan \"$1\"", megabytes << 10);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_debubble"), "scenarios/plan/moe.toml"]);
        shell.env("RAYON_NUM_THREADS", "4").output().unwrap()
    };
    for megabytes in [160, 256, 384] {
        refused(&plan(megabytes), &["a plan on 4 threads needs 352 MiB", "RAYON_NUM_THREADS=1"]);
    }
}
