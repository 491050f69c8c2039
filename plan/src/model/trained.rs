//! The weights that are trained: all, those of some layers, or adapters beside frozen weights.

use std::fmt;
use std::ops::RangeInclusive;

use thiserror::Error;

use super::error::ModelError;
use super::products::{Product, Role, Side};
use super::{LayerKind, Sizes, Transformer, number};

/// The weights of a layer that are trained.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Trained {
    /// All of them.
    #[default]
    Whole,
    /// Adapters of low rank beside some of its frozen products.
    Adapters,
    /// None, but the gradient passes through it to layers before.
    Frozen,
    /// None, and no layer before it is trained: it has a forward only.
    ForwardOnly,
}

impl Trained {
    /// Products of the size of the forward's in a step: forward, gradient of the input, gradient of the weights.
    pub(crate) const fn passes(self) -> f64 {
        match self {
            Self::Whole => 3.0,
            Self::Adapters | Self::Frozen => 2.0,
            Self::ForwardOnly => 1.0,
        }
    }

    /// F, B and W of something without adapters, of whose weights nothing else is trained.
    pub(crate) const fn of_passes(self, [forward, backward, weight]: [f64; 3]) -> [f64; 3] {
        match self {
            Self::Whole => [forward, backward, weight],
            Self::Adapters | Self::Frozen => [forward, backward, 0.0],
            Self::ForwardOnly => [forward, 0.0, 0.0],
        }
    }
}

/// A product of a layer that can have an adapter, as Megatron-Bridge, PEFT and torchtitan name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// Queries, keys and values by one product.
    Qkv,
    /// Queries.
    Query,
    Key,
    /// Values.
    Value,
    /// The product behind attention.
    Output,
    /// The first product of an MLP or expert, with its gate.
    First,
    /// The gate of an MLP or expert.
    Gate,
    /// The first product of an MLP or expert without its gate.
    Up,
    /// The second product of an MLP or expert.
    Down,
    /// The product into a Mamba-2 mixer or linear attention.
    MixerIn,
    /// The product out of it.
    MixerOut,
}

impl Target {
    /// All names, those of Megatron-Bridge before those of PEFT and of torchtitan.
    pub const NAMES: [(&'static str, Self); 26] = [
        ("linear_qkv", Self::Qkv),
        ("linear_proj", Self::Output),
        ("linear_fc1", Self::First),
        ("linear_fc2", Self::Down),
        ("linear_q", Self::Query),
        ("linear_k", Self::Key),
        ("linear_v", Self::Value),
        ("linear_fc1_gate", Self::Gate),
        ("linear_fc1_up", Self::Up),
        ("in_proj", Self::MixerIn),
        ("out_proj", Self::MixerOut),
        ("q_proj", Self::Query),
        ("k_proj", Self::Key),
        ("v_proj", Self::Value),
        ("o_proj", Self::Output),
        ("gate_proj", Self::Gate),
        ("up_proj", Self::Up),
        ("down_proj", Self::Down),
        ("wqkv", Self::Qkv),
        ("wq", Self::Query),
        ("wk", Self::Key),
        ("wv", Self::Value),
        ("wo", Self::Output),
        ("w1", Self::Gate),
        ("w3", Self::Up),
        ("w2", Self::Down),
    ];

    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    /// Its first name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, target)| *target == self).map_or("", |(name, _)| name)
    }

    /// The target of which it is a part, if there is one.
    const fn whole(self) -> Option<Self> {
        match self {
            Self::Query | Self::Key | Self::Value => Some(Self::Qkv),
            Self::Gate | Self::Up => Some(Self::First),
            _ => None,
        }
    }

    /// Whether it is a product of `role` divided on `side`, or a part of it.
    fn is_of(self, role: Role, side: Side) -> bool {
        let is_mlp = matches!(role, Role::Dense | Role::SharedExpert | Role::RoutedExpert);
        let is_attention = role == Role::Attention;
        let (outer, inner) = (side == Side::Outer, side == Side::Inner);
        let is_mixer = matches!(role, Role::Mamba | Role::Linear);
        match self {
            // Where they come from latents, each product before attention is one of them.
            Self::Qkv | Self::Query | Self::Key | Self::Value => {
                is_attention && outer || role == Role::LatentDown
            }
            Self::Output => is_attention && inner,
            Self::First | Self::Gate | Self::Up => is_mlp && outer,
            Self::Down => is_mlp && inner,
            Self::MixerIn => is_mixer && outer,
            Self::MixerOut => is_mixer && inner,
        }
    }
}

