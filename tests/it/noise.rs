//! Stragglers and noise on the command line: the same seed gives the same bytes, distributions are
//! what their parameters say, and noise there cannot be is refused with its reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::cli::{debubble, refused, results, run, stdout};

const QUESTION: &str = "--stages 4 --microbatches 8 --forward 10ms --backward-input 11ms \
                        --backward-weight 7ms --hop 500us";
const STORM: &str = "--slowdown stage:1=1.5,link:2-3=4 --jitter pass=lognormal:0.1,hop=pareto:2.5 \
                     --stall 0.01:50ms";

fn small(rest: &str) -> Output {
    run(&format!("simulate {QUESTION} --schedule 1f1b {rest}"))
}

fn small_results(rest: &str) -> Vec<Value> {
    results(&format!("simulate {QUESTION} --json {rest}"))
}

/// The file `name` with `text` in a folder of its own.
fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn with_file(key: &str, path: &Path) -> Output {
    small(&format!("{key}{}", path.display()))
}

proptest! {
    #![proptest_config(crate::draw::cases(12))]

    #[test]
    fn the_same_seed_has_the_same_bytes_on_any_number_of_threads(seed: u64) {
        let line = format!("{QUESTION} {STORM} --seed {seed} --replicas 60 --json");
        let threads = |count: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
            let args = ["simulate", "--schedule", "1f1b,zb-h1,zb-v"];
            command.args(args).args(line.split_whitespace()).env("RAYON_NUM_THREADS", count);
            stdout(&command.output().unwrap())
        };
        prop_assert_eq!(threads("1"), threads("2"));
    }
}

#[test]
fn seeds_differ_and_the_default_is_0() {
    let span = |rest: &str| {
        small_results(&format!("--schedule zb-h1 {STORM} {rest}"))[0]["span_ns"].as_u64().unwrap()
    };
    assert_eq!(span(""), span("--seed 0"));
    assert_ne!(span("--seed 1"), span("--seed 2"));
    // Without --replicas it is the first of them.
    let one = small_results(&format!("--schedule zb-h1 {STORM} --replicas 1"));
    assert_eq!(one[0]["monte_carlo"]["span_ns"]["mean"].as_f64(), Some(span("") as f64));
}

#[test]
fn without_noise_nothing_changes() {
    let calm = small_results("--schedule 1f1b,zb-v");
    assert!(calm.iter().all(|one| one.get("noise_free").is_none()));
    assert!(calm.iter().all(|one| one.get("monte_carlo").is_none()));
    // A neutral question goes through the noise and comes out the same.
    let neutral =
        small_results("--schedule 1f1b,zb-v --slowdown stage:0=1,link:0-1=1 --stall 0:1s");
    for (calm, mut neutral) in calm.into_iter().zip(neutral) {
        let noise_free = neutral.as_object_mut().unwrap().remove("noise_free").unwrap();
        assert_eq!(noise_free["span_ns"], calm["span_ns"]);
        assert_eq!(noise_free["bubble_rate"], calm["bubble_rate"]);
        assert_eq!(calm, neutral);
    }
}

/// Without hops, the last stage runs F0 BW0 F1 BW1 .. without a pause once it is the slowest: p-1
/// forwards come before, m k (F+BW) is its own work, and p-1 backwards follow.
#[test]
fn a_slow_last_stage_in_closed_form() {
    let line = "simulate --stages 4 --microbatches 8 --forward 10ms --backward-input 11ms \
                --backward-weight 7ms --schedule 1f1b --slowdown stage:3=1.5 --json";
    let result = &results(line)[0];
    let (each, ms) = (28, 1_000_000);
    assert_eq!(result["makespan_ns"], (8 * each * 3 / 2 + 3 * each) * ms);
    assert_eq!(result["noise_free"]["makespan_ns"], (8 + 3) * each * ms);
}

