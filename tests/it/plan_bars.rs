//! `debubble plan`: how far predicted steps may be off, by kind, and where that is known from.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;
use crate::plan::{SMALL, command, json, refusal, validate_a100};
use crate::planner_today::numbers_of;

const CORE: &str = "attention = \"core\"\ntokens = 1e9";
const ONE_NODE: &str = "A100 80GB, core attention, ZeRO 0-1, dense, one node";

/// The small question with core attention and without ZeRO-3, on one node, with `more` keys of the
/// search.
fn core(more: &str) -> String {
    let search = format!("[search]\nzero = [0, 1]\n{more}\n[noise]");
    let small = SMALL.replace("tokens = 1e9", CORE).replace("[8, 16]", "[8]");
    small.replace("[noise]", &search)
}

/// The bar of the first kind of a plan on `machine`, a file of that content.
fn bar(machine: &str) -> Value {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("own.toml"), machine).unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, core("").replace("a100-80g", "own.toml")).unwrap();
    let answer = stdout(&command().arg("plan").arg(&path).arg("--json").output().unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["plans"][0]["error"], answer["errors"][0]["error"]);
    answer["errors"][0].clone()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn validated() -> Vec<Value> {
    let out = validate_a100().arg("--json").output().unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The sizes of the errors on iterations of `kind`, by set, ascending.
fn errors_of(sets: &[Value], kind: &str) -> Vec<(String, Vec<f64>)> {
    let of_step = |row: &&Value| {
        let quantity = row["quantity"].as_str().unwrap();
        row["kind"] == kind && (quantity.starts_with("s per") || quantity == "samples/GPU/s")
    };
    let all = sets.iter().map(|set| {
        let rows = set["rows"].as_array().unwrap().iter().filter(of_step);
        let mut errors: Vec<f64> = rows.map(|row| number(row, "error").abs()).collect();
        errors.sort_by(f64::total_cmp);
        (set["set"].as_str().unwrap().to_owned(), errors)
    });
    all.filter(|(_, errors)| !errors.is_empty()).collect()
}

/// Whether there are measurements that the project reads in place, and does not keep.
pub(crate) fn measured_of_others() -> bool {
    let there = Path::new("../shared/measured/vtrain_ground_truth_single.csv").is_file();
    if !there {
        eprintln!("skipped: measurements of others are not there");
    }
    there
}

/// A bar is by the configurations of its kind where there are enough, and names the rows of the kind.
#[test]
fn a_bar_is_that_of_measured_rows_of_the_same_kind() {
    let sets = validated();
    let answer = json(&core(""));
    let bar = &answer["errors"][0];
    assert_eq!((&bar["kind"], &bar["level"]), (&ONE_NODE.into(), &"kind".into()));
    let mut rows = 0.0;
    for (set, errors) in errors_of(&sets, ONE_NODE) {
        let own = bar["sets"].as_array().unwrap().iter().find(|one| one["set"] == set.as_str());
        let own = own.unwrap_or_else(|| panic!("{set} is not in {bar}"));
        let error = errors[(errors.len() * 95).div_ceil(100) - 1];
        // Those of others are recorded.
        assert!((number(own, "error") - error).abs() < 0.005, "{set}: {error}, {own}");
        rows += f64::from(u32::try_from(errors.len()).unwrap());
    }
    assert!(number(bar, "rows") >= rows && rows > 0.0, "{bar}");
    let [low, high] = ["low", "high"].map(|key| number(bar, key));
    assert!(0.1 < low && low < high && high < 0.3, "{bar}");
    for plan in answer["plans"].as_array().unwrap() {
        assert_eq!(
            (&plan["error"], &plan["error_low"], &plan["error_high"]),
            (&bar["error"], &bar["low"], &bar["high"])
        );
        assert_eq!(plan["kind"], ONE_NODE);
    }
}

/// What was not measured on the generation of devices makes the bar wider.
#[test]
fn bars_widen_with_the_distance_from_measured_steps() {
    let flash = SMALL.replace("[8, 16]", "[8]").replace("[noise]", "[search]\nzero = [1]\n[noise]");
    let moe = flash.replace("heads = 16", "heads = 16\nffn = 8192\nexperts = 8\ntop-k = 2");
    let long = flash.replace("sequence = 1024", "sequence = 262144");
    assert_ne!(long, flash);
    let known = json(&flash)["errors"][0].clone();
    assert_eq!(known["level"], "kind");
    for (question, kind, level) in [
        (moe, "ZeRO 0-1, experts, one node", "devices"),
        (long, "flash attention, ZeRO 0-1, dense, one node", "kind"),
    ] {
        let answer = json(&question);
        let bar = &answer["errors"][0];
        assert!(bar["kind"].as_str().unwrap().contains(kind), "{kind}: {bar}");
        assert_eq!(bar["level"], level, "{bar}");
        assert!(number(bar, "configurations") >= 8.0, "{bar}");
        assert!(number(bar, "error") > number(&known, "error"), "{kind}: {bar} {known}");
    }
}

#[test]
fn devices_nobody_measured_say_so_everywhere() {
    let folder = TempDir::new().unwrap();
    let [path, page, csv] =
        ["plan.toml", "page.html", "p.csv"].map(|name| folder.path().join(name));
    fs::write(&path, SMALL.replace("a100-80g", "mi300x")).unwrap();
    let mut ask = command();
    ask.arg("plan").arg(&path).arg("--html").arg(&page).arg("--csv").arg(&csv);
    let out = stdout(&ask.output().unwrap());
    let said = "mi300x: nothing measured of this kind (MI300X 192GB, flash attention";
    // Lines wrap.
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains(said) && out.contains(" unknown "), "{out}");
    assert!(out.contains("nothing is measured on mi300x like this"), "{out}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains(said) && page.contains(">unknown<"));
    // Its picture too.
    let picture = page.split("</svg>").next().unwrap();
    assert!(picture.contains("nothing measured of this kind: the error"));
    // No number in either.
    assert!(!out.contains("in 95 % of runs") && !page.contains("in 95 % of runs"), "{out}");
    let rows = fs::read_to_string(&csv).unwrap();
    let column = rows.lines().next().unwrap().split(',').position(|name| name == "error").unwrap();
    assert!(rows.lines().skip(1).all(|row| row.split(',').nth(column) == Some("")), "{rows}");
    let answer = json(&SMALL.replace("a100-80g", "mi300x"));
    assert!(answer["plans"][0]["error"].is_null() && answer["errors"][0]["error"].is_null());
    assert_eq!(number(&answer["errors"][0], "rows"), 0.0);
}

/// The cheapest plan is on devices of which nothing is measured: another one is to be taken, and it says why.
#[test]
fn the_plan_to_take_is_on_devices_that_were_measured() {
    let folder = TempDir::new().unwrap();
    for name in ["a800", "h20", "l20", "l40s", "rtx-4090", "mi300x", "mi325x", "ascend-910b"] {
        let cheap = fs::read_to_string(format!("scenarios/machines/{name}.toml")).unwrap();
        let machine = folder.path().join("cheap.toml");
        fs::write(&machine, cheap.replace("on-demand = ", "on-demand = 0.01 # ")).unwrap();
        let other =
            format!("[[cluster]]\nmachine = \"{}\"\ndevices = 16\n[noise]", machine.display());
        let question = SMALL.replace("[noise]", &other);
        let answer = json(&question);
        let winner = &answer["plans"][usize::try_from(answer["winner"].as_u64().unwrap()).unwrap()];
        assert_eq!(winner["machine"], "a100-80g", "{name}");
        let plans = answer["plans"].as_array().unwrap();
        let least = plans.iter().map(|plan| number(plan, "dollars")).fold(f64::MAX, f64::min);
        assert!(least < number(winner, "dollars"), "{name}");
        let path = folder.path().join("plan.toml");
        fs::write(&path, question).unwrap();
        let out = stdout(&command().arg("plan").arg(&path).output().unwrap());
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            out.contains("would be cheaper by its data sheet")
                && out.contains("nothing is measured on it"),
            "{name}: {out}"
        );
    }
}

