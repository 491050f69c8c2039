//! Steps of reinforcement learning and packing: the answers are the command line's, and faults are told.

use question::encoder::EncoderKeys;
use question::failures::FailureKeys;
use question::fsdp::FsdpKeys;
use question::rl::RlKeys;

use super::*;

/// A step that is simulated quickly.
const RL: &str = "model = \"qwen2.5-1.5b\"\nmachine = \"h100\"\ndevices = 4\nprompts = 8\nresponses = 4\n\
                  response-lengths = \"lognormal:200:0.9:1000\"\nsteps = 2\n";
const FSDP: &str = "devices = [2, 4]\nminibatch-size = [1, 4]\nlayers = 2\nminibatches = 5\n";

fn ask(kind: &str, text: &str) -> Value {
    json!({ "ask": kind, "text": text })
}

/// The failure of `request` with `files`: its key and its text.
fn failure(request: &Value, files: &Files) -> (String, String) {
    let answer = answer(&Context::new(files), &request.to_string());
    let failure: Value = serde_json::from_str(&answer.unwrap_err().json()).unwrap();
    let part = |name: &str| failure[name].as_str().unwrap_or_default().to_owned();
    (part("key"), part("text"))
}

#[test]
fn a_step_of_reinforcement_learning_is_that_of_the_command_line() {
    let found = asked(&ask("rl", RL), &Files::new());
    let host = Files::new();
    let keys: RlKeys = toml::from_str(RL).unwrap();
    let expected = ::answer::rl::rl(&Context::new(&host), &keys).unwrap();
    assert_eq!(found["answer"], printed(&expected));
    assert_eq!(text(&found, "csv").as_bytes(), expected.csv().unwrap());
    assert!(text(&found, "svg").starts_with("<svg"));
    let lead = text(&found["answer"], "headline");
    assert!(
        lead.starts_with("A step takes about ") && lead.contains("the rollout takes"),
        "{lead}"
    );
}

#[test]
fn a_change_that_was_tried_is_the_question_with_it() {
    let found = asked(&ask("rl", RL), &Files::new());
    let [levers, changes] = [&found["answer"]["levers"], &found["changes"]];
    let [levers, changes] = [levers, changes].map(|list| list.as_array().unwrap());
    assert_eq!(levers.len(), changes.len());
    let mut tried = 0;
    for (lever, change) in levers.iter().zip(changes) {
        let Some(change) = change.as_object() else {
            assert!(lever["refused"].is_string(), "{lever}");
            continue;
        };
        tried += 1;
        let mut keys: toml::Table = toml::from_str(RL).unwrap();
        for (key, value) in change {
            match value {
                Value::Null => drop(keys.remove(key)),
                value => drop(keys.insert(key.clone(), toml::Value::try_from(value).unwrap())),
            }
        }
        let changed = asked(&ask("rl", &toml::to_string(&keys).unwrap()), &Files::new());
        assert_eq!(changed["answer"]["step_ns"], lever["step_ns"], "{lever}");
    }
    assert!(tried >= 3, "{levers:?}");
    // A change that takes a key away.
    let apart = format!("{RL}placement = \"separate\"\nrollout-devices = 2\n");
    let found = asked(&ask("rl", &apart), &Files::new());
    let together = json!({ "placement": "colocated", "rollout-devices": null });
    assert!(found["changes"].as_array().unwrap().contains(&together), "{}", found["changes"]);
}

