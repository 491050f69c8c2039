//! `[search] software`: the software that a search turns on, and the keys that it leaves to the reader.

use serde_json::Value;

use crate::plan::{json, refusal};
use crate::plan_experts::MOE;

/// The values of a search, few enough to be quick.
const SEARCH: &str = "[search]\ntensor = [1, 2]\npipeline = [2, 4]\nexpert = [8]\nmicrobatch = [1]\n\
                      schedule = [\"1f1b\", \"1f1b-i\", \"zb-v\", \"zb-auto\"]\n";

fn asked(search: &str, training: &str) -> Value {
    json(&format!("{MOE}{SEARCH}{search}[training]\n{training}\n"))
}

fn winner(answer: &Value) -> &Value {
    let place = answer["winner"].as_u64().unwrap();
    &answer["plans"][usize::try_from(place).unwrap()]
}

fn steps(answer: &Value) -> impl Iterator<Item = u64> {
    answer["plans"].as_array().unwrap().iter().map(|plan| plan["step_ns"].as_u64().unwrap())
}

/// `[setup]` of `plan`, whose order no limit and no deal of layers shape.
fn setup(plan: &Value) -> String {
    let mut text = "[setup]\n".to_owned();
    for key in ["tensor", "pipeline", "context", "expert", "chunks", "microbatch", "zero"] {
        text += &format!("{key} = {}\n", plan[key]);
    }
    let recompute: Vec<&str> = plan["recompute"].as_str().unwrap().split(',').collect();
    let split = plan["split"].as_str().unwrap();
    text + &format!(
        "schedule = {}\nrecompute = {recompute:?}\nsplit = \"{split}\"\n",
        plan["schedule"]
    )
}

#[test]
fn a_plan_is_the_set_up_with_the_software_that_it_names() {
    let answer = asked("", "");
    let plan = winner(&answer);
    assert_eq!(plan["runs_in_megatron"], true, "{plan}");
    let software = plan["software"].as_str().unwrap();
    for key in ["dispatcher = \"deepep\"", "overlap-experts = true", "cuda-graphs = \"partial\""] {
        assert!(software.contains(key), "{software}");
    }
    let training = software.replace(", ", "\n");
    let told = json(&format!("{MOE}{}[training]\n{training}\n", setup(plan)));
    assert_eq!(told["plans"][0]["step_ns"], plan["step_ns"]);
    // Each of them saves what the answer says: the same set-up takes as much longer without it.
    let chosen = answer["software"].as_array().unwrap();
    assert_eq!(chosen.len(), training.lines().count());
    for one in chosen {
        let key = one["key"].as_str().unwrap();
        let rest = training.lines().filter(|line| !line.starts_with(key));
        let rest: Vec<&str> = rest.collect();
        let without = json(&format!("{MOE}{}[training]\n{}\n", setup(plan), rest.join("\n")));
        assert_eq!(without["plans"][0]["step_ns"], one["step_without_ns"], "{key}");
        assert!(one["step_without_ns"].as_u64() > plan["step_ns"].as_u64(), "{key}");
    }
}

#[test]
#[ignore = "slow"]
fn a_search_with_software_is_never_slower_than_one_without() {
    let [all, told] =
        ["", "software = \"as given\"\n"].map(|search| steps(&asked(search, "")).min().unwrap());
    assert!(all < told, "{all} {told}");
    // The defaults of Megatron-LM have none of it.
    let stock = asked("", "tuning = \"stock\"");
    assert!(stock["plans"].as_array().unwrap().iter().all(|plan| plan["software"] == ""));
    assert!(stock.get("software").is_none());
}

#[test]
#[ignore = "slow"]
fn what_a_key_would_save_is_what_the_plan_with_the_key_saves() {
    let search = "software = \"as given\"\n";
    let answer = asked(search, "");
    let levers = answer["levers"].as_array().unwrap();
    let is_key = |lever: &&Value| lever["name"].as_str().unwrap().contains(" = ");
    let keys: Vec<&Value> = levers.iter().filter(is_key).collect();
    assert!(keys.len() >= 3, "{levers:?}");
    // Software first.
    assert!(levers[..keys.len()].iter().all(|lever| is_key(&lever)), "{levers:?}");
    for lever in keys {
        let own = asked(search, lever["name"].as_str().unwrap());
        assert_eq!(Some(steps(&own).min().unwrap()), lever["step_ns"].as_u64(), "{lever}");
    }
}

