//! The JSON schemas of all questions, by name (feature `schema`).

use question::{Diagnostic, echo, fsdp, nearest, plan, replay, schema, search};
use serde_json::{Value, json};

use crate::reproduce;

/// The schema of a kind of question.
pub struct Schema {
    /// The name of the question.
    pub name: &'static str,
    /// What asks it, in a line.
    pub help: &'static str,
    /// Makes the schema.
    pub schema: fn() -> Value,
}

/// The schemas of all questions.
pub static SCHEMAS: &[Schema] = &[
    Schema {
        name: "scenario",
        help: "A scenario, for simulate, sweep, search and export",
        schema: schema::scenario,
    },
    Schema { name: "sweep", help: "A scenario with axes, for sweep", schema: schema::sweep },
    Schema { name: "plan", help: "A question for the planner", schema: of_plan },
    Schema { name: "fsdp", help: "A study of packing and communication", schema: of_fsdp },
    Schema {
        name: "search",
        help: "The keys of a search, besides those of its scenario",
        schema: of_search,
    },
    Schema {
        name: "replay",
        help: "The changes of a run that are tried on its trace",
        schema: of_replay,
    },
    Schema { name: "reproduce", help: "A question for published tables", schema: of_reproduce },
];

/// The schema of the question `name`.
///
/// # Errors
/// If no question has that name: with those that there are.
pub fn named(name: &str) -> Result<Value, Diagnostic> {
    let names = || SCHEMAS.iter().map(|one| one.name);
    let known = SCHEMAS.iter().find(|one| one.name == name);
    known.map(|one| (one.schema)()).ok_or_else(|| {
        let near = nearest::question(name, names());
        let message = format!("there is no question `{}`{near}", echo::clip(name));
        let all = names().collect::<Vec<_>>().join(", ");
        Diagnostic::new(message).with_help(format!("the questions are {all}"))
    })
}

fn of_plan() -> Value {
    schema::of::<plan::Document>(
        "debubble plan",
        &[json!({
            "model": { "layers": 32, "hidden": 4096, "heads": 32, "vocabulary": 32_000 },
            "sequence": 4096,
            "tokens": 1e12,
            "batch": 1024,
            "cluster": [{ "machine": "h100", "devices": [64, 128] }],
        })],
    )
}

fn of_fsdp() -> Value {
    schema::of::<fsdp::Keys>(
        "debubble fsdp",
        &[json!({ "devices": [8, 32], "minibatch-size": 4, "lengths": "file:lengths.txt" })],
    )
}

fn of_search() -> Value {
    schema::of::<search::Keys>(
        "debubble search",
        &[json!({ "memory-limits": ["1p", "1.5p"], "objective": "makespan" })],
    )
}

fn of_replay() -> Value {
    schema::of::<replay::Keys>(
        "debubble replay",
        &[json!({ "what-if": ["no-stragglers"], "schedule": ["zb-h1"] })],
    )
}

fn of_reproduce() -> Value {
    schema::of::<reproduce::Question>(
        "debubble reproduce",
        &[json!({ "tables": ["table5", "table8"], "beyond": true })],
    )
}
