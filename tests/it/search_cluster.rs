//! Searches on a cluster and over several steps: the event engine judges, its figures are those of `simulate`, no
//! published schedule does better, and no bound exceeds what is found.

use std::fs;

use serde_json::Value;

use crate::cli::{refused, results, run, stdout};

/// Eight stages whose messages take longer than a pass where nodes are crossed.
const QUESTION: &str = "--stages 8 --microbatches 12 --forward 10.4ms --backward-input 10.2ms \
     --backward-weight 7.7ms --hidden 6144 --heads 48 --seq 2048 --layers-per-stage 2 --microbatch-size 1 \
     --effort 0";

/// Two nodes of four devices behind one NIC each, and a thin core.
const SLOW: &str = "devices-per-node = 4\nmemory = \"80GB\"\n[intra]\nbandwidth = \"32GB/s\"\nlatency = \"15us\"\n\
     [inter]\nnics = 1\nbandwidth = \"50Gbit/s\"\nlatency = \"50us\"\noversubscription = 2.0\n";

/// A folder with the cluster in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("slow.toml"), SLOW).unwrap();
        Self(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The question on the cluster, with `more` keys.
    fn question(&self, more: &str) -> String {
        let question = QUESTION.replace(" --effort 0", "");
        format!("{question} --cluster {} {more}", self.at("slow.toml"))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Whole nanoseconds.
fn number(row: &Value, key: &str) -> u64 {
    let value = &row[key];
    let whole = value.as_u64().or_else(|| value.as_f64().map(|nanos| nanos as u64));
    whole.unwrap_or_else(|| panic!("{key} of {row}"))
}

/// The figure of `simulated` that `objective` names.
fn figure(simulated: &Value, objective: &str) -> u64 {
    match objective {
        "step" => number(&simulated["hardware"], "step_ns"),
        other => number(simulated, &format!("{other}_ns")),
    }
}

/// How the question is asked: keys of the hardware, of the search, and the objective.
const ASKED: [(&str, &str, &str); 9] = [
    ("", "--memory-limit 1p", "span"),
    ("--seating across-nodes", "--memory-limit 1p", "makespan"),
    ("--seating across-nodes --sharing queue", "--memory-limit 0.75p", "step"),
    ("--chunks 2", "--memory-limit 1p", "makespan"),
    ("--protocol rendezvous:1", "--memory-limit 1p", "makespan"),
    ("--communication blocking", "--memory-limit 1p", "span"),
    ("--seating 0,0,1,1,4,4,5,5", "", "makespan"),
    (
        "--steps 3 --boundary asynchronous --optimizer 3ms --gradient-reduction 2ms:overlapped",
        "--memory-limit 1p",
        "step",
    ),
    (
        "--steps 3 --exchange 2ms --optimizer 3ms --gradient-reduction 2ms --overhead 100us",
        "--memory-limit 2p",
        "step",
    ),
];

#[test]
fn the_engine_says_the_same_of_what_is_found_and_nothing_published_does_better() {
    let folder = Folder::new();
    let order = folder.at("best.txt");
    for (keys, of_search, objective) in ASKED {
        let question = folder.question(keys);
        let row = &results(&format!(
            "search {question} {of_search} --effort 0 --objective {objective} --export {order} --json"
        ))[0];
        let value = number(row, "value_ns");
        let found = &results(&format!("simulate {question} --schedule {order} --json"))[0];
        assert_eq!(figure(found, objective), value, "{keys}: {row}");
        assert_eq!(number(row, "span_ns"), figure(found, "span"), "{keys}");
        assert_eq!(number(row, "makespan_ns"), figure(found, "makespan"), "{keys}");
        assert_eq!(number(row, "step_ns"), figure(found, "step"), "{keys}");
        assert!(number(row, "value_bound_ns") <= value, "{keys}: {row}");
        assert!(value <= number(row, "nominal_value_ns"), "{keys}: {row}");
        let published = row["hardware"]["published"].as_array().unwrap();
        assert!(!published.is_empty(), "{keys}: {row}");
        // With an overhead whole backwards have less to do than split ones, and only these are searched.
        let whole = !keys.contains("overhead");
        for one in published {
            assert!(value <= figure_of(one, objective), "{keys}: {one}");
            let name = one["schedule"].as_str().unwrap();
            let line = format!("simulate {question} {of_search} --schedule {name} --json");
            let simulated = figure(&results(&line)[0], objective);
            assert!(!whole || value <= simulated, "{keys}: {name} {simulated} {value}");
        }
        assert_eq!(row["published_on_hardware"], published[0]["schedule"], "{keys}");
    }
}

fn figure_of(published: &Value, objective: &str) -> u64 {
    number(published, &format!("{objective}_ns"))
}

#[test]
fn what_is_found_beats_the_order_that_is_best_without_the_cluster() {
    let folder = Folder::new();
    let order = folder.at("nominal.txt");
    // As fast over every link as while nothing else moves.
    let question = folder.question("--seating across-nodes --steps 3 --boundary asynchronous");
    let search = format!("search {question} --memory-limit 1p --objective step --json");
    let row = &results(&search)[0];
    let links: Vec<String> = row["hardware"]["links_alone_ns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| format!("{link}ns"))
        .collect();
    let question_alone = QUESTION.replace(" --effort 0", "");
    let alone = format!("{question_alone} --hop {} --memory-limit 1p", links.join(","));
    let nominal = &results(&format!("search {alone} --export {order} --json"))[0];
    let simulated = &results(&format!("simulate {question} --schedule {order} --json"))[0];
    assert_eq!(figure(simulated, "step"), number(row, "nominal_value_ns"), "{nominal}");
    let (value, nominal) = (number(row, "value_ns"), number(row, "nominal_value_ns"));
    assert!(value * 100 <= nominal * 99, "{value} is at least a hundredth below {nominal}");
    assert_eq!(row["is_nominal"], false);
}

#[test]
fn where_no_wire_is_shared_the_search_is_the_one_without_a_cluster() {
    let row = &results(&format!(
        "search {QUESTION} --hop 1ms --memory-limit 1p --boundary barrier --json"
    ))[0];
    let plain = &results(&format!("search {QUESTION} --hop 1ms --memory-limit 1p --json"))[0];
    assert_eq!(number(row, "value_ns"), number(plain, "cost_ns"));
    assert_eq!(number(row, "proxy_value_ns"), number(plain, "cost_ns"));
    assert_eq!((&row["is_nominal"], &row["stuck"]), (&Value::Bool(true), &Value::from(0)));
    assert_eq!(row["hardware"]["links_alone_ns"], Value::from(vec![1_000_000; 7]));
}

#[test]
#[ignore = "slow"]
fn the_same_bytes_on_any_number_of_threads() {
    let folder = Folder::new();
    let question = folder.question("--seating across-nodes --memory-limit 1p --objective makespan");
    let csv = [folder.at("one.csv"), folder.at("two.csv")];
    let asked = |threads: &str, csv: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_debubble"));
        command.env("RAYON_NUM_THREADS", threads);
        let line = format!("search {question} --json --csv {csv}");
        let output = command.args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(asked("1", &csv[0]), asked("2", &csv[1]));
    assert_eq!(fs::read(&csv[0]).unwrap(), fs::read(&csv[1]).unwrap());
    let header = fs::read_to_string(&csv[0]).unwrap();
    for column in ["value_ns", "step_ns", "value_bound_ns", "value_argument", "proxy_value_ns"] {
        assert!(header.lines().next().unwrap().split(',').any(|one| one == column), "{header}");
    }
}

#[test]
fn more_memory_never_costs_more() {
    let folder = Folder::new();
    let question = folder.question("--chunks 2 --memory-limits 0.5p,0.75p,1p --effort 0");
    let rows = results(&format!("search {question} --objective makespan --json"));
    let values: Vec<u64> = rows.iter().map(|row| number(row, "value_ns")).collect();
    assert!(values.is_sorted_by(|small, large| small >= large), "{values:?}");
}

#[test]
fn a_time_limit_keeps_the_best() {
    let folder = Folder::new();
    let question = folder.question("--seating across-nodes --memory-limit 1p");
    let begin = std::time::Instant::now();
    let row = &results(&format!("search {question} --time-limit 1500ms --json"))[0];
    assert!(number(row, "value_ns") <= number(row, "nominal_value_ns"), "{row}");
    assert!(begin.elapsed().as_secs() < 60);
}

#[test]
fn the_report_says_what_is_found_what_it_beats_and_how_far_the_proxy_is_off() {
    let folder = Folder::new();
    let question = folder.question("--seating across-nodes --memory-limit 1p --objective makespan");
    let svg = folder.at("found.svg");
    let proof = folder.at("proof.toml");
    let text = stdout(&run(&format!("search {question} --svg {svg} --certificate {proof}")));
    for part in [
        "on hardware",
        "no link shared",
        "1p nominal",
        "1p 1f1b",
        "1p makespan: ",
        "(1 step, barrier)",
        "below the nominal order",
        "proxy: ",
        "after 3 rounds",
        "lower bound ",
        "must carry",
        "judged: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(fs::read_to_string(svg).unwrap().contains("<svg"));
    // It proves the order and the bound of the first table.
    certificate::verify(&fs::read_to_string(proof).unwrap()).unwrap();
}

#[test]
fn an_order_that_fits_its_devices_comes_first() {
    let folder = Folder::new();
    let question = folder.question("--resident 60GB --effort 0");
    // Without a limit no order needs to keep to what a device has left.
    let row =
        &results(&format!("search {question} --memory-limit 0.5p --objective makespan --json"))[0];
    assert_eq!(row["out_of_memory"], false, "{row}");
    let tight = question.replace("60GB", "79GB");
    let row = &results(&format!("search {tight} --objective makespan --json"))[0];
    assert_eq!(row["out_of_memory"], true, "{row}");
    let text = stdout(&run(&format!("search {tight} --objective makespan")));
    assert!(text.contains("a device runs out of memory"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cure() {
    let folder = Folder::new();
    let question = format!("search {}", folder.question(""));
    for (line, says) in [
        (format!("{question} --jitter pass=lognormal:0.1"), ["jitter cannot", "--objective mean"]),
        (format!("{question} --slowdown stage:1=1.5"), ["slowdown cannot", "simulate"]),
        (format!("{question} --ilp"), ["--ilp knows times of one step", "leave out --ilp"]),
        (format!("search {QUESTION} --objective step"), ["has none", "--steps"]),
        (format!("search {QUESTION} --steps 0"), ["at least 1", ""]),
        (format!("{question} --memory-limit 0.01p"), ["at least", ""]),
    ] {
        refused(&run(&line), &says);
    }
}
