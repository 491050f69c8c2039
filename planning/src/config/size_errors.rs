//! Errors of invalid model sizes, each at the key of the config that gives the size.

use plan::ModelError;
use question::diagnostic::Diagnostic;

use super::{Config, experts};

/// The keys of each size in configs, by its name in a table `[model]`.
const KEYS: &[(&str, &[&str])] = &[
    ("layers", LAYERS),
    ("hidden", &["hidden_size", "n_embd"]),
    ("heads", &["num_attention_heads", "n_head"]),
    ("kv-heads", &["num_key_value_heads"]),
    ("head-size", &["head_dim", "attention_head_dim", "qk_nope_head_dim"]),
    ("value-size", &["v_head_dim"]),
    ("latent-query", &["q_lora_rank"]),
    ("latent-keys", &["kv_lora_rank"]),
    ("rotary-size", &["qk_rope_head_dim"]),
    ("index-heads", &["index_n_heads"]),
    ("index-head-size", &["index_head_dim"]),
    ("index-top-k", &["index_topk"]),
    ("ffn", &["moe_intermediate_size", "intermediate_size", "n_inner"]),
    ("dense-ffn", &["intermediate_size_mlp", "intermediate_size"]),
    (
        "shared-ffn",
        &[
            "moe_shared_expert_intermediate_size",
            "shared_expert_intermediate_size",
            "n_shared_experts",
            "intermediate_size",
        ],
    ),
    ("experts", experts::COUNTS),
    ("top-k", experts::TOP_KS),
    ("vocabulary", &["vocab_size"]),
    ("positions", POSITIONS),
    ("window", &["sliding_window", "attention_chunk_size"]),
    ("mtp", &["num_nextn_predict_layers"]),
    ("mamba-heads", &["mamba_num_heads"]),
    ("mamba-head-size", &["mamba_head_dim"]),
    ("mamba-state", &["ssm_state_size"]),
    ("mamba-groups", &["n_groups", "mamba_n_groups"]),
    ("mamba-convolution", &["conv_kernel", "mamba_d_conv"]),
    ("linear-key-heads", &["linear_num_key_heads"]),
    ("linear-value-heads", &["linear_num_value_heads"]),
    ("linear-key-size", &["linear_key_head_dim"]),
    ("linear-value-size", &["linear_value_head_dim"]),
    ("linear-convolution", &["linear_conv_kernel_dim"]),
];

const LAYERS: &[&str] =
    &["num_hidden_layers", "n_layer", "hybrid_override_pattern", "layers_block_type"];
const POSITIONS: &[&str] = &["n_positions", "n_ctx"];
const LENGTHS: &[&str] = &["max_position_embeddings", "n_positions", "n_ctx"];

impl Config<'_> {
    /// The table `[model]` with the sizes that the config says in numbers, as it is typed.
    pub(super) fn typed(&self) -> String {
        let number = |keys: &[&str]| keys.iter().find_map(|key| self.keys.get(*key)?.as_u64());
        let width = number(experts::WIDTHS);
        let mlp = number(&["intermediate_size"]);
        let mut all = vec![
            ("ffn", width.or(mlp)),
            ("dense-ffn", mlp.filter(|_| width.is_some())),
            ("head-size", number(&["head_dim"])),
            ("dense-layers", number(experts::FIRST)),
        ];
        let same = ["layers", "hidden", "heads", "kv-heads", "vocabulary", "experts", "top-k"];
        let known = KEYS.iter().filter(|(size, _)| same.contains(size));
        all.extend(known.map(|(size, keys)| (*size, number(keys))));
        let said = all.into_iter().filter_map(|(size, value)| Some(format!("{size} = {}", value?)));
        let mut all: Vec<String> = said.collect();
        if let Ok(Some(tied)) = self.flag("tie_word_embeddings") {
            all.push(format!("tied = {tied}"));
        }
        if self.is_gated() {
            all.push("gated = true".to_owned());
        }
        format!("model = {{ {} }}", all.join(", "))
    }

    /// `error` as a diagnostic at the key of the config that gives the size.
    pub(super) fn size_error(&self, error: &ModelError) -> Diagnostic {
        let of = |size: &str| KEYS.iter().find(|(name, _)| *name == size).map(|(_, keys)| *keys);
        let keys = match error {
            ModelError::Size { what, .. }
            | ModelError::Groups { what, .. }
            | ModelError::Missing { what, .. } => of(what).unwrap_or(LENGTHS),
            ModelError::KvHeads { .. } | ModelError::LatentHeads { .. } => &["num_key_value_heads"],
            ModelError::Rotary { .. } => &["qk_rope_head_dim"],
            ModelError::Positions { .. } => POSITIONS,
            ModelError::TopK { .. } => experts::TOP_KS,
            ModelError::Parameters
            | ModelError::Kinds { .. }
            | ModelError::Empty
            | ModelError::ManyKinds => LAYERS,
        };
        let key = keys.iter().find(|key| self.has(key)).unwrap_or(&keys[0]);
        let own = self.keys.get(*key).and_then(serde_json::Value::as_u64);
        let message = match error {
            // A size derived from several keys is reported under its own name.
            ModelError::Size { value, most, .. } if own == Some(*value) => {
                format!("{key} is {value}: it must be from 1 to {most}")
            }
            other => other.to_string(),
        };
        self.file.wrong(key, message)
    }
}
