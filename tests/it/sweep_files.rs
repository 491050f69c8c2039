//! Files of a sweep: Parquet says what CSV says, with types, and one process at a time writes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;

use crate::cli::{debubble, refused, stdout};

const GRID: &str = r#"
schedule = ["1f1b", "zb-heuristic"]
stages = 4
forward = "10ms"
backward-input = "11ms"
backward-weight = "7ms"
jitter = "pass=lognormal:0.05"
replicas = 6

[sweep]
microbatches = [4, 8]
memory-limit = ["0.125p", "1p", "2.5p"]
offload = [0]
seed = { from = 1, to = 3, step = 1 }
hop = ["0us", "500us"]
"#;

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("grid.toml"), text).unwrap();
    folder
}

fn command(folder: &Path, out: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.current_dir(folder).args(["sweep", "grid.toml", "--out", out]).args(more);
    command
}

fn sweep(folder: &Path, out: &str, more: &[&str]) -> Output {
    command(folder, out, more).output().unwrap()
}

fn text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Bool(truth) => truth.to_string(),
        Field::Str(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parquet_says_what_csv_says() {
    let folder = folder(GRID);
    stdout(&sweep(folder.path(), "grid.csv", &[]));
    stdout(&sweep(folder.path(), "grid.parquet", &[]));
    let content = fs::read(folder.path().join("grid.parquet")).unwrap();
    let file = SerializedFileReader::new(Bytes::from(content)).unwrap();
    let mut csv = csv::Reader::from_path(folder.path().join("grid.csv")).unwrap();
    let schema = file.metadata().file_metadata().schema_descr();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, csv.headers().unwrap().iter().collect::<Vec<_>>());
    let kind = |name: &str| {
        let column = schema.columns().iter().find(|column| column.name() == name).unwrap();
        (column.physical_type(), column.logical_type_ref().cloned())
    };
    for (name, physical) in [
        ("index", Type::INT64),
        ("span_ns", Type::INT64),
        ("seed", Type::INT64),
        ("offload", Type::INT64),
        ("bubble_rate", Type::DOUBLE),
        ("span_ns_mean", Type::DOUBLE),
        ("span_ns_p95", Type::INT64),
        ("fits", Type::BOOLEAN),
    ] {
        assert_eq!(kind(name), (physical, None), "{name}");
    }
    for name in ["setting", "schedule", "hop", "memory-limit", "error"] {
        assert_eq!(kind(name), (Type::BYTE_ARRAY, Some(LogicalType::String)), "{name}");
    }
    assert_eq!(file.metadata().row_group(0).column(0).compression(), Compression::SNAPPY);
    let mut rows = 0;
    for (row, line) in file.get_row_iter(None).unwrap().zip(csv.records()) {
        let row = row.unwrap();
        let fields: Vec<String> = row.get_column_iter().map(|(_, field)| text(field)).collect();
        assert_eq!(fields, line.unwrap().iter().collect::<Vec<_>>());
        rows += 1;
    }
    assert_eq!((rows, file.metadata().file_metadata().num_rows()), (72, 72));
}

#[test]
fn shards_become_the_same_parquet() {
    let folder = folder(GRID);
    let at = |name: &str| folder.path().join(name);
    stdout(&sweep(folder.path(), "whole.parquet", &[]));
    let shard = sweep(folder.path(), "1.parquet", &["--shard", "1/3"]);
    refused(&shard, &["a shard is CSV", "--merge"]);
    for number in 1..=3 {
        stdout(&sweep(
            folder.path(),
            &format!("{number}.csv"),
            &["--shard", &format!("{number}/3")],
        ));
    }
    let words = ["sweep".into(), "--out".into(), at("merged.parquet").into(), "--merge".into()];
    let shards = ["2.csv", "3.csv", "1.csv"].map(|name| at(name).into_os_string());
    stdout(&debubble(words.into_iter().chain(shards)));
    assert_eq!(fs::read(at("whole.parquet")).unwrap(), fs::read(at("merged.parquet")).unwrap());
    for threads in ["1", "2"] {
        let mut one = command(folder.path(), "again.parquet", &[]);
        stdout(&one.env("RAYON_NUM_THREADS", threads).output().unwrap());
        assert_eq!(fs::read(at("whole.parquet")).unwrap(), fs::read(at("again.parquet")).unwrap());
    }
}

#[test]
fn one_process_at_a_time_writes_a_file() {
    let folder = folder(&GRID.replace("to = 3", "to = 900000"));
    let mut first = command(folder.path(), "out.csv", &[]).stderr(Stdio::null()).spawn().unwrap();
    let journal = folder.path().join("out.csv.partial");
    for _ in 0..500 {
        if fs::metadata(&journal).is_ok_and(|metadata| metadata.len() > 1000) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let who = format!("is being written by process {}", first.id());
    let second = sweep(folder.path(), "out.csv", &[]);
    let merge = ["sweep", "--out", "out.csv", "--merge", "out.csv"];
    stdout(&sweep(folder.path(), "other.csv", &["--shard", "1/90000"]));
    let merged = Command::new(env!("CARGO_BIN_EXE_debubble"))
        .current_dir(folder.path())
        .args([&merge[..4], &["other.csv"]].concat())
        .output()
        .unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    refused(&second, &["out.csv.partial", &who, "choose another --out"]);
    // A merge of one part of many is refused for what is missing, before it writes.
    refused(&merged, &["missing: shard"]);
    // The lock ended with the process: what it did is taken up.
    let mut third = command(folder.path(), "out.csv", &[]);
    let mut third = third.stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    third.kill().unwrap();
    let said = third.wait_with_output().unwrap().stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(!said.contains("is being written"), "{said}");
}

#[test]
fn a_picture_of_what_memory_buys() {
    let settings = "[[setting]]\nname = \"a\"\n[[setting]]\nname = \"b\"\nhop = \"1ms\"\n";
    let axes = "[sweep]\nmicrobatches = [8, 16]\nmemory-limit = [\"1p\", \"1.5p\", \"2p\"]\n";
    let question = GRID.split("jitter").next().unwrap();
    let folder = folder(&format!("{question}{settings}{axes}"));
    let picture = ["--plot-pareto", "pareto.svg", "--plot", "lines.svg"];
    stdout(&sweep(folder.path(), "grid.parquet", &picture));
    let svg = fs::read_to_string(folder.path().join("pareto.svg")).unwrap();
    assert!(svg.contains("peak memory, in p x M_B") && svg.contains("Pareto front"));
    assert!(folder.path().join("lines.svg").exists());
    stdout(&sweep(folder.path(), "grid.csv", &["--activation", "2GiB", "--plot-pareto", "b.svg"]));
    let svg = fs::read_to_string(folder.path().join("b.svg")).unwrap();
    assert!(svg.contains("in GiB"));
}
