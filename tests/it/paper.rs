//! The published tables, cell by cell: what `make` checks, and the promise behind the README.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

fn cells(table: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.args(["reproduce", table, "--check", "--json", "--no-files"]);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["cells"].as_array().unwrap().clone()
}

/// The study of many minibatches takes longer than all others together: two tests look at one.
static OF_ODC: LazyLock<Vec<Value>> = LazyLock::new(|| cells("odc"));

/// Checks the figures themselves, not what the program says of them.
fn all_within(cells: &[Value], published: f64, regenerated: f64) {
    for cell in cells {
        let figure = |key: &str| cell[key].as_f64();
        let ours = figure("ours").unwrap();
        assert!((ours - figure("published").unwrap()).abs() <= published, "{cell}");
        if let Some(more) = figure("regenerated") {
            assert!((ours - more).abs() < regenerated, "{cell}");
        }
        assert_eq!(cell["match"], true, "{cell}");
    }
}

#[test]
fn table_2() {
    let cells = cells("table2");
    assert!(cells.len() >= 60);
    all_within(&cells, 0.0, 0.0);
}

#[test]
fn table_5() {
    let cells = cells("table5");
    assert_eq!(cells.len(), 12 * 6);
    all_within(&cells, 0.5e-4, 1e-8);
}

#[test]
fn table_8() {
    let cells = cells("table8");
    assert_eq!(cells.len(), 9 * 5);
    all_within(&cells, 0.5e-4, 1e-8);
}

#[test]
fn figure_9() {
    let cells = cells("fig9");
    assert_eq!(cells.len(), 17 * 9 * 2);
    all_within(&cells, 1e-9, 0.0);
}

#[test]
fn profiled_interleaved() {
    let cells = cells("interleave");
    assert_eq!(cells.len(), 12);
    all_within(&cells, 0.5e-4, 1e-8);
}

#[test]
fn vocabulary_parallelism() {
    let cells = cells("vocabulary");
    let of = |column: &str| {
        let of_column = cells.iter().filter(|cell| cell["column"] == column);
        of_column.map(error).collect::<Vec<f64>>()
    };
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    let iterations = of("iteration ms");
    assert!(iterations.len() == 20 && mean(&iterations) <= 0.015, "{iterations:?}");
    assert!(iterations.iter().all(|error| *error <= 0.025), "{iterations:?}");
    for (column, count, most, on_average) in [
        ("scaling of the output layer %", 12, 0.02, 0.006),
        ("scaling of the input layer %", 6, 0.1, 0.04),
        ("memory GB", 56, 0.03, 0.007),
        ("memory over VOCAB-2 GB", 16, 0.03, 0.01),
        ("MFU over BASELINE", 36, 0.08, 0.025),
        ("peak M_B", 3, 0.0, 0.0),
    ] {
        let errors = of(column);
        assert!(errors.len() == count && mean(&errors) <= on_average, "{column}: {errors:?}");
        assert!(errors.iter().all(|error| *error <= most), "{column}: {errors:?}");
    }
    // No row of a second host or a longer sequence was fitted to, and gains on one host are nearer.
    for cell in cells.iter().filter(|cell| cell["column"] == "MFU over BASELINE") {
        let row = cell["row"].as_str().unwrap();
        let one_host = row.contains("1F1B on 8");
        let fitted = one_host && row.ends_with("2048");
        assert_eq!(cell["convention"] == "measured, fitted to", fitted, "{cell}");
        assert!(error(cell) <= if one_host { 0.05 } else { 0.08 }, "{cell}");
    }
    let swapped = cells.iter().filter(|cell| cell["column"] == "pairs in another order");
    assert!(swapped.clone().count() == 4 && swapped.clone().all(|cell| cell["ours"] == 0.0));
}

fn error(cell: &Value) -> f64 {
    let figure = |key: &str| cell[key].as_f64().unwrap();
    ((figure("ours") - figure("published")) / figure("published")).abs()
}