/// One stage, one microbatch: the span is F + B + W. Its mean stays 28 ms, and its standard
/// deviation is 0.2 sqrt(10^2 + 11^2 + 7^2) = 3.286 ms.
#[test]
fn replicas_have_the_mean_and_spread_of_theory() {
    let line = "simulate --stages 1 --microbatches 1 --forward 10ms --backward-input 11ms \
                --backward-weight 7ms --schedule 1f1b,zb-h1 --replicas 4000 --json";
    for law in ["normal:0.2", "lognormal:0.2"] {
        let both = results(&format!("{line} --jitter pass={law}"));
        let span = &both[0]["monte_carlo"]["span_ns"];
        let figure = |key: &str| span[key].as_f64().unwrap() / 1e6;
        // Five standard errors: 5 x 3.286 / sqrt(4000), and 5 x 3.286 / sqrt(8000), which for the
        // log-normal is an underestimate of a tenth or so.
        assert!((figure("mean") - 28.0).abs() < 0.26, "{law}: {span}");
        assert!((figure("stddev") - 3.286).abs() < 0.21, "{law}: {span}");
        // Nearly normal: P95 lies 1.645 standard deviations out; the standard error of that
        // quantile is 2.1 s / sqrt(4000) = 0.11, and the skew of the log-normal moves it by 0.3.
        assert!((figure("p95") - 33.4).abs() < 0.85, "{law}: {span}");
        // BW is B and then W: both schedules do the same here.
        assert_eq!(both[0]["monte_carlo"], both[1]["monte_carlo"]);
    }
}

#[test]
fn json_has_the_promised_keys() {
    let all = small_results(&format!("--schedule 1f1b,zb-h1 {STORM} --replicas 500"));
    for one in &all {
        let monte_carlo = &one["monte_carlo"];
        assert_eq!(monte_carlo["replicas"], 500);
        for key in ["span_ns", "makespan_ns", "bubble_rate", "bubble_rate_makespan"] {
            let figure = |name: &str| monte_carlo[key][name].as_f64().unwrap();
            let ascending = ["min", "p50", "p95", "p99", "max"].map(figure);
            assert!(ascending.is_sorted(), "{key}: {ascending:?}");
            assert!(figure("stddev") > 0.0);
            for name in ["mean", "p50", "p95", "p99"] {
                let interval = &monte_carlo[key][format!("{name}_ci95")];
                let [low, high] = [0, 1].map(|end| interval[end].as_f64().unwrap());
                assert!(low <= figure(name) && figure(name) <= high, "{key} {name}");
            }
        }
        assert!(monte_carlo["span_ns"]["p50"].is_u64());
        assert!(one["noise_free"]["span_ns"].as_u64() < monte_carlo["span_ns"]["min"].as_u64());
    }
    let few = &small_results(&format!("--schedule 1f1b {STORM} --replicas 4"))[0]["monte_carlo"];
    assert!(few["span_ns"]["mean_ci95"].is_null() && few["span_ns"]["p99_ci95"].is_null());
}

