//! Searches of what no search of orders takes into account by itself: the value of an answer is that of a simulation of
//! its order with the same keys, no published schedule and no order found without the keys has less, and no bound is
//! above it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

const SIZES: &str = "--stages 4 --microbatches 8 --seed 5";
const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 8ms --activation 1GiB";
/// Passes on two streams.
const CHAIN: &str = "--layers 16 --lone-backward overlapped --chain attention=4ms/9ms/2ms,dispatch=6ms/7ms,experts=4ms/5ms/6ms";
const CLUSTER: &str = "--cluster a100-pcie --message 64MiB";
const SHARDED: &str = "--sharding fsdp --gather 4ms --reduce 4ms";
const NOISE: &str = "--jitter pass=lognormal:0.15 --slowdown stage:1=1.2";
const COPIES: &str = "--offload 0.5 --offload-time 5ms";

/// The keys besides the sizes, and the objective.
fn combinations() -> Vec<(String, &'static str)> {
    let limited = format!("{TIMES} --memory-limit 5GiB");
    vec![
        (format!("{limited} {CLUSTER} {NOISE}"), "mean"),
        (format!("{limited} {CLUSTER} --seating across-nodes --steps 2 {NOISE}"), "p95"),
        (format!("{limited} {SHARDED}"), "span"),
        (format!("{limited} {SHARDED} {NOISE}"), "mean"),
        (format!("{limited} {SHARDED} {CLUSTER} --steps 2"), "step"),
        (format!("{limited} {SHARDED} {CLUSTER} {NOISE}"), "p95"),
        (format!("{limited} {COPIES}"), "makespan"),
        (format!("{limited} {COPIES} {NOISE}"), "mean"),
        (format!("{limited} --offload 0.25 --cluster dgx-a100 --message 64MiB"), "span"),
        (format!("{limited} {CLUSTER} --device-memory 6GiB --when-full wait"), "makespan"),
        (format!("{limited} --steps 2 --boundary post-validation:0.1 {NOISE}"), "mean"),
        (format!("{CHAIN} {CLUSTER}"), "span"),
        (format!("{CHAIN} {NOISE}"), "mean"),
        (format!("{CHAIN} {SHARDED}"), "makespan"),
    ]
}

fn float(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// The value of `simulated` that `objective` names; the step under noise is timed by `time`.
fn value(simulated: &Value, objective: &str, time: &str) -> f64 {
    match objective {
        "step" => float(&simulated["hardware"], "step_ns"),
        "mean" | "p95" => float(&simulated["monte_carlo"][time], objective),
        other => float(simulated, &format!("{other}_ns")),
    }
}

/// Simulates `question` with the order in `path`, or the schedule of that name.
fn simulated(question: &str, path: &str, objective: &str, time: &str) -> f64 {
    let replicas = if ["mean", "p95"].contains(&objective) { "--replicas 100" } else { "" };
    let line = format!("simulate {question} --schedule {path} {replicas} --json");
    value(&results(&line)[0], objective, time)
}

/// The search of `question`, whose order goes to `path`.
fn searched(question: &str, objective: &str, path: &Path) -> Value {
    let noisy = ["mean", "p95"].contains(&objective);
    let replicas = if noisy { "--replicas 100" } else { "" };
    let line = format!(
        "search {SIZES} {question} --objective {objective} {replicas} --effort 0 --export {} --json",
        path.display()
    );
    results(&line).remove(0)
}

#[test]
fn a_simulation_of_the_answer_says_the_same_and_nothing_published_does_better() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    for (question, objective) in combinations() {
        let row = searched(&question, objective, &path);
        let time = if row["boundary"] == "barrier" { "makespan_ns" } else { "span_ns" };
        let found = float(&row, "value_ns");
        let asked = format!("{SIZES} {question}");
        let again = simulated(&asked, &path.display().to_string(), objective, time);
        assert!((again - found).abs() < 1.0, "{question}: {again} {row}");
        assert!(row["simulated_keys"].as_str().is_some_and(|keys| !keys.is_empty()), "{row}");
        let noisy = ["mean", "p95"].contains(&objective);
        let name = if noisy { "published_under_noise" } else { "published_simulated" };
        let published = row[name].as_str().unwrap_or_else(|| panic!("{question}: {row}"));
        let of_published = simulated(&asked, published, objective, time);
        assert!(
            (of_published - float(&row, "published_value_ns")).abs() < 1.0,
            "{question}: {row}"
        );
        if !noisy {
            assert!(found <= of_published, "{question}: {row}");
            assert!(
                row["nominal_value_ns"].as_f64().is_none_or(|nominal| found <= nominal),
                "{row}"
            );
        }
        assert!(row["value_bound_ns"].as_f64().is_none_or(|bound| bound <= found), "{row}");
    }
}

