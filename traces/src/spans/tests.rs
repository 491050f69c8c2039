use serde_json::{Value, json};

use pipeline::{Kind, Nanos};

use crate::{Form, OpType, Operation, Reader, Run, Times, Trace, TraceError};

/// A run of `ranks` ranks whose pipelines have `stages`.
#[derive(Clone, Copy)]
struct Made {
    ranks: u32,
    stages: u32,
    replicas: u32,
}

const TWO: Made = Made { ranks: 2, stages: 2, replicas: 1 };

fn pairs(all: &[(&str, Value)]) -> Value {
    let pair = |(key, value): &(&str, Value)| match value {
        Value::String(_) => json!({"key": key, "value": {"stringValue": value}}),
        _ => json!({"key": key, "value": {"intValue": value.to_string()}}),
    };
    all.iter().map(pair).collect()
}

fn span(name: &str, [start, end]: [u64; 2], attributes: &[(&str, Value)]) -> Value {
    json!({"name": name, "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end,
        "attributes": pairs(attributes)})
}

impl Made {
    /// A batch of spans of a rank.
    fn batch(self, rank: u32, spans: &[Value]) -> Value {
        let resource = pairs(&[
            ("dl.rank", json!(rank)),
            ("dl.world_size", json!(self.ranks)),
            ("dl.pipeline_parallel.size", json!(self.stages)),
            ("dl.data_parallel.size", json!(self.replicas)),
            ("nemo.run.id", json!("one")),
        ]);
        json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}], "resource": {"attributes": resource}}]})
    }

    /// A step of a rank, whose `passes` are F or B, each of 10 us and 5 us after the one before.
    fn step(self, number: u64, microbatches: u32, passes: &str, begin: u64) -> Vec<Value> {
        let mut at = begin + 1_000;
        let mut spans = Vec::new();
        for letter in passes.chars() {
            let way = if letter == 'F' { "forward" } else { "backward" };
            spans.push(span(&format!("megatron.microbatch.{way}"), [at, at + 10_000], &[]));
            at += 15_000;
        }
        let count = [("num_microbatches", json!(microbatches))];
        let times = [begin + 500, at];
        spans.push(span("megatron.train.iteration.forward_backward", times, &count));
        let iteration = [("megatron.iteration", json!(number))];
        spans.push(span("megatron.train.iteration", [begin, at + 1_000], &iteration));
        spans
    }
}

fn read(files: &[Value]) -> Result<Trace, TraceError> {
    let mut reader = Reader::within(u64::MAX);
    for file in files {
        reader.add(file.to_string().into_bytes())?;
    }
    reader.finish()
}

fn refused(files: &[Value]) -> String {
    read(files).expect_err("it is refused").to_string()
}

