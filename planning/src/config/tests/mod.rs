//! Published configs, and the effect of changed keys.

use std::path::Path;

use plan::Attention;
use question::diagnostic::Diagnostic;
use serde_json::{Map, Value, json};

use super::{File, Model, parse};

macro_rules! config {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/configs/", $name, ".json"))
    };
}

mod experts;
mod today;

const LLAMA: &str = config!("llama-3-8b");
const MIXTRAL: &str = config!("mixtral-8x7b");
const QWEN3_MOE: &str = config!("qwen3-30b-a3b");

fn read(text: &str, sequence: Option<u64>) -> Result<Model, Diagnostic> {
    let wanted = super::Wanted { sequence, attention: Attention::Flash, vision: false };
    parse(&File::new(Path::new("config.json"), text), wanted)
}

fn counts(text: &str) -> [u64; 2] {
    let model = read(text, Some(2048)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    [model.transformer.parameters(), model.transformer.active_parameters()]
}

fn refusal(text: &str) -> String {
    match read(text, Some(2048)) {
        Ok(model) => panic!("{} parameters of {text}", model.transformer.parameters()),
        Err(error) => error.to_string(),
    }
}

/// `text` with `changes` made.
fn changed(text: &str, changes: Value) -> String {
    let mut keys: Map<String, Value> = serde_json::from_str(text).unwrap();
    let Value::Object(changes) = changes else { panic!("no object") };
    keys.extend(changes);
    Value::Object(keys).to_string()
}

/// The numbers of parameters that the files of weights have.
#[test]
fn parameters_are_those_of_the_weights() {
    for (text, published) in [
        (config!("gpt2"), 124_439_808),
        (LLAMA, 8_030_261_248),
        (config!("mistral-7b"), 7_241_732_096),
        (MIXTRAL, 46_702_792_704),
        (config!("qwen2.5-7b"), 7_615_616_512),
        (config!("qwen3-8b"), 8_190_735_360),
        (QWEN3_MOE, 30_532_122_624),
        (config!("gemma-2b"), 2_506_172_416),
    ] {
        let model = read(text, Some(1024)).unwrap();
        assert_eq!(model.transformer.parameters(), published, "{text}");
        assert_eq!(model.assumed, [""; 0], "{text}");
    }
    assert_eq!(counts(MIXTRAL)[1], 12_879_925_248);
    let phi = read(config!("phi-3-mini"), Some(2047)).unwrap();
    assert_eq!(phi.transformer.parameters(), 3_821_079_552);
}

#[test]
fn what_is_not_planned_is_refused_with_all_its_keys() {
    let kimi_linear = json!({
        "model_type": "kimi_linear", "linear_attn_config": { "num_heads": 32 }, "kv_lora_rank": 512,
        "num_shared_experts": 1, "mla_use_nope": true,
    });
    let sparse = json!({ "model_type": "deepseek_v4", "index_n_heads": 64, "index_topk": 512 });
    let jamba = json!({ "model_type": "jamba", "attn_layer_period": 8, "mamba_d_state": 16 });
    for (text, named) in [
        (
            changed(LLAMA, kimi_linear),
            "kimi_linear linear_attn_config kv_lora_rank num_shared_experts mla_use_nope",
        ),
        (
            changed(config!("deepseek-v3"), sparse),
            "deepseek_v4 index_n_heads index_topk sparse attention n_routed_experts kv_lora_rank",
        ),
        (changed(LLAMA, jamba), "jamba attn_layer_period mamba_d_state recurrent"),
    ] {
        let refusal = refusal(&text);
        for key in named.split_whitespace() {
            assert!(refusal.contains(key), "{key}: {refusal}");
        }
        for harmless in
            ["rope_theta", "rope_scaling", "rms_norm_eps", "torch_dtype", "vocab_size", "use_cache"]
        {
            assert!(!refusal.contains(harmless), "{harmless}: {refusal}");
        }
    }
}

/// Taking the offending keys out of a config does not make another model of it.
#[test]
fn kinds_that_are_not_planned_stay_so_without_their_keys() {
    for kind in ["deepseek_v4", "glm5_next", "kimi_linear", "gemma3n_text", "jamba", "mllama"] {
        let refusal = refusal(&changed(LLAMA, json!({ "model_type": kind })));
        assert!(refusal.contains(&format!("`{kind}` is not planned")), "{refusal}");
    }
    // Those that are planned have keys that a config of another kind lacks.
    for (kind, lacks) in [
        ("deepseek_v3", "moe_intermediate_size"),
        ("gpt_oss", "num_local_experts"),
        ("nemotron_h", "hybrid_override_pattern"),
        ("qwen2_moe", "moe_intermediate_size"),
        ("llama4_text", "num_local_experts"),
        ("ernie4_5_moe", "moe_intermediate_size"),
    ] {
        let refusal = refusal(&changed(LLAMA, json!({ "model_type": kind, "head_dim": 128 })));
        assert!(refusal.contains(&format!("there is no {lacks}")), "{kind}: {refusal}");
    }
}

#[test]
fn each_key_that_changes_the_model_is_refused() {
    for (of, key, value) in [
        (LLAMA, "kv_lora_rank", json!(512)),
        (LLAMA, "num_local_experts", json!(8)),
        (LLAMA, "n_routed_experts", json!(8)),
        (LLAMA, "moe_intermediate_size", json!(1024)),
        (LLAMA, "num_nextn_predict_layers", json!(1)),
        (LLAMA, "sliding_window", json!(2047)),
        (LLAMA, "layer_types", json!(["full_attention", "linear_attention"])),
        (LLAMA, "layer_types", json!(["sliding_attention"])),
        (LLAMA, "quantization_config", json!({ "quant_method": "gptq", "bits": 4 })),
        (LLAMA, "is_encoder_decoder", json!(true)),
        (LLAMA, "vision_config", json!({ "hidden_size": 1024 })),
        (LLAMA, "head_dimension", json!(64)),
        (LLAMA, "new_key", json!(false)),
        (config!("mistral-7b"), "attention_bias", json!(true)),
        (MIXTRAL, "shared_expert_intermediate_size", json!(4096)),
        (QWEN3_MOE, "decoder_sparse_step", json!(0)),
        (QWEN3_MOE, "mlp_only_layers", json!("all")),
        (config!("deepseek-v3"), "moe_layer_freq", json!([1])),
        (config!("deepseek-v3"), "index_topk", json!(2048)),
        (config!("glm-5.1"), "index_topk_freq", json!(4)),
        (config!("glm-5.1"), "index_topk_pattern", json!("FSSS")),
        (config!("glm-5.1"), "indexer_types", json!(["full", "shared"])),
        (config!("glm-5.1"), "index_share_for_mtp_iteration", json!(true)),
        (config!("glm-5.1"), "index_kpool", json!(4)),
        (config!("gpt-oss-20b"), "experts_per_token", json!(8)),
        (config!("gpt-oss-20b"), "layer_types", json!(["sliding_attention"])),
        (config!("gpt-oss-20b"), "layer_types", json!(vec!["linear_attention"; 24])),
        (config!("gemma-3-1b"), "sliding_window_pattern", json!("GLLL")),
        (config!("nemotron-h-8b"), "hybrid_override_pattern", json!("M-X")),
        (config!("nemotron-h-8b"), "num_hidden_layers", json!(51)),
        (config!("nemotron-h-8b"), "use_bias", json!(true)),
        (config!("nemotron-h-8b"), "use_conv_bias", json!(false)),
        (config!("nemotron-h-8b"), "num_nextn_predict_layers", json!(1)),
        (config!("nemotron-h-8b"), "moe_latent_size", json!(1024)),
        (QWEN3_MOE, "n_shared_experts", json!(1)),
        (config!("gpt2"), "add_cross_attention", json!(true)),
        (config!("gpt2"), "hidden_size", json!(768)),
    ] {
        let text = changed(of, json!({ key: value }));
        let refusal = refusal(&text);
        assert!(refusal.contains(key), "{key}: {refusal}");
    }
    // Which of its layers have windows, the class does not say in one way.
    let on = json!({ "use_sliding_window": true, "sliding_window": 1024 });
    assert!(
        refusal(&changed(QWEN3_MOE, on)).contains("shorter than the sequence (sliding_window)")
    );
}

#[test]
fn values_that_describe_nothing_change_nothing() {
    for (of, key, value) in [
        (LLAMA, "kv_lora_rank", json!(null)),
        (LLAMA, "something_new", json!(null)),
        (LLAMA, "n_routed_experts", json!(0)),
        (LLAMA, "num_nextn_predict_layers", json!(0)),
        (LLAMA, "sliding_window", json!(2048)),
        (LLAMA, "layer_types", json!(["full_attention", "full_attention"])),
        (LLAMA, "is_encoder_decoder", json!(false)),
        (LLAMA, "pruned_heads", json!({})),
        (LLAMA, "pad_token_id", json!(0)),
        (LLAMA, "some_other_token_id", json!(0)),
        (LLAMA, "rope_parameters", json!({ "rope_theta": 5e5 })),
        (LLAMA, "hidden_dropout", json!(0.1)),
        (LLAMA, "head_dim", json!(null)),
        (config!("mistral-7b"), "attention_bias", json!(false)),
        (config!("qwen2.5-7b"), "sliding_window", json!(16)),
        (config!("qwen2.5-7b"), "layer_types", json!(["sliding_attention"])),
        (MIXTRAL, "num_experts", json!(8)),
        (MIXTRAL, "shared_expert_intermediate_size", json!(0)),
        (QWEN3_MOE, "intermediate_size", json!(5472)),
        (QWEN3_MOE, "mlp_only_layers", json!(null)),
        (config!("glm-5.1"), "index_topk_freq", json!(1)),
        (config!("glm-5.1"), "index_skip_topk_offset", json!(2)),
        (config!("glm-5.1"), "indexer_types", json!(vec!["full"; 78])),
        (config!("glm-5.1"), "layer_types", json!(vec!["deepseek_sparse_attention"; 78])),
        (config!("gpt2"), "n_inner", json!(3072)),
    ] {
        let text = changed(of, json!({ key: value }));
        let sequence = Some(if of == config!("gpt2") { 1024 } else { 2048 });
        let count = |text: &str| read(text, sequence).map(|it| it.transformer.parameters());
        match (count(of), count(&text)) {
            (Ok(own), Ok(other)) => assert_eq!(own, other, "{key}"),
            (_, other) => panic!("{key}: {}", other.unwrap_err()),
        }
    }
}

#[test]
fn keys_that_are_read_count() {
    let [whole, _] = counts(LLAMA);
    // Projections of twice the heads' size: q, k, v and output.
    let wide = counts(&changed(LLAMA, json!({ "head_dim": 256 })))[0];
    assert_eq!(wide - whole, 32 * 4096 * (2 * 32 + 2 * 8) * 128);
    let biased = counts(&changed(LLAMA, json!({ "attention_bias": true })))[0];
    assert_eq!(biased - whole, 32 * (4096 + 2 * 1024 + 4096));
    let biased = counts(&changed(LLAMA, json!({ "mlp_bias": true })))[0];
    assert_eq!(biased - whole, 32 * (2 * 14336 + 4096));
    let tied = counts(&changed(LLAMA, json!({ "tie_word_embeddings": true })))[0];
    assert_eq!(whole - tied, 128_256 * 4096);
    let gemma = changed(config!("gemma-2b"), json!({ "tie_word_embeddings": false }));
    assert_eq!(counts(&gemma)[0], 2_506_172_416 + 256_000 * 2048);
}

#[test]
fn kinds_that_are_not_known_are_read_as_llama_only_with_keys_of_llama() {
    let kind = |changes: Value| {
        let text = changed(&changed(LLAMA, json!({ "model_type": "newest" })), changes);
        read(&text, Some(2048))
    };
    let model = kind(json!({})).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(model.transformer.parameters(), 8_030_261_248);
    let [assumed] = &model.assumed[..] else { panic!("{:?}", model.assumed) };
    assert!(assumed.contains("the model_type `newest` is not known: it is read as"), "{assumed}");
    for (changes, message) in [
        (
            json!({ "new_key": 1 }),
            "the model_type `newest` is not known, nor are its keys: new_key",
        ),
        (json!({ "hidden_act": "relu2" }), "with hidden_act \"relu2\" it is not built like llama"),
        (json!({ "hidden_act": null }), "there is no hidden_act"),
        (json!({ "tie_word_embeddings": null }), "there is no tie_word_embeddings"),
        (json!({ "num_key_value_heads": null }), "there is no num_key_value_heads"),
        (json!({ "num_experts": 8 }), "num_experts"),
    ] {
        let refused = kind(changes).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(message), "{message}: {refused}");
    }
}

