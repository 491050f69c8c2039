//! Rows of a sweep: each says what `simulate --json` says of the same question, whatever its keys.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::{refused, stdout};

/// The keys that every question of this file has.
const SHARED: &str = "stages = 4\nforward = \"10ms\"\nbackward-input = \"11ms\"\n\
                      backward-weight = \"7ms\"\n";
/// The keys that clusters need.
const MODEL: &str = "hidden = 4096\nheads = 32\nseq = 1024\nlayers-per-stage = 4\n\
                     microbatch-size = 1\n";

fn in_folder(folder: &Path, words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.current_dir(folder).args(words).output().unwrap()
}

/// By path in the JSON, where a column says the same: its name has `_` for every step.
fn look_up<'a>(json: &'a Value, column: &str) -> &'a Value {
    let paths = [
        ("noise_free_", "/noise_free/"),
        ("step_ns", "/hardware/step_ns"),
        ("steps", "/hardware/steps"),
        ("out_of_memory_device", "/hardware/out_of_memory/device"),
        ("out_of_memory_at_ns", "/hardware/out_of_memory/overflow/at_ns"),
        ("out_of_memory_by_bytes", "/hardware/out_of_memory/overflow/by_bytes"),
        ("replicas", "/monte_carlo/replicas"),
    ];
    let known =
        paths.iter().find_map(|(from, to)| Some(format!("{to}{}", column.strip_prefix(from)?)));
    let measures = ["span_ns_", "makespan_ns_", "bubble_rate_makespan_", "bubble_rate_"];
    let statistics = ["mean", "stddev", "min", "p50", "p95", "p99", "max"];
    let distribution = measures.iter().find_map(|measure| {
        let statistic = column.strip_prefix(measure)?;
        let is_one = statistics.iter().any(|one| statistic.starts_with(one));
        let path = match statistic.strip_suffix("_low").or(statistic.strip_suffix("_high")) {
            Some(ends) => format!("{ends}/{}", u8::from(statistic.ends_with("_high"))),
            None => statistic.to_owned(),
        };
        is_one.then(|| format!("/monte_carlo/{}/{path}", measure.trim_end_matches('_')))
    });
    let path = known.or(distribution).unwrap_or_else(|| format!("/{column}"));
    json.pointer(&path).unwrap_or(&Value::Null)
}

/// The value in the JSON, where the column sums up more than one of its values.
fn summed_up(json: &Value, column: &str) -> Option<Value> {
    let largest = |values: &Value| values.as_array()?.iter().filter_map(Value::as_u64).max();
    let by = |all: &Value, key: &str| -> Option<Value> {
        let all = all.as_array()?.iter();
        let number = |one: &Value| one[key].as_f64().unwrap_or(0.0);
        all.rev().max_by(|a, b| number(a).total_cmp(&number(b))).cloned()
    };
    let fullest = by(&json["hardware"]["memory"], "peak_bytes");
    let busiest = by(&json["hardware"]["wires"], "used");
    Some(match column {
        "peak_activation_bytes" => largest(&json[column]).into(),
        "peak_in_flight" => largest(&json[column]).into(),
        "busiest_wire" => busiest?["name"].clone(),
        "busiest_wire_used" => busiest?["used"].clone(),
        "peak_device" => fullest?["device"].clone(),
        "peak_device_bytes" => fullest?["peak_bytes"].clone(),
        "peak_device_at_ns" => fullest?["at_ns"].clone(),
        _ => return None,
    })
}

fn is_same(field: &str, json: &Value) -> bool {
    match json {
        Value::Null => field.is_empty(),
        Value::String(text) => field == text,
        Value::Bool(truth) => field == truth.to_string(),
        Value::Number(number) if number.is_u64() => field.parse().ok() == number.as_u64(),
        // The reader of JSON may be off by the last bit.
        number => field.parse::<f64>().is_ok_and(|field| {
            let number = number.as_f64().unwrap();
            (field - number).abs() <= 1e-14 * number.abs()
        }),
    }
}