#[test]
fn tables_for_people() {
    let text = stdout(&small(&format!("{STORM} --replicas 400")));
    for part in ["noise-free span", "span, 400 replicas [95 %]", "P50", "P99", "bubble, 400"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

/// F 10 ms from 0: 4 ms at factor 1, then 6 ms of work at factor 2. Then BW 18 ms: 4 ms until 20 ms
/// do 2 of it, and the other 16 take 8 ms.
#[test]
fn a_profile_from_a_file() {
    let line = "simulate --stages 1 --microbatches 1 --forward 10ms --backward-input 11ms \
                --backward-weight 7ms --schedule 1f1b --json --slowdown-profile";
    let texts = [
        "time,factor\n4ms,2\n20ms,0.5\n",
        "# a throttled clock\ntime,stage,factor\n4ms,0,2\n\n20ms,0,0.5\n",
        "time, device, factor\r\n4ms, 0, 2\r\n20ms, 0, 0.5\r\n",
    ];
    for text in texts {
        let (_folder, path) = file("slow.csv", text);
        let result = &results(&format!("{line} {}", path.display()))[0];
        assert_eq!(result["makespan_ns"], 28_000_000, "{text}");
        assert_eq!(result["busy_ns"][0], 28_000_000, "{text}");
    }
    let (_folder, path) = file("slow.csv", "time,link,factor\n0s,0-1,3\n");
    let both =
        |rest: &str| small_results(&format!("--schedule zb-h1 {rest}"))[0]["makespan_ns"].as_u64();
    assert_eq!(
        both(&format!("--slowdown-profile {}", path.display())),
        both("--slowdown link:0-1=3")
    );
}

#[test]
fn a_scenario_finds_its_slowdown_profile_beside_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("slow.csv"), "time,factor\n0s,3\n").unwrap();
    let scenario = folder.path().join("q.toml");
    let keys = "schedule = [\"1f1b\"]\nstages = 2\nforward = \"1ms\"\nbackward-input = \"1ms\"\n\
                backward-weight = \"1ms\"\n";
    let text = format!("microbatches = 4\nslowdown-profile = \"slow.csv\"\n{keys}");
    fs::write(&scenario, text).unwrap();
    // 4 microbatches of 3 passes, each three times as long.
    let slowed = &results(&format!("simulate --json {}", scenario.display()))[0];
    assert_eq!(slowed["busy_ns"][0], 36_000_000);
    // An axis of a sweep too; a flag is relative to the current folder.
    let axes = "[sweep]\nmicrobatches = [4]\nslowdown-profile = [\"slow.csv\"]\n";
    fs::write(&scenario, format!("{keys}{axes}")).unwrap();
    let rows = folder.path().join("rows.csv");
    let [sweep, out] = [&scenario, &rows].map(|path| path.to_str().unwrap());
    assert!(crate::cli::debubble(["sweep", sweep, "--out", out]).status.success());
    let line = "simulate --stages 1 --microbatches 1 --forward 1ms --backward-input 1ms \
                --backward-weight 1ms --schedule 1f1b --slowdown-profile slow.csv";
    refused(&run(line), &["cannot read slow.csv"]);
}

#[test]
fn samples_from_a_file() {
    let spans = |text: &str| {
        let (_folder, path) = file("samples.txt", text);
        let line = "simulate --stages 1 --microbatches 1 --forward 10ms --backward-input 0ns \
                    --backward-weight 0ns --schedule 1f1b --replicas 400 --json --jitter";
        let line = format!("{line} pass=samples:{}", path.display());
        let span = &results(&line)[0]["monte_carlo"]["span_ns"];
        [&span["min"], &span["max"]].map(|end| end.as_u64().unwrap())
    };
    // Factors are taken as they are; durations over their mean, 20 ms.
    assert_eq!(spans("# factors\n1\n3\n"), [10_000_000, 30_000_000]);
    assert_eq!(spans("10ms\n30000us\n\n"), [5_000_000, 15_000_000]);
}

#[test]
fn scenarios_say_the_same_as_flags() {
    let (_folder, path) = file(
        "noise.toml",
        r#"
        schedule = "zb-h1"
        stages = 4
        microbatches = 8
        forward = "10ms"
        backward-input = "11ms"
        backward-weight = "7ms"
        hop = "500us"
        slowdown = ["stage:1=1.5", "link:2-3=4"]
        jitter = ["pass=lognormal:0.1", "hop=pareto:2.5"]
        stall = "0.01:50ms"
        seed = 7
        "#,
    );
    let flags = small_results(&format!("--schedule zb-h1 {STORM} --seed 7"));
    assert_eq!(results(&format!("simulate {} --json", path.display())), flags);
}

#[test]
fn a_timeline_is_that_of_replica_0() {
    let line = format!("{QUESTION} {STORM} --schedule zb-h1");
    let trace: Value =
        serde_json::from_str(&stdout(&run(&format!("export --format chrome {line}")))).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let ends = events.filter_map(|event| Some(event["ts"].as_f64()? + event["dur"].as_f64()?));
    let makespan = results(&format!("simulate {line} --json"))[0]["makespan_ns"].as_f64().unwrap();
    assert!((ends.fold(0.0, f64::max) - makespan / 1000.0).abs() < 1e-3);
}