#[test]
fn a_plan_of_a_vision_language_model_leaves_the_encoder_out_and_an_encoder_question_reads_it() {
    let text = config!("qwen2.5-vl-7b");
    let plain = read(text, Some(2048)).unwrap_or_else(|error| panic!("{error}"));
    let language =
        read(config!("qwen2.5-7b"), Some(2048)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plain.transformer.parameters(), language.transformer.parameters());
    assert!(plain.vision.is_none());
    assert_eq!(plain.assumed, ["vision_config is not planned"]);
    let wanted = super::Wanted { sequence: Some(2048), attention: Attention::Flash, vision: true };
    let path = Path::new("config.json");
    let both = parse(&File::new(path, text), wanted).unwrap_or_else(|error| panic!("{error}"));
    assert!(both.assumed.is_empty(), "{:?}", both.assumed);
    assert!(both.vision.is_some_and(|vision| vision.layers == 32 && vision.windows.is_some()));
    // As `transformers` writes it today: the language model in a part of its own, and beside it.
    let Value::Object(mut keys) = serde_json::from_str(text).unwrap() else { panic!("no object") };
    let vision = keys.remove("vision_config").unwrap();
    let mut text = keys.clone();
    text.insert("model_type".to_owned(), json!("qwen2_5_vl_text"));
    keys.insert("text_config".to_owned(), Value::Object(text));
    keys.insert("vision_config".to_owned(), vision);
    let again = parse(&File::new(path, &Value::Object(keys).to_string()), wanted);
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.transformer.parameters(), plain.transformer.parameters());
    assert!(again.vision.is_some());
    // What is odd there is said at its place, and of no interest to a plan.
    let odd = changed(
        config!("qwen2.5-vl-7b"),
        json!({ "vision_config": { "depth": 32, "hidden_size": "1280" } }),
    );
    assert!(read(&odd, Some(2048)).is_ok());
    let refused = parse(&File::new(path, &odd), wanted).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|text| text.contains("hidden_size is \"1280\": it must be a whole number")));
}

