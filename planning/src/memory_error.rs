//! The error of predicted memory that a plan allows for.

use crate::framework::Framework;

/// The underprediction of memory to allow for, as a share of the prediction, by the software that runs.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MemoryError {
    /// With Megatron-LM.
    pub megatron: f64,
    /// With torchtitan.
    pub torchtitan: f64,
}

impl MemoryError {
    pub(crate) const fn of(self, framework: Framework) -> f64 {
        match framework {
            Framework::Any | Framework::Megatron => self.megatron,
            Framework::Torchtitan => self.torchtitan,
        }
    }
}
