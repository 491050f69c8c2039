//! `debubble schema`: the schemas allow the files that the commands read, and refuse those with a wrong
//! key, type or unit; they name the keys that the flags are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::cli::{refused, run, stdout};

fn schema(question: &str) -> Value {
    serde_json::from_str(&stdout(&run(&format!("schema {question}")))).unwrap()
}

/// Whether `value` is what `part` of the schema `root` allows, for the keywords that the schemas use; any
/// other keyword fails the test.
fn allows(root: &Value, part: &Value, value: &Value) -> bool {
    if let Value::Bool(all) = part {
        return *all;
    }
    let rules = part.as_object().unwrap();
    rules.iter().all(|(keyword, rule)| holds(root, rules, keyword, rule, value))
}

fn holds(
    root: &Value,
    rules: &Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
) -> bool {
    let parts = || rule.as_array().unwrap().iter();
    let limit = || rule.as_f64().unwrap();
    match keyword {
        "$schema" | "title" | "description" | "examples" | "default" | "definitions" => true,
        "$ref" => {
            let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
            allows(root, root.pointer(pointer).unwrap(), value)
        }
        "type" if rule.is_array() => parts().any(|kind| is_a(kind.as_str().unwrap(), value)),
        "type" => is_a(rule.as_str().unwrap(), value),
        "enum" => parts().any(|one| one == value),
        "const" => rule == value,
        "allOf" => parts().all(|part| allows(root, part, value)),
        "anyOf" => parts().any(|part| allows(root, part, value)),
        "oneOf" => parts().filter(|part| allows(root, part, value)).count() == 1,
        "pattern" => value
            .as_str()
            .is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minimum" => value.as_f64().is_none_or(|number| number >= limit()),
        "maximum" => value.as_f64().is_none_or(|number| number <= limit()),
        "minItems" => value.as_array().is_none_or(|all| all.len() as f64 >= limit()),
        "minProperties" => value.as_object().is_none_or(|all| all.len() as f64 >= limit()),
        "uniqueItems" => value.as_array().is_none_or(|all| {
            all.iter().map(Value::to_string).collect::<BTreeSet<_>>().len() == all.len()
        }),
        "items" => value.as_array().is_none_or(|all| all.iter().all(|one| allows(root, rule, one))),
        "required" => value
            .as_object()
            .is_none_or(|all| parts().all(|key| all.contains_key(key.as_str().unwrap()))),
        "properties" => value.as_object().is_none_or(|all| {
            let known = rule.as_object().unwrap();
            all.iter()
                .all(|(key, value)| known.get(key).is_none_or(|part| allows(root, part, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|all| {
            let known = rules.get("properties").and_then(Value::as_object);
            let is_known = |key: &str| known.is_some_and(|known| known.contains_key(key));
            all.iter().all(|(key, value)| is_known(key) || allows(root, rule, value))
        }),
        other => panic!("the schema has `{other}`, which this test does not know"),
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the schema has the type `{other}`, which this test does not know"),
    }
}

fn is_allowed(schema: &Value, text: &str) -> bool {
    allows(schema, schema, &toml::from_str(text).unwrap())
}

/// The files of `folder` and the folders within that end in `.toml`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    all.sort();
    all
}

#[test]
fn schemas_allow_the_files_of_the_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let (scenario, sweep, plan) = (schema("scenario"), schema("sweep"), schema("plan"));
    let of_folders =
        ["encoder", "failures", "rl", "fsdp"].map(|question| (question, schema(question)));
    let is_none = |name: &str, text: &str| {
        for schema in [&scenario, &sweep, &plan] {
            assert!(!is_allowed(schema, text), "{name}");
        }
    };
    let mut seen = [0; 3];
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&path).unwrap();
        let folder = name.split('/').next().unwrap();
        if let Some((_, schema)) = of_folders.iter().find(|(question, _)| *question == folder) {
            assert!(is_allowed(schema, &text), "{name}");
            is_none(&name, &text);
            continue;
        }
        match folder {
            "clusters" | "machines" | "profiles" => is_none(&name, &text),
            _ if text.contains("[device]") => is_none(&name, &text),
            _ if name == "Cargo.toml" => is_none(&name, &text),
            "plan" | "trainings" => {
                assert!(is_allowed(&plan, &text), "{name}");
                assert!(!is_allowed(&scenario, &text), "{name}");
                seen[2] += 1;
            }
            _ => {
                assert!(is_allowed(&scenario, &text), "{name}");
                assert!(!is_allowed(&plan, &text), "{name}");
                let sweeps = text.contains("[sweep]");
                assert_eq!(is_allowed(&sweep, &text), sweeps, "{name}");
                seen[usize::from(sweeps)] += 1;
            }
        }
    }
    assert!(seen[0] >= 6 && seen[1] >= 1 && seen[2] >= 1, "{seen:?}");
}

