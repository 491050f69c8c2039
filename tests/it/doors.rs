//! The library answers through any door: with a host that is a map of names to bytes it gives the bytes
//! that the command line prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use answer::simulate::{Wants, simulate};
use answer::sweep::sweep;
use measured::memory_error;
use question::keys::Keys;
use question::scenario::Scenario;
use question::sweep::grid::Grid;
use question::{Context, Diagnostic, Host};
use serde::Serialize;
use tempfile::TempDir;

use crate::cli::{debubble, run, stdout};

/// Files by name, as a page holds what was dropped on it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A question with everything it may name: a cluster, a profile of slowdowns, samples, a schedule.
fn files() -> Files {
    let scenario = "schedule = [\"zb-h1\", \"order.txt\"]\nstages = 4\nmicrobatches = 8\n\
        forward = \"2ms\"\nbackward = \"4ms\"\nmessage = \"1MiB\"\ncluster = \"small.toml\"\n\
        slowdown-profile = \"slow.csv\"\njitter = \"pass=samples:samples.txt\"\nreplicas = 20\n";
    let cluster = fs::read("scenarios/clusters/dgx-a100.toml").unwrap();
    let order = stdout(&run("export --schedule 1f1b --stages 4 --microbatches 8"));
    let sweep = "schedule = [\"1f1b\", \"zb-h2\"]\nforward = \"1ms\"\nbackward = \"2ms\"\n\
        [sweep]\nstages = [2, 4]\nmicrobatches = { from = 4, to = 12, step = 4 }\n";
    let all: [(&str, Vec<u8>); 6] = [
        ("question.toml", scenario.into()),
        ("small.toml", cluster),
        ("slow.csv", "time,stage,factor\n0s,1,1.5\n10ms,1,1\n".into()),
        ("samples.txt", "0.9\n1.0\n1.1\n".into()),
        ("order.txt", order.into()),
        ("sweep.toml", sweep.into()),
    ];
    all.into_iter().map(|(name, bytes)| (PathBuf::from(name), bytes)).collect()
}

/// The same on a disk.
fn on_disk(files: &Files) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn printed(answer: &impl Serialize) -> String {
    serde_json::to_string_pretty(answer).unwrap() + "\n"
}

fn simulated(host: &dyn Host, file: &str) -> Result<String, Diagnostic> {
    let context = Context::new(host);
    let scenario = Scenario::asked(&context, Some(Path::new(file)), &Keys::default())?;
    let wants = Wants { explanation: true, ..Wants::default() };
    Ok(printed(&simulate(&context, &scenario, wants)?))
}

#[test]
fn a_map_of_names_to_bytes_answers_like_the_disk() {
    let files = files();
    let folder = on_disk(&files);
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_debubble"))
        .args(["simulate", "question.toml", "--explain", "--json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(simulated(&files, "question.toml").unwrap(), stdout(&command));
}

#[test]
fn a_sweep_in_memory_has_the_rows_of_the_file() {
    let files = files();
    let context = Context::new(&files);
    let grid = Grid::read(&context, Path::new("sweep.toml"), &Keys::default()).unwrap();
    let answer = sweep(&context, &grid).unwrap();
    assert_eq!((answer.rows, answer.interrupted), (12, false));
    let folder = on_disk(&files);
    let [question, out] = ["sweep.toml", "rows.csv"].map(|name| folder.path().join(name));
    stdout(&debubble([Path::new("sweep"), &question, Path::new("--out"), &out]));
    assert_eq!(answer.csv, fs::read(out).unwrap());
}

#[test]
fn a_plan_is_answered_without_a_disk() {
    let question = crate::plan::SMALL;
    let files = Files::from([(PathBuf::from("plan.toml"), question.into())]);
    let context = Context::new(&files);
    let read = imports::question(
        &context,
        Path::new("plan.toml"),
        memory_error().unwrap(),
        &planning::PlanFlags::default(),
    )
    .unwrap();
    let planned = answer::plan::plan(&context, read).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question).unwrap();
    let command = debubble([Path::new("plan"), &path, Path::new("--json")]);
    assert_eq!(printed(&planned), stdout(&command));
}

/// A host that stops at once: the first schedule is answered, as the command line does after a Ctrl-C.
struct Stopping(Files);

impl Host for Stopping {
    fn read(&self, path: &Path, at_most: u64) -> Result<Vec<u8>, question::ReadError> {
        self.0.read(path, at_most)
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.exists(path)
    }

    fn stopped(&self) -> bool {
        true
    }
}

#[test]
fn who_stops_gets_what_there_is_and_is_told_so() {
    let json = simulated(&Stopping(files()), "question.toml").unwrap();
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["interrupted"], true);
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn errors_are_values_with_their_place() {
    let mut files = files();
    let wrong = "schedule = \"zb-h1\"\nstages = 4\nmicrobatches = 8\nforward = \"2 parsecs\"\n";
    files.insert("question.toml".into(), wrong.into());
    let error = simulated(&files, "question.toml").unwrap_err();
    assert_eq!(error.key.as_deref(), Some("forward"));
    let place = error.place.clone().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("question.toml", Some(4)));
    let excerpt = place.excerpt.unwrap();
    assert_eq!(&excerpt.lines[excerpt.label], "\"2 parsecs\"");
    let json = serde_json::to_value(&error).unwrap();
    assert_eq!((&json["line"], &json["key"]), (&4.into(), &"forward".into()));
    let missing = simulated(&files, "nowhere.toml").unwrap_err();
    assert_eq!(missing.message, "cannot read nowhere.toml: there is no such file");
}
