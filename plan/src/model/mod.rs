//! A transformer: its sizes, its parameters, the work of a token.

use self::kinds::Layers;

mod kinds;
mod recompute;

use thiserror::Error;

pub use self::kinds::{Ffn, Latent, LayerCounts, LayerKind, Linear, MAX_KINDS, Mamba, Mixer};
pub use self::recompute::{Module, Modules, Recompute};

/// The largest size of any kind that a model may have: keeps every product within 128 bits and
/// every sum of floats exact enough.
pub(crate) const MAX_SIZE: u64 = 1 << 31;

/// The most layers of a model.
pub(crate) const MAX_LAYERS: u64 = 10_000;

/// A normalisation, by what it learns.
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
/// empty in [`Sizes::default`], which is no model by itself.
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
    /// Experts in place of one MLP.
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
    /// Normalisations of a layer: 2 where it is not told, one before attention and one before the MLP.
    pub norms: Option<u64>,
    /// Whether attention has a learned sink in every head (gpt-oss).
    pub sinks: bool,
}

/// A size that no model has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// Zero, or absurdly large.
    #[error("{what} is {value}: it must be from 1 to {most}")]
    Size {
        /// Which size, as its key is called.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The largest.
        most: u64,
    },
    /// Query heads that cannot share the heads of keys and values.
    #[error("heads is {heads}, which is no multiple of kv-heads, {kv_heads}")]
    KvHeads {
        /// Query heads.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
    },
    /// Sequences beyond the learned positions.
    #[error("the sequence has {sequence} tokens, but there are only {positions} learned positions")]
    Positions {
        /// Learned positions.
        positions: u64,
        /// Tokens of a sequence.
        sequence: u64,
    },
    /// More parameters than can be counted.
    #[error("the model has more than 2^56 parameters")]
    Parameters,
    /// Kinds of layers that are not as many as the layers.
    #[error("kinds are told of {kinds} layers, but the model has {layers}")]
    Kinds {
        /// Layers whose kind is told.
        kinds: usize,
        /// Layers.
        layers: u64,
    },
    /// More kinds of layers than are planned.
    #[error("the layers are of more than {MAX_KINDS} kinds")]
    ManyKinds,
    /// More experts visited than there are.
    #[error("top-k is {top_k}, but there are {count} experts")]
    TopK {
        /// Experts per token.
        top_k: u64,
        /// Experts.
        count: u64,
    },
}

/// A model whose sizes make sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transformer {
    sizes: Sizes,
    by_kind: Layers,
}

impl std::ops::Deref for Transformer {
    type Target = Sizes;

    fn deref(&self) -> &Sizes {
        &self.sizes
    }
}

impl Transformer {
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

    /// Checks `sizes`.
    ///
    /// # Errors
    /// A size of zero or beyond all models, heads that do not share, sequences beyond the learned
    /// positions, more experts visited than there are, or more than 2^56 parameters.
    pub fn new(sizes: Sizes) -> Result<Self, ModelError> {
        let checked = [
            ("layers", sizes.layers, MAX_LAYERS),
            ("hidden", sizes.hidden, 1 << 20),
            ("heads", sizes.heads, 1 << 16),
            ("kv-heads", sizes.kv_heads, 1 << 16),
            ("head-size", sizes.head_size, 1 << 16),
            ("ffn", sizes.ffn, 1 << 24),
            ("vocabulary", sizes.vocabulary, 1 << 24),
            ("sequence", sizes.sequence, 1 << 24),
            ("experts", sizes.experts.map_or(1, |experts| experts.count), 1 << 16),
            ("top-k", sizes.experts.map_or(1, |experts| experts.top_k), 1 << 16),
        ];
        let wrong = checked.into_iter().find(|&(_, value, most)| value == 0 || value > most);
        if let Some((what, value, most)) = wrong {
            return Err(ModelError::Size { what, value, most });
        }
        if sizes.positions > MAX_SIZE {
            let (what, value) = ("positions", sizes.positions);
            return Err(ModelError::Size { what, value, most: MAX_SIZE });
        }
        let Sizes { heads, kv_heads, .. } = sizes;
        if !heads.is_multiple_of(kv_heads) {
            return Err(ModelError::KvHeads { heads, kv_heads });
        }
        let Sizes { positions, sequence, .. } = sizes;
        if (1..sequence).contains(&positions) {
            return Err(ModelError::Positions { positions, sequence });
        }
        match sizes.experts {
            Some(Experts { count, top_k, .. }) if top_k > count => {
                Err(ModelError::TopK { top_k, count })
            }
            _ if is_beyond_counting(&sizes) => Err(ModelError::Parameters),
            _ => {
                let by_kind = Layers::of(&sizes)?;
                Ok(Self { sizes, by_kind })
            }
        }
    }

