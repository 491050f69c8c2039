//! Which models `debubble plan` takes: the parameters that it believes are those published, or the
//! model is refused with the keys that are not planned.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::stdout;
use crate::draw::reference;
use crate::plan::{SMALL, command, json as plan, refusal};

/// A question about a model in config.json that is answered in a moment.
const QUESTION: &str = r#"
model = "config.json"
tokens = 1e9
batch = 128
sequence = 2048
plans = 1

[search]
tensor = [8]
pipeline = [8]
microbatch = [1]
zero = [1]
schedule = ["1f1b"]
recompute = ["full"]

[[cluster]]
machine = "h200"
devices = [1024]

[noise]
replicas = 2
"#;

/// The answer for a model with this `config`.
fn ask(config: &str, flags: &[&str]) -> Output {
    answer(QUESTION, config, flags)
}

/// The answer to `question` for a model with this `config`.
fn answer(question: &str, config: &str, flags: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    let path = folder.path().join("plan.toml");
    fs::write(&path, question).unwrap();
    command().arg("plan").arg(&path).args(flags).output().unwrap()
}

/// The text of an error, in one line.
fn error(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn config(name: &str) -> String {
    fs::read_to_string(format!("tests/configs/{name}.json")).unwrap()
}

#[test]
fn answers_tell_the_parameters_of_the_model() {
    let out = ask(&config("mixtral-8x7b"), &["--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", error(&out));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    for told in [&answer, &answer["plans"][0]] {
        assert_eq!(told["parameters_total"], 46_702_792_704_u64);
        assert_eq!(told["parameters_active"], 12_879_925_248_u64);
    }
    assert_eq!(answer["model_assumed"], json!([]));
    let table = stdout(&ask(&config("mixtral-8x7b"), &[]));
    let line = "parameters: 46.703 B total, 12.880 B active for a token (2 of 8 experts a layer)";
    assert!(table.contains(line), "{table}");
    let unknown = config("llama-3-8b").replace("\"llama\"", "\"newest\"");
    let table = stdout(&ask(&unknown, &[]));
    assert!(table.contains("parameters: 8.030 B total, 8.030 B active for a token"), "{table}");
    assert!(table.contains("the model_type `newest` is not known: it is read as"), "{table}");
}

#[test]
fn a_model_that_is_not_planned_ends_with_all_its_keys_and_a_cure() {
    let sparse = with(
        serde_json::from_str(&config("deepseek-v3")).unwrap(),
        json!({ "model_type": "deepseek_v4", "index_n_heads": 64, "index_topk": 512 }),
    );
    let out = ask(&sparse.to_string(), &[]);
    let text = error(&out);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(out.stdout.is_empty());
    for key in [
        "deepseek_v4",
        "sparse attention by an index",
        "index_n_heads",
        "index_topk",
        "A table [model] describes",
    ] {
        assert!(text.contains(key), "{key}: {text}");
    }
}

/// DeepSeek-V3.2 as its config and as the table of a scenario. No measured step has sparse attention, and torchtitan has
/// no indexer.
#[test]
fn sparse_attention_is_planned_without_an_error_bar() {
    let text = fs::read_to_string("scenarios/plan/deepseek-v3.2.toml").unwrap();
    let own = plan(&text);
    assert_eq!(own["parameters_total"], 671_877_944_064_u64);
    let first = &own["plans"][0];
    assert_eq!((first["error"].is_null(), &first["fits"]), (true, &json!(true)));
    assert_eq!(first["runs_in_torchtitan"], json!(false));
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, config("deepseek-v3.2")).unwrap();
    let (head, rest) = text.split_once("[model]").unwrap();
    let (_, rest) = rest.split_once("[[cluster]]").unwrap();
    let by_config = format!("{head}model = {:?}\n[[cluster]]{rest}", path.to_str().unwrap());
    assert_eq!(plan(&by_config)["plans"], own["plans"]);
    let other = text.replace("\"megatron\"", "\"torchtitan\"");
    let text = error(&answer(&other, "{}", &[]));
    assert!(text.contains("torchtitan, which has no sparse attention by an indexer"), "{text}");
    assert!(text.contains("take framework = \"megatron\""), "{text}");
}

/// The same model, once as a config and once as a table.
#[test]
fn a_table_describes_what_a_config_does() {
    let small = QUESTION.replace("[1024]", "[64]").replace("pipeline = [8]", "pipeline = [2]");
    let table = "[model]\nlayers = 36\nhidden = 4096\nheads = 32\nhead-size = 128\nkv-heads = 8\n\
                 qk-norm = true\nffn = 12288\ngated = true\nvocabulary = 151936\n[search]";
    let wide = config("qwen3-8b").replace("\"head_dim\": 128", "\"head_dim\": 256");
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("qwen3.json"), config("qwen3-8b")).unwrap();
    fs::write(folder.path().join("wide.json"), &wide).unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        plan(&small.replace("\"config.json\"", &format!("{:?}", path.to_str().unwrap())))
    };
    let by_table = small.replace("model = \"config.json\"\n", "").replace("[search]", table);
    let own = plan(&by_table);
    assert_eq!(own, file("qwen3.json"));
    assert_eq!(own["parameters_total"], 8_190_735_360_u64);
    let doubled = plan(&by_table.replace("head-size = 128", "head-size = 256"));
    assert_eq!(doubled, file("wide.json"));
    let number = |answer: &Value, key: &str| answer["plans"][0][key].as_u64().unwrap();
    for key in ["parameters_total", "step_ns", "peak_bytes", "parameter_bytes"] {
        assert!(number(&doubled, key) > number(&own, key), "{key}");
    }
}

