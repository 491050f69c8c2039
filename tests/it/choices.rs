//! The further parameters of some schedules, on the command line: groups, segments, waves; their
//! warnings, and what is refused.

use std::fs;

use pipeline::LeftOut;

use crate::cli::{debubble, refused, results, run, stdout};

const QUESTION: &str = "--forward 12ms --backward-input 12ms --backward-weight 12ms --hop 0ns";

fn ask(rest: &str) -> std::process::Output {
    run(&format!("simulate {QUESTION} {rest}"))
}

fn answers(rest: &str) -> Vec<serde_json::Value> {
    results(&format!("simulate --json {QUESTION} {rest}"))
}

#[test]
fn groups() {
    let gis = |rest: &str| {
        let one = &answers(&format!("--stages 4 --microbatches 8 --schedule gis {rest}"))[0];
        (one["makespan_ns"].as_u64().unwrap() / 6_000_000, one["peak_in_flight"][0].clone())
    };
    // Rows of the authors' generator: d = 4, v = 2, m = 8.
    assert_eq!(gis(""), (54, 8.into()));
    assert_eq!(gis("--group 4"), (54, 8.into()));
    assert_eq!(gis("--group 3"), (55, 7.into()));
    assert_eq!(gis("--group 2"), (56, 6.into()));
    assert_eq!(gis("--group 1").1, 7);
    let half = &answers("--stages 4 --microbatches 8 --schedule gis-h")[0];
    assert_eq!(half["makespan_ns"], 56 * 6_000_000);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("group.toml");
    let text = "schedule = \"gis\"\nstages = 4\nmicrobatches = 8\ngroup = 9\nforward = \"2ms\"\n\
                backward-input = \"2ms\"\nbackward-weight = \"2ms\"\n";
    fs::write(&path, text).unwrap();
    let output = debubble(["simulate".as_ref(), path.as_os_str()]);
    refused(&output, &["group.toml:4:9", "gis needs groups of 1 to p = 4 microbatches, not 9"]);
}

#[test]
fn groups_that_are_refused() {
    let gis =
        |group: &str| ask(&format!("--stages 4 --microbatches 8 --schedule gis --group {group}"));
    refused(&gis("0"), &["groups of 1 to p = 4 microbatches, not 0"]);
    refused(&gis("5"), &["not 5"]);
    refused(&gis("18446744073709551615"), &["not 18446744073709551615"]);
    refused(&gis("18446744073709551616"), &["--group"]);
    refused(&gis("-1"), &["--group", "-1"]);
    refused(&gis("NaN"), &["--group", "NaN"]);
}

