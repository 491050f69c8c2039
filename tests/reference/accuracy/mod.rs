//! How far predictions lie from measurements: everything that is held against some, in tables.
//!
//! Errors of the planner are computed here; those of published tables and of runs on this project's machines
//! are read from `results/`, where `make`, `make measure`, `make agree` and `make torch` write them. Errors of
//! replayed traces are computed where the traces lie beside the checkout, and recorded in `results/traces.csv`.

mod independent;
mod readme;
mod runs;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use measured::{Row, SetErrors, Validated, ValidationQuestion, validate};
use question::Context;
use question::sheet::Block;

use super::markdown::{code, prose, table};
use super::root;
use crate::host::Host;

/// A part of the page: its name, and what makes it.
type Part = (&'static str, fn() -> String);

/// The parts of the page.
pub const PARTS: [Part; 9] = [
    ("all", all),
    ("machines", machines),
    ("kinds", kinds),
    ("coverage", coverage),
    ("apart", apart),
    ("independent", independent::all),
    ("trainings", trainings),
    ("tables", tables),
    ("evidence", evidence),
];

/// The part `which`.
pub fn of(which: &str) -> Result<String, String> {
    let part = PARTS.iter().find(|(name, _)| *name == which);
    part.map(|(_, part)| part()).ok_or_else(|| format!("there is no accuracy of `{which}`"))
}

/// Predictions of one kind beside measurements of one source.
#[derive(Default)]
struct Line {
    what: String,
    source: String,
    command: &'static str,
    /// Whether errors are differences of percentages.
    in_points: bool,
    fitted: Vec<f64>,
    held_out: Vec<f64>,
}

impl Line {
    fn cells(&self) -> Vec<String> {
        let largest =
            self.fitted.iter().chain(&self.held_out).fold(0.0, |most, one| one.abs().max(most));
        vec![
            prose(&self.what),
            prose(&self.source),
            (self.fitted.len() + self.held_out.len()).to_string(),
            self.fitted.len().to_string(),
            self.error(mean(&self.fitted)),
            self.error(mean(&self.held_out)),
            self.error(Some(largest)),
            code(self.command),
        ]
    }

    fn error(&self, error: Option<f64>) -> String {
        let unit = if self.in_points { "points" } else { "%" };
        error.map_or("-".to_owned(), |error| format!("{:.2}\u{a0}{unit}", error * 100.0))
    }
}

/// The mean of the absolute values.
#[allow(clippy::cast_precision_loss)]
fn mean(errors: &[f64]) -> Option<f64> {
    let sum: f64 = errors.iter().map(|error| error.abs()).sum();
    (!errors.is_empty()).then(|| sum / errors.len() as f64)
}

const HEAD: [&str; 8] = [
    "predicted",
    "held against",
    "rows",
    "of them fitted",
    "mean error, fitted",
    "mean error, held out",
    "largest error",
    "command",
];

/// Everything that is held against measurements.
fn all() -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    rows.extend(planner().iter().map(Line::cells));
    rows.extend(validated().recorded.iter().map(recorded_cells));
    rows.extend(published().iter().map(Line::cells));
    rows.extend(runs::runs().iter().map(Line::cells));
    rows.extend(runs::traces().iter().map(Line::cells));
    table(&HEAD, rows)
}

/// The predictions of all sets that are built in.
fn validated() -> &'static Validated {
    static VALIDATED: LazyLock<Validated> = LazyLock::new(|| {
        let host = Host::default();
        validate(&Context::new(&host), &ValidationQuestion::default()).unwrap()
    });
    &VALIDATED
}

const VALIDATE: &str = "plan --validate";

/// What lines of rows that are set apart say.
const APART: &str = "set apart";

