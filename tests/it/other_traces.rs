//! Traces that other programs write of their runs: Megatron-style events that begin and end, what
//! `torch.profiler` sees of each rank, and timelines; what each lacks, and what is estimated for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{debubble, refused, run, stdout};

/// Replays files with these contents.
fn replay(contents: &[Vec<u8>], flags: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let path = |at: usize| folder.path().join(format!("{at}.json"));
    let paths: Vec<PathBuf> = (0..contents.len()).map(path).collect();
    paths.iter().zip(contents).for_each(|(path, content)| fs::write(path, content).unwrap());
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    debubble(["replay"].into_iter().chain(paths).chain(flags.split_whitespace()))
}

fn answer(contents: &[Vec<u8>], flags: &str) -> Value {
    serde_json::from_str(&stdout(&replay(contents, &format!("{flags} --json")))).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// A pass of rank `pid` as two events, of which only the second says which it is.
fn pass(
    name: &str,
    pid: u64,
    chunk: u64,
    microbatch: u64,
    times: [u64; 2],
    step: u64,
) -> [Value; 2] {
    let event = |ph: &str, ts: u64, args: Value| json!({"ph": ph, "name": name, "pid": pid, "tid": 0, "ts": ts, "args": args});
    let args =
        json!({"iteration": step, "microbatch": microbatch, "model_chunk": chunk, "pp_rank": pid});
    [event("B", times[0], json!({"iteration": step})), event("E", times[1], args)]
}

/// Two ranks with two chunks each and one microbatch; from rank to rank it takes 5 us each way.
fn looped(step: u64, begin: u64) -> Vec<Value> {
    let passes = [
        ("forward", 0, 0, [0, 10]),
        ("forward", 1, 0, [15, 25]),
        ("forward", 0, 1, [30, 40]),
        ("forward", 1, 1, [45, 55]),
        ("backward", 1, 1, [55, 75]),
        ("backward", 0, 1, [80, 100]),
        ("backward", 1, 0, [105, 125]),
        ("backward", 0, 0, [130, 150]),
    ];
    let times = |times: [u64; 2]| times.map(|time| time + begin);
    let mark = |name: &str, ts: u64| json!({"ph": "i", "name": name, "pid": 0, "tid": 0, "ts": ts, "args": {"iteration": step}});
    let events = passes
        .iter()
        .flat_map(|&(name, pid, chunk, at)| pass(name, pid, chunk, 0, times(at), step));
    let marks = [mark("iteration begin", begin), mark("iteration end", begin + 190)];
    events.chain(marks).collect()
}

#[test]
fn chunks_of_megatron_stand_rank_by_rank() {
    let events = [looped(0, 7), looped(1, 1007)].concat();
    let answer = answer(&[bytes(&json!(events))], "");
    let step = |step: u64| json!({"step": step, "measured_ns": 150_000, "predicted_ns": 150_000});
    assert_eq!(answer["steps"], json!([step(0), step(1)]));
    let hops = &answer["hops"];
    assert_eq!((&hops["measured"], &hops["sends"]), (&json!(false), &json!("paired")));
    assert_eq!(hops["held_out_mean_abs_error"], 0.0);
    // 0 to 1 twice a step, and once from the last rank to the first one.
    let link = |from: u64, to: u64, direction: &str, crossings: u64| {
        json!({"from": from, "to": to, "direction": direction, "crossings": crossings,
            "samples": crossings, "low_ns": 5_000, "median_ns": 5_000, "high_ns": 5_000})
    };
    let links = [
        link(0, 1, "forward", 4),
        link(0, 1, "backward", 2),
        link(1, 0, "forward", 2),
        link(1, 0, "backward", 4),
    ];
    assert_eq!(hops["links"], json!(links));
    let lacks = answer["lacks"].as_array().unwrap();
    let lacks: Vec<&str> = lacks.iter().map(|lack| lack.as_str().unwrap()).collect();
    assert_eq!(lacks.len(), 4, "{lacks:?}");
    for (lack, part) in lacks.iter().zip([
        "no transfers",
        "no B and W",
        "no optimizer",
        "40us of each iteration outside",
    ]) {
        assert!(lack.contains(part), "{lack}");
    }
}

#[test]
fn a_sender_is_held_up_until_the_other_end_is_ready() {
    // Rank 1 takes 30 us for each forward; the second send of rank 0 waits for it.
    let of = |second: [u64; 2], third: [u64; 2]| {
        let mut events = Vec::new();
        for (microbatch, at) in (0u64..).zip([[0, 10], second, third]) {
            events.extend(pass("forward", 0, 0, microbatch, at, 0));
        }
        for microbatch in 0..3 {
            let begin = 15 + 35 * microbatch;
            events.extend(pass("forward", 1, 0, microbatch, [begin, begin + 30], 0));
        }
        for microbatch in 0..3 {
            let begin = 115 + 25 * microbatch;
            events.extend(pass("backward", 1, 0, microbatch, [begin, begin + 20], 0));
            events.extend(pass("backward", 0, 0, microbatch, [begin + 25, begin + 45], 0));
        }
        events.sort_by_key(|event| (event["ts"].as_u64(), event["ph"] == "B"));
        answer(&[bytes(&json!(events))], "--what-if free-links")
    };
    let held_up = of([15, 25], [50, 60]);
    assert_eq!(held_up["hops"]["sends"], "paired");
    assert_eq!(held_up["steps"][0]["predicted_ns"], held_up["steps"][0]["measured_ns"]);
    assert!(held_up["what_if"][0]["saved_ns"].as_u64().unwrap() > 20_000);
    // One that goes on at once shows that it is not.
    let free = of([10, 20], [20, 30]);
    assert_eq!(free["hops"]["sends"], "free");
}

#[test]
fn iterations_that_are_cut_are_left_out() {
    let mut events = [looped(0, 0), looped(1, 1000), looped(2, 2000)].concat();
    let last = events.iter().position(|event| event["ts"] == 2080).unwrap();
    events.truncate(last + 1);
    let answer = answer(&[bytes(&json!(events))], "--warmup-steps 1");
    assert_eq!(answer["steps"].as_array().unwrap().len(), 1);
    assert_eq!(answer["steps"][0]["step"], 1);
    let lacks = answer["lacks"].to_string();
    assert!(lacks.contains("no end of 1 passes that had begun"), "{lacks}");
    assert!(lacks.contains("not all passes of step 2, which is left out"), "{lacks}");
    let none = replay(&[bytes(&json!(events))], "--warmup-steps 2");
    refused(&none, &["the trace has no more than 2 steps: none is left"]);
}

/// `looped` after `change`, refused for the reasons `parts`.
fn refused_after(change: impl Fn(&mut Vec<Value>), parts: &[&str]) {
    let mut events = looped(3, 0);
    change(&mut events);
    refused(&replay(&[bytes(&json!(events))], ""), parts);
}

#[test]
fn megatron_events_that_make_no_sense() {
    refused_after(
        |events| drop(events.remove(1)),
        &[
            "event 3: a forward begins on pid 0, where the one that begins at event 0 has no end",
            "whole iterations",
        ],
    );
    refused_after(
        |events| drop(events.remove(0)),
        &["event 0: a forward ends on pid 0 that has not begun"],
    );
    refused_after(|events| events[2]["ts"] = json!(-4), &["event 2: ts is -4", "negative"]);
    refused_after(
        |events| events[3]["ts"] = json!(3),
        &["event 3: time goes backwards", "before it begins at event 2"],
    );
    refused_after(
        |events| events[3]["ts"] = json!("soon"),
        &["event 3: ts is \"soon\"", "not a number"],
    );
    refused_after(
        |events| events[3]["ts"] = json!(1e300),
        &["event 3: ts is 1000000", "too large"],
    );
    refused_after(
        |events| drop(events[3].as_object_mut().unwrap().remove("ts")),
        &["event 3 has no ts"],
    );
    refused_after(
        |events| events[2]["pid"] = json!(1u64 << 40),
        &["event 2: pid is 1099511627776", "too large"],
    );
    refused_after(
        |events| events[2]["pid"] = json!({}),
        &["event 2: pid is {}", "not a whole number"],
    );
    refused_after(
        |events| events[3]["args"]["pp_rank"] = json!(-1),
        &["event 3: args.pp_rank is -1"],
    );
    refused_after(
        |events| events[3]["args"]["model_chunk"] = json!(60_000),
        &["event 3: args.model_chunk", "too large"],
    );
    refused_after(
        |events| events[3]["args"]["microbatch"] = Value::Null,
        &["event 3 has no args.microbatch"],
    );
    refused_after(|events| events[3]["args"]["iteration"] = json!(0.5), &["args.iteration is 0.5"]);
    refused_after(
        |events| events[5]["args"]["model_chunk"] = json!(0),
        &["F0.0 on stage 0 does work that was already done"],
    );
    refused_after(
        |events| events[3]["args"]["microbatch"] = json!(7),
        &["step 3", "is missing from stage"],
    );
    refused_after(|events| events[3]["ph"] = json!(5), &["cannot be read as trace events"]);
    let nested = format!("[{{\"ph\":\"B\",\"args\":{}", "[".repeat(100_000));
    refused(&replay(&[nested.into_bytes()], ""), &["recursion limit"]);
}

/// A recording by `torch.profiler` of four sleepy stages of a zero-bubble V on two ranks, and of GPipe.
fn of_torch(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    (0..2).map(|rank| fs::read(folder.join(format!("{name}.{rank}.json"))).unwrap()).collect()
}

/// Checks that the traces of `torch.profiler` in `files` are one run, and that its backward passes are
/// `split`. Returns the mean error of the predicted steps and the longest median of a link.
fn check_torch(files: &[Vec<u8>], split: bool) -> (f64, Duration) {
    let answer = answer(files, "");
    assert_eq!(answer["steps"][0]["step"], 1);
    let lacks = answer["lacks"].to_string();
    assert_eq!(!split, lacks.contains("no B and W apart"), "{lacks}");
    assert!(lacks.contains("no transfers"), "{lacks}");
    assert_eq!(answer["hops"]["sends"], "free");
    let links = answer["hops"]["links"].as_array().unwrap().iter();
    let slowest = links.map(|link| link["median_ns"].as_u64().unwrap()).max().unwrap();
    (answer["mean_abs_error"].as_f64().unwrap(), Duration::from_nanos(slowest))
}

/// The bar of a link on the host that makes the traces.
const SLOW_LINK: Duration = Duration::from_millis(10);

#[test]
fn ranks_that_torch_profiled_are_one_run() {
    let files = of_torch("ScheduleZBVZeroBubble");
    let (error, link) = check_torch(&files, true);
    assert!(error < 0.02 && link < SLOW_LINK, "{error} {link:?}");
    let swapped = [files[1].clone(), files[0].clone()];
    assert_eq!(answer(&swapped, ""), answer(&files, ""));
    let gpipe = of_torch("ScheduleGPipe");
    let (error, link) = check_torch(&gpipe, false);
    assert!(error < 0.02 && link < SLOW_LINK, "{error} {link:?}");
    let changed = answer(&files, "--what-if no-stragglers,free-links --schedule 1f1b-v,zb-v");
    let names = changed["what_if"].as_array().unwrap().iter().map(|one| &one["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["no-stragglers", "free-links", "1f1b-v", "zb-v"]);
    let was = changed["predicted_ns"].as_f64().unwrap();
    for at in [0, 1, 2, 3] {
        let step = changed["what_if"][at]["step_ns"].as_f64().unwrap();
        assert!((0.9..1.05).contains(&(step / was)), "{changed}");
    }
}

/// What `torch.profiler` sees of GPipe on two ranks, in us: F and BW of 20 on the first; on the last one, whose sends
/// are traced if `sent`, 20 after a wait for the input, then a loss of 15 that has no name.
fn of_gpipe(sent: bool) -> Vec<Vec<u8>> {
    let event = |name: String, at: u64, end: u64| json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": end - at});
    let [mut first, mut last] = [0, 1].map(|_| vec![event("ProfilerStep#1".to_owned(), 0, 1000)]);
    for k in 0..4 {
        first.push(event(format!("Forward {k}"), 20 * k, 20 * k + 20));
        first.push(event("gloo:send".to_owned(), 20 * k + 20, 22 + 36 * k));
        // It asks for the next input when its loss is done.
        let arrived = 22 + 36 * k;
        let begin = if k == 0 { 0 } else { arrived - 1 };
        last.push(event(format!("Forward {k}"), begin, arrived + 20));
        last.push(event("gloo:recv".to_owned(), begin, arrived));
        let at = 165 + 20 * k;
        last.push(event(format!("Backward {k}"), at, at + 20));
        if sent {
            last.push(event("gloo:send".to_owned(), at + 20, at + 22));
        }
        first.push(event(format!("Backward {k}"), if k == 0 { 130 } else { at + 20 }, at + 42));
        first.push(event("gloo:recv".to_owned(), if k == 0 { 130 } else { at + 20 }, at + 22));
    }
    let trace = |rank: u64, events: Vec<Value>| json!({"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}, "traceEvents": events});
    vec![bytes(&trace(0, first)), bytes(&trace(1, last))]
}

#[test]
fn work_that_gpipe_does_not_name_takes_its_time() {
    let seen = answer(&of_gpipe(true), "");
    assert!(seen["mean_abs_error"].as_f64().unwrap() < 0.02, "{seen}");
    // Where it cannot be told from the wait for sends, the answer says that something is missing.
    let told = replay(&of_gpipe(false), "");
    let error = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(error.contains("off the measured steps: work between passes"), "{error}");
    let said = replay(&of_gpipe(true), "");
    assert!(!String::from_utf8_lossy(&said.stderr).contains("off the measured"), "{said:?}");
}

#[test]
fn traces_of_torch_that_are_not_those_of_a_run() {
    let files = of_torch("ScheduleZBVZeroBubble");
    refused(&replay(&files[..1], ""), &["1 of the 2 ranks", "there is none of rank 1"]);
    refused(&replay(&files[1..], ""), &["1 of the 2 ranks", "there is none of rank 0"]);
    let twice = [files[0].clone(), files[0].clone()];
    refused(&replay(&twice, ""), &["two of the files are of rank 0"]);
    let mixed = [files[0].clone(), bytes(&json!(looped(0, 0)))];
    refused(
        &replay(&mixed, ""),
        &["1.json: it is a Megatron-style trace", "a trace of torch.profiler", "replay them apart"],
    );
    let text = String::from_utf8(files[0].clone()).unwrap();
    let unnamed = text.replace("PP:", "my_");
    refused(
        &replay(&[unnamed.into_bytes()], ""),
        &["names no passes", "rank 0 has no nodes of autograd", "debubble.torch"],
    );
    let compressed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    refused(
        &replay(&[compressed.to_vec()], ""),
        &["cannot be decompressed", "compress the trace again"],
    );
    let changed = |key: &str, value: Value| {
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        *whole.pointer_mut(key).unwrap() = value;
        [bytes(&whole), files[1].clone()]
    };
    let head = "next to its events: ";
    refused(
        &replay(&changed("/distributedInfo/rank", json!(-1)), ""),
        &[head, "distributedInfo.rank is -1"],
    );
    // Ranks that are not there may hold the same stages.
    let more = answer(&changed("/distributedInfo/world_size", json!(4)), "");
    assert!(more["lacks"].to_string().contains("2 of the 4 ranks"), "{}", more["lacks"]);
    refused(
        &replay(&changed("/baseTimeNanoseconds", json!(u64::MAX)), ""),
        &[head, "baseTimeNanoseconds"],
    );
    refused(
        &replay(&changed("/traceEvents/2/dur", json!(-1)), ""),
        &["event 2: dur is -1", "negative"],
    );
    refused(&replay(&changed("/traceEvents/2/ts", json!([])), ""), &["event 2: ts is []"]);
    // The clock of another host.
    refused(&replay(&changed("/baseTimeNanoseconds", json!(0)), ""), &["time goes backwards"]);
}

#[test]
fn timelines_are_replayed_exactly() {
    let times =
        "--forward 1ms,1.5ms,1ms,0.7ms --backward-input 1.1ms --backward-weight 700us --hop 90us";
    for name in ["1f1b", "zb-h1", "zb-v", "dualpipe-v"] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("timeline.json");
        let line = format!(
            "simulate --schedule {name} --stages 4 --microbatches 8 {times} --json --timeline"
        );
        let words = line.split_whitespace().chain([path.to_str().unwrap()]);
        let simulated: Value = serde_json::from_str(&stdout(&debubble(words))).unwrap();
        let mut timeline: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        // A recorder may say more.
        timeline["recording"] = json!({"program": "torch 2.15.0", "message_bytes": 4096});
        let answer = answer(&[bytes(&timeline)], "");
        let step = &answer["steps"][0];
        assert_eq!(step["measured_ns"], simulated["results"][0]["makespan_ns"], "{name}");
        assert_eq!(step["predicted_ns"], step["measured_ns"], "{name}");
        assert_eq!(answer["hops"]["held_out_mean_abs_error"], Value::Null);
        let both = [bytes(&timeline), bytes(&timeline)];
        refused(&replay(&both, ""), &["1.json", "a timeline holds all stages"]);
        timeline["steps"][0]["stages"][0]["slots"][1]["end_ns"] = json!(0);
        refused(&replay(&[bytes(&timeline)], ""), &["0.json", "step 0", "stage 0"]);
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("timeline.json");
    let path = path.to_str().unwrap();
    let shards = "--schedule vocab-1 --stages 2 --microbatches 2 --forward 2ms --backward-input 3ms \
                  --backward-weight 1ms --vocab-s 1ms --vocab-t 1ms";
    stdout(&run(&format!("simulate {shards} --timeline {path}")));
    refused(&run(&format!("replay {path}")), &["output layer in shards, which are not replayed"]);
}

/// The trace of a real run of Megatron-LM, where it is at hand: iteration 0 is a warm-up.
#[test]
fn a_run_of_megatron_within_one_percent() {
    let file = "../shared/measured/megatronapp/pipeline-4-virtual-4-pp-aggregated.json";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if !file.exists() {
        println!("skipped: there is no {}", file.display());
        return;
    }
    let words =
        ["replay", "--json", "--warmup-steps", "1", "--schedule", "1f1b-i", "--chunks", "4"];
    let output = debubble(words.into_iter().chain([file.to_str().unwrap()]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sends that hold up no rank"), "{said}");
    assert!(said.contains("spread evenly over its chunks"), "{said}");
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["steps"].as_array().unwrap().len(), 19);
    let in_sample = answer["mean_abs_error"].as_f64().unwrap();
    let held_out = answer["hops"]["held_out_mean_abs_error"].as_f64().unwrap();
    assert!(in_sample < 0.01 && held_out < 0.01, "{in_sample} {held_out}");
    assert_eq!(answer["hops"]["sends"], "paired");
    assert_eq!(answer["hops"]["links"].as_array().unwrap().len(), 8);
}

/// The schedules that the torch at hand is asked for, and whether their backward passes are split.
const OF_TODAY: [(&str, bool); 3] = [
    ("ScheduleInterleavedZeroBubble", true),
    ("ScheduleInterleaved1F1B", false),
    ("ScheduleGPipe", false),
];

/// The schedules of which traces that `python` has just written meet no bar of accuracy. Each trace must be
/// read as it was run.
fn inaccurate_today(python: &str) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/traces.py");
    let mut made = Command::new(python);
    made.arg(&script).arg("2").arg(folder.path()).args(OF_TODAY.map(|(name, _)| name));
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str, rank: u32| {
        fs::read(folder.path().join(format!("{name}.{rank}.json"))).unwrap()
    };
    let mut inaccurate = Vec::new();
    for (name, split) in OF_TODAY {
        let (error, link) = check_torch(&[file(name, 0), file(name, 1)], split);
        if error >= 0.15 || link >= SLOW_LINK {
            inaccurate.push(format!("{name}: error {error}, slowest link {link:?}"));
        }
    }
    inaccurate
}

/// Traces that the torch at hand writes, of a Python that `DEBUBBLE_TORCH_PYTHON` names. A machine with other
/// work delays ranks at random, so accuracy is asked of the best of three recordings.
#[test]
#[ignore = "slow"]
fn what_torch_writes_today_is_read() {
    let Ok(python) = std::env::var("DEBUBBLE_TORCH_PYTHON") else {
        println!("skipped: DEBUBBLE_TORCH_PYTHON names no Python with torch");
        return;
    };
    let mut inaccurate = Vec::new();
    for _ in 0..3 {
        inaccurate = inaccurate_today(&python);
        if inaccurate.is_empty() {
            return;
        }
    }
    panic!("{inaccurate:?}");
}
