//! `debubble plan --validate`: runs of today's models, in sample and held out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;
use crate::plan::{command, json};
use crate::plan_bars::measured_of_others;

/// Output and files of one run of the program: it takes long, so all tests share one.
struct Validated {
    sets: Vec<Value>,
    csv: String,
    svg: String,
    table: String,
}

fn validated() -> &'static Validated {
    static ONE: OnceLock<Validated> = OnceLock::new();
    ONE.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let [csv, svg] = ["rows.csv", "steps.svg"].map(|name| folder.path().join(name));
        let mut command = command();
        command.args(["plan", "--validate", "--json", "--csv"]).arg(&csv).arg("--svg").arg(&svg);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Validated {
            sets: serde_json::from_slice(&out.stdout).unwrap(),
            csv: fs::read_to_string(csv).unwrap(),
            svg: fs::read_to_string(svg).unwrap(),
            table: stdout(&crate::plan::command().args(["plan", "--validate"]).output().unwrap()),
        }
    })
}

/// The sets of today's runs, by name.
fn today() -> BTreeMap<&'static str, &'static Value> {
    const NAMES: [&str; 13] = [
        "FSDP",
        "NeMo, dense",
        "NeMo, experts",
        "LoRA",
        "MLPerf, dense",
        "MLPerf, experts",
        "Megatron-Bridge, dense",
        "Megatron-Bridge, experts",
        "torchtitan",
        "SimuMax, dense",
        "SimuMax, experts",
        "ccl-bench",
        "today, all rows",
    ];
    let sets = validated().sets.iter().map(|set| (set["set"].as_str().unwrap(), set));
    let own: BTreeMap<&str, &Value> = sets.filter(|(name, _)| NAMES.contains(name)).collect();
    assert_eq!(own.len(), NAMES.len());
    own
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Steps of `set` that are compared.
fn steps(set: &Value) -> Vec<&Value> {
    let rows = set["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["quantity"] == "s per iteration" && row["apart"].is_null()).collect()
}

fn mean(errors: &[f64]) -> f64 {
    let count = f64::from(u32::try_from(errors.len()).unwrap());
    errors.iter().map(|error| error.abs()).sum::<f64>() / count
}

#[test]
#[ignore = "slow"]
fn every_run_is_predicted_with_constants_that_did_not_see_it() {
    let sets = today();
    let mut all = Vec::new();
    for name in ["MLPerf, dense", "MLPerf, experts", "torchtitan"] {
        let rows = steps(sets[name]);
        assert!(rows.iter().all(|row| row["fitted"] == true), "{name}");
        all.extend(rows);
    }
    let bridge = ["Megatron-Bridge, dense", "Megatron-Bridge, experts"];
    all.extend(bridge.iter().flat_map(|name| steps(sets[name])));
    assert_eq!(all.len(), 167);
    let held_out = |row: &&Value| number(row, "held_out") / number(row, "measured") - 1.0;
    let held_out: Vec<f64> = all.iter().map(held_out).collect();
    let in_sample: Vec<f64> = all.iter().map(|row| number(row, "error")).collect();
    assert!(mean(&in_sample) < mean(&held_out));
    assert!(mean(&held_out) < 0.085, "{}", mean(&held_out));
    // ccl-bench is given, but nothing is fitted to it.
    assert!(steps(sets["ccl-bench"]).iter().all(|row| row["held_out"].is_null()));
}

#[test]
#[ignore = "slow"]
fn bars_are_what_rows_say() {
    let sets = today();
    let bars = sets["today, all rows"]["bars"].as_array().unwrap();
    let bar = |quantity: &str| bars.iter().find(|bar| bar["quantity"] == quantity).unwrap();
    let names = ["MLPerf, dense", "MLPerf, experts", "Megatron-Bridge, dense"];
    let names = names.iter().chain(&["Megatron-Bridge, experts", "torchtitan"]);
    let errors: Vec<f64> = names
        .flat_map(|name| steps(sets[*name]))
        .map(|row| number(row, "predicted") / number(row, "measured") - 1.0)
        .collect();
    let own = bar("step, in sample");
    assert!((number(own, "mean") - mean(&errors)).abs() < 1e-4, "{own}");
    assert_eq!(own["holds"], number(own, "mean") <= 0.05 && number(own, "p90") <= 0.12);
    // What no function of a set-up beats is below what is predicted.
    let floor = bar("step, each configuration at its own mean");
    assert!(number(floor, "mean") < number(own, "mean"));
    let constants = bar("constants that are fitted, at most 40");
    assert!(number(constants, "rows") <= 40.0 && constants["holds"] == true);
    assert!(number(bar("pairs of one release ranked wrong, in sample"), "rows") > 100.0);
}

#[test]
fn rows_and_picture_are_those_of_the_answer() {
    let one = validated();
    let header = one.csv.lines().next().unwrap();
    assert_eq!(
        header,
        "set,run,quantity,measured,predicted,error,fitted,kind,held_out,without_source,set_apart"
    );
    let rows: usize = one.sets.iter().map(|set| set["rows"].as_array().unwrap().len()).sum();
    assert_eq!(one.csv.lines().count(), rows + 1);
    let spots = one.svg.lines().filter(|line| line.starts_with("<path class=\"spot\"")).count();
    let rows = one.sets.iter().flat_map(|set| set["rows"].as_array().unwrap());
    let times = rows.filter(|row| row["quantity"].as_str().unwrap().starts_with("s per"));
    assert_eq!(spots, times.count());
}

/// Runs that the model does not know stand apart, in the picture of the answer and in the committed one.
#[test]
fn runs_that_the_model_does_not_know_have_a_panel_of_their_own() {
    let apart = steps(today()["ccl-bench"]).len();
    let title = format!("\nccl-bench, {apart} runs\n");
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/results/planner-today.svg");
    for svg in [&validated().svg, &fs::read_to_string(committed).unwrap()] {
        assert!(svg.contains(&title) && svg.contains("6 % of its"), "{title}");
        assert_eq!(svg.matches("fill=\"#808080\"").count(), apart);
        // It is not a series of the others.
        assert!(!svg.contains("\nccl-bench\n"));
    }
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    assert!(readme.contains(&format!("{apart} runs of ccl-bench in a panel of their own")));
}

/// The numbers of the errors of a kind, as they are recorded.
pub(crate) fn numbers_of(kind: &Value) -> Vec<String> {
    let counts = |keys: &[&str]| keys.iter().map(|key| kind[*key].to_string()).collect::<Vec<_>>();
    let share =
        |key: &&str| kind[*key].as_f64().map_or_else(String::new, |one| format!("{one:.4}"));
    let shares = |keys: &[&str]| keys.iter().map(share).collect::<Vec<_>>();
    [
        counts(&["rows", "fitted"]),
        shares(&["mean", "held_out_mean", "error", "max", "shortest", "longest"]),
        counts(&["configurations", "sequence_most", "devices_most"]),
        vec![kind["precisions"].as_str().unwrap().to_owned()],
        vec![kind["widths"].as_str().unwrap().to_owned()],
    ]
    .concat()
}

/// Errors of kinds of today's devices stand beside plans, recorded: they are found again.
#[test]
#[ignore = "slow"]
fn recorded_errors_of_today_are_those_that_are_found() {
    let text = fs::read_to_string("scenarios/paper/today-errors.csv").unwrap();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let recorded: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    let mut found = Vec::new();
    for kind in today().values().flat_map(|set| set["kinds"].as_array().unwrap()) {
        let words = ["set", "kind"].map(|key| kind[key].as_str().unwrap().to_owned());
        found.push([&words[..], &numbers_of(kind)[..]].concat());
    }
    let alike = |(one, other): (&String, &String)| match (one.parse::<f64>(), other.parse::<f64>())
    {
        // A percentage point is no other answer.
        (Ok(one), Ok(other)) => (one - other).abs() < 0.01,
        _ => one == other,
    };
    let lines = |all: &[Vec<String>]| -> String {
        let quoted = |row: &Vec<String>| {
            let (words, numbers) = row.split_at(2);
            format!("\"{}\",{}\n", words.join("\",\""), numbers.join(","))
        };
        all.iter().map(quoted).collect()
    };
    let mut all = recorded.iter().flatten().zip(found.iter().flatten());
    let same = recorded.len() == found.len() && all.all(alike);
    assert!(same, "write these into scenarios/paper/today-errors.csv:\n{}", lines(&found));
}

/// A plan on H100 with flash attention has the error of measured runs of its kind.
#[test]
fn plans_on_todays_devices_have_an_error_bar() {
    let question = crate::plan::SMALL
        .replace("a100-80g", "h100")
        .replace("[8, 16]", "[16]")
        .replace("[noise]", "[search]\nzero = [1]\n[noise]");
    let answer = json(&question);
    let bar = &answer["errors"][0];
    assert!(bar["kind"].as_str().unwrap().starts_with("H100 80GB, flash attention"), "{bar}");
    let told = |tuning: &str| {
        let training = format!("[training]\ntuning = \"{tuning}\"\n[search]");
        json(&question.replace("[search]", &training))["errors"][0].clone()
    };
    let [tuned, stock] = ["tuned", "stock"].map(told);
    for bar in [bar, &tuned, &stock] {
        assert!(number(bar, "low") > 0.0 && number(bar, "high") < 0.6, "{bar}");
    }
    // Nobody says whose software it is: then it may be either.
    assert!(number(bar, "high") > number(&tuned, "high") + 0.1, "{bar} {tuned}");
    assert!(number(bar, "high") >= number(&stock, "high"), "{bar} {stock}");
    assert_eq!(number(bar, "low"), number(&tuned, "low"));
}

/// The intervals that steps would have had without their source hold most of them, and are not as wide as that
/// anything would. Rows set apart count in the main figure.
#[test]
#[ignore = "slow"]
fn intervals_hold_the_steps_of_a_source_that_is_left_out() {
    let table = &validated().table;
    let lines = table.lines().skip_while(|line| !line.starts_with("source left out"));
    let rows: Vec<Vec<&str>> = lines
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let share = |cell: &str| -> f64 {
        let share = cell.rsplit(", ").next().unwrap().trim_end_matches(" %");
        share.parse().unwrap_or_else(|_| panic!("{cell}"))
    };
    assert!(rows.len() >= 10, "{table}");
    for row in rows.iter().filter(|row| row[0] != "ccl-bench") {
        assert!(share(row[2]) >= 75.0 && share(row[5]) >= 89.0, "{row:?}");
    }
    let all = rows.last().unwrap();
    assert!(share(all[2]) < share(all[5]), "{all:?}");
    assert!(share(all[5]) >= 90.0 && share(all[3]) > 5.0, "{all:?}");
    // Without the measurements of others there are fewer rows, and intervals are wider.
    if measured_of_others() {
        assert!(share(all[3]) <= 20.0, "{all:?}");
    }
}

/// Coverage as JSON counts every row that is set apart, by its reason.
#[test]
fn coverage_counts_rows_that_are_set_apart() {
    let sets = today();
    let coverage = sets["today, all rows"]["coverage"].as_array().unwrap();
    for name in ["MLPerf", "Megatron-Bridge", "torchtitan", "ccl-bench"] {
        let own = coverage.iter().find(|one| one["source"] == name).unwrap();
        assert!(number(own, "covered") <= number(own, "configurations"), "{own}");
        let told: BTreeSet<&str> = own["apart"].as_array().unwrap().iter().map(reason).collect();
        let of_source = sets.iter().filter(|(set, _)| set.split(", ").next() == Some(name));
        let rows = of_source.flat_map(|(_, set)| set["rows"].as_array().unwrap());
        let reasons = rows.filter(|row| row["quantity"] == "s per iteration");
        for apart in reasons.filter_map(|row| row["apart"].as_str()) {
            assert!(told.contains(apart), "{name}: {apart}");
        }
    }
    let table = &validated().table;
    assert!(table.contains("not predicted (the sizes of its model are not known)"), "{table}");
}

fn reason(apart: &Value) -> &str {
    apart["reason"].as_str().unwrap()
}