#[test]
fn schemas_allow_their_examples() {
    let questions = [
        "scenario",
        "sweep",
        "plan",
        "fsdp",
        "rl",
        "encoder",
        "search",
        "failures",
        "replay",
        "reproduce",
    ];
    for question in questions {
        let schema = schema(question);
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_eq!(schema["title"], format!("debubble {question}"));
        assert_eq!(schema["additionalProperties"], false, "{question}");
        assert!(schema["description"].as_str().is_some_and(|text| !text.is_empty()));
        let examples = schema["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{question}");
        for example in examples {
            assert!(allows(&schema, &schema, example), "{question}: {example}");
        }
        parts(&schema, &mut |part| {
            for example in part.get("examples").and_then(Value::as_array).into_iter().flatten() {
                assert!(allows(&schema, part, example), "{question}: {part}");
            }
        });
    }
}

/// Calls `see` with every object within `part`.
fn parts(part: &Value, see: &mut impl FnMut(&Value)) {
    match part {
        Value::Object(all) => {
            see(part);
            all.iter().filter(|(key, _)| *key != "examples").for_each(|(_, one)| parts(one, see));
        }
        Value::Array(all) => all.iter().for_each(|one| parts(one, see)),
        _ => {}
    }
}

#[test]
#[allow(clippy::too_many_lines)] // A line for each fault.
fn schemas_refuse_what_the_commands_refuse() {
    let whole = "schedule = \"1f1b\"\nstages = 4\nmicrobatches = 8\nforward = \"1ms\"\nbackward = \"2ms\"\n";
    let (scenario, folder) = (schema("scenario"), tempfile::tempdir().unwrap());
    let file = folder.path().join("question.toml");
    let is_read = |text: &str| {
        fs::write(&file, text).unwrap();
        let command = if text.contains("[sweep]") { "sweep" } else { "simulate" };
        let out = folder.path().join("rows.csv");
        let out =
            if command == "sweep" { format!(" --out {}", out.display()) } else { String::new() };
        run(&format!("{command} {}{out}", file.display())).status.success()
    };
    let right = [
        "hop = \"500us\"",
        "hop = \"5e2 US\"",
        "hop = \"0.5\u{b5}s\"",
        "hop = [\"1ms\"]",
        "hop = [\"1ms\", \"2us\", \"0ns\"]",
        "memory-limit = \"2p\"",
        "memory-limit = [\"1p\", \"1p\", \"1.5p\", \"2P\"]",
        "activation = \"40gb\"\nmemory-limit = \"1tib\"",
        "jitter = [\"pass=lognormal:0.05\", \"hop=pareto:2.5\"]\nhop = \"1us\"",
        "slowdown = \"stage:3=1.5\"",
        "stall = \"0.001:50ms\"\nseed = 3",
        "steps = 2\nboundary = \"post-validation:0.5\"",
        "gradient-reduction = \"20ms:overlapped\"",
        "[[setting]]\nname = \"one\"\nhop = \"1ns\"",
        "[sweep]\nhop = [\"1us\", \"2us\"]",
        "[sweep]\nhop = { from = \"0us\", to = \"4us\", step = \"2us\" }",
        "[sweep]\nseed = { from = 4, to = 16, factor = 2 }",
    ];
    for line in right {
        let text = format!("{whole}{line}\n");
        assert!(is_read(&text), "{line} is refused by the command");
        assert!(is_allowed(&scenario, &text), "{line} is refused by the schema");
    }
    let wrong = [
        "stage = 4",
        "hop = 500",
        "hop = \"500\"",
        "hop = \"ms\"",
        "hop = \"500 parsec\"",
        "hop = \"500Ms\"",
        "hop = \"-1ms\"",
        "hop = [\"1ms\", 2, \"1ms\"]",
        "memory-limit = \"2q\"",
        "memory-limit = 2",
        "activation = \"40Gb\"",
        "host-bandwidth = \"300GB\"",
        "jitter = \"pass=cauchy:1\"",
        "slowdown = \"3=1.5\"",
        "stall = \"50ms\"",
        "sharing = \"unfair\"",
        "protocol = \"rendezvous\"",
        "seed = \"3\"",
        "group = -1",
        "title = 3",
        "setting = []",
        "[[setting]]\nhops = \"1ns\"",
        "[sweep]\nhop = \"1us\"",
        "[sweep]\nhop = { from = \"0us\", to = \"4us\" }",
        "[sweep]\nhop = []",
        "[sweep]",
    ];
    for line in wrong {
        let text = format!("{whole}{line}\n");
        assert!(!is_read(&text), "{line} is read by the command");
        assert!(!is_allowed(&scenario, &text), "{line} is allowed by the schema");
    }
}