#[test]
fn what_has_no_influence_is_said() {
    let said = |rest: &str| String::from_utf8(small(rest).stderr).unwrap();
    assert!(said("--seed 3").contains("the seed is ignored"));
    assert!(said("--replicas 3").contains("all replicas are alike"));
    assert!(said("--slowdown link:0-2=3").contains("1f1b: sends nothing over link 0-2"));
    assert!(!said("--slowdown link:1-0=3").contains("sends nothing"));
    let no_hops = QUESTION.replace("--hop 500us", "--schedule 1f1b --jitter hop=normal:0.1");
    let output = run(&format!("simulate {no_hops}"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("noise on links is ignored"));
}

#[test]
fn slowdowns_that_cannot_be() {
    let slowdown = |text: &str| small(&format!("--slowdown {text}"));
    refused(&slowdown("stage:4=2"), &["--slowdown: there is no stage 4", "has 4 stages"]);
    refused(&slowdown("link:3-4=2"), &["there is no link 3-4"]);
    refused(&slowdown("link:1-1=2"), &["link 1-1 is not a link"]);
    refused(&slowdown("device:9=2"), &["no stage runs on device 9"]);
    refused(&slowdown("stage:1=2,stage:1=3"), &["stage 1 has two slowdowns"]);
    for factor in ["0", "-1", "NaN", "inf", "1e300", "1e-300"] {
        refused(&slowdown(&format!("stage:1={factor}")), &["a factor must be from 0.000001"]);
    }
    for text in ["stage=2", "3=2", "stage:3", "rank:3=2", "=", "stage:1=2,"] {
        refused(&slowdown(text), &["is not a slowdown: write stage:3=1.5"]);
    }
    refused(&slowdown("stage:x=2"), &["`x` is not a stage"]);
    refused(&slowdown("stage:-1=2"), &["`-1` is not a stage"]);
    refused(&slowdown("link:3=2"), &["`3` is not a link", "as in 2-3"]);
    refused(&slowdown("stage:1=two"), &["`two` is not a number"]);
}

#[test]
fn jitter_that_cannot_be() {
    let jitter = |text: &str| small(&format!("--jitter {text}"));
    for spread in ["-0.1", "0.35", "NaN", "inf", "1e300"] {
        refused(&jitter(&format!("pass=normal:{spread}")), &["spread of a normal jitter"]);
    }
    for spread in ["-0.1", "11", "NaN", "inf"] {
        refused(&jitter(&format!("hop=lognormal:{spread}")), &["spread of a lognormal jitter"]);
    }
    for tail in ["1", "0", "-2", "NaN", "inf", "1001"] {
        refused(&jitter(&format!("hop=pareto:{tail}")), &["tail index of a pareto jitter"]);
    }
    for text in ["pass", "pass=uniform:1", "link=normal:0.1", "normal:0.1", "pass=samples:", ""] {
        let output = debubble(
            format!("simulate {QUESTION} --schedule 1f1b --jitter")
                .split_whitespace()
                .chain([text]),
        );
        refused(&output, &["is not a jitter: write pass= or hop="]);
    }
    refused(&jitter("pass=normal:x"), &["`x` is not a number"]);
    refused(&jitter("pass=normal:0.1,pass=pareto:2"), &["pass has two jitters"]);
    refused(&jitter("pass=samples:missing.txt"), &["cannot read missing.txt"]);
}

#[test]
fn stalls_seeds_and_replicas_that_cannot_be() {
    for probability in ["-0.1", "1.1", "NaN", "inf"] {
        refused(&small(&format!("--stall {probability}:1ms")), &["--stall", "from 0 to 1"]);
    }
    refused(&small("--stall 0.1"), &["is not a stall: write PROBABILITY:TIME"]);
    refused(&small("--stall 0.1:50"), &["--stall", "no unit"]);
    refused(&small("--stall x:50ms"), &["`x` is not a number"]);
    refused(&small("--seed -1"), &["--seed", "-1"]);
    refused(&small("--seed 1e3"), &["--seed"]);
    refused(&small("--replicas 0"), &["number of replicas must be from 1 to 10000000, not 0"]);
    refused(&small("--replicas 10000001"), &["from 1 to 10000000"]);
    refused(&small("--replicas many"), &["--replicas", "many"]);
}

#[test]
fn times_beyond_the_clock() {
    let long = "simulate --stages 2 --microbatches 2 --schedule 1f1b --forward 1000000s \
                --backward-input 1ms --backward-weight 1ms --slowdown stage:0=1000000";
    let message = "the times of the whole step add up to more than";
    refused(&run(long), &[message]);
    let rare = format!("{QUESTION} --schedule 1f1b --jitter pass=pareto:1.5 --replicas 2000");
    let stretched = rare.replace("11ms", "1000000s");
    let output = run(&format!("simulate {stretched} --slowdown stage:0=1000"));
    refused(&output, &[message]);
}

#[test]
fn profiles_with_mistakes_show_the_line() {
    let profile = |text: &str| {
        let (_folder, path) = file("p.csv", text);
        with_file("--slowdown-profile ", &path)
    };
    let backwards = "time,stage,factor\n5s,0,2\n1s,1,2\n\n# late\n4s,0,3\n";
    refused(&profile(backwards), &["p.csv:6:1", "must ascend, but 4s comes after 5s"]);
    refused(&profile("time,factor\n5s,2\n5s,3\n"), &["p.csv:3:1", "5s comes after 5s"]);
    refused(&profile("time,factor\n5,2\n"), &["p.csv:2:1", "`5` has no unit"]);
    refused(&profile("time,factor\n-5s,2\n"), &["p.csv:2:1", "negative"]);
    refused(&profile("time,factor\n5s,NaN\n"), &["p.csv:2:1", "a factor must be"]);
    refused(&profile("time,factor\n5s,0\n"), &["p.csv:2:1", "a factor must be"]);
    refused(&profile("time,factor\n5s,fast\n"), &["p.csv:2:1", "`fast` is not a number"]);
    refused(&profile("time,stage,factor\n5s,2\n"), &["p.csv:2:1", "2 columns", "has 3"]);
    refused(&profile("time,stage,factor\n1s,0,2\n5s,7,2\n"), &["p.csv:3:1", "no stage 7"]);
    refused(&profile("time,stage,factor\n5s,x,2\n"), &["p.csv:2:1", "`x` is not a stage"]);
    refused(&profile("time,link,factor\n5s,1,2\n"), &["p.csv:2:1", "`1` is not a link"]);
    refused(&profile("5s,2\n"), &["begins with a header"]);
    refused(&profile("time,factor\n"), &["no entry"]);
    refused(&profile(""), &["begins with a header"]);
    refused(&small("--slowdown-profile missing.csv"), &["cannot read missing.csv"]);
}

#[test]
fn samples_with_mistakes_show_the_line() {
    let samples = |text: &str| {
        let (_folder, path) = file("s.txt", text);
        with_file("--jitter pass=samples:", &path)
    };
    refused(&samples("1\n2\nthree\n"), &["s.txt:3:1", "not a number"]);
    refused(&samples("1\n2ms\n"), &["s.txt:2:1", "all factors or all durations"]);
    refused(&samples("1\n-1\n"), &["s.txt:2:1", "a factor must be"]);
    refused(&samples("1\nNaN\n"), &["s.txt:2:1", "a factor must be"]);
    refused(&samples("# none\n"), &["there are no samples"]);
    refused(&samples("0ms\n1ms\n"), &["a factor must be"]);
}

#[test]
fn scenarios_with_mistakes_show_the_line() {
    let whole = "schedule = \"1f1b\"\nstages = 4\nmicrobatches = 8\nforward = \"1ms\"\n\
                 backward-input = \"1ms\"\nbackward-weight = \"1ms\"\n";
    let with = |line: &str| {
        let (_folder, path) = file("q.toml", &format!("{whole}{line}\n"));
        run(&format!("simulate {}", path.display()))
    };
    assert_eq!(with("slowdown = \"stage:3=2\"").status.code(), Some(0));
    refused(&with("slowdown = \"stage:4=2\""), &["q.toml:7:12", "no stage 4"]);
    refused(&with("jitter = [\"pass=normal:9\"]"), &["q.toml:7", "normal jitter"]);
    refused(&with("stall = \"2:1ms\""), &["q.toml:7:9", "from 0 to 1"]);
    refused(&with("replicas = 0"), &["q.toml:7:12", "not 0"]);
    refused(&with("seed = -1"), &["q.toml:7:8"]);
    refused(&with("slowdown-profile = 3"), &["q.toml:7:20"]);
}