#[test]
fn keys_that_are_given_stay_as_they_are() {
    let answer = asked("", "overlap-experts = false\ncuda-graphs = \"none\"");
    for plan in answer["plans"].as_array().unwrap() {
        let software = plan["software"].as_str().unwrap();
        assert!(!software.contains("overlap-experts") && !software.contains("cuda-graphs"));
    }
}

#[test]
fn what_a_framework_or_a_machine_lacks_is_not_turned_on() {
    let torchtitan = json(&format!("framework = \"torchtitan\"\n{MOE}{SEARCH}"));
    for plan in torchtitan["plans"].as_array().unwrap() {
        let software = plan["software"].as_str().unwrap();
        assert!(!software.contains("overlap-experts") && !software.contains("cuda-graphs"));
        assert_eq!(plan["runs_in_torchtitan"], true);
    }
    let old = json(&format!("{}{SEARCH}", MOE.replace("h100", "a100-80g")));
    assert!(old["plans"].as_array().unwrap().iter().all(|plan| plan["software"] == ""));
    // Megatron-LM overlaps experts in interleaved schedules alone.
    let setup = "[setup]\npipeline = 4\nexpert = 8\nschedule = \"1f1b\"\n";
    let asked = format!("{MOE}{setup}[training]\noverlap-experts = true\n");
    let message = refusal(&format!("framework = \"megatron\"\n{asked}"));
    assert!(message.contains("overlap-experts on one chunk per stage"), "{message}");
    json(&asked);
}

#[test]
fn a_wrong_value_is_refused_at_its_line() {
    let asked = format!("{MOE}[search]\nsoftware = \"some\"\n");
    let message = refusal(&asked);
    assert!(message.contains("software is `some`: write all or as given"), "{message}");
}

/// Where orders are to be searched alone, no published schedule takes the place of one that no framework runs.
#[test]
fn searched_orders_alone_stay_alone() {
    let search = SEARCH.replace("\"1f1b\", \"1f1b-i\", \"zb-v\", ", "");
    let answer = json(&format!("plans = 1\n{MOE}{search}"));
    let plans = answer["plans"].as_array().unwrap();
    assert!(plans.iter().all(|plan| plan["schedule"] == "zb-auto"), "{plans:?}");
}

/// A set-up of Qwen3-235B-A22B that a GB200 holds only with copies to the host, which its link is fast enough for.
fn tight(machine: &str, training: &str) -> String {
    let (model, _) =
        include_str!("../../scenarios/plan/moe.toml").split_once("[[cluster]]").unwrap();
    let search = "[search]\ntensor = [1]\npipeline = [2]\nexpert = [64]\nmicrobatch = [2]\nchunks = [8]\n\
                  zero = [1]\nschedule = [\"1f1b-i\"]\nrecompute = [\"none\"]\n";
    let cluster = format!("[[cluster]]\nmachine = \"{machine}\"\ndevices = 512\n");
    let training = format!("[training]\nprecision = \"fp8\"\n{training}\n");
    format!("{model}{cluster}[noise]\njitter = 0.0\n{search}{training}")
}

#[test]
fn copies_to_the_host_are_tried_where_nothing_else_fits_and_passes_hide_them() {
    let answer = json(&tight("gb200", ""));
    let plan = winner(&answer);
    let software = plan["software"].as_str().unwrap();
    assert!(software.contains("offload = [\"core_attn\", \"qkv_linear\"]"), "{software}");
    let chosen = answer["software"].as_array().unwrap();
    let copied = chosen.iter().find(|one| one["key"] == "offload").unwrap();
    assert!(copied.get("step_without_ns").is_none(), "{copied}");
    let with_keys = json(&tight(
        "gb200",
        &software
            .replace(", overlap", "\noverlap")
            .replace(", offload", "\noffload")
            .replace(", cuda", "\ncuda")
            .replace(", dispatcher", "\ndispatcher"),
    ));
    assert_eq!(winner(&with_keys)["step_ns"], plan["step_ns"]);
    // Where the question has none of them, the set-up may fit at best.
    let without = json(&tight("gb200", "offload = []"));
    assert_eq!(winner(&without)["fits"], false);
    // Nor over PCI Express, whose copies no pass hides.
    let message = refusal(&tight("h100", ""));
    assert!(message.contains("the model fits on none of these clusters"), "{message}");
    // One that fits without has none.
    let roomy = json(&tight("gb300", ""));
    assert!(!winner(&roomy)["software"].as_str().unwrap().contains("offload"));
}
