//! How models of each `model_type` are built, and what their classes in `transformers` take for granted.

use super::experts::{
    BALANCED_EXPERTS, DEEPSEEK_EXPERTS, ExpertKeys, MIXTRAL_EXPERTS, NAMED_EXPERTS, QWEN_EXPERTS,
    RouterBias, SHARED_QWEN_EXPERTS, TOP_K,
};

/// Which projections of attention have a bias.
#[derive(Clone, Copy)]
pub(super) enum AttentionBias {
    /// Never, regardless of the config.
    Never,
    /// Queries, keys and values, always.
    Qkv,
    /// Queries, keys and values, unless this key is false.
    QkvUnless(&'static str),
    /// Queries, keys and values, where this key says so.
    QkvKey(&'static str),
    /// All four, where this key says so.
    Key(&'static str),
}

/// Whether queries and keys are normalised head by head.
#[derive(Clone, Copy)]
pub(super) enum QkNorm {
    Never,
    Always,
    /// Where this key says so.
    Key(&'static str),
}

/// How the layers of a model mix tokens, where `layer_types` does not say.
#[derive(Clone, Copy)]
pub(super) enum Mixing {
    /// All with attention to every token; a window that is switched on is refused.
    Full,
    /// All in windows of `sliding_window`, where it is there.
    Windows,
    /// In windows from layer `max_window_layers` on, where `use_sliding_window` says so.
    LastWindows,
    /// In windows, but for every n-th layer: n of `sliding_window_pattern`, or this one.
    Period(u64),
    /// In chunks of `attention_chunk_size`, but for layers without rotary positions.
    Chunks,
    /// With linear attention, but for every n-th layer: n of `full_attention_interval`, or this one.
    Linear(u64),
}

/// A `model_type` with RMS norms and no learned positions.
pub(super) struct Family {
    /// The `model_type`.
    pub(super) name: &'static str,
    pub(super) bias: AttentionBias,
    /// Whether `mlp_bias` is read.
    pub(super) mlp_bias: bool,
    /// Whether experts have biases wherever attention has.
    pub(super) expert_bias: bool,
    pub(super) qk_norm: QkNorm,
    /// Experts, where there are any.
    pub(super) experts: Option<ExpertKeys>,
    /// Whether queries, keys and values are made of latents.
    pub(super) latent: bool,
    /// Whether an indexer chooses the keys of attention in every layer.
    pub(super) indexer: bool,
    pub(super) mixing: Mixing,
    /// Normalisations of a layer, where they are not one before attention and one before the MLP.
    pub(super) norms: Option<u64>,
    /// Whether every head has a sink.
    pub(super) sinks: bool,
    /// Whether attention has a gate behind it.
    pub(super) attention_gate: bool,
    /// The key of how many layers of multi-token prediction there are.
    pub(super) mtp: Option<&'static str>,
    /// Whether the head is tied where the config does not say.
    pub(super) tied: bool,
    /// Whether `sliding_window` counts where `use_sliding_window` is missing.
    pub(super) windows: bool,
    /// Required keys, whose defaults differ from model to model.
    pub(super) explicit: &'static [&'static str],
    /// Keys that this class has besides, and that change no size; with spaces between.
    pub(super) harmless: &'static str,
    /// Defaults of the class for keys that published configs leave out.
    pub(super) defaults: &'static [(&'static str, u64)],
}

const LLAMA: Family = Family {
    name: "llama",
    bias: AttentionBias::Key("attention_bias"),
    mlp_bias: true,
    expert_bias: false,
    qk_norm: QkNorm::Never,
    experts: None,
    latent: false,
    indexer: false,
    mixing: Mixing::Full,
    norms: None,
    sinks: false,
    attention_gate: false,
    mtp: None,
    tied: false,
    windows: true,
    explicit: &[],
    harmless: "",
    defaults: &[],
};

const GROUPED: &[&str] = &["num_key_value_heads"];
const HEADS: &[&str] = &["head_dim", "num_key_value_heads"];
const SHARED_HEADS: &[&str] =
    &["head_dim", "num_key_value_heads", "shared_expert_intermediate_size"];

const DEEPSEEK_V3: Family = Family {
    name: "deepseek_v3",
    mlp_bias: false,
    latent: true,
    experts: Some(BALANCED_EXPERTS),
    mtp: Some("num_nextn_predict_layers"),
    ..LLAMA
};

/// With sparse attention; `layer_types` says so of every layer.
const DEEPSEEK_V32: Family = Family {
    name: "deepseek_v32",
    indexer: true,
    harmless: "indexer_rope_interleave index_skip_topk_offset layer_types",
    ..DEEPSEEK_V3
};

const QWEN2: Family = Family {
    name: "qwen2",
    bias: AttentionBias::Qkv,
    mlp_bias: false,
    windows: false,
    mixing: Mixing::LastWindows,
    explicit: GROUPED,
    ..LLAMA
};

const QWEN3: Family = Family {
    name: "qwen3",
    mlp_bias: false,
    qk_norm: QkNorm::Always,
    windows: false,
    mixing: Mixing::LastWindows,
    explicit: HEADS,
    ..LLAMA
};

const QWEN3_MOE: Family =
    Family { name: "qwen3_moe", experts: Some(QWEN_EXPERTS), mixing: Mixing::Full, ..QWEN3 };

const QWEN3_5: Family = Family {
    name: "qwen3_5_text",
    attention_gate: true,
    mixing: Mixing::Linear(4),
    mtp: Some("mtp_num_hidden_layers"),
    harmless: "attn_output_gate mamba_ssm_dtype mtp_use_dedicated_embeddings",
    ..QWEN3
};

const GEMMA2: Family = Family {
    name: "gemma2",
    mlp_bias: false,
    tied: true,
    norms: Some(4),
    mixing: Mixing::Period(2),
    harmless: "attn_logit_softcapping final_logit_softcapping use_bidirectional_attention",
    defaults: &[("head_dim", 256)],
    ..LLAMA
};

/// The supported models, by their classes in `transformers`.
const FAMILIES: &[Family] = &[
    LLAMA,
    Family { name: "yi", mlp_bias: false, bias: AttentionBias::Never, ..LLAMA },
    Family {
        name: "phi3",
        mlp_bias: false,
        bias: AttentionBias::Never,
        mixing: Mixing::Windows,
        ..LLAMA
    },
    Family { name: "internlm2", mlp_bias: false, bias: AttentionBias::Key("bias"), ..LLAMA },
    Family { name: "gemma", mlp_bias: false, tied: true, explicit: HEADS, ..LLAMA },
    GEMMA2,
    // Published configs of several parts leave out what the class says.
    Family {
        name: "gemma3_text",
        qk_norm: QkNorm::Always,
        mixing: Mixing::Period(6),
        defaults: &[
            ("head_dim", 256),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("vocab_size", 262_208),
        ],
        ..GEMMA2
    },
    Family {
        name: "mistral",
        bias: AttentionBias::Never,
        mlp_bias: false,
        mixing: Mixing::Windows,
        explicit: GROUPED,
        ..LLAMA
    },
    Family {
        name: "mixtral",
        bias: AttentionBias::Never,
        mlp_bias: false,
        experts: Some(MIXTRAL_EXPERTS),
        mixing: Mixing::Windows,
        explicit: GROUPED,
        ..LLAMA
    },
    QWEN2,
    Family { name: "qwen2_vl", ..QWEN2 },
    Family { name: "qwen2_vl_text", ..QWEN2 },
    Family { name: "qwen2_5_vl", ..QWEN2 },
    Family { name: "qwen2_5_vl_text", ..QWEN2 },
    Family {
        name: "qwen2_moe",
        bias: AttentionBias::QkvUnless("qkv_bias"),
        mlp_bias: false,
        windows: false,
        experts: Some(SHARED_QWEN_EXPERTS),
        explicit: &["num_key_value_heads", "shared_expert_intermediate_size"],
        ..LLAMA
    },
    QWEN3,
    Family { name: "qwen3_vl_text", ..QWEN3 },
    QWEN3_MOE,
    Family { name: "qwen3_vl_moe_text", ..QWEN3_MOE },
    Family {
        name: "qwen3_next",
        experts: Some(SHARED_QWEN_EXPERTS),
        attention_gate: true,
        mixing: Mixing::Linear(4),
        explicit: SHARED_HEADS,
        ..QWEN3
    },
    DEEPSEEK_V3,
    Family { name: "kimi_k2", ..DEEPSEEK_V3 },
    DEEPSEEK_V32,
    Family { name: "glm_moe_dsa", ..DEEPSEEK_V32 },
    Family { name: "deepseek_v2", experts: Some(DEEPSEEK_EXPERTS), ..DEEPSEEK_V3 },
    Family {
        name: "glm4_moe",
        mlp_bias: false,
        bias: AttentionBias::QkvKey("attention_bias"),
        qk_norm: QkNorm::Key("use_qk_norm"),
        experts: Some(ExpertKeys { router_bias: RouterBias::Always, ..DEEPSEEK_EXPERTS }),
        mtp: Some("num_nextn_predict_layers"),
        explicit: HEADS,
        ..LLAMA
    },
    Family {
        name: "gpt_oss",
        mlp_bias: false,
        expert_bias: true,
        experts: Some(ExpertKeys {
            top_k: &[TOP_K, "experts_per_token"],
            router_bias: RouterBias::Always,
            ..MIXTRAL_EXPERTS
        }),
        sinks: true,
        mixing: Mixing::Period(2),
        explicit: &["attention_bias", "head_dim", "num_key_value_heads"],
        harmless: "swiglu_alpha swiglu_limit",
        ..LLAMA
    },
    // The bias that balances its experts is not a parameter.
    Family {
        name: "glm4_moe_lite",
        experts: Some(ExpertKeys { router_bias: RouterBias::Never, ..DEEPSEEK_EXPERTS }),
        ..DEEPSEEK_V3
    },
    // Its scales of queries and keys are of all heads, as those of OLMoE and OLMo 2 and 3, which makes less than
    // 0.01 % of the parameters.
    Family {
        name: "minimax_m2",
        bias: AttentionBias::Never,
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        experts: Some(MIXTRAL_EXPERTS),
        explicit: HEADS,
        harmless: "qk_norm_type rotary_dim use_qk_norm use_routing_bias",
        ..LLAMA
    },
    Family {
        name: "olmoe",
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        experts: Some(MIXTRAL_EXPERTS),
        explicit: GROUPED,
        ..LLAMA
    },
    Family { name: "olmo2", mlp_bias: false, qk_norm: QkNorm::Always, ..LLAMA },
    Family { name: "granite", ..LLAMA },
    Family {
        name: "granitemoe",
        mlp_bias: false,
        experts: Some(MIXTRAL_EXPERTS),
        tied: true,
        ..LLAMA
    },
    Family { name: "smollm3", tied: true, ..LLAMA },
    Family {
        name: "dots1",
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        experts: Some(DEEPSEEK_EXPERTS),
        explicit: HEADS,
        ..LLAMA
    },
    Family {
        name: "seed_oss",
        bias: AttentionBias::QkvKey("attention_bias"),
        explicit: &["attention_bias", "head_dim", "num_key_value_heads"],
        ..LLAMA
    },
    Family {
        name: "hunyuan_v1_dense",
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        explicit: HEADS,
        ..LLAMA
    },
    Family {
        name: "glm4",
        mlp_bias: false,
        bias: AttentionBias::QkvKey("attention_bias"),
        norms: Some(4),
        explicit: HEADS,
        ..LLAMA
    },
    QWEN3_5,
    Family {
        name: "qwen3_5_moe_text",
        experts: Some(ExpertKeys { dense: &[], ..SHARED_QWEN_EXPERTS }),
        explicit: SHARED_HEADS,
        ..QWEN3_5
    },
    // Its normalisation of queries and keys learns nothing.
    Family {
        name: "llama4_text",
        mlp_bias: false,
        experts: Some(ExpertKeys {
            dense_width: "intermediate_size_mlp",
            shared_one: true,
            dense: &["interleave_moe_layer_step", "moe_layers"],
            ..MIXTRAL_EXPERTS
        }),
        mixing: Mixing::Chunks,
        explicit: HEADS,
        harmless: "attn_scale attn_temperature_tuning floor_scale for_llm_compression use_qk_norm",
        ..LLAMA
    },
    // One normalisation without a shift, before attention and MLP side by side.
    Family {
        name: "cohere2",
        mlp_bias: false,
        tied: true,
        norms: Some(1),
        mixing: Mixing::Period(4),
        explicit: GROUPED,
        harmless: "layer_switch logit_scale order_of_interleaved_layers position_embedding_type rotary_pct \
                   use_embedding_sharing use_gated_activation use_parallel_block use_parallel_embedding",
        ..LLAMA
    },
    // Its scales of queries and keys are of all heads, which makes 0.01 % of the parameters.
    Family {
        name: "olmo3",
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        mixing: Mixing::Period(4),
        ..LLAMA
    },
    Family {
        name: "ernie4_5_moe",
        bias: AttentionBias::Never,
        mlp_bias: false,
        experts: Some(ExpertKeys {
            dense: &["moe_layer_end_index", "moe_layer_interval", "moe_layer_start_index"],
            router_bias: RouterBias::Always,
            ..NAMED_EXPERTS
        }),
        mtp: Some("num_nextn_predict_layers"),
        tied: true,
        explicit: GROUPED,
        harmless: "moe_capacity moe_gate moe_norm_min moe_use_aux_free",
        ..LLAMA
    },
    Family {
        name: "exaone4",
        bias: AttentionBias::Never,
        mlp_bias: false,
        qk_norm: QkNorm::Always,
        mixing: Mixing::Period(4),
        explicit: HEADS,
        ..LLAMA
    },
];

/// A model of an unknown kind with the keys of Llama, and of experts.
const LIKE_LLAMA: Family = Family {
    name: "",
    bias: AttentionBias::Key("attention_bias"),
    explicit: &["hidden_act", "num_key_value_heads", "tie_word_embeddings"],
    ..LLAMA
};

/// The `model_type` of hybrids of Mamba-2, attention, MLPs and experts.
pub(super) const HYBRID: &str = "nemotron_h";

/// The `model_type`s whose layers have Mamba-2 or attention before an MLP or experts.
pub(super) const MAMBA: [&str; 2] = ["granitemoehybrid", "bamba"];

/// The family of `model_type`, or `None` where it is not known.
pub(super) fn family(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name.eq_ignore_ascii_case(model_type))
}

