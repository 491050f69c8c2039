//! The JSON schemas of all questions, by name.
//!
//! They are files of `question/schemas/`. Feature `schema` derives them from the types that read the questions: tests
//! of the command line hold the files to that, and `make reference` writes them.

use crate::{Diagnostic, nearest, quote};

/// The schema of a kind of question.
pub struct Schema {
    /// The name of the question.
    pub name: &'static str,
    /// The command that asks it, in a line.
    pub help: &'static str,
    /// The schema as JSON, which ends with a line.
    pub text: &'static str,
}

macro_rules! schema {
    ($name:literal, $help:literal) => {
        Schema {
            name: $name,
            help: $help,
            text: include_str!(concat!("../schemas/", $name, ".json")),
        }
    };
}

/// The schema of a scenario.
pub const SCENARIO: Schema =
    schema!("scenario", "A scenario, for simulate, sweep, search and export");
/// The schema of a question for the planner.
pub const PLAN: Schema = schema!("plan", "A question for the planner");
/// The schema of the keys of a search.
pub const SEARCH: Schema = schema!("search", "The keys of a search, besides those of its scenario");
/// The schema of a question of packing and communication.
pub const FSDP: Schema = schema!("fsdp", "A study of packing and communication");
/// The schema of a question about a step of reinforcement learning.
pub const RL: Schema = schema!("rl", "A step of reinforcement learning");
/// The schema of a question about an encoder in front of a language model.
pub const ENCODER: Schema = schema!("encoder", "An encoder in front of a language model");
/// The schema of the keys of dead workers.
pub const FAILURES: Schema =
    schema!("failures", "The keys of dead workers, besides those of their schedules");

/// The schemas of all questions.
pub static SCHEMAS: &[Schema] = &[
    SCENARIO,
    schema!("sweep", "A scenario with axes, for sweep"),
    PLAN,
    FSDP,
    RL,
    ENCODER,
    SEARCH,
    FAILURES,
    schema!("replay", "The changes of a run that are tried on its trace"),
    schema!("reproduce", "A question for published tables"),
];

/// The schema of the question `name`.
pub fn named(name: &str) -> Result<&'static Schema, Diagnostic> {
    let names = || SCHEMAS.iter().map(|one| one.name);
    SCHEMAS.iter().find(|one| one.name == name).ok_or_else(|| {
        let near = nearest::question(name, names());
        let message = format!("there is no question `{}`{near}", quote::clip(name));
        let all = names().collect::<Vec<_>>().join(", ");
        Diagnostic::new(message).with_help(format!("the questions are {all}"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    /// The labels of `properties` by key; a key of a scenario is defined elsewhere in `schema`.
    fn labels<'a>(schema: &'a Value, properties: &'a Value) -> BTreeMap<&'a str, &'a str> {
        let label = |(name, key): (&'a String, &'a Value)| {
            let reference = key["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
            let key = reference.map_or(key, |path| schema.pointer(path).unwrap());
            (name.as_str(), key["title"].as_str().unwrap_or_default())
        };
        properties.as_object().unwrap().iter().map(label).collect()
    }

    #[test]
    fn every_key_that_forms_show_has_a_label_of_its_own() {
        let mut seen = 0;
        for one in [SCENARIO, SEARCH, PLAN, RL, FSDP, ENCODER, FAILURES] {
            let schema: Value = serde_json::from_str(one.text).unwrap();
            let mut tables = vec![labels(&schema, &schema["properties"])];
            let definitions = schema["definitions"].as_object().unwrap().values();
            let of_tables = definitions.filter(|one| one["properties"].is_object());
            tables.extend(of_tables.map(|one| labels(&schema, &one["properties"])));
            for mut table in tables {
                // A scenario has these around its keys: they are not fields.
                for apart in ["convention", "setting", "source", "sweep", "title"] {
                    table.remove(apart);
                }
                let mut labels: Vec<&str> = table.values().copied().collect();
                seen += labels.len();
                labels.sort_unstable();
                assert!(!labels.contains(&""), "without a label: {table:?}");
                assert!(labels.windows(2).all(|pair| pair[0] != pair[1]), "{labels:?}");
                for (key, label) in table {
                    let begins = label.starts_with(|c: char| c.is_ascii_uppercase());
                    assert!(begins && label.len() <= 42, "{key}: {label}");
                }
            }
        }
        assert!(seen > 200, "{seen}");
    }
}
