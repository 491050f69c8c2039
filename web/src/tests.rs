//! The page gets the numbers of the command line, and refuses questions beyond its limits.

use std::path::{Path, PathBuf};

use answer::Tabular;
use answer::simulate::{Answers, Wants};
use question::keys::Keys;
use question::scenario::Scenario;
use question::{Context, search};
use serde_json::{Value, json};

use super::*;

mod placed;
mod studies;

const QUESTION: &str = "schedule = [\"1f1b\", \"zb-h1\"]\nstages = 4\nmicrobatches = 8\nforward = \"10ms\"\n\
                        backward-input = \"11ms\"\nbackward-weight = \"8ms\"\nhop = \"500us\"\n";

/// The answer to `request` with `files`.
fn asked(request: &Value, files: &Files) -> Value {
    let answer = answer(&Context::new(files), &request.to_string());
    serde_json::from_str(&answer.unwrap_or_else(|failure| panic!("{}", failure.json()))).unwrap()
}

/// Why `request` with `files` is refused.
fn refused(request: &Value, files: &Files) -> String {
    match answer(&Context::new(files), &request.to_string()) {
        Ok(answer) => panic!("answered: {answer}"),
        Err(failure) => {
            let failure: Value = serde_json::from_str(&failure.json()).unwrap();
            failure["text"].as_str().unwrap().to_owned()
        }
    }
}

fn one(name: &str, content: impl Into<Vec<u8>>) -> Files {
    Files::from([(PathBuf::from(name), content.into())])
}

fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer[key].as_str().unwrap_or_else(|| panic!("{key} in {answer}"))
}

/// `answer` as the command line prints it.
fn printed(answer: &impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap()
}

/// Whether `whole` has all that `part` has.
fn assert_holds(whole: &Value, part: &Value) {
    for (key, value) in part.as_object().unwrap() {
        assert_eq!(&whole[key], value, "{key}");
    }
}

fn scenario(context: &Context<'_>, flags: &Keys) -> Scenario {
    let scenario = Scenario::parse(context, Path::new("question.toml"), QUESTION.to_owned());
    scenario.and_then(|scenario| scenario.with(context, flags)).unwrap()
}

fn simulated(flags: &Keys) -> Answers {
    let host = Files::new();
    let context = Context::new(&host);
    let wants = Wants { runs: true, ..Wants::default() };
    answer::simulate::simulate(&context, &scenario(&context, flags), wants).unwrap()
}

/// The timeline file of the first schedule, of a question with `flags` over it.
fn timeline(flags: &Keys) -> Vec<u8> {
    let answers = simulated(flags);
    let recorded = answer::timelines::Recorded::predicted(&answers.outcomes[0]).unwrap();
    answer::timelines::bytes(&recorded).unwrap()
}

fn found() -> Value {
    let keys = json!({ "memory-limits": ["1p", "1.5p"], "placement": "v" });
    asked(&json!({ "ask": "search", "text": QUESTION, "keys": keys }), &Files::new())
}

#[test]
fn a_search_is_that_of_the_command_line() {
    let answer = found();
    let host = Files::new();
    let context = Context::new(&host);
    let keys = search::SearchKeys {
        placement: Some(search::PlacementArg::V),
        memory_limits: vec!["1p".parse().unwrap(), "1.5p".parse().unwrap()],
        ..search::SearchKeys::default()
    };
    let scenario = scenario(&context, &Keys::default());
    let expected = ::answer::search::search(&context, &scenario, &keys).unwrap();
    assert_holds(&answer, &printed(&expected));
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    assert_eq!(text(&answer, "csv").as_bytes(), expected.csv().unwrap());
    assert!(text(&answer, "front").starts_with("<svg"));
}

