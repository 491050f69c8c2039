//! The error of predicted memory that a plan allows for.

use plan::Peaks;

use crate::framework::Framework;

/// Measured over predicted peaks of Megatron-LM: 24 and 12 of Zero Bubble's tables 4 and 6, 18 of MLPerf, Megatron-Bridge
/// and pull requests of Megatron-LM.
const MEGATRON: Peaks = Peaks { mean: -0.015, deviation: 0.042 };
/// Those of torchtitan: 10 of its benchmark pages.
const TORCHTITAN: Peaks = Peaks { mean: 0.151, deviation: 0.102 };

/// The underprediction of memory to allow for, as a share of the prediction, by the software that runs.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MemoryError {
    /// With Megatron-LM.
    pub megatron: f64,
    pub torchtitan: f64,
}

impl MemoryError {
    pub(crate) const fn of(self, framework: Framework) -> f64 {
        match framework {
            Framework::Any | Framework::Megatron => self.megatron,
            Framework::Torchtitan => self.torchtitan,
        }
    }

    /// The distribution of measured peaks around predicted ones.
    pub(crate) const fn peaks(framework: Framework) -> Peaks {
        match framework {
            Framework::Any | Framework::Megatron => MEGATRON,
            Framework::Torchtitan => TORCHTITAN,
        }
    }
}