#[test]
fn packing_of_odc() {
    let of_plans = |cell: &&Value| cell["convention"] == "packing code, run again";
    let cells: Vec<&Value> = OF_ODC.iter().filter(of_plans).collect();
    // 18 plans with 8 microbatch counts, 8 loads, 2 verdicts of deadlock, 2 times and 2 bubbles; 3
    // plans would deadlock collectives.
    assert_eq!(cells.len(), 18 * 22 - 3 * 2);
    for cell in &cells {
        let figure = |key: &str| cell[key].as_f64().unwrap();
        let (published, ours) = (figure("published"), figure("ours"));
        let tolerance = match cell["column"].as_str().unwrap().split([' ', ',']).next().unwrap() {
            "microbatches" | "deadlock" => 0.0,
            "bubble" => 0.51e-6,
            _ => 5.1e-6 * published,
        };
        assert!((ours - published).abs() <= tolerance, "{cell}");
    }
}

#[test]
fn speedups_of_odc() {
    let of = |row: &str, column: &str| {
        let found = OF_ODC.iter().find(|cell| cell["row"] == row && cell["column"] == column);
        found.unwrap_or_else(|| panic!("{row}, {column}"))
    };
    let figure = |cell: &Value, key: &str| cell[key].as_f64().unwrap();
    for (row, column, most) in [
        ("fine-tuning, costs as published", "largest gain, %", 36.0),
        ("packed samples", "largest idle share with collectives, %", 50.0),
    ] {
        let cell = of(row, column);
        let off = (figure(cell, "ours") - most).abs();
        assert!(figure(cell, "published") == most && off <= 5.0 && cell["match"] == true, "{cell}");
    }
    for task in ["longalign", "swe-smith", "aime"] {
        let cell = of(&format!("{task}, 1 sample a device"), "speed-up of every way");
        assert!(figure(cell, "ours") == 1.0 && cell["match"] == true, "{cell}");
    }
    // Reinforcement learning gains less the more samples a minibatch has; nothing of it is checked.
    let gain = |size: u64| {
        let cell = of(&format!("aime, 1.5b, 8 x {size}"), "gain of lb-mini on-demand, %");
        assert!(cell["match"].is_null());
        figure(cell, "ours")
    };
    assert!(gain(2) > gain(4) && gain(4) > gain(8) && gain(8) < 10.0);
    for (end, measured) in [("slowest: equal short samples", 0.78), ("fastest: long tail", 1.2)] {
        let cell = of("MI300X", end);
        assert_eq!(figure(cell, "ours") < 1.0, measured < 1.0);
        assert!(figure(cell, "published") == measured && cell["match"] == true, "{cell}");
        assert!(of("MI300X", &format!("{end}, figure"))["match"].is_null());
    }
}

#[test]
fn controllable_memory() {
    let cells = cells("controllable");
    assert_eq!(cells.len(), 2 * 39);
    all_within(&cells, 0.0, 0.0);
}

