//! How often the event engine runs for one answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::keys::Keys;

use super::*;
use crate::outcome;
use crate::timelines::Recorded;

const CLUSTER: &str = r#"
stages = 4
microbatches = 8
forward = ["10ms", "10ms", "10ms", "14ms"]
backward-input = "10ms"
backward-weight = "8ms"
hidden = 1024
heads = 16
seq = 1024
layers-per-stage = 2
microbatch-size = 1
cluster = "a100-roce"
seating = "across-nodes"
steps = 2
"#;
const NOISE: &str = "jitter = \"pass=lognormal:0.05\"\nseed = 3\n";
const ZB_H1: &str = "schedule = \"zb-h1\"\n";
const OFFLOADED: &str = "schedule = \"1f1b\"\noffload = 0.5\n";

/// Reads everything of `outcome` that files and pictures show.
fn read_all(outcome: &Outcome, wants: Wants) {
    if wants.timelines == Timelines::All {
        let timeline = outcome::timeline(outcome).unwrap().into_owned();
        assert_eq!(timeline.stages.len(), 4);
        let has_copies = outcome.case.schedule.copies().is_some();
        assert_eq!(outcome::copies(outcome).unwrap().is_empty(), !has_copies);
    }
    if wants.runs {
        let run = outcome::recorded(outcome).unwrap();
        assert!(!outcome::memory_curves(outcome, &run).unwrap().is_empty());
        assert_eq!(Recorded::predicted(outcome).unwrap().steps.len(), 2);
    }
    let explained = outcome.explanation.as_ref();
    assert_eq!(explained.is_some_and(|why| why.gaps.is_some()), wants.explanation && wants.gaps);
    if wants.gaps && explained.is_none() {
        let run = outcome::recorded(outcome).unwrap();
        outcome.simulation().gaps(&run, outcome.nominal.as_ref()).unwrap();
    }
}

/// By schedule, the runs of the event engine that `more` of [`CLUSTER`] takes with all that `wants` names,
/// and how many levers were tried for it.
fn engine_runs(more: &str, wants: Wants) -> Vec<(u64, u64)> {
    let file = Path::new("cluster.toml");
    let text = format!("{more}{CLUSTER}").into_bytes();
    let host: BTreeMap<PathBuf, Vec<u8>> = [(file.to_owned(), text)].into();
    let context = Context::new(&host);
    let scenario = Scenario::asked(&context, Some(file), &Keys::default()).unwrap();
    let answers = simulate(&context, &scenario, wants).unwrap();
    answers.outcomes.iter().for_each(|one| read_all(one, wants));
    let levers = |one: &Outcome| one.explanation.as_ref().map_or(0, |why| why.levers.ranked.len());
    let counts = |one: &Outcome| (one.engine_runs.count(), levers(one) as u64);
    answers.outcomes.iter().map(counts).collect()
}

#[test]
fn one_run_serves_the_table_and_every_file() {
    let (nothing, timelines) = (Wants::default(), Timelines::All);
    for schedule in [ZB_H1, OFFLOADED] {
        for wants in [
            nothing,
            Wants { timelines, ..nothing },
            Wants { runs: true, ..nothing },
            Wants { timelines, runs: true, ..nothing },
        ] {
            assert_eq!(engine_runs(schedule, wants), [(1, 0)], "{schedule}, {wants:?}");
        }
    }
    // Each gap is owed to something: without synchronisation, shared links, communication and unequal
    // stages, and without copies where there are any.
    let page = Wants { runs: true, gaps: true, ..nothing };
    assert_eq!(engine_runs(ZB_H1, page), [(1 + 4, 0)]);
    assert_eq!(engine_runs(OFFLOADED, page), [(1 + 5, 0)]);
}

#[test]
fn an_explanation_and_all_files_take_a_run_for_each_cause_and_lever() {
    let timelines = Timelines::All;
    let all = Wants { explanation: true, gaps: true, timelines, runs: true, ..Wants::default() };
    let single = |more: &str| match engine_runs(more, all)[..] {
        [one] => one,
        ref several => panic!("one schedule was asked: {several:?}"),
    };
    let (runs, levers) = single(ZB_H1);
    assert!(levers > 8);
    assert_eq!(runs, 1 + 4 + levers);
    let (runs, levers) = single(OFFLOADED);
    assert_eq!(runs, 1 + 5 + levers);
    // Under noise there is replica 0 too, and twenty more beside those two are runs of their own.
    let (runs, levers) = single(&format!("{ZB_H1}{NOISE}"));
    assert_eq!(runs, 2 + 4 + levers);
    let replicas = format!("schedule = [\"zb-h1\", \"zb-h2\"]\n{NOISE}replicas = 20\n");
    assert_eq!(engine_runs(&replicas, Wants::default()), [(2 + 20, 0); 2]);
}
