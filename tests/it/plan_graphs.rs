//! `cuda-graphs` and `cuda-graph-modules` in a plan: the memory of static buffers, by stage, and what is refused.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::{SMALL, ask, command, json, refusal};
use crate::plan_experts::MOE;

/// [`SMALL`] on 16 devices in four stages, with `training`.
fn with(training: &str) -> String {
    let setup = "[setup]\ntensor = 2\npipeline = 4\n[training]\n";
    SMALL.replace("devices = [8, 16]", "devices = 16") + setup + training
}

/// Bytes of graphs by stage, of which the answer has none if a stage has no such part.
fn graphs(answer: &Value) -> Option<Vec<u64>> {
    let stages = answer["setups"][0]["memory"].as_array().unwrap().iter();
    let own = stages.map(|stage| {
        let parts = stage["parts"].as_array().unwrap();
        let sum: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), stage["bytes"].as_u64());
        parts.iter().find(|part| part["name"] == "graphs")?["bytes"].as_u64()
    });
    own.collect()
}

/// The lines of plans in a CSV file, with its header.
fn csv(question: &str) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plans.csv");
    let (_folder, out) = ask(question, &["--csv", path.to_str().unwrap()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    fs::read_to_string(path).unwrap()
}

fn text(question: &str) -> String {
    let (_folder, out) = ask(question, &[]);
    String::from_utf8(out.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Off is nothing, to the byte, in all forms of an answer.
#[test]
fn without_graphs_nothing_changes() {
    let questions = [with(""), with("cuda-graphs = \"none\"\n")];
    let said = |question: &String| text(question) + &json(question).to_string() + &csv(question);
    let [plain, none] = questions.each_ref().map(said);
    assert_eq!(plain, none);
    for part in ["graph_bytes", "graphs", "CUDA"] {
        assert!(!plain.contains(part), "{plain}");
    }
}

/// A mask for each of the layers in flight, in all forms of an answer and in the peak.
#[test]
fn buffers_of_graphs_are_a_part_of_memory() {
    let question = with("cuda-graphs = \"partial\"\n");
    let [plain, own] = [with(""), question.clone()].map(|question| json(&question));
    assert_eq!(graphs(&plain), None);
    // Four stages of 6 layers; microbatches are of one sample with 1024 tokens.
    assert_eq!(graphs(&own).unwrap(), [4, 3, 2, 1].map(|flight| flight * 6 * 1024 * 1024));
    let key = |answer: &Value, key: &str| answer["plans"][0][key].as_u64();
    let held = key(&own, "graph_bytes").unwrap();
    assert_eq!(key(&own, "peak_bytes"), key(&plain, "peak_bytes").map(|peak| peak + held));
    assert_eq!(key(&own, "activation_bytes"), key(&plain, "activation_bytes"));
    let csv = csv(&question);
    assert!(csv.contains(",activation_bytes,graph_bytes,buffer_bytes,"), "{csv}");
    let activations = key(&own, "activation_bytes").unwrap();
    assert!(csv.contains(&format!(",{activations},{held},")), "{csv}");
    let said = text(&question);
    assert!(said.contains("activations graphs buffers"), "{said}");
    assert!(said.contains("static inputs and outputs are counted"), "{said}");
}

/// Of a step as one graph no memory is known, and the answer says so.
#[test]
fn memory_of_whole_graphs_is_named_as_unknown() {
    let question = with("cuda-graphs = \"full\"\n");
    assert_eq!(graphs(&json(&question)), None);
    let said = text(&question);
    assert!(said.contains("CUDA graphs of whole steps"), "{said}");
}

#[test]
fn modules_are_checked() {
    let partial = "cuda-graphs = \"partial\"\n";
    for (training, said) in [
        ("cuda-graph-modules = [\"attn\"]", "is of partial graphs"),
        ("cuda-graphs = \"full\"\ncuda-graph-modules = [\"attn\"]", "is of partial graphs"),
        ("cuda-graphs = \"partial\"\ncuda-graph-modules = []", "cuda-graph-modules is empty"),
        ("cuda-graphs = \"partial\"\ncuda-graph-modules = [\"atn\"]", "did you mean `attn`"),
        (
            "cuda-graphs = \"partial\"\ncuda-graph-modules = [\"moe_router\"]",
            "no layer of the model",
        ),
        ("cuda-graphs = \"partial\"\ncuda-graph-modules = [\"mamba\"]", "no layer of the model"),
    ] {
        let text = refusal(&with(training));
        assert!(text.contains(said) && text.contains("help:"), "{training}: {text}");
        assert!(text.contains("plan.toml"), "{text}");
    }
    for (modules, said) in [
        ("[\"moe\"]", "the same rows in every step"),
        ("[\"moe\", \"moe_router\"]", "captures the router, too"),
        ("[\"moe_preprocess\"]", "without moe_router"),
        ("[\"mlp\"]", "no layer of the model"),
    ] {
        let text = refusal(&format!("{MOE}[training]\n{partial}cuda-graph-modules = {modules}\n"));
        assert!(text.contains(said) && text.contains("help:"), "{modules}: {text}");
    }
    let torchtitan = format!("framework = \"torchtitan\"\n{}", with(partial));
    assert_eq!(graphs(&json(&torchtitan)), None);
    let named = refusal(&format!("{torchtitan}cuda-graph-modules = [\"attn\"]\n"));
    assert!(named.contains("framework is torchtitan"), "{named}");
}

/// Where only the buffers of graphs are too much, the refusal says with which key the model fits, and one set-up that it
/// fits without graphs; a search that may choose turns them off.
#[test]
fn graphs_are_a_lever_where_memory_lacks() {
    let training = "[training]\ncuda-graphs = \"partial\"\n";
    let one = "[setup]\ntensor = 2\npipeline = 4\n";
    let small = SMALL.replace("devices = [8, 16]", "devices = 16");
    let peak = json(&format!("{small}{one}"))["plans"][0]["peak_bytes"].as_u64().unwrap();
    let cap = format!("memory-cap = \"{}B\"\n", peak + (1 << 20));
    let set_up = text(&format!("{small}{one}[search]\n{cap}{training}"));
    assert!(set_up.contains("and fits without CUDA graphs"), "{set_up}");
    let search = format!(
        "[search]\ntensor = 2\npipeline = 4\nmicrobatch = 1\nzero = 1\nrecompute = \"none\"\n\
         schedule = \"1f1b\"\nsplit = \"even\"\ncontext = 1\n{cap}"
    );
    assert!(json(&format!("{small}{search}"))["plans"][0]["fits"] == true);
    let refused = refusal(&format!("{small}{search}{training}"));
    let lever = "or with cuda-graphs = \"none\" in [training]";
    assert!(refused.contains("it would fit with") && refused.contains(lever), "{refused}");
}

/// The example of the book: masks of 14 layers in flight on the last stage.
#[test]
fn the_functional_test_of_megatron_lm_is_an_example() {
    let path = "scenarios/plan/cuda-graphs.toml";
    let out = command().args(["plan", path, "--json"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let own = graphs(&serde_json::from_slice(&out.stdout).unwrap()).unwrap();
    let mask = 4 * 4096 * 4096;
    assert_eq!(own, [9 * 2 * mask, 7 * 2 * mask]);
    // Experts get their tokens by alltoall: permuted ones stay in the pool with moe_preprocess.
    let text = fs::read_to_string(path).unwrap();
    let all = text.replace("[\"attn\"]", "[\"attn\", \"moe_router\", \"moe_preprocess\"]");
    let more = graphs(&json(&all)).unwrap();
    let state = 4096 * 4 * 512;
    assert_eq!(more[1] - own[1], 14 * (1 + 4) * state);
}
