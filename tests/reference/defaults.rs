//! The defaults that the help of a plan's keys says are those that a plan takes.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::schedules::ask;
use super::schemas;

/// A question whose keys are those alone that must be given.
const PLAN: &str = r#"
tokens = 1e9
batch = 16
sequence = 512
cluster = [{ machine = "a100-80g", devices = 4 }]

[model]
layers = 4
hidden = 512
heads = 8
vocabulary = 1024
"#;

/// The value that a default names, if it names one: a number, a truth, a name, or several.
fn value(default: &str, schema: &Json) -> Option<Value> {
    let one = |text: &str| -> Option<Value> {
        let is_text = schema["type"] == "string" || schema.to_string().contains("\"string\"");
        let is_size = !schema["allOf"].is_null();
        match text.parse::<Value>() {
            Ok(value) if !is_size => Some(value),
            _ => (is_text || is_size).then(|| Value::String(text.to_owned())),
        }
    };
    let is_word = |text: &str| text != "none" && !text.is_empty() && !text.contains([' ', ';']);
    let parts: Vec<&str> = default.split(", ").collect();
    match parts.iter().all(|part| is_word(part)) {
        true if parts.len() == 1 => one(default),
        true => parts.into_iter().map(one).collect::<Option<Vec<_>>>().map(Value::Array),
        false => None,
    }
}

/// Puts the defaults that `schema` says for keys which `table` lacks into it; how many there are.
fn fill(table: &mut Table, schema: &Json) -> usize {
    let mut filled = 0;
    for (key, schema) in schema["properties"].as_object().unwrap() {
        let help = schema["description"].as_str().unwrap_or_default();
        let default = help.split_once("[default: ").and_then(|(_, text)| text.split_once(']'));
        let Some(value) = default.and_then(|(default, _)| value(default, schema)) else { continue };
        if !table.contains_key(key) {
            table.insert(key.clone(), value);
            filled += 1;
        }
    }
    filled
}

/// Keys of `[training]` with a default that only models with experts have.
const ABOUT_EXPERTS: [&str; 6] = [
    "dispatcher",
    "fused-experts",
    "imbalance",
    "overlap-experts",
    "capacity-factor",
    "pad-to-capacity",
];

#[test]
fn plans_take_the_defaults_that_they_say() {
    let schema = schemas::named("plan").unwrap();
    let mut told: Table = toml::from_str(PLAN).unwrap();
    let mut filled = fill(&mut told, &schema);
    for (key, definition) in [
        ("model", "SizesDocument"),
        ("search", "SearchDocument"),
        ("training", "TrainingDocument"),
        ("noise", "NoiseDocument"),
    ] {
        let table = told.entry(key).or_insert_with(|| Table::new().into());
        filled += fill(table.as_table_mut().unwrap(), &schema["definitions"][definition]);
    }
    // Keys about experts are refused where the model has none.
    let training = told["training"].as_table_mut().unwrap();
    training.retain(|key, _| !ABOUT_EXPERTS.contains(&key));
    assert!(filled >= 20, "{told}");
    let folder = tempfile::tempdir().unwrap();
    let answer = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        ask(&format!("plan {} --json", file.display()))
    };
    let [short, long] =
        [answer("short.toml", PLAN), answer("long.toml", &told.to_string())].map(String::from_utf8);
    assert_eq!(short, long, "{told}");
}
