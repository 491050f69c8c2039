//! Models that are trained today: their published and counted parameters, and their relatives.

use plan::{Ffn, Indexer, LayerKind, Mixer, Sizes, Transformer};
use scenarios::PAPER;
use serde_json::{Value, json};

use super::{changed, counts, read};

/// The models of the table, each with its config.
const CONFIGS: &[(&str, &str)] = &[
    ("gpt3-175b", config!("gpt3-175b")),
    ("llama2-7b", config!("llama2-7b")),
    ("llama2-13b", config!("llama2-13b")),
    ("llama2-70b", config!("llama2-70b")),
    ("llama3-8b", config!("llama-3-8b")),
    ("llama3-70b", config!("llama3-70b")),
    ("llama3.1-405b", config!("llama3.1-405b")),
    ("mixtral-8x7b", config!("mixtral-8x7b")),
    ("mixtral-8x22b", config!("mixtral-8x22b")),
    ("deepseek-v2-lite", config!("deepseek-v2-lite")),
    ("deepseek-v2", config!("deepseek-v2")),
    ("deepseek-v3-671b", config!("deepseek-v3")),
    ("kimi-k2", config!("kimi-k2")),
    ("moonlight-16b-a3b", config!("moonlight-16b-a3b")),
    ("qwen3-30b-a3b", config!("qwen3-30b-a3b")),
    ("qwen3-235b-a22b", config!("qwen3-235b-a22b")),
    ("gpt-oss-20b", config!("gpt-oss-20b")),
    ("gpt-oss-120b", config!("gpt-oss-120b")),
    ("gemma-3-1b", config!("gemma-3-1b")),
    ("gemma-3-12b", config!("gemma-3-12b")),
    ("gemma-3-27b", config!("gemma-3-27b")),
    ("nemotron-h-8b", config!("nemotron-h-8b")),
    ("nemotron-3-nano-30b-a3b", config!("nemotron-3-nano-30b-a3b")),
];

/// Published and counted parameters of a model.
#[derive(serde::Deserialize)]
struct Counted {
    name: String,
    total_params_b: String,
    active_params_b: String,
    counted_total_b: f64,
    counted_active_b: f64,
}

fn transformer(text: &str) -> Transformer {
    read(text, Some(2048)).unwrap_or_else(|error| panic!("{error}\n{text}")).transformer
}

fn billions(count: u64) -> f64 {
    plan::number(count) / 1e9
}

/// A unit of the last digit of `text` that is not a trailing zero: by less is off what was rounded or cut.
fn unit(text: &str) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let zeros = text.len() - text.trim_end_matches('0').len();
    let places =
        if decimals > 0 { -i32::try_from(decimals).unwrap() } else { zeros.try_into().unwrap() };
    10.0_f64.powi(places)
}

/// Whether `ours` is within 1 % of the published figure, or within a unit of its last digit.
fn is_published(ours: f64, theirs: &str) -> bool {
    let published: f64 = theirs.parse().unwrap();
    (ours - published).abs() < (0.01 * published).max(unit(theirs))
}

/// Whether the active parameters of `model` are those published. Some counts leave the embedding out.
fn active_is_published(model: &Transformer, theirs: &str) -> bool {
    let active = model.active_parameters();
    let met = [active, active - model.embedding_parameters()];
    met.iter().any(|count| is_published(billions(*count), theirs))
}

/// Counted figures to their last digit; published ones within 1 % or their rounding.
#[test]
fn parameters_are_those_counted_and_published() {
    let text = PAPER.text("today-models.csv");
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut reader = csv::Reader::from_reader(lines.as_bytes());
    let rows: Vec<Counted> = reader.deserialize().map(Result::unwrap).collect();
    for (name, text) in CONFIGS {
        let row = rows.iter().find(|row| row.name == *name).unwrap();
        let model = transformer(text);
        let (total, active) = (billions(model.parameters()), billions(model.active_parameters()));
        assert!((total - row.counted_total_b).abs() < 6e-4, "{name}: {total}");
        assert!((active - row.counted_active_b).abs() < 6e-4, "{name}: {active}");
        assert!(is_published(total, &row.total_params_b), "{name}: {total}");
        let published = &row.active_params_b;
        assert!(published.is_empty() || active_is_published(&model, published), "{name}: {active}");
    }
}

