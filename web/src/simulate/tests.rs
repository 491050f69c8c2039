//! The page gets the output of the command line.

use std::path::Path;

use question::Host;
use serde_json::{Value, json};

use super::*;
use crate::host::Files;

const SMALL: &str = r#"
schedule = ["1f1b", "zb-h1"]
stages = 4
microbatches = 8
forward = "10ms"
backward-input = "9ms"
backward-weight = "7ms"
hop = "1ms"
"#;

/// The answer to `request`, or the message and the cure of its refusal.
fn ask(request: &Value) -> Result<Value, (String, String)> {
    let files = Files::new();
    let answer = crate::answer(&Context::new(&files), &request.to_string());
    match answer {
        Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
        Err(failure) => {
            let failure: Value = serde_json::from_str(&failure.json()).unwrap();
            let part = |key: &str| failure[key].as_str().unwrap_or_default().to_owned();
            Err((part("message"), part("help")))
        }
    }
}

fn simulated(text: &str, more: &Value) -> Result<Value, (String, String)> {
    let mut request = json!({ "ask": "simulate", "text": text });
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    ask(&request)
}

/// Output of `debubble simulate --json` for the scenario `text`.
fn printed(text: &str) -> (Value, String) {
    let file = Path::new("question.toml");
    let files = Files::from([(file.to_owned(), text.as_bytes().to_vec())]);
    let host: &dyn Host = &files;
    let context = Context::new(host);
    let scenario = Scenario::asked(&context, Some(file), &Keys::default()).unwrap();
    let answers = answer::simulate::simulate(&context, &scenario, Wants::default()).unwrap();
    (serde_json::to_value(&answers).unwrap(), draw::text::sheet(&report::sheet(&answers)))
}

#[test]
fn every_example_has_the_answer_of_the_command_line() {
    for (name, text) in scenarios::EXAMPLES.files() {
        let (expected, table) = printed(text);
        let more = json!({ "partial": true, "draw": "passes" });
        let answer = simulated(text, &more).unwrap();
        assert_eq!(answer["results"], expected["results"], "{name}");
        assert_eq!(answer["text"], *text, "{name}");
        let span = answer["sheet"][1]["rows"][0].as_array().unwrap();
        assert!(span.iter().all(|cell| table.contains(cell.as_str().unwrap())), "{name}");
        assert!(answer["refused"].is_null(), "{name}: {}", answer["refused"]);
        let charts = answer["drawing"]["charts"].as_array().unwrap();
        let makespans = charts.iter().zip(expected["results"].as_array().unwrap());
        for (chart, result) in makespans {
            let (drawn, printed) = (&chart["makespan"], &result["makespan_ns"]);
            // On hardware there may be more steps than the reported one.
            let steps = chart["releases"].as_array().unwrap().len();
            assert!(steps > 1 || drawn == printed, "{name}: {drawn} {printed}");
        }
    }
}

#[test]
fn a_schedule_that_cannot_do_the_question_leaves_the_others_their_answers() {
    let text = SMALL.replace("\"zb-h1\"", "\"zb-v\", \"interlaced\"");
    let answer = simulated(&text, &json!({ "partial": true })).unwrap();
    let names = |of: &Value| -> Vec<Value> {
        of.as_array().unwrap().iter().map(|one| one["schedule"].clone()).collect()
    };
    assert_eq!(names(&answer["results"]), ["1f1b", "zb-v"]);
    assert_eq!(names(&answer["refused"]), ["interlaced"]);
    let (message, _) = simulated(&text, &json!({})).unwrap_err();
    assert!(message.contains("interlaced"), "{message}");
    // Where none can, that is an error all the same.
    let none = SMALL.replace("\"1f1b\", \"zb-h1\"", "\"interlaced\"");
    assert!(simulated(&none, &json!({ "partial": true })).is_err());
}

#[test]
fn changed_keys_are_answered_and_written_back() {
    let change = json!({ "change": { "microbatches": 16, "hop": null, "schedule": "1f1b" } });
    let answer = simulated(SMALL, &change).unwrap();
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("microbatches = 16") && !text.contains("hop"), "{text}");
    assert_eq!(answer["results"], printed(text).0["results"]);
    let changed = ask(&json!({ "ask": "change", "text": SMALL, "change": change["change"] }));
    assert_eq!(changed.unwrap()["text"], text);
}

