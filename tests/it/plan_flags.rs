//! `debubble plan MODEL` with the few keys of a question as flags, which also override those of a file.

use std::fs;

use serde_json::Value;

use crate::cli::{debubble, refused, stdout};

const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "vocab_size": 32000, "intermediate_size": 5632}"#;

/// The arguments of a plan of `path`, and `more`.
fn plan(path: &str, more: &str) -> std::process::Output {
    let words = ["plan", path].into_iter().chain(more.split_whitespace());
    debubble(words)
}

fn json(path: &str, more: &str) -> Value {
    serde_json::from_str(&stdout(&plan(path, &format!("{more} --json")))).unwrap()
}

#[test]
fn a_model_and_a_few_flags_are_the_question_with_these_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("config.json"), CONFIG).unwrap();
    let question = format!(
        "title = {:?}\nmodel = \"config.json\"\ntokens = 1e11\nbatch = 256\n\
         [[cluster]]\nmachine = \"a100-80g\"\ndevices = [8, 16]\n[[cluster]]\nmachine = \"h100\"\ndevices = [8, 16]\n",
        path("config.json")
    );
    fs::write(path("plan.toml"), question).unwrap();
    let flags = "--tokens 1e11 --batch 256 --machine a100-80g,h100 --devices 8,16";
    let by_flags = json(&path("config.json"), flags);
    assert_eq!(by_flags, json(&path("plan.toml"), ""));
    // Flags override a file, and the machines of its clusters one by one.
    let other = json(&path("plan.toml"), "--devices 4 --sequence 1024");
    let devices = other["searched"].as_array().unwrap().iter().map(|one| &one["devices"]);
    assert!(devices.eq([4, 4].map(Value::from).iter()), "{}", other["searched"]);
    let one = json(&path("plan.toml"), "--machine h100 --batch 128");
    let searched = one["searched"].as_array().unwrap();
    assert_eq!(searched.len(), 2);
    assert!(searched.iter().all(|one| one["machine"] == "h100"), "{searched:?}");
    let named = json("llama-3-8b", "--tokens 1e11 --batch 256 --machine h100 --devices 16");
    assert_eq!(named["parameters_total"], 8_030_261_248_u64);
}

#[test]
fn missing_and_wrong_flags_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json").display().to_string();
    fs::write(&path, CONFIG).unwrap();
    refused(
        &plan(&path, ""),
        &["a plan also needs --tokens, --batch, --machine, --devices", "such as"],
    );
    let most = "--batch 256 --machine h100 --devices 8";
    refused(&plan(&path, most), &["also needs --tokens"]);
    refused(&plan(&path, &format!("{most} --tokens 15T")), &["--tokens"]);
    refused(&plan(&path, &format!("{most} --tokens=-1")), &["tokens is -1"]);
    let unknown = "--tokens 1e9 --batch 1 --machine h1000 --devices 8";
    refused(&plan(&path, unknown), &["there is no machine `h1000`", "did you mean `h100`?"]);
    refused(&debubble(["plan", "--validate", "--tokens", "1e9"]), &["--tokens", "--validate"]);
}
