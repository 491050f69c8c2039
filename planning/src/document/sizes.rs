//! The table `[model]`, as it is written.

use question::keys::table::{Lists, keys};

keys! {
    /// The sizes of a transformer.
    pub struct SizesDocument: "", Lists::OfValues;

    /// Transformer layers.
    layers: u64, label: "Layers", required: true;
    /// The hidden size h.
    hidden: u64, label: "Hidden size (h)", required: true;
    /// The attention heads a.
    heads: u64, label: "Attention heads (a)", required: true;
    /// The heads of keys and values, for grouped-query attention
    /// [default: as many as heads].
    kv_heads: Option<u64>, label: "Key and value heads (GQA)";
    /// The size of a head [default: the hidden size over the heads; with latent-keys it must be given].
    head_size: Option<u64>, label: "Head size";
    /// The size of a head's values [default: that of the head].
    value_size: Option<u64>, label: "Head size of values";
    /// Whether queries and keys are normalised [default: false].
    qk_norm: Option<bool>, label: "Norm of queries and keys";
    /// Whether every head has a learned sink, as in gpt-oss [default: false].
    sinks: Option<bool>, label: "Attention sinks";
    /// Whether what attention gives is multiplied by a gate, as in Qwen3-Next [default: false].
    attention_gate: Option<bool>, label: "Gate of attention";
    /// The size of the latent that keys and values are made of, for multi-head latent attention
    /// [default: no latent].
    latent_keys: Option<u64>, label: "Latent size of keys and values (MLA)";
    /// The size of the latent that queries are made of, with latent-keys
    /// [default: queries are projected directly].
    latent_query: Option<u64>, label: "Latent size of queries (MLA)";
    /// The part of a head that is rotated and that all heads share in keys, with latent-keys.
    rotary_size: Option<u64>, label: "Rotary part of a head (MLA)";
    /// The heads of an indexer, which chooses the keys that attention over latents goes to, as in DeepSeek-V3.2
    /// [default: no indexer].
    index_heads: Option<u64>, label: "Heads of the indexer (DSA)";
    /// The size of a head of the indexer, and of its key.
    index_head_size: Option<u64>, label: "Head size of the indexer (DSA)";
    /// The most keys that the indexer chooses for a token.
    index_top_k: Option<u64>, label: "Keys per token (DSA)";
    /// The tokens that attention sees in layers with a window [default: all].
    window: Option<u64>, label: "Attention window (tokens)";
    /// Every how many layers one attends to all tokens, where the others have a window or linear attention:
    /// 6 is five with a window and one without [default: none does].
    full_every: Option<u64>, label: "Layers per full-attention layer";
    /// A letter for each layer of a hybrid, as Megatron-LM and Nemotron-H write it: M is Mamba-2, * is
    /// attention, - an MLP and E experts, each a layer of its own
    /// [default: all layers have attention, and an MLP or experts].
    pattern: Option<String>, label: "Pattern of hybrid layers";
    /// The width of the MLP, or of one expert [default: 4 h for plain MLPs; else it must be given].
    ffn: Option<u64>, label: "Width of the MLP or an expert";
    /// Whether the MLP has a gate, as SwiGLU, and norms are RMS norms [default: false].
    gated: Option<bool>, label: "Gated MLP (SwiGLU)";
    /// How normalisations are made: `rms`, with a scale, or `layer`, with a shift too
    /// [default: rms for gated MLPs, else layer].
    norm: Option<String>, label: "Kind of norm", words: &["rms", "layer"];
    /// Normalisations of every layer [default: one before attention and one before the MLP].
    norms: Option<u64>, label: "Norms per layer";
    /// The size V of the vocabulary.
    vocabulary: u64, label: "Vocabulary size (V)", required: true;
    /// The learned positions [default: 0].
    positions: Option<u64>, label: "Learned positions";
    /// The experts of a layer [default: none].
    experts: Option<u64>, label: "Experts per layer";
    /// The experts that a token is sent to, where there are experts.
    top_k: Option<u64>, label: "Experts per token (top-k)";
    /// The width of all shared experts together, which every token visits [default: none].
    shared_ffn: Option<u64>, label: "Width of shared experts";
    /// Whether shared experts are multiplied by a gate, as in Qwen2-MoE
    /// [default: no gate].
    shared_gate: Option<bool>, label: "Gate of shared experts";
    /// Whether the router has a bias, learned or for balance [default: no bias].
    router_bias: Option<bool>, label: "Bias of the router";
    /// The first layers that have an MLP instead of experts [default: none].
    dense_layers: Option<u64>, label: "Dense layers at the start";
    /// Every how many layers one has experts, where the others have an MLP [default: all have].
    experts_every: Option<u64>, label: "Layers per expert layer";
    /// The width of the MLP of layers without experts, where others have them.
    dense_ffn: Option<u64>, label: "MLP width of dense layers";
    /// Layers of multi-token prediction behind the last one [default: 0].
    mtp: Option<u64>, label: "MTP layers";
    /// The heads of Mamba-2 layers, where pattern has them.
    mamba_heads: Option<u64>, label: "Mamba-2 heads";
    /// The size of a head of Mamba-2.
    mamba_head_size: Option<u64>, label: "Mamba-2 head size";
    /// The size of the state of Mamba-2.
    mamba_state: Option<u64>, label: "Mamba-2 state size";
    /// The groups of heads of Mamba-2 that share B and C.
    mamba_groups: Option<u64>, label: "Mamba-2 groups";
    /// The width of the convolution of Mamba-2 [default: 4 tokens].
    mamba_convolution: Option<u64>, label: "Mamba-2 convolution width";
    /// The heads of queries and keys of linear attention with a gated delta rule, as in Qwen3-Next
    /// [default: no linear attention].
    linear_key_heads: Option<u64>, label: "Linear attention: key heads";
    /// The heads of values of linear attention.
    linear_value_heads: Option<u64>, label: "Linear attention: value heads";
    /// The size of a head of queries and keys of linear attention.
    linear_key_size: Option<u64>, label: "Linear attention: key head size";
    /// The size of a head of values of linear attention.
    linear_value_size: Option<u64>, label: "Linear attention: value head size";
    /// The width of the convolution of linear attention [default: 4 tokens].
    linear_convolution: Option<u64>, label: "Linear attention: convolution width";
    /// Whether the embedding and the output layer share their weights [default: false].
    tied: Option<bool>, label: "Tied embedding and output layer";
    /// Whether linear layers have biases [default: true for plain MLPs, false for gated ones].
    biases: Option<bool>, label: "Biases of linear layers";
}
