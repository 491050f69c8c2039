//! Searches under noise: an answer is never worse than the nominal order in replicas that were not searched,
//! what is said of it is what `simulate` says, and what makes no sense is refused with its cure.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

/// Six stages, of which one is slow, and passes of random length. With no effort but for what is proposed.
const QUESTION: &str = "--stages 6 --microbatches 12 --forward 20ms --backward-input 21ms \
                        --backward-weight 15ms --hop 500us --memory-limit 1p --effort 0 \
                        --jitter pass=lognormal:0.2 --slowdown stage:2=1.2 --seed 3";

fn search(rest: &str) -> Value {
    results(&format!("search {QUESTION} {rest} --json"))[0].clone()
}

fn float(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// The search with the usual effort, judged by 400 replicas.
fn with_effort(rest: &str) -> String {
    let question = QUESTION.replace("--effort 0", "--effort 1");
    format!("search {question} {rest} --replicas 400 --json")
}

/// Output of a search with effort, on so many threads.
fn on_threads(threads: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.args(with_effort("--chunks 2 --objective p95").split_whitespace());
    stdout(&command.env("RAYON_NUM_THREADS", threads).output().unwrap())
}

/// It takes seconds: two tests look at one.
static OF_P95: LazyLock<String> = LazyLock::new(|| on_threads("3"));

#[test]
#[ignore = "slow"]
fn a_robust_order_beats_the_nominal_one_where_it_was_not_searched() {
    let of_mean = results(&with_effort("--objective mean")).remove(0);
    let of_p95: Value = serde_json::from_str(&OF_P95).unwrap();
    for (row, of) in [(of_mean, "mean"), (of_p95["results"][0].clone(), "p95")] {
        assert_eq!((&row["objective"], &row["is_nominal"]), (&of.into(), &false.into()), "{row}");
        assert!(float(&row, "gain_low_ns") > 0.0, "{row}");
        let [value, nominal] = ["value_ns", "nominal_value_ns"].map(|key| float(&row, key));
        assert!((nominal - value - float(&row, "gain_ns")).abs() < 1.0, "{row}");
        // By one per cent at least, and by more than the best published order does.
        assert!(value * 1.01 < nominal && value < float(&row, "published_value_ns"), "{row}");
        // Without noise nothing beats what was searched without noise.
        assert!(row["nominal_cost_ns"].as_u64() <= row["cost_ns"].as_u64(), "{row}");
        let bound = &row["value_bound_ns"];
        assert_eq!(bound.is_null(), of == "p95", "{row}");
        assert!(bound.as_f64().is_none_or(|bound| bound < value), "{row}");
    }
}

/// Orders are validated on the replicas of `simulate`, which the search has not seen.
#[test]
fn simulate_says_the_same_of_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("robust.txt");
    let path = path.to_str().unwrap();
    for (boundary, time) in [("", "span_ns"), ("--boundary barrier", "makespan_ns")] {
        let rest = format!("--objective p95 --replicas 300 {boundary}");
        let row = search(&format!("{rest} --export {path}"));
        let question = QUESTION.replace("--effort 0", "");
        let simulated =
            &results(&format!("simulate {question} --schedule {path} --replicas 300 --json"))[0];
        let all = &simulated["monte_carlo"][time];
        for (ours, theirs) in [("mean_ns", "mean"), ("p95_ns", "p95"), ("p99_ns", "p99")] {
            assert_eq!(row[ours].as_f64(), all[theirs].as_f64(), "{time} {ours}");
        }
        assert_eq!(row["value_ns"].as_f64(), all["p95"].as_f64());
        assert_eq!(row["cost_ns"], simulated["noise_free"][time]);
        let named = if boundary.is_empty() { "asynchronous" } else { "barrier" };
        assert_eq!((&row["boundary"], &row["replicas"]), (&named.into(), &300.into()));
    }
}

#[test]
#[ignore = "slow"]
fn threads_change_nothing() {
    assert_eq!(on_threads("1"), *OF_P95);
}

