//! Traces of runs: steps predicted from known durations come out exactly, those of real runs
//! nearly, and a trace that makes no sense is refused with its reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{debubble, refused, run, stdout};

/// A row; start and duration in milliseconds.
#[derive(Clone)]
struct Row {
    dp_rank: i64,
    stage: i64,
    step: i64,
    optype: &'static str,
    start: f64,
    duration: f64,
    chunk: i64,
    microbatch: i64,
}

/// How the times are written.
#[derive(Clone, Copy)]
enum Times {
    Single,
    Double,
}

fn schema(times: Times) -> String {
    let time = match times {
        Times::Single => "float",
        Times::Double => "double",
    };
    format!(
        "message trace {{ required int64 dp_rank; required int64 stage; required int64 step; \
         required binary optype (UTF8); required {time} start_ts; required {time} duration; \
         required int64 mc; required int64 mb_id; }}"
    )
}

fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: &[T::T]) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, None, None).unwrap();
    column.close().unwrap();
}

fn parquet(rows: &[Row], times: Times) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&schema(times)).unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let whole = |value: fn(&Row) -> i64| rows.iter().map(value).collect::<Vec<i64>>();
    let seconds = |value: fn(&Row) -> f64| rows.iter().map(move |row| value(row) / 1e3);
    column::<Int64Type>(&mut group, &whole(|row| row.dp_rank));
    column::<Int64Type>(&mut group, &whole(|row| row.stage));
    column::<Int64Type>(&mut group, &whole(|row| row.step));
    let optypes: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(row.optype)).collect();
    column::<ByteArrayType>(&mut group, &optypes);
    for value in [|row: &Row| row.start, |row: &Row| row.duration] {
        match times {
            Times::Double => column::<DoubleType>(&mut group, &seconds(value).collect::<Vec<_>>()),
            #[allow(clippy::cast_possible_truncation)]
            Times::Single => {
                let single: Vec<f32> = seconds(value).map(|time| time as f32).collect();
                column::<FloatType>(&mut group, &single);
            }
        }
    }
    column::<Int64Type>(&mut group, &whole(|row| row.chunk));
    column::<Int64Type>(&mut group, &whole(|row| row.microbatch));
    group.close().unwrap();
    writer.into_inner().unwrap()
}

/// The operations of one rank: name, end, microbatch; each begins where the one before ended.
type Work = (&'static str, f64, i64);

fn rank(step: i64, dp_rank: i64, stage: i64, begin: f64, work: &[Work]) -> Vec<Row> {
    let row = |start: &mut f64, &(optype, end, microbatch): &Work| {
        let duration = end - *start;
        let chunk = microbatch.min(0);
        let row = Row { dp_rank, stage, step, optype, start: *start, duration, chunk, microbatch };
        *start = end;
        Some(row)
    };
    work.iter().scan(begin, row).collect()
}

/// Two pipelines of two stages, one microbatch; the second has a slower first stage. Transfers and
/// collectives wait for both sides.
fn small(step: i64) -> Vec<Row> {
    let first = |f: f64, b: f64| {
        vec![
            ("params-all-gather", 10.0, -1),
            ("forward-compute", f, 0),
            ("forward-send", f + 2.0, -1),
            ("backward-recv", f + 25.0, -1),
            ("backward-compute", b, 0),
            ("gc", b, -1),
            ("grads-reduce-scatter", 88.0, -1),
            ("optimizer-clip-main-grad", 90.0, -1),
            ("optimizer", 97.0, -1),
        ]
    };
    let second = |f: f64, grads: f64| {
        vec![
            ("params-all-gather", 9.0, -1),
            ("forward-recv", f + 2.0, -1),
            ("forward-compute", f + 12.0, 0),
            ("backward-compute", f + 23.0, 0),
            ("backward-send", f + 25.0, -1),
            ("grads-reduce-scatter", grads, -1),
            ("optimizer-clip-main-grad", 90.0, -1),
            ("optimizer", 96.0, -1),
        ]
    };
    [
        rank(step, 0, 0, 0.0, &first(20.0, 60.0)),
        rank(step, 0, 1, 0.0, &second(20.0, 61.0)),
        rank(step, 1, 0, 0.0, &first(30.0, 80.0)),
        rank(step, 1, 1, 0.0, &second(30.0, 61.0)),
    ]
    .concat()
}

fn replay(name: &str, content: &[u8], flags: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, content).unwrap();
    let file = file.to_str().unwrap();
    debubble(["replay", file].into_iter().chain(flags.split_whitespace()))
}

