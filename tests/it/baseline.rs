//! Answers held against stored ones: what has grown, and with which exit code that is said.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::{refused, run, said, stdout};

const QUESTION: &str = "simulate --stages 4 --microbatches 8 --forward 10ms --backward-input 11ms \
                        --backward-weight 8ms --gantt never";
const SIZES: &str = "--hidden 4096 --heads 32 --seq 1024";

/// Stores the answer to the question with `flags`, and returns the path of the file.
fn stored(folder: &Path, name: &str, flags: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, stdout(&run(&format!("{QUESTION} {flags} --json")))).unwrap();
    path.display().to_string()
}

#[test]
fn the_same_question_has_not_grown_by_a_nanosecond() {
    let folder = tempfile::tempdir().unwrap();
    let noise = "--jitter pass=lognormal:0.05 --seed 3 --replicas 50";
    let questions = [
        format!("--hop 1ms {SIZES} --schedule 1f1b,zb-h1,zb-2p,1f1b"),
        format!("--hop 1ms {noise} --schedule 1f1b,zb-h1"),
        format!("--hop 1ms {SIZES} --schedule all --offload-ratio 0.7 --sort bubble"),
        format!(
            "{SIZES} --layers-per-stage 2 --microbatch-size 1 --schedule zb-h1 --cluster dgx-a100"
        ),
    ];
    for flags in questions {
        let file = stored(folder.path(), "before.json", &flags);
        let held = stdout(&run(&format!("{QUESTION} {flags} --baseline {file} --json")));
        let held: Value = serde_json::from_str(&held).unwrap();
        let before: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(held["results"], before["results"], "{flags}");
        assert_eq!(held["baseline"]["failed"], false, "{flags}");
        let rows = held["baseline"]["schedules"].as_array().unwrap();
        assert_eq!(rows.len(), before["results"].as_array().unwrap().len(), "{flags}");
        for row in rows {
            assert_eq!(row["change"], "kept", "{flags}");
            for figure in row["figures"].as_array().unwrap() {
                assert_eq!(figure["before"], figure["now"], "{flags}");
            }
        }
    }
}

#[test]
fn growth_ends_with_exit_code_1_unless_it_is_tolerated() {
    let folder = tempfile::tempdir().unwrap();
    let before = stored(folder.path(), "before.json", "--hop 1ms --schedule 1f1b,zb-h1");
    let against = |flags: &str| run(&format!("{QUESTION} {flags} --baseline {before}"));
    let slower = against("--hop 1100us --schedule 1f1b,zb-h1");
    assert_eq!(slower.status.code(), Some(1));
    let words = said(&slower);
    assert!(words.contains("1f1b (span, bubble grew)"), "{words}");
    let tables = String::from_utf8(slower.stdout).unwrap();
    assert!(tables.contains("against the baseline"), "{tables}");
    assert!(tables.contains(" -> "), "{tables}");
    let tolerated = against("--hop 1100us --schedule 1f1b,zb-h1 --tolerance 1%");
    assert!(stdout(&tolerated).contains("kept"));
    let faster = against("--hop 900us --schedule 1f1b,zb-h1");
    assert!(stdout(&faster).contains("kept"));
}

#[test]
fn memory_that_grows_is_growth() {
    let folder = tempfile::tempdir().unwrap();
    let before = stored(folder.path(), "before.json", &format!("{SIZES} --schedule 1f1b"));
    let longer = SIZES.replace("1024", "2048");
    let output = run(&format!("{QUESTION} {longer} --schedule 1f1b --baseline {before}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("1f1b (peak memory grew)"), "{}", said(&output));
}

#[test]
fn a_schedule_that_is_no_longer_asked_for_fails() {
    let folder = tempfile::tempdir().unwrap();
    let before = stored(folder.path(), "before.json", "--schedule 1f1b,zb-h1");
    let fewer = run(&format!("{QUESTION} --schedule 1f1b,zb-2p --baseline {before} --json"));
    assert_eq!(fewer.status.code(), Some(1));
    assert!(said(&fewer).contains("zb-h1 (gone)"), "{}", said(&fewer));
    let held: Value = serde_json::from_slice(&fewer.stdout).unwrap();
    let changes: Vec<(&str, &str)> = held["baseline"]["schedules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["schedule"].as_str().unwrap(), row["change"].as_str().unwrap()))
        .collect();
    assert_eq!(changes, [("1f1b", "kept"), ("zb-2p", "new"), ("zb-h1", "gone")]);
}

#[test]
fn what_is_no_answer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let against = |more: &str| {
        run(&format!("{QUESTION} --schedule 1f1b --baseline {} {more}", path.display()))
    };
    refused(&against(""), &["cannot read", "other"]);
    for text in ["", "{}", "{\"results\": []}", "{\"results\": [{\"schedule\": \"1f1b\"}]}"] {
        fs::write(&path, text).unwrap();
        refused(
            &against(""),
            &["is not an answer of `debubble simulate --json`", "store one with"],
        );
    }
    fs::write(&path, "schedule = [\"1f1b\"]\nstages = 4\n").unwrap();
    refused(&against(""), &["a scenario"]);
    for bad in ["1", "-1%", "NaN%", "much"] {
        refused(&against(&format!("--tolerance {bad}")), &["--tolerance", bad]);
    }
    let alone = run(&format!("{QUESTION} --schedule 1f1b --tolerance 1%"));
    refused(&alone, &["--baseline"]);
}