    /// Parameters of attention in one layer: the projections of queries, keys, values and output,
    /// and the scales of QK norm.
    #[must_use]
    pub fn attention_parameters(&self) -> u64 {
        let (queries, keys) = (self.heads * self.head_size, self.kv_heads * self.head_size);
        let weights = self.hidden * (2 * queries + 2 * keys);
        let qkv = if self.biases.qkv { queries + 2 * keys } else { 0 };
        let output = if self.biases.output { self.hidden } else { 0 };
        weights + qkv + output + if self.qk_norm { 2 * self.head_size } else { 0 }
    }

    /// Parameters of one MLP, or of one expert.
    #[must_use]
    pub fn mlp_parameters(&self) -> u64 {
        let products = if self.gated { 3 } else { 2 };
        let biases = if self.biases.mlp { (products - 1) * self.ffn + self.hidden } else { 0 };
        products * self.hidden * self.ffn + biases
    }

    /// Parameters of one normalisation.
    #[must_use]
    pub fn norm_parameters(&self) -> u64 {
        match self.norm {
            Norm::Layer => 2 * self.hidden,
            Norm::Rms => self.hidden,
        }
    }

    /// Parameters of a layer that are no expert's: attention, two normalisations, and the MLP or
    /// the router.
    #[must_use]
    pub fn dense_parameters(&self) -> u64 {
        let rest = match self.experts {
            Some(experts) => experts.count * self.hidden,
            None => self.mlp_parameters(),
        };
        self.attention_parameters() + 2 * self.norm_parameters() + rest
    }

    /// Parameters of all experts of a layer.
    #[must_use]
    pub fn expert_parameters(&self) -> u64 {
        self.experts.map_or(0, |experts| experts.count * self.mlp_parameters())
    }

    /// Parameters of a layer of `kind`.
    #[must_use]
    pub fn parameters_of(&self, _kind: LayerKind) -> KindParameters {
        KindParameters { dense: self.dense_parameters(), experts: self.expert_parameters() }
    }

    /// Parameters of a layer.
    #[must_use]
    pub fn layer_parameters(&self) -> u64 {
        self.dense_parameters() + self.expert_parameters()
    }

    /// Parameters of the embeddings of tokens and positions.
    #[must_use]
    pub fn embedding_parameters(&self) -> u64 {
        (self.vocabulary + self.positions) * self.hidden
    }

    /// Parameters of the head: none of its own where it is tied.
    #[must_use]
    pub fn head_parameters(&self) -> u64 {
        if self.tied { 0 } else { self.vocabulary * self.hidden }
    }