/// Segments share the time and the memory of a microbatch, and a step has as many microbatches.
#[test]
fn segments() {
    let line = "--stages 4 --microbatches 8 --activation 12GiB --schedule 1f1b,seq1f1b";
    let both = answers(&format!("{line} --segments 4 --memory-limit 2p"));
    let [whole, cut] = &both[..] else { panic!("two answers") };
    for key in ["stages", "microbatches", "chunks", "work_ns", "memory_limit_bytes"] {
        assert_eq!(whole[key], cut[key], "{key}");
    }
    assert!(whole["segments"].is_null() && cut["segments"] == 4);
    // The bubble is a k-th, and stage 0 holds p-1+k segments of 3 GiB.
    let bubble = |one: &serde_json::Value| {
        one["makespan_ns"].as_u64().unwrap() - one["work_ns"].as_u64().unwrap()
    };
    assert_eq!(bubble(whole), 4 * bubble(cut));
    assert_eq!(cut["peak_activation_bytes"][0], 7 * (3u64 << 30));
    let output = ask(&format!("{line} --segments 4"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1f1b: microbatches are not cut, segments = 4 is ignored"), "{said}");
    assert!(said.contains("seq1f1b: microbatches are cut into 4 segments"), "{said}");
    assert!(stdout(&output).contains("1.75"), "peaks in whole microbatches");
    let said = String::from_utf8_lossy(&ask(line).stderr).into_owned();
    assert!(said.contains("seq1f1b: microbatches are cut into 2 segments"), "{said}");
}

/// A segment carries its share over a link.
#[test]
fn segments_on_hardware() {
    let busiest = |rest: &str| {
        let line = "--stages 4 --microbatches 8 --cluster dgx-a100 --message 64MiB";
        let one = &answers(&format!("{line} --schedule {rest}"))[0];
        one["hardware"]["step_ns"].as_u64().unwrap()
    };
    assert_eq!(busiest("seq1f1b --segments 1"), busiest("1f1b"));
    assert!(busiest("seq1f1b --segments 4") < busiest("1f1b"));
}

#[test]
fn segments_that_are_refused() {
    let cut = |segments: &str| {
        ask(&format!("--stages 4 --microbatches 8 --schedule seq1f1b --segments {segments}"))
    };
    refused(&cut("0"), &["segments must be at least 1"]);
    refused(&cut("-2"), &["--segments", "-2"]);
    refused(&cut("1000000000"), &["passes", "at most 100000000"]);
    refused(&cut("18446744073709551615"), &["passes", "at most 100000000"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.txt");
    fs::write(&file, "F0.0 BW0.0 F0.1 BW0.1 F0.2 BW0.2\n").unwrap();
    let written =
        |segments: u32| ask(&format!("--schedule {} --segments {segments}", file.display()));
    assert_eq!(written(3).status.code(), Some(0));
    refused(&written(2), &["has 3 microbatches", "not a multiple of 2 segments"]);
}

/// Two copies of the model are two of everything that a stage holds.
#[test]
fn copies_of_the_model_are_spoken_of() {
    let line = "--stages 4 --microbatches 8 --resident 1GiB --device-memory 9GiB";
    let output = ask(&format!("{line} --schedule 1f1b,dualpipe,chimera,dualpipe-v"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("note: dualpipe, chimera: every stage holds two copies")
            || flat.contains("note: chimera, dualpipe: every stage holds two copies"),
        "{said}"
    );
}

/// Shapes that a schedule cannot do name what it needs, at the key that is to blame.
#[test]
fn shapes_that_are_refused() {
    let shape = |name: &str, p: u32, m: u32, rest: &str| {
        ask(&format!("--schedule {name} --stages {p} --microbatches {m} {rest}"))
    };
    for name in ["dualpipe", "chimera"] {
        let odd = format!("{name} needs an even number of stages, not 3");
        refused(&shape(name, 3, 12, ""), &[&odd]);
    }
    refused(&shape("dualpipe", 4, 6, ""), &["dualpipe needs", "from 2p = 8, not 6"]);
    refused(&shape("dualpipe", 4, 9, ""), &["an even number of microbatches", "not 9"]);
    refused(&shape("dualpipe-v", 4, 7, ""), &["at least 2p = 8 microbatches, not 7"]);
    refused(
        &shape("hanayo", 4, 8, "--chunks 3"),
        &["hanayo needs an even number of chunks", "not 3"],
    );
    refused(&shape("dualpipe-v", 65_535, 1, ""), &["chunks", "at most 65535"]);
    refused(&shape("dualpipe-v", 32_767, 1, ""), &["at least 2p = 65534 microbatches, not 1"]);
}

/// The time of an update in the steady state, whatever the run around it.
#[test]
fn what_never_flushes() {
    let question = "--stages 4 --microbatches 8 --schedule";
    let one = |name: &str, more: &str| {
        let line = format!("simulate --json {QUESTION} {question} {name} {more}");
        results(&line)[0].clone()
    };
    let answer = one("pipedream", "");
    // F, B and W of 12 ms each, and no hops: 8 microbatches without a gap.
    assert_eq!((&answer["span_ns"], &answer["bubble_rate"]), (&288_000_000.into(), &0.0.into()));
    assert_eq!((&answer["microbatches"], &answer["measured_updates"]), (&8.into(), &1.into()));
    assert_eq!(answer["peak_in_flight"], one("1f1b", "")["peak_in_flight"]);
    // 3 hops there and 3 back for each 4 microbatches.
    let hops = QUESTION.replace("--hop 0ns", "--hop 1ms");
    let line = format!("simulate --json {hops} {question} pipedream-2bw");
    assert_eq!(results(&line)[0]["span_ns"], 300_000_000);
    let noisy = one("pipedream", "--slowdown stage:1=2");
    assert_eq!(noisy["span_ns"], 576_000_000);
    refused(
        &ask("--stages 4 --microbatches 3 --schedule pipedream-2bw"),
        &["microbatches", "4, not 3"],
    );
    let line = format!("{question} pipedream --cluster dgx-a100 --message 1MiB");
    refused(&ask(&line), &["never flushes", "steady state"]);
    // What is run is what is simulated: 4 updates of 8, of which the third is measured.
    let brief = format!("execute {QUESTION} {question} pipedream --time-scale 0.01 --warm-up 0");
    let ran = &results(&format!("{brief} --steps 1 --json"))[0];
    assert_eq!((&ran["span_ns"], &ran["measured_updates"]), (&2_880_000.into(), &1.into()));
    let measured = &ran["measured"];
    assert!(measured["span_ns"].as_u64() >= Some(2_880_000), "{measured}");
    assert_eq!(measured["span_ns"], measured["steps"][0]["span_ns"]);
    let output = run(&format!("{brief} --boundary barrier"));
    refused(&output, &["pipedream", "update while others run", "leave --boundary out"]);
    let text = stdout(&ask(&format!("{question} 1f1b,pipedream --explain")));
    assert!(text.contains("why 1f1b waits") && !text.contains("why pipedream waits"), "{text}");
    // What is written down is the run, as one step.
    let run_of_4 = stdout(&run(&format!("export {QUESTION} {question} pipedream")));
    assert_eq!(run_of_4.matches("BW").count(), 4 * 32);
    // Hostile sizes are refused before memory is taken.
    refused(&ask("--stages 65535 --microbatches 65534 --schedule pipedream"), &["microbatches"]);
    refused(
        &ask("--stages 4 --microbatches 18446744073709551615 --schedule pipedream"),
        &["microbatches"],
    );
}

/// Small and odd shapes, and the deepest pipelines, have an order or a fault.
#[test]
fn odd_corners_end() {
    let names = ["gis", "gis-h", "seq1f1b", "dualpipe", "dualpipe-v", "chimera", "hanayo"];
    for name in names {
        for p in [1, 2, 3] {
            for m in [1, 2, 3, 7] {
                let output = ask(&format!("--schedule {name} --stages {p} --microbatches {m}"));
                assert!(matches!(output.status.code(), Some(0 | 2)), "{name} p={p} m={m}");
            }
        }
        let deep = format!("--schedule {name} --stages 32766 --microbatches 1 --gantt never");
        assert!(matches!(ask(&deep).status.code(), Some(0 | 2)), "{name}");
    }
}

#[test]
fn what_is_not_offered_says_why() {
    for LeftOut { name, .. } in LeftOut::ALL {
        let output = ask(&format!("--schedule {name} --stages 4 --microbatches 8"));
        refused(&output, &[&format!("{name} is not offered"), "1f1b"]);
    }
    let text = stdout(&run("schedules"));
    assert!(text.contains("Not offered") && text.lines().any(|line| line == "bpipe"));
    let json: serde_json::Value = serde_json::from_str(&stdout(&run("schedules --json"))).unwrap();
    assert_eq!(json["not_offered"].as_array().unwrap().len(), LeftOut::ALL.len());
    let note = |name: &str| {
        let all = json["schedules"].as_array().unwrap().iter();
        let found = all.clone().find(|one| one["name"] == name).unwrap()["note"].clone();
        found.as_str().map(str::to_owned)
    };
    assert!(note("hanayo").unwrap().contains("neither could be held against the paper"));
    assert_eq!(note("1f1b"), None);
}
