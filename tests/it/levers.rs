//! Levers: what a change of the pipeline would be worth, by running it.

use serde_json::Value;

use crate::cli::results;
use crate::explain::explained;

/// The lever of that name: step, change, and what became of the order.
fn lever<'a>(result: &'a Value, name: &str) -> (u64, i64, &'a str) {
    let levers = result["explain"]["levers"].as_array().unwrap();
    let one = levers.iter().find(|one| one["lever"] == name).unwrap_or_else(|| panic!("{name}"));
    let (step, change) = (one["step_ns"].as_u64().unwrap(), one["change_ns"].as_i64().unwrap());
    (step, change, one["order"].as_str().unwrap())
}

#[test]
fn levers_are_what_the_change_would_be_worth() {
    // F = 100, BW = 300, hop 50: F0 0-100, F1 150-250, BW1 250-550, BW0 600-900, all in one chain.
    // Half the hops save 50. Stage 0 works for 400 of it: 5 % are 20.
    let times = "--forward 100ns --backward-input 200ns --backward-weight 100ns --hop 50ns";
    let shape = "simulate --stages 2 --microbatches 1 --explain --json";
    let result = &results(&format!("{shape} {times} --schedule 1f1b"))[0];
    assert_eq!(lever(result, "all links twice as fast"), (850, -50, "kept"));
    assert_eq!(lever(result, "link 0-1 twice as fast"), (850, -50, "kept"));
    assert_eq!(lever(result, "stage 0 5 % slower"), (920, 20, "kept"));
    assert_eq!(lever(result, "stage 1 5 % faster"), (880, -20, "kept"));
}

#[test]
fn levers_point_where_they_should() {
    let results = explained("--schedule 1f1b,zb-heuristic,zb-v --hop 1ms --memory-limit 1p");
    for stage in 0..4 {
        assert!(lever(&results[0], &format!("stage {stage} 5 % slower")).1 >= 0);
        assert!(lever(&results[0], &format!("stage {stage} 5 % faster")).1 <= 0);
    }
    assert!(lever(&results[0], "a layer from stage 3 to stage 0").1 < 0);
    // More memory buys the search a shorter step, and 1F1B nothing.
    let (_, change, order) = lever(&results[1], "1 M_B more on all stages");
    assert!(change < 0 && order == "rebuilt", "{change}");
    assert_eq!(lever(&results[2], "all links twice as fast").2, "rebuilt");
    let names = results[0]["explain"]["levers"].to_string();
    assert!(!names.contains("more on") && names.contains("slower"));
    assert!(results[0]["explain"]["notes"].to_string().contains("8 are assumed"));
}

fn cost(result: &Value) -> u64 {
    result["explain"]["cost_ns"].as_u64().unwrap()
}

#[test]
fn more_memory_on_a_stage_is_run_with_that_stage_alone_changed() {
    let ask = |limits: &str| {
        explained(&format!(
            "--schedule zb-heuristic,zb-v --activation 1GiB --memory-limit {limits}"
        ))
    };
    let base = ask("5GiB,4GiB,4GiB,6GiB");
    let raised = [
        ("stage 0", "6GiB,4GiB,4GiB,6GiB"),
        ("stage 1", "5GiB,5GiB,4GiB,6GiB"),
        ("stage 2", "5GiB,4GiB,5GiB,6GiB"),
        ("stage 3", "5GiB,4GiB,4GiB,7GiB"),
        ("all stages", "6GiB,5GiB,5GiB,7GiB"),
    ];
    for (place, limits) in raised {
        for (base, raised) in base.iter().zip(ask(limits)) {
            let (step, _, order) = lever(base, &format!("1 GiB more on {place}"));
            assert_eq!((step, order), (cost(&raised), "rebuilt"), "{place}, {}", base["schedule"]);
        }
    }
    // It matters where: a stage that all microbatches in flight must pass is worth most.
    let step = |place| lever(&base[0], &format!("1 GiB more on {place}")).0;
    let steps = raised.map(|(place, _)| step(place));
    assert!(steps.iter().any(|&step| step != steps[0]), "{steps:?}");
}

#[test]
fn more_memory_on_a_device_is_run_with_that_device_alone_changed() {
    // Microbatches wait until those before them are on the host.
    let ask = |memory: [u32; 4]| {
        let memory = memory.map(|gib| format!("{gib}GiB")).join(",") + ",1GiB,1GiB,1GiB,1GiB";
        let cluster = "--schedule gpipe --cluster a100-roce --message 50MB --activation 2GiB";
        let host = "--offload 0.9 --when-full wait";
        explained(&format!("{cluster} {host} --device-memory {memory}"))
    };
    let base = &ask([8; 4])[0];
    let mut changes = Vec::new();
    for device in 0..4 {
        let mut memory = [8; 4];
        memory[device] = 9;
        let (step, change, order) = lever(base, &format!("1 GiB more on device {device}"));
        assert_eq!((step, order), (cost(&ask(memory)[0]), "kept"));
        changes.push(change);
    }
    assert!(changes.iter().any(|&change| change < 0), "{changes:?}");
    assert!(!base["explain"]["levers"].to_string().contains("device 4"));
    assert_eq!(lever(base, "1 GiB more on all devices").0, cost(&ask([9; 4])[0]));
}
