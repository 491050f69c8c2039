//! Messages of the command line about wrong questions: the remedy, in few words, however long the
//! input; as JSON where the answer is JSON; and no folder is made on the way.

use std::ffi::OsString;
use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::cli::{Folder, debubble, refused, results, run, stdout};

const TIMES: &str = "--forward 10ms --backward-input 11ms --backward-weight 7ms --hop 500us";
const SMALL: &str = "simulate --stages 4 --microbatches 8 --schedule 1f1b";

/// The error that `output` says as JSON: the last line of stderr, all of which are JSON.
fn json_error(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line.get("error").is_none()), "{said}");
    last["error"].clone()
}

#[test]
fn errors_are_json_where_the_answer_is() {
    let usage = json_error(&run("simulate --stages 4.5 --json"));
    assert_eq!(usage["key"], "stages");
    assert!(usage["message"].as_str().unwrap().contains("whole number"), "{usage}");
    let missing = json_error(&run("simulate --json --schedule 1f1b --stages 4"));
    assert!(missing["message"].as_str().unwrap().contains("--microbatches"), "{missing}");
    assert!(missing["help"].as_str().unwrap().contains("--backward"), "{missing}");
    let unknown = json_error(&run("search --json --schedle x"));
    assert!(unknown["message"].as_str().unwrap().contains("--schedle"), "{unknown}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "schedule = \"1f1b\"\nstages = 4\nmicrobatches = \"many\"\n").unwrap();
    let placed = json_error(&run(&format!("simulate {} --json", file.display())));
    assert_eq!([&placed["line"], &placed["column"]], [3, 16]);
    assert_eq!([&placed["key"], &placed["file"]], ["microbatches", &*file.to_string_lossy()]);
    let absent = json_error(&run("verify --json absent.toml"));
    assert_eq!(absent["file"], "absent.toml");
    let limit = json_error(&run(&format!("{SMALL} {TIMES} --memory-limit 0.1p --json")));
    assert_eq!(limit["key"], "memory-limit");
}

#[test]
fn without_json_errors_are_text() {
    refused(&run(&format!("{SMALL} --forward 1")), &["error: ", "`1` has no unit"]);
}

#[test]
fn no_folder_is_made_for_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("no").join("such");
    let file = |name: &str| absent.join(name).display().to_string();
    let question = format!("{SMALL} {TIMES}");
    let lines = [
        format!("{question} --svg {}", file("a.svg")),
        format!("{question} --html {}", file("a.html")),
        format!("{question} --trace {}", file("a.json")),
        format!("{question} --timeline {}", file("a.json")),
        format!("{question} --explain-svg {}", file("a.svg")),
        format!("{question} --pareto {}", file("a.svg")),
        format!("sweep scenarios/first.toml --out {}", file("a.csv")),
        format!("search scenarios/first.toml --csv {}", file("a.csv")),
        format!("search scenarios/first.toml --certificate {}", file("a.toml")),
        format!("fsdp --csv {}", file("a.csv")),
        format!("plan scenarios/plan/gpt3.toml --csv {}", file("a.csv")),
        format!("calibrate --out {}", file("a.toml")),
        format!("execute --csv {}", file("a.csv")),
        format!("reproduce table2 --out {}", absent.join("deep").display()),
    ];
    for line in &lines {
        refused(&run(line), &["there is no folder", "mkdir -p"]);
        assert!(!folder.path().join("no").exists(), "{line}");
    }
    let given = format!("{question} --svg {}", folder.path().display());
    refused(&run(&given), &["it is a folder"]);
    let made = folder.path().join("a.svg");
    assert_eq!(run(&format!("{question} --svg {}", made.display())).status.code(), Some(0));
    assert!(made.exists());
}

#[test]
fn units_are_understood_as_people_write_them() {
    let makespan = |time: &str| {
        let times = format!("--forward {time} --backward {time}");
        results(&format!("{SMALL} {times} --json"))[0]["makespan_ns"].clone()
    };
    for text in ["500µs", "500μs", "5e-4s", "0.5MS", "500US"] {
        assert_eq!(makespan(text), makespan("500us"), "{text}");
    }
}

