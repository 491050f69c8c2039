//! The partition of a model over the devices of a stage.

use crate::model::{Transformer, number};

/// The partition of a model over the devices of a stage, and the sequences of a microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Partition {
    /// Devices that share each product, t.
    pub tensor: u64,
    /// Devices that share each sequence, c.
    pub context: u64,
    /// Devices that share the experts of a layer, e.
    pub expert: u64,
    /// Devices that share each product of an expert.
    pub expert_tensor: u64,
    /// Sequences of a microbatch, b.
    pub microbatch: u64,
    /// Whether the tensor group shares the activations between its products too (sequence
    /// parallelism, Korthikanti et al. 2022, section 4.2.2).
    pub sequence_parallel: bool,
    /// How the loss is computed.
    pub loss: Loss,
}

impl Partition {
    /// Tokens of a microbatch of `model` on one device of a context group.
    pub(crate) fn tokens(&self, model: &Transformer) -> f64 {
        number(self.microbatch) * number(model.sequence) / number(self.context)
    }

    /// Devices that share the activations between products: the tensor group with sequence parallelism,
    /// else one.
    pub(crate) fn shared(&self) -> f64 {
        if self.sequence_parallel { number(self.tensor) } else { 1.0 }
    }
}

/// How the loss is computed from the logits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Loss {
    /// A kernel for each operation, in 32 bits: Megatron-LM's default.
    #[default]
    Separate,
    /// One kernel each way.
    Fused,
}