/// Transformers 5.24 counts 671,877,929,216 and 743,911,199,232 on the meta device, without the biases of routers, which it
/// has as buffers. The files of GLM-5.1 have 753,864,139,008 numbers with the layer of multi-token prediction. DeepSeek
/// publishes 685 B for V3.2 with it, whose files have embedding and head once more for that layer.
#[test]
fn models_with_sparse_attention_have_the_parameters_of_their_files() {
    let of = |text| {
        let model = transformer(text);
        (model.parameters(), model.parameters() + model.mtp_parameters().sum(), model)
    };
    let (own, with_mtp, deepseek) = of(config!("deepseek-v3.2"));
    assert_eq!(own, 671_877_929_216 + 58 * 256);
    let published = with_mtp + deepseek.embedding_parameters() + deepseek.head_parameters();
    assert!((billions(published) - 685.0).abs() < 0.5, "{published}");
    assert_eq!(deepseek.indexer, Some(Indexer { heads: 64, head_size: 128, top_k: 2048 }));
    let (own, with_mtp, glm) = of(config!("glm-5.1"));
    assert_eq!([own, with_mtp], [743_911_199_232 + 75 * 256, 753_864_139_008]);
    assert_eq!(glm.indexer.map(|indexer| indexer.heads), Some(32));
}

/// MaxText counts 4162.71 TFLOPs for 16,384 tokens of DeepSeek-V3.2 in sequences of 4096, and 4103.37 without sparse attention
/// (its pull request 2979). It counts gradients of an indexer's inputs and of all its scores, which are left out here, and the
/// sum of scores over heads.
#[test]
fn flops_of_sparse_attention_are_those_that_maxtext_counts() {
    let of = |text| {
        let model = read(text, Some(4096)).unwrap().transformer;
        Transformer::new(Sizes { mtp: 0, ..(*model).clone() }).unwrap().causal_flops()
    };
    let [projections, scores] = [2.0 * 13_959_168.0, 2.0 * 2.0 * 8192.0 * (2048.0 - 1536.0)];
    let heads = 3.0 * 2.0 * 64.0 * 2048.0;
    let more = 61.0 * (projections + scores + heads);
    let sparse = of(config!("deepseek-v3.2")) + more;
    for (ours, published) in [(of(config!("deepseek-v3")), 4103.37), (sparse, 4162.71)] {
        let ours = ours * 16_384.0 / 1e12;
        assert!((ours - published).abs() < 0.02, "{ours} {published}");
    }
}

/// FLOPs of a token as Megatron-LM counts them for the throughputs of Megatron-Bridge, in billions: the median
/// of TFLOP/s over tokens/s in its tables (scenarios/paper/today-megatron-bridge.csv; of gpt-oss since release
/// 26.06, before which they are fewer). It counts the half of all pairs of tokens that attention needs.
#[test]
fn flops_are_those_that_megatron_counts() {
    for (config, sequence, billions) in [
        (config!("llama-3-8b"), 8192, 51.48),
        (config!("llama3-70b"), 8192, 449.12),
        (config!("llama3.1-405b"), 8192, 2524.4),
        (config!("deepseek-v3"), 4096, 260.0),
        (config!("kimi-k2"), 4096, 204.46),
        (config!("qwen3-30b-a3b"), 4096, 23.01),
        (config!("qwen3-235b-a22b"), 4096, 147.98),
        (config!("gpt-oss-120b"), 4096, 32.58),
        (config!("nemotron-3-nano-30b-a3b"), 8192, 22.28),
    ] {
        let model = read(config, Some(sequence)).unwrap().transformer;
        let pairs = model.counts(0..model.layers + model.mtp).sum_of(model.layer_kinds(), |kind| {
            if kind.mixer == Mixer::Full { model.attention_flops(kind) } else { 0.0 }
        });
        let counted = model.model_flops() - 1.5 * pairs + 3.0 * of_wider_mamba(&model);
        let off = counted / 1e9 / billions - 1.0;
        assert!(off.abs() < 0.006, "{counted}: {billions}");
    }
}