fn answer(name: &str, content: &[u8], flags: &str) -> Value {
    serde_json::from_str(&stdout(&replay(name, content, &format!("{flags} --json")))).unwrap()
}

fn of_rows(rows: &[Row], flags: &str) -> Value {
    answer("t.parquet", &parquet(rows, Times::Double), flags)
}

#[test]
fn transfers_and_collectives_wait_for_the_last_to_arrive() {
    let two_steps = [small(7), small(5)].concat();
    let answer = of_rows(&two_steps, "");
    let step =
        |step: u64| json!({"step": step, "measured_ns": 97_000_000, "predicted_ns": 97_000_000});
    assert_eq!(answer["steps"], json!([step(5), step(7)]));
    assert_eq!(answer["mean_abs_error"], 0.0);
    let single = self::answer("t.bin", &parquet(&two_steps, Times::Single), "");
    assert!(single["mean_abs_error"].as_f64().unwrap() < 1e-6);
}

#[test]
fn delays_that_nothing_explains_are_no_part_of_the_prediction() {
    let mut rows = small(0);
    for row in &mut rows {
        // All ranks hesitate 5 ms before the optimizer.
        if row.optype == "optimizer" {
            row.start += 5.0;
        }
    }
    let steps = |flags: &str| of_rows(&rows, flags)["steps"][0].clone();
    let step =
        |predicted: u64| json!({"step": 0, "measured_ns": 102_000_000, "predicted_ns": predicted});
    assert_eq!(steps(""), step(97_000_000));
    assert_eq!(steps("--launch-delays"), step(102_000_000));
}

#[test]
fn what_would_have_been() {
    let answer =
        of_rows(&small(0), "--what-if no-stragglers,balanced,free-links --schedule 1f1b,zb-h1");
    let names = answer["what_if"].as_array().unwrap().iter().map(|one| one["name"].clone());
    let names: Vec<Value> = names.collect();
    assert_eq!(names, ["no-stragglers", "balanced", "free-links", "1f1b", "zb-h1"]);
    let step = |at: usize| answer["what_if"][at]["step_ns"].as_u64().unwrap();
    // Of two values the median is the lower: stage 0 takes F 10 and BW 15 on both ranks, so that
    // B of stage 0 ends at 60 instead of 80.
    assert_eq!(step(0), 77_000_000);
    // Four transfers of 2 ms on the way.
    assert_eq!(step(2), 97_000_000 - 4_000_000);
    assert_eq!(step(3), step(0));
    assert_eq!(answer["stragglers"][0]["dp_rank"], 1);
    assert_eq!(answer["stragglers"][0]["saved_ns"], 20_000_000);
}

#[test]
fn exported_timelines_are_read_back_and_predicted_exactly() {
    let times = "--forward 1.001ms,1.5ms,1ms,0.7ms --backward-input 1.1ms --backward-weight 700us";
    for hop in ["0ns", "33us", "3ms"] {
        for name in ["gpipe", "1f1b", "1f1b-i", "zb-h1", "zb-h2", "zb-2p", "zb-v"] {
            let question =
                format!("--schedule {name} --stages 4 --microbatches 8 {times} --hop {hop}");
            let trace = stdout(&run(&format!("export --format chrome {question}")));
            let step = answer("t.json", trace.as_bytes(), "")["steps"][0].clone();
            assert_eq!(step["measured_ns"], step["predicted_ns"], "{name} {hop}");
            let simulated = stdout(&run(&format!("simulate --json {question}")));
            let simulated: Value = serde_json::from_str(&simulated).unwrap();
            assert_eq!(
                step["predicted_ns"], simulated["results"][0]["makespan_ns"],
                "{name} {hop}"
            );
        }
    }
}

#[test]
fn chunks_of_a_stage_are_told_apart() {
    let question = "--stages 2 --chunks 3 --microbatches 4 --forward 3ms --backward-input 3ms \
                    --backward-weight 1500us --hop 250us";
    let trace = stdout(&run(&format!("export --format chrome --schedule 1f1b-i {question}")));
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let row = |event: &Value| Row {
        dp_rank: 0,
        stage: event["tid"].as_i64().unwrap(),
        step: 1,
        optype: if event["cat"] == "F" { "forward-compute" } else { "backward-compute" },
        start: event["ts"].as_f64().unwrap() / 1e3,
        duration: event["dur"].as_f64().unwrap() / 1e3,
        chunk: event["args"]["chunk"].as_i64().unwrap() / 2,
        microbatch: event["args"]["microbatch"].as_i64().unwrap(),
    };
    let rows: Vec<Row> = events.filter(|event| event["ph"] == "X").map(row).collect();
    assert_eq!(rows.len(), 2 * 6 * 4);
    let step = of_rows(&rows, "")["steps"][0].clone();
    assert_eq!(step["predicted_ns"], step["measured_ns"]);
}

