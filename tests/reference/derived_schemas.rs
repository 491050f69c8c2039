//! The schemas of all questions, derived from the types that read them.

use question::{fsdp, plan, replay, schema, search};
use serde_json::{Value, json};

/// The schema of the question `name`, if there is one.
pub fn named(name: &str) -> Option<Value> {
    let made = match name {
        "scenario" => schema::scenario(),
        "sweep" => schema::sweep(),
        "plan" => of_plan(),
        "fsdp" => of_fsdp(),
        "search" => of_search(),
        "replay" => of_replay(),
        "reproduce" => of_reproduce(),
        _ => return None,
    };
    Some(made)
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
    schema::of::<fsdp::FsdpKeys>(
        "debubble fsdp",
        &[json!({ "devices": [8, 32], "minibatch-size": 4, "lengths": "file:lengths.txt" })],
    )
}

fn of_search() -> Value {
    schema::of::<search::SearchKeys>(
        "debubble search",
        &[json!({ "memory-limits": ["1p", "1.5p"], "objective": "makespan" })],
    )
}

fn of_replay() -> Value {
    schema::of::<replay::ReplayKeys>(
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
