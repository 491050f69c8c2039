//! What the software of a training run does for its speed.

/// How a training framework runs a step, as far as sizes do not say it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Software {
    /// The share of a layer's kernels whose launches a CUDA graph replaces: 0 without graphs, 1 where a
    /// whole step is one.
    pub graphs: f64,
    /// Whether the all-to-alls of experts run beside the compute of another microbatch.
    pub overlap_experts: bool,
    /// Whether collectives of tensor groups run beside products.
    pub overlap_tensor: bool,
    /// Whether tokens are sent once to each node, and not once for each expert on it (DeepEP,
    /// HybridEP).
    pub sends_once: bool,
    /// How many times as long kernels of experts and their all-to-alls take as in the software that
    /// constants were fitted to.
    pub experts_slowdown: f64,
    /// Whether elementwise kernels are fused, by hand or by a compiler.
    pub fused: bool,
    /// How many times as long a step takes as in Megatron-LM, for reasons that no part shows.
    pub slowdown: f64,
}

impl Default for Software {
    /// Megatron-LM without graphs, plain all-to-alls, nothing overlapped.
    fn default() -> Self {
        Self {
            graphs: 0.0,
            overlap_experts: false,
            overlap_tensor: false,
            sends_once: false,
            experts_slowdown: 1.0,
            fused: true,
            slowdown: 1.0,
        }
    }
}
