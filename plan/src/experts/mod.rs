//! Load of the experts of a device where tokens are not spread evenly over the experts.
//!
//! The devices of an expert group share the experts of a layer and wait for each other, so the device
//! with the most rows sets the pace. Its rows over the mean of all are a [`Load`]: one given number
//! ([`Imbalance::Factor`]), or drawn from how tokens choose experts ([`Routing`]).

mod capacity;
mod chance;
mod error;
mod popularity;
mod routing;

use std::sync::Arc;

use crate::model::Transformer;
use crate::partition::Partition;

pub use self::capacity::Capacity;
pub use self::error::RoutingError;
pub use self::popularity::Popularity;
pub use self::routing::Routing;

/// Load imbalance of an expert group: rows of its fullest device over the mean.
#[derive(Clone, PartialEq, Debug)]
pub enum Imbalance {
    /// Rows over those with tokens spread evenly, in every microbatch: 1 with forced balance.
    Factor(f64),
    /// Drawn from how tokens choose their experts.
    Drawn(Arc<Routing>),
}

impl Default for Imbalance {
    fn default() -> Self {
        Self::Factor(1.0)
    }
}

impl Imbalance {
    /// The load of a layer of `model` on a device with `partition`.
    #[must_use]
    pub fn load(&self, model: &Transformer, partition: Partition) -> Load {
        match self {
            _ if model.experts.is_none() => Load::EVEN,
            Self::Factor(factor) => Load { mean: *factor, tail: *factor, ..Load::EVEN },
            Self::Drawn(routing) => routing.load(partition, model.sequence),
        }
    }

    /// The routing, where tokens are drawn.
    #[must_use]
    pub fn routing(&self) -> Option<&Routing> {
        match self {
            Self::Factor(_) => None,
            Self::Drawn(routing) => Some(routing),
        }
    }
}

/// Rows that the experts of a device get in a microbatch, over those with tokens spread evenly and no
/// token dropped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// On the fullest device of an expert group, in the mean of layers and microbatches.
    pub mean: f64,
    /// 95th percentile on the fullest device, over layers and microbatches.
    pub tail: f64,
    /// On the mean device: fewer where tokens are dropped, and more where experts are padded.
    pub sent: f64,
    /// The share of choices whose expert was full.
    pub dropped: f64,
}

impl Load {
    /// Tokens spread evenly, and none dropped.
    pub const EVEN: Self = Self { mean: 1.0, tail: 1.0, sent: 1.0, dropped: 0.0 };
}