/// FlagPerf's step of Llama 3 8B on eight A800, which no fit has seen, and what PyTorch held of a device.
#[test]
fn a_published_step_of_a_device_without_a_fit_is_met() {
    let answer = json(&fs::read_to_string("scenarios/plan/llama3-8b-a800.toml").unwrap());
    let plan = &answer["plans"][0];
    let measured = 512.0 * 8192.0 / 8.0 / 3698.7;
    let apart = number(plan, "step_ns") / 1e9 / measured - 1.0;
    assert!((0.0..0.1).contains(&apart), "{apart}");
    assert!(plan["error"].is_null() && plan["fits"] == true, "{plan}");
}

#[test]
fn constants_of_ones_own_have_their_own_error() {
    let a100 = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let same = bar(&a100);
    let own = |bar: &Value| {
        let sets = bar["sets"].as_array().unwrap().iter();
        let zero_bubble = sets.filter(|set| set["set"] == "Zero Bubble, table 4");
        zero_bubble.map(|set| number(set, "error")).sum::<f64>()
    };
    let slow = bar(&a100.replace("matmul = 0.7878", "matmul = 0.4"));
    assert!(own(&slow) > 5.0 * own(&same), "{slow}");
    assert!(
        number(&slow, "high") + number(&slow, "low") > number(&same, "high") + number(&same, "low"),
        "{slow}"
    );
    let unknown = bar(&a100.replace("type = ", "# type = "));
    assert_eq!(number(&unknown, "rows"), 0.0);
    assert!(unknown["error"].is_null(), "{unknown}");
    let folder = TempDir::new().unwrap();
    let typed = a100.replace("[efficiency]", "[efficiency]\nerror = 0.01");
    let machine = folder.path().join("own.toml");
    fs::write(&machine, typed).unwrap();
    let text = refusal(&SMALL.replace("a100-80g", machine.to_str().unwrap()));
    assert!(text.contains("there is no key `error`"), "{text}");
}

