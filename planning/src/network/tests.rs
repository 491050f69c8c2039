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
    let told = |error: Diagnostic| format!("{} ({})", error.message, error.help.unwrap_or_default());
    with(text, runs).map_err(told)
}

/// Bus bandwidth at the largest size out of place, in GB/s.
fn largest(run: &Run) -> f64 {
    let bytes = run.points.iter().map(|point| point.bytes).max().unwrap();
    let point = run.points.iter().find(|point| point.bytes == bytes).unwrap();
    run.collective.factor(run.ranks) * plan::number(bytes) / point.seconds / 1e9
}

fn measured_on(text: &str, machine: &str) -> Result<(Machine, Network), String> {
    let machine = machines::built_in().unwrap().into_iter().find(|one| one.name == machine).unwrap();
    let told = |error: Diagnostic| format!("{} ({})", error.message, error.help.unwrap_or_default());
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
        (named("all_gather", log("a100-1x8-all-gather.log")), Collective::AllGather, [8, 1], 24, 223.0),
        (named("alltoall", log("a100-1x8-alltoall.log")), Collective::AllToAll, [8, 1], 24, 224.31),
        (named("broadcast", log("a100-1x8-broadcast.log")), Collective::Other, [8, 1], 28, 235.0),
        (named("all_gather", log("h200-2x8-all-gather.log")), Collective::AllGather, [16, 2], 24, 325.72),
        (log("a40-2x1-sendrecv.log").into(), Collective::SendRecv, [2, 2], 10, 0.13),
        (log("gtx1080-1x2-sendrecv.log").into(), Collective::SendRecv, [2, 1], 1, 5.82),
        (log("h100-1x4-alltoall.log").into(), Collective::AllToAll, [4, 1], 2, 334.90),
        (log("gb10-2x1-all-reduce.log").into(), Collective::AllReduce, [2, 2], 8, 0.96),
        (log("a100-3x8-all-reduce.csv").into(), Collective::AllReduce, [24, 3], 6, 95.74),
    ];
    for (text, collective, [ranks, nodes], points, rate) in cases {
        let runs = read(&text).unwrap();
        let [run] = &runs[..] else { panic!("{} runs of {text}", runs.len()) };
        assert_eq!((run.collective, run.ranks, run.nodes, run.points.len()), (collective, ranks, nodes, points), "{text}");
        assert!((largest(run) / rate - 1.0).abs() < 0.04, "{} {text}", largest(run));
    }
    assert_eq!(read(log("gb300-racks.csv")).unwrap().len(), 4);
}