/// FLOPs that Megatron-LM overcounts for Mamba-2 layers, which it takes for twice as wide as the hidden size.
fn of_wider_mamba(model: &Transformer) -> f64 {
    let Some(mamba) = model.mamba else { return 0.0 };
    let [hidden, inner, state] = [model.hidden, mamba.inner(), mamba.state].map(plan::number);
    let wider = 2.0 * hidden - inner;
    let layers = layers(model, |kind| kind.mixer == Mixer::Mamba).len() as u64;
    plan::number(layers) * wider * (2.0 * hidden * 3.0 + 7.0 * state)
}

/// Layers of `model` that `is` says, in order.
fn layers(model: &Transformer, is: impl Fn(&LayerKind) -> bool) -> Vec<u64> {
    let kind = |layer: &u64| {
        let counts = model.counts(*layer..*layer + 1);
        let own = model.layer_kinds().iter().zip(counts.iter()).find(|(_, count)| *count > 0);
        is(own.unwrap().0)
    };
    (0..model.layers).filter(kind).collect()
}

#[test]
fn layers_are_of_the_kinds_that_the_keys_say() {
    let sliding = |kind: &LayerKind| kind.mixer == Mixer::Window;
    let dense = |kind: &LayerKind| kind.ffn == Ffn::Dense;
    let deepseek = transformer(config!("deepseek-v3"));
    assert_eq!(layers(&deepseek, dense), [0, 1, 2]);
    assert_eq!((deepseek.mtp, deepseek.head_size, deepseek.kv_size()), (1, 192, 128 * 320));
    let gpt_oss = transformer(config!("gpt-oss-20b"));
    assert_eq!(layers(&gpt_oss, sliding), (0..24).step_by(2).collect::<Vec<_>>());
    assert!(gpt_oss.sinks && gpt_oss.biases.mlp && gpt_oss.router_bias);
    let gemma = transformer(config!("gemma-3-1b"));
    assert_eq!(layers(&gemma, |kind| kind.mixer == Mixer::Full), [5, 11, 17, 23]);
    assert_eq!((gemma.window, gemma.norms), (Some(512), Some(4)));
    // No sample is longer than the window.
    let short = read(config!("gemma-3-1b"), Some(512)).unwrap().transformer;
    assert_eq!(layers(&short, sliding), [0; 0]);
    let nemotron = transformer(config!("nemotron-3-nano-30b-a3b"));
    assert_eq!(layers(&nemotron, |kind| kind.mixer == Mixer::Full), [5, 12, 19, 26, 33, 42]);
    assert_eq!(layers(&nemotron, |kind| kind.ffn == Ffn::Experts).len(), 23);
    let mistral = changed(config!("mistral-7b"), json!({ "sliding_window": 1024 }));
    assert_eq!(layers(&transformer(&mistral), sliding).len(), 32);
    let qwen =
        json!({ "use_sliding_window": true, "sliding_window": 1024, "max_window_layers": 20 });
    let qwen = transformer(&changed(config!("qwen2.5-7b"), qwen));
    assert_eq!(layers(&qwen, sliding), (20..28).collect::<Vec<_>>());
    let sparse = json!({ "decoder_sparse_step": 2, "mlp_only_layers": [1] });
    let sparse = transformer(&changed(config!("qwen3-30b-a3b"), sparse));
    assert_eq!(layers(&sparse, |kind| kind.ffn == Ffn::Experts)[..2], [3, 5]);
    assert_eq!(sparse.dense_ffn, Some(sparse.dense_width()));
}

