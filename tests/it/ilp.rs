//! The integer program: solved, certified, and written out so that other solvers find the same.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cli::{refused, run, stdout};

/// A small question whose best order formulas do not prove; without effort a search tries nothing else.
const OPEN: &str = "--stages 3 --microbatches 6 --forward 4ms --backward-input 4ms \
                    --backward-weight 4ms --hop 1ms --memory-limit 0.7p --effort 0";

fn json(line: &str) -> Value {
    let answer: Value = serde_json::from_str(&stdout(&run(&format!("{line} --json")))).unwrap();
    answer["results"][0].clone()
}

#[test]
fn the_program_proves_what_bounds_do_not_and_anybody_can_check_it() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof.toml").display().to_string();
    let searched = json(&format!("search {OPEN}"));
    assert_ne!(searched["gap_ns"], 0);
    assert_eq!((&searched["binaries"], &searched["solved"]), (&Value::Null, &Value::Null));
    let line = format!("search {OPEN} --ilp --certificate {proof}");
    let output = run(&line);
    let table = stdout(&output);
    assert!(table.contains("0: optimal") && table.contains("branching"), "{table}");
    assert!(
        table.contains("ilp 0.7p: 135 binaries") && table.contains("solved, proved optimal"),
        "{table}"
    );
    let solved = json(&line);
    assert_eq!((&solved["argument"], &solved["solved"]), (&"branching".into(), &true.into()));
    assert_eq!(solved["binaries"], 135);
    assert!(solved["bound_ns"].as_u64() > searched["bound_ns"].as_u64());
    assert!(solved["cost_ns"].as_u64() <= searched["cost_ns"].as_u64());
    let verdict = stdout(&run(&format!("verify {proof}")));
    assert!(verdict.contains("`branching` over all stages"), "{verdict}");
    assert!(verdict.contains("this order is optimal"), "{verdict}");
    let checked: Value =
        serde_json::from_str(&stdout(&run(&format!("verify {proof} --json")))).unwrap();
    assert_eq!((&checked["bound_ns"], &checked["holds"]), (&solved["bound_ns"], &true.into()));
    assert!(checked["branches"].is_u64());
    // A bound one higher is refused.
    let text = fs::read_to_string(&proof).unwrap();
    let [cost, bound] = ["cost_ns", "bound_ns"].map(|key| solved[key].as_u64().unwrap());
    let better = text
        .replace(&format!("cost-ns = {cost}"), &format!("cost-ns = {}", cost + 1))
        .replace(&format!("bound-ns = {bound}"), &format!("bound-ns = {}", bound + 1));
    fs::write(&proof, better).unwrap();
    assert_eq!(run(&format!("verify {proof}")).status.code(), Some(1));
}

/// A small pipeline whose best order, and its proof, a search alone does not have.
#[test]
fn a_search_of_a_small_pipeline_goes_on_until_its_order_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof.toml").display().to_string();
    let question = "--stages 3 --microbatches 5 --chunks 2 --forward 3ms --backward-input 4ms \
                    --backward-weight 2ms --hop 1ms --activation 1GiB --memory-limit 0.7p";
    let line = format!("search {question} --placement looped");
    let found = json(&format!("{line} --certificate {proof}"));
    assert_eq!((&found["cost_ns"], &found["gap_ns"]), (&79_500_000.into(), &0.into()));
    // The program is told of where it is asked for.
    assert_eq!((&found["argument"], &found["solved"]), (&"branching".into(), &Value::Null));
    let verdict = stdout(&run(&format!("verify {proof}")));
    assert!(verdict.contains("this order is optimal"), "{verdict}");
    // What the clock ends goes on until then; without effort nothing does.
    assert_eq!(json(&format!("{line} --time-limit 60s")), found);
    assert_ne!(json(&format!("{line} --effort 0"))["gap_ns"], 0);
    let written = fs::read_to_string(&proof).unwrap();
    let higher = written.replace("bound-ns = 79500000", "bound-ns = 79500001");
    fs::write(&proof, higher.replace("cost-ns = 79500000", "cost-ns = 79500001")).unwrap();
    assert_eq!(run(&format!("verify {proof}")).status.code(), Some(1));
}

