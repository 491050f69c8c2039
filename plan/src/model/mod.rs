//! A transformer: its sizes, its parameters, the work of a token.

mod check;
mod error;
mod flops;
mod kinds;
mod parameters;
mod products;
mod recompute;
#[cfg(test)]
mod tests;
mod trained;

use self::kinds::Layers;

pub use self::error::{MAX_KINDS, ModelError};
pub use self::kinds::{Ffn, Indexer, Latent, LayerCounts, LayerKind, Linear, Mamba, Mixer};
pub use self::parameters::KindParameters;
pub use self::products::{Product, Role, Side};
pub use self::recompute::{Module, Modules, Recompute};
pub use self::trained::{Adapter, Adapters, Frozen, FrozenError, Target, Targets, Trained};

/// The largest size of any kind that a model may have: keeps every product within 128 bits and
/// every sum of floats exact enough.
pub(crate) const MAX_SIZE: u64 = 1 << 31;

/// The most layers of a model.
pub(crate) const MAX_LAYERS: u64 = 10_000;

/// The most layers of multi-token prediction.
const MAX_MTP: u64 = 64;

/// A normalisation, by its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Norm {
    /// A scale and a shift per hidden unit: 2 h parameters.
    Layer,
    /// A scale per hidden unit: h parameters.
    #[default]
    Rms,
}

/// How attention is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Attention {
    /// Scores of all pairs of tokens are written to memory, as in Megatron-LM before 2023.
    Core,
    /// Tile by tile, with nothing of size s^2 in memory (`FlashAttention`).
    #[default]
    Flash,
}

/// Which projections have a bias.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The projection behind attention.
    pub output: bool,
    /// Both products of the MLP.
    pub mlp: bool,
}

/// The experts of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Experts {
    /// How many there are.
    pub count: u64,
    /// How many each token visits.
    pub top_k: u64,
    /// The width of all shared experts together, which every token visits; 0 without any.
    pub shared: u64,
}

/// The sizes of a decoder-only model, as a user knows them. What most models have not is zero, `None` or
/// empty in [`Sizes::default`], which is not a model by itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Layers, L.
    pub layers: u64,
    /// Hidden size, h.
    pub hidden: u64,
    /// Attention heads, a.
    pub heads: u64,
    /// Heads of keys and values; as many as `heads` without grouped queries.
    pub kv_heads: u64,
    /// Size of one head; h/a in most models, but any size in Qwen3, Gemma and others.
    pub head_size: u64,
    /// Width of the MLP, or of each expert.
    pub ffn: u64,
    /// Whether the MLP has a gate, a third product of the same size (`SwiGLU`).
    pub gated: bool,
    /// Vocabulary, V.
    pub vocabulary: u64,
    /// Length of the sequences trained on, s.
    pub sequence: u64,
    /// Learned position embeddings; 0 where positions are rotated in.
    pub positions: u64,
    /// Experts instead of one MLP.
    pub experts: Option<Experts>,
    /// Whether the head is the embedding, transposed.
    pub tied: bool,
    /// Which projections have a bias.
    pub biases: Biases,
    /// The normalisation before attention and MLP, and behind the last layer.
    pub norm: Norm,
    /// Whether queries and keys are normalised, head by head, with a scale per unit of a head that
    /// all heads share (QK norm, as Qwen3 has it).
    pub qk_norm: bool,
    /// How attention is computed.
    pub attention: Attention,
    /// The size of a head's values where it is not [`head_size`](Self::head_size).
    pub value_size: Option<u64>,
    /// The latents that queries, keys and values are made of (MLA).
    pub latent: Option<Latent>,
    /// The indexer that chooses the keys of attention over latents, of layers with [`Mixer::Full`].
    pub indexer: Option<Indexer>,
    /// The tokens that attention sees in layers with [`Mixer::Window`].
    pub window: Option<u64>,
    /// The Mamba-2 layers' sizes, of layers with [`Mixer::Mamba`].
    pub mamba: Option<Mamba>,
    /// The sizes of linear attention, of layers with [`Mixer::Linear`].
    pub linear: Option<Linear>,
    /// The width of the MLP of layers with [`Ffn::Dense`] in a model whose other layers have experts.
    pub dense_ffn: Option<u64>,
    /// The kind of each layer; empty where all have full attention, and the experts or the MLP.
    pub kinds: Vec<LayerKind>,
    /// Layers of multi-token prediction behind the last one (DeepSeek-V3, arXiv 2412.19437, section
    /// 2.2). They are trained with the model, but not counted among its parameters.
    pub mtp: u64,
    /// Normalisations of every layer; where absent, one before attention and one before the MLP, as far
    /// as a layer has both.
    pub norms: Option<u64>,
    /// Whether attention has a learned sink in every head (gpt-oss).
    pub sinks: bool,
    /// Whether the output of attention is multiplied by a gate, a projection of the same size
    /// (Qwen3-Next).
    pub attention_gate: bool,
    /// Whether shared experts are multiplied by a gate, one number of a token (Qwen2-MoE, Qwen3-Next).
    pub shared_gate: bool,
    /// Whether the router has a bias: learned as in gpt-oss, or kept in balance as in DeepSeek-V3.
    pub router_bias: bool,
}

/// A model whose sizes make sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transformer {
    sizes: Sizes,
    by_kind: Layers,
    /// Of each kind of layer.
    products: Vec<Vec<Product>>,
    frozen: Frozen,
}

impl std::ops::Deref for Transformer {
    type Target = Sizes;

    fn deref(&self) -> &Sizes {
        &self.sizes
    }
}

impl Transformer {
    /// The same model, for sequences of `sequence` tokens.
    #[must_use]
    pub fn with_sequence(&self, sequence: u64) -> Self {
        let sizes = Sizes { sequence, ..self.sizes.clone() };
        Self { sizes, ..self.clone() }
    }

    /// The kinds of layers that there are, each once, in the order of their first layers.
    #[must_use]
    pub fn layer_kinds(&self) -> &[LayerKind] {
        self.by_kind.kinds()
    }

    /// How many layers of each kind are among those of `range`, from 0; layers behind the last are of
    /// its kind, as MTP layers are.
    #[must_use]
    pub fn counts(&self, range: std::ops::Range<u64>) -> LayerCounts {
        self.by_kind.counts(range)
    }

    /// The kind of `layer`, from 0.
    #[must_use]
    pub fn kind_of(&self, layer: u64) -> LayerKind {
        let counts = self.counts(layer..layer + 1);
        let mut own = self.layer_kinds().iter().zip(counts.iter());
        own.find(|(_, count)| *count > 0).map_or_else(LayerKind::default, |(kind, _)| *kind)
    }
}

/// A count as a float: sizes are far below 2^53.
#[allow(clippy::cast_precision_loss)]
#[must_use]
pub const fn number(count: u64) -> f64 {
    count as f64
}
