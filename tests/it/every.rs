//! Every family side by side: who answers, who cannot and why, the Pareto front and its picture.

use std::fs;

use pipeline::{Family, Vocabulary};
use serde_json::Value;

use crate::cli::{debubble, refused, results, run, stdout};

const TIMES: &str =
    "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 500us --offload-ratio 0.7";

fn every(rest: &str) -> Value {
    let line = format!("simulate --json {TIMES} {rest}");
    serde_json::from_str(&stdout(&run(&line))).unwrap()
}

fn names(all: &Value) -> Vec<String> {
    let all = all.as_array().unwrap().iter();
    all.map(|one| one["schedule"].as_str().unwrap().to_owned()).collect()
}

/// The families that need no times of a vocabulary in shards, or those that do.
fn split(shards: bool) -> Vec<String> {
    let all = Family::ALL.into_iter();
    let chosen = all.filter(|one| (one.vocabulary() != Vocabulary::Whole) == shards);
    chosen.map(|family| family.name().to_owned()).collect()
}

fn families() -> Vec<String> {
    let zb_auto = std::iter::once("zb-auto".to_owned());
    split(false).into_iter().chain(zb_auto).collect()
}

/// `names` and the families that need times of shards.
fn and_shards(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).chain(split(true)).collect()
}

/// Whether another answer is better in both; peaks are in bytes, or in chunks of whole
/// microbatches.
fn is_beaten(one: &Value, all: &[Value]) -> bool {
    let of = |one: &Value| {
        let peak = |key: &str| {
            let peaks = one[key].as_array()?.iter().map(|peak| peak.as_f64().unwrap());
            peaks.max_by(f64::total_cmp)
        };
        let parts = one["chunks"].as_f64().unwrap() * one["segments"].as_f64().unwrap_or(1.0);
        let memory = peak("peak_activation_bytes");
        let memory = memory.unwrap_or_else(|| peak("peak_in_flight").unwrap() / parts);
        (memory, one["bubble_rate"].as_f64().unwrap())
    };
    // What trains asynchronously is not an alternative.
    let compared = |one: &&Value| one["measured_updates"].is_null();
    let (memory, bubble) = of(one);
    !compared(&one)
        || all.iter().filter(compared).map(of).any(|other| {
            other.0 <= memory && other.1 <= bubble && (other.0 < memory || other.1 < bubble)
        })
}

#[test]
fn all_is_every_family_at_the_same_work() {
    let sizes = "--activation 1GiB --memory-limit 1.5p";
    for question in ["--stages 4 --microbatches 12", "--stages 8 --microbatches 24"] {
        let answer = every(&format!("--schedule all {question} {sizes}"));
        assert_eq!(names(&answer["results"]), families());
        assert_eq!(names(&answer["refused"]), and_shards(&[]));
        let work = &answer["results"][0]["work_ns"];
        for one in answer["results"].as_array().unwrap() {
            assert_eq!(&one["work_ns"], work, "{}", one["schedule"]);
            assert_eq!(one["microbatches"], answer["results"][0]["microbatches"]);
            assert_eq!(one["memory_limit_bytes"], answer["results"][0]["memory_limit_bytes"]);
        }
        // What does not fit stays, as not fitting.
        assert_eq!(answer["results"][0]["fits"], false);
        assert_eq!(answer["results"][1]["fits"], true);
    }
}

/// The answer to each is the same as when it is asked alone.
#[test]
fn all_says_what_each_says_alone() {
    let question = "--stages 4 --microbatches 8 --activation 1GiB --memory-limit 5GiB";
    let answer = every(&format!("--schedule all {question}"));
    for one in answer["results"].as_array().unwrap() {
        let name = one["schedule"].as_str().unwrap();
        let mut one = one.clone();
        one.as_object_mut().unwrap().remove("on_front").unwrap();
        let alone = results(&format!("simulate --json {TIMES} {question} --schedule {name}"));
        assert_eq!([one], alone[..]);
    }
}

