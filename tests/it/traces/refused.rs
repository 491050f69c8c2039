//! Traces and questions about them that make no sense are refused with their reason.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use super::{Row, Times, parquet, replay, schema, small};
use crate::cli::{refused, run};

/// The small run after `change`, refused for the reasons `parts`.
fn refused_after(change: impl Fn(&mut Vec<Row>), parts: &[&str]) {
    let mut rows = small(23);
    change(&mut rows);
    refused(&replay("t.parquet", &parquet(&rows, Times::Double), ""), parts);
}

#[test]
fn values_that_make_no_sense() {
    refused_after(|rows| rows[3].duration = f64::NAN, &["row 3: duration is NaN", "not a number"]);
    refused_after(|rows| rows[3].duration = -1.0, &["row 3: duration is -0.001", "negative"]);
    refused_after(|rows| rows[3].duration = 1e300, &["row 3: duration is", "too large"]);
    refused_after(|rows| rows[3].start = f64::INFINITY, &["row 3: start_ts is inf", "too large"]);
    refused_after(|rows| rows[0].start = -5.0, &["row 0: start_ts is -0.005", "negative"]);
    refused_after(|rows| rows[0].stage = -1, &["row 0: stage is -1", "negative"]);
    refused_after(|rows| rows[0].stage = 1 << 40, &["stage is 1099511627776", "too large"]);
    refused_after(|rows| rows[1].microbatch = 1 << 40, &["row 1: mb_id is", "too large"]);
    refused_after(|rows| rows[1].microbatch = 4_000_000_000, &["passes", "at most 100000000"]);
    refused_after(|rows| rows[1].optype = "forwards", &["row 1: unknown operation `forwards`"]);
    refused_after(|rows| rows[1].step = -3, &["row 1: step is -3"]);
}

#[test]
fn steps_that_are_not_whole() {
    let is = |row: &Row, dp_rank: i64, stage: i64, optype: &str| {
        row.dp_rank == dp_rank && row.stage == stage && row.optype == optype
    };
    let without = |dp_rank, stage, optype: &'static str| {
        move |rows: &mut Vec<Row>| rows.retain(|row| !is(row, dp_rank, stage, optype))
    };
    refused_after(
        without(1, 1, "backward-compute"),
        &["step 23, dp rank 1: BW1.0 is missing from stage 1"],
    );
    refused_after(
        without(0, 0, "forward-compute"),
        &["step 23, dp rank 0: F0.0 is missing from stage 0"],
    );
    refused_after(
        without(1, 1, "backward-send"),
        &["step 23, dp rank 1, stage 0: number 0 of its backward-recv (from 0) has no other side"],
    );
    refused_after(
        |rows| rows.extend(small(24).into_iter().filter(|row| row.dp_rank == 0)),
        &["step 24 has no operations of dp rank 1"],
    );
    refused_after(
        |rows| rows.retain(|row| row.stage == 1),
        &["dp rank 0: F0.0 is missing from stage 0"],
    );
    refused_after(
        |rows| {
            let again = Row { start: 200.0, ..rows[1].clone() };
            rows.push(again);
        },
        &["step 23, dp rank 0: F0.0 on stage 0 does work that was already done"],
    );
}

#[test]
fn times_that_go_backwards() {
    refused_after(
        |rows| rows[4].start = 11.0,
        &["step 23, dp rank 0, stage 0", "time goes backwards", "BW0.0", "starts before F0.0"],
    );
    refused_after(|rows| rows[4].start = 3.0, &["step 23, dp rank 0", "time goes backwards"]);
    refused_after(
        |rows| rows[11].start = -0.0,
        &["dp rank 0", "time goes backwards: F1.0 is over before F0.0, which it needs, starts"],
    );
}

#[test]
fn files_that_are_no_traces() {
    let whole = parquet(&small(0), Times::Double);
    let cut = |length: usize| replay("t.parquet", &whole[..length], "");
    for length in [5, 100, whole.len() / 2, whole.len() - 1] {
        refused(&cut(length), &["t.parquet", "cannot be read as Parquet"]);
    }
    refused(&cut(0), &["it is not a trace: neither a Parquet file nor trace events"]);
    refused(&replay("t.parquet", b"step,stage", ""), &["it is not a trace"]);
    refused(&replay("t.json", b"{\"traceEvents\": [{", ""), &["cannot be read as trace events"]);
    refused(&replay("t.json", b"{\"events\": []}", ""), &["traceEvents"]);
    refused(&replay("t.json", b"[]", ""), &["it has no operations of a pipeline"]);
    refused(&replay("t.json", b"[{\"ph\": \"X\", \"name\": \"k\"}]", ""), &["1 events are"]);
    refused(&replay("t.parquet", &parquet(&[], Times::Double), ""), &["no operations"]);
    refused(&run("replay missing.parquet"), &["cannot read missing.parquet"]);
    refused(&run("replay /"), &["it is a folder"]);
}

/// With any value of one byte of the description at the end of a file says, there is an answer or an error;
/// also where it puts a column before the file.
#[test]
fn damaged_files_do_no_harm() {
    let whole = parquet(&small(0), Times::Double);
    let end = whole.len() - 8;
    let length = u32::from_le_bytes(*whole[end..].first_chunk().unwrap());
    let description = end - usize::try_from(length).unwrap()..whole.len();
    let damages = description.flat_map(|at| [0x01, 0x10, 0x40, 0x80, 0xff].map(|bits| (at, bits)));
    let message = |(at, bits): (usize, u8)| {
        let mut content = whole.clone();
        content[at] ^= bits;
        let run = traces::read(content).and_then(traces::Run::new);
        run.err().map(|error| error.to_string())
    };
    let messages: Vec<String> = damages.filter_map(message).collect();
    assert!(messages.iter().any(|text| text.contains("of a row group begins at byte -")));
}