/// The planner's predictions of the sets that are built in, by quantity; steps that were predicted once
/// more without their configuration stand in a line of their own, and so do rows that are set apart.
fn planner() -> Vec<Line> {
    let mut lines = Vec::new();
    for set in &validated().sets {
        let mut quantities: Vec<&str> = set.rows.iter().map(|row| row.quantity).collect();
        quantities.dedup();
        quantities
            .sort_unstable_by_key(|name| set.rows.iter().position(|row| row.quantity == *name));
        quantities.dedup();
        // Utilisations of measured times say how FLOPs are counted, and predict nothing.
        quantities.retain(|name| !name.contains("measured time"));
        for name in quantities {
            let is_own = |row: &&Row| row.quantity == name && row.apart.is_none();
            let rows: Vec<&Row> = set.rows.iter().filter(is_own).collect();
            let line = |what: String, fitted: Vec<f64>, held_out: Vec<f64>| {
                let source = set.set.to_owned();
                Line { what, source, command: VALIDATE, fitted, held_out, ..Line::default() }
            };
            let errors = |fitted: bool| {
                rows.iter().filter(|row| row.fitted == fitted).map(|row| row.error).collect()
            };
            lines.push(line(quantity(name).to_owned(), errors(true), errors(false)));
            let folded = rows.iter().filter_map(|row| Some(row.held_out? / row.measured - 1.0));
            let folded: Vec<f64> = folded.collect();
            if !folded.is_empty() {
                let what = format!("{}, without its configuration", quantity(name));
                lines.push(line(what, Vec::new(), folded));
            }
            let apart = set.rows.iter().filter(|row| row.quantity == name && row.apart.is_some());
            let apart: Vec<f64> = apart.map(|row| row.error).collect();
            if !apart.is_empty() {
                lines.push(line(format!("{}, {APART}", quantity(name)), Vec::new(), apart));
            }
        }
    }
    lines
}

fn quantity(name: &str) -> &str {
    match name {
        "samples/GPU/s" => "throughput of a planned set-up",
        "peak GB" | "peak GiB" => "peak memory of a planned set-up",
        "s per iteration, ZeRO 3" => "step of a planned set-up, ZeRO 3",
        _ => "step of a planned set-up",
    }
}

/// A row of recorded errors of a set that is not part of the project.
fn recorded_cells(set: &SetErrors) -> Vec<String> {
    let percent = |error: f64| format!("{:.2}\u{a0}%", error * 100.0);
    // The mean over all rows is made of both kinds.
    let count = |rows: usize| plan::number(rows as u64);
    let (rows, fitted) = (count(set.rows), count(set.fitted));
    let held_out = set.held_out_mean.unwrap_or_default();
    let of_fitted = (set.mean * rows - held_out * (rows - fitted)) / fitted;
    vec![
        "step of a planned set-up".to_owned(),
        set.set.clone(),
        set.rows.to_string(),
        set.fitted.to_string(),
        if set.fitted == 0 { "-".to_owned() } else { percent(of_fitted) },
        set.held_out_mean.map_or("-".to_owned(), percent),
        percent(set.max),
        code("plan --validate FILES"),
    ]
}

/// The errors of the planner by kind of step: what stands beside a plan.
fn kinds() -> String {
    let built_in = validated().sets.iter().flat_map(|set| &set.kinds);
    let all: Vec<SetErrors> = built_in.chain(&validated().recorded).cloned().collect();
    let mut kinds: BTreeMap<&str, Vec<&SetErrors>> = BTreeMap::new();
    for set in &all {
        kinds.entry(&set.kind).or_default().push(set);
    }
    let percent = |error: f64| format!("{:.1}\u{a0}%", error * 100.0);
    let rows = kinds.into_iter().map(|(kind, sets)| {
        let sum = |of: fn(&SetErrors) -> usize| sets.iter().map(|set| of(set)).sum::<usize>();
        let most = |of: fn(&SetErrors) -> f64| sets.iter().map(|set| of(set)).fold(0.0, f64::max);
        let errors = sets.iter().map(|set| set.mean * plan::number(set.rows as u64)).sum::<f64>();
        let shortest = sets.iter().map(|set| set.shortest).fold(f64::MAX, f64::min);
        let interval = measured::interval_of_kind(kind, &all);
        let interval =
            interval.map(|[low, high]| format!("-{:.0}/+{:.0}\u{a0}%", 100.0 * low, 100.0 * high));
        vec![
            kind.to_owned(),
            sum(|set| set.rows).to_string(),
            sum(|set| set.configurations).to_string(),
            sum(|set| set.fitted).to_string(),
            interval.unwrap_or_else(|| "-".to_owned()),
            percent(errors / plan::number(sum(|set| set.rows) as u64)),
            percent(most(|set| set.max)),
            format!("{shortest:.2} to {:.2}", most(|set| set.longest)),
        ]
    });
    let head = [
        "kind of step",
        "rows",
        "configurations",
        "of them fitted",
        "95 % of runs",
        "mean",
        "largest",
        "measured over predicted",
    ];
    table(&head, rows)
}