#[test]
fn an_order_that_was_found_has_a_certificate_and_files() {
    let answer = found();
    for (one_found, result) in
        answer["found"].as_array().unwrap().iter().zip(answer["results"].as_array().unwrap())
    {
        let verdict = asked(
            &json!({ "ask": "verify", "file": "a.cert" }),
            &one("a.cert", text(one_found, "certificate")),
        );
        assert_eq!((&verdict["holds"], &verdict["cost_ns"]), (&json!(true), &result["cost_ns"]));
        assert_eq!(verdict["bound_ns"], result["bound_ns"]);
        let order = pipeline::torch_csv::read_either(text(one_found, "order")).unwrap();
        let torch = pipeline::torch_csv::read(text(one_found, "torch")).unwrap();
        assert_eq!(order.to_string(), torch.to_string());
        assert!(text(one_found, "svg").contains(text(one_found, "published")));
    }
    let certificate = text(&answer["found"][0], "certificate");
    let cost = format!("cost-ns = {}", answer["results"][0]["cost_ns"]);
    assert!(certificate.contains(&cost), "{certificate}");
    let forged = certificate.replace(&cost, "cost-ns = 1");
    let verdict = asked(&json!({ "ask": "verify", "file": "a.cert" }), &one("a.cert", forged));
    assert_eq!(verdict["holds"], json!(false));
}

#[test]
fn points_of_a_figure_are_those_of_simulations() {
    let range = json!({ "ask": "limits", "from": "1p", "to": "2p", "step": "0.5p" });
    let listed = asked(&range, &Files::new());
    assert_eq!(listed["limits"], json!(["1p", "1.5p", "2p"]));
    let mut series = Vec::new();
    for schedule in ["zb-heuristic", "zb-v", "zb-auto"] {
        let mut points = Vec::new();
        for limit in listed["limits"].as_array().unwrap() {
            let request =
                json!({ "ask": "point", "text": QUESTION, "schedule": schedule, "limit": limit });
            let point = asked(&request, &Files::new());
            let flags = Keys {
                schedule: Some(vec![schedule.to_owned()]),
                memory_limit: Some(vec![limit.as_str().unwrap().parse().unwrap()]),
                ..Keys::default()
            };
            let expected = simulated(&flags).outcomes[0].metrics.bubble_rate();
            assert_eq!(point["bubble_rate"].as_f64(), Some(expected), "{schedule} {limit}");
            points.push(point);
        }
        series.push(json!({ "schedule": schedule, "points": points }));
    }
    let drawn = asked(&json!({ "ask": "figure", "series": series }), &Files::new());
    assert!(text(&drawn, "svg").contains("zb-heuristic"));
    assert_eq!(text(&drawn, "csv").lines().count(), 1 + 9);
}

#[test]
fn a_figure_of_too_many_limits_or_of_two_units_is_refused() {
    let range = json!({ "ask": "limits", "from": "1p", "to": "3p", "step": "0.001p" });
    assert!(refused(&range, &Files::new()).contains("at most 200"));
    let range = json!({ "ask": "limits", "from": "1p", "to": "3p", "step": "0p" });
    assert!(refused(&range, &Files::new()).contains("step"));
    let point = |limit| {
        json!({ "limit": limit, "bubble_rate": 0.1, "bubble": "10 %", "span_ns": 1,
                "peak_microbatches": 1.0, "fits": true })
    };
    let series = json!([{ "schedule": "a", "points": [point("1p"), point("1GiB")] }]);
    let why = refused(&json!({ "ask": "figure", "series": series }), &Files::new());
    assert!(why.contains("share no axis"), "{why}");
}

#[test]
fn a_schedule_is_exported_in_each_form() {
    let export = |form: &str| {
        let request =
            json!({ "ask": "export", "text": QUESTION, "schedule": "zb-h1", "form": form });
        text(&asked(&request, &Files::new()), "content").to_owned()
    };
    let order = pipeline::torch_csv::read_either(&export("text")).unwrap();
    let torch = pipeline::torch_csv::read(&export("torch-csv")).unwrap();
    assert_eq!(order.to_string(), torch.to_string());
    let expected = &simulated(&Keys::default()).outcomes[1].case.schedule;
    assert_eq!(order.to_string(), expected.to_string());
    let trace: Value = serde_json::from_str(&export("chrome")).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 4 * 8 * 3);
    let order = asked(&json!({ "ask": "order", "file": "o.txt" }), &one("o.txt", export("text")));
    assert_eq!((&order["stages"], &order["microbatches"]), (&json!(4), &json!(8)));
}

