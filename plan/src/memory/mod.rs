//! The memory of a device as the allocator of the framework sees it: parameters, gradients, optimizer
//! state, activations and buffers.

mod activations;
mod graphs;
mod layers;
mod parameters;
mod passing;
mod resident;

use pipeline::Bytes;

pub(crate) use self::activations::shard;
pub use self::activations::{Activations, footprint};
pub(crate) use self::graphs::static_buffers;
pub(crate) use self::parameters::sharers;
pub use self::parameters::{LayerParameters, Parameters, Share};
pub(crate) use self::passing::{Peak, peaks};
pub use self::resident::resident;

/// Bytes of a weight, and of an activation, in 16 bits.
const HALF: f64 = 2.0;

/// The most a device of one stage holds, by part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StageMemory {
    /// Weights as they are multiplied.
    pub parameters: Bytes,
    pub gradients: Bytes,
    /// Weights in 32 bits and moments.
    pub optimizer: Bytes,
    /// Activations at the peak of the order.
    pub activations: Bytes,
    /// Static buffers of CUDA graphs of modules, for the most microbatches in flight.
    pub graphs: Bytes,
    /// Logits, a recomputed layer, gathered parameters, and the reserve of the framework.
    pub buffers: Bytes,
}

impl StageMemory {
    #[must_use]
    pub fn sum(&self) -> Bytes {
        let Self { parameters, gradients, optimizer, activations, graphs, buffers } = *self;
        let parts = [parameters, gradients, optimizer, activations, graphs, buffers];
        Bytes(parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.0)))
    }

    /// The memory without activations, which is held all the time.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        Bytes(self.sum().0 - self.activations.0)
    }
}

/// Whole bytes, rounded up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
pub(crate) fn bytes(size: f64) -> Bytes {
    Bytes(size.max(0.0).ceil() as u64)
}
