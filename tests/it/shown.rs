//! Texts and pictures of an answer are the same by the library and by the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::draw::pictures;
use ::draw::pictures::simulate::{Traced, timelines_with};
use ::draw::{html, text};
use answer::compare::Comparison;
use answer::outcome::title;
use answer::simulate::{Answers, Timelines, Wants, report, simulate};
use answer::{export, replay, schedules, search, timelines, verify};
use measured::memory_error;
use question::keys::Keys;
use question::replay::WhatIf;
use question::scenario::Scenario;
use question::sheet::{Block, Sheet};
use question::{Context, Host};
use tempfile::TempDir;

use crate::cli::{run, stdout};
use crate::plan::SMALL as SMALL_PLAN;

/// Two schedules on a cluster under noise.
const CLUSTER: &str = "
title = \"Two schedules\"
schedule = [\"zb-h1\", \"1f1b\"]
stages = 4
microbatches = 8
forward = [\"10ms\", \"10ms\", \"10ms\", \"14ms\"]
backward-input = \"10ms\"
backward-weight = \"8ms\"
hidden = 1024
heads = 16
seq = 1024
layers-per-stage = 2
microbatch-size = 1
cluster = \"a100-roce\"
seating = \"across-nodes\"
steps = 2
jitter = \"pass=lognormal:0.05\"
replicas = 20
";

/// All schedules of two settings, one of which has a limit.
const ALL: &str = "
schedule = \"all\"
stages = 4
forward = \"10ms\"
backward-input = \"11ms\"
backward-weight = \"7ms\"
[[setting]]
name = \"few\"
microbatches = 6
[[setting]]
name = \"many\"
microbatches = 12
memory-limit = \"1p\"
";

const SMALL: &str = "stages = 3\nmicrobatches = 4\nforward = \"10ms\"\nbackward-input = \"11ms\"\n\
    backward-weight = \"7ms\"\nhop = \"500us\"\n";

/// Files that the library and the command line both read.
struct Files {
    host: BTreeMap<PathBuf, Vec<u8>>,
    folder: TempDir,
}

impl Files {
    fn new<'a>(all: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Self {
        let mut files = Self { host: BTreeMap::new(), folder: tempfile::tempdir().unwrap() };
        all.into_iter().for_each(|(name, bytes)| files.add(name, bytes));
        files
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        fs::write(self.folder.path().join(name), &bytes).unwrap();
        self.host.insert(name.into(), bytes);
    }

    /// Output of the command `line` where these files are; with exit code `code`.
    fn ends(&self, code: i32, line: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_debubble"));
        let command = command.args(line.split(' ')).current_dir(self.folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn prints(&self, line: &str) -> String {
        self.ends(0, line)
    }

    /// The file `name` that a command wrote.
    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn simulated(&self, file: &str, wants: Wants) -> Answers {
        let context = Context::new(&self.host);
        simulate(&context, &scenario(&self.host, file), wants).unwrap()
    }
}

fn scenario(host: &dyn Host, file: &str) -> Scenario {
    Scenario::asked(&Context::new(host), Some(Path::new(file)), &Keys::default()).unwrap()
}

/// Checks that the fragment of `sheet` has each of its tables, and every cell and line of it.
fn check_fragment(sheet: &Sheet) {
    let html = html::sheet(sheet);
    let tables = sheet.blocks.iter().filter(|block| matches!(block, Block::Table { .. })).count();
    assert_eq!(
        (html.matches("<table").count(), html.matches("</table>").count()),
        (tables, tables)
    );
    let plain = |text: &str| !text.contains(['<', '>', '&', '"']);
    for block in &sheet.blocks {
        match block {
            Block::Headline(text) => assert!(text.lines().all(|line| html.contains(line))),
            Block::Table { header, rows, .. } => {
                for cell in header.iter().chain(rows.iter().flatten()).filter(|one| plain(one)) {
                    assert!(html.contains(&format!("\">{cell}</t")), "{cell}");
                }
            }
            Block::Text(text) => {
                text.lines().filter(|line| plain(line)).for_each(|line| {
                    assert!(html.contains(line), "{line}");
                });
            }
        }
    }
}

#[test]
fn schedules_side_by_side_read_alike() {
    let files = Files::new([("cluster.toml", CLUSTER.into()), ("all.toml", ALL.into())]);
    let wants = Wants { explanation: true, ..Wants::default() };
    for (file, tables) in [("cluster.toml", 1 + 1 + 1 + 2 + 2 * 2), ("all.toml", 1)] {
        let explained = wants.explanation && file == "cluster.toml";
        let wants = Wants { explanation: explained, ..wants };
        let sheet = report::sheet(&files.simulated(file, wants));
        let more = if explained { " --explain" } else { "" };
        let printed = files.prints(&format!("simulate {file} --gantt never{more}"));
        assert_eq!(text::sheet(&sheet), printed);
        check_fragment(&sheet);
        let of = |block: &&Block| matches!(block, Block::Table { .. });
        assert_eq!(sheet.blocks.iter().filter(of).count(), tables, "{file}: {printed}");
    }
}

#[test]
fn pictures_and_traces_of_a_kept_run_are_those_of_the_command_line_and_take_no_run_again() {
    let quiet = CLUSTER.replace("jitter = \"pass=lognormal:0.05\"\nreplicas = 20\n", "");
    let files = Files::new([("two.toml", quiet.into())]);
    files.prints("simulate two.toml --gantt never --svg two.svg");
    files.prints("simulate two.toml --gantt never --schedule 1f1b --svg one.svg --trace one.json");
    let kept = Wants { timelines: Timelines::All, runs: true, ..Wants::default() };
    for (wants, again) in [(kept, 0), (Wants::default(), 3)] {
        let answers = files.simulated("two.toml", wants);
        let above = Some("Two schedules");
        let svg = timelines_with(above, &answers.outcomes, None).unwrap();
        assert_eq!(svg, files.written("two.svg"));
        let one = &answers.outcomes[1];
        assert_eq!(timelines_with(above, [one], None).unwrap(), files.written("one.svg"));
        let trace = Traced::of(one, &title(one)).unwrap().bytes().unwrap();
        assert_eq!(String::from_utf8(trace).unwrap(), files.written("one.json"));
        assert_eq!(one.engine_runs.count(), 1 + again);
    }
}

#[test]
fn an_exported_trace_is_written_alike() {
    let files = Files::new([("small.toml", format!("schedule = \"zb-h1\"\n{SMALL}").into())]);
    let context = Context::new(&files.host);
    let case = export::export(&context, scenario(&files.host, "small.toml"), true).unwrap();
    let outcome = export::run(case).unwrap();
    let mut bytes = Vec::new();
    Traced::of(&outcome, "zb-h1").unwrap().write(&mut bytes).unwrap();
    let printed = files.prints("export --format chrome small.toml");
    assert_eq!(String::from_utf8(bytes).unwrap(), printed);
}

#[test]
fn a_search_is_drawn_alike() {
    let files = Files::new([("small.toml", SMALL.into())]);
    let keys: question::search::SearchKeys =
        serde_json::from_str(r#"{"memory-limits": ["0.67p", "1p"]}"#).unwrap();
    let scenario = scenario(&files.host, "small.toml");
    let answer = search::search(&Context::new(&files.host), &scenario, &keys).unwrap();
    let printed = files.prints("search small.toml --memory-limits 0.67p,1p --svg found.svg");
    assert_eq!(text::sheet(&answer.sheet()), printed);
    check_fragment(&answer.sheet());
    assert_eq!(
        pictures::search::timelines(None, &answer.rows, None).unwrap(),
        files.written("found.svg")
    );
}

#[test]
fn a_comparison_reads_and_is_drawn_alike() {
    let files = [("zb.toml", "zb-h1", "10ms"), ("slow.toml", "zb-h1", "12ms")];
    let mut files = Files::new(files.map(|(name, schedule, forward)| {
        let small = SMALL.replacen("10ms", forward, 1);
        (name, format!("schedule = \"{schedule}\"\n{small}").into_bytes())
    }));
    for name in ["zb", "slow"] {
        files.prints(&format!("simulate {name}.toml --timeline {name}.json"));
        let timeline = format!("{name}.json");
        let bytes = files.written(&timeline).into_bytes();
        files.add(&timeline, bytes);
    }
    let context = Context::new(&files.host);
    let read = |name: &str| timelines::read(&context, Path::new(name)).unwrap();
    let (predicted, measured) = (read("zb.json"), read("slow.json"));
    let comparison = Comparison::of(&predicted, &measured).unwrap();
    let printed = files.prints("compare zb.json slow.json --svg both.svg");
    let sheet = answer::compare::report::sheet(&comparison);
    assert_eq!(text::sheet(&sheet), printed);
    check_fragment(&sheet);
    let svg = pictures::compare::timelines(&comparison, None).unwrap();
    assert_eq!(svg, files.written("both.svg"));
}

#[test]
fn a_replayed_trace_reads_alike() {
    let line = "export --schedule 1f1b --stages 3 --microbatches 4 --forward 1ms \
                --backward-input 1ms --backward-weight 1ms --format chrome";
    let files = Files::new([("run.json", stdout(&run(line)).into_bytes())]);
    let keys = question::replay::ReplayKeys {
        what_if: vec![WhatIf::NoStragglers],
        schedule: vec!["zb-h1".to_owned()],
        ..Default::default()
    };
    let context = Context::new(&files.host);
    let answer = replay::replay(&context, &[PathBuf::from("run.json")], false, &keys).unwrap();
    let printed = files.prints("replay run.json --what-if no-stragglers --schedule zb-h1");
    assert_eq!(text::sheet(&answer.sheet()), printed);
    check_fragment(&answer.sheet());
}

#[test]
fn certificates_read_alike_whether_they_hold_or_not() {
    let good = fs::read_to_string("tests/golden/optimal.cert").unwrap();
    let cost = good.lines().find(|line| line.starts_with("cost-ns = ")).unwrap();
    let bad = good.replacen(cost, "cost-ns = 1", 1);
    let files = Files::new([("good.cert", good.into()), ("bad.cert", bad.into())]);
    for (name, code, first) in [
        ("good.cert", 0, "The certificate holds. "),
        ("bad.cert", 1, "The certificate is refused: "),
    ] {
        let answer = verify::verify(&Context::new(&files.host), Path::new(name)).unwrap();
        let printed = files.ends(code, &format!("verify {name}"));
        assert_eq!(text::sheet(&answer.sheet()), printed);
        assert!(printed.starts_with(first), "{printed}");
        check_fragment(&answer.sheet());
    }
}

#[test]
fn the_list_of_schedules_reads_alike() {
    let sheet = schedules::schedules().sheet();
    assert_eq!(text::sheet(&sheet), stdout(&run("schedules")));
    check_fragment(&sheet);
}

#[test]
fn a_plan_reads_alike() {
    let question = format!("title = \"A small plan\"{SMALL_PLAN}");
    let files = Files::new([("plan.toml", question.into_bytes())]);
    let context = Context::new(&files.host);
    let question = imports::question(
        &context,
        Path::new("plan.toml"),
        memory_error().unwrap(),
        &planning::PlanFlags::default(),
    );
    let planned = answer::plan::plan(&context, question.unwrap()).unwrap();
    let brief = text::plan(&planned, false, text::COLUMNS);
    assert_eq!(brief, files.prints("plan plan.toml"));
    assert!(brief.lines().all(|line| line.chars().count() <= 100), "{brief}");
    for columns in [60, 72, 80, 120, 200] {
        let fitted = text::plan(&planned, false, columns);
        assert!(fitted.lines().all(|line| line.chars().count() <= columns), "{fitted}");
        // No column goes without a word.
        for name in ["error", "GiB", "MFU"] {
            assert!(fitted.contains(name), "{columns}: {fitted}");
        }
        assert_eq!(fitted.contains("a wider terminal has"), columns < 80, "{fitted}");
    }
    assert_eq!(text::plan(&planned, true, text::COLUMNS), files.prints("plan plan.toml --details"));
}