#[test]
fn files_are_told_apart_by_their_content() {
    let certificate = text(&found()["found"][0], "certificate").to_owned();
    let plan = scenarios::PLANS.text("gpt3").to_owned();
    let cluster = scenarios::CLUSTERS.text("dgx-a100").to_owned();
    let machine = scenarios::MACHINES.text("h100").to_owned();
    let timeline = String::from_utf8(timeline(&Keys::default())).unwrap();
    let sweep = "stages = 2\n[sweep]\nmicrobatches = [2, 4]\n".to_owned();
    let config = "{\"model_type\": \"llama\", \"hidden_size\": 8}".to_owned();
    let trace = "{\"traceEvents\": []}".to_owned();
    let order = "F0.0 BW0.0\n".to_owned();
    let all = [
        ("scenario", QUESTION.to_owned()),
        ("sweep", sweep),
        ("plan", plan),
        ("cluster", cluster),
        ("machine", machine),
        ("certificate", certificate),
        ("timeline", timeline),
        ("trace", trace),
        ("model-config", config),
        ("schedule", order),
        ("trace", "PAR1, and more".to_owned()),
    ];
    for (kind, content) in all {
        let answer_of_kind = asked(&json!({ "ask": "kind", "file": "x" }), &one("x", content));
        assert_eq!(answer_of_kind["kind"], json!(kind));
    }
}