/// How a `model_type` of unknown kind is read: built like Llama, with `experts` where it has any that are planned.
pub(super) fn like_llama(model_type: &str, experts: Option<ExpertKeys>) -> Family {
    match experts.filter(|_| unplanned(model_type).is_none()) {
        None => LIKE_LLAMA,
        Some(_) => Family {
            experts,
            qk_norm: QkNorm::Key("use_qk_norm"),
            mtp: Some("num_nextn_predict_layers"),
            harmless: "rotary_dim router_dtype score_function",
            ..LIKE_LLAMA
        },
    }
}

/// Whether models of this kind are read.
pub(super) fn is_known(model_type: &str) -> bool {
    ["gpt2", HYBRID].contains(&model_type)
        || MAMBA.contains(&model_type)
        || family(model_type).is_some()
}

/// The kinds of models that are read, for help.
pub(super) fn families() -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    format!("{}, {}, {HYBRID} and gpt2", names.join(", "), MAMBA.join(", "))
}

/// Kinds of models whose layers are not those of a plan, and why: taking keys out of their config does not change that.
const UNPLANNED: &[(&str, &str)] = &[
    ("deepseek_v4", "attention to compressed keys, and several streams of hidden states"),
    ("glm5_next", "an indexer of pooled keys, and linear attention of a kind of its own"),
    ("kimi_linear minimax", "linear attention of a kind of its own"),
    (
        "gemma3n gemma3n_text",
        "layers with several streams of activations, and embeddings of each layer",
    ),
    (
        "mamba mamba2 falcon_mamba falcon_h1 jamba zamba zamba2 lfm2 rwkv recurrent_gemma",
        "layers of a recurrent kind that is not Mamba-2 together with attention, MLPs and experts",
    ),
    ("mllama mllama_text_model", "layers of cross-attention to images"),
];