#[test]
fn heads_need_a_size_where_they_do_not_divide_the_hidden_size() {
    let odd = SMALL.replace("heads = 16", "heads = 24\nhead-size = 128");
    let total = plan(&odd)["parameters_total"].as_u64().unwrap();
    let usual = plan(SMALL)["parameters_total"].as_u64().unwrap();
    // Four projections of 24 heads of 128 instead of 16 of 128, and biases of three.
    assert_eq!(total - usual, 24 * (4 * 2048 + 3) * 8 * 128);
    let refused = refusal(&SMALL.replace("heads = 16", "heads = 24"));
    assert!(refused.contains("give head-size where heads times their size is not"), "{refused}");
}

/// A row of the facts of models.
type Facts = BTreeMap<String, String>;

/// The config that such a model has, with the keys of its `model_type`.
fn config_of(row: &Facts) -> Value {
    let own = |key: &str| row[key].parse::<u64>().ok();
    let is = |key: &str| row[key] == "yes";
    let (name, hidden) = (row["name"].as_str(), own("hidden"));
    if name.starts_with("gpt3") {
        return json!({
            "model_type": "gpt2", "n_embd": hidden, "n_head": own("heads"), "n_layer": own("layers"),
            "n_positions": 2048, "n_inner": own("ffn"), "vocab_size": own("vocab"),
            "activation_function": "gelu_new", "tie_word_embeddings": is("tied"),
        });
    }
    let keys = json!({
        "hidden_size": hidden, "num_attention_heads": own("heads"),
        "num_key_value_heads": own("kv_heads"), "num_hidden_layers": own("layers"),
        "intermediate_size": own("ffn").or(own("moe_ffn")), "vocab_size": own("vocab"),
        "head_dim": own("head_dim"), "tie_word_embeddings": is("tied"), "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 1e4, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16", "initializer_range": 0.02, "attention_dropout": 0.0,
    });
    with(keys, keys_of_kind(row))
}

