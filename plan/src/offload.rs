//! Activations that are copied to the memory of the host between F and B.

use std::fmt;

/// A part of a layer whose input is copied, as `--offload-modules` of Megatron-LM names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Offloaded {
    /// The normalisation before attention.
    AttentionNorm,
    /// The projections to queries, keys and values.
    QkvLinear,
    /// Attention itself: queries, keys and values.
    CoreAttention,
    /// The projection behind attention.
    AttentionProjection,
    /// The normalisation before the MLP or the experts.
    MlpNorm,
    /// The first product of the experts.
    ExpertFirst,
    /// The activation function of the experts.
    ExpertActivation,
}

impl Offloaded {
    /// All, with their names in files.
    pub const NAMES: [(Self, &'static str); 7] = [
        (Self::AttentionNorm, "attn_norm"),
        (Self::QkvLinear, "qkv_linear"),
        (Self::CoreAttention, "core_attn"),
        (Self::AttentionProjection, "attn_proj"),
        (Self::MlpNorm, "mlp_norm"),
        (Self::ExpertFirst, "expert_fc1"),
        (Self::ExpertActivation, "moe_act"),
    ];

    /// The set of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(part, _)| part)
    }

    /// Whether it is one of the experts.
    #[must_use]
    pub const fn is_of_experts(self) -> bool {
        matches!(self, Self::ExpertFirst | Self::ExpertActivation)
    }
}

/// The parts of every layer whose input is copied to the host, or none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Offload(u8);

impl Offload {
    /// Nothing is copied.
    pub const NONE: Self = Self(0);

    /// The set of `parts`.
    #[must_use]
    pub fn of(parts: &[Offloaded]) -> Self {
        Self(parts.iter().fold(0, |bits, part| bits | 1 << *part as u8))
    }

    /// These and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `part` is copied.
    #[must_use]
    pub const fn has(self, part: Offloaded) -> bool {
        self.0 & (1 << part as u8) != 0
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Offloaded::NAMES.iter().filter(|(part, _)| self.has(*part));
        let names: Vec<&str> = own.map(|(_, name)| *name).collect();
        f.write_str(&names.join(" "))
    }
}