/// Why models of this kind are not planned, if they are known not to be.
pub(super) fn unplanned(model_type: &str) -> Option<&'static str> {
    let is_of = |names: &str| super::keys::has(names, model_type);
    UNPLANNED.iter().find(|(names, _)| is_of(names)).map(|(_, reason)| *reason)
}

impl Family {
    /// The default of the class for `key`, if it is known.
    pub(super) fn default(&self, key: &str) -> Option<u64> {
        self.defaults.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// The keys that are read of a config of this family, each a list of names with spaces between.
    pub(super) fn keys(&self) -> Vec<&'static str> {
        let mut read = vec![super::keys::SIZES, self.harmless];
        match self.bias {
            AttentionBias::Key(key)
            | AttentionBias::QkvKey(key)
            | AttentionBias::QkvUnless(key) => read.push(key),
            AttentionBias::Never | AttentionBias::Qkv => {}
        }
        if self.mlp_bias {
            read.push("mlp_bias");
        }
        if let QkNorm::Key(key) = self.qk_norm {
            read.push(key);
        }
        if self.latent {
            read.push(super::keys::LATENT);
        }
        if self.indexer {
            read.push(super::keys::INDEX);
        }
        read.extend(self.mtp);
        read.extend(self.experts.iter().flat_map(ExpertKeys::keys));
        read.push(match self.mixing {
            Mixing::Full => "",
            Mixing::Windows => "sliding_window layer_types",
            Mixing::LastWindows => {
                "sliding_window layer_types max_window_layers use_sliding_window"
            }
            Mixing::Period(_) => {
                "sliding_window layer_types sliding_window_pattern _sliding_window_pattern"
            }
            Mixing::Chunks => {
                "attention_chunk_size layer_types no_rope_layers no_rope_layer_interval"
            }
            Mixing::Linear(_) => super::keys::LINEAR,
        });
        read
    }
}