#[test]
fn another_schedule_for_a_simulated_run_is_what_the_simulation_says() {
    let question = "--stages 4 --microbatches 8 --forward 3ms --backward-input 3ms \
                    --backward-weight 2ms --hop 1ms";
    let trace = stdout(&run(&format!("export --format chrome --schedule 1f1b {question}")));
    let asked = "--schedule zb-h1,zb-2p --backward-split 0.6";
    let answer = answer("t.json", trace.as_bytes(), asked);
    let simulated = stdout(&run(&format!("simulate --json --schedule zb-h1,zb-2p {question}")));
    let simulated: Value = serde_json::from_str(&simulated).unwrap();
    for at in [0, 1] {
        assert_eq!(answer["what_if"][at]["step_ns"], simulated["results"][at]["makespan_ns"]);
    }
}

#[test]
fn trace_events_of_other_tools() {
    let event = |kind: &str, stage: u32, ts: f64, dur: f64| {
        let args =
            json!({"kind": kind, "stage": stage, "microbatch": 0, "chunk": stage, "step": 3});
        json!({"ph": "X", "name": "x", "pid": 1, "tid": "main", "ts": ts, "dur": dur, "args": args})
    };
    let mut events = vec![
        event("F", 0, 0.0, 5.5),
        event("F", 1, 6.0, 5.0),
        event("backward-compute", 1, 11.0, 7.0),
        event("BW", 0, 18.5, 7.25),
        json!({"ph": "X", "name": "cudaLaunchKernel", "ts": 1, "dur": 2, "tid": 3, "args": {}}),
        json!({"ph": "i", "name": "mark", "ts": 1}),
    ];
    let list = serde_json::to_vec(&events).unwrap();
    let output = replay("t.json", &list, "--json");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 events are no operations"));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let step = json!({"step": 3, "measured_ns": 25_750, "predicted_ns": 25_750});
    assert_eq!(answer["steps"], json!([step]));
    events[3]["ts"] = json!(-1.0);
    let object = serde_json::to_vec(&json!({"traceEvents": events})).unwrap();
    refused(&replay("t.json", &object, ""), &["event 3: ts is -1, which is negative"]);
}

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
    refused(&cut(0), &["it is no trace: neither a Parquet file nor trace events"]);
    refused(&replay("t.parquet", b"step,stage", ""), &["it is no trace"]);
    refused(&replay("t.json", b"{\"traceEvents\": [{", ""), &["cannot be read as trace events"]);
    refused(&replay("t.json", b"{\"events\": []}", ""), &["traceEvents"]);
    refused(&replay("t.json", b"[]", ""), &["it has no operations of a pipeline"]);
    refused(&replay("t.json", b"[{\"ph\": \"X\", \"name\": \"k\"}]", ""), &["1 events are"]);
    refused(&replay("t.parquet", &parquet(&[], Times::Double), ""), &["no operations"]);
    refused(&run("replay missing.parquet"), &["cannot read missing.parquet"]);
    refused(&run("replay /"), &["it is a folder"]);
}

/// Whatever one byte of the description at the end of a file says, there is an answer or an error;
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
    let message = format!("it is no trace: {} bytes that say they are 300000 rows", content.len());
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

/// The traces of two production runs, where they are at hand.
#[test]
fn real_runs_within_two_percent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/measured");
    for name in ["trace-ST.parquet", "trace-AR.parquet"] {
        let file: PathBuf = folder.join(name);
        if !file.exists() {
            println!("skipped: there is no {}", file.display());
            continue;
        }
        let output = debubble(["replay", "--json", file.to_str().unwrap()]);
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let error = answer["mean_abs_error"].as_f64().unwrap();
        assert!(error <= 0.02, "{name}: {error}");
        // Operations that start as soon as they can end no later than they did.
        let steps = answer["steps"].as_array().unwrap();
        assert!(
            steps.iter().all(|step| step["predicted_ns"].as_u64() <= step["measured_ns"].as_u64())
        );
    }
}
