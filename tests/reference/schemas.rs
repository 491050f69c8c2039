//! The schemas of questions: files that every door shows, derived from the types that read the questions.

use question::questions::QUESTIONS;
use question::{encoder, failures, fsdp, replay, rl, schema, search};
use serde_json::{Value, json};

use super::{CURE, hold, root};

/// The schema of the question `name`.
pub fn named(name: &str) -> Result<Value, String> {
    match name {
        "scenario" => Ok(schema::scenario()),
        "sweep" => Ok(schema::sweep()),
        "plan" => Ok(of_plan()),
        "fsdp" => Ok(of_fsdp()),
        "rl" => Ok(of_rl()),
        "encoder" => Ok(of_encoder()),
        "search" => Ok(of_search()),
        "failures" => Ok(of_failures()),
        "replay" => Ok(of_replay()),
        "reproduce" => Ok(of_reproduce()),
        _ => Err(format!("there is no schema of `{name}`")),
    }
}

fn of_plan() -> Value {
    schema::of::<planning::Document>(
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

fn of_rl() -> Value {
    schema::of::<rl::RlKeys>(
        "debubble rl",
        &[
            json!({ "model": "qwen2.5-7b", "machine": "h100", "devices": 8, "prompts": 128, "responses": 8 }),
        ],
    )
}

fn of_encoder() -> Value {
    schema::of::<encoder::EncoderKeys>(
        "debubble encoder",
        &[json!({
            "stages": 8, "microbatches": 32, "forward": "48ms", "backward": "96ms",
            "encoder-forward": "67ms", "encoder-backward": "96ms", "encoder-layers": 48,
        })],
    )
}

fn of_search() -> Value {
    schema::of::<search::SearchKeys>(
        "debubble search",
        &[json!({ "memory-limits": ["1p", "1.5p"], "objective": "makespan" })],
    )
}

fn of_failures() -> Value {
    schema::of::<failures::FailureKeys>(
        "debubble failures",
        &[json!({ "data-parallel": 4, "dead": ["0.1"], "mtbf": "7200s", "repair": "3600s" })],
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

#[test]
fn files_of_schemas_say_what_questions_are_read() {
    let folder = root().join("question/schemas");
    let mut wrong = Vec::new();
    for one in &QUESTIONS {
        let text = serde_json::to_string_pretty(&named(one.name).unwrap()).unwrap() + "\n";
        wrong.extend(hold(&folder.join(format!("{}.json", one.name)), &text));
    }
    assert!(wrong.is_empty(), "{CURE}\n{}", wrong.join("\n"));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), QUESTIONS.len());
}
