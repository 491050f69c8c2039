//! Records: those that are shipped hold, better orders are taken, and nothing else is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use answer::records::{RecordSet, file_name, table};
use question::Context;
use serde_json::Value;

use crate::cli::{debubble, refused, run, stdout};

const FOLDER: &str = "results/records";
/// Bytes of a record of eight stages with a log of thousands of branches.
const LONG_LOG: usize = 13 << 10;
const NAME: &str = "equal-p4-m4-0.5p";

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// The exit code of `line` with the folder `folder`, and what it printed.
fn records(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let folder = folder.to_str().unwrap();
    let words = ["records", "--folder", folder].into_iter().chain(words.iter().copied());
    let output = debubble(words);
    let all = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(all).unwrap())
}

/// The question of the pipeline `name` in the file `question.toml` of `folder`.
fn question(folder: &Path, name: &str) -> String {
    let file = folder.join("question.toml");
    fs::write(&file, stdout(&run(&format!("records --scenario {name}")))).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A certificate of `question`, searched with `effort`.
fn searched(question: &str, effort: u64, file: &Path) -> String {
    let file = file.to_str().unwrap().to_owned();
    stdout(&run(&format!("search {question} --effort {effort} --certificate {file}")));
    file
}

fn cost(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("cost-ns = "));
    line.unwrap().parse().unwrap()
}

#[test]
#[ignore = "slow"]
fn every_shipped_record_holds() {
    let json: Value = serde_json::from_str(&stdout(&run("records --check --json"))).unwrap();
    assert_eq!(json["failed"], serde_json::json!([]));
    assert_eq!(json["without_record"], serde_json::json!([]));
    assert!(json["hold"].as_u64() >= Some(100), "{json}");
}

/// All but those whose proof takes a second or more to follow.
#[test]
fn shipped_records_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(FOLDER).unwrap() {
        let path = entry.unwrap().path();
        let (name, record) = (path.file_name().unwrap().to_str().unwrap(), text(&path));
        let is_long = ["windows", "prefixes", "branching"]
            .iter()
            .any(|argument| record.contains(&format!("argument = \"{argument}\"")));
        let is_short = name.contains("-p4-") || (name.contains("-p8-") && record.len() < LONG_LOG);
        if is_short || !is_long {
            fs::write(folder.path().join(name), record).unwrap();
            count += 1;
        }
    }
    let (code, said) = records(folder.path(), &["--check"]);
    let all = format!("{count} of {count} records hold");
    assert_eq!((code, said.contains(&all)), (Some(0), true), "{said}");
    assert!(count >= 90, "{count}");
    // Of all, the claims are read.
    let json: Value = serde_json::from_str(&stdout(&run("records --json"))).unwrap();
    let rows = json["records"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cost_ns"].is_u64() && row["by"].is_string()), "{json}");
}

#[test]
fn pipelines_have_names_of_their_own_and_differ() {
    let host: std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> = Default::default();
    let context = Context::new(&host);
    let set = RecordSet::built_in(&context).unwrap();
    assert!(set.instances.len() >= 100);
    let names: BTreeSet<&str> = set.instances.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), set.instances.len());
    let plain =
        |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "-.".contains(sign);
    assert!(names.iter().all(|name| name.contains(plain) && name.chars().all(plain)), "{names:?}");
    for (at, one) in set.instances.iter().enumerate() {
        let twin = set.instances[..at].iter().find(|other| other.instance == one.instance);
        assert!(twin.is_none(), "{} is {}", one.name, twin.unwrap().name);
    }
    // Without a folder nothing is known.
    let table = table(&context, &set, Path::new("nowhere")).unwrap();
    assert_eq!(table.median_gap, None);
    assert_eq!(table.optimal, 0);
}