/// Closed forms and k to the digit, measurements within what the help states; what is not checked says why.
#[test]
fn pipeoffload() {
    let cells = cells("offload");
    let of = |key: &str, word: &str| -> Vec<&Value> {
        cells.iter().filter(|cell| cell[key] == word).collect()
    };
    let figure = |cell: &Value, key: &str| cell[key].as_f64().unwrap();
    let counts = ["formula", "about", "less than", "formula 1"].map(|c| of("convention", c).len());
    assert_eq!(counts, [48, 12, 12, 24]);
    for cell in of("convention", "formula") {
        assert_eq!(cell["ours"], cell["published"], "{cell}");
    }
    for cell in of("convention", "less than") {
        assert!(figure(cell, "ours") < figure(cell, "published"), "{cell}");
    }
    for cell in of("convention", "formula 1") {
        assert!((figure(cell, "ours") - figure(cell, "regenerated")).abs() <= 5e-5, "{cell}");
        assert!((figure(cell, "ours") / figure(cell, "published") - 1.0).abs() < 0.08, "{cell}");
    }
    let is_checked = |cell: &&&Value| !cell["match"].is_null();
    // Column, cells, checked cells.
    for (column, all, checked) in [
        ("slowdown %", 24, 15),
        ("activation GB", 26, 24),
        ("MFU over po-h", 20, 19),
        ("gain over tensor 8, %", 18, 3),
        ("memory over tensor 8", 18, 4),
        ("least gain, %", 1, 1),
        ("largest gain, %", 1, 1),
    ] {
        let own = of("column", column);
        assert_eq!((own.len(), own.iter().filter(is_checked).count()), (all, checked), "{column}");
        for cell in own.iter().filter(is_checked) {
            let (published, ours) = (figure(cell, "published"), figure(cell, "ours"));
            let off = (ours - published).abs();
            let holds = match column {
                "activation GB" => off <= 0.5 + 0.05 * (published + 0.5),
                // Whole percent of whole percent: 1.7 % of the ratio, at 59 and more.
                "MFU over po-h" => off / published <= 0.05 + 0.019,
                "gain over tensor 8, %" => (10.0..=21.0).contains(&ours),
                "memory over tensor 8" => ours <= 1.1,
                _ => off <= 2.0,
            };
            assert!(holds, "{cell}");
        }
    }
    let reasons = cells.iter().filter(|cell| cell["match"].is_null());
    let reasons: Vec<&str> = reasons.map(|cell| cell["convention"].as_str().unwrap()).collect();
    let known = reasons.iter().filter(|reason| reason.starts_with("known miss: ")).count();
    let others = reasons.iter().filter(|reason| reason.starts_with("not checked: ")).count();
    assert_eq!((known, known + others), (6, reasons.len()), "{reasons:?}");
}

/// The cells of `column`, of every convention.
fn in_column<'a>(cells: &'a [Value], column: &str) -> Vec<&'a Value> {
    let own: Vec<&Value> = cells.iter().filter(|cell| cell["column"] == column).collect();
    assert!(!own.is_empty(), "{column}");
    own
}

/// The errors of `cells` of one convention: their mean size, and the largest.
fn sizes(cells: &[&Value], convention: &str, error: impl Fn(&Value) -> f64) -> (usize, f64, f64) {
    let own = cells.iter().filter(|cell| cell["convention"] == convention);
    let errors: Vec<f64> = own.map(|cell| error(cell).abs()).collect();
    let mean = errors.iter().sum::<f64>() / f64::from(u32::try_from(errors.len()).unwrap());
    (errors.len(), mean, errors.iter().copied().fold(0.0, f64::max))
}

fn points(cell: &Value) -> f64 {
    cell["ours"].as_f64().unwrap() - cell["published"].as_f64().unwrap()
}

const FITTED: &str = "measured, in the fit";
const HELD_OUT: &str = "measured, held out";