/// The products that have adapters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Targets(u16);

/// Names of several targets, and the targets.
const GROUPS: [(&str, &[Target]); 4] = [
    ("attention", &[Target::Qkv, Target::Output]),
    ("mlp", &[Target::First, Target::Down]),
    ("wkv", &[Target::Key, Target::Value]),
    (
        "all-linear",
        &[
            Target::Query,
            Target::Key,
            Target::Value,
            Target::Output,
            Target::Gate,
            Target::Up,
            Target::Down,
            Target::MixerIn,
            Target::MixerOut,
        ],
    ),
];

impl Targets {
    /// Those of Megatron-Bridge and torchtitan unless they are given: all products of attention and MLP.
    pub const USUAL: Self = Self(
        1 << Target::Qkv as u16
            | 1 << Target::Output as u16
            | 1 << Target::First as u16
            | 1 << Target::Down as u16,
    );

    /// The targets that `name` stands for: one, or those of a group.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        // PEFT writes it with a dash, its configuration files sometimes with an underscore.
        let name = if name == "all_linear" { "all-linear" } else { name };
        let group = GROUPS.into_iter().find(|(known, _)| *known == name).map(|(_, all)| all);
        match group {
            Some(all) => Some(Self(all.iter().fold(0, |bits, one| bits | 1 << *one as u16))),
            None => Target::named(name).map(|one| Self(1 << one as u16)),
        }
    }

    /// All names that [`named`](Self::named) knows, groups first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let groups = GROUPS.into_iter().map(|(name, _)| name);
        groups.chain(Target::NAMES.into_iter().map(|(name, _)| name))
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `target` is among them.
    #[must_use]
    pub const fn has(self, target: Target) -> bool {
        self.0 & (1 << target as u16) != 0
    }

    /// Its targets, each once, in the order of their names.
    fn iter(self) -> impl Iterator<Item = Target> {
        let mut left = self;
        Target::NAMES.into_iter().filter_map(move |(_, target)| {
            let is_new = left.has(target);
            left.0 &= !(1 << target as u16);
            is_new.then_some(target)
        })
    }

    /// A target that is among them both alone and as a part of a larger one.
    fn twice(self) -> Option<[Target; 2]> {
        let twice = |part: Target| part.whole().filter(|whole| self.has(*whole));
        self.iter().find_map(|part| twice(part).map(|whole| [whole, part]))
    }

    /// Whether products of `role` that are divided on `side`, or parts of them, are among them.
    #[must_use]
    pub fn has_any(self, role: Role, side: Side) -> bool {
        self.iter().any(|target| target.is_of(role, side))
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().map(Target::name).collect::<Vec<_>>().join(", "))
    }
}

/// Adapters of low rank (LoRA, Hu et al. 2021, arXiv 2106.09685): beside a product of K x N frozen weights,
/// one of K x r and one of r x N weights that are trained.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Adapters {
    /// The rank, r.
    pub rank: u64,
    /// The products that have one.
    pub targets: Targets,
}

/// The pair of products of an adapter: of each token `inner` numbers become r, and these `outer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adapter {
    /// Numbers of a token before.
    pub inner: u64,
    pub rank: u64,
    /// Numbers of a token behind.
    pub outer: u64,
}

impl Adapter {
    #[must_use]
    pub const fn weights(&self) -> u64 {
        self.rank * (self.inner + self.outer)
    }
}

/// Why weights cannot be frozen.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrozenError {
    /// A rank of no adapter.
    #[error("rank {rank} of adapters: it must be from 1 to the hidden size, {hidden}")]
    Rank {
        rank: u64,
        /// The hidden size.
        hidden: u64,
    },
    /// Adapters of a product and of a part of it.
    #[error("{part} is a part of {whole}: a product has one adapter")]
    TargetTwice {
        /// The product.
        whole: &'static str,
        part: &'static str,
    },
    /// Adapters of a product that no layer has.
    #[error("no layer of the model has {target}")]
    NoTarget {
        /// The product.
        target: &'static str,
    },
    /// Adapters of queries, keys or values alone where latents make them.
    #[error("queries, keys and values come from latents: no product makes one of them alone")]
    TargetOfLatents,
    /// A frozen layer beyond the last.
    #[error("layer {layer} is frozen, but the last of {layers} layers is {}", layers - 1)]
    FrozenLayer {
        /// The layer, from 0.
        layer: u64,
        layers: u64,
    },
    /// Nothing to train.
    #[error("all weights are frozen: nothing is trained")]
    AllFrozen,
    /// The layers are of too many kinds.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// The weights of a model that are not trained.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Frozen {
    /// Adapters, which are trained in place of all weights of the model.
    pub adapters: Option<Adapters>,
    /// Whether the embeddings are not trained; with a tied head neither is that.
    pub embedding: bool,
    /// Whether the head and the normalisation before it are not trained.
    pub head: bool,
    /// Layers that are not trained and have no adapters, from 0.
    pub layers: Vec<RangeInclusive<u64>>,
}