#[test]
fn a_record_that_was_changed_fails_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(file_name(name));
    let original = text(Path::new(FOLDER).join(file_name(NAME)));
    fs::write(file(NAME), &original).unwrap();
    let (code, said) = records(folder.path(), &["--check"]);
    assert_eq!((code, said.contains("1 of 1 records hold")), (Some(0), true), "{said}");

    let changed = |from: &str, to: &str| {
        assert!(original.contains(from), "{from}");
        fs::write(file(NAME), original.replacen(from, to, 1)).unwrap();
        let (code, said) = records(folder.path(), &["--check"]);
        assert_eq!((code, said.contains(NAME)), (Some(1), true), "{said}");
    };
    let claimed = cost(&original);
    let claim = format!("cost-ns = {claimed}\nbound-ns = {claimed}");
    let less = claimed - 1;
    changed(&claim, &format!("cost-ns = {less}\nbound-ns = {less}"));
    changed("hop-ns = 0", "hop-ns = 1");
    changed("version = 2", "version = 1");
    changed("version = 2", "nonsense");

    // One of another pipeline under this name, and one that is named after none.
    fs::copy(Path::new(FOLDER).join(file_name("equal-p4-m8-0.5p")), file(NAME)).unwrap();
    fs::write(file("unheard-of"), &original).unwrap();
    let (code, said) = records(folder.path(), &["--check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("of another pipeline: different in microbatches"), "{said}");
    assert!(said.contains("unheard-of: no pipeline of the set has this name"), "{said}");
}

#[test]
fn a_better_order_is_taken_and_a_worse_one_is_not() {
    const NAME: &str = "6.2b-p8-m24-0.75p";
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("records");
    let question = question(folder.path(), NAME);
    let [worse, better] = [0, 1]
        .map(|effort| searched(&question, effort, &folder.path().join(format!("{effort}.toml"))));
    assert!(cost(&text(&worse)) > cost(&text(&better)));
    let record = here.join(file_name(NAME));

    let (code, said) = records(&here, &["--add", &worse, "--by", "Ada", "--date", "2026-11-30"]);
    assert_eq!((code, said.contains("the first order")), (Some(0), true), "{said}");
    assert!(text(&record).starts_with("# order: Ada; 2026-11-30; debubble "));
    let (code, said) = records(&here, &["--add", &better, "--by", "Bob", "--date", "2026-12-01"]);
    assert_eq!(
        (code, said.contains(&format!("{NAME}: a record: cost "))),
        (Some(0), true),
        "{said}"
    );
    let best = text(&record);
    assert!(best.starts_with("# order: Bob; 2026-12-01; debubble "), "{best}");
    assert_eq!(cost(&best), cost(&text(&better)));
    for file in [&worse, &better] {
        let (code, said) = records(&here, &["--add", file]);
        assert_eq!((code, said.contains("no record: cost ")), (Some(1), true), "{said}");
        assert_eq!(text(&record), best);
    }
    let json: Value = serde_json::from_str(&records(&here, &["--json"]).1).unwrap();
    let rows = json["records"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == NAME).unwrap();
    assert_eq!((row["by"].as_str(), row["cost_ns"].as_u64()), (Some("Bob"), Some(cost(&best))));
    assert_eq!(records(&here, &["--check"]).0, Some(0));

    // A record that claims too much does not stand in the way.
    fs::write(&record, best.replacen("cost-ns = ", "cost-ns = 0", 1).replacen("until", "un", 1))
        .unwrap();
    assert_eq!(records(&here, &["--add", &worse]).0, Some(0));
}

#[test]
fn order_and_bound_may_come_from_two() {
    const NAME: &str = "mixed-p4-m8-0.5p";
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("records");
    let question = question(folder.path(), NAME);
    let full = searched(&question, 1, &folder.path().join("full.toml"));
    // The same order with a bound that says nothing.
    let weak = text(&full);
    let (cost, lines) = (cost(&weak), weak.lines());
    let lines = lines.map(|line| match line.split_once(" = ") {
        Some(("bound-ns", _)) => "bound-ns = 0".to_owned(),
        Some(("gap-ns", _)) => format!("gap-ns = {cost}"),
        _ => line.to_owned(),
    });
    let weak = lines.collect::<Vec<_>>().join("\n");
    let file = folder.path().join("weak.toml");
    fs::write(&file, weak).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(records(&here, &["--add", file, "--by", "Ada"]).0, Some(0));
    let (code, said) = records(&here, &["--add", &full, "--by", "Bob"]);
    assert_eq!(
        (code, said.contains(&format!("{NAME}: a record: bound "))),
        (Some(0), true),
        "{said}"
    );
    let record = text(here.join(file_name(NAME)));
    assert!(
        record.starts_with("# order: Ada; ") && record.contains("\n# bound: Bob; "),
        "{record}"
    );
    assert_eq!(records(&here, &["--check"]).0, Some(0));
}

#[test]
fn an_order_of_another_pipeline_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let question = question(folder.path(), NAME);
    fs::write(&question, text(&question).replace("0.5p", "0.6p")).unwrap();
    let file = searched(&question, 0, &folder.path().join("other.toml"));
    let add = |file: &str| {
        let here = folder.path().join("records");
        debubble(["records", "--folder", here.to_str().unwrap(), "--add", file])
    };
    refused(&add(&file), &["no pipeline of the set", "p = 4, m = 4, v = 1", NAME, "memory limit"]);
    refused(&add(&question), &["question.toml", "`debubble simulate"]);
    refused(&add("/no/such/file"), &["/no/such/file"]);
    refused(&run("records --folder /no/such/folder"), &["/no/such/folder", "--search"]);
    refused(&run("records --scenario equal-p4-m4-0.5"), &["there is no record of", NAME]);
    let wrong = format!("records --search --only {NAME} --date yesterday");
    refused(&run(&wrong), &["`yesterday` is not a date", "2026-11-30"]);
    assert!(!folder.path().join("records").exists());

    // A forged one is of the set, but no record.
    let forged = text(Path::new(FOLDER).join(file_name(NAME)));
    let claimed = cost(&forged);
    let forged = forged.replace(&format!("-ns = {claimed}\n"), &format!("-ns = {}\n", claimed - 1));
    fs::write(&file, forged).unwrap();
    let output = add(&file);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("{NAME}: no record: ")));
}

#[test]
fn a_search_fills_a_folder_alike_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let fill = |name: &str| {
        let here = folder.path().join(name);
        let words =
            ["--search", "--only", "equal-p4-m4-0.5p,mixed-p4-m8-0.5p", "--date", "2026-11-30"];
        let (code, said) = records(&here, &words);
        assert_eq!((code, said.contains("2 records of 2 searches")), (Some(0), true), "{said}");
        let (code, said) = records(&here, &words);
        assert_eq!((code, said.contains("0 records of ")), (Some(0), true), "{said}");
        ["equal-p4-m4-0.5p", "mixed-p4-m8-0.5p"].map(|name| text(here.join(file_name(name))))
    };
    assert_eq!(fill("one"), fill("two"));
}