#[test]
fn who_cannot_is_named_with_the_reason() {
    let question = "--stages 3 --microbatches 5 --chunks 3 --group 3";
    let answer = every(&format!("--schedule all {question}"));
    let reasons = answer["refused"].as_array().unwrap();
    let cannot = ["dualpipe", "dualpipe-v", "stp", "chimera", "hanayo"];
    assert_eq!(names(&answer["refused"]), and_shards(&cannot));
    assert_eq!(names(&answer["results"]).len() + reasons.len(), Family::ALL.len() + 1);
    assert_eq!(reasons[0]["reason"], "needs an even number of stages, not 3");
    for (one, name) in reasons.iter().zip(names(&answer["refused"])) {
        let alone = run(&format!("simulate {TIMES} {question} --schedule {name}"));
        refused(&alone, &[&format!("{name} {}", one["reason"].as_str().unwrap())]);
    }
    let text = stdout(&run(&format!("simulate {TIMES} {question} --schedule all")));
    let (table, below) = text.split_once("not simulated\n").unwrap();
    assert!(
        below.starts_with("dualpipe            needs an even number of stages, not 3\n"),
        "{below}"
    );
    assert!(below.lines().any(|line| line.starts_with("hanayo              needs")), "{below}");
    assert!(!table.contains("hanayo") && !table.contains("chimera"), "{table}");
}

/// A limit that the orders of some cannot be made for.
#[test]
fn limits_that_are_too_small() {
    let answer = every(
        "--schedule all --stages 4 --microbatches 12 --activation 1GiB,1GiB,1GiB,2GiB \
                        --memory-limit 1200MiB,1200MiB,1200MiB,2400MiB",
    );
    let reasons = answer["refused"].as_array().unwrap();
    assert!(!reasons.is_empty());
    let shards = split(true);
    let whole = |one: &&Value| shards.iter().all(|name| one["schedule"] != name.as_str());
    for one in reasons.iter().filter(whole) {
        let reason = one["reason"].as_str().unwrap();
        assert!(reason.contains("limit") && !reason.starts_with("--"), "{reason}");
    }
    assert_eq!(answer["results"][0]["fits"], false);
}

/// Each setting has its own refusals and its own front, also if settings have no names.
#[test]
fn settings_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    let head = "schedule = [\"all\"]\nforward = \"1ms\"\nbackward-input = \"1ms\"\n\
                backward-weight = \"1ms\"\nmicrobatches = 12\noffload-ratio = 0.7\n";
    let two = |names: [&str; 2]| {
        let settings = names
            .iter()
            .zip([3, 4])
            .map(|(name, p)| format!("[[setting]]\n{name}\nstages = {p}\n"));
        fs::write(&file, [head.to_owned()].into_iter().chain(settings).collect::<String>())
            .unwrap();
        let args = ["simulate".as_ref(), file.as_os_str(), "--json".as_ref()];
        serde_json::from_str::<Value>(&stdout(&debubble(args))).unwrap()
    };
    for answer in [two(["", ""]), two(["name = \"deep\"", "name = \"deeper\""])] {
        let refused = [and_shards(&["dualpipe", "chimera"]), and_shards(&[])].concat();
        assert_eq!(names(&answer["refused"]), refused);
        let all = answer["results"].as_array().unwrap();
        let (three, four) = all.split_at(families().len() - 2);
        assert_eq!(four.len(), families().len());
        for part in [three, four] {
            for one in part {
                assert_eq!(one["on_front"], !is_beaten(one, part), "{one}");
            }
        }
    }
    let answer = two(["name = \"deep\"", "name = \"deeper\""]);
    assert_eq!(answer["refused"][0]["setting"], "deep");
    assert_eq!(answer["refused"][0]["reason"], "needs an even number of stages, not 3");
}