impl Frozen {
    /// Whether all weights are trained.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn has_layer(&self, layer: u64) -> bool {
        self.layers.iter().any(|range| range.contains(&layer))
    }
}

impl Transformer {
    /// The same model where the weights of `frozen` are not trained.
    pub fn freezing(&self, frozen: Frozen) -> Result<Self, FrozenError> {
        if frozen.is_none() {
            return Ok(self.clone());
        }
        if let Some(adapters) = &frozen.adapters {
            self.check_adapters(adapters)?;
        }
        let layers = self.layers;
        if let Some(range) = frozen.layers.iter().find(|range| *range.end() >= layers) {
            return Err(FrozenError::FrozenLayer { layer: *range.end(), layers });
        }
        let all_adapters = frozen.adapters.is_some();
        let both = self.tied && (frozen.embedding || frozen.head);
        let frozen = Frozen {
            embedding: frozen.embedding || both || all_adapters,
            head: frozen.head || both || all_adapters,
            ..frozen
        };
        let mut kinds: Vec<LayerKind> =
            (0..layers).map(|layer| self.frozen_kind(layer, &frozen)).collect();
        let is_trained = |kind: &LayerKind| kind.trained != Trained::Frozen;
        let first = kinds.iter().position(is_trained);
        if first.is_none() && frozen.embedding && frozen.head {
            return Err(FrozenError::AllFrozen);
        }
        if frozen.embedding {
            let untouched = first.unwrap_or(kinds.len());
            kinds[..untouched].iter_mut().for_each(|kind| kind.trained = Trained::ForwardOnly);
        }
        let sizes = Sizes { kinds, ..self.sizes.clone() };
        Ok(Self { frozen, ..Self::new(sizes)? })
    }

    /// The kind of `layer`, by what is trained of it alone.
    fn frozen_kind(&self, layer: u64, frozen: &Frozen) -> LayerKind {
        let kind = self.kind_of(layer).shape();
        let trained = match frozen.adapters {
            _ if frozen.has_layer(layer) => Trained::Frozen,
            Some(adapters) if !self.has_targets(kind, adapters.targets) => Trained::Frozen,
            Some(_) => Trained::Adapters,
            None => Trained::Whole,
        };
        LayerKind { trained, ..kind }
    }

    fn has_targets(&self, kind: LayerKind, targets: Targets) -> bool {
        self.sizes.products(kind).iter().any(|product| targets.has_any(product.role, product.side))
    }

    fn check_adapters(&self, adapters: &Adapters) -> Result<(), FrozenError> {
        let Adapters { rank, targets } = *adapters;
        if rank == 0 || rank > self.hidden {
            return Err(FrozenError::Rank { rank, hidden: self.hidden });
        }
        if let Some([whole, part]) = targets.twice() {
            return Err(FrozenError::TargetTwice { whole: whole.name(), part: part.name() });
        }
        let has_latent = self.latent.is_some();
        let kinds = self.layer_kinds();
        let of_kinds = |target: Target| {
            let all = kinds.iter().flat_map(|kind| self.sizes.products(*kind));
            all.into_iter().any(|product| self.is_adapted(target, &product))
        };
        let is_all = Targets::named("all-linear") == Some(targets);
        match targets.iter().find(|target| !of_kinds(*target)).filter(|_| !is_all) {
            Some(Target::Query | Target::Key | Target::Value) if has_latent => {
                Err(FrozenError::TargetOfLatents)
            }
            Some(target) => Err(FrozenError::NoTarget { target: target.name() }),
            None => Ok(()),
        }
    }

    /// Whether `target` names an adapter of `product` in this model.
    fn is_adapted(&self, target: Target, product: &Product) -> bool {
        let is_part = matches!(target, Target::Query | Target::Key | Target::Value);
        let lacks = is_part && self.latent.is_some() || target == Target::Gate && !self.gated;
        !lacks && target.is_of(product.role, product.side)
    }