/// A dictionary that holds fewer values than its page promises: the library would read behind its
/// end and break down.
#[test]
fn a_dictionary_that_promises_too_much() {
    let whole = parquet(&small(0), Times::Double);
    // Of the header of a dictionary page: its struct is field 7, behind field 3, with 2 values
    // (zigzag), plain.
    let header = [0x4c, 0x15, 0x04, 0x15, 0x00];
    let at = whole.windows(header.len()).position(|window| window == header).unwrap() + 2;
    for promised in [9u8, 18, 63] {
        let mut content = whole.clone();
        content[at] = 2 * promised;
        let message = format!("does not hold the {promised} values that it promises");
        refused(&replay("t.parquet", &content, ""), &["t.parquet", "column dp_rank", &message]);
    }
    let settings = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    assert!(!settings.unwrap().contains("panic ="), "a panic has to be an error in every build");
}

/// One value millions of times is a few bytes of Parquet.
fn repeated(rows: usize) -> Vec<u8> {
    let row = Row { optype: "gc", ..small(0)[0].clone() };
    parquet(&vec![row; rows], Times::Double)
}

#[test]
fn a_short_file_of_many_rows_is_refused_before_it_takes_memory() {
    let content = repeated(300_000);
    assert!(content.len() < 20_000, "{}", content.len());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("t.parquet");
    fs::write(&file, &content).unwrap();
    // 100 MiB of address space.
    let limited = "ulimit -v 102400; exec \"$0\" replay \"$1\"";
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", limited, env!("CARGO_BIN_EXE_debubble")]).arg(file).output();
    let message =
        format!("it is not a trace: {} bytes that say they are 300000 rows", content.len());
    refused(&output.unwrap(), &[&message]);
}

/// The memory that is free is known before the operations are read.
#[test]
fn more_operations_than_there_is_memory_for() {
    let enough = 2_000 * traces::BYTES_PER_OPERATION;
    let event = r#"{"ph":"X","name":"F0.0","ts":1,"dur":2,"tid":0}"#;
    let events = format!("[{}]", vec![event; 2_000].join(","));
    for content in [repeated(2_000), events.into_bytes()] {
        let within = |memory| traces::read_within(content.clone(), memory);
        assert_eq!(within(enough).unwrap().operations.len(), 2_000);
        let error = within(enough - 1).unwrap_err().to_string();
        assert!(error.contains("2000 operations: the memory that is free"), "{error}");
    }
}

#[test]
fn compression_that_is_not_read_is_named() {
    let mut content = parquet(&small(0), Times::Double);
    let length = content.len();
    // Snappy is 1, Gzip 2: field 4 of the description of each column, behind its path.
    let codec = content.windows(3).rposition(|window| window == [0x15, 0x02, 0x16]).unwrap();
    content[codec + 1] = 0x04;
    assert_eq!(content.len(), length);
    refused(&replay("t.parquet", &content, ""), &["is compressed with", "write it with Snappy"]);
}

/// Decoders of text that is written in differences take what a header claims: 2 KB took gigabytes.
#[test]
fn text_in_differences_is_refused_before_it_is_decoded() {
    let content = fs::read("tests/fuzz/trace-parquet/broke/suffixes.parquet").unwrap();
    refused(
        &replay("t.parquet", &content, ""),
        &["DELTA_BYTE_ARRAY", "write it with a dictionary"],
    );
}

#[test]
fn foreign_columns_are_named() {
    let foreign = |text: &str| {
        let schema = Arc::new(parse_message_type(text).unwrap());
        SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap().into_inner().unwrap()
    };
    let other = foreign("message t { required int64 step; required float loss; }");
    refused(
        &replay("t.parquet", &other, ""),
        &["no column dp_rank, stage, optype, start_ts, duration, mc, mb_id", "are step, loss"],
    );
    let whole =
        schema(Times::Double).replace("required double start_ts", "required int64 start_ts");
    refused(&replay("t.parquet", &foreign(&whole), ""), &["start_ts holds INT64, not decimal"]);
}

#[test]
fn questions_that_make_no_sense() {
    let content = parquet(&small(0), Times::Double);
    let asked = |flags: &str| replay("t.parquet", &content, flags);
    refused(&asked("--schedule zbh1"), &["did you mean `zb-h1`"]);
    refused(&asked("--schedule zb-h1 --backward-split 1.5"), &["--backward-split is 1.5"]);
    refused(&asked("--schedule zb-h1 --backward-split NaN"), &["--backward-split is NaN"]);
    refused(&asked("--what-if magic"), &["magic", "no-stragglers"]);
    refused(&asked("--schedule zb-h1 --hidden 4096"), &["--seq"]);
    refused(&asked("--schedule zb-h1 --hidden 0 --seq 1"), &["--hidden is 0"]);
    let twice = "--schedule zb-h1 --hidden 1 --seq 1 --backward-split 0.6";
    refused(&asked(twice), &["--backward-split", "exclude each other"]);
    let unused = asked("--hidden 1 --seq 1 --chunks 2 --memory-limit 1p");
    let said = String::from_utf8_lossy(&unused.stderr);
    for flag in ["--hidden", "--seq", "--chunks", "--memory-limit"] {
        assert!(said.contains(&format!("no --schedule is asked for: {flag} is ignored")), "{said}");
    }
}