/// The names of the flags of `command`, but for those of `others`.
fn flags(command: &str, others: &[&str]) -> BTreeSet<String> {
    let help = stdout(&run(&format!("{command} --help-all")));
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("-h, ").unwrap_or(line);
        let flag = line.strip_prefix("--")?;
        Some(flag.split([' ', '=']).next().unwrap_or(flag).to_owned())
    };
    // Descriptions stand further to the right, or in lines of their own.
    let is_flag = |line: &&str| {
        let indent = line.len() - line.trim_start().len();
        (1..=6).contains(&indent) && line.trim_start().starts_with('-')
    };
    let all = help.split("\nExamples:").next().unwrap().lines().filter(is_flag).filter_map(name);
    let mut all: BTreeSet<String> = all.collect();
    all.remove("help-all");
    for other in others.iter().chain(&["help"]) {
        assert!(all.remove(*other), "{command} has no flag --{other}");
    }
    all
}

/// The keys that `question` may say, but for those of `others`.
fn keys(question: &str, others: &[&str]) -> BTreeSet<String> {
    let schema = schema(question);
    let mut all: BTreeSet<String> =
        schema["properties"].as_object().unwrap().keys().cloned().collect();
    for other in others {
        assert!(all.remove(*other), "{question} has no key {other}");
    }
    all
}

#[test]
fn the_keys_of_a_scenario_are_the_flags_of_simulate() {
    let answer = [
        "explain",
        "explain-svg",
        "json",
        "sort",
        "pareto",
        "gantt",
        "svg",
        "width",
        "html",
        "trace",
        "timeline",
        "baseline",
        "csv",
        "tolerance",
    ];
    let file = ["title", "source", "convention", "setting", "sweep"];
    let flags = flags("simulate", &answer);
    assert_eq!(keys("scenario", &file), flags);
    let scenario = schema("scenario");
    let names = |place: &str| {
        let all = scenario.pointer(place).unwrap().as_object().unwrap();
        all.keys().cloned().collect::<BTreeSet<String>>()
    };
    assert_eq!(names("/properties/sweep/properties"), flags);
    let mut of_setting = names("/properties/setting/items/properties");
    for other in ["name", "published", "regenerated"] {
        assert!(of_setting.remove(other));
    }
    assert_eq!(of_setting, flags);
}

#[test]
fn the_keys_of_other_questions_are_flags_too() {
    let answer = ["json", "csv", "svg", "timeline", "width"];
    let run = ["execute", "hidden", "heads", "vocabulary", "timeout"];
    assert_eq!(keys("fsdp", &[]), flags("fsdp", &[&answer[..], &run[..]].concat()));
    assert_eq!(keys("rl", &[]), flags("rl", &["json", "csv", "set", "svg", "width"]));
    let failures = flags("failures", &["csv", "failures", "json", "svg", "width"]);
    let of_questions = keys("scenario", &["title", "source", "convention", "setting", "sweep"]);
    assert_eq!(&of_questions | &keys("failures", &[]), failures);
    assert_eq!(
        keys("encoder", &[]),
        flags("encoder", &["json", "csv", "operations", "svg", "width"])
    );
    let answer = [
        "certificate",
        "export",
        "export-scenario",
        "write-lp",
        "write-mps",
        "svg",
        "width",
        "pareto",
        "csv",
        "json",
    ];
    let search = flags("search", &answer);
    assert_eq!(
        &keys("scenario", &["title", "source", "convention", "setting", "sweep"])
            | &keys("search", &[]),
        search
    );
    let replay = flags("replay", &[]);
    assert!(keys("replay", &[]).is_subset(&replay));
    assert!(keys("reproduce", &["tables"]).is_subset(&flags("reproduce", &[])));
}

#[test]
fn descriptions_are_those_of_the_help() {
    let scenario = schema("scenario");
    let help = stdout(&run("simulate --help-all"));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in ["forward", "memory-limit", "jitter", "gradient-reduction", "offload-ratio"] {
        let text = scenario.pointer(&format!("/definitions/key.{name}/description")).unwrap();
        assert!(help.contains(text.as_str().unwrap()), "{name}: {text}");
    }
    let fsdp = schema("fsdp");
    assert_eq!(fsdp.pointer("/properties/minibatches/default"), Some(&json!(100)));
    refused(&run("schema nonsense"), &["nonsense", "scenario"]);
}