    /// The weights that are not trained.
    #[must_use]
    pub const fn frozen(&self) -> &Frozen {
        &self.frozen
    }

    /// Whether the embeddings are trained.
    #[must_use]
    pub const fn trains_embedding(&self) -> bool {
        !self.frozen.embedding
    }

    /// Whether the head is trained, and the normalisation before it.
    #[must_use]
    pub const fn trains_head(&self) -> bool {
        !self.frozen.head
    }

    /// Whether a weight in front of layer `layer` is trained: only then its input has a gradient.
    #[must_use]
    pub fn trains_before(&self, layer: u64) -> bool {
        let layers = self.counts(0..layer.min(self.layers));
        let counts = self.layer_kinds().iter().zip(layers.iter());
        let mut trained = counts.filter(|(_, count)| *count > 0).map(|(kind, _)| kind.trained);
        let is_trained = |one: Trained| matches!(one, Trained::Whole | Trained::Adapters);
        self.trains_embedding() || trained.any(is_trained)
    }

    /// The adapters of `product` in a layer of `kind`.
    #[must_use]
    pub fn adapters_of(&self, kind: LayerKind, product: &Product) -> Vec<Adapter> {
        let (Some(adapters), Trained::Adapters) = (self.frozen.adapters, kind.trained) else {
            return Vec::new();
        };
        let targets = self.targets_of(adapters.targets, product);
        let width = |target: Target| self.width_of(target, product);
        let one = |outer| Adapter { inner: product.inner, rank: adapters.rank, outer };
        targets.into_iter().map(width).map(one).collect()
    }

    /// The targets that are `product` or parts of it.
    fn targets_of(&self, targets: Targets, product: &Product) -> Vec<Target> {
        let own: Vec<Target> =
            targets.iter().filter(|one| one.is_of(product.role, product.side)).collect();
        // With latents each product has one adapter, whatever its target is called.
        match self.latent.is_some() && product.side != Side::Inner && !own.is_empty() {
            true if matches!(product.role, Role::Attention | Role::LatentDown) => vec![Target::Qkv],
            _ => own.into_iter().filter(|one| self.is_adapted(*one, product)).collect(),
        }
    }

    /// Numbers of a token behind the part `target` of `product`.
    fn width_of(&self, target: Target, product: &Product) -> u64 {
        let keys = self.kv_heads * self.head_size;
        match target {
            Target::Query => product.outer.saturating_sub(self.kv_size()),
            Target::Key => keys,
            Target::Value => self.kv_size() - keys,
            Target::Gate => product.outer / 2,
            Target::Up if self.gated => product.outer / 2,
            _ => product.outer,
        }
    }

    /// Weights of the adapters of a layer of `kind`: beside its products, and beside those of all routed
    /// experts, each of which has its own.
    #[must_use]
    pub fn adapter_weights(&self, kind: LayerKind) -> [u64; 2] {
        let of = |is_routed: bool| -> u64 {
            let products = self.products_of(kind).iter();
            let own = products.filter(|one| (one.role == Role::RoutedExpert) == is_routed);
            let adapters = own.flat_map(|product| self.adapters_of(kind, product));
            adapters.map(|adapter| adapter.weights()).sum()
        };
        let experts = self.experts.map_or(0, |experts| experts.count);
        [of(false), experts * of(true)]
    }

    /// Floating-point operations of a token in the forward of the adapters of a layer of `kind`.
    #[must_use]
    pub fn adapter_flops(&self, kind: LayerKind) -> f64 {
        let of = |product: &Product| -> u64 {
            let own = self.adapters_of(kind, product);
            self.visits(product) * own.iter().map(Adapter::weights).sum::<u64>()
        };
        2.0 * number(self.products_of(kind).iter().map(of).sum())
    }

    #[must_use]
    pub fn trained_parameters(&self) -> u64 {
        let of = |kind: LayerKind| match kind.trained {
            Trained::Whole => self.parameters_of(kind).sum(),
            Trained::Adapters => self.adapter_weights(kind).iter().sum(),
            Trained::Frozen | Trained::ForwardOnly => 0,
        };
        let counts = self.counts(0..self.layers);
        let layers: u64 = self
            .layer_kinds()
            .iter()
            .zip(counts.iter())
            .map(|(kind, count)| count * of(*kind))
            .sum();
        let embedding = if self.trains_embedding() { self.embedding_parameters() } else { 0 };
        let head = self.head_parameters() + self.norm_parameters();
        layers + embedding + if self.trains_head() { head } else { 0 }
    }
}