#[test]
fn throughput_of_zero_bubble() {
    let cells = cells("throughput");
    // 12 settings of four schedules; 1.5B and 6.2B are at hand, and ZB-2p of the two others. Table 6
    // has nine of four, of which three are at hand.
    let speeds = in_column(&cells, "samples/GPU/s");
    assert_eq!(speeds.len(), 12 * 4 + 9 * 4);
    let not_at_hand = |cell: &&&Value| cell["convention"] == "not at hand";
    let alone: Vec<_> = speeds.iter().filter(not_at_hand).collect();
    assert_eq!(alone.len(), 24 - 2 + 24);
    assert!(alone.iter().all(|cell| cell["published"].is_null() && cell["match"].is_null()));
    assert!(alone.iter().all(|cell| cell["ours"].as_f64().unwrap() > 0.0));
    // What was fitted and what was not are as far off.
    for (convention, count) in [(FITTED, 24), (HELD_OUT, 14)] {
        let (found, mean, largest) = sizes(&speeds, convention, error);
        assert_eq!(found, count);
        assert!(mean < 0.05 && largest < 0.08, "{convention}: {mean} {largest}");
    }
    let memory = in_column(&cells, "peak GB");
    let (found, mean, largest) = sizes(&memory, HELD_OUT, error);
    assert!(found == 36 && mean < 0.04 && largest < 0.1, "{found} {mean} {largest}");
    let bounds = in_column(&cells, "upper bound, samples/GPU/s");
    let (found, mean, largest) = sizes(&bounds, FITTED, error);
    assert!(found == 6 && mean < 0.05 && largest < 0.08, "{found} {mean} {largest}");
    // Over two nodes gains are told by transfers that do not hold stages up.
    let planned = in_column(&cells, "gain over 1F1B");
    let aside = in_column(&cells, "gain, transfers beside");
    let (found, on_one_node, largest) = sizes(&planned, FITTED, points);
    assert!(found == 18 && on_one_node < 0.025 && largest < 0.05, "{on_one_node} {largest}");
    let (found, between, _) = sizes(&planned, "measured, beside", points);
    let (as_many, without, largest) = sizes(&aside, HELD_OUT, points);
    assert!(found == 9 && as_many == 9 && without < between / 2.0, "{between} {without}");
    assert!(largest < 0.05, "{largest}");
    let headline = in_column(&cells, "largest gain, transfers beside");
    assert_eq!(headline.iter().map(|cell| cell["published"].as_f64().unwrap()).sum::<f64>(), 0.99);
    assert!(headline.iter().all(|cell| points(cell).abs() < 0.05), "{headline:?}");
    let few = in_column(&cells, "step of few microbatches, ns");
    assert_eq!(few.len(), 4 * 3 * 4);
    assert!(few.iter().all(|cell| cell["ours"] == cell["published"]));
    let checked = |cell: &&Value| cell["match"] == true;
    let beside = |cell: &&Value| cell["match"].is_null();
    assert_eq!(
        cells.iter().filter(checked).count() + cells.iter().filter(beside).count(),
        cells.len()
    );
}

#[test]
fn post_validation_of_zero_bubble() {
    let cells = cells("post-validation");
    for (column, fitted, held_out) in
        [("post-validation, samples/GPU/s", 2, 2), ("all-reduce, samples/GPU/s", 0, 4)]
    {
        let own = in_column(&cells, column);
        let counts = [FITTED, HELD_OUT].map(|convention| sizes(&own, convention, error));
        assert_eq!([counts[0].0, counts[1].0], [fitted, held_out]);
        assert!(own.iter().all(|cell| error(cell) < 0.08), "{own:?}");
    }
    let gains = in_column(&cells, "gain of post-validation");
    let (found, mean, largest) = sizes(&gains, HELD_OUT, points);
    assert!(found == 4 && mean < 0.015 && largest < 0.03, "{mean} {largest}");
    // Without it the bubble that ZB-2p avoids is back.
    let [with, without] =
        ["bubble, post-validation", "bubble, all-reduce"].map(|column| in_column(&cells, column));
    for (with, without) in with.iter().zip(&without) {
        let more = without["ours"].as_f64().unwrap() - with["ours"].as_f64().unwrap();
        assert!(more > 0.05 && with["published"].is_null(), "{with} {without}");
    }
}

// CI makes this table as one of those of the README.
#[test]
#[ignore = "slow"]
fn encoders_in_bubbles() {
    let cells = cells("encoder");
    assert_eq!(cells.len(), 2 + 3 * 5 + 2 + 4 * 5 + 2);
    let matched = |cell: &&Value| cell["match"] == true;
    let checked: Vec<&Value> = cells.iter().filter(matched).collect();
    assert!(checked.len() >= 3, "{checked:?}");
    for cell in checked {
        let [ours, published] = ["ours", "published"].map(|key| cell[key].as_f64().unwrap());
        assert!((ours - published).abs() <= 5.0, "{cell}");
    }
    let largest = cells.iter().filter(|cell| cell["column"] == "largest gain, %");
    let over_balanced = largest.filter(|cell| cell["row"].as_str().unwrap().ends_with("balanced"));
    assert!(over_balanced.into_iter().all(|cell| cell["match"] == true));
}