#[test]
fn of_several_parts_the_language_model_is_read_and_that_is_said() {
    let text: Value = serde_json::from_str(LLAMA).unwrap();
    let whole = json!({
        "model_type": "llava", "architectures": ["Llava"], "image_token_index": 32000,
        "text_config": text, "vision_config": { "hidden_size": 1024 }, "projector_hidden_act": "gelu",
    });
    let model = read(&whole.to_string(), Some(2048)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(model.transformer.parameters(), 8_030_261_248);
    let [assumed] = &model.assumed[..] else { panic!("{:?}", model.assumed) };
    assert!(assumed.contains("ignored: projector_hidden_act, vision_config"), "{assumed}");
    let with = |changes: Value| refusal(&changed(&whole.to_string(), changes));
    assert!(with(json!({ "quantization_config": { "bits": 4 } })).contains("quantization_config"));
    let tied = with(json!({ "tie_word_embeddings": true }));
    assert!(tied.contains("tie_word_embeddings is both in text_config and outside it"), "{tied}");
    let number = with(json!({ "text_config": 7 }));
    assert!(number.contains("text_config is 7: it must be an object"), "{number}");
    let unplanned = changed(LLAMA, json!({ "model_type": "gemma3n_text" }));
    let unplanned: Value = serde_json::from_str(&unplanned).unwrap();
    assert!(with(json!({ "text_config": unplanned })).contains("gemma3n_text"));
}

#[test]
fn samples_are_assumed_only_with_a_word() {
    let taken = |text: &str| {
        let model = read(text, None).unwrap_or_else(|error| panic!("{error}"));
        let [assumed] = &model.assumed[..] else { panic!("{:?}", model.assumed) };
        let tokens = model.transformer.sequence;
        assert!(assumed.contains(&format!("samples have {tokens} tokens")), "{assumed}");
        tokens
    };
    assert_eq!(taken(LLAMA), 4096);
    assert_eq!(taken(config!("gpt2")), 1024);
    let long = read(config!("gpt2"), Some(2048)).err().map(|error| error.to_string());
    let message = "the sequence has 2048 tokens, but there are only 1024 learned positions";
    assert_eq!(long.as_deref(), Some(message));
}

#[test]
fn hostile_configs_are_refused_in_few_words() {
    let long = "x".repeat(100_000);
    let many = (0..10_000).map(|it| (format!("key_{it}"), json!(it))).collect::<Map<_, _>>();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, message) in [
        (deep, "this is not JSON"),
        (format!("{{\"{long}\":1,{}", &LLAMA.trim()[1..]), "xxx"),
        (changed(LLAMA, json!({ "model_type": &long, "new": 1 })), "is not known, nor"),
        (changed(LLAMA, json!({ "hidden_size": &long })), "it must be a whole number"),
        (changed(LLAMA, Value::Object(many)), " and 9970 more"),
        (changed(LLAMA, json!({ "a\u{1b}[31m\n": 1 })), "a\\u{1b}[31m\\n"),
        (changed(LLAMA, json!({ "hidden_size": 0 })), "hidden_size is 0: it must be from 1"),
        (changed(LLAMA, json!({ "hidden_size": 100, "head_dim": null })), "cannot be cut into 32"),
        (changed(LLAMA, json!({ "hidden_size": -1 })), "hidden_size is -1"),
        (changed(LLAMA, json!({ "vocab_size": 0 })), "vocab_size is 0: it must be from 1"),
        (changed(LLAMA, json!({ "vocab_size": u64::MAX })), "vocab_size is 18446744073709551615"),
        (changed(LLAMA, json!({ "vocab_size": 1e300 })), "vocab_size is 1e+300"),
        (changed(LLAMA, json!({ "vocab_size": "128256" })), "vocab_size is \"128256\""),
        (changed(LLAMA, json!({ "vocab_size": [1] })), "vocab_size is [1]"),
        (changed(LLAMA, json!({ "head_dim": 1_u64 << 40 })), "head_dim is 1099511627776"),
        (changed(LLAMA, json!({ "num_hidden_layers": 10_001 })), "num_hidden_layers is 10001"),
        (changed(LLAMA, json!({ "num_attention_heads": 0, "head_dim": 128 })), "is 0"),
        (changed(LLAMA, json!({ "num_key_value_heads": 0 })), "num_key_value_heads is 0"),
        (changed(LLAMA, json!({ "num_key_value_heads": 5 })), "not a multiple of kv-heads, 5"),
        (changed(LLAMA, json!({ "tie_word_embeddings": 1 })), "must be true or false"),
        (changed(MIXTRAL, json!({ "num_local_experts": 0 })), "num_local_experts is 0"),
        (changed(MIXTRAL, json!({ "num_local_experts": null })), "there is no num_local_experts"),
        (changed(MIXTRAL, json!({ "num_experts": 4 })), "are 8 and 4"),
        (changed(config!("deepseek-v3"), json!({ "kv_lora_rank": 0 })), "kv_lora_rank is 0"),
        (changed(config!("deepseek-v3"), json!({ "qk_nope_head_dim": 0 })), "rotary-size is 64"),
        (changed(config!("deepseek-v3.2"), json!({ "index_topk": 0 })), "index_topk is 0: it must"),
        (changed(config!("deepseek-v3.2"), json!({ "index_n_heads": null })), "no index_n_heads"),
        (
            changed(config!("deepseek-v3"), json!({ "qk_nope_head_dim": u64::MAX })),
            "qk_nope_head_dim is",
        ),
        (changed(config!("deepseek-v3"), json!({ "n_shared_experts": 1 << 30 })), "shared-ffn is"),
        (changed(config!("deepseek-v3"), json!({ "num_nextn_predict_layers": 65 })), "is 65"),
        (changed(config!("gemma-3-1b"), json!({ "sliding_window": 0 })), "sliding_window is 0"),
        (changed(config!("nemotron-h-8b"), json!({ "ssm_state_size": 1 << 20 })), "ssm_state_size"),
        (
            changed(
                config!("nemotron-h-8b"),
                json!({ "hybrid_override_pattern": "M".repeat(20_000), "num_hidden_layers": null }),
            ),
            "layers is 20000: it must be from 1 to 10000",
        ),
        (changed(config!("deepseek-v3"), json!({ "num_hidden_layers": u64::MAX })), "_layers is"),
        (changed(MIXTRAL, json!({ "num_experts_per_tok": 9 })), "top-k is 9, but there are 8"),
        (changed(config!("qwen3-8b"), json!({ "head_dim": null })), "there is no head_dim"),
        (LLAMA.replacen('{', "{\"hidden_size\": 2048,", 1), "hidden_size appears twice"),
        (LLAMA.replacen("null", "{\"a\": 1, \"a\": 2}", 1), "a appears twice"),
        ("{\"x\": NaNa}".to_owned(), "this is not JSON"),
        (String::new(), "this is not JSON"),
        ("7".to_owned(), "a config is an object"),
    ] {
        let refusal = refusal(&text);
        assert!(refusal.contains(message), "{message}: {refusal}");
        assert!(refusal.len() < 1500, "{} bytes", refusal.len());
        assert!(!refusal.contains('\u{1b}'));
    }
}