#[test]
fn what_is_assumed_is_said() {
    let assumed = |text: &str| read(text, Some(2048)).unwrap().assumed.join("\n");
    let deepseek = assumed(config!("deepseek-v3"));
    assert!(
        deepseek.contains("`quantization_config` tells the format of the published"),
        "{deepseek}"
    );
    assert!(deepseek.contains("1 layer of multi-token prediction"), "{deepseek}");
    let gemma = assumed(config!("gemma-3-12b"));
    assert!(gemma.contains("`head_dim` is not given: 256, as the class of"), "{gemma}");
    assert!(!gemma.contains("`vocab_size` is not given"), "{gemma}");
}

/// A config of the keys that all have, and of `more`.
fn config_of(more: Value) -> String {
    let plain = json!({
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e4, "torch_dtype": "bfloat16",
        "max_position_embeddings": 131_072, "tie_word_embeddings": false, "attention_dropout": 0.0,
    });
    changed(&plain.to_string(), more)
}

/// Relatives of the models of the table: parameters counted from their configs, and those in their names.
#[test]
fn relatives_have_the_parameters_of_their_names() {
    for (counted, config) in [(9_241_705_984, gemma2()), (8_028_033_024, command_r())] {
        assert_eq!(counts(&config)[0], counted, "{config}");
    }
    // The largest of these names counts an encoder of images.
    for (total, active, config) in [
        ("80", "3", qwen3_next()),
        ("57", "14", qwen2_moe()),
        ("106", "12", glm()),
        ("109", "17", llama4()),
        ("32", "32", exaone()),
        ("7", "7", olmo()),
    ] {
        let model = transformer(&config);
        let counted = billions(model.parameters());
        let published: f64 = total.parse().unwrap();
        assert!((counted / published - 1.0).abs() < 0.012 || total == "7", "{counted}: {config}");
        assert!(is_published(counted, total) || total == "109", "{counted}: {config}");
        assert!(active_is_published(&model, active), "{config}");
    }
}

fn gemma2() -> String {
    config_of(json!({
        "model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "head_dim": 256,
        "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 14_336,
        "vocab_size": 256_000, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256, "tie_word_embeddings": null,
    }))
}

fn qwen3_next() -> String {
    config_of(json!({
        "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "head_dim": 256,
        "num_attention_heads": 16, "num_key_value_heads": 2, "intermediate_size": 5120,
        "vocab_size": 151_936, "num_experts": 512, "num_experts_per_tok": 10,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
        "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "partial_rotary_factor": 0.25,
    }))
}

fn qwen2_moe() -> String {
    config_of(json!({
        "model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18_944,
        "vocab_size": 151_936, "num_experts": 64, "num_experts_per_tok": 8,
        "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20_480,
        "decoder_sparse_step": 1, "use_sliding_window": false, "sliding_window": 65_536,
    }))
}

fn glm() -> String {
    config_of(json!({
        "model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46, "head_dim": 128,
        "num_attention_heads": 96, "num_key_value_heads": 8, "intermediate_size": 10_944,
        "vocab_size": 151_552, "n_routed_experts": 128, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
        "attention_bias": true, "use_qk_norm": false, "num_nextn_predict_layers": 1,
        "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "norm_topk_prob": true,
    }))
}

fn llama4() -> String {
    config_of(json!({
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "head_dim": 128,
        "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 8192,
        "intermediate_size_mlp": 16_384, "vocab_size": 202_048, "num_local_experts": 16,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "attention_chunk_size": 8192,
        "use_qk_norm": true, "no_rope_layers": [], "attn_scale": 0.1, "floor_scale": 8192,
    }))
}