#[test]
fn limits_are_echoed_in_the_unit_they_were_given_in() {
    for limit in ["32GiB", "30gb", "40.5GB", "1.5p"] {
        let line = format!("{SMALL} {TIMES} --activation 16GiB --memory-limit {limit}");
        let table = stdout(&run(&line.replace("--schedule 1f1b", "--schedule 1f1b,zb-2p")));
        let echoed = format!("no: limit {}", limit.replace("gb", "GB"));
        assert!(table.contains(&echoed), "{table}");
    }
    let line = format!("{SMALL} {TIMES} --activation 16GiB --memory-limit 2.5GB");
    refused(&run(&line.replace("1f1b", "zb-heuristic")), &["the memory limit is 2.5GB"]);
    let line = format!("{SMALL} {TIMES} --memory-limit 0.1p");
    refused(&run(&line.replace("1f1b", "zb-heuristic")), &["is 0.1p, 0 chunk activations"]);
}

/// Asserts that not more than a line of `long` is said back.
fn said_briefly(output: &Output, long: &str, what: &str) {
    assert_eq!(output.status.code(), Some(2), "{what}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.len() < 3_000, "{what}: {} bytes: {:.2000}", stderr.len(), stderr);
    let letters = |text: &str| text.matches('q').count();
    assert!(letters(&stderr) <= 200, "{what}: {stderr}");
    assert!(letters(long) > 20_000);
}

#[test]
#[ignore = "slow"]
fn however_long_the_input_a_line_of_it_is_said_back() {
    let flags = [
        "--schedule",
        "--stages",
        "--forward",
        "--backward",
        "--memory-limit",
        "--activation",
        "--cluster",
        "--profile",
        "--slowdown",
        "--jitter",
        "--stall",
        "--seating",
        "--svg",
        "--offload-ratio",
        "--host-bandwidth",
        "--vocab-barrier",
        "--sort",
        "--boundary",
        "--absent",
    ];
    for long in ["q".repeat(100_000), "q `".repeat(30_000), "q' \"q,".repeat(15_000)] {
        for flag in flags {
            for end in ["", "--json"] {
                let mut words: Vec<OsString> =
                    SMALL.split_whitespace().map(OsString::from).collect();
                words.retain(|word| flag != "--stages" && flag != "--schedule" || word != "1f1b");
                let mut words: Vec<OsString> = match flag {
                    "--stages" | "--schedule" => vec!["simulate".into()],
                    _ => words,
                };
                words.extend(TIMES.split_whitespace().map(OsString::from));
                if flag == "--forward" {
                    words.retain(|word| word != "--forward" && word != "10ms");
                }
                words.extend([flag.into(), long.clone().into()]);
                words.extend((!end.is_empty()).then(|| end.into()));
                said_briefly(&debubble(&words), &long, flag);
            }
        }
        let path: &OsString = &long.clone().into();
        for command in ["simulate", "plan", "verify", "replay", "sweep", "schedules", long.as_str()]
        {
            said_briefly(&debubble([OsString::from(command), path.clone()]), &long, command);
        }
    }
}

#[test]
fn however_long_a_line_of_a_file_a_part_of_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let name = file.display();
    let long = "q".repeat(100_000);
    let texts = [
        format!("schedule = \"{long}\"\nstages = 4"),
        format!("stages = \"{long}\""),
        format!("{long} = 4"),
        format!("forward = \"{long}\""),
        long.clone(),
        format!("stages = 4 # {long}\nmicrobatches = \"x\" # {long}\nchunks = 2 # {long}"),
        format!("schedule = [\"1f1b\"]\n[[setting]]\nname = \"{long}\"\nstages = 0"),
        format!("model = \"{long}\"\ntokens = 1e9\nbatch = 8\n{long} = 1"),
        format!("{{\"model_type\": \"{long}\"}}"),
        format!("F0.0 {long}"),
    ];
    for text in texts {
        fs::write(&file, &text).unwrap();
        for command in ["simulate", "search", "plan", "verify", "compare", "replay"] {
            let second = if command == "compare" { file.clone() } else { "--json".into() };
            let words = [OsString::from(command), file.clone().into(), second.into()];
            said_briefly(&debubble(&words), &long, &format!("{command}: {text:.60}"));
            if command != "compare" {
                said_briefly(&debubble(&words[..2]), &long, &format!("{command}: {text:.60}"));
            }
        }
        let line = format!("{SMALL} {TIMES} --profile {name} --layers 8");
        said_briefly(&run(&line), &long, "profile");
    }
    fs::write(&file, format!("F0.0 {long}\n")).unwrap();
    said_briefly(&run(&format!("simulate {TIMES} --schedule {name}")), &long, "schedule");
}

