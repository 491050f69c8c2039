//! `debubble plan`: what the question may say of frameworks and devices, and how the answer is laid out.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::stdout;
use crate::plan::{SMALL, command, json, refusal};

/// The output for `question` with `flags`; and the folder, in which `plan.toml` is the question.
fn printed(question: &str, flags: &[&str]) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question).unwrap();
    let mut ask = command();
    let out = ask.current_dir(folder.path()).arg("plan").arg(&path).args(flags).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (folder, stdout(&out))
}

fn is_within_100(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
}

/// The rows of the table of plans: what stands between its header and the next blank line.
fn rows(text: &str) -> Vec<&str> {
    let rows = text.lines().skip_while(|line| !line.starts_with("plan  set-up"));
    rows.take_while(|line| !line.is_empty()).collect()
}

/// Whether a row of the table is the first line of a plan: a mark or a blank, then its number.
fn is_plan(row: &str) -> bool {
    let number = row.strip_prefix(['>', ' ']);
    number.is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()))
}

/// A machine with a long name, prices and times that take many digits.
fn long_machine(folder: &Path) -> String {
    let machine = fs::read_to_string("scenarios/machines/a100-80g.toml").unwrap();
    let dear = machine.replace("on-demand = 2.2", "on-demand = 9e5");
    assert_ne!(machine, dear);
    let name = "accelerator-of-the-third-generation-with-liquid-cooling-and-eighty-gigabytes-of-memory.toml";
    fs::write(folder.join(name), dear).unwrap();
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn answers_fit_100_columns() {
    let folder = TempDir::new().unwrap();
    let long = long_machine(folder.path());
    let moe = "experts = 8\ntop-k = 2\nffn = 8192\n[noise]";
    let questions = [
        SMALL.to_owned(),
        SMALL.replace("a100-80g", &long).replace("tokens = 1e9", "tokens = 1e17"),
        SMALL.replace("[8, 16]", "[8, 16, 24, 32, 48, 64]").replace("plans = 2", "plans = 4"),
        // Set-ups with all letters, and the longest names of schedules.
        SMALL.replace("[noise]", "[search]\nschedule = \"v-half-vocab-2\"\npipeline = 4\n[noise]"),
        SMALL.replace("[[cluster]]", &format!("{}\n[[cluster]]", moe.replace("\n[noise]", "")))
            + "[search]\ncontext = 2\nexpert = 2\nsplit = \"even\"\nrecompute = \"full\"\n\
               vocabulary-parallel = true\npipeline = 2\nschedule = [\"1f1b-i\", \"v-half-timed\"]\n",
    ];
    for question in questions {
        for flags in [&[][..], &["--details"]] {
            let (_folder, text) = printed(&question, flags);
            is_within_100(&text);
            let rows = rows(&text);
            // Numbers end where their columns' names do.
            let end = rows[0].find("dollars").unwrap() + "dollars".len();
            let plans: Vec<&&str> = rows[1..].iter().filter(|row| is_plan(row)).collect();
            assert!(!plans.is_empty(), "{text}");
            for row in plans.iter().filter(|row| row.len() >= end) {
                let (before, behind) = row.split_at(end);
                assert!(before.ends_with(|one: char| one.is_ascii_digit()), "{row}");
                assert!(behind.is_empty() || behind.starts_with("  "), "{row}");
            }
        }
    }
}

#[test]
fn the_table_is_short_and_the_rest_is_in_the_details() {
    let (_folder, short) = printed(SMALL, &[]);
    let (_folder, long) = printed(SMALL, &["--details"]);
    for text in
        ["GPU-hours", "set-up: d data-parallel replicas", "The plan to take: plan ", "set-ups"]
    {
        assert!(short.contains(text) && long.contains(text), "{text}: {short}");
    }
    let details = [
        "over replay",
        "P95  ",
        "optimizer",
        "time breakdown of the recommended plan",
        "what each change would save",
        "why set-ups were left out",
        "pruned: its lower bound",
    ];
    for text in details {
        assert!(long.contains(text) && !short.contains(&format!("\n{text}")), "{text}: {long}");
    }
    // One line for each cluster, and the legend once.
    let line = |name: &str| short.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (line("8 a100-80g  "), line("16 a100-80g  "), line("set-up: ")),
        (1, 1, 1),
        "{short}"
    );
    assert!(short.lines().count() < 60, "{short}");
    assert!(!short.contains("P95"), "{short}");
}