#[test]
fn causes_and_transfers_are_added_to_the_same_passes() {
    let drawn = |draw: &str| simulated(SMALL, &json!({ "draw": draw })).unwrap()["drawing"].clone();
    let (quick, all) = (drawn("passes"), drawn("all"));
    let charts = quick["charts"].as_array().unwrap().iter();
    for (quick, all) in charts.zip(all["charts"].as_array().unwrap()) {
        assert_eq!((&quick["stages"], &quick["makespan"]), (&all["stages"], &all["makespan"]));
        assert!(quick["idle"].is_null() && quick["transfers"] == json!([]));
        assert!(all["idle"]["note"].is_null() && all["idle"]["cost"].as_u64() > Some(0));
        assert!(!all["transfers"].as_array().unwrap().is_empty());
    }
    assert!(drawn("none").is_null());
}

#[test]
fn the_front_and_the_causes_are_told_where_they_are_asked_for() {
    let more = json!({ "schedules": ["all"], "front": true });
    let answer = simulated(SMALL, &more).unwrap();
    let points = answer["points"].as_array().unwrap();
    let front = |one: &&Value| one["standing"] == "front";
    assert!(points.iter().any(|one| front(&one)) && points.iter().any(|one| !front(&one)));
    assert_eq!(points.len(), answer["results"].as_array().unwrap().len());
    let answer = simulated(SMALL, &json!({ "explain": true })).unwrap();
    let why = answer["why"].as_array().unwrap();
    assert_eq!((why.len(), &why[0]["title"]), (2, &json!("1f1b")));
    assert!(why[0]["svg"].as_str().unwrap().starts_with("<svg"));
    assert_eq!(why[0]["sheet"][1]["header"][0], "stage");
}

#[test]
fn what_a_browser_cannot_bear_is_refused_or_not_drawn() {
    let with = |stages: u64, microbatches: u64| {
        let change = json!({ "stages": stages, "microbatches": microbatches });
        simulated(SMALL, &json!({ "change": change, "draw": "passes", "schedules": ["1f1b"] }))
    };
    let answer = with(100, 2_000).unwrap();
    assert!(answer["drawing"].is_null() && answer["results"][0]["stages"] == 100);
    let why = answer["not_drawn"].as_str().unwrap();
    assert!(why.contains("at most 300000"), "{why}");
    for (stages, microbatches) in [(8, 1_000_000), (10_000, 1_000), (1 << 62, 1 << 62)] {
        let (message, _) = with(stages, microbatches).unwrap_err();
        assert!(message.contains("at most"), "{message}");
    }
    let still = with(8, 1).unwrap();
    assert!(still["drawing"].is_object());
}

#[test]
fn a_question_without_time_has_figures_and_no_picture() {
    let change =
        json!({ "forward": "0ns", "backward-input": "0ns", "backward-weight": "0ns", "hop": null });
    let answer = simulated(SMALL, &json!({ "change": change, "draw": "all" })).unwrap();
    assert!(answer["drawing"].is_null() && answer["not_drawn"] == "no pass takes time");
}

/// The schedules that a page shows are few; the best of all that apply is the one of an exhaustive comparison.
#[test]
fn the_best_is_that_of_all_schedules_that_apply() {
    let text = "schedule = [\"1f1b\", \"zb-v\"]\nstages = 4\nmicrobatches = 8\nforward = \"12ms\"\n\
                backward-input = \"10ms\"\nbackward-weight = \"8ms\"\nactivation = \"1GiB\"\n";
    for limit in ["2GiB", "3GiB", "4GiB", "8GiB"] {
        let text = format!("{text}memory-limit = \"{limit}\"\n");
        let shown = simulated(&text, &json!({ "applicable": true })).unwrap();
        let all = text.replace("[\"1f1b\", \"zb-v\"]", "\"all\"");
        let all = simulated(&all, &json!({ "partial": true })).unwrap();
        let rows = all["results"].as_array().unwrap().iter().zip(all["points"].as_array().unwrap());
        let fit = rows.filter(|(row, point)| row["fits"] == true && point["asynchronous"] == false);
        let spans = fit.map(|(row, _)| (row["span_ns"].as_u64().unwrap(), &row["schedule"]));
        let spans: Vec<(u64, &Value)> = spans.collect();
        let least = spans.iter().map(|(span, _)| span).min().unwrap();
        let best = &shown["applicable"]["best"][0];
        assert!(spans.iter().any(|(span, name)| span == least && *name == best), "{limit}: {best}");
        assert_eq!(shown["applicable"]["headline"], all["headline"]);
        let own = shown["headline"].as_str().unwrap();
        assert!(own.contains("of these 2 schedules"), "{own}");
    }
}
