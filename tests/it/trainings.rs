//! Published trainings beside the plans for them: what plans leave out of a bill.

use std::fs;

use measured::{Contingency, Training, trainings};
use serde_json::Value;

use crate::cli::stdout;
use crate::plan::command;

/// Those whose plan takes more than a few seconds.
const LONG: [&str; 12] = [
    "llama3.1-405b",
    "llama3.1-70b",
    "llama2-70b",
    "gpt-neox-20b",
    "llama2-34b",
    "llama-33b",
    "llama-65b",
    "apertus-70b",
    "llama3-70b",
    "llama4-scout",
    "llama4-maverick",
    "dots.llm1",
];

/// The GPU-hours of the plan to take, or of the set-up that is asked for, for `training`.
fn planned(training: &Training) -> f64 {
    let path = format!("scenarios/trainings/{}.toml", training.training);
    let out = stdout(&command().args(["plan", &path, "--json"]).output().unwrap());
    let answer: Value = serde_json::from_str(&out).unwrap();
    let at = answer["winner"].as_u64().unwrap_or(0);
    answer["plans"][usize::try_from(at).unwrap()]["gpu_hours"].as_f64().unwrap()
}

fn are_found_again(all: impl Iterator<Item = Training>) {
    let found: Vec<(Training, f64)> = all.map(|one| (one.clone(), planned(&one))).collect();
    let alike = found.iter().all(|(one, hours)| (hours / one.planned_gpu_hours - 1.0).abs() < 1e-3);
    let lines: Vec<String> =
        found.iter().map(|(one, hours)| format!("{}: {hours:.0}", one.training)).collect();
    assert!(alike, "write these into scenarios/paper/trainings.csv: {lines:?}");
}

#[test]
fn plans_for_published_trainings_are_those_that_are_recorded() {
    let all = trainings().unwrap();
    let files = fs::read_dir("scenarios/trainings").unwrap().count();
    assert_eq!(files, all.len());
    are_found_again(all.into_iter().filter(|one| !LONG.contains(&one.training.as_str())));
    let Contingency { least, median, most, .. } = Contingency::published().unwrap();
    assert!(0.5 < least && least < median && median < most && most < 4.0);
}

#[test]
#[ignore = "two minutes"]
fn long_plans_for_published_trainings_are_those_that_are_recorded() {
    let all = trainings().unwrap().into_iter();
    are_found_again(all.filter(|one| LONG.contains(&one.training.as_str())));
}
