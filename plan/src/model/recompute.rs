//! Which activations are computed again in the backward.

use std::fmt;

use super::MAX_LAYERS;

/// Prefix of the name of [`Recompute::First`], before the number of layers.
const FIRST: &str = "full-";

/// The part of the forward that the backward computes again, to hold fewer activations in between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Recompute {
    /// Nothing: all activations are held.
    None,
    /// Scores of attention and the results of softmax and dropout (Korthikanti et al. 2022, section 5).
    Selective,
    /// Modules of each layer, as `--recompute-modules` of Megatron-LM names them.
    Modules(Modules),
    /// Whole layers: only their inputs are held.
    Full,
    /// The first layers of each chunk, this many, recomputed in full (`--recompute-method block` of
    /// Megatron-LM); the rest keep all activations.
    First(u64),
}

impl Recompute {
    /// Those that need no further word, the one that holds most first.
    pub const ALL: [Self; 3] = [Self::None, Self::Selective, Self::Full];

    /// The name in files; of modules, their names with commas between.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Selective => "selective".to_owned(),
            Self::Modules(modules) => modules.to_string(),
            Self::Full => "full".to_owned(),
            Self::First(layers) => format!("{FIRST}{layers}"),
        }
    }

    /// The recomputation of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let plain = Self::ALL.into_iter().find(|one| one.name() == name);
        let first = || {
            let layers = name.strip_prefix(FIRST)?.parse().ok()?;
            (1..=MAX_LAYERS).contains(&layers).then_some(Self::First(layers))
        };
        plain.or_else(first).or_else(|| Modules::named(name).map(Self::Modules))
    }

    /// Recomputation of the first layers of a chunk of `layers` and of the rest, and how many layers
    /// count as the first: all, unless [`Recompute::First`] names a number.
    #[must_use]
    pub fn of_chunk(self, layers: u64) -> ([Self; 2], u64) {
        match self {
            Self::First(first) => ([Self::Full, Self::None], first.min(layers)),
            all => ([all; 2], layers),
        }
    }

    /// Whether `module` is computed again in every layer.
    #[must_use]
    pub fn has(self, module: Module) -> bool {
        match self {
            Self::None | Self::First(_) => false,
            Self::Selective => module == Module::CoreAttention,
            Self::Modules(modules) => modules.has(module),
            Self::Full => true,
        }
    }
}

/// A part of a layer that can be computed again by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Module {
    /// Scores and weighted values.
    CoreAttention,
    /// The activation function of the experts.
    MoeActivation,
    /// The normalisations.
    LayerNorm,
    /// The projections from the latents of MLA.
    LatentUp,
    /// The whole MLP of dense layers.
    Mlp,
    /// All of the experts: router, dispatch, experts and combine.
    Moe,
    SharedExperts,
    /// All but attention and the result of every second product: torchtitan's `selective` mode with its
    /// option `op`.
    SelectiveOp,
}

impl Module {
    /// All, with the names of Megatron-LM, and of torchtitan's own.
    const NAMES: [(Self, &'static str); 8] = [
        (Self::CoreAttention, "core_attn"),
        (Self::MoeActivation, "moe_act"),
        (Self::LayerNorm, "layernorm"),
        (Self::LatentUp, "mla_up_proj"),
        (Self::Mlp, "mlp"),
        (Self::Moe, "moe"),
        (Self::SharedExperts, "shared_experts"),
        (Self::SelectiveOp, "selective_op"),
    ];
}

/// A set of modules, at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Modules(u8);

impl Modules {
    /// The set of `modules`; `None` of an empty list.
    #[must_use]
    pub fn of(modules: &[Module]) -> Option<Self> {
        let bits = modules.iter().fold(0, |bits, module| bits | 1 << *module as u8);
        (bits != 0).then_some(Self(bits))
    }

    /// Whether `module` is among them.
    #[must_use]
    pub const fn has(self, module: Module) -> bool {
        self.0 & (1 << module as u8) != 0
    }

    /// Those that `names` lists, with commas between.
    #[must_use]
    pub fn named(names: &str) -> Option<Self> {
        let one = |name: &str| Module::NAMES.into_iter().find(|(_, known)| *known == name.trim());
        let modules: Option<Vec<Module>> =
            names.split(',').map(|name| one(name).map(|(module, _)| module)).collect();
        Self::of(&modules?)
    }
}

impl fmt::Display for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Module::NAMES.iter().filter(|(module, _)| self.has(*module));
        let names: Vec<&str> = own.map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}