fn command_r() -> String {
    config_of(json!({
        "model_type": "cohere2", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
        "vocab_size": 256_000, "sliding_window": 4096, "sliding_window_pattern": 4,
        "logit_scale": 0.25, "use_parallel_block": true, "tie_word_embeddings": null,
        "layer_norm_eps": 1e-5, "use_qk_norm": false,
    }))
}

fn exaone() -> String {
    config_of(json!({
        "model_type": "exaone4", "hidden_size": 5120, "num_hidden_layers": 64, "head_dim": 128,
        "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 27_392,
        "vocab_size": 102_400, "sliding_window": 4096, "sliding_window_pattern": "LLLG",
    }))
}

fn olmo() -> String {
    config_of(json!({
        "model_type": "olmo3", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11_008,
        "vocab_size": 100_278, "sliding_window": 4096, "attention_bias": false,
    }))
}

/// Chunks of Llama 4, and a period that is a pattern.
#[test]
fn relatives_have_windows_where_their_classes_have_them() {
    let full = |text: &str, sequence: u64| {
        let model = read(text, Some(sequence)).unwrap().transformer;
        layers(&model, |kind| kind.mixer == Mixer::Full)
    };
    let every = |period: u64, all: u64| (0..all).filter(move |it| (it + 1) % period == 0);
    assert_eq!(full(&llama4(), 16_384), every(4, 48).collect::<Vec<_>>());
    assert_eq!(full(&llama4(), 8192).len(), 48);
    let said = read(&llama4(), Some(16_384)).unwrap().assumed.join(" ");
    assert!(said.contains("attention in chunks is planned as windows of as many"), "{said}");
    let rotary = changed(&llama4(), json!({ "no_rope_layers": [1, 1, 0] }));
    assert_eq!(full(&rotary, 16_384), [2]);
    let pairs = changed(&llama4(), json!({ "interleave_moe_layer_step": 2 }));
    let sparse = layers(&transformer(&pairs), |kind| kind.ffn == Ffn::Experts);
    assert_eq!(sparse, every(2, 48).collect::<Vec<_>>());
    assert_eq!(full(&exaone(), 8192), every(4, 64).collect::<Vec<_>>());
    assert_eq!(full(&gemma2(), 8192), every(2, 42).collect::<Vec<_>>());
    let linear = transformer(&qwen3_next());
    assert_eq!(layers(&linear, |kind| kind.mixer == Mixer::Linear).len(), 36);
    assert!(linear.attention_gate && linear.shared_gate && linear.qk_norm);
}

fn glm_flash() -> String {
    let mut mlps = vec!["sparse"; 47];
    mlps[0] = "dense";
    config_of(json!({
        "model_type": "glm4_moe_lite", "hidden_size": 2048, "num_hidden_layers": 47,
        "num_attention_heads": 20, "num_key_value_heads": 20, "intermediate_size": 10_240,
        "moe_intermediate_size": 1536, "n_routed_experts": 64, "n_shared_experts": 1,
        "num_experts_per_tok": 4, "kv_lora_rank": 512, "q_lora_rank": 768, "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 192, "qk_head_dim": 256, "v_head_dim": 256, "vocab_size": 154_880,
        "mlp_layer_types": mlps, "tie_word_embeddings": false,
    }))
}

fn granite_hybrid() -> String {
    let mut kinds = vec!["mamba"; 40];
    for at in [5, 15, 25, 35] {
        kinds[at] = "attention";
    }
    config_of(json!({
        "model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 768,
        "shared_intermediate_size": 1536, "num_local_experts": 72, "num_experts_per_tok": 10,
        "vocab_size": 100_352, "layer_types": kinds, "mamba_n_heads": 128, "mamba_d_head": 64,
        "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_proj_bias": false,
        "normalization_function": "rmsnorm", "position_embedding_type": "nope",
        "tie_word_embeddings": true, "residual_multiplier": 0.22,
    }))
}

fn minimax() -> String {
    config_of(json!({
        "model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62, "head_dim": 128,
        "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 1536,
        "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 200_064,
        "tie_word_embeddings": false,
    }))
}

