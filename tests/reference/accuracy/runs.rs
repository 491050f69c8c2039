//! Predictions of runs that this project made itself, and of steps of recorded traces.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{Cells, Line, number, results};
use crate::reference::schedules::ask;
use crate::reference::{CURE, hold, root};

/// Predictions of runs that this project made itself.
pub fn runs() -> Vec<Line> {
    let errors = |file: &str, column: &str| -> Vec<f64> {
        results(file).iter().map(|cells| number(cells, column) / 100.0).collect()
    };
    let bubble = |source: &str, command, held_out| Line {
        what: "bubble of `execute` on the timed device".to_owned(),
        source: source.to_owned(),
        command,
        in_points: true,
        held_out,
        ..Line::default()
    };
    let timed = |file: &str| errors(file, "difference_points");
    let by_profile = ["by-profile", "searched"].map(|run| format!("h100/measured-gpu-{run}.csv"));
    let kernels =
        by_profile.iter().flat_map(|file| errors(file, "difference_by_busy_stages_points"));
    let steps = by_profile.iter().flat_map(|file| results(file)).map(|cells| {
        let measured = number(&cells, "makespan_ms_measured");
        (number(&cells, "makespan_ms_by_busy_stages") - measured) / measured
    });
    let mut runs = vec![
        bubble("threads of a 2-core machine", "make measure", timed("measured-timed.csv")),
        bubble("one H100 in 8 parts", "make gpu", timed("h100/measured-gpu-timed.csv")),
        Line {
            what: "bubble of `execute --device cuda`, from profiles".to_owned(),
            ..bubble("GPT, one H100 in 8 parts", "make gpu", kernels.collect())
        },
        Line {
            what: "step of `execute --device cuda`, from profiles".to_owned(),
            source: "GPT, one H100 in 8 parts".to_owned(),
            command: "make gpu",
            held_out: steps.collect(),
            ..Line::default()
        },
        Line {
            what: "step of `execute --device cpu`, from a profile".to_owned(),
            source: "a stage per core of a 2-core machine".to_owned(),
            command: "make agree",
            held_out: errors("agreement-cpu.csv", "error_percent"),
            ..Line::default()
        },
    ];
    let mut models: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for cells in results("torch-cpu.csv") {
        models
            .entry(cells["model"].clone())
            .or_default()
            .push(number(&cells, "error_percent") / 100.0);
    }
    runs.extend(models.into_iter().map(|(model, held_out)| Line {
        what: "step of PyTorch on a CPU, from a recording".to_owned(),
        source: model,
        command: "make torch",
        held_out,
        ..Line::default()
    }));
    runs
}

/// The production traces that steps are predicted from: the file beside the checkout, the run, and flags.
const TRACES: [(&str, &str, &str); 5] = [
    ("trace-AR.parquet", "StragglerAnalysis, 64 GPUs", ""),
    ("trace-AR.parquet", "StragglerAnalysis, 64 GPUs, launch delays of the run", "--launch-delays"),
    ("trace-ST.parquet", "StragglerAnalysis, 8 GPUs", ""),
    ("trace-ST.parquet", "StragglerAnalysis, 8 GPUs, launch delays of the run", "--launch-delays"),
    (
        "megatronapp/pipeline-4-virtual-4-pp-aggregated.json",
        "MegatronApp, interleaved 1F1B on 4 RTX 4090, hops estimated",
        "--warmup-steps 1",
    ),
];

/// Errors of steps replayed from traces, as recorded; anew where the traces are.
pub fn traces() -> Vec<Line> {
    let folder = root().join("../shared/measured");
    if folder.is_dir() {
        let wrong = hold(&root().join("results/traces.csv"), &replayed(&folder));
        assert_eq!(wrong, None, "{CURE}");
    }
    let error = |cells: &Cells| {
        let [measured, predicted] = ["measured_ns", "predicted_ns"].map(|one| number(cells, one));
        (predicted - measured) / measured
    };
    let line = |(source, rows): (String, Vec<Cells>)| Line {
        what: "step of a traced run, from its passes".to_owned(),
        source,
        command: "replay TRACE",
        held_out: rows.iter().map(error).collect(),
        ..Line::default()
    };
    let mut runs: Vec<(String, Vec<Cells>)> = Vec::new();
    for cells in results("traces.csv") {
        match runs.last_mut().filter(|(run, _)| *run == cells["run"]) {
            Some((_, rows)) => rows.push(cells),
            None => runs.push((cells["run"].clone(), vec![cells])),
        }
    }
    runs.into_iter().map(line).collect()
}

/// The errors of the steps of all traces in `folder`, as CSV.
fn replayed(folder: &Path) -> String {
    let mut text = "run,step,measured_ns,predicted_ns\n".to_owned();
    for (file, run, flags) in TRACES {
        let path = folder.join(file);
        let answer = ask(&format!("replay {} {flags} --json", path.display()));
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        for step in answer["steps"].as_array().unwrap() {
            let cells = ["step", "measured_ns", "predicted_ns"].map(|key| step[key].to_string());
            text += &format!("\"{run}\",{}\n", cells.join(","));
        }
    }
    text
}