/// Sweeps over `axis` of `values`, and asks each question of it again. Returns how many columns
/// differ between rows.
fn check(keys: &str, axis: &str, values: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shared: Vec<&str> =
        SHARED.lines().filter(|line| !line.starts_with(&format!("{axis} ="))).collect();
    let shared = format!("{}\n", shared.join("\n"));
    let sweep = format!("{shared}{keys}[sweep]\n{axis} = [{}]\n", values.join(", "));
    fs::write(at("grid.toml"), sweep).unwrap();
    stdout(&in_folder(folder.path(), &["sweep", "grid.toml", "--out", "grid.csv"]));
    let mut reader = csv::Reader::from_path(at("grid.csv")).unwrap();
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), values.len(), "{axis}");
    for (row, value) in rows.iter().zip(values) {
        fs::write(at("one.toml"), format!("{shared}{keys}{axis} = {value}\n")).unwrap();
        let json = stdout(&in_folder(folder.path(), &["simulate", "one.toml", "--json"]));
        let json: Value = serde_json::from_str(&json).unwrap();
        let json = &json["results"][0];
        let own = ["index", "setting", "chunks_asked", "error", "peak_stage", "peak_microbatches"];
        for (name, field) in names.iter().zip(row) {
            if own.contains(&name) || (name == axis && json.get(name).is_none()) {
                continue;
            }
            let said = summed_up(json, name).unwrap_or_else(|| look_up(json, name).clone());
            assert!(is_same(field, &said), "{axis} = {value}: {name} is {field}, not {said}");
        }
        assert!(row[names.len() - 1].is_empty());
        // And nothing that simulate says is left out.
        for part in ["noise_free", "monte_carlo", "hardware"] {
            let column = ["noise_free_span_ns", "span_ns_p99", "step_ns"][[
                "noise_free",
                "monte_carlo",
                "hardware",
            ]
            .iter()
            .position(|p| *p == part)
            .unwrap()];
            assert_eq!(json.get(part).is_some(), names.iter().any(|name| name == column), "{part}");
        }
    }
    let differs = |column: &usize| rows.iter().any(|row| row[*column] != rows[0][*column]);
    let answers = (2..names.len()).filter(|column| names[*column] != *axis);
    answers.filter(differs).count()
}

const ONE: &str = "schedule = \"zb-h1\"\n";
const EIGHT: &str = "microbatches = 8\n";

#[test]
fn axes_of_the_pipeline() {
    for (axis, values) in [
        ("forward", &["\"10ms\"", "[\"10ms\", \"9ms\", \"9ms\", \"14ms\"]"][..]),
        ("backward-input", &["\"10ms\"", "\"13ms\""]),
        ("backward-weight", &["\"10ms\"", "\"3ms\""]),
        ("hop", &["\"0us\"", "\"900us\""]),
        ("memory-limit", &["\"1p\"", "\"2p\""]),
        ("schedule", &["\"gpipe\"", "\"1f1b\"", "\"zb-v\""]),
        ("activation", &["\"1GiB\"", "\"2GiB\""]),
    ] {
        let schedule = if axis == "schedule" { "" } else { "schedule = \"zb-heuristic\"\n" };
        assert!(check(&format!("{schedule}{EIGHT}"), axis, values) > 0, "{axis}");
    }
    assert!(check(ONE, "microbatches", &["8", "12"]) > 0);
    let interleaved = format!("schedule = \"1f1b-i\"\n{EIGHT}");
    assert!(check(&interleaved, "chunks", &["2", "3"]) > 0);
    let model = format!("{ONE}{EIGHT}heads = 32\nseq = 1024\n");
    assert!(check(&model, "hidden", &["4096", "8192"]) > 0);
}

#[test]
fn axes_of_noise() {
    let noisy = format!("{ONE}{EIGHT}hop = \"500us\"\njitter = \"pass=lognormal:0.1\"\n");
    let calm = format!("{ONE}{EIGHT}hop = \"500us\"\n");
    assert!(
        check(&calm, "slowdown", &["[\"stage:1=1.5\"]", "[\"link:0-1=9\", \"stage:2=2\"]"]) > 0
    );
    assert!(check(&calm, "jitter", &["\"pass=normal:0.1\"", "\"pass=pareto:2.5\""]) > 0);
    assert!(check(&calm, "stall", &["\"0.1:50ms\"", "\"0.2:10ms\""]) > 0);
    assert!(check(&noisy, "seed", &["1", "2", "3"]) > 0);
    assert!(check(&noisy, "replicas", &["3", "100", "2000"]) > 20);
    let many = format!("{noisy}replicas = 50\n");
    assert!(check(&many, "seed", &["1", "2"]) > 20);
    assert!(check(&many, "slowdown", &["[\"stage:1=1.5\"]", "[\"stage:1=2\"]"]) > 20);
}

