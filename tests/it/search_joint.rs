//! Joint searches: layers, chunks, placement, recomputation, copies to the host and pairs with the order, under one limit
//! in bytes. No plan breaks the limit, none is worse than what was asked or than a published schedule with its best
//! settings, and what is written down is simulated alike.

use std::fs;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

/// A model of 14 layers whose output layer takes longer than two of them, on 4 stages.
const MODEL: &str = "--stages 4 --microbatches 8 --layers 14 --hop 300us \
     --chain layer=3ms/3.2ms/2.8ms --chain-head embedding=500us/0us/500us --chain-tail head=6ms/6ms/5ms \
     --activation 6GB --activation-until-weight 3GB --activation-kept 400MB";

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
}

fn size(text: &Value) -> u64 {
    text.as_str().unwrap().parse::<pipeline::Bytes>().unwrap().0
}

/// Layers of each chunk in a layout of t alone.
fn layers(layout: &str) -> u64 {
    let layout: pipeline::LayerLayout = layout.parse().unwrap();
    layout.total()
}

#[test]
fn what_is_chosen_beats_what_was_asked_and_what_is_published_and_is_simulated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (order, scenario) = (at("best.txt"), at("best.toml"));
    let files = format!("--export {order} --export-scenario {scenario}");
    let question = format!("search {MODEL} --vary all --memory-limit 14GB {files} --json");
    let row = &results(&question)[0];
    let cost = number(row, "cost_ns");
    assert!(number(row, "choices_bound_ns") <= number(row, "bound_ns"), "{row}");
    assert!(number(row, "bound_ns") <= cost);
    assert!(row["asked_ns"].is_null() || cost < number(row, "asked_ns"), "{row}");
    let joint = &row["joint"];
    assert_eq!(layers(joint["chosen"]["layout"].as_str().unwrap()), 14);
    let published = joint["published"].as_array().unwrap();
    assert!(published.len() > 3, "{joint}");
    for one in published {
        assert!(cost <= number(one, "cost_ns"), "{one}");
        assert_eq!(layers(one["layout"].as_str().unwrap()), 14, "{one}");
        assert!(number(one, "peak_bytes") <= 14_000_000_000, "{one}");
    }
    assert_eq!(row["best_published_ns"], published[0]["cost_ns"]);
    let simulated = &results(&format!("simulate {scenario} --schedule {order} --json"))[0];
    assert_eq!(number(simulated, "span_ns"), cost, "{simulated}");
    // What was chosen, searched as it is, goes on with branch and bound: the scenario is the same question, so neither
    // bound is above what the other has found.
    let placement = joint["chosen"]["placement"].as_str().unwrap();
    let again = &results(&format!("search {scenario} --placement {placement} --json"))[0];
    assert!(number(again, "bound_ns") >= number(row, "bound_ns"), "{again}");
    assert!(number(again, "bound_ns") <= cost, "{again}");
    assert!(number(row, "bound_ns") <= number(again, "cost_ns"), "{again}");
    assert!(fs::read_to_string(&scenario).unwrap().contains("layout = "));
    // It is one of passes on one stream, which can be proved.
    let proof = at("proof.toml");
    stdout(&run(&format!(
        "search {scenario} --placement {placement} --effort 0 --certificate {proof}"
    )));
    certificate::verify(&fs::read_to_string(proof).unwrap()).unwrap();
}