/// The errors of the planner by type of device, dense models and those of experts apart; with the steps that are set
/// apart, once without and once with them.
fn machines() -> String {
    let mut machines: BTreeMap<[&str; 2], (Vec<&SetErrors>, Vec<f64>)> = BTreeMap::new();
    let built_in = validated().sets.iter().flat_map(|set| &set.kinds);
    for set in built_in.chain(&validated().recorded) {
        machines.entry(machine(&set.kind)).or_default().0.push(set);
    }
    for set in &validated().sets {
        for row in set.rows.iter().filter(|row| row.is_time() && set.apart(row).is_some()) {
            machines.entry(machine(&row.kind)).or_default().1.push(row.error);
        }
    }
    let percent = |error: f64| format!("{:.1}\u{a0}%", error * 100.0);
    let rows = machines.into_iter().map(|([device, model], (sets, apart))| {
        let rows = sets.iter().map(|set| set.rows).sum::<usize>();
        let errors = sets.iter().map(|set| set.mean * plan::number(set.rows as u64)).sum::<f64>();
        let largest = sets.iter().map(|set| set.max).fold(0.0, f64::max);
        let with = errors + apart.iter().map(|error| error.abs()).sum::<f64>();
        let mean = |errors: f64, rows: usize| match rows {
            0 => "-".to_owned(),
            _ => percent(errors / plan::number(rows as u64)),
        };
        vec![
            device.to_owned(),
            model.to_owned(),
            rows.to_string(),
            mean(errors, rows),
            if rows == 0 { "-".to_owned() } else { percent(largest) },
            apart.len().to_string(),
            mean(with, rows + apart.len()),
        ]
    });
    let head = [
        "machine",
        "model",
        "rows",
        "mean error",
        "largest error",
        "set apart",
        "mean error with them",
    ];
    table(&head, rows)
}

/// The type of device and the kind of model of a kind of step.
fn machine(kind: &str) -> [&str; 2] {
    let model = match kind {
        kind if kind.contains("frozen weights") => "dense, LoRA",
        kind if kind.contains("experts") => "experts",
        _ => "dense",
    };
    [kind.split(", ").next().unwrap_or_default(), model]
}

/// A table of coverage, by its place.
fn intervals(at: usize) -> String {
    let blocks = measured::coverage::sheet(&validated().sets).blocks;
    let mut tables = blocks.iter().filter_map(|block| match block {
        Block::Table { header, rows, .. } => Some((header, rows)),
        Block::Headline(_) | Block::Text(_) => None,
    });
    let (header, rows) = tables.nth(at).unwrap();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let cell = |cell: &String| prose(&cell.replace(" %", "\u{a0}%"));
    table(&header, rows.iter().map(|cells| cells.iter().map(cell).collect()))
}

/// How many steps of each source lie in the intervals that the others give.
fn coverage() -> String {
    intervals(0)
}

/// The steps that are set apart, with the reasons.
fn apart() -> String {
    intervals(1)
}

/// Published trainings beside the plans for them.
fn trainings() -> String {
    let hours = |hours: f64| question::format::grouped(hours);
    let rows = measured::trainings().unwrap();
    let rows = rows.iter().map(|one| {
        vec![
            one.training.clone(),
            one.organisation.clone(),
            hours(one.published_gpu_hours),
            hours(one.planned_gpu_hours),
            format!("{:.2}", one.times()),
            one.hours.clone(),
            prose(&one.source),
        ]
    });
    table(
        &[
            "training",
            "organisation",
            "published GPU-hours",
            "planned",
            "times as many",
            "hours",
            "source",
        ],
        rows,
    )
}

/// A row of a file in `results/`, by its columns.
type Cells = BTreeMap<String, String>;