/// Those of its keys that other kinds of models do not have, or have with other values.
fn keys_of_kind(row: &Facts) -> Value {
    let own = |key: &str| row[key].parse::<u64>().ok();
    let (name, is) = (row["name"].as_str(), |key: &str| row[key] == "yes");
    let latent = json!({
        "n_routed_experts": own("experts"), "num_experts_per_tok": own("experts_per_token"),
        "n_shared_experts": own("shared_experts"), "moe_intermediate_size": own("moe_ffn"),
        "first_k_dense_replace": own("first_dense_layers"), "kv_lora_rank": own("kv_lora_rank"),
        "q_lora_rank": own("q_lora_rank").filter(|rank| *rank > 0),
        "qk_rope_head_dim": own("qk_rope_dim"), "qk_nope_head_dim": own("qk_nope_dim"),
        "v_head_dim": own("v_head_dim"), "num_nextn_predict_layers": own("mtp_layers"),
        "head_dim": null, "moe_layer_freq": 1, "scoring_func": "sigmoid", "n_group": 1,
    });
    if name.starts_with("deepseek-v2") {
        with(latent, json!({ "model_type": "deepseek_v2" }))
    } else if name.starts_with("kimi") {
        with(latent, json!({ "model_type": "kimi_k2" }))
    } else if row["kind"].contains("mla") {
        with(latent, json!({ "model_type": "deepseek_v3" }))
    } else if name.starts_with("gpt-oss") {
        json!({
            "model_type": "gpt_oss", "num_local_experts": own("experts"),
            "num_experts_per_tok": own("experts_per_token"), "attention_bias": true,
            "sliding_window": own("sliding_window"), "swiglu_limit": 7.0,
            "layer_types": layers_in_turn(&["sliding_attention", "full_attention"], own("layers")),
        })
    } else if name.starts_with("gemma") {
        json!({
            "model_type": "gemma3_text", "sliding_window": own("sliding_window"),
            "sliding_window_pattern": 6, "query_pre_attn_scalar": 256,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_act": null,
        })
    } else if name.starts_with("nemotron") {
        json!({
            "model_type": "nemotron_h", "hybrid_override_pattern": row["layer_pattern"],
            "mamba_num_heads": own("mamba_heads"), "mamba_head_dim": own("mamba_head_dim"),
            "ssm_state_size": own("mamba_state"), "n_groups": own("mamba_groups"),
            "n_routed_experts": own("experts"), "mlp_hidden_act": "relu2", "conv_kernel": 4,
            "num_experts_per_tok": own("experts_per_token"), "moe_intermediate_size": own("moe_ffn"),
            "moe_shared_expert_intermediate_size": own("shared_ffn_total"), "use_conv_bias": true,
        })
    } else if name.starts_with("qwen3") {
        json!({
            "model_type": "qwen3_moe", "num_experts": own("experts"), "mlp_only_layers": [],
            "num_experts_per_tok": own("experts_per_token"), "decoder_sparse_step": 1,
            "moe_intermediate_size": own("moe_ffn"), "norm_topk_prob": true,
            "sliding_window": null, "use_sliding_window": false,
        })
    } else if name.starts_with("mixtral") {
        json!({
            "model_type": "mixtral", "num_local_experts": own("experts"), "head_dim": null,
            "num_experts_per_tok": own("experts_per_token"), "sliding_window": null,
        })
    } else {
        assert!(name.starts_with("llama"), "{name}: a model without a config");
        json!({ "model_type": "llama", "attention_bias": is("bias"), "mlp_bias": is("bias") })
    }
}

/// `keys` with those of `more` in their place.
fn with(keys: Value, more: Value) -> Value {
    let [Value::Object(mut keys), Value::Object(more)] = [keys, more] else { panic!("no objects") };
    keys.extend(more);
    Value::Object(keys)
}

/// As many of `names` as there are `layers`, over and over.
fn layers_in_turn(names: &[&str], layers: Option<u64>) -> Value {
    names.iter().cycle().take(layers.unwrap().try_into().unwrap()).copied().collect()
}

/// Tensor groups of four or eight divide the heads of each of them.
#[test]
fn models_of_today_have_their_published_parameters() {
    let Some(text) = reference("today/models/models.csv") else { return };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<Facts> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 21);
    let question = QUESTION.replace("tensor = [8]", "tensor = [4, 8]");
    for row in &rows {
        let name = row["name"].as_str();
        let out = answer(&question, &config_of(row).to_string(), &["--json"]);
        assert_eq!(out.status.code(), Some(0), "{name}: {}", error(&out));
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        for which in ["total", "active"] {
            let ours = answer[format!("parameters_{which}")].as_f64().unwrap() / 1e9;
            let off = |column: &str| match row[column].parse::<f64>() {
                Ok(theirs) => (ours / theirs - 1.0).abs(),
                // Of dense models, all are active; that is not published once more.
                Err(_) => 0.0,
            };
            // Counted to the last digit that is told.
            assert!(off(&format!("counted_{which}_b")) < 1e-3, "{name}: {ours} {which}");
            // Of active ones some leave the embedding out, and most are rounded: see the rooms' own test.
            let rounded =
                row["params_source"].contains("rounded") || row["params_source"].contains("name");
            let published = off(&format!("{which}_params_b"));
            assert!(rounded || which == "active" || published < 0.01, "{name}: {ours}");
        }
    }
}