/// Where nothing is gained, the nominal order is the answer: here it is optimal in every replica.
#[test]
fn the_nominal_order_is_the_answer_where_none_is_better() {
    let line = "search --stages 1 --microbatches 4 --forward 20ms --backward-input 21ms \
                --backward-weight 15ms --jitter pass=normal:0.1 --effort 0 --objective mean \
                --replicas 200";
    let row = &results(&format!("{line} --json"))[0];
    assert_eq!(row["is_nominal"], true, "{row}");
    assert_eq!(row["cost_ns"], row["nominal_cost_ns"]);
    let table = stdout(&run(line));
    assert!(table.contains("it is the answer"), "{table}");
}

#[test]
fn several_limits_are_searched_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("front.csv");
    let question = QUESTION.replace("--memory-limit 1p", "--memory-limits 0.7p,1p,1.5p");
    let line = format!("search {question} --objective mean --replicas 100");
    let table = stdout(&run(&format!("{line} --csv {}", csv.display())));
    assert_eq!(table.matches(" over 100 replicas").count(), 3, "{table}");
    assert_eq!(table.matches("\n  lower bound ").count(), 3, "{table}");
    let csv = fs::read_to_string(csv).unwrap();
    let lines: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(lines.len() == 4 && lines.iter().all(|&count| count == lines[0]), "{csv}");
}

#[test]
fn keys_of_noise_are_read_in_a_scenario_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noisy.toml");
    let keys = "stages = 4\nmicrobatches = 6\nforward = \"20ms\"\nbackward-input = \"21ms\"\n\
                backward-weight = \"15ms\"\njitter = \"pass=lognormal:0.1\"\nseed = 2\n";
    fs::write(&path, format!("{keys}replicas = 60\nboundary = \"barrier\"\n")).unwrap();
    let line = format!("search {} --objective p95 --effort 0 --json", path.display());
    let row = &results(&line)[0];
    assert_eq!((&row["replicas"], &row["boundary"]), (&60.into(), &"barrier".into()));
    fs::write(&path, format!("{keys}replicas = 10\n")).unwrap();
    let text = ["p95 cannot be estimated from 10 replicas: at least 20", "noisy.toml", "replicas"];
    refused(&run(&line), &text);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cure() {
    let bare = "search --stages 4 --microbatches 6 --forward 20ms --backward-input 21ms \
                --backward-weight 15ms";
    let noisy = format!("{bare} --jitter pass=lognormal:0.1");
    for (line, says) in [
        (format!("{bare} --objective mean"), ["the question has none", "write jitter"]),
        (format!("{bare} --objective p95 --seed 1"), ["the question has none", "--stall"]),
        (format!("{noisy} --objective p95 --replicas 19"), ["at least 20", "--replicas"]),
        (format!("{noisy} --objective p99 --replicas 99"), ["at least 100", "--replicas"]),
        (format!("{noisy} --objective mean --replicas 4"), ["at least 5", "--replicas"]),
        (format!("{noisy} --objective mean --replicas 2000000"), ["too many", "1000000"]),
        (format!("{noisy} --objective mean --ilp"), ["--ilp knows", "leave out --ilp"]),
        (format!("{noisy} --objective p95 --ilp"), ["--ilp knows", "--objective span"]),
        (noisy.clone(), ["jitter cannot be taken into account", "--objective mean"]),
    ] {
        refused(&run(&line), &says);
    }
}

#[test]
fn a_time_limit_keeps_the_best() {
    let question = QUESTION.replace("--effort 0", "--time-limit 1500ms");
    let begin = std::time::Instant::now();
    let row = &results(&format!("search {question} --objective mean --replicas 100 --json"))[0];
    assert_eq!(row["is_nominal"], false, "{row}");
    assert!(begin.elapsed().as_secs() < 60);
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_keeps_the_best() {
    let question = QUESTION.replace("--effort 0", "--effort 1000000");
    let asked = format!("search {question} --objective mean");
    let Some(output) = crate::ctrl_c::interrupted(&asked) else { return };
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("step under noise"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: the best so far"));
}
