//! How packing, communication and sharding are named.

use fsdp::{Communication, Method, Sharding};
use serde::{Deserialize, Serialize};

/// A packing method, as questions name it.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum MethodKey {
    /// Sample i to device i mod N, one to a microbatch, the shortest first.
    LocalSort,
    /// Balanced over devices, with equally many microbatches.
    LbMicro,
    /// Balanced over devices, each with its own number of microbatches.
    LbMini,
}

/// How devices communicate, as questions name it.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum CommunicationKey {
    /// Devices meet at every layer.
    Collectives,
    /// Devices meet at the end of the minibatch.
    OnDemand,
}

/// Over which devices parameters are divided, as questions name it.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum ShardingKey {
    /// Over all devices.
    #[default]
    Full,
    /// Over the devices of a node; every node has all parameters.
    Hybrid,
}

impl MethodKey {
    pub(super) const fn method(self) -> Method {
        match self {
            Self::LocalSort => Method::LocalSort,
            Self::LbMicro => Method::LbMicro,
            Self::LbMini => Method::LbMini,
        }
    }
}

impl CommunicationKey {
    pub(super) const fn communication(self) -> Communication {
        match self {
            Self::Collectives => Communication::Collectives,
            Self::OnDemand => Communication::OnDemand,
        }
    }
}

impl ShardingKey {
    pub(super) const fn sharding(self) -> Sharding {
        match self {
            Self::Full => Sharding::Full,
            Self::Hybrid => Sharding::Hybrid,
        }
    }
}