/// The errors on measurements that are not part of the project are recorded; where those lie beside
/// the checkout, they are found again.
#[test]
fn recorded_errors_are_those_that_are_found() {
    if !measured_of_others() {
        return;
    }
    let text = fs::read_to_string("scenarios/paper/vtrain-errors.csv").unwrap();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let recorded: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    let mut found = Vec::new();
    for set in validated().iter().filter(|set| set["set"].as_str().unwrap().starts_with("vTrain")) {
        for kind in set["kinds"].as_array().unwrap() {
            let words = ["set", "kind"].map(|key| kind[key].as_str().unwrap().to_owned());
            found.push([&words[..], &numbers_of(kind)[..]].concat());
        }
    }
    let alike = |(one, other): (&String, &String)| match (one.parse::<f64>(), other.parse::<f64>())
    {
        // A percentage point is no other answer.
        (Ok(one), Ok(other)) => (one - other).abs() < 0.01,
        _ => one == other,
    };
    let mut all = recorded.iter().flatten().zip(found.iter().flatten());
    assert_eq!(recorded.len(), found.len());
    assert!(all.all(alike), "write these into scenarios/paper/vtrain-errors.csv: {found:?}");
}

/// Flash attention: of eight devices, the rows whose stages were fitted and those of twice their
/// length, which were not.
#[test]
fn flash_attention_is_right_on_rows_that_were_left_out_of_the_fit() {
    let sets = validated();
    let set =
        sets.iter().find(|set| set["set"] == "Vocabulary Parallelism, tables 5 and 6").unwrap();
    let rows = set["rows"].as_array().unwrap();
    let errors = |begins: &str, fitted: bool| {
        let own = rows.iter().filter(|row| row["run"].as_str().unwrap().starts_with(begins));
        let own = own.filter(|row| row["run"].as_str().unwrap().ends_with("BASELINE"));
        let own: Vec<&Value> = own.collect();
        assert_eq!(own.len(), 4, "{begins}");
        assert!(own.iter().all(|row| row["fitted"] == fitted), "{begins}");
        own.into_iter().map(|row| number(row, "error").abs()).fold(0.0, f64::max)
    };
    assert!(errors("1F1B on 8 s=2048", true) < 0.05);
    assert!(errors("1F1B on 8 s=4096", false) < 0.06);
}

#[test]
fn measurements_of_an_unknown_device_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("own.csv");
    let text = fs::read_to_string("scenarios/paper/megatron2021.csv").unwrap();
    fs::write(&path, text.replace("A100 80GB", "Gaudi 9")).unwrap();
    let out = command().args(["plan", "--validate"]).arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("Gaudi 9") && text.contains("H100 80GB"), "{text}");
}

/// The omissions of an answer stand under it, where they apply and only there.
#[test]
fn what_an_answer_leaves_out_stands_under_it() {
    let lines = |question: &str| -> Vec<String> {
        let answer = json(question);
        let all = answer["assumptions"].as_array().unwrap();
        all.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let one = SMALL.replace("[8, 16]", "[8]");
    let searching = |more: &str| one.replace("[noise]", &format!("[search]\n{more}\n[noise]"));
    let says = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    let with_experts = |size: u64| {
        let sizes = "heads = 16\nffn = 8192\nexperts = 8\ntop-k = 2";
        searching(&format!("tensor = [1]\nexpert = [{size}]")).replace("heads = 16", sizes)
    };
    let experts = with_experts(4);
    let [shared, whole] = [&experts, &with_experts(1)].map(|question| lines(question));
    assert!(says(&shared, "all-to-all") && says(&shared, "perfectly balanced"));
    assert!(!says(&whole, "all-to-all") && says(&whole, "perfectly balanced"));
    let plain = lines(&searching("tensor = [1]\npipeline = [1]\nzero = [1]"));
    for words in
        ["all-to-all", "perfectly balanced", "8-bit rate", "inside a pair", "tensor groups"]
    {
        assert!(!says(&plain, words), "{words}: {plain:?}");
    }
    assert!(says(&plain, "overlaps the last backward"));
    let dual = searching("pipeline = [4]\nschedule = [\"dualpipe-v\"]").replace("a100-80g", "h100");
    let dual = lines(&dual);
    assert!(says(&dual, "inside a pair") && says(&dual, "8-bit rate"));
    let behind = "[training]\noverlap-gradients = false\n[search]";
    let behind = searching("tensor = [2]\npipeline = [1]\nzero = [1]").replace("[search]", behind);
    let behind = lines(&behind);
    assert!(says(&behind, "after the step: the data-parallel") && says(&behind, "tensor groups"));
    let folder = TempDir::new().unwrap();
    let [path, page] = ["plan.toml", "page.html"].map(|name| folder.path().join(name));
    fs::write(&path, &experts).unwrap();
    let out = command().arg("plan").arg(&path).arg("--html").arg(&page).output().unwrap();
    let page = fs::read_to_string(&page).unwrap();
    let out = stdout(&out).split_whitespace().collect::<Vec<_>>().join(" ");
    for line in shared {
        assert!(out.contains(&line) && page.contains(&line), "{line}");
        assert!(line.len() <= 98, "{line}");
    }
}