fn results(file: &str) -> Vec<Cells> {
    let path = root().join("results").join(file);
    let mut reader = csv::Reader::from_path(&path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(cells: &Cells, column: &str) -> f64 {
    cells[column].parse().unwrap_or_else(|_| panic!("{column} is {}", cells[column]))
}

/// Quantities of published tables that are held against measurements: the table, the column and what that is. Errors
/// of gains are shares of the gain.
const PUBLISHED: [(&str, &str, &str); 17] = [
    ("throughput", "gain over 1F1B", "gain in throughput over 1F1B"),
    ("throughput", "gain, transfers overlapped", "the same, if transfers hold no stage up"),
    ("post-validation", "gain of post-validation", "gain of post-validation over an all-reduce"),
    ("vocabulary", "iteration ms", "step of a profiled run, output layer whole or in shards"),
    ("vocabulary", "scaling of the output layer %", "scaling of the output layer in shards"),
    ("vocabulary", "scaling of the input layer %", "scaling of the input layer in shards"),
    ("vocabulary", "memory GB", "peak memory, output layer whole or in shards"),
    ("vocabulary", "MFU over BASELINE", "gain in MFU of the output layer in shards"),
    ("vocabulary", "MFU over REDIS", "the same over layers that are dealt again"),
    ("offload", "activation GB", "activation memory with copies to the host"),
    ("offload", "MFU over po-h", "gain in throughput over PO-H"),
    ("offload", "slowdown %", "slowdown by copies to the host"),
    ("odc", "largest gain, %", "largest gain of on-demand communication"),
    ("odc", "largest idle share with collectives, %", "largest idle share with collectives"),
    ("encoder", "gain over balanced, %", "gain of an encoder in bubbles over balanced layers"),
    ("overlap", "published order ms", "one pair of passes from its segments, read in four ways"),
    ("overlap", "step without / with overlap", "gain in throughput by overlap"),
];

fn paper(table: &str) -> &str {
    match table {
        "vocabulary" => "Vocabulary Parallelism",
        "offload" => "PipeOffload",
        "odc" => "ODC, published maxima",
        "encoder" => "Optimus",
        "overlap" => "DeepSeek, Megatron-LM, Megatron-Bridge",
        _ => "Zero Bubble",
    }
}

fn reproduce(table: &str) -> &'static str {
    match table {
        "vocabulary" => "reproduce vocabulary",
        "offload" => "reproduce offload",
        "odc" => "reproduce odc",
        "encoder" => "reproduce encoder",
        "overlap" => "reproduce overlap",
        "post-validation" => "reproduce post-validation",
        _ => "reproduce throughput",
    }
}

fn published() -> Vec<Line> {
    let line = |&(table, column, what): &(&str, &str, &str)| {
        let mut line = Line {
            what: what.to_owned(),
            source: paper(table).to_owned(),
            command: reproduce(table),
            ..Line::default()
        };
        for cells in results(&format!("{table}.csv")) {
            let errors = match cells["evidence"].as_str() {
                "measured (in the fit)" => &mut line.fitted,
                "measured (outside the fit)" => &mut line.held_out,
                _ => continue,
            };
            if cells["column"] == column {
                errors.push(number(&cells, "deviation"));
            }
        }
        line
    };
    PUBLISHED.iter().map(line).collect()
}

/// The cells of published tables: how many are reproduced.
fn tables() -> String {
    let rows = reproduce::TABLES.iter().map(|one| {
        let cells = results(&format!("{}.csv", one.name));
        let count = |verdict: &str| cells.iter().filter(|cells| cells["match"] == verdict).count();
        let (matched, expected) = (count("yes"), count("expected miss"));
        vec![
            code(one.name),
            prose(one.help),
            format!("{matched} of {}", matched + expected + count("no")),
            expected.to_string(),
            count("not checked").to_string(),
        ]
    });
    table(&["table", "contents", "cells that match", "expected misses", "not checked"], rows)
}

/// The checked cells of all tables by kind of evidence.
fn evidence() -> String {
    let columns = ["evidence", "checked", "match", "expected misses", "mean deviation"];
    let rows = results("evidence.csv");
    let row = |cells: &Cells| columns.map(|column| prose(&cells[column])).to_vec();
    table(&columns, rows.iter().map(row))
}