#[test]
fn of_a_broken_file_is_said_what_its_name_promises() {
    for (name, content, why) in [
        ("a.toml", "stages = 2\nforward = [\n", "a.toml"),
        ("a.json", "{\"traceEvents\": [", "not JSON: EOF"),
        ("a.txt", "F0.0 X1.1\n", "X1.1"),
    ] {
        let said = refused(&json!({ "ask": "kind", "file": name }), &one(name, content));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_run_is_advised() {
    let mut files = one("run.sh", *include_bytes!("../../scenarios/runs/llama3-70b-12-layers.sh"));
    let log = include_bytes!("../../scenarios/runs/llama3-70b-12-layers.log");
    files.insert(PathBuf::from("run.log"), log.to_vec());
    for file in ["run.sh", "run.log"] {
        let kind = asked(&json!({ "ask": "kind", "file": file }), &files);
        assert_eq!(text(&kind, "kind"), "run", "{file}");
    }
    let request = json!({ "ask": "advise", "files": ["run.sh", "run.log"], "machine": "b200" });
    let found = asked(&request, &files);
    assert!(text(&found, "svg").starts_with("<svg") && found["notes"].is_array());
    let names: Vec<&str> =
        found["files"].as_array().unwrap().iter().filter_map(|file| file[0].as_str()).collect();
    assert!(names.contains(&"run.sh.diff") && names.contains(&"machine.toml"), "{names:?}");
    let words = refused(&json!({ "ask": "advise", "files": ["run.log"], "machine": null }), &files);
    assert!(words.contains("run.log"), "{words}");
}

#[test]
fn a_timeline_is_drawn_compared_and_replayed() {
    let before = timeline(&Keys::default());
    let flags = Keys { hop: Some(vec!["5ms".parse().unwrap()]), ..Keys::default() };
    let mut files = one("a.json", before);
    files.insert(PathBuf::from("b.json"), timeline(&flags));
    let drawn = asked(&json!({ "ask": "timeline", "file": "a.json" }), &files);
    assert_eq!((text(&drawn, "source"), &drawn["stages"]), ("simulated", &json!(4)));
    assert!(text(&drawn, "svg").starts_with("<svg"));
    let request = json!({ "ask": "compare", "predicted": "a.json", "measured": "b.json" });
    let compared = asked(&request, &files);
    let context = Context::new(&files);
    let [a, b] = ["a.json", "b.json"]
        .map(|name| ::answer::timelines::read(&context, Path::new(name)).unwrap());
    let expected = ::answer::compare::Comparison::of(&a, &b).unwrap();
    assert_eq!(compared["comparison"], printed(&expected));
    let replayed = asked(&json!({ "ask": "replay", "files": ["a.json"] }), &files);
    let keys = question::replay::ReplayKeys::default();
    let paths = [PathBuf::from("a.json")];
    let expected = ::answer::replay::replay(&context, &paths, false, &keys).unwrap();
    assert_holds(&replayed, &printed(&expected));
}

const PLAN: &str = "model = \"config.json\"\ntokens = 1e9\nbatch = 64\nsequence = 1024\nplans = 2\n\
                    [[cluster]]\nmachine = \"h100\"\ndevices = [8]\n[search]\nschedule = [\"1f1b\", \"zb-h1\"]\n\
                    microbatch = [1]\n";
const CONFIG: &str = "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"num_hidden_layers\": 16, \
                      \"num_attention_heads\": 16, \"intermediate_size\": 5632, \"vocab_size\": 32000, \
                      \"hidden_act\": \"silu\", \"max_position_embeddings\": 2048, \
                      \"tie_word_embeddings\": false}";

#[test]
fn a_plan_is_that_of_the_command_line() {
    let mut files = one("plan.toml", PLAN);
    files.insert(PathBuf::from("config.json"), CONFIG.into());
    let planned = asked(&json!({ "ask": "plan", "file": "plan.toml" }), &files);
    let context = Context::new(&files);
    let error = measured::memory_error().unwrap();
    let question =
        imports::question(&context, Path::new("plan.toml"), error, &planning::PlanFlags::default())
            .unwrap();
    let expected = ::answer::plan::plan(&context, question).unwrap();
    assert_holds(&planned, &printed(&expected));
    let plans = planned["plans"].as_array().unwrap().len();
    assert_eq!((planned["rows"].as_array().unwrap().len(), plans > 0), (plans, true));
    assert_eq!(text(&planned, "csv").lines().count(), 1 + plans);
    assert!(planned["taken"].as_array().unwrap().len() >= 2);
    assert!(!planned["export"].as_array().unwrap().is_empty());
    assert!(!planned["lacks"].as_array().unwrap().is_empty());
}

#[test]
fn a_plan_against_another_is_that_of_the_command_line() {
    let mut files = one("plan.toml", PLAN);
    files.insert(PathBuf::from("config.json"), CONFIG.into());
    let twice = PLAN.replace("batch = 64", "batch = 128");
    files.insert(PathBuf::from("kept/plan.toml"), twice.into());
    files.insert(PathBuf::from("kept/config.json"), CONFIG.into());
    let request = json!({ "ask": "plan", "file": "plan.toml", "against": "kept/plan.toml" });
    let planned = asked(&request, &files);
    let context = Context::new(&files);
    let error = measured::memory_error().unwrap();
    let [other, own] = ["kept/plan.toml", "plan.toml"].map(|file| {
        let question =
            imports::question(&context, Path::new(file), error, &planning::PlanFlags::default())
                .unwrap();
        ::answer::plan::plan(&context, question).unwrap()
    });
    let both = ::answer::plan::Against::of(&other, &own).unwrap();
    assert_eq!(text(&planned, "against"), draw::text::against(&both));
    let alone = asked(&json!({ "ask": "plan", "file": "plan.toml" }), &files);
    assert!(alone["against"].is_null());
}

#[test]
fn a_plan_without_its_config_names_the_file() {
    let why = refused(&json!({ "ask": "plan", "file": "plan.toml" }), &one("plan.toml", PLAN));
    assert!(why.contains("config.json"), "{why}");
}

#[test]
fn what_a_browser_cannot_bear_is_refused() {
    let admit = json!({ "ask": "admit", "name": "trace.json", "bytes": 200_000_000 });
    assert!(refused(&admit, &Files::new()).contains("trace.json has 191 MiB"));
    asked(&json!({ "ask": "admit", "name": "trace.json", "bytes": 1_000 }), &Files::new());
    let many = QUESTION.replace("microbatches = 8", "microbatches = 1000000");
    for request in [
        json!({ "ask": "search", "text": many }),
        json!({ "ask": "export", "text": many, "schedule": "1f1b", "form": "text" }),
        json!({ "ask": "point", "text": many, "schedule": "zb-auto", "limit": "1p" }),
    ] {
        let why = refused(&request, &Files::new());
        assert!(why.contains("at most 300000"), "{why}");
    }
}

#[test]
fn hostile_files_are_refused_by_every_reader() {
    let deep = "[".repeat(200_000);
    let deeper = format!("{{\"traceEvents\": {}", "{\"a\":".repeat(100_000));
    let hostile: [&[u8]; 7] = [
        b"",
        b"\xff\xfe\x00\x01binary",
        b"PAR1\x00\x00PAR1",
        deep.as_bytes(),
        deeper.as_bytes(),
        b"{\"traceEvents\": [{\"ph\": \"X\", \"ts\": NaN, \"dur\": -1e999}]}",
        b"a = nan\nb = inf\n",
    ];
    for content in hostile {
        let files = one("x", content);
        // The kind may be answered, also as none.
        let _ = answer(&Context::new(&files), &json!({ "ask": "kind", "file": "x" }).to_string());
        for ask in ["order", "profile", "verify", "timeline"] {
            let why = refused(&json!({ "ask": ask, "file": "x" }), &files);
            assert!(!why.is_empty(), "{ask}");
        }
        assert!(!refused(&json!({ "ask": "replay", "files": ["x"] }), &files).is_empty());
        let compare = json!({ "ask": "compare", "predicted": "x", "measured": "x" });
        assert!(!refused(&compare, &files).is_empty());
    }
}

#[test]
fn figures_of_a_question_are_rows_of_a_sweep() {
    let files = one("question.toml", QUESTION);
    let swept = asked(&json!({ "ask": "sweep", "file": "question.toml" }), &files);
    assert_eq!((&swept["rows"], text(&swept, "csv").lines().count()), (&json!(2), 3));
    let span = simulated(&Keys::default()).outcomes[1].metrics.span().0.to_string();
    assert!(text(&swept, "csv").lines().nth(2).unwrap().contains(&span));
    let picture = asked(&json!({ "ask": "picture", "text": QUESTION }), &Files::new());
    assert!(text(&picture, "content").contains("zb-h1"));
    let grid = format!("{QUESTION}[sweep]\nseed = {{ from = 1, to = 200000, step = 1 }}\n");
    let why = refused(&json!({ "ask": "sweep", "file": "x" }), &one("x", grid));
    assert!(why.contains("questions: this page answers 100000"), "{why}");
}

/// The lightness of a colour written as `#rrggbb`, as WCAG 2 has it.
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

#[test]
fn what_is_drawn_on_a_dark_page_is_seen() {
    let script = include_str!("../page/gantts.js");
    let (_, rest) = script.split_once("const DARK = {").unwrap();
    let (dark, _) = rest.split_once("};").unwrap();
    let one = |name: &str| &dark.split_once(&format!("{name}: \"")).unwrap().1[..7];
    let (_, passes) = dark.split_once("passes: ").unwrap();
    let (passes, _) = passes.split_once("]],").unwrap();
    let passes = passes.split('"').filter(|part| part.starts_with('#'));
    let marks = ["ink", "faint", "mark", "optimizer", "curve"].map(one);
    let all: Vec<&str> = passes.chain(marks).collect();
    assert_eq!(all.len(), 14 + 5);
    for ground in ["paper", "idle"].map(one).map(luminance) {
        for colour in &all {
            let ratio = (luminance(colour) + 0.05) / (ground + 0.05);
            assert!(ratio >= 3.0, "{colour}: {ratio}");
        }
    }
}
