//! `debubble search`: what it finds is written, certified and simulated alike, what it cannot do is refused or
//! said, and Ctrl-C keeps the best.

use std::fs;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

const QUESTION: &str = "--stages 4 --microbatches 12 --forward 20ms --backward-input 21ms \
                        --backward-weight 15ms --hop 500us --hidden 2304 --heads 24 --seq 1024";

fn json(line: &str) -> Vec<Value> {
    results(&format!("{line} --json"))
}

#[test]
fn the_command_line_finds_writes_and_certifies() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, text, svg) = (at("best.toml"), at("best.txt"), at("best.svg"));
    let files = format!("--certificate {certificate} --export {text} --svg {svg}");
    let answer = json(&format!("search {QUESTION} --memory-limit 2p {files}"));
    let [one] = &answer[..] else { panic!("{answer:?}") };
    let verdict = certificate::verify(&fs::read_to_string(certificate).unwrap()).unwrap();
    assert_eq!(one["gap_ns"] == 0, verdict.is_optimal());
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let replayed = json(&format!("simulate --schedule {text} {QUESTION}"));
    assert_eq!(replayed[0]["span_ns"], one["cost_ns"]);
    let named = json(&format!("simulate --schedule zb-auto,zb-2p {QUESTION} --memory-limit 2p"));
    assert_eq!(named[0]["span_ns"], one["cost_ns"]);
    assert!(named[0]["span_ns"].as_u64() <= named[1]["span_ns"].as_u64());
    let table = stdout(&run(&format!("search {QUESTION} --memory-limit 2p")));
    assert!(table.contains("optimal") && table.contains("published"), "{table}");
}

/// A stage that begins as soon as it can, and waits, has a longer span than the steps of a running pipeline.
#[test]
fn an_order_is_said_to_take_less_where_stages_run_on() {
    let folder = tempfile::tempdir().unwrap();
    let order = folder.path().join("order.txt").display().to_string();
    let question = "--stages 3 --microbatches 4 --forward 18us,5us,14us --backward-input 1us,7us,1us \
                    --backward-weight 2us,13us,18us --hop 0us,40us --activation 4KiB,4KiB,4KiB \
                    --activation-until-weight 2KiB,2KiB,2KiB --memory-limit 16KiB,16KiB,16KiB";
    let one = &json(&format!("search {question} --export {order}"))[0];
    assert_eq!((&one["cost_ns"], &one["bound_ns"]), (&187_000.into(), &187_000.into()));
    assert_eq!(
        (&one["running_step_ns"], &one["running_bound_ns"]),
        (&182_000.into(), &182_000.into())
    );
    let table = stdout(&run(&format!("search {question}")));
    assert!(table.contains("takes 182.000 us a step"), "{table}");
    // The event engine runs the order step after step, the first of which fills the pipeline.
    let run_on = json(&format!(
        "simulate {question} --schedule {order} --steps 200 --boundary asynchronous"
    ));
    let step = run_on[0]["hardware"]["step_ns"].as_u64().unwrap();
    assert!((182_000..182_100).contains(&step), "{step}");
    let makespan = &json(&format!("search {question} --objective makespan"))[0];
    assert!(makespan.get("running_step_ns").is_none());
}

#[test]
fn more_memory_is_never_worse() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (csv, svg) = (at("front.csv"), at("front.svg"));
    let limits = "--memory-limits 2p,0.5p,1p,0.75p --effort 0";
    let rows = json(&format!("search {QUESTION} {limits} --csv {csv} --pareto {svg}"));
    let mut by_limit: Vec<(f64, u64)> = rows
        .iter()
        .map(|row| {
            let limit = row["memory_limit"].as_str().unwrap().trim_end_matches('p');
            (limit.parse().unwrap(), row["cost_ns"].as_u64().unwrap())
        })
        .collect();
    by_limit.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(by_limit.windows(2).all(|two| two[0].1 >= two[1].1), "{by_limit:?}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 5);
    assert!(fs::read_to_string(svg).unwrap().contains("bound"));
}

#[test]
fn chunks_lie_in_a_v_or_in_loops() {
    for (rest, placement, chunks) in [
        ("--chunks 2", "v", 2),
        ("--chunks 2 --placement looped", "looped", 2),
        ("--chunks 3", "looped", 3),
        ("--placement v", "v", 2),
    ] {
        let answer = json(&format!("search {QUESTION} --memory-limit 1p --effort 0 {rest}"));
        assert_eq!(answer[0]["placement"], placement);
        assert_eq!(answer[0]["chunks"], chunks);
        let makespan = format!("search {QUESTION} --effort 0 {rest} --objective makespan");
        assert_eq!(json(&makespan)[0]["objective"], "makespan");
    }
}

#[test]
fn a_wrong_search_says_what_is_wrong() {
    let two = format!("search {QUESTION} --memory-limits 1p,2p --export x.txt");
    let huge = "search --stages 4 --microbatches 2000000 --forward 1ms --backward-input 1ms \
                --backward-weight 1ms";
    let long = "search --stages 4 --microbatches 300 --forward 1000000s --backward-input 1ms \
                --backward-weight 1ms";
    for (line, says) in [
        (long.to_owned(), "too long to search"),
        (format!("search {QUESTION} --memory-limit 0.1p"), "at least"),
        (format!("search {QUESTION} --memory-limits 1p,0.1p"), "at least"),
        (two, "one search"),
        (format!("search {QUESTION} --effort -1"), "effort"),
        (format!("search {QUESTION} --time-limit 5"), "unit"),
        (format!("search {QUESTION} --placement mirrored"), "placement"),
        (format!("search {QUESTION} --memory-limits NaNp"), "NaN"),
        ("search --stages 4".to_owned(), "missing"),
        (huge.to_owned(), "at most 4000000"),
        ("simulate --schedule zb-auto --stages 2 --microbatches 2".to_owned(), "missing"),
    ] {
        refused(&run(&line), &[says]);
    }
}