#[test]
fn the_front_is_what_nothing_beats() {
    for question in [
        "--stages 4 --microbatches 7",
        "--stages 8 --microbatches 32 --activation 3GiB,1GiB,1GiB,1GiB,1GiB,1GiB,1GiB,2GiB",
    ] {
        let answer = every(&format!("--schedule all {question}"));
        let all = answer["results"].as_array().unwrap();
        let marked = all.iter().filter(|one| one["on_front"] == true).count();
        assert!(marked > 1 && marked < all.len());
        for one in all {
            assert_eq!(one["on_front"], !is_beaten(one, all), "{one}");
        }
        let text = stdout(&run(&format!("simulate {TIMES} --schedule all {question}")));
        let stars =
            text.lines().filter(|line| line.trim_end_matches("  best").ends_with(" *")).count();
        assert_eq!(stars, marked);
        assert!(text.contains("\n* on the Pareto front"), "{text}");
        assert!(text.contains("seq1f1b: the passes are of segments, 2 to a microbatch."), "{text}");
    }
    // Not asked for, not there.
    let few = every("--schedule 1f1b,zb-h1 --stages 4 --microbatches 8");
    assert!(few["results"][0]["on_front"].is_null() && few["refused"].is_null());
    let text =
        stdout(&run(&format!("simulate {TIMES} --schedule 1f1b --stages 4 --microbatches 8")));
    assert!(!text.contains("front"), "{text}");
}