#[test]
fn a_file_for_another_command_is_told_which() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("config.json"), r#"{"model_type": "llama", "hidden_size": 4096}"#).unwrap();
    let config = path("config.json");
    let order = path("order.txt");
    let exported = run(&format!("export --schedule 1f1b --stages 2 --microbatches 2 {TIMES}"));
    fs::write(&order, stdout(&exported)).unwrap();
    let cases = [
        (
            "simulate scenarios/plan/gpt3.toml".to_owned(),
            "`debubble plan scenarios/plan/gpt3.toml`",
        ),
        ("plan scenarios/first.toml".to_owned(), "`debubble simulate scenarios/first.toml`"),
        (format!("plan {config}"), "a plan also needs --tokens"),
        (format!("simulate {config}"), "names no tokens and no machines"),
        (format!("simulate {order}"), "--schedule"),
        ("simulate scenarios/paper/fig9-sweep.toml".to_owned(), "`debubble sweep"),
        ("simulate scenarios/machines/h100.toml".to_owned(), "[[cluster]]"),
        ("simulate scenarios/clusters/dgx-a100.toml".to_owned(), "--cluster"),
        ("verify scenarios/first.toml".to_owned(), "`debubble simulate"),
        ("replay scenarios/first.toml".to_owned(), "`debubble simulate"),
        ("compare scenarios/first.toml scenarios/first.toml".to_owned(), "`debubble simulate"),
    ];
    for (line, cure) in cases {
        refused(&run(&line), &[cure]);
    }
}

#[test]
fn messages_name_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |text: &str| {
        let file = folder.path().join("a.toml");
        fs::write(&file, text).unwrap();
        run(&format!("simulate {}", file.display()))
    };
    refused(&run("simulate --stages 4.5"), &["it must be a whole number, such as 8"]);
    refused(&run("simulate --stages 99999999999999999999"), &["it is too large"]);
    refused(
        &run(&format!("{SMALL} {TIMES}").replace("1f1b", "nope")),
        &["no schedule `nope`", "zb-h1"],
    );
    refused(
        &run(&format!("{SMALL} {TIMES}").replace("1f1b", "zbh")),
        &["mean `zb-h1`, `zb-h2` or `zb-v`?"],
    );
    refused(&scenario("stages = 4.5"), &["a whole number, from 0 on", "`4.5`"]);
    refused(&scenario("stages = \"4\""), &["a whole number", "without quotes"]);
    refused(&scenario("microbatchs = 8"), &["no key `microbatchs`", "mean `microbatches`"]);
    refused(&scenario("clustr = \"x\""), &["no key `clustr`", "mean `cluster`"]);
    refused(&scenario("forward = 10"), &["has no unit", "`10ms`"]);
    refused(&run("simulate absent.toml"), &["absent.toml", "there is no such file"]);
    refused(&run("plan"), &["name a PLAN.toml", "debubble plan scenarios/plan/gpt3.toml"]);
    refused(&run(&format!("{SMALL} {TIMES} --cluster dgx-h10")), &["mean `dgx-h100`"]);
}

#[test]
fn a_profile_with_a_bad_verdict_is_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::calibrate::profile(folder.path());
    let question = "--layers 8 --stages 4 --microbatches 8 --schedule 1f1b,zb-h1";
    let doubts = |command: &str| {
        let line = format!("{command} --profile {} {question}", file.display());
        let output = run(&line);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines().filter(|line| line.contains("verdict is bad")).map(str::to_owned).collect()
    };
    let none: Vec<String> = doubts("simulate");
    assert!(none.is_empty(), "{none:?}");
    let text = fs::read_to_string(&file).unwrap();
    let few = text.replacen(
        "samples = [10000, 10000, 10000, 10000, 10000, 10000, 10000]",
        "samples = [10000]",
        1,
    );
    assert_ne!(few, text);
    fs::write(&file, few).unwrap();
    // Once, however many schedules there are.
    let [said] = &doubts("simulate")[..] else { panic!("not one doubt") };
    assert!(said.contains("layer F (too few samples (1))"), "{said}");
    assert!(said.contains("`debubble calibrate`"), "{said}");
}

