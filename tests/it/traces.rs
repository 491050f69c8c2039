//! Traces of runs: steps predicted from known durations come out exactly, those of real runs
//! nearly, and a trace that makes no sense is refused with its reason.

mod refused;

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
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 events are not operations"));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let step = json!({"step": 3, "measured_ns": 25_750, "predicted_ns": 25_750});
    assert_eq!(answer["steps"], json!([step]));
    events[3]["ts"] = json!(-1.0);
    let object = serde_json::to_vec(&json!({"traceEvents": events})).unwrap();
    refused(&replay("t.json", &object, ""), &["event 3: ts is -1, which is negative"]);
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