#[test]
fn packing_is_that_of_the_command_line() {
    let found = asked(&ask("fsdp", FSDP), &Files::new());
    let host = Files::new();
    let keys: FsdpKeys = toml::from_str(FSDP).unwrap();
    let expected = ::answer::fsdp::fsdp(&Context::new(&host), &keys).unwrap();
    assert_eq!(found["answer"], printed(&expected));
    assert_eq!(text(&found, "csv").as_bytes(), expected.csv().unwrap());
    let lead = text(&found["answer"], "headline");
    assert!(lead.starts_with("lb-mini with on-demand is "), "{lead}");
    assert!(lead.contains(" times as fast as lb-micro with collectives"), "{lead}");
    let settings = found["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 4);
    let best = &settings[usize::try_from(found["best"].as_u64().unwrap()).unwrap()];
    assert!(best.as_str().unwrap().contains("size 4"), "{best}");
    for setting in 0..4 {
        let request = json!({ "ask": "minibatch", "text": FSDP, "setting": setting });
        let drawn = asked(&request, &Files::new());
        assert!(text(&drawn, "svg").contains("lb-mini, on-demand"));
    }
    let request = json!({ "ask": "minibatch", "text": FSDP, "setting": 4 });
    assert!(refused(&request, &Files::new()).contains("4 settings"));
    let alone = format!("{FSDP}method = \"lb-micro\"\ncommunication = \"collectives\"\n");
    let found = asked(&ask("fsdp", &alone), &Files::new());
    let lead = text(&found["answer"], "headline");
    assert!(
        lead.starts_with("Nothing is faster than lb-micro with collectives: a step of "),
        "{lead}"
    );
}

#[test]
fn examples_are_questions_with_a_title() {
    for (of, folder) in [
        ("rl", scenarios::RL),
        ("fsdp", scenarios::FSDP),
        ("encoder", scenarios::ENCODERS),
        ("failures", scenarios::FAILURES),
    ] {
        let count = folder.names().len();
        let found = asked(&json!({ "ask": "examples", "of": of }), &Files::new());
        let examples = found["examples"].as_array().unwrap();
        assert_eq!(examples.len(), count);
        for example in examples {
            let (title, question) = (text(example, "title"), text(example, "text"));
            assert!(
                question.starts_with(&format!("# {title}\n")) && title.contains(' '),
                "{title}"
            );
            let keys = asked(&json!({ "ask": "keys", "text": question }), &Files::new());
            assert!(!keys["keys"].as_object().unwrap().is_empty(), "{question}");
            let read = match of {
                "rl" => toml::from_str::<RlKeys>(question).map(drop),
                "encoder" => toml::from_str::<EncoderKeys>(question).map(drop),
                "failures" => toml::from_str::<FailureKeys>(question).map(drop),
                _ => toml::from_str::<FsdpKeys>(question).map(drop),
            };
            assert!(read.is_ok(), "{title}: {read:?}");
        }
    }
}

#[test]
fn fields_have_the_groups_and_the_order_of_their_rows() {
    for (of, rows) in [
        ("rl", RlKeys::ROWS),
        ("fsdp", FsdpKeys::ROWS),
        ("encoder", EncoderKeys::ROWS),
        ("failures", FailureKeys::ROWS),
    ] {
        let schema = asked(&json!({ "ask": "schema", "of": of }), &Files::new());
        let order: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(schema["order"], json!(order));
        for row in rows {
            let field = &schema["properties"][row.name];
            assert_eq!(field["group"], json!(row.heading), "{}", row.name);
            assert_eq!(field["title"], json!(row.label), "{}", row.name);
        }
    }
}

#[test]
fn lengths_come_of_columns_of_files() {
    let rows = "{\"id\": 1, \"length\": 300}\n{\"id\": 2, \"length\": [1, 2, 3]}\n";
    let files = one("rows.jsonl", rows);
    let found = asked(&json!({ "ask": "columns", "file": "rows.jsonl" }), &files);
    assert_eq!(found["columns"], json!(["id", "length"]));
    let question = format!("{FSDP}lengths = \"in-order:rows.jsonl:length\"\n");
    let found = asked(&ask("fsdp", &question), &files);
    assert_eq!(found["answer"]["results"][0]["max_tokens"], json!(300));
    let wrong = format!("{FSDP}lengths = \"file:rows.jsonl:size\"\n");
    let (key, why) = failure(&ask("fsdp", &wrong), &files);
    assert!(key == "lengths" && why.contains("no key size"), "{key}: {why}");
}

#[test]
fn faults_name_their_field_and_their_cure_without_flags() {
    for (kind, text, key, why) in [
        ("rl", "model = \"qwen2.5-7b\"\n", "machine", "`machine` is missing"),
        ("rl", "model = \"gpt-9\"\nmachine = \"h100\"\n", "model", "there is no model `gpt-9`"),
        ("rl", "modle = \"x\"\n", "modle", "there is no key `modle`"),
        ("rl", "devices = \"many\"\n", "devices", "a whole number"),
        ("rl", &format!("{RL}tensor = 3\n"), "tensor", "`tensor` 3 does not divide"),
        (
            "rl",
            &format!("{RL}rollout-devices = 2\n"),
            "rollout-devices",
            "needs `placement` separate",
        ),
        ("fsdp", "lengths = \"normal:3\"\n", "lengths", "is not a distribution"),
        ("fsdp", "lengths = \"file:gone.csv:n\"\n", "lengths", "gone.csv"),
        ("fsdp", "bandwidth = \"1GB/s\"\n", "bandwidth", "`bandwidth` needs `parameters`"),
        ("fsdp", "model = \"qwen2.5-7b\"\n", "model", "`model` needs `machine`"),
        ("fsdp", "max-tokens = 10\n", "", "raise `max-tokens`"),
    ] {
        let (found, said) = failure(&ask(kind, text), &Files::new());
        assert!(found == key && said.contains(why) && !said.contains("--"), "{found}: {said}");
    }
}

#[test]
fn hostile_sizes_are_refused_before_they_are_worked_out() {
    for (kind, text, key) in [
        (
            "rl",
            format!("{RL}rollout-budget = 1\n").replace("prompts = 8", "prompts = 2048"),
            "prompts",
        ),
        ("rl", RL.replace("prompts = 8", "prompts = 4096"), "prompts"),
        (
            "rl",
            RL.replace("devices = 4", "devices = 16384").replace("prompts = 8", "prompts = 4096"),
            "prompts",
        ),
        ("rl", RL.replace("prompts = 8", "prompts = 18446744073709551615"), ""),
        ("fsdp", FSDP.replace("[1, 4]", "4096"), "minibatch-size"),
        ("fsdp", FSDP.replace("[2, 4]", "16384"), "minibatch-size"),
        ("fsdp", FSDP.replace("minibatches = 5", "minibatches = 9000000"), "minibatches"),
        ("fsdp", FSDP.replace("layers = 2", "layers = 100000"), ""),
    ] {
        let (found, said) = failure(&ask(kind, &text), &Files::new());
        assert!(found == key && !said.is_empty(), "{text}: {found}: {said}");
    }
    let large = FSDP.replace("layers = 2", "layers = 1024").replace("[1, 4]", "64");
    let request = json!({ "ask": "minibatch", "text": large, "setting": 0 });
    assert!(refused(&request, &Files::new()).contains("too many to draw"));
}
