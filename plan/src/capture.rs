//! Modules of layers that partial CUDA graphs capture.

use std::fmt;

/// Modules of every layer, as `--cuda-graph-modules` of Megatron-LM names them, or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Capture(u8);

impl Capture {
    /// No module.
    pub const NONE: Self = Self(0);
    /// Attention of any kind with its normalisation.
    pub const ATTENTION: Self = Self(1);
    /// The MLP of a layer without experts.
    pub const MLP: Self = Self(2);
    /// Experts with router and all-to-alls, where each has the same rows in every step.
    pub const EXPERTS: Self = Self(4);
    /// The router and the shared experts.
    pub const ROUTER: Self = Self(8);
    /// The work before an all-to-all of experts, which `alltoall` begins with a permutation of tokens.
    pub const PREPROCESS: Self = Self(16);
    /// A Mamba mixer.
    pub const MAMBA: Self = Self(32);
    /// Those of partial graphs that name none; [`Capture::ROUTER`] is of experts alone.
    pub const DEFAULT: Self = Self::ATTENTION.and(Self::ROUTER);
    /// All modules, each by its name.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("attn", Self::ATTENTION),
        ("mlp", Self::MLP),
        ("moe", Self::EXPERTS),
        ("moe_router", Self::ROUTER),
        ("moe_preprocess", Self::PREPROCESS),
        ("mamba", Self::MAMBA),
    ];

    /// These and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether any of `modules` is among them.
    #[must_use]
    pub const fn has(self, modules: Self) -> bool {
        self.0 & modules.0 != 0
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Self::NAMES.iter().filter(|(_, module)| self.has(*module));
        f.write_str(&own.map(|(name, _)| *name).collect::<Vec<_>>().join(" "))
    }
}
