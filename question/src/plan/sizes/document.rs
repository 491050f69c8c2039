//! The table `[model]`, as it is written.

use serde::{Deserialize, Serialize};

/// The sizes of a transformer.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SizesDocument {
    /// Transformer layers.
    pub layers: u64,
    /// The hidden size h.
    pub hidden: u64,
    /// The attention heads a.
    pub heads: u64,
    /// The heads of keys and values, for grouped-query attention
    /// [default: as many as heads].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// The size of a head [default: the hidden size over the heads; with latent-keys it must be given].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_size: Option<u64>,
    /// The size of a head's values [default: that of the head].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_size: Option<u64>,
    /// Whether queries and keys are normalised [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qk_norm: Option<bool>,
    /// Whether every head has a learned sink, as in gpt-oss [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<bool>,
    /// Whether what attention gives is multiplied by a gate, as in Qwen3-Next [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_gate: Option<bool>,
    /// The size of the latent that keys and values are made of, for multi-head latent attention
    /// [default: no latent].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_keys: Option<u64>,
    /// The size of the latent that queries are made of, with latent-keys
    /// [default: queries are projected directly].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_query: Option<u64>,
    /// The part of a head that is rotated and that all heads share in keys, with latent-keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotary_size: Option<u64>,
    /// The tokens that attention sees in layers with a window [default: all].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Every how many layers one attends to all tokens, where the others have a window or linear attention:
    /// 6 is five with a window and one without [default: none does].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_every: Option<u64>,
    /// A letter for each layer of a hybrid, as Megatron-LM and Nemotron-H write it: M is Mamba-2, * is
    /// attention, - an MLP and E experts, each a layer of its own
    /// [default: all layers have attention, and an MLP or experts].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The width of the MLP, or of one expert [default: 4 h for plain MLPs; else it must be given].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// Whether the MLP has a gate, as SwiGLU, and norms are RMS norms [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gated: Option<bool>,
    /// How normalisations are made: `rms`, with a scale, or `layer`, with a shift too
    /// [default: rms for gated MLPs, else layer].
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["rms", "layer"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<String>,
    /// Normalisations of every layer [default: one before attention and one before the MLP].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norms: Option<u64>,
    /// The size V of the vocabulary.
    pub vocabulary: u64,
    /// The learned positions [default: 0].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<u64>,
    /// The experts of a layer [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<u64>,
    /// The experts that a token is sent to, where there are experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// The width of all shared experts together, which every token visits [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_ffn: Option<u64>,
    /// Whether shared experts are multiplied by a gate, as in Qwen2-MoE
    /// [default: no gate].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_gate: Option<bool>,
    /// Whether the router has a bias, learned or for balance [default: no bias].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_bias: Option<bool>,
    /// The first layers that have an MLP in place of experts [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_layers: Option<u64>,
    /// Every how many layers one has experts, where the others have an MLP [default: all have].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts_every: Option<u64>,
    /// The width of the MLP of layers without experts, where others have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_ffn: Option<u64>,
    /// Layers of multi-token prediction behind the last one [default: 0].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtp: Option<u64>,
    /// The heads of Mamba-2 layers, where pattern has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_heads: Option<u64>,
    /// The size of a head of Mamba-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_head_size: Option<u64>,
    /// The size of the state of Mamba-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_state: Option<u64>,
    /// The groups of heads of Mamba-2 that share B and C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_groups: Option<u64>,
    /// The width of the convolution of Mamba-2 [default: 4 tokens].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_convolution: Option<u64>,
    /// The heads of queries and keys of linear attention with a gated delta rule, as in Qwen3-Next
    /// [default: no linear attention].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_key_heads: Option<u64>,
    /// The heads of values of linear attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_value_heads: Option<u64>,
    /// The size of a head of queries and keys of linear attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_key_size: Option<u64>,
    /// The size of a head of values of linear attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_value_size: Option<u64>,
    /// The width of the convolution of linear attention [default: 4 tokens].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_convolution: Option<u64>,
    /// Whether the embedding and the output layer share their weights [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<bool>,
    /// Whether linear layers have biases [default: true for plain MLPs, false for gated ones].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biases: Option<bool>,
}