/// Copies to the host are chosen where they pay, and what is written down is simulated alike, with its copies.
#[test]
fn what_goes_to_the_host_is_chosen_and_simulated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (order, scenario) = (at("best.txt"), at("best.toml"));
    let limit = "--memory-limit 12GB --effort 0";
    let question = format!("search {MODEL} --vary layers,chunks,placement {limit}");
    let without = number(&results(&format!("{question} --json"))[0], "cost_ns");
    let question = question.replace("placement", "placement,offload");
    let files = format!("--export {order} --export-scenario {scenario}");
    let row = &results(&format!("{question} --host-bandwidth 400GB/s {files} --json"))[0];
    let cost = number(row, "cost_ns");
    assert!(cost < without, "{cost} {without}");
    assert!(number(row, "choices_bound_ns") <= number(row, "bound_ns"), "{row}");
    assert!(number(row, "bound_ns") <= cost, "{row}");
    let chosen = row["joint"]["chosen"]["offload"].as_array().unwrap();
    assert!(!chosen.is_empty(), "{row}");
    let published = row["joint"]["published"].as_array().unwrap();
    assert!(published.iter().any(|one| one["schedule"] == "po-f"), "{row}");
    for one in published {
        assert!(cost <= number(one, "cost_ns"), "{one}");
    }
    let simulated = &results(&format!("simulate {scenario} --schedule {order} --json"))[0];
    assert_eq!(number(simulated, "span_ns"), cost, "{simulated}");
    let peaks = simulated["peak_activation_bytes"].as_array().unwrap();
    let most = peaks.iter().map(|peak| peak.as_u64().unwrap()).max().unwrap();
    assert!(most <= 12_000_000_000, "{simulated}");
    assert!(fs::read_to_string(&order).unwrap().contains('|'), "copies stand behind it");
    // A link that is too slow is not used, and asking for it costs nothing.
    let row = &results(&format!("{question} --host-bandwidth 1MB/s --json"))[0];
    assert_eq!(number(row, "cost_ns"), without);
    assert_eq!(row["offload"], "-");
    let output = stdout(&run(&format!("{question} --offload-ratio 0.2")));
    assert!(output.contains(" to the host"), "{output}");
}

/// A model whose layers send tokens to experts and back.
const EXPERTS: &str = "--stages 4 --microbatches 8 --layers 14 --hop 300us --chain-measured beside \
     --chain attention=4.37ms/9.341ms/2.389ms,dispatch=6.69ms/7.487ms,experts=4.604ms/5.306ms/6.378ms,combine=8.684ms/5.769ms \
     --chain-tail head=9ms/9ms/8ms --activation 6GB --activation-until-weight 3GB --activation-kept 400MB";

/// Pairs on two streams are searched with their layers, and are simulated as they are found.
#[test]
fn pairs_are_searched_with_their_layers_and_simulated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (order, scenario) = (at("best.txt"), at("best.toml"));
    let files = format!("--export {order} --export-scenario {scenario}");
    let question = format!("search {EXPERTS} --memory-limit 40GB --effort 0 --json");
    let row = &results(&format!("{question} --vary layers,placement --chunks 2 {files}"))[0];
    let cost = number(row, "cost_ns");
    assert!(cost <= number(row, "asked_ns"), "{row}");
    assert!(number(row, "choices_bound_ns") <= number(row, "bound_ns"), "{row}");
    assert_eq!(layers(row["layout"].as_str().unwrap()), 14);
    let simulated = &results(&format!("simulate {scenario} --schedule {order} --json"))[0];
    assert_eq!(number(simulated, "span_ns"), cost, "{simulated}");
    assert!(fs::read_to_string(&order).unwrap().contains('&'), "in pairs");
    assert!(row.get("pairs").is_none());
    let chosen = &results(&format!("{question} --vary layers,placement,pairs --chunks 2"))[0];
    assert_eq!(chosen["pairs"], true, "{chosen}");
    assert!(number(chosen, "cost_ns") <= cost);
    // Where memory is short, passes that recompute run one after the other.
    let short = question.replace("40GB", "8GB");
    let files = format!("--export {order} --export-scenario {scenario}");
    let row = &results(&format!("{short} --vary all --max-chunks 1 {files}"))[0];
    assert_eq!(row["pairs"], false, "{row}");
    assert!(row["recompute"].as_str().unwrap().contains("full"), "{row}");
    let simulated = &results(&format!("simulate {scenario} --schedule {order} --json"))[0];
    assert_eq!(number(simulated, "span_ns"), number(row, "cost_ns"), "{simulated}");
}

#[test]
fn more_memory_never_costs_more_and_recomputation_pays_where_it_is_short() {
    let limits = "--memory-limits 30GB,8GB,14GB";
    let rows = results(&format!("search {MODEL} --vary all {limits} --effort 0 --json"));
    let costs: Vec<u64> = rows.iter().map(|row| number(row, "cost_ns")).collect();
    let told: Vec<&str> = rows.iter().map(|row| row["memory_limit"].as_str().unwrap()).collect();
    assert_eq!(told, ["8GB", "14GB", "30GB"], "the smaller ones first");
    assert!(costs.is_sorted_by(|small, large| small >= large), "{costs:?}");
    let least = "search --vary all --memory-limit 4GB --effort 0 --json";
    let row = &results(&format!("{least} {MODEL}"))[0];
    assert!(row["recompute"].as_str().unwrap().contains("full"), "{row}");
}

