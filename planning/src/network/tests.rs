use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::machines;

/// Excerpts of public logs; the first line of each names its source.
const LOGS: [(&str, &str); 17] = [
    ("a100-1x8-all-gather.log", include_str!("tests/logs/a100-1x8-all-gather.log")),
    ("a100-1x8-all-reduce.log", include_str!("tests/logs/a100-1x8-all-reduce.log")),
    ("a100-1x8-alltoall.log", include_str!("tests/logs/a100-1x8-alltoall.log")),
    ("a100-1x8-broadcast.log", include_str!("tests/logs/a100-1x8-broadcast.log")),
    ("a100-1x8-reduce-scatter.log", include_str!("tests/logs/a100-1x8-reduce-scatter.log")),
    ("a100-3x8-all-reduce.csv", include_str!("tests/logs/a100-3x8-all-reduce.csv")),
    ("a40-2x1-sendrecv.log", include_str!("tests/logs/a40-2x1-sendrecv.log")),
    ("gb10-2x1-all-reduce.log", include_str!("tests/logs/gb10-2x1-all-reduce.log")),
    ("gb300-racks.csv", include_str!("tests/logs/gb300-racks.csv")),
    ("gtx1080-1x2-sendrecv.log", include_str!("tests/logs/gtx1080-1x2-sendrecv.log")),
    ("h100-1x4-alltoall.log", include_str!("tests/logs/h100-1x4-alltoall.log")),
    ("h100-2x8-all-reduce.log", include_str!("tests/logs/h100-2x8-all-reduce.log")),
    ("h100-2x8-alone.log", include_str!("tests/logs/h100-2x8-alone.log")),
    ("h200-2x8-all-gather.log", include_str!("tests/logs/h200-2x8-all-gather.log")),
    ("h800-8x8-alltoall.log", include_str!("tests/logs/h800-8x8-alltoall.log")),
    ("mi300x-1x8-all-reduce.log", include_str!("tests/logs/mi300x-1x8-all-reduce.log")),
    ("mi300x-2x8-all-reduce.log", include_str!("tests/logs/mi300x-2x8-all-reduce.log")),
];
const MI355X: &str = include_str!("tests/logs/mi355x-2x8-all-reduce.log");

fn log(name: &str) -> &'static str {
    LOGS.iter().find(|(own, _)| *own == name).map(|(_, text)| *text).unwrap()
}