/// A record beyond the small pipelines, whose order is close to its bound.
#[test]
fn a_search_that_comes_close_to_its_bound_goes_on_until_its_order_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    let question = folder.path().join("question.toml").display().to_string();
    let close = stdout(&run("records --scenario 6.2b-p8-m16-0.5p"));
    fs::write(&question, close).unwrap();
    let found = json(&format!("search {question}"));
    assert_eq!((&found["cost_ns"], &found["gap_ns"]), (&2_319_195_000_u64.into(), &0.into()));
    assert_eq!(found["argument"], "branching");
}

/// The logs of a V and of loops with branches, kept as they were once written. (What the first decides follows by
/// itself since W of chunks that are alike are in order.)
#[test]
fn a_log_that_was_written_once_holds_and_needs_its_branches() {
    let first = certificate::verify(include_str!("../golden/branching.cert")).unwrap();
    assert!(first.is_optimal() && first.branches == Some(16));
    let text = include_str!("../golden/branching-loop.cert");
    let verdict = certificate::verify(text).unwrap();
    assert!(verdict.is_optimal());
    assert_eq!(verdict.branches, Some(5));
    let (head, log) = text.split_once("proof = \"\"\"\n").unwrap();
    let words: Vec<&str> = log.trim_end_matches("\"\"\"\n").split_whitespace().collect();
    // Where a branch is cut off, all that is behind it must follow by itself.
    let mut needed = 0;
    for at in (0..words.len()).filter(|&at| words[at] != "x") {
        let mut open = 1;
        let length = words[at..].iter().take_while(|word| {
            let is_behind = open > 0;
            open = if **word == "x" { open - 1 } else { open + 1 };
            is_behind
        });
        let end = at + length.count();
        let cut = [&words[..at], &["x"], &words[end..]].concat().join(" ");
        match certificate::verify(&format!("{head}proof = \"{cut}\"\n")) {
            Ok(verdict) => assert!(verdict.branches < Some(5)),
            Err(refused) => {
                assert!(matches!(refused, certificate::Refusal::Bound { .. }), "{at}: {refused:?}");
                needed += 1;
            }
        }
    }
    assert!(needed > 3, "{needed}");
}

#[test]
fn what_is_settled_is_not_branched_over_and_what_takes_too_long_says_so() {
    let settled = json(
        "search --stages 4 --microbatches 8 --forward 4ms --backward-input 4ms \
                        --backward-weight 4ms --memory-limit 1p --ilp",
    );
    assert_eq!((&settled["nodes"], &settled["solved"]), (&0.into(), &true.into()));
    assert_ne!(settled["argument"], "branching");
    let large = "search --stages 8 --chunks 2 --placement v --microbatches 24 --forward 4ms --effort 0 \
                 --backward-input 4ms --backward-weight 4ms --hop 1ms --memory-limit 0.7p --ilp";
    let output = run(&format!("{large} --time-limit 100ms"));
    let table = stdout(&output);
    assert!(
        table.contains("not solved to the end, the bound is what was proved by then"),
        "{table}"
    );
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("the clock cut the solver short"), "{notes}");
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_keeps_what_is_known() {
    let long = "search --stages 8 --chunks 2 --placement v --microbatches 24 --forward 4ms --effort 0 \
                --backward-input 4ms --backward-weight 4ms --hop 1ms --memory-limit 0.7p --ilp \
                --time-limit 600s";
    let Some(output) = crate::ctrl_c::interrupted(long) else { return };
    assert_eq!(output.status.code(), Some(130));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("not solved to the end"), "{table}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: the best so far"));
}

#[test]
fn what_the_program_does_not_model_is_refused_with_a_cure() {
    let long = "search --stages 8 --microbatches 200 --forward 4ms --backward-input 4ms \
                --backward-weight 5ms --memory-limit 0.6p --effort 0 --ilp";
    refused(&run(long), &["--ilp: 4800 passes, whose order is 477600 binaries", "--write-lp"]);
    let instant = OPEN.replace("--backward-weight 4ms", "--backward-weight 0ms");
    let written = format!("search {instant} --write-lp order.lp");
    refused(&run(&written), &["above zero", "a nanosecond"]);
    assert_eq!(json(&format!("search {instant} --ilp"))["solved"], true);
    let two = "--memory-limits 1p,2p --write-lp order.lp";
    let open = OPEN.replace("--memory-limit 0.7p", two);
    refused(&run(&format!("search {open}")), &["--write-lp takes one search, but there are 2"]);
}

