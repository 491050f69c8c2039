//! `debubble plan` against performance recipes that are shipped: the search finds nothing slower that fits less surely.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::plan::json;

const RECIPES: &str = include_str!("../recipes/recipes.csv");
const MODELS: &str = include_str!("../recipes/models.toml");

/// A plan that saves less than this share of a step is not shown beside one that surely fits.
const LEAST: f64 = 0.005;
/// Keys of a set-up, each a column.
const SETUP: [&str; 7] =
    ["tensor", "pipeline", "context", "expert", "expert-tensor", "microbatch", "recompute-layers"];

type Recipe = BTreeMap<String, String>;

fn recipes() -> Vec<Recipe> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(RECIPES.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

/// A word, a number or a list of words with a plus between, as TOML writes it.
fn value(text: &str) -> String {
    match text {
        "true" | "false" => text.to_owned(),
        _ if text.parse::<u64>().is_ok() => text.to_owned(),
        "full" | "none" | "selective" => format!("\"{text}\""),
        _ => format!("{:?}", text.split('+').collect::<Vec<_>>()),
    }
}

/// The question of `recipe`: its set-up or, where `searches`, a search with the same software.
fn question(recipe: &Recipe, models: &toml::Table, searches: bool) -> String {
    let cell = |name: &str| recipe[name].as_str();
    let [sequence, batch, machine, devices] = ["sequence", "batch", "machine", "devices"].map(cell);
    let mut text = format!(
        "sequence = {sequence}\ntokens = 1e12\nbatch = {batch}\nframework = \"megatron\"\n[[cluster]]\n\
         machine = \"{machine}\"\ndevices = {devices}\n[model]\n{}",
        toml::to_string(&models[cell("model")]).unwrap()
    );
    let mut add = |key: &str, value: &str| writeln!(text, "{key} = {value}").unwrap();
    if !searches {
        add("[setup]\nzero", cell("zero"));
        for key in SETUP.into_iter().filter(|key| !cell(key).is_empty()) {
            add(key, cell(key));
        }
        match cell("layout") {
            "" => add("chunks", cell("chunks")),
            layout => add("layout", &format!("\"{layout}\"")),
        }
        if !cell("recompute").is_empty() {
            add("recompute", &value(cell("recompute")));
        }
    }
    add("[training]\ntuning", "\"tuned\"");
    for (key, default) in [
        ("precision", None),
        ("gradient-bytes", None),
        ("optimizer-bytes", None),
        ("offload", None),
        ("cuda-graphs", Some("\"none\"")),
        ("dispatcher", Some("\"alltoall\"")),
        ("overlap-experts", Some("false")),
        ("overlap-tensor", Some("false")),
    ] {
        let own = recipe.get(key).map_or("", String::as_str);
        let is_word = ["precision", "cuda-graphs", "dispatcher"].contains(&key);
        let is_of_experts = ["dispatcher", "overlap-experts"].contains(&key);
        let has_experts = models[cell("model")].get("experts").is_some();
        match (own, default) {
            _ if is_of_experts && !has_experts => {}
            ("", None) => {}
            ("", Some(default)) => add(key, default),
            // Only some set-ups can overlap the exchange of experts.
            ("true", _) if searches => {}
            (own, _) if is_word => add(key, &format!("\"{own}\"")),
            (own, _) => add(key, &value(own)),
        }
    }
    text
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// What is lost against `recipe`, in words, if anything; the odds that it fits.
fn lost(recipe: &Recipe, models: &toml::Table) -> (Option<String>, f64) {
    let given = json(&question(recipe, models, false));
    let (own, odds) = (&given["plans"][0], number(&given["plans"][0]["fit_odds"]));
    if odds < 0.5 {
        // A search has nothing to propose that fits as little.
        return (None, odds);
    }
    let answer = json(&question(recipe, models, true));
    // Of the same class of memory: surely, or more likely than not.
    let is_as_sure = |plan: &&Value| plan["fits"] == true || own["fits"] == false;
    let plans = answer["plans"].as_array().unwrap().iter().filter(is_as_sure);
    let step = number(&own["step_ns"]);
    let best = plans.map(|plan| number(&plan["step_ns"])).fold(f64::INFINITY, f64::min);
    let may = if own["fits"] == true { 0.0 } else { LEAST };
    let is_lost = best * (1.0 - may) > step * (1.0 + 1e-9);
    let words = || format!("{}: {:.4} of {step} ns, odds {odds:.3}", recipe["recipe"], best / step);
    (is_lost.then(words), odds)
}

/// Every recipe, or those of some columns, against what the search proposes for its machine, devices and batch.
fn hold(recipes: &[Recipe]) {
    let models: toml::Table = toml::from_str(MODELS).unwrap();
    let all: Vec<_> = recipes.iter().map(|recipe| lost(recipe, &models)).collect();
    let losses: Vec<&String> = all.iter().filter_map(|(lost, _)| lost.as_ref()).collect();
    assert!(losses.is_empty(), "{} of {}: {losses:#?}", losses.len(), recipes.len());
    // They ship: as far as their memory is known, they are said to fit more likely than not.
    let known = recipes.iter().zip(&all).filter(|(recipe, _)| recipe["host-copies"].is_empty());
    let odds: Vec<f64> = known.map(|(_, (_, odds))| *odds).collect();
    let likely = odds.iter().filter(|odds| **odds > 0.5).count();
    assert!(20 * likely >= 19 * odds.len(), "{likely} of {}", odds.len());
}

#[test]
fn shipped_recipes_do_not_win_over_the_search() {
    let all = recipes();
    assert!(all.len() > 170, "{}", all.len());
    let some =
        ["llama3_70b_64gpu_h100_fp8cs", "llama3_70b_64gpu_h100_bf16", "llama3_8b_8gpu_gb200_nvfp4"];
    let own: Vec<Recipe> =
        all.into_iter().filter(|one| some.contains(&one["recipe"].as_str())).collect();
    assert_eq!(own.len(), some.len());
    hold(&own);
}

#[test]
#[ignore = "slow"]
fn no_shipped_recipe_wins_over_the_search() {
    hold(&recipes());
}