/// The passes of a stage as text, by start.
fn passes(trace: &Trace, dp_rank: u32, stage: u16) -> String {
    let is_its = |one: &&Operation| (one.dp_rank, one.stage) == (dp_rank, stage);
    let mut of: Vec<&Operation> =
        trace.operations.iter().filter(is_its).filter(|one| one.pass().is_some()).collect();
    of.sort_by_key(|one| one.start);
    of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn passes_are_numbered_by_their_order() {
    let files = [
        TWO.batch(0, &TWO.step(7, 3, "FFBFBB", 0)),
        TWO.batch(1, &TWO.step(7, 3, "FBFBFB", 15_000)),
    ];
    let trace = read(&files).unwrap();
    assert_eq!(trace.form, Form::Spans);
    assert_eq!(passes(&trace, 0, 0), "F0.0 F0.1 BW0.0 F0.2 BW0.1 BW0.2");
    assert_eq!(passes(&trace, 0, 1), "F1.0 BW1.0 F1.1 BW1.1 F1.2 BW1.2");
    assert!(trace.operations.iter().all(|one| one.step == 7));
}

#[test]
fn chunks_take_turns_in_groups() {
    // Two stages with two chunks each, groups of two microbatches: Megatron-core's interleaved order.
    let files = [
        TWO.batch(0, &TWO.step(0, 4, "FFFFFBFBFBFBBBBB", 0)),
        TWO.batch(1, &TWO.step(0, 4, "FFFBFBFBFBFBFBBB", 15_000)),
    ];
    let trace = read(&files).unwrap();
    assert_eq!(
        passes(&trace, 0, 0),
        "F0.0 F0.1 F2.0 F2.1 F0.2 BW2.0 F0.3 BW2.1 F2.2 BW0.0 F2.3 BW0.1 BW2.2 BW2.3 BW0.2 BW0.3"
    );
    assert!(passes(&trace, 0, 1).starts_with("F1.0 F1.1 F3.0 BW3.0 F3.1 BW3.1 F1.2 BW1.0"));
    // With groups of three, the first stage runs another one.
    let files = [
        TWO.batch(0, &TWO.step(0, 4, "FFFFFFBFBFBBBBBB", 0)),
        TWO.batch(1, &TWO.step(0, 4, "FFFFBFBFBFBFBBBB", 15_000)),
    ];
    assert!(
        passes(&read(&files).unwrap(), 0, 0).starts_with("F0.0 F0.1 F0.2 F2.0 F2.1 F2.2 BW2.0")
    );
}

#[test]
fn ranks_are_stages_by_either_numbering() {
    let made = Made { ranks: 4, stages: 2, replicas: 2 };
    let first = |rank, begin| made.batch(rank, &made.step(0, 3, "FFBFBB", begin));
    let last = |rank, begin| made.batch(rank, &made.step(0, 3, "FBFBFB", begin));
    let outside = read(&[first(0, 0), first(1, 7), last(2, 9), last(3, 8)]).unwrap();
    let inside = read(&[first(0, 0), last(1, 9), first(2, 7), last(3, 8)]).unwrap();
    for trace in [&outside, &inside] {
        assert!(passes(trace, 0, 0).starts_with("F0.0 F0.1"));
        assert!(passes(trace, 1, 1).starts_with("F1.0 BW1.0"));
    }
    let start = |trace: &Trace| {
        let mut of = trace.operations.iter().filter(|one| (one.dp_rank, one.stage) == (0, 1));
        of.find(|one| one.pass().is_some()).map(|one| one.start)
    };
    assert_eq!((start(&outside), start(&inside)), (Some(Nanos(1_009)), Some(Nanos(1_009))));
    let error = refused(&[first(0, 0), first(1, 0), first(2, 0), first(3, 0)]);
    assert!(error.contains("rank 2 runs 2 forward passes before its first backward"), "{error}");
    // A pipeline without one of its ranks is left out.
    let trace = read(&[first(0, 0), last(2, 9), last(3, 8)]).unwrap();
    assert!(trace.operations.iter().all(|one| one.dp_rank == 0));
    assert!(trace.lacks.iter().any(|lack| lack.to_string().starts_with("2 of the 4 ranks")));
}

#[test]
fn the_optimizer_waits_for_all_and_work_stands_between_passes() {
    let optimizer =
        |[start, end]: [u64; 2]| span("megatron.train.iteration.optimizer", [start, end], &[]);
    let rank = |rank, passes: &str, begin: u64, times| {
        let mut spans = TWO.step(0, 1, passes, begin);
        spans.insert(0, optimizer(times));
        TWO.batch(rank, &spans)
    };
    let file =
        |[first, second]: [[u64; 2]; 2]| [rank(0, "FB", 0, first), rank(1, "FB", 11_000, second)];
    let kinds = |files: &[Value]| -> Vec<(u16, OpType, u64)> {
        let trace = read(files).unwrap();
        let all = trace.operations.iter().filter(|one| one.pass().is_none());
        all.map(|one| (one.stage, one.optype, one.duration.0)).collect()
    };
    // The first rank begins its optimizer while the second one has not yet, and waits for it.
    let met = kinds(&file([[27_000, 31_500], [31_000, 31_900]]));
    assert!(met.contains(&(0, OpType::ClipGradients, 4_000)), "{met:?}");
    assert!(met.contains(&(0, OpType::Optimizer, 500)), "{met:?}");
    assert!(met.contains(&(1, OpType::Optimizer, 900)), "{met:?}");
    let apart = kinds(&file([[27_000, 28_000], [31_000, 31_900]]));
    assert!(apart.contains(&(0, OpType::Optimizer, 1_000)), "{apart:?}");
    // The second rank waits for nobody between its passes; the first one waits for a gradient.
    assert!(met.contains(&(1, OpType::Host, 5_000)), "{met:?}");
    assert!(!met.contains(&(0, OpType::Host, 5_000)), "{met:?}");
}

#[test]
fn spans_come_twice_in_any_order_and_among_others() {
    let mut spans = TWO.step(0, 2, "FBFB", 9_000);
    spans.push(spans[0].clone());
    spans.reverse();
    spans.push(span("megatron.p2p.recv_forward", [1, 2], &[]));
    let batch = TWO.batch(1, &spans);
    let lines = [TWO.batch(0, &TWO.step(0, 2, "FFBB", 0)), json!({"resourceMetrics": [{}]}), batch];
    let text = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let trace = crate::read(text.into_bytes()).unwrap();
    assert_eq!((trace.skipped, passes(&trace, 0, 1).as_str()), (1, "F1.0 BW1.0 F1.1 BW1.1"));
    let run = Run::new(trace).unwrap();
    assert_eq!(run.steps().len(), 1);
    assert_eq!(run.predict(&Times::measured(&run)).len(), 1);
}

#[test]
fn console_spans_are_read_between_lines_of_a_program() {
    let line = |rank: u32, name: &str, times: [u32; 2], attributes: Value| {
        let date = |at: u32| format!("2026-08-17T00:00:00.{at:06}Z");
        json!({"name": name, "context": {"trace_id": "0x1", "span_id": "0x2"}, "parent_id": null,
            "start_time": date(times[0]), "end_time": date(times[1]), "attributes": attributes,
            "resource": {"attributes": {"dl.rank": rank, "dl.world_size": 1, "host.gpu.count": 8,
                "dl.pipeline_parallel.size": 1, "dl.data_parallel.size": 1}, "schema_url": ""}})
        .to_string()
    };
    // The exporter of Python writes the name first.
    let line = |name: &str, times, attributes| {
        let text = line(0, name, times, attributes);
        let rest = text.replacen(&format!("\"name\":\"{name}\","), "", 1);
        format!("{{\"name\": \"{name}\", {}", &rest[1..])
    };
    let lines = [
        "using world size: 1".to_owned(),
        "{'lm loss': 2.0}".to_owned(),
        line("megatron.microbatch.forward", [10, 20], json!({})),
        " [2026-08-17] iteration 1 | loss: 2".to_owned(),
        line("megatron.microbatch.backward", [25, 40], json!({})),
        line("megatron.forward_backward", [5, 45], json!({"megatron.num_microbatches": 1})),
        line("megatron.train_step", [1, 50], json!({"megatron.iteration": 3})),
    ];
    let trace = crate::read(lines.join("\n").into_bytes()).unwrap();
    assert_eq!(passes(&trace, 0, 0), "F0.0 BW0.0");
    let forward = trace.operations.iter().find(|one| one.optype == OpType::Pass(Kind::F)).unwrap();
    assert_eq!((forward.step, forward.duration), (3, Nanos(10_000)));
    assert!(trace.lacks.iter().any(|lack| lack.to_string().starts_with("no times on a GPU")));
}

#[test]
fn what_is_missing_is_named_with_its_cure() {
    let whole = |rank| TWO.batch(rank, &TWO.step(0, 2, if rank == 0 { "FFBB" } else { "FBFB" }, 0));
    let one = refused(&[whole(1)]);
    assert!(one.contains("spans of 1 of the 2 ranks") && one.contains("all_ranks"), "{one}");
    let none = refused(&[TWO.batch(0, &[span("megatron.p2p.send_forward", [1, 2], &[])])]);
    assert!(
        none.contains("1 are something else") && none.contains("per_step,microbatch"),
        "{none}"
    );
    let dropped = [whole(0), TWO.batch(1, &TWO.step(0, 2, "FBF", 0))];
    let dropped = refused(&dropped);
    assert!(dropped.contains("2 forward and 1 backward") && dropped.contains("QUEUE"), "{dropped}");
    let twice = [TWO.step(0, 2, "FFBB", 0), TWO.step(0, 2, "FFBB", 1_000_000)].concat();
    let twice = refused(&[TWO.batch(0, &twice), whole(1)]);
    assert!(twice.contains("rank 0 has step 0 twice"), "{twice}");
    let mut other = whole(1);
    let run = &mut other["resourceSpans"][0]["resource"]["attributes"][4]["value"]["stringValue"];
    *run = json!("two");
    let runs = refused(&[whole(0), other.clone()]);
    assert!(runs.contains("\"one\" and \"two\"") && runs.contains("nemo.run.id"), "{runs}");
    other["resourceSpans"][0]["resource"] = json!({});
    let error = refused(&[whole(0), other]);
    assert!(error.contains("the resource of its spans has no dl.world_size"), "{error}");
    let mut late = TWO.step(0, 2, "FFBB", 0);
    late[1]["endTimeUnixNano"] = json!("7");
    let late = refused(&[TWO.batch(0, &late)]);
    assert!(late.contains("span 1: end time is 7, which is before its start"), "{late}");
    let text = format!("{}\n{}", whole(0), &whole(1).to_string()[..300]);
    let error = crate::read(text.into_bytes()).expect_err("it is cut").to_string();
    assert!(error.starts_with("line 2: EOF") && error.contains("whole lines"), "{error}");
    let other = crate::read(b"{\"spans\": []}\n{}\n".to_vec()).expect_err("it is of neither");
    assert!(matches!(other, TraceError::NotATrace), "{other}");
    // A step that is cut at the end of the file is left out.
    let cut = [TWO.step(0, 2, "FFBB", 0), TWO.step(1, 2, "FFB", 1_000_000)].concat();
    let lacks = read(&[TWO.batch(0, &cut), whole(1)]).unwrap().lacks;
    assert!(lacks.iter().any(|lack| lack.to_string().contains("passes of step 1")), "{lacks:?}");
}