#[test]
fn other_solvers_find_the_same_optimum_in_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let cases = [
        OPEN,
        "--stages 3 --microbatches 4 --forward 3ms,5ms,4ms --backward-input 6ms --objective makespan \
         --backward-weight 2ms --hop 1ms --memory-limit 0.8p",
        "--stages 2 --chunks 2 --placement v --microbatches 3 --forward 4ms --backward-input 3ms \
         --backward-weight 5ms --hop 1ms --memory-limit 1p",
        "--stages 2 --chunks 2 --microbatches 2 --forward 4ms --backward-input 3ms \
         --backward-weight 5ms --hop 1ms --memory-limit 1p",
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let [lp, mps] = ["lp", "mps"].map(|form| at(&format!("{number}.{form}")));
        let solved = json(&format!("search {case} --ilp --write-lp {lp} --write-mps {mps}"));
        assert_eq!(solved["solved"], true, "{case}");
        let text = fs::read_to_string(&lp).unwrap();
        let unit = text.split("Times in ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let unit: f64 = unit.parse().unwrap();
        let mut python = Command::new("python3");
        let Ok(output) = python.arg("tests/solvers.py").args([&lp, &mps]).output() else {
            eprintln!("skipped: there is no python3");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{case}: {said}{errors}");
        if said.starts_with("skipped") {
            eprint!("{said}");
            return;
        }
        assert!(said.lines().count() >= 2, "{said}");
        for line in said.lines() {
            let optimum: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            let ours = solved["cost_ns"].as_f64().unwrap() / unit;
            assert!((optimum / ours - 1.0).abs() < 1e-6, "{case}: {line}, but {ours}");
        }
    }
}

#[test]
fn a_search_goes_on_from_a_certificate_of_its_question() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [first, solved, again, forged] =
        ["first.toml", "solved.toml", "again.toml", "forged.toml"].map(path);
    let open = json(&format!("search {OPEN} --certificate {first}"));
    assert_ne!(open["gap_ns"], 0);
    let proved = json(&format!("search {OPEN} --warm-start {first} --ilp --certificate {solved}"));
    assert_eq!(proved["gap_ns"], 0);
    assert!(proved["bound_ns"].as_u64() > open["bound_ns"].as_u64());
    // Without a solver, order, bound and proof are those of the certificate.
    let resumed = json(&format!("search {OPEN} --warm-start {solved} --certificate {again}"));
    for key in ["cost_ns", "bound_ns", "argument", "gap_ns"] {
        assert_eq!(resumed[key], proved[key], "{key}");
    }
    assert_eq!(fs::read_to_string(&again).unwrap(), fs::read_to_string(&solved).unwrap());
    let [bound, gap] = ["bound_ns", "gap_ns"].map(|key| open[key].as_u64().unwrap());
    let higher = fs::read_to_string(&first).unwrap();
    let higher =
        higher.replace(&format!("bound-ns = {bound}"), &format!("bound-ns = {}", bound + 1));
    let higher = higher.replace(&format!("gap-ns = {gap}"), &format!("gap-ns = {}", gap - 1));
    fs::write(&forged, higher).unwrap();
    let other = OPEN.replace("--hop 1ms", "--hop 2ms").replace("0.7p", "1p");
    for (line, expected) in [
        (format!("{OPEN} --warm-start {forged}"), ["forged.toml", "does not hold"]),
        (format!("{other} --warm-start {solved}"), ["another question", "hops, memory limit"]),
        (
            format!("{OPEN} --objective makespan --warm-start {solved}"),
            ["another question", "objective"],
        ),
        (
            format!("{OPEN} --chunks 2 --warm-start {solved}"),
            ["another question", "chunks per stage"],
        ),
        (format!("{OPEN} --warm-start {}", path("none.toml")), ["none.toml", "cannot read"]),
        (
            format!("{OPEN} --jitter pass=lognormal:0.1 --objective mean --warm-start {solved}"),
            ["--warm-start knows times without noise", "leave out --warm-start"],
        ),
        (
            format!("{OPEN} --microbatch-work 0.5,1.5,0.5,1.5,1,1 --warm-start {solved}"),
            ["--microbatch-work: --warm-start takes certificates", "leave it out"],
        ),
        (
            format!("{OPEN} --layers 6 --vary layers --warm-start {solved}"),
            ["--warm-start is about the order of one choice", "--export-scenario"],
        ),
    ] {
        refused(&run(&format!("search {line}")), &expected);
    }
}
