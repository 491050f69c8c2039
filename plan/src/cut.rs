//! How a model is cut for one device.

use crate::model::{Transformer, number};

/// How a model is cut for one device of a stage, and how many sequences pass at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cut {
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

impl Cut {
    /// Tokens of a microbatch of `model` on one device of a context group.
    pub(crate) fn tokens(&self, model: &Transformer) -> f64 {
        number(self.microbatch) * number(model.sequence) / number(self.context)
    }

    /// By how many devices what is between products is shared.
    pub(crate) fn shared(&self) -> f64 {
        if self.sequence_parallel { number(self.tensor) } else { 1.0 }
    }
}

/// How the loss is computed from the logits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Loss {
    /// A kernel for each operation, in 32 bits, as Megatron-LM does unless told.
    #[default]
    Separate,
    /// One kernel each way.
    Fused,
}
