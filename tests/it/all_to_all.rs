//! Sizes instead of times: all-to-alls of experts over the wires of a cluster, from the command line.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cli::{debubble, refused, results, run, said, stdout};

/// A cluster file in a folder of its own: nodes of two devices that share a NIC of 1 GB/s.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = |nodes: &str| {
            format!(
                "{nodes}devices-per-node = 2\nintra = {{ bandwidth = \"100GB/s\" }}\n\
                 inter = {{ nics = 1, bandwidth = \"1GB/s\" }}\n"
            )
        };
        fs::write(folder.path().join("pairs.toml"), cluster("")).unwrap();
        fs::write(folder.path().join("four.toml"), cluster("nodes = 4\n")).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// 1F1B over two stages and two microbatches of one layer each, whose F computes for 100 ms and then sends
    /// 200 MB, on the cluster in `name`.
    fn question(&self, name: &str, rest: &str) -> String {
        let cluster = self.path(name);
        format!(
            "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --message 0B \
             --chain attention=100ms/150ms/50ms,dispatch=200MB/0B --contention 0,1 --json --gantt never \
             --cluster {} {rest}",
            cluster.display()
        )
    }

    fn makespan(&self, name: &str, rest: &str) -> u64 {
        makespan(&results(&self.question(name, rest))[0])
    }
}

fn makespan(result: &Value) -> u64 {
    result["makespan_ns"].as_u64().unwrap()
}

const MS: u64 = 1_000_000;

#[test]
fn two_stages_of_a_node_share_the_nic_that_their_all_to_alls_leave_by() {
    let files = Files::new();
    // Both stages are on node 0, the other member of each group on node 1: half of 200 MB leaves, which take
    // 100 ms alone. F0 runs 0-200 on stage 0. Then both stages compute until 300, and what they send shares the
    // NIC until 500. The rest is alone: B0 500-700, F1 700-900, B1 900-1100 on stage 1, B1 1100-1300 on stage 0.
    let shared = &results(&files.question("pairs.toml", "--expert-parallel 2"))[0];
    assert_eq!(makespan(shared), 1300 * MS);
    // Two microbatches of both stages have gone through it.
    let wires = shared["hardware"]["wires"].as_array().unwrap();
    let out = wires.iter().find(|wire| wire["name"] == "nic 0 of node 0, out").unwrap();
    assert_eq!(out["bytes"], 400_000_000);
    // Replay has the time alone: F1 200-400 there, and everything 100 ms sooner.
    let alone = "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --json --gantt never \
                 --chain attention=100ms/150ms/50ms,dispatch=100ms/0ms --contention 0,1";
    assert_eq!(makespan(&results(alone)[0]), 1200 * MS);
    // So it is with a node for each stage, its group beside it: 100 MB stay there at 100 GB/s.
    let across = files.makespan("four.toml", "--expert-parallel 2 --seating across-nodes");
    let alone = "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --json --gantt never \
                 --chain attention=100ms/150ms/50ms,dispatch=1ms/0ms --contention 0,1";
    assert_eq!(across, makespan(&results(alone)[0]));
}

#[test]
fn a_larger_group_sends_more_out_of_its_node() {
    let files = Files::new();
    // Of 4 members 2 are in a node: 2/4 of 200 MB leave it, for both 200 MB through the NIC in 200 ms.
    let four = files.makespan("four.toml", "--expert-parallel 4 --seating across-nodes");
    let alone = "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --json --gantt never \
                 --chain attention=100ms/150ms/50ms,dispatch=200ms/0ms --contention 0,1";
    assert_eq!(four, makespan(&results(alone)[0]));
    // How the group lies is said.
    let line = files.question("four.toml", "--expert-parallel 4 --seating across-nodes");
    let output = run(&line);
    assert!(!stdout(&output).is_empty());
    let said = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("2/4 of what each sends leaves the node, 2 behind a NIC"), "{said}");
}

#[test]
fn measured_segments_take_their_time_at_least() {
    let files = Files::new();
    let file = files.path("layer.csv");
    let rows = |time: &str| {
        format!(
            "layer,part,name,time,bytes\n0,F,attention,100ms,\n0,F,dispatch,{time},200MB\n\
             0,B,dispatch,0ms,\n0,B,attention,150ms,\n0,W,attention,50ms,\n"
        )
    };
    let ask = |time: &str, rest: &str| {
        fs::write(&file, rows(time)).unwrap();
        let line = format!(
            "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --message 0B --contention 0,1 \
             --json --gantt never --chain-file {} {rest}",
            file.display()
        );
        makespan(&results(&line)[0])
    };
    let cluster = format!("--cluster {}", files.path("pairs.toml").display());
    let group = format!("{cluster} --expert-parallel 2");
    // The wires need 100 ms, and 200 ms where two share them, however soon the kernels are done.
    assert_eq!(ask("100ms", &group), 1300 * MS);
    assert_eq!(ask("20ms", &group), 1300 * MS);
    assert_eq!(ask("400ms", &group), ask("400ms", ""));
    // Without a group it takes its time and no wire.
    assert_eq!(ask("20ms", &cluster), ask("20ms", ""));
}

#[test]
fn sizes_that_cannot_move_are_refused() {
    let files = Files::new();
    let ask = |name: &str, rest: &str| run(&files.question(name, rest));
    refused(&ask("pairs.toml", ""), &["dispatch is a size, 200MB", "give --expert-parallel"]);
    let without = "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b \
                   --chain attention=1ms/1ms/1ms,dispatch=200MB/1ms";
    refused(&run(without), &["give --cluster and --expert-parallel, or its time"]);
    refused(&run(&format!("{without} --expert-parallel 4")), &["give --cluster, or its time"]);
    refused(&ask("pairs.toml", "--expert-parallel 0"), &["expert-parallel is 0"]);
    refused(&ask("pairs.toml", "--expert-parallel 18446744073709551615"), &["at most 65536 here"]);
    refused(
        &ask("four.toml", "--expert-parallel 8"),
        &["8 replicas with 2 devices each", "the cluster has 8 devices", "a smaller group"],
    );
    let three = "--expert-parallel 3 --seating across-nodes";
    refused(&ask("pairs.toml", three), &["does not fill nodes", "divisor or a multiple of 2"]);
    for (size, what) in [
        ("10000000000000000000B", "the segment dispatch: `10000000000000000000B` is too large"),
        ("17TiB", "dispatch moves 17TiB: at most 16TiB"),
    ] {
        let chain = format!("attention=1ms/1ms/1ms,dispatch={size}/0B");
        let cluster = files.path("pairs.toml");
        let output = debubble(
            "simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b --message 1MB --expert-parallel 2"
                .split_whitespace()
                .chain(["--chain", &chain, "--cluster", &cluster.display().to_string()]),
        );
        refused(&output, &[what]);
    }
    // What has no influence is said.
    let unused = run("simulate --stages 2 --microbatches 2 --layers 2 --schedule 1f1b \
                      --chain attention=1ms/1ms/1ms --expert-parallel 4");
    assert!(!stdout(&unused).is_empty());
    let said = said(&unused).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("expert-parallel is ignored"), "{said}");
}
