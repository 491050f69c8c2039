//! Trace events as viewers take them: slices that do not overlap, flows that begin and end in the
//! slices of their passes, counters that go forward in time.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::cli::{run, stdout};

/// A slice: start, end, name.
type Slice = (u64, u64, String);

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // What is asked here is short.
fn nanos(micros: &Value) -> u64 {
    (micros.as_f64().unwrap() * 1000.0).round() as u64
}

fn events(rest: &str) -> Vec<Value> {
    let mut trace: Value = serde_json::from_str(&stdout(&run(&format!(
        "export --format chrome --stages 4 --microbatches 8 {rest}"
    ))))
    .unwrap();
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no list of events") };
    events
}

fn of<'a>(events: &'a [Value], phase: &'a str) -> impl Iterator<Item = (usize, &'a Value)> {
    events.iter().enumerate().filter(move |(_, event)| event["ph"] == phase)
}

/// The slices by track, none of which overlap.
fn slices(events: &[Value]) -> BTreeMap<u64, Vec<Slice>> {
    let mut tracks: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    for (_, event) in of(events, "X") {
        let start = nanos(&event["ts"]);
        let name = event["name"].as_str().unwrap().to_owned();
        let track = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        track.push((start, start + nanos(&event["dur"]), name));
    }
    for slices in tracks.values_mut() {
        slices.sort();
        for pair in slices.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:?}");
        }
    }
    tracks
}

/// The slice that a viewer finds an end of a flow in: the last one of its track that was written
/// before it and begins at that very moment.
fn bound(events: &[Value], at: usize) -> &Value {
    let end = &events[at];
    let mut before = events[..at].iter().rev().filter(|one| one["ph"] == "X");
    let slice = before.find(|one| one["tid"] == end["tid"]).unwrap();
    assert_eq!(nanos(&slice["ts"]), nanos(&end["ts"]));
    slice
}

/// Chunk and microbatch of a pass, and whether it is a forward.
fn cell(slice: &Value) -> (i64, i64, bool) {
    let of = |key: &str| slice["args"][key].as_i64().unwrap();
    (of("chunk"), of("microbatch"), slice["cat"] == "F")
}

fn check(rest: &str, transfers: usize) {
    let events = events(rest);
    slices(&events);
    let begins: HashMap<_, _> =
        of(&events, "s").map(|(at, event)| (event["id"].as_u64().unwrap(), at)).collect();
    let ends: Vec<_> = of(&events, "f").collect();
    assert_eq!((begins.len(), ends.len()), (transfers, transfers), "{rest}");
    for (at, end) in ends {
        let begin = begins[&end["id"].as_u64().unwrap()];
        assert!(begin < at && nanos(&events[begin]["ts"]) <= nanos(&end["ts"]));
        assert_eq!(events[begin]["name"], end["name"]);
        let [from, to] = [begin, at].map(|at| bound(&events, at));
        let ((chunk, microbatch, forward), taken) = (cell(from), cell(to));
        let next = if end["name"] == "output" { chunk + 1 } else { chunk - 1 };
        assert_eq!(taken, (next, microbatch, end["name"] == "output"), "{rest}");
        assert_eq!(forward, end["name"] == "output");
        assert!(nanos(&from["ts"]) + nanos(&from["dur"]) <= nanos(&to["ts"]));
    }
    let mut counters: HashMap<String, u64> = HashMap::new();
    for (_, event) in of(&events, "C") {
        let last = counters.entry(event["name"].to_string()).or_default();
        assert!(*last <= nanos(&event["ts"]) && event["args"]["bytes"].is_u64());
        *last = nanos(&event["ts"]);
    }
}

#[test]
fn traces_are_well_formed() {
    let times = "--forward 10us --backward-input 11us --backward-weight 7us --hop 500ns";
    let cluster = "--cluster a100-roce --message 1MB --activation 1MiB --steps 2 --optimizer 9us";
    // Two values for each microbatch between any two neighbours; in a V, the turn is on one stage.
    for (schedule, transfers) in [("gpipe", 48), ("1f1b", 48), ("zb-2p", 48), ("zb-v", 96)] {
        check(&format!("{times} --schedule {schedule}"), transfers);
        check(&format!("{times} --schedule {schedule} {cluster}"), 2 * transfers);
        check(&format!("{times} --schedule {schedule} --jitter pass=lognormal:0.3"), transfers);
    }
    check(&format!("{times} --schedule 1f1b-i"), 112);
}

#[test]
fn passes_without_length_keep_their_flows() {
    for times in [
        "--forward 0ns --backward-input 11us --backward-weight 7us",
        "--forward 10us --backward-input 0ns --backward-weight 0ns",
        "--forward 0ns --backward-input 0ns --backward-weight 1ns",
        "--forward 1ns --backward-input 1ns --backward-weight 1ns",
    ] {
        for (schedule, transfers) in [("1f1b", 48), ("zb-h2", 48), ("zb-v", 96)] {
            check(&format!("{times} --schedule {schedule}"), transfers);
        }
    }
}

#[test]
fn the_optimizer_is_a_slice_at_the_end_of_each_step() {
    let times = "--forward 10us --backward-input 11us --backward-weight 7us --schedule zb-h1";
    for boundary in ["barrier", "asynchronous", "post-validation:1"] {
        let boundary = format!("--steps 3 --optimizer 9us --exchange 2us --boundary {boundary}");
        for slices in slices(&events(&format!("{times} {boundary}"))).values() {
            let steps: Vec<_> = slices.iter().filter(|one| one.2 == "optimizer").collect();
            assert!(steps.len() == 3 && steps.iter().all(|one| one.1 - one.0 == 9_000));
            assert_eq!(slices.last().unwrap().2, "optimizer");
        }
    }
}