    /// All parameters. For GPT with a bias everywhere this is 12 L h^2 (1 + 13/(12 h) + (V+s)/(12 L
    /// h)) (Narayanan et al. 2021, arXiv 2104.04473, equation 2) and the last normalisation.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let ends = self.embedding_parameters() + self.head_parameters() + self.norm_parameters();
        self.layers * self.layer_parameters() + ends
    }

    /// Parameters that a token meets: all but those of the experts it does not visit.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        let idle = self.experts.map_or(0, |experts| experts.count - experts.top_k);
        self.parameters() - self.layers * idle * self.mlp_parameters()
    }

    /// Floating-point operations of one layer's forward for one token: 2 for each weight of a
    /// matrix it meets, and 4 s a d for attention, where no pair of tokens is left out: for GPT 24
    /// h^2 + 4 s h (the same, appendix).
    #[must_use]
    pub fn layer_flops(&self) -> f64 {
        self.layer_products() + self.attention_flops()
    }

    /// Of [`Self::layer_flops`], the products with weights.
    #[must_use]
    pub fn layer_products(&self) -> f64 {
        let (queries, keys) = (self.heads * self.head_size, self.kv_heads * self.head_size);
        let attention = self.hidden * (2 * queries + 2 * keys);
        let mlp = (if self.gated { 3 } else { 2 }) * self.hidden * self.ffn;
        let visited = self.experts.map_or(1, |experts| experts.top_k);
        let router = self.experts.map_or(0, |experts| experts.count * self.hidden);
        2.0 * number(attention + visited * mlp + router)
    }

    /// Of [`Self::layer_flops`], scores and weighted values: what selective recomputation repeats.
    #[must_use]
    pub fn attention_flops(&self) -> f64 {
        4.0 * number(self.sequence) * number(self.heads * self.head_size)
    }

    /// Floating-point operations of the head's forward for one token.
    #[must_use]
    pub fn head_flops(&self) -> f64 {
        2.0 * number(self.vocabulary) * number(self.hidden)
    }

    /// Model FLOPs of one token, forward and backward: three times the forward. For GPT and whole
    /// sequences 72 B L s h^2 (1 + s/(6h) + V/(12 h L)) (Korthikanti et al. 2022, arXiv 2205.05198,
    /// equation 7). What MFU counts.
    #[must_use]
    pub fn model_flops(&self) -> f64 {
        3.0 * (number(self.layers) * self.layer_flops() + self.head_flops())
    }

    /// Hardware FLOPs of one token under `recompute`: model FLOPs and what is done again; what HFU
    /// counts. With full recomputation 96 B s L h^2 (1 + s/(6h) + V/(16 L h)) (Narayanan et al.
    /// 2021, equation 3); with selective 72 B L s h^2 (1 + s/(3h) + V/(12 h L)) (Korthikanti et al.
    /// 2022, equation 9), which counts three forwards of attention as done again, where one is.
    #[must_use]
    pub fn hardware_flops(&self, recompute: Recompute) -> f64 {
        let again = match recompute {
            Recompute::None => 0.0,
            Recompute::Selective => 3.0 * self.attention_flops(),
            Recompute::Full => self.layer_flops(),
            // What MFU's twin counts of modules is left to the planner's parts of a step.
            Recompute::Modules(_) => 0.0,
        };
        self.model_flops() + number(self.layers) * again
    }
}

/// Parameters of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KindParameters {
    /// Those that are no routed expert's.
    pub dense: u64,
    /// Those of all routed experts.
    pub experts: u64,
}

/// Whether there are more than 2^56 parameters: below, no count and no number of bytes overflows.
fn is_beyond_counting(sizes: &Sizes) -> bool {
    let wide = u128::from;
    let experts = wide(sizes.experts.map_or(1, |experts| experts.count));
    // At most 2^52, 2^62 and 2^51, by the limits of each size.
    let attention = 4 * wide(sizes.hidden) * wide(sizes.heads) * wide(sizes.head_size);
    let mlp = experts * 3 * wide(sizes.hidden) * (wide(sizes.ffn) + 2);
    let ends = 2 * wide(sizes.hidden) * (wide(sizes.vocabulary) + wide(sizes.positions));
    wide(sizes.layers) * (attention + mlp) + ends > 1 << 56
}

/// A count as a float: sizes are far below 2^53.
#[allow(clippy::cast_precision_loss)]
#[must_use]
pub const fn number(count: u64) -> f64 {
    count as f64
}
