//! The planner's times of layers beside those that torch alone measured on an H100 (`tests/gpu_layers.py`).

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{results, run, stdout};

/// A row of `results/h100/gpu-layers.csv`.
struct Row {
    cells: Vec<String>,
}

impl Row {
    fn text(&self, at: usize) -> &str {
        &self.cells[at]
    }

    fn whole(&self, at: usize) -> u64 {
        self.cells[at].parse().unwrap()
    }

    fn tokens(&self) -> u64 {
        self.whole(4)
    }

    fn sequences(&self) -> u64 {
        self.whole(5)
    }

    /// Milliseconds of F and the whole backward of a layer.
    fn both(&self) -> f64 {
        [6, 7].map(|at| self.cells[at].parse::<f64>().unwrap()).iter().sum()
    }
}

fn rows(experiment: &str) -> Vec<Row> {
    let text = fs::read_to_string("results/h100/gpu-layers.csv").unwrap();
    let row = |line: &str| Row { cells: line.split(',').map(str::to_owned).collect() };
    let rows: Vec<Row> = text.lines().map(row).filter(|row| row.text(1) == experiment).collect();
    assert!(!rows.is_empty(), "{experiment}");
    rows
}

/// Hidden size, heads and width of the MLP of a model.
fn sizes(model: &str) -> [u64; 3] {
    match model {
        "llama3-8b" => [4096, 32, 14336],
        "llama3-70b" => [8192, 64, 28672],
        other => panic!("{other}"),
    }
}

/// Milliseconds of F and the whole backward of a layer by `debubble plan`.
fn planned(row: &Row, folder: &TempDir) -> f64 {
    let ([hidden, heads, ffn], layers, microbatches) = (sizes(row.text(0)), 2, 4);
    let training = match row.text(2) {
        "trained" => "",
        "frozen" => "frozen = [\"layers:0-1\"]",
        "adapters" => "lora-rank = 16\nlora-modules = [\"all-linear\"]",
        other => panic!("{other}"),
    };
    let (tokens, sequences) = (row.tokens(), row.sequences());
    let text = format!(
        "tokens = 1e6\nbatch = {}\nsequence = {tokens}\n[model]\nlayers = {layers}\nhidden = {hidden}\n\
         heads = {heads}\nkv-heads = 8\ngated = true\nffn = {ffn}\nvocabulary = 8192\n[[cluster]]\n\
         machine = \"h100\"\ndevices = 1\n[setup]\ntensor = 1\npipeline = 1\nmicrobatch = {sequences}\n\
         [training]\n{training}\n",
        microbatches * sequences
    );
    let path = folder.path().join("plan.toml");
    fs::write(&path, text).unwrap();
    let answer: Value =
        serde_json::from_str(&stdout(&run(&format!("plan {} --json", path.display())))).unwrap();
    let parts = answer["setups"][0]["time"].as_array().unwrap();
    let of_layers = [
        "products",
        "attention",
        "elementwise kernels",
        "kernel launches and waits for parameters",
    ];
    let seconds = |name: &&str| {
        let part = parts.iter().find(|part| part["name"] == **name);
        part.unwrap_or_else(|| panic!("{name}: {answer}"))["seconds"].as_f64().unwrap()
    };
    #[allow(clippy::cast_precision_loss)] // Few layers.
    let passes = (layers * microbatches) as f64;
    1e3 * of_layers.iter().map(seconds).sum::<f64>() / passes
}

/// The model of a table, with `layers` layers and next to no head.
fn config(folder: &TempDir, layers: u64) -> String {
    let [hidden, heads, ffn] = sizes("llama3-8b");
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": 8,
        "num_hidden_layers": layers, "vocab_size": 128, "max_position_embeddings": 65536,
        "tie_word_embeddings": false, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    });
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    path.display().to_string()
}

fn error(predicted: f64, measured: f64) -> f64 {
    predicted / measured - 1.0
}

