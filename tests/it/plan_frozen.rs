//! `debubble plan` with frozen weights, adapters and optimizers, and simulations of passes that have no W or no B.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::plan::command;

const QUESTION: &str = r#"
title = "tuned"
tokens = 1e9
batch = 32
sequence = 4096
model = { layers = 32, hidden = 4096, heads = 32, kv-heads = 8, ffn = 14336, gated = true, vocabulary = 128256 }

[[cluster]]
machine = "h100"
devices = 8
"#;

const SETUP: &str = "[setup]\npipeline = 4\nsplit = \"even\"\n";

fn told(text: &str, flags: &[&str]) -> (TempDir, Output) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, text).unwrap();
    let out = command().current_dir(folder.path()).arg("plan").arg(&path).args(flags).output();
    (folder, out.unwrap())
}

fn answer(text: &str) -> Value {
    let (_, out) = told(text, &["--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn refusal(text: &str) -> String {
    let (_, out) = told(text, &[]);
    assert_eq!(out.status.code(), Some(2), "{text}: {}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stderr).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn training(keys: &str) -> String {
    format!("{QUESTION}{SETUP}[training]\n{keys}\n")
}

#[test]
fn adapters_make_a_step_shorter_and_leave_memory() {
    let whole = answer(&format!("{QUESTION}{SETUP}"));
    let tuned = answer(&training("lora-rank = 16\nlora-modules = [\"attention\", \"mlp\"]"));
    let of = |answer: &Value, key: &str| answer["plans"][0][key].as_f64().unwrap();
    assert!(of(&tuned, "step_ns") < 0.95 * of(&whole, "step_ns"));
    assert!(of(&tuned, "peak_bytes") < 0.6 * of(&whole, "peak_bytes"));
    // r (K + N) of four products.
    assert_eq!(tuned["parameters_trained"], 32 * 16 * (10_240 + 8192 + 32_768 + 18_432));
    assert!(whole.get("parameters_trained").is_none());
    assert!(of(&tuned, "parameters_total") == of(&whole, "parameters_total"));
    // MFU counts what is computed.
    let rate = |answer: &Value| of(answer, "mfu") * of(answer, "step_ns");
    let left = rate(&tuned) / rate(&whole);
    assert!((0.65..0.75).contains(&left), "{left}");
}

#[test]
fn frozen_layers_in_front_are_run_forward_only() {
    let keys = "frozen = [\"embedding\", \"layers:0-15\"]";
    let (folder, out) = told(&training(keys), &["--export", "winner", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let winner = folder.path().join("winner");
    assert!(!winner.join("megatron.sh").exists());
    let scenario = fs::read_to_string(winner.join("scenario.toml")).unwrap();
    let line = |key: &str| {
        let start = format!("{key} = ");
        scenario.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
    };
    assert!(line("backward-input").starts_with("[\"0ns\", \"0ns\", "), "{scenario}");
    assert!(line("activation").starts_with("[\"0B\", \"0B\", "), "{scenario}");
    // The scenario is the plan, to the nanosecond: no gradient crosses to the first two stages.
    let run = command()
        .current_dir(&winner)
        .args(["simulate", "scenario.toml", "--json"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let simulated: Value = serde_json::from_slice(&run.stdout).unwrap();
    let step = answer["plans"][0]["step_ns"].as_u64().unwrap();
    let text = simulated.to_string();
    assert!(text.contains(&format!("{step}")) || within_latency(&text, step), "{step}: {text}");
}

/// Whether a time of `text` is at most a hundredth below `step`: what a step has beside its passes.
fn within_latency(text: &str, step: u64) -> bool {
    let numbers =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
    numbers.into_iter().any(|one| one <= step && one > step - step / 100)
}

#[test]
fn every_schedule_of_a_plan_runs_with_frozen_layers() {
    let schedules =
        ["1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "1f1b-i", "gpipe", "zb-auto", "dualpipe-v"];
    for keys in ["lora-rank = 8", "frozen = [\"embedding\", \"layers:0-15\"]"] {
        for schedule in schedules {
            let setup = format!("[setup]\npipeline = 4\nschedule = \"{schedule}\"\n");
            let answer = answer(&format!("{QUESTION}{setup}[training]\n{keys}\n"));
            let setup = &answer["setups"][0];
            let [step, least] = ["step_ns", "step_lower_bound_ns"].map(|key| setup[key].as_u64());
            assert!(step.unwrap() > 0, "{schedule}");
            assert!(least.is_none_or(|least| least <= step.unwrap()), "{schedule} {keys}");
        }
    }
}

#[test]
fn bad_keys_are_refused_with_a_cure() {
    let said = [
        ("lora-rank = 0", "rank 0 of adapters: it must be from 1 to the hidden size, 4096"),
        ("lora-rank = 5000", "rank 5000"),
        ("lora-rank = -1", "lora-rank"),
        ("lora-rank = \"16\"", "lora-rank"),
        ("lora-modules = [\"mlp\"]", "lora-rank is missing"),
        ("lora-rank = 8\nlora-modules = []", "lora-modules is empty"),
        ("lora-rank = 8\nlora-modules = [\"linear_qvk\"]", "did you mean `linear_qkv`"),
        ("lora-rank = 8\nlora-modules = [\"linear_qkv\", \"k_proj\"]", "a part of linear_qkv"),
        ("lora-rank = 8\nlora-modules = [\"in_proj\"]", "no layer of the model has in_proj"),
        ("frozen = [\"embeddings\"]", "did you mean `embedding`"),
        ("frozen = [\"layers:3-1\"]", "write embedding, head, or layers by their numbers"),
        ("frozen = [\"layers:0-32\"]", "layer 32 is frozen, but the last of 32 layers is 31"),
        ("frozen = [\"layers:0-99999999999999999999\"]", "not a part of a model"),
        ("frozen = [\"embedding\", \"head\", \"layers:0-31\"]", "nothing is trained"),
        ("lora-rank = 8\nfrozen = [\"layers:0-31\"]", "nothing is trained"),
    ];
    for (keys, wanted) in said {
        let ours = refusal(&training(keys));
        assert!(ours.contains(wanted), "{keys}: {ours}");
        assert!(ours.contains("plan.toml"), "{keys}: {ours}");
    }
    let many: Vec<String> = (0..2000).map(|_| "\"head\"".to_owned()).collect();
    let ours = refusal(&training(&format!("frozen = [{}]", many.join(", "))));
    assert!(ours.contains("more than 1000 values"), "{ours}");
}

#[test]
fn adapters_go_with_the_vocabulary_on_all_stages() {
    let keys = "[setup]\npipeline = 4\nschedule = \"vocab-1\"\n[training]\nlora-rank = 8\n";
    let whole = answer(&format!("{QUESTION}[setup]\npipeline = 4\nschedule = \"vocab-1\"\n"));
    let tuned = answer(&format!("{QUESTION}{keys}"));
    let held = |answer: &Value| answer["plans"][0]["optimizer_bytes"].as_u64().unwrap();
    assert!(held(&tuned) * 50 < held(&whole));
}

#[test]
fn adapters_of_peft_are_read_beside_their_model() {
    let folder = TempDir::new().unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "hidden_act": "silu",
        "max_position_embeddings": 8192, "tie_word_embeddings": false}"#;
    let own = r#"{"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"]}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let ask = |adapters: &str, keys: &str| {
        fs::write(folder.path().join("adapter_config.json"), adapters).unwrap();
        let text = format!(
            "tokens = 1e9\nbatch = 32\nsequence = 4096\nmodel = \"adapter_config.json\"\n\
             [[cluster]]\nmachine = \"h100\"\ndevices = 8\n[setup]\npipeline = 2\n{keys}"
        );
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        command().arg("plan").arg(&path).arg("--json").output().unwrap()
    };
    let trained = |out: &Output| {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        answer["parameters_trained"].as_u64().unwrap()
    };
    assert_eq!(trained(&ask(own, "")), 32 * 16 * (8192 + 5120));
    let some = own.replace("\"r\": 16", "\"r\": 16, \"layers_to_transform\": [30, 31]");
    assert_eq!(trained(&ask(&some, "")), 2 * 16 * (8192 + 5120));
    let wrong = [
        (own.replace("LORA", "IA3"), "", "only LORA is planned"),
        (own.replace("q_proj", "q_prj"), "", "did you mean `q_proj`"),
        (own.replace("\"r\": 16", "\"r\": 1.5"), "", "it must be a whole number"),
        (
            own.replace("\"r\": 16", "\"modules_to_save\": [\"lm_head\"], \"r\": 16"),
            "",
            "modules_to_save",
        ),
        (own.replace("[\"q_proj\", \"v_proj\"]", "3"), "", "a name, or a list of names"),
        (own.to_owned(), "[training]\nlora-rank = 8\n", "those of the adapter_config.json"),
    ];
    for (adapters, keys, message) in wrong {
        let out = ask(&adapters, keys);
        let error = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert_eq!(out.status.code(), Some(2), "{error}");
        assert!(
            error.split_whitespace().collect::<Vec<_>>().join(" ").contains(message),
            "{error}"
        );
    }
}

#[test]
fn the_published_steps_are_predicted_within_a_tenth() {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/paper/today-lora.csv");
    let out = command().args(["plan", "--validate", "--json"]).arg(rows).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let set = &answer[0];
    let rows = set["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let errors = rows.iter().map(|row| row["error"].as_f64().unwrap().abs());
    assert!(errors.sum::<f64>() / 12.0 < 0.10, "{set}");
}

#[test]
fn a_search_without_weight_gradients_is_proved_and_verified() {
    let folder = TempDir::new().unwrap();
    let proof = folder.path().join("proof.toml");
    let proof = proof.to_str().unwrap();
    for backward in ["0ns,0ns,10ms,10ms", "10ms,10ms,10ms,10ms"] {
        let args = [
            "search",
            "--stages",
            "4",
            "--microbatches",
            "8",
            "--forward",
            "10ms",
            "--backward-input",
            backward,
            "--backward-weight",
            "0ns",
            "--activation",
            "1GB",
            "--memory-limit",
            "4p",
            "--certificate",
            proof,
        ];
        let out = command().args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains("optimal"), "{text}");
        let out = command().args(["verify", proof]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    }
}

#[test]
fn a_backward_without_weight_gradients_frees_all_that_is_held() {
    let ask = |weight: &str, input: &str, sizes: &[&str]| {
        let fixed = [
            "simulate",
            "--schedule",
            "zb-h2",
            "--stages",
            "4",
            "--microbatches",
            "16",
            "--forward",
            "10ms",
        ];
        let out = command()
            .args(fixed)
            .args(["--backward-input", input, "--backward-weight", weight, "--json"])
            .args(sizes)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    for sizes in
        [&["--activation", "1GB"][..], &["--hidden", "4096", "--heads", "32", "--seq", "2048"], &[]]
    {
        // As if it were said that nothing is held for W.
        let own = ask("0ns", "10ms", sizes);
        assert_ne!(own, ask("1ns", "10ms", sizes));
        if sizes.first() == Some(&"--activation") {
            let until: Vec<&str> =
                sizes.iter().copied().chain(["--activation-until-weight", "0B"]).collect();
            let peaks = |text: &str| {
                let answer: Value = serde_json::from_str(text).unwrap();
                answer
                    .to_string()
                    .split("peak")
                    .skip(1)
                    .map(|part| part[..30].to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(peaks(&own), peaks(&ask("0ns", "10ms", &until)));
        }
    }
}

/// Liu et al. 2025 (arXiv 2502.16982, section 2.3): the update of Muon takes 1 to 3 % of forward and backward, its state less
/// than that of AdamW.
#[test]
fn muon_takes_about_what_is_published() {
    let text = fs::read_to_string("scenarios/plan/llama3-8b-muon.toml").unwrap();
    let [muon, adam] =
        ["muon", "adamw"].map(|name| answer(&text.replace("\"muon\"", &format!("\"{name}\""))));
    let of = |answer: &Value, key: &str| answer["plans"][0][key].as_f64().unwrap();
    let more = of(&muon, "step_ns") / of(&adam, "step_ns") - 1.0;
    assert!((0.01..0.03).contains(&more), "{more}");
    let state = of(&muon, "optimizer_bytes") / of(&adam, "optimizer_bytes");
    assert!((2.0 / 3.0..0.75).contains(&state), "{state}");
    let (_, out) = told(&text, &[]);
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.contains("no measured step had this optimizer"), "{out}");
    for (own, said) in [
        (text.replace("zero = 1", "zero = 2"), "ZeRO 2 and 3"),
        (text.replace("\"muon\"", "\"moun\""), "did you mean `muon`"),
        (format!("framework = \"torchtitan\"\n{text}"), "torchtitan has adamw alone"),
    ] {
        let error = refusal(&own);
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn the_state_of_the_optimizer_leaves_the_device_for_time() {
    let of = |answer: &Value, key: &str| answer["plans"][0][key].as_f64().unwrap();
    let setup = format!("{QUESTION}{SETUP}zero = 1\n[training]\n");
    let ask = |keys: &str| answer(&format!("{setup}{keys}\n"));
    let (none, half) = (ask(""), ask("optimizer-offload = 0.5"));
    let rest = of(&half, "optimizer_bytes") / of(&none, "optimizer_bytes");
    assert!((rest - 0.5).abs() < 1e-6, "{rest}");
    let slow = ask("optimizer-offload = 0.5\nhost-update = \"2.56s\"");
    let [none, half, slow] = [none, half, slow].map(|answer| of(&answer, "step_ns"));
    // 2 G parameters on a stage, shared by two replicas, half of them on the host.
    assert!((0.6..1.0).contains(&((half - none) / 1e9)), "{half} {none}");
    assert!((1.7..1.95).contains(&((slow - none) / (half - none))), "{slow} {half} {none}");
    for (text, said) in [
        (format!("{setup}optimizer-offload = 1.5"), "write a share from 0 to 1"),
        (format!("{setup}optimizer-offload = 0.5\noptimizer = \"muon\""), "adamw and sgd alone"),
        (format!("{QUESTION}{SETUP}zero = 0\n[training]\noptimizer-offload = 0.5"), "needs ZeRO 1"),
        (
            format!("framework = \"torchtitan\"\n{setup}optimizer-offload = 0.5"),
            "torchtitan offloads all",
        ),
    ] {
        let error = refusal(&text);
        assert!(error.contains(said), "{said}: {error}");
    }
    // A model that is too large for a node says what would help.
    let large = QUESTION.replace("layers = 32", "layers = 140");
    let error = refusal(&format!(
        "{large}[search]\nzero = [1]\ntensor = [4]\npipeline = [1]\nrecompute = [\"full\"]\n"
    ));
    assert!(error.contains("optimizer-offload = 1 in [training]"), "{error}");
}