#[test]
fn axes_of_hardware() {
    let on = |more: &str| format!("{ONE}{EIGHT}{MODEL}{more}");
    let cluster = "cluster = \"a100-roce\"\nseating = \"across-nodes\"\n";
    assert!(check(&on(""), "cluster", &["\"dgx-a100\"", "\"a100-roce\"", "\"a100-pcie\""]) > 0);
    assert!(
        check(&on("cluster = \"a100-roce\"\n"), "seating", &["\"contiguous\"", "\"0,0,1,1\""]) > 0
    );
    let large = &on(&format!("{cluster}message = \"4GB\"\n"));
    assert!(check(large, "sharing", &["\"fair\"", "\"queue\""]) > 0);
    assert!(check(&on(cluster), "message", &["\"8MiB\"", "\"64MiB\""]) > 0);
    assert!(check(large, "protocol", &["\"eager\"", "\"rendezvous:1\""]) > 0);
    assert!(check(large, "communication", &["\"overlapped\"", "\"blocking\""]) > 0);
    assert!(check(&on(cluster), "offload", &["0", "0.5"]) > 0);
    let steps = on("optimizer = \"20ms\"\nexchange = \"5ms\"\nsteps = 3\n");
    assert!(check(&steps, "boundary", &["\"barrier\"", "\"asynchronous\""]) > 0);
    assert!(check(&steps, "gradient-reduction", &["\"9ms\"", "\"20ms:overlapped\""]) > 0);
    assert!(check(&on("jitter = \"pass=lognormal:0.1\"\n"), "steps", &["1", "3"]) > 0);
    let full = on("resident = \"9GiB\"\n");
    assert!(check(&full, "device-memory", &["\"80GiB\"", "\"10GiB\""]) > 0);
    assert!(check(&on("device-memory = \"80GiB\"\n"), "vocabulary", &["51200", "256000"]) > 0);
    let both = on("steps = 2\njitter = \"pass=lognormal:0.1\"\nreplicas = 20\n");
    assert!(check(&both, "exchange", &["\"0ms\"", "\"5ms\""]) > 0);
}

#[test]
fn questions_apart_leave_the_columns_of_others_empty() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[[setting]]\nname = \"calm\"\n[[setting]]\nname = \"noisy\"\nseed = 1\n\
                    jitter = \"pass=normal:0.1\"\nreplicas = 10\n[[setting]]\nname = \"steps\"\n\
                    steps = 2\n";
    let text = format!("{SHARED}{ONE}{settings}[sweep]\nmicrobatches = [4, 8]\n");
    fs::write(folder.path().join("grid.toml"), text).unwrap();
    stdout(&in_folder(folder.path(), &["sweep", "grid.toml", "--out", "grid.csv"]));
    let mut reader = csv::Reader::from_path(folder.path().join("grid.csv")).unwrap();
    let names = reader.headers().unwrap().clone();
    let column = |name: &str| names.iter().position(|one| one == name).unwrap();
    let groups = ["noise_free_span_ns", "span_ns_p95", "step_ns"].map(column);
    let has = [[false, false, false], [true, true, false], [false, false, true]];
    for (index, row) in reader.records().map(Result::unwrap).enumerate() {
        assert_eq!(groups.map(|at| !row[at].is_empty()), has[index / 2], "{row:?}");
    }
}

#[test]
fn what_has_no_influence_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{SHARED}{ONE}{EIGHT}[sweep]\nseed = [1, 2]\nchunks = [1, 2]\n");
    fs::write(folder.path().join("grid.toml"), text).unwrap();
    let output = in_folder(folder.path(), &["sweep", "grid.toml", "--out", "grid.csv"]);
    stdout(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("the seed is ignored") && said.contains("chunks = 2 is ignored"),
        "{said}"
    );
}

#[test]
fn a_sweep_without_an_answer_ends_before_it_begins() {
    let cases = [
        ("stages = [20000]", "microbatches = 20000\n", "no question of the sweep has an answer"),
        (
            "stages = [4]",
            "microbatches = 8\ncluster = \"four.toml\"\nseating = \"0,1,2,9\"\n",
            "no question of the sweep",
        ),
        (
            "memory-limit = [\"0.01p\", \"0.02p\"]",
            "stages = 4\nmicrobatches = 8\n",
            "one microbatch alone",
        ),
    ];
    for (axis, keys, part) in cases {
        let folder = tempfile::tempdir().unwrap();
        let cluster = "nodes = 1\ndevices-per-node = 4\nintra = { bandwidth = \"1GB/s\" }\n\
                       inter = { nics = 1, bandwidth = \"1GB/s\" }\n";
        fs::write(folder.path().join("four.toml"), cluster).unwrap();
        let times = SHARED.replace("stages = 4\n", "");
        let text = format!("{times}{ONE}{MODEL}{keys}[sweep]\n{axis}\n");
        fs::write(folder.path().join("grid.toml"), text).unwrap();
        let output = in_folder(folder.path(), &["sweep", "grid.toml", "--out", "grid.csv"]);
        refused(&output, &[part]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{axis}");
    }
}