/// Whole, frozen and beside adapters; kernels that a compiler joins do adapters' products in fewer passes over
/// memory than the planner counts.
#[test]
fn layers_take_the_time_that_is_planned() {
    let folder = TempDir::new().unwrap();
    for row in rows("training") {
        let error = error(planned(&row, &folder), row.both());
        println!("{} {:+.1} %", row.cells[..6].join(" "), 100.0 * error);
        let within = match (row.text(3), row.text(2)) {
            ("op by op", _) => -0.1..0.08,
            ("compiled", "adapters") => 0.05..0.15,
            _ => -0.04..0.04,
        };
        assert!(within.contains(&error), "{:?}: {error}", row.cells);
    }
}

/// A microbatch of fewer tokens is bound by launches, which `fsdp` counts for whole models.
#[test]
fn long_samples_take_the_time_of_their_length() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder, 4);
    for row in rows("lengths").iter().filter(|row| row.tokens() >= 2048) {
        let tokens = row.tokens();
        let question = format!(
            "fsdp --model {config} --machine h100 --devices 1 --lengths uniform:{tokens}-{tokens} \
             --minibatch-size 1 --minibatches 1 --recompute none --method local-sort --json"
        );
        let step = results(&question)[0]["step_ns"].as_f64().unwrap() / 4e6;
        let error = error(step, row.both());
        println!("{tokens} tokens: {:+.1} %", 100.0 * error);
        assert!(error.abs() < 0.1, "{tokens} tokens: {error}");
    }
}

/// Vision transformers: wide layers take the time of their products; narrow ones are bound by the launches of
/// Megatron-LM's host, which has more to do than torch alone.
#[test]
fn layers_of_encoders_take_the_time_that_is_predicted() {
    for row in rows("encoder") {
        let (hidden, heads) = if row.text(0) == "vit-22b" { (6144, 48) } else { (1024, 16) };
        let (tokens, images) = (row.tokens(), row.sequences());
        let question = format!(
            "encoder --schedule 1f1b --stages 2 --microbatches 2 --forward 1s --machine h100 --placement first-stage \
             --encoder-hidden {hidden} --encoder-heads {heads} --encoder-layers 4 --encoder-tokens {tokens} \
             --images {images} --json"
        );
        let answer: Value = serde_json::from_str(&stdout(&run(&question))).unwrap();
        let of_layer = answer["encoder_ns"].as_f64().unwrap_or_else(|| panic!("{answer}")) / 4e6;
        let error = error(of_layer, row.both());
        println!("{} {:+.1} %", row.cells[..6].join(" "), 100.0 * error);
        let within = if hidden == 6144 { -0.1..0.0 } else { 0.0..2.5 };
        assert!(within.contains(&error), "{:?}: {error}", row.cells);
    }
}

/// One token of each sequence in 32 layers: the rollout of `rl` less its prefill.
#[test]
fn an_engine_decodes_as_fast_as_measured() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder, 32);
    for row in rows("decode") {
        let (context, sequences) = (row.tokens(), row.sequences());
        // More does not fit beside the weights of 32 layers.
        if context * sequences > 400_000 {
            continue;
        }
        let question = format!(
            "rl --model {config} --machine h100 --devices 1 --prompts {sequences} --responses 1 \
             --mini-batch {sequences} --prompt-lengths uniform:{context}-{context} \
             --response-lengths uniform:1-1 --engine-memory 1 --steps 1 --json"
        );
        let answer: Value = serde_json::from_str(&stdout(&run(&question))).unwrap();
        let time = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{answer}"));
        let rollout =
            time(&answer["phases"][0]["time_ns"]) - time(&answer["rollout"]["prefill_ns"]);
        let error = error(rollout / 1e6, 32.0 * row.both());
        println!("{sequences} of {context} tokens: {:+.1} %", 100.0 * error);
        // Attention of one long sequence does not fill the chip.
        let within = if sequences == 1 && context > 4096 { -0.4..0.0 } else { -0.06..0.16 };
        assert!(within.contains(&error), "{sequences} of {context} tokens: {error}");
    }
}