#[test]
fn what_a_search_does_not_know_is_refused_or_said() {
    for rest in ["--jitter pass=lognormal:0.05", "--slowdown stage:3=1.2", "--replicas 10"] {
        let key = rest.split_whitespace().next().unwrap().trim_start_matches("--");
        refused(&run(&format!("search {QUESTION} {rest}")), &[key, "cannot be taken into account"]);
    }
    for (rest, says) in [
        ("--vocab-s 1ms --vocab-t 1ms", "vocab-s, vocab-t is ignored"),
        ("--offload-ratio 0.5", "offload-ratio is ignored"),
        ("--schedule 1f1b", "schedule is ignored"),
        ("--segments 2", "segments = 2 is ignored"),
        ("--group 2", "group = 2 is ignored"),
    ] {
        let output = run(&format!("search {QUESTION} --effort 0 {rest}"));
        assert!(stdout(&output).contains("bubble"));
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(notes.contains(says), "{notes}");
    }
    let seeded = run(&format!("search {QUESTION} --effort 0 --seed 3"));
    assert!(is_silent(&seeded) && !stdout(&seeded).is_empty());
    let named = run(&format!("simulate {QUESTION} --schedule zb-auto --memory-limit 1p --seed 3"));
    assert!(is_silent(&named) && !stdout(&named).is_empty());
}

#[test]
fn settings_of_a_file_are_searched_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    let keys = "schedule = \"1f1b\"\nstages = 4\nforward = \"20ms\"\nbackward-input = \"21ms\"\n\
                backward-weight = \"15ms\"\nmemory-limit = \"1p\"\n";
    let settings = "[[setting]]\nname = \"few\"\nmicrobatches = 6\n\
                    [[setting]]\nname = \"many\"\nmicrobatches = 12\n";
    fs::write(&file, format!("{keys}{settings}")).unwrap();
    let file = file.display();
    let rows = json(&format!("search {file} --effort 0"));
    let names: Vec<&str> = rows.iter().map(|row| row["setting"].as_str().unwrap()).collect();
    assert_eq!(names, ["few", "many"]);
    assert!(rows[0]["cost_ns"].as_u64() < rows[1]["cost_ns"].as_u64());
    refused(&run(&format!("search {file} --export x.txt")), &["one search"]);
    let slow = folder.path().join("slow.toml");
    fs::write(&slow, format!("{keys}{settings}slowdown = \"stage:1=1.5\"\n")).unwrap();
    let refusal = run(&format!("search {}", slow.display()));
    refused(&refusal, &["slowdown cannot be taken into account", "slow.toml", "here"]);
}

/// Whether `output` says nothing on stderr but how far it is, on a machine that is busy.
fn is_silent(output: &std::process::Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().all(|line| line.starts_with("progress: "))
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_keeps_the_best() {
    let long = "search --stages 8 --microbatches 24 --forward 20ms --backward-input 21ms \
                --backward-weight 15ms --hop 5ms --memory-limit 1.3p --effort 1000000";
    let Some(output) = crate::ctrl_c::interrupted(long) else { return };
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("published"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: the best so far"));
}

#[test]
fn a_key_that_is_gone_is_refused_with_what_does_its_work() {
    let cure = "a search with --ilp proves the optimum of small pipelines";
    refused(&run(&format!("search {QUESTION} --exact")), &["unexpected argument '--exact'", cure]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("question.toml");
    fs::write(&file, "stages = 3\nmicrobatches = 6\nexact = true\n").unwrap();
    refused(&run(&format!("search {}", file.display())), &["no key `exact`", cure]);
}

#[test]
fn what_is_settled_is_proved_by_its_argument() {
    let settled = json(&format!("search {QUESTION} --memory-limit 1p --effort 0"));
    assert_eq!((&settled[0]["gap_ns"], &settled[0]["argument"]), (&0.into(), &"cycles 0 0".into()));
}

/// Passes as chains of segments: 4 stages, 12 microbatches, two chunks per stage.
const CHAINED: &str = "--stages 4 --microbatches 12 --chunks 2 --layers 16 --hop 1ms --chain \
     attention=4ms/9ms/2ms,dispatch=6ms/7ms,experts=4ms/5ms/6ms,combine=8ms/5ms";

#[test]
fn pairs_are_searched_and_what_is_found_is_simulated_alike() {
    let folder = tempfile::tempdir().unwrap();
    let best = folder.path().join("best.txt");
    let best = best.to_str().unwrap();
    let found = &results(&format!("search {CHAINED} --json --export {best}"))[0];
    let [cost, bound, published] =
        ["cost_ns", "bound_ns", "published_ns"].map(|key| found[key].as_u64().unwrap());
    assert!(bound < cost && cost < published, "{found}");
    assert_eq!(found["published"], "dualpipe-v");
    // What is known of the trip, of forwards alone and of pairs comes near.
    assert!(cost - bound < cost / 10, "{found}");
    assert!(fs::read_to_string(best).unwrap().contains('&'));
    let lone = "--lone-backward overlapped --json";
    let simulated = &results(&format!("simulate {CHAINED} --schedule {best} {lone}"))[0];
    assert_eq!(simulated["span_ns"].as_u64(), Some(cost), "{simulated}");
}

#[test]
fn proofs_of_pairs_are_refused() {
    for flag in ["--ilp", "--certificate c.cert", "--write-lp c.lp"] {
        let told = format!("{} knows passes on one stream", flag.split(' ').next().unwrap());
        refused(&run(&format!("search {CHAINED} {flag}")), &[&told, "help: leave it out"]);
    }
}