#[test]
fn gpu_hours_and_split_are_told_to_programs() {
    let question =
        format!("{SMALL}[search]\nsplit = [\"even\", \"balanced\"]\npipeline = [2, 4]\n");
    let answer = json(&question);
    for plan in answer["plans"].as_array().unwrap() {
        let number = |key: &str| plan[key].as_f64().unwrap();
        let hours = number("days") * 24.0 * number("devices");
        assert!((hours / number("gpu_hours") - 1.0).abs() < 1e-9);
        assert!(["even", "balanced"].contains(&plan["split"].as_str().unwrap()));
        assert!(plan["runs_in_megatron"].is_boolean() && plan["runs_in_torchtitan"].is_boolean());
    }
    let winner = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
    let parts = answer["time_breakdown"].as_array().unwrap();
    let sum: f64 = parts.iter().map(|part| part["seconds"].as_f64().unwrap()).sum();
    let step = answer["plans"][winner]["step_ns"].as_f64().unwrap() / 1e9;
    assert!((sum / step - 1.0).abs() < 1e-6, "{parts:?}");
    let even = json(&question.replace("[\"even\", \"balanced\"]", "\"even\""));
    assert!(even["plans"].as_array().unwrap().iter().all(|plan| plan["split"] == "even"));
    let (folder, _) = printed(&question, &["--csv", "plans.csv"]);
    let csv = fs::read_to_string(folder.path().join("plans.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains("gpu_hours,split"), "{csv}");
}

#[test]
fn a_framework_keeps_to_what_it_runs() {
    let narrow = SMALL.replace("[8, 16]", "8")
        + "[search]\npipeline = 4\ntensor = 1\nzero = 1\nmicrobatch = 4\nrecompute = \"none\"\n";
    let with = |framework: &str| {
        narrow.replace("plans = 2", &format!("plans = 50\nframework = \"{framework}\""))
    };
    let schedules = |answer: &Value, runs: &str| {
        let plans = answer["plans"].as_array().unwrap();
        assert!(runs.is_empty() || plans.iter().all(|plan| plan[runs] == true), "{runs}");
        let names = plans.iter().map(|plan| plan["schedule"].as_str().unwrap().to_owned());
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let megatron = schedules(&json(&with("megatron")), "runs_in_megatron");
    assert!(megatron.iter().all(|name| ["1f1b", "1f1b-i"].contains(&&name[..])), "{megatron:?}");
    let titan = schedules(&json(&with("torchtitan")), "runs_in_torchtitan");
    assert!(
        titan.contains("zb-v") && !titan.iter().any(|name| name.contains("vocab")),
        "{titan:?}"
    );
    let any = json(&with("any"));
    assert_eq!(any, json(&narrow.replace("plans = 2", "plans = 50")));
    let neither =
        |plan: &&Value| plan["runs_in_torchtitan"] == false && plan["runs_in_megatron"] == false;
    let neither: Vec<String> = (1..)
        .zip(any["plans"].as_array().unwrap())
        .filter(|(_, plan)| neither(plan))
        .map(|(_, plan)| format!("[{}]", plan["schedule"].as_str().unwrap()))
        .collect();
    assert!(!neither.is_empty());
    let (_folder, text) = printed(&with("any"), &[]);
    assert_eq!(rows(&text).iter().filter(|row| row.contains('[')).count(), neither.len(), "{text}");
    // It may go on in the next line.
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("run in neither Megatron-LM nor torchtitan"), "{text}");
    let (_folder, text) = printed(&with("megatron"), &[]);
    assert!(text.contains("in Megatron-LM") && !text.contains("neither"), "{text}");
}

#[test]
fn what_a_framework_cannot_is_refused_with_a_cure() {
    let ask = |framework: &str, search: &str| {
        let question = SMALL.replace("plans = 2", &format!("framework = \"{framework}\""));
        refusal(&format!("{question}[search]\n{search}\n"))
    };
    let unknown = ask("deepspeed", "");
    assert!(
        unknown.contains("framework is `deepspeed`: write megatron, torchtitan or any"),
        "{unknown}"
    );
    let schedule = ask("megatron", "schedule = [\"1f1b\", \"zb-v\"]");
    assert!(schedule.contains("schedule has `zb-v`: Megatron-LM does not run it"), "{schedule}");
    assert!(schedule.contains("write such as 1f1b, 1f1b-i"), "{schedule}");
    let vocabulary = ask("torchtitan", "vocabulary-parallel = true");
    assert!(
        vocabulary.contains("torchtitan has embedding and head on one stage each"),
        "{vocabulary}"
    );
    let selective = ask("torchtitan", "recompute = \"selective\"");
    assert!(selective.contains("torchtitan recomputes other parts then"), "{selective}");
}

#[test]
fn one_value_is_a_list_of_one() {
    let list = SMALL.replace("[8, 16]", "[8]") + "[search]\ntensor = [2]\nschedule = [\"zb-v\"]\n";
    let one = SMALL.replace("[8, 16]", "8") + "[search]\ntensor = 2\nschedule = \"zb-v\"\n";
    assert_eq!(json(&list), json(&one));
    let text = refusal(&SMALL.replace("[8, 16]", "-8"));
    assert!(text.contains("-8"), "{text}");
    let text = refusal(&SMALL.replace("[8, 16]", "\"8\""));
    assert!(text.contains("\"8\""), "{text}");
}

#[test]
fn an_error_points_at_the_cluster_it_is_about() {
    let with = |second: &str| {
        refusal(&SMALL.replace("[noise]", &format!("[[cluster]]\n{second}\n[noise]")))
    };
    let lines = |what: &str| SMALL.lines().position(|line| line.starts_with(what)).unwrap() + 1;
    let second = lines("[noise]");
    for (table, line, message) in [
        ("machine = \"h100\"\ndevices = [8, 0]", second + 2, "0 devices"),
        ("machine = \"h1000\"\ndevices = 8", second + 1, "there is no machine `h1000`"),
        ("machine = \"h100\"", second, "a cluster has a machine and its devices"),
        (
            "parts = [{ machine = \"h100\", devices = 8 },\n{ machine = \"h100\", devices = 0 }]",
            second + 2,
            "0 devices",
        ),
    ] {
        let text = with(table);
        assert!(
            text.contains(message) && text.contains(&format!("plan.toml:{line}:")),
            "{line}: {text}"
        );
    }
}

/// The cluster that is proposed has a plan when it is asked for, under the same `[search]`.
#[test]
fn the_smallest_cluster_answers_the_same_question() {
    let large = SMALL.replace("hidden = 2048", "hidden = 16384").replace("[8, 16]", "[8]");
    let tight = format!("{large}[search]\ntensor = 1\npipeline = 2\nzero = 1\n");
    let none = refusal(&tight);
    assert!(none.contains("under this [search], no cluster of these machines"), "{none}");
    for question in [large.clone(), format!("{large}[search]\npipeline = 8\n")] {
        let text = refusal(&question);
        let (_, said) = text.split_once("that would hold it: ").unwrap_or_else(|| panic!("{text}"));
        let devices: u64 = said.split_whitespace().next().unwrap().parse().unwrap();
        assert!(devices > 8);
        let ask = |devices: u64| question.replace("devices = [8]", &format!("devices = {devices}"));
        assert!(!json(&ask(devices))["plans"].as_array().unwrap().is_empty());
        refusal(&ask(devices / 2));
    }
}

#[test]
fn torchtitan_gets_the_order_of_the_plan() {
    let question = format!("{SMALL}[search]\npipeline = 4\ntensor = 1\nzero = 1\nschedule = ");
    for (schedule, class, is_file) in [
        ("zb-v", "ZBVZeroBubble", true),
        ("v-half", "ZBVZeroBubble", true),
        ("zb-h1", "1F1B", true),
        ("1f1b-i", "Interleaved1F1B", false),
        ("1f1b", "1F1B", false),
    ] {
        let (folder, text) =
            printed(&format!("{question}\"{schedule}\"\n"), &["--export", "winner", "--json"]);
        let answer: Value = serde_json::from_str(&text).unwrap();
        let winner = usize::try_from(answer["winner"].as_u64().unwrap()).unwrap();
        let plan = &answer["plans"][winner];
        assert_eq!(plan["schedule"], schedule);
        let read = |name: &str| fs::read_to_string(folder.path().join("winner").join(name));
        let config = read("torchtitan.toml").unwrap();
        assert!(config.contains(&format!("pipeline_parallel_schedule = \"{class}\"")), "{config}");
        assert!(config.contains("fsdp_reshard_after_forward = \"never\""), "{config}");
        assert_eq!(config.contains("schedule.csv"), is_file, "{config}");
        let Ok(csv) = read("schedule.csv") else {
            assert!(!is_file, "{schedule}");
            continue;
        };
        let (chunks, microbatches) =
            (plan["chunks"].as_u64().unwrap(), plan["microbatches"].as_u64().unwrap());
        assert_eq!(csv.lines().count(), 4);
        for (stage, line) in csv.lines().enumerate() {
            let of = |letter: char| {
                let cells = line.split(',').filter(|cell| cell.contains(letter));
                cells.collect::<std::collections::BTreeSet<&str>>().len() as u64
            };
            assert_eq!(of('F'), chunks * microbatches);
            // Each backward is whole, or in two parts.
            assert_eq!(of('I'), of('W'));
            assert_eq!(of('I') + of('B'), chunks * microbatches);
            // A V ends on the first stage.
            let last = 4 * chunks - 1;
            let has_last = line.split(',').any(|cell| cell.starts_with(&format!("{last}F")));
            assert_eq!(has_last, stage == if chunks == 2 { 0 } else { 3 }, "{schedule}");
        }
    }
}

#[test]
fn points_of_one_cluster_have_labels_of_their_own_and_dollars() {
    let one = SMALL.replace("[8, 16]", "8").replace("plans = 2", "plans = 3");
    let (folder, _) = printed(&one, &["--svg", "one.svg"]);
    let picture = fs::read_to_string(folder.path().join("one.svg")).unwrap();
    for number in 1..=3 {
        assert!(picture.contains(&format!("{number}: d")), "{number}: {picture}");
    }
    assert!(picture.contains("8 a100-80g"), "the cluster is named once");
    let titles = picture.lines().filter(|line| line.starts_with("8 a100-80g"));
    assert_eq!(titles.count(), 1);
    assert!(picture.contains("\n95 % of measured runs are within -"), "{picture}");
    assert!(picture.lines().any(|line| line.starts_with('$')), "{picture}");
    let (folder, _) = printed(SMALL, &["--svg", "two.svg"]);
    let picture = fs::read_to_string(folder.path().join("two.svg")).unwrap();
    assert!(picture.contains("8 a100-80g") && picture.contains("16 a100-80g"), "{picture}");
}