/// What `of` gives with `text` as a file.
fn with<T>(text: &str, of: impl FnOnce(&Context<'_>, &Path) -> T) -> T {
    let files = BTreeMap::from([(PathBuf::from("nccl.log"), text.as_bytes().to_vec())]);
    of(&Context::new(&files), Path::new("nccl.log"))
}

fn read(text: &str) -> Result<Vec<Run>, String> {
    let told =
        |error: Diagnostic| format!("{} ({})", error.message, error.help.unwrap_or_default());
    with(text, runs).map_err(told)
}

/// Bus bandwidth at the largest size out of place, in GB/s.
fn largest(run: &Run) -> f64 {
    let bytes = run.points.iter().map(|point| point.bytes).max().unwrap();
    let point = run.points.iter().find(|point| point.bytes == bytes).unwrap();
    run.collective.factor(run.ranks) * plan::number(bytes) / point.seconds / 1e9
}

fn measured_on(text: &str, machine: &str) -> Result<(Machine, Network), String> {
    let machine =
        machines::built_in().unwrap().into_iter().find(|one| one.name == machine).unwrap();
    let told =
        |error: Diagnostic| format!("{} ({})", error.message, error.help.unwrap_or_default());
    with(text, |context, path| measured(context, path, &machine)).map_err(told)
}

#[test]
fn public_logs_are_read() {
    let named = |name: &str, log: &str| format!("{name}_perf\n{log}");
    let cases: Vec<(String, Collective, [u64; 2], usize, f64)> = vec![
        (log("mi300x-1x8-all-reduce.log").into(), Collective::AllReduce, [8, 1], 28, 313.0),
        (log("mi300x-2x8-all-reduce.log").into(), Collective::AllReduce, [16, 2], 30, 357.46),
        (MI355X.into(), Collective::AllReduce, [16, 2], 28, 369.04),
        (log("h100-2x8-all-reduce.log").into(), Collective::AllReduce, [16, 2], 28, 338.82),
        (log("a100-1x8-all-reduce.log").into(), Collective::AllReduce, [8, 1], 28, 235.0),
        (log("a100-1x8-reduce-scatter.log").into(), Collective::ReduceScatter, [8, 1], 24, 225.0),
        (
            named("all_gather", log("a100-1x8-all-gather.log")),
            Collective::AllGather,
            [8, 1],
            24,
            223.0,
        ),
        (named("alltoall", log("a100-1x8-alltoall.log")), Collective::AllToAll, [8, 1], 24, 224.31),
        (named("broadcast", log("a100-1x8-broadcast.log")), Collective::Other, [8, 1], 28, 235.0),
        (
            named("all_gather", log("h200-2x8-all-gather.log")),
            Collective::AllGather,
            [16, 2],
            24,
            325.72,
        ),
        (log("a40-2x1-sendrecv.log").into(), Collective::SendRecv, [2, 2], 10, 0.13),
        (log("gtx1080-1x2-sendrecv.log").into(), Collective::SendRecv, [2, 1], 1, 5.82),
        (log("h100-1x4-alltoall.log").into(), Collective::AllToAll, [4, 1], 2, 334.90),
        (log("gb10-2x1-all-reduce.log").into(), Collective::AllReduce, [2, 2], 8, 0.96),
        (log("a100-3x8-all-reduce.csv").into(), Collective::AllReduce, [24, 3], 6, 95.74),
    ];
    for (text, collective, [ranks, nodes], points, rate) in cases {
        let runs = read(&text).unwrap();
        let [run] = &runs[..] else { panic!("{} runs of {text}", runs.len()) };
        assert_eq!(
            (run.collective, run.ranks, run.nodes, run.points.len()),
            (collective, ranks, nodes, points),
            "{text}"
        );
        assert!((largest(run) / rate - 1.0).abs() < 0.04, "{} {text}", largest(run));
    }
    assert_eq!(read(log("gb300-racks.csv")).unwrap().len(), 4);
}

#[test]
fn a_file_has_several_runs() {
    let text = format!(
        "./all_gather_perf -b 8\n{}\n{}\n./alltoall_perf\n{}",
        log("a100-1x8-all-gather.log"),
        log("a100-1x8-reduce-scatter.log"),
        log("a100-1x8-alltoall.log"),
    );
    let runs = read(&text).unwrap();
    let collectives: Vec<Collective> = runs.iter().map(|run| run.collective).collect();
    assert_eq!(
        collectives,
        [Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll]
    );
    assert!(runs.windows(2).all(|two| two[0].line < two[1].line));
    // Without their first lines, and of several sizes of jobs.
    let text =
        format!("{MI355X}\n{MI355X}\nreduce_scatter_perf\n{}", log("h200-2x8-all-gather.log"));
    let runs = read(&text.replace("# nThread", "#")).unwrap();
    let found: Vec<_> = runs.iter().map(|run| (run.collective, run.points.len())).collect();
    let reduced = (Collective::AllReduce, 28);
    assert_eq!(found, [reduced, reduced, (Collective::ReduceScatter, 24)]);
}

#[test]
fn logs_that_do_not_say_enough_are_refused() {
    let sendrecv =
        log("gtx1080-1x2-sendrecv.log").replace("./build/sendrecv_perf -b 36M", "-b 36M");
    let right = log("mi300x-1x8-all-reduce.log");
    let (rows, after) = right.split_once("      0\n# ").unwrap();
    let wrong = format!("{rows}      7\n# {after}");
    let reduce = log("a100-1x8-all-reduce.log");
    let cases = [
        (log("a100-1x8-all-gather.log").to_owned(), "does not name the collective"),
        (sendrecv, "does not name the collective"),
        (format!("all_gather_perf\n{reduce}"), "not those of all_gather"),
        (log("h800-8x8-alltoall.log").to_owned(), "lists 6 of its 64 ranks"),
        (log("h100-2x8-alone.log").to_owned(), "build the tests with MPI=1"),
        (wrong, "its results were wrong"),
        (reduce.replace("values : 0 OK", "values : 3 FAILED"), "its results were wrong"),
        (reduce.replace("Rank  7", "Rank 17"), "lists 8 of its 18 ranks"),
        (reduce.replace("localhost device  7", "other device  7"), "different numbers of devices"),
        (reduce.replace("device  7", "device  6"), "shares its device"),
        ("hello".to_owned(), "neither the output of nccl-tests"),
        ("# nThread 1 nGpus 8\n".to_owned(), "no sizes"),
        (
            "collective,ranks,nodes,bytes,busbw\nall_reduce,16,3,8,1\n".to_owned(),
            "not spread evenly",
        ),
        ("collective,ranks,nodes,bytes,busbw\nallmaybe,16,2,8,1\n".to_owned(), "no collective"),
        ("collective,ranks,nodes,bytes\nall_reduce,16,2,8\n".to_owned(), "no column busbw"),
        ("collective,ranks,bytes,busbw\nall_reduce,16,8,1\n".to_owned(), "no column nodes"),
        ("collective,ranks,nodes,bytes,busbw\nall_reduce,16,2,8,nan\n".to_owned(), "above 0"),
    ];
    for (text, expected) in cases {
        let error = read(&text).map(|runs| runs.len()).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn rates_of_a_machine_are_those_of_the_log() {
    let (machine, network) = measured_on(log("h100-2x8-all-reduce.log"), "h100").unwrap();
    let ring = network.rates.iter().find(|one| one.rate == "ring").unwrap();
    // 339 GB/s of eight NICs at 8 GiB, 298 at 1 GiB, 100 at 64 MiB.
    assert!((ring.bytes_per_second / 1e9 - 38.0).abs() < 2.0, "{ring:?}");
    assert_eq!((ring.nodes, ring.ranks, ring.most_bytes), (2, 16, 8_589_934_592));
    assert!(ring.median_residual < 0.15 && ring.largest_residual < 0.7, "{ring:?}");
    assert!((ring.latency.unwrap() - 123e-6).abs() < 15e-6, "{ring:?}");
    let efficiency = machine.efficiency;
    assert_eq!((efficiency.ring, efficiency.tensor_network), (ring.value, ring.value));
    // An all-reduce of two nodes at the fitted rate takes as long as the log says.
    let bytes = 1_073_741_824.0;
    let seconds = plan::all_reduce(bytes, 16, machine.ring(16, 1), ring.latency.unwrap());
    assert!((seconds / 6759e-6 - 1.0).abs() < 0.1, "{seconds}");
    // Rates that files take for another follow it, and the rest stays and is named.
    let old = machines::of_device("H100").unwrap().efficiency;
    assert!((efficiency.expert_ring / efficiency.ring - old.expert_ring / old.ring).abs() < 1e-9);
    assert_eq!(
        (efficiency.link, efficiency.hop, efficiency.hop_latency),
        (old.link, old.hop, old.hop_latency)
    );
    let kept: Vec<&str> = network.kept.iter().map(|one| one.rate).collect();
    for rate in [
        "link",
        "expert-link",
        "sharded-ring",
        "hop",
        "expert-network",
        "expert-ring",
        "shared-ring",
        "hop-latency",
    ] {
        assert!(kept.contains(&rate), "{kept:?}");
    }
    assert_eq!(network.devices, ["NVIDIA H100 80GB HBM3"]);
}

#[test]
fn collectives_within_a_node_give_its_links() {
    let text = format!(
        "{}\nalltoall_perf\n{}",
        log("a100-1x8-all-reduce.log"),
        log("a100-1x8-alltoall.log")
    );
    let (machine, network) = measured_on(&text, "a100-40g").unwrap();
    let [link, expert] = [machine.efficiency.link, machine.efficiency.expert_link];
    assert!((link - 0.775).abs() < 0.03 && (expert - 0.745).abs() < 0.03, "{link} {expert}");
    let latency = network.latencies["collective-latency"];
    assert!((latency - 35e-6).abs() < 3e-6 && machine.efficiency.collective_latency == latency);
    // The hop and rings over nodes stay as the file has them.
    assert_eq!(machine.efficiency.hop, 0.866);
}

#[test]
fn all_to_alls_over_racks_take_what_links_leave() {
    let (machine, network) = measured_on(log("gb300-racks.csv"), "gb300").unwrap();
    let of = |key: &str| {
        network.rates.iter().find(|one| one.rate == key).map(|one| one.bytes_per_second / 1e9)
    };
    // Half of the bytes leave the rack: 17.2 GB in 357.6 ms less those of the links.
    let expert = of("expert-network").unwrap();
    assert!(expert > 23.5 && expert < 26.0, "{expert}");
    assert!(machine.block(128) == 64 && of("expert-link").unwrap() > 600.0, "{network:?}");
}

#[test]
fn rates_beyond_the_machine_and_other_nodes_are_named() {
    // Twice the links: as where a switch reduces.
    let rows: String =
        (20..34).map(|power| format!("all_reduce,16,2,{},480\n", 1_u64 << power)).collect();
    let fast = format!("collective,ranks,nodes,bytes,busbw\n{rows}");
    let error = measured_on(&fast, "h100").unwrap_err();
    assert!(error.contains("480") || error.contains("60 GB/s a device"), "{error}");
    assert!(error.contains("NCCL_ALGO=Ring"), "{error}");
    let error = measured_on(log("h100-1x4-alltoall.log"), "h100").unwrap_err();
    assert!(
        error.contains("ran on 4 devices a node, and h100 has 8") && error.contains("per-node"),
        "{error}"
    );
    // With another run that is of use, it is left out by name.
    let both = format!("{}\n{}", log("h100-2x8-all-reduce.log"), log("h100-1x4-alltoall.log"));
    let (_, network) = measured_on(&both, "h100").unwrap();
    assert!(
        network.left_out.len() == 1 && network.left_out[0].contains("alltoall ran on 4 devices"),
        "{network:?}"
    );
    // Sends between two nodes are of any machine.
    let pair =
        "collective,ranks,nodes,bytes,busbw\nsendrecv,2,2,1048576,20\nsendrecv,2,2,1073741824,40\n";
    let (sends, _) = measured_on(pair, "h100").unwrap();
    // A size far below the largest gives no rate.
    assert!((sends.efficiency.hop - 0.8).abs() < 1e-9, "{}", sends.efficiency.hop);
    let (machine, network) = measured_on(log("a40-2x1-sendrecv.log"), "h100").unwrap();
    assert!(
        network.rates.is_empty() && (machine.efficiency.hop_latency - 32e-6).abs() < 3e-6,
        "{network:?}"
    );
}

#[test]
fn a_device_of_another_machine_is_named() {
    for (device, machine, is_of_another) in [
        ("NVIDIA H100 80GB HBM3", "h100", false),
        ("NVIDIA A100-SXM4-80GB", "a100-80g", false),
        ("NVIDIA GB200", "b200", false),
        ("NVIDIA H100 80GB HBM3", "h200", true),
        ("AMD Instinct MI300X", "h100", true),
        // These may be anything.
        ("NVIDIA H100 80GB HBM3", "our-cluster", false),
        ("GeForce GTX 1080", "h100", false),
    ] {
        assert_eq!(super::is_of_another(device, machine), is_of_another, "{device}, {machine}");
    }
}