#[test]
fn sorted_rows() {
    let by = |sort: &str| {
        let answer = every(&format!(
            "--schedule all --stages 4 --microbatches 12 --activation 1GiB --sort {sort}"
        ));
        let all = answer["results"].as_array().unwrap().clone();
        // Asynchronous schedules stand behind those that they do not compare with.
        let stale = |one: &Value| one["asynchronous"] == true;
        assert!(all.is_sorted_by_key(stale) && stale(all.last().unwrap()), "{sort}");
        all
    };
    let synchronous = |all: Vec<Value>| -> Vec<Value> {
        all.into_iter().filter(|one| one["asynchronous"] == false).collect()
    };
    let rising = |values: Vec<f64>| values.is_sorted();
    let number = |key: &'static str| move |one: &Value| one[key].as_f64().unwrap();
    assert!(rising(synchronous(by("bubble")).iter().map(number("bubble_rate")).collect()));
    assert!(rising(synchronous(by("step")).iter().map(number("span_ns")).collect()));
    let peak = |one: &Value| {
        one["peak_activation_bytes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p.as_f64().unwrap())
            .fold(0.0, f64::max)
    };
    assert!(rising(synchronous(by("memory")).iter().map(peak).collect()));
    assert_eq!(by("memory").len(), families().len());
    refused(
        &run(&format!("simulate {TIMES} --schedule all --sort name")),
        &["--sort", "bubble, memory, step"],
    );
}

#[test]
fn all_beside_other_names() {
    let question = "--stages 4 --microbatches 12";
    let mixed = every(&format!("--schedule zb-v,all,1f1b,all,zb-v {question}"));
    let mut expected: Vec<String> = families();
    expected.retain(|name| name != "zb-v" && name != "1f1b");
    expected.insert(0, "zb-v".to_owned());
    expected.push("1f1b".to_owned());
    assert_eq!(names(&mixed["results"]), expected);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.txt");
    fs::write(&file, stdout(&run(&format!("export --schedule 1f1b {question} {TIMES}")))).unwrap();
    let mine = every(&format!("--schedule all,{} {question}", file.display()));
    assert_eq!(names(&mine["results"]).last().unwrap(), "mine");
    assert_eq!(names(&mine["results"]).len(), families().len() + 1);
}

#[test]
fn bad_mixes() {
    let ask = |rest: &str| run(&format!("simulate {TIMES} {rest}"));
    let odd = "--stages 3 --microbatches 12";
    // What is named by itself must have an answer.
    refused(
        &ask(&format!("{odd} --schedule all,dualpipe")),
        &["dualpipe needs an even number of stages"],
    );
    refused(&ask(&format!("{odd} --schedule all,zb-9")), &["there is no schedule `zb-9`"]);
    refused(&ask(&format!("{odd} --schedule all,missing.txt")), &["cannot read missing.txt"]);
    let huge = "--stages 1024 --microbatches 8192";
    refused(&ask(&format!("--schedule all {huge}")), &["at most 100000000 together"]);
    // What no family can do is an error of the whole.
    refused(&ask("--schedule all --stages 0 --microbatches 12"), &["stages"]);
    refused(&ask("--schedule all --stages 4"), &["--microbatches missing"]);
    refused(
        &ask(&format!("{odd} --schedule all --memory-limit 1GiB")),
        &["needs the sizes of activations"],
    );
    refused(&ask(&format!("{odd} --schedule all --trace t.json")), &["--trace takes one timeline"]);
    refused(&run(&format!("export --schedule all {odd} {TIMES}")), &["`all` means every schedule"]);
}

#[test]
fn a_sweep_takes_all() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["grid.toml", "grid.csv"].map(|name| folder.path().join(name));
    let text = "schedule = \"all\"\nmicrobatches = 12\nforward = \"1ms\"\nbackward-input = \"1ms\"\n\
                backward-weight = \"1ms\"\noffload-ratio = \"0.7\"\n[sweep]\nstages = [3, 4]\n";
    fs::write(&file, text).unwrap();
    let sweep =
        || debubble(["sweep".as_ref(), file.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    stdout(&sweep());
    let rows = fs::read_to_string(&out).unwrap();
    assert_eq!(rows.lines().count(), 1 + 2 * (Family::ALL.len() + 1));
    let failed = rows.lines().filter(|line| line.contains("needs an even number of stages"));
    assert_eq!(failed.count(), 2);
    fs::write(
        &file,
        text.replace("schedule = \"all\"\n", "stages = 4\n")
            .replace("stages = [3, 4]", "schedule = [\"1f1b\", \"all\"]"),
    )
    .unwrap();
    refused(&sweep(), &["an axis takes one schedule at a time", "above [sweep]"]);
}

/// Every family is named at its point and in the legend, with the front and the limit.
#[test]
fn the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.svg");
    let draw = |rest: &str| {
        let line = format!("simulate {TIMES} --stages 4 --microbatches 12 --schedule all --pareto");
        let rest = rest.split_whitespace().map(str::to_owned);
        let words = line.split_whitespace().map(str::to_owned);
        stdout(&debubble(words.chain([path.display().to_string()]).chain(rest)));
        fs::read_to_string(&path).unwrap()
    };
    let svg = draw("--memory-limit 1.5p");
    let words: Vec<&str> = svg
        .lines()
        .filter(|line| !line.starts_with('<'))
        .flat_map(|line| line.split(", "))
        .collect();
    for name in families() {
        // At its point alone.
        assert_eq!(words.iter().filter(|word| **word == name).count(), 1, "{name}");
    }
    assert!(
        svg.contains("Pareto front") && svg.contains("memory limit") && svg.contains("in p x M_B")
    );
    assert_eq!(svg, draw("--memory-limit 1.5p"));
    let model = "--hidden 4096 --heads 32 --seq 1024 --layers-per-stage 4 --microbatch-size 1";
    let svg = draw(model);
    assert!(svg.contains("peak activation memory, in GiB") && !svg.contains("memory limit"));
}

/// The picture of the book is that of its scenario, whose front the book shows.
#[test]
fn the_committed_picture_is_what_the_scenario_draws() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.svg");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let scenario = format!("{root}scenarios/all.toml");
    let args = ["simulate", &scenario, "--pareto", path.to_str().unwrap()];
    let text = stdout(&debubble(args));
    let committed = fs::read_to_string(format!("{root}results/all.svg")).unwrap();
    assert!(fs::read_to_string(&path).unwrap() == committed, "run make");
    let page = fs::read_to_string(format!("{root}docs/tutorial/memory-limit.md")).unwrap();
    let rows = text.lines().filter(|line| line.trim_end_matches("  best").ends_with(" *"));
    for row in rows {
        assert!(page.contains(row), "{row}");
    }
}