fn qwen35() -> String {
    let every = |layer: usize| if layer % 4 == 3 { "full_attention" } else { "linear_attention" };
    config_of(json!({
        "model_type": "qwen3_5_text", "hidden_size": 4096, "num_hidden_layers": 32, "head_dim": 256,
        "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 12_288,
        "vocab_size": 248_320, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "layer_types": (0..32).map(every).collect::<Vec<_>>(), "tie_word_embeddings": false,
    }))
}

/// As the classes of transformers 5.24 count them; the scales of all heads of MiniMax are counted as those of one.
#[test]
fn newer_families_have_the_parameters_of_their_classes() {
    for (text, counted, off) in [
        (glm_flash(), 29_943_390_976, 0),
        (granite_hybrid(), 32_207_337_984, 0),
        (minimax(), 228_689_748_992, 428_544),
        (qwen35(), 8_953_803_264, 0),
    ] {
        let model = transformer(&text);
        assert_eq!(model.parameters() + off, counted, "{text}");
    }
    let sparse = layers(&transformer(&glm_flash()), |kind| kind.ffn == Ffn::Experts);
    assert_eq!(sparse, (1..47).collect::<Vec<_>>());
    let mamba = layers(&transformer(&granite_hybrid()), |kind| kind.mixer == Mixer::Mamba);
    assert_eq!(mamba.len(), 36);
    // Without experts an MLP as wide as the shared one is left.
    let dense = changed(&granite_hybrid(), json!({ "num_local_experts": 0 }));
    assert_eq!(layers(&transformer(&dense), |kind| kind.ffn == Ffn::Dense).len(), 40);
}

#[test]
fn lists_of_layers_are_checked() {
    for (text, why) in [
        (changed(&glm_flash(), json!({ "mlp_layer_types": ["dense"] })), "for each of 47 layers"),
        (
            changed(&granite_hybrid(), json!({ "layer_types": ["mamba", "lstm"] })),
            "for each of 40 layers",
        ),
        (
            changed(&granite_hybrid(), json!({ "layer_types": null })),
            "there is no layer_types or attn_layer_indices",
        ),
    ] {
        let error = read(&text, Some(2048)).err().unwrap();
        assert!(error.message.contains(why), "{}", error.message);
    }
}

/// Layers that are not planned have no windows because they are a list.
#[test]
fn a_reason_is_of_what_the_keys_say() {
    let toy = config_of(json!({
        "model_type": "toy_hybrid", "hidden_size": 1024, "num_hidden_layers": 2, "hidden_act": "silu",
        "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 2816,
        "vocab_size": 32_000, "layer_types": ["linear_attention", "full_attention"],
        "tie_word_embeddings": false,
    }));
    let message = read(&toy, Some(2048)).err().unwrap().message;
    assert!(message.contains("recurrent kind") && !message.contains("windows"), "{message}");
    let windows = changed(&toy, json!({ "layer_types": ["sliding_attention", "full_attention"] }));
    let message = read(&windows, Some(2048)).err().unwrap().message;
    assert!(message.contains("windows"), "{message}");
}

/// Infinity and NaN, which Python writes and JSON lacks, are read.
#[test]
fn infinities_of_python_are_read() {
    let text = config!("nemotron-h-8b").trim_end().trim_end_matches('}').to_owned();
    let python = format!("\u{feff}{text}, \"time_step_limit\": [0.0, Infinity, -Infinity, NaN]}}");
    assert_eq!(
        transformer(&python).parameters(),
        transformer(config!("nemotron-h-8b")).parameters()
    );
    let wrong = python.replace("\"hidden_size\": 4096", "\"hidden_size\": NaN");
    assert_ne!(wrong, python);
    let message = read(&wrong, Some(2048)).err().unwrap().message;
    assert!(message.contains("hidden_size"), "{message}");
}