#[test]
fn what_layers_hold_all_the_time_counts_under_the_limit() {
    let resident = "--resident-layer 1GB --resident-head 500MB --resident-tail 2GB";
    let question = format!("search {MODEL} --vary layers,recompute --memory-limit 14GB --effort 0");
    let row = &results(&format!("{question} {resident} --json"))[0];
    let scenario = &row["joint"]["scenario"];
    let layout: pipeline::LayerLayout = scenario["layout"].as_str().unwrap().parse().unwrap();
    let limits = scenario["memory-limit"].as_array().unwrap();
    for (stage, (limit, layers)) in limits.iter().zip(layout.layers()).enumerate() {
        let ends = [500_000_000, 0, 0, 2_000_000_000][stage];
        assert_eq!(size(limit) + layers * 1_000_000_000 + ends, 14_000_000_000, "{scenario}");
    }
    let without = number(&results(&format!("{question} --json"))[0], "cost_ns");
    assert!(without <= number(row, "cost_ns"));
}

/// Times of recomputation are not idle keys where recomputation is searched: a split costs R once more.
#[test]
fn times_of_recomputation_count_where_it_is_varied() {
    let sizes = "--stages 2 --microbatches 4 --layers-per-stage 2 --microbatch-size 1 --hidden 1024 --heads 16 \
                 --seq 1024 --forward 4ms --backward-input 4ms --backward-weight 4ms --backward 6ms --hop 100us";
    let question = format!("search {sizes} --vary recompute --memory-limit 250MiB --effort 0");
    let cost = |again: &str| {
        let output = run(&format!("{question} --recompute-again {again} --json"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!told.contains("ignored"), "{told}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        number(&answer["results"][0], "cost_ns")
    };
    assert!(cost("1us") < cost("50ms"));
}

#[test]
fn layers_of_multi_token_prediction_lie_where_they_may() {
    let model = "--stages 2 --microbatches 6 --layers 10 --mtp-layers 1 --hop 1ms --chain layer=3ms/3ms/3ms \
                 --chain-tail head=3ms/3ms/3ms --chain-mtp mtp=5ms/5ms/5ms --activation 6GB --memory-limit 20GB";
    let row = &results(&format!("search {model} --vary layers --effort 0 --json"))[0];
    let layout = row["layout"].as_str().unwrap();
    let read: pipeline::LayerLayout = layout.parse().unwrap();
    assert_eq!((read.total(), read.mtp()), (10, 1), "{layout}");
    // (10 x 9 + 9 + 15) / 2 = 57: as near as whole layers come to that is 54 and 60.
    assert_eq!(read.layers(), [6, 4], "{layout}");
    // They hold as much as a layer: 12 GB are of 11.
    let held = row["joint"]["scenario"]["activation"].as_array().unwrap();
    let held: Vec<u64> = held.iter().map(size).collect();
    assert_eq!(held, [6_545_454_545, 5_454_545_455]);
}

#[test]
fn times_of_stages_are_dealt_by_layers() {
    let model = "--stages 2 --microbatches 4 --layers 6 --forward 9ms --backward-input 9ms \
                 --backward-weight 9ms --activation 6GB --activation-tail 4GB --memory-limit 20GB";
    let output =
        stdout(&run(&format!("search {model} --vary layers,chunks --max-chunks 2 --effort 0")));
    for part in [
        "chosen 20GB: ",
        "layers E",
        "as asked: ",
        "of all choices: lower bound 108.000 ms",
        "saved",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[test]
fn the_same_on_any_number_of_threads() {
    let question = format!("search {MODEL} --vary all --memory-limit 14GB --effort 0 --json");
    let on = |threads: &str| {
        let binary = env!("CARGO_BIN_EXE_debubble");
        let command = std::process::Command::new(binary)
            .args(question.split_whitespace())
            .env("RAYON_NUM_THREADS", threads)
            .output();
        command.unwrap().stdout
    };
    let one = on("1");
    assert!(!one.is_empty());
    assert_eq!(one, on("2"));
}

#[test]
fn what_cannot_be_varied_is_refused_with_a_cure() {
    let plain =
        "--stages 2 --microbatches 4 --forward 9ms --backward-input 9ms --backward-weight 9ms";
    for (question, parts) in [
        (format!("{plain} --vary layers"), &["nothing says how many there are", "give --layers"][..]),
        (format!("{plain} --vary wheels"), &["wheels", "layers", "chunks", "placement", "recompute"]),
        (
            format!("{plain} --layers 8 --vary layers --mtp-layers 1"),
            &["mtp-layers", "--chain-mtp"],
        ),
        (format!("{plain} --max-chunks 2"), &["max-chunks", "--vary"]),
        (format!("{plain} --export-scenario x.toml"), &["--vary"]),
        (
            format!("{plain} --layers 8 --vary layers --memory-limit 10GB"),
            &["no sizes of activations", "give --activation"],
        ),
        (
            "--stages 2 --microbatches 4 --forward 9ms,8ms --backward-input 9ms --backward-weight 9ms \
             --layers 8 --vary layers"
                .to_owned(),
            &["forward has a value for each", "give one value"],
        ),
        (format!("{plain} --vary recompute --recompute full"), &["recompute", "leave it out"]),
        (format!("{plain} --vary all --placement v --layers 8"), &["placement", "leave it out"]),
        (format!("{plain} --vary placement --ilp"), &["--ilp", "--export-scenario"]),
        (
            format!("{plain} --vary recompute --activation 6GB"),
            &["activation-kept is missing", "recompute full"],
        ),
        (
            format!("{plain} --layers 100000 --vary layers --activation 6GB"),
            &["100000 layers are too many"],
        ),
        (
            "--stages 8 --microbatches 5000 --layers 64 --vary all --activation 6GB --activation-kept 1GB \
             --chain layer=3ms/3ms/3ms"
                .to_owned(),
            &["120000 forwards are too many", "fewer microbatches"],
        ),
        (
            format!("{plain} --layers 8 --vary layers --activation 6GB --memory-limit 1GB"),
            &["no order of passes fits", "raise the limit"],
        ),
    ] {
        refused(&run(&format!("search {question}")), parts);
    }
}

#[test]
fn what_cannot_be_chosen_of_copies_and_pairs_is_refused_with_a_cure() {
    let plain =
        "--stages 2 --microbatches 4 --forward 9ms --backward-input 9ms --backward-weight 9ms";
    for (question, parts) in [
        (
            "--stages 2 --microbatches 4 --layers 8 --vary recompute \
             --chain layer=3ms/3ms/3ms,dispatch=3ms/3ms --activation 6GB --activation-kept 1GB"
                .to_owned(),
            &["pairs on two streams recompute nothing", "name pairs in --vary"][..],
        ),
        (format!("{plain} --vary pairs"), &["no pass communicates", "--chain"]),
        (
            format!("{plain} --vary offload --activation 6GB --memory-limit 9GB"),
            &["nothing says how long a copy", "--host-bandwidth", "leave offload out"],
        ),
        (
            format!("{plain} --vary all --host-bandwidth 20GB/s"),
            &["host-bandwidth needs the bytes of activations"],
        ),
        (
            format!("{plain} --vary offload --offload-time 3ms --offload-chunks 1"),
            &["offload-chunks are chosen by --vary", "leave them out"],
        ),
        (
            format!("{plain} --vary offload --offload-time 3ms --recompute full"),
            &["recompute and offload both", "leave recompute out"],
        ),
        (
            format!("{plain} --vary offload --offload-time 3ms --offload 0.5"),
            &["offload", "leave it out"],
        ),
        (
            format!("{plain} --vary offload --offload-time 3ms --max-inflight-offloads 0"),
            &["max-inflight-offloads says what is copied to the host, or when", "leave it out"],
        ),
        (
            format!("{plain} --vary chunks,offload --layers 8 --offload-time 3ms,4ms"),
            &["offload-time has a value for each", "give one value"],
        ),
        (
            format!("{plain} --vary offload --offload-time 3ms --certificate x.toml"),
            &["--certificate", "copy nothing to the host", "without offload"],
        ),
    ] {
        refused(&run(&format!("search {question}")), parts);
    }
}