/// A question of a stranger may name files that the stranger may not read.
#[test]
fn files_that_another_file_names_are_not_quoted() {
    let contents = [
        "hiddenroot:$6$hiddensalt:19000:0:99999:7:::\n",
        "hiddenkey = \"hiddenvalue\"\n",
        "stages = \"hiddenvalue\"\nlayers = 'hiddenvalue'\n",
        "{\"hidden_size\": \"hiddenvalue\", \"num_hidden_layers\": 1}",
        "{\"hiddenkey\" \"hiddenvalue\"}",
        "hiddenkey,hiddenvalue\nhidden1,hidden2\n",
        "hidden one\nhidden two hidden three\n",
    ];
    let scenario = "stages = 4\nmicrobatches = 8\nschedule = \"1f1b\"\n";
    let times = "forward = \"1ms\"\nbackward = \"2ms\"\nhop = \"1ms\"\n";
    let plan = "tokens = 1e9\nbatch = 8\nsequence = 2048\n";
    let (model, cluster) = ("model = \"llama3-8b\"\n", "[[cluster]]\ndevices = 8\nmachine = ");
    let questions = [
        ("simulate", format!("{scenario}profile = \"SECRET\"\n")),
        ("simulate", format!("{scenario}{times}cluster = \"./SECRET\"\n")),
        ("simulate", format!("{scenario}hop = \"1ms\"\nchain-file = \"SECRET\"\n")),
        ("simulate", format!("{scenario}{times}microbatch-work-file = \"SECRET\"\n")),
        ("simulate", format!("{scenario}{times}microbatch-lengths = \"file:SECRET\"\n")),
        ("simulate", format!("{scenario}{times}slowdown-profile = \"SECRET\"\n")),
        ("simulate", format!("stages = 4\nmicrobatches = 8\n{times}schedule = \"./SECRET\"\n")),
        ("plan", format!("{plan}model = \"SECRET\"\n{cluster}\"h100\"\n")),
        ("plan", format!("{plan}model = \"SECRET.json\"\n{cluster}\"h100\"\n")),
        ("plan", format!("{plan}{model}{cluster}\"SECRET.toml\"\n")),
        ("fsdp", "lengths = \"file:SECRET\"\n".to_owned()),
        ("fsdp", "lengths = \"file:SECRET:hiddenkey\"\n".to_owned()),
        ("rl", "model = \"SECRET\"\nmachine = \"h100\"\n".to_owned()),
        ("rl", "model = \"qwen2.5-7b\"\nmachine = \"SECRET.toml\"\n".to_owned()),
        ("encoder", "model = \"SECRET\"\nmachine = \"h100\"\nencoder-hidden = 64\n".to_owned()),
    ];
    for content in contents {
        let folder = Folder::new();
        for name in ["SECRET", "SECRET.toml", "SECRET.json"] {
            folder.with(name, content);
        }
        for (command, question) in &questions {
            let file = folder.with("question.toml", question);
            for form in [&[command, file.as_str()][..], &[command, &file, "--json"]] {
                let output = debubble(form);
                assert_eq!(output.status.code(), Some(2), "{command}: {question}");
                let stderr = String::from_utf8_lossy(&output.stderr).replace("hidden_size", "");
                let stderr = stderr.replace("--hidden", "").replace("hidden-", "");
                for secret in [
                    "hiddenkey",
                    "hiddenvalue",
                    "hiddenroot",
                    "hiddensalt",
                    "hidden1",
                    "hidden one",
                ] {
                    let asked = question.contains(secret);
                    assert!(asked || !stderr.contains(secret), "{question}\n{content}\n{stderr}");
                }
            }
        }
    }
    // What the user names is shown.
    let folder = Folder::new();
    let named = folder.with("named.toml", contents[1]);
    let output = debubble(["encoder", &named]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("hiddenkey"));
}

/// A name that ends as another form than the flag writes is refused before anything is computed.
#[test]
fn files_of_another_form_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let times = "--stages 2 --microbatches 2 --forward 1ms --backward 2ms";
    let commands = [
        (format!("simulate {times} --schedule 1f1b"), "svg", "svg"),
        (format!("simulate {times} --schedule 1f1b"), "pareto", "svg"),
        (format!("simulate {times} --schedule 1f1b"), "html", "html"),
        (format!("search {times}"), "csv", "csv"),
        (format!("failures {times} --schedule 1f1b --data-parallel 2"), "csv", "csv"),
        ("plan scenarios/plan/gpt3.toml".to_owned(), "html", "html"),
        ("fsdp".to_owned(), "svg", "svg"),
    ];
    for (line, flag, form) in commands {
        for end in ["png", "PDF", "json", "xlsx"] {
            let path = folder.path().join(format!("picture.{end}"));
            let output = run(&format!("{line} --{flag} {}", path.display()));
            let end = end.to_ascii_lowercase();
            refused(&output, &[&format!("a .{form} file is written, not .{end}"), flag]);
            assert!(!path.exists());
        }
    }
    let own = folder.path().join("own.picture");
    run(&format!("simulate {times} --schedule 1f1b --svg {}", own.display()));
    assert!(fs::read_to_string(own).unwrap().starts_with("<svg"));
}
