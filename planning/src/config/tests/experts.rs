//! Experts of kinds of models that no table has, by the names of their keys.

use serde_json::{Value, json};

use super::{changed, counts, read, refusal};

/// A published config of the kind `bailing_moe`, whose weights have 16,255,643,392 parameters.
fn bailing() -> Value {
    json!({
        "model_type": "bailing_moe", "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 5120, "max_position_embeddings": 32768,
        "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16,
        "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 20, "num_key_value_heads": 4,
        "num_shared_experts": 1, "rotary_dim": 64, "score_function": "sigmoid",
        "tie_word_embeddings": false, "use_bias": false, "use_qk_norm": true, "use_qkv_bias": false, "use_rmsnorm": true,
        "vocab_size": 157184, "moe_router_enable_expert_bias": true,
        "moe_shared_expert_intermediate_size": 512, "num_nextn_predict_layers": 0, "router_dtype": "fp32",
    })
}

#[test]
fn parameters_are_those_counted_by_hand() {
    assert_eq!(counts(&bailing().to_string())[0], 16_255_643_392);
    let ernie = json!({
        "model_type": "ernie4_5_moe", "hidden_size": 3072, "intermediate_size": 10240,
        "moe_intermediate_size": 1280, "num_hidden_layers": 30, "num_attention_heads": 24,
        "num_key_value_heads": 6, "head_dim": 128, "moe_num_experts": 48, "moe_num_shared_experts": 1,
        "moe_k": 4, "moe_layer_start_index": 2, "moe_layer_end_index": 29, "moe_layer_interval": 1,
        "vocab_size": 100352, "tie_word_embeddings": true, "hidden_act": "silu", "use_bias": false,
    });
    assert_eq!(counts(&ernie.to_string())[0], 17_393_901_888);
    // One bias of the router for each expert of 28 layers.
    let other = changed(&ernie.to_string(), json!({ "model_type": "newest" }));
    assert_eq!(counts(&other)[0], 17_393_901_888 - 28 * 48);
    let deepseek = json!({
        "model_type": "deepseek", "attention_bias": false, "aux_loss_alpha": 0.001,
        "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 10944, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
        "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28,
        "num_key_value_heads": 16, "scoring_func": "softmax", "tie_word_embeddings": false,
        "vocab_size": 102400,
    });
    assert_eq!(counts(&deepseek.to_string())[0], 16_375_728_128);
}

#[test]
fn synonyms_of_keys_are_the_same_model() {
    let own = bailing().to_string();
    for (key, other) in [
        ("num_experts", "n_routed_experts"),
        ("num_experts", "num_local_experts"),
        ("num_experts", "moe_num_experts"),
        ("num_experts_per_tok", "moe_k"),
        ("num_experts_per_tok", "experts_per_token"),
        ("moe_intermediate_size", "moe_ffn_hidden_size"),
        ("num_shared_experts", "n_shared_experts"),
        ("moe_shared_expert_intermediate_size", "share_expert_dim"),
        ("first_k_dense_replace", "moe_layer_start_index"),
        ("first_k_dense_replace", "num_dense_layers"),
        ("moe_router_enable_expert_bias", "use_routing_bias"),
    ] {
        let text = changed(&own, json!({ key: null, other: bailing()[key] }));
        assert_eq!(counts(&text), counts(&own), "{other}");
    }
    let model = read(&own, Some(2048)).unwrap_or_else(|error| panic!("{error}"));
    let said = "its experts by the names of their keys";
    assert!(model.assumed.iter().any(|one| one.contains(said)), "{:?}", model.assumed);
}

#[test]
fn keys_that_nobody_knows_are_refused_by_their_names() {
    let own = bailing().to_string();
    for (changes, message) in [
        (json!({ "num_zero_experts": 8 }), "num_zero_experts"),
        (json!({ "n_routed_experts": 64 }), "num_experts and n_routed_experts are 256 and 64"),
        (json!({ "moe_layer_freq": 0 }), "moe_layer_freq is 0"),
        (json!({ "num_experts": [64, 64] }), "num_experts is [64,64]"),
        (json!({ "num_experts_per_tok": null }), "there is no num_experts_per_tok"),
        (json!({ "num_experts": 0 }), "moe_intermediate_size"),
        (
            json!({ "num_shared_experts": 2, "moe_shared_expert_intermediate_size": 768 }),
            "of each shared expert, or of all together?",
        ),
    ] {
        let refusal = refusal(&changed(&own, changes));
        assert!(refusal.contains(message), "{message}: {refusal}");
    }
    let refused = read(&changed(&own, json!({ "num_zero_experts": 8 })), Some(2048)).err().unwrap();
    let cure = refused.help.unwrap_or_default();
    let table = "model = { ffn = 512, dense-ffn = 5120, head-size = 128, dense-layers = 1, layers = 20, \
                 hidden = 2048, heads = 16, kv-heads = 4, experts = 256, top-k = 8, vocabulary = 157184, \
                 tied = false, gated = true }";
    assert!(cure.contains(table), "{cure}");
}
