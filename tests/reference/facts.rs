//! Laws of noise, limits and published tables.

use std::collections::BTreeSet;

use question::values::noise::LAWS;
use reproduce::TABLES;

use super::markdown::{code, sentence, table};
use super::root;

/// The laws of random durations.
pub fn laws() -> String {
    let rows = LAWS
        .iter()
        .map(|law| vec![code(&format!("{}:{}", law.name, law.parameter)), sentence(law.meaning)]);
    table(&["law", "parameter"], rows)
}

/// The published tables that can be reproduced.
pub fn tables() -> String {
    let rows = TABLES.iter().map(|one| vec![code(one.name), sentence(one.help)]);
    table(&["table", "what stands in it"], rows)
}

/// The limited quantity, its unit, and the file and name of the constant.
const LIMITS: [(&str, &str, &str, &str); 22] = [
    ("Passes of a schedule", "", "pipeline/src/shape.rs", "MAX_PASSES"),
    ("Times that are read", "ns", "pipeline/src/units.rs", "MAX_NANOS"),
    ("Sizes that are read", "B", "pipeline/src/units.rs", "MAX_BYTES"),
    (
        "Stages of schedules from a building block",
        "",
        "pipeline/src/family/controllable/mod.rs",
        "MAX_STAGES",
    ),
    (
        "Stages of the adaptive V",
        "",
        "pipeline/src/family/controllable/adaptive/mod.rs",
        "MAX_STAGES",
    ),
    ("Passes of all steps on a cluster", "", "sim/src/engine/limits.rs", "MAX_RUN"),
    ("Replicas of a question", "", "sim/src/monte_carlo.rs", "MAX_REPLICAS"),
    ("Passes of a search", "", "search/src/error.rs", "MAX_PASSES"),
    ("Passes of an integer program that is solved", "", "ilp/src/unsuitable.rs", "MOST_PASSES"),
    ("Binaries of an integer program in a file", "", "ilp/src/unsuitable.rs", "MOST_BINARIES"),
    ("Set-ups of a cluster in a plan", "", "plan/src/space.rs", "MAX_SETUPS"),
    ("Passes of a set-up in a plan", "", "plan/src/setup.rs", "MAX_PASSES"),
    ("Questions of a sweep", "", "question/src/sweep/grid.rs", "MAX_QUESTIONS"),
    ("Operations of a trace", "", "traces/src/operation.rs", "MAX_OPERATIONS"),
    ("File of a scenario", "B", "question/src/scenario.rs", "MAX_SCENARIO"),
    ("File of a plan, cluster or machine", "B", "question/src/built_in.rs", "MAX_FILE"),
    ("File of a schedule", "B", "question/src/source.rs", "MAX_SCHEDULE"),
    ("File of a profile", "B", "question/src/resolve/profiles.rs", "MAX_PROFILE"),
    ("File of a timeline", "B", "answer/src/timelines/file.rs", "MAX_FILE"),
    ("File of a trace", "B", "answer/src/replay/files.rs", "MAX_TRACE"),
    ("File of a certificate", "B", "certificate/src/version.rs", "MAX_BYTES"),
    ("What is read from a pipe", "B", "native/src/files.rs", "MAX_STREAM"),
];

/// The limits, as the constants of the program have them.
pub fn limits() -> String {
    let rows = LIMITS.iter().map(|&(what, unit, file, name)| {
        let value = constant(file, name);
        vec![what.to_owned(), with_unit(value, unit)]
    });
    table(&["what", "at most"], rows)
}

/// The value of the constant `name` in the source `file`.
fn constant(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let (_, after) = text.split_once(&format!("const {name}:")).expect(name);
    let (_, value) = after.split_once("= ").expect(name);
    let (value, _) = value.split_once(';').expect(name);
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().expect(value);
    match value.split_once("<<") {
        Some((number_, bits)) => number(number_) << number(bits),
        None => number(value),
    }
}

fn with_unit(value: u64, unit: &str) -> String {
    match unit {
        "B" if value >= 1 << 60 => format!("{} EiB", value >> 60),
        "B" if value >= 1 << 30 => format!("{} GiB", value >> 30),
        "B" => format!("{} MiB", value >> 20),
        "ns" => format!("{} s", thousands(value / 1_000_000_000)),
        _ => thousands(value),
    }
}

fn thousands(value: u64) -> String {
    match value {
        0..1000 => value.to_string(),
        _ => format!("{},{:03}", thousands(value / 1000), value % 1000),
    }
}

#[test]
fn limits_read_well() {
    assert_eq!(with_unit(100_000_000, ""), "100,000,000");
    assert_eq!(with_unit(16 << 20, "B"), "16 MiB");
    assert_eq!(with_unit(1_000_000_000_000_000, "ns"), "1,000,000 s");
}

/// Variables of the environment that only parts of the program, of its build and of its tests tell each other.
const BETWEEN_PARTS: [&str; 4] =
    ["DEBUBBLE_LIFELINE", "DEBUBBLE_TEST_DIED", "DEBUBBLE_", "DEBUBBLE_VERSION"];

/// Every variable of its own that the program or its tests read has its line in the book.
#[test]
fn variables_are_told() {
    let page = std::fs::read_to_string(root().join("docs/reference/exit-codes.md")).unwrap();
    let name = regex_lite::Regex::new("DEBUBBLE_[A-Z_]*").unwrap();
    let mut folders = vec![root().join("src"), root().join("executor"), root().join("tests")];
    let mut texts = vec![std::fs::read_to_string(root().join("Makefile")).unwrap()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs" || ext == "sh") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let found: BTreeSet<&str> =
        texts.iter().flat_map(|text| name.find_iter(text)).map(|one| one.as_str()).collect();
    assert!(found.contains("DEBUBBLE_TOKEN"), "{found:?}");
    for name in found.difference(&BTreeSet::from(BETWEEN_PARTS)) {
        assert!(page.contains(&format!("`{name}`")), "{name} has no line in exit-codes.md");
    }
}
