//! The number formats of training.

/// The format of the large matrix products of layers. Attention, the router, normalisations and the
/// head stay in 16 bits; weights have a 32-bit copy in the optimizer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Precision {
    /// 16 bits.
    #[default]
    Bf16,
    /// 8 bits with one scale for a tensor.
    Fp8,
    /// 8 bits with a scale for each block of 128 x 128 weights and 1 x 128 activations
    /// (DeepSeek-V3, arXiv 2412.19437, section 3.3).
    Fp8Block,
    /// 8 bits with a scale for each 32 numbers (OCP Microscaling Formats 1.0).
    MxFp8,
    /// 4 bits with a scale for each 16 numbers.
    NvFp4,
}

impl Precision {
    pub const ALL: [Self; 5] = [Self::Bf16, Self::Fp8, Self::Fp8Block, Self::MxFp8, Self::NvFp4];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8Block => "fp8-blockwise",
            Self::MxFp8 => "mxfp8",
            Self::NvFp4 => "nvfp4",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether products have fewer than 16 bits.
    #[must_use]
    pub fn is_low(self) -> bool {
        self != Self::Bf16
    }
}