#[test]
fn a_choice_is_searched_under_noise_and_on_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let [order, scenario] = ["best.txt", "best.toml"].map(|name| folder.path().join(name));
    let (order, scenario) = (order.display(), scenario.display());
    for (keys, objective, replicas) in [
        (NOISE.to_owned(), "mean", "--replicas 100"),
        (CLUSTER.to_owned(), "span", ""),
        (format!("{CLUSTER} {NOISE}"), "mean", "--replicas 100"),
        (SHARDED.to_owned(), "makespan", ""),
    ] {
        let line = format!(
            "search {SIZES} {TIMES} --memory-limit 5GiB --layers 16 --vary chunks,layers {keys} {replicas} \
             --objective {objective} --effort 0 --export {order} --export-scenario {scenario} --json"
        );
        let row = &results(&line)[0];
        let text = fs::read_to_string(scenario.to_string()).unwrap();
        let again = &results(&format!("simulate {scenario} --schedule {order} --json"))[0];
        let again = value(again, objective, "span_ns");
        assert!((again - float(row, "value_ns")).abs() < 1.0, "{keys}: {again} {row} {text}");
        assert!(row["joint"]["chosen"]["chunks"].as_u64().is_some(), "{row}");
        assert!(row["choices_bound_ns"].is_null(), "{row}");
    }
}

/// Local search by the simulation itself finds what no search without the keys has: stages that are slow in turn.
#[test]
fn the_search_by_simulation_beats_the_order_found_without_noise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    let question = format!("{TIMES} --memory-limit 5GiB {CLUSTER} {NOISE}");
    let line = format!(
        "search {SIZES} {question} --objective mean --replicas 400 --effort 1 --export {} --json",
        path.display()
    );
    let row = &results(&line)[0];
    assert_eq!(row["is_nominal"], false, "{row}");
    assert!(float(row, "gain_low_ns") > 0.0, "{row}");
}

#[test]
fn threads_change_nothing() {
    let line = format!(
        "search {SIZES} {TIMES} --memory-limit 5GiB {SHARDED} {NOISE} --objective mean --replicas 100 --effort 0 --json"
    );
    let on = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.args(line.split_whitespace()).env("RAYON_NUM_THREADS", threads);
        stdout(&command.output().unwrap())
    };
    assert_eq!(on("1"), on("3"));
}

#[test]
fn an_order_that_copies_may_hold_more_than_the_limit_and_no_bound_is_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("best.txt");
    let row = searched(&format!("{TIMES} --memory-limit 4GiB {COPIES}"), "span", &path);
    assert!(row["value_bound_ns"].is_null(), "{row}");
    let without = searched(&format!("{TIMES} --memory-limit 4GiB {SHARDED}"), "span", &path);
    assert!(float(&row, "value_ns") < float(&without, "value_ns"), "{row} {without}");
    let proof = folder.path().join("proof.toml");
    let line = format!(
        "search {SIZES} {TIMES} --memory-limit 4GiB {COPIES} --effort 0 --certificate {}",
        proof.display()
    );
    refused(&run(&line), &["copy nothing to the host"]);
}

#[test]
fn the_answer_names_its_keys() {
    let line = format!("search {SIZES} {TIMES} --memory-limit 5GiB {SHARDED} --effort 0");
    let text = stdout(&run(&line));
    for part in ["simulated with sharding", "lower bound ", "leaves these keys out"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_proof_of_orders_is_refused_beside_keys_that_are_simulated() {
    for keys in [SHARDED.to_owned(), COPIES.to_owned(), CLUSTER.to_owned()] {
        let line = format!("search {SIZES} {TIMES} {keys} --ilp");
        refused(&run(&line), &["--ilp knows times of one step", "leave out --ilp"]);
    }
}
