//! The keys of a question about packing and communication.

mod settings;

use fsdp::{Communication, Method, Way};
use pipeline::{Bandwidth, Bytes, Nanos};
use serde::{Deserialize, Serialize};

pub use self::settings::Setting;
use super::kinds::{CommunicationKey, MethodKey, ShardingKey};
use super::syntax::{CostKey, LengthsKey, Ratio};
use crate::noise::syntax::{JitterOf, Slowdown, Stall};
use crate::one_or_many;

/// The minibatch sizes of a question that names none, as text.
#[cfg(feature = "clap")]
const MINIBATCH_SIZES: &str = "1,2,4,8";

/// A question about packing and communication.
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "The question"))]
pub struct Keys {
    /// Data-parallel devices, N
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = Keys::default().devices)
    )]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    #[serde(deserialize_with = "one_or_many::deserialize")]
    pub devices: Vec<usize>,
    /// Samples of a minibatch per device
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N,..", value_delimiter = ',', default_value = MINIBATCH_SIZES)
    )]
    #[cfg_attr(feature = "clap", arg(allow_negative_numbers = true))]
    #[serde(deserialize_with = "one_or_many::deserialize")]
    pub minibatch_size: Vec<u64>,
    /// The most tokens of a microbatch over those of the longest sample [default: 1]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "RATIO,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub packing_ratio: Vec<Ratio>,
    /// The most tokens of a microbatch
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TOKENS,..", value_delimiter = ',', allow_negative_numbers = true)
    )]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub max_tokens: Vec<u64>,
    /// How long samples are, in tokens: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST,
    /// longtail:LEAST-MOST:INDEX (Pareto), file:FILE (drawn from it) or in-order:FILE
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "LAW", default_value_t = Keys::default().lengths)
    )]
    pub lengths: LengthsKey,
    /// Forward and backward time of a sample of s tokens: 1.5b or 7b (ODC's fits), linear:TIME per
    /// token, or quadratic:A,B for A (s/32000)^2 + B (s/32000) seconds
    #[cfg_attr(feature = "clap", arg(long, value_name = "MODEL", default_value_t = Keys::default().cost))]
    pub cost: CostKey,
    /// Packing methods: local-sort, lb-micro, lb-mini [default: all]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "METHOD,..", value_delimiter = ',', value_enum)
    )]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub method: Vec<MethodKey>,
    /// collectives or on-demand [default: both; only on-demand for lb-mini]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "HOW,..", value_delimiter = ',', value_enum)
    )]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub communication: Vec<CommunicationKey>,
    /// How many minibatches to draw
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", default_value_t = Keys::default().minibatches, allow_negative_numbers = true)
    )]
    pub minibatches: u64,
    /// Seed of all chance
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", default_value_t = Keys::default().seed, allow_negative_numbers = true)
    )]
    pub seed: u64,
    /// Layers of the model: how often devices meet in a microbatch, forward and backward
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "L", default_value_t = Keys::default().layers, allow_negative_numbers = true)
    )]
    pub layers: u64,
    /// Size of all parameters as they travel [default: none, transfers take no time]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Bytes>,
    /// Of every device, in and out, as in 50GB/s or 400Gbit/s
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Of one message [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Nanos>,
    /// Devices that own parameters in on-demand communication [default: all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_negative_numbers = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owners: Option<usize>,
    /// The most that a pull or a push of one device gets in on-demand communication, where a ring gets
    /// more: owners are asked in turn, over links of pairs [default: --bandwidth]
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_bandwidth: Option<Bandwidth>,
    /// Devices of a node [default: all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_negative_numbers = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_per_node: Option<usize>,
    /// Of every node to all others, in and out, which its devices share, as in 800Gbit/s
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = LINKS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_bandwidth: Option<Bandwidth>,
    /// Over which devices parameters are divided: full (all, FSDP) or hybrid (those of a node, and every
    /// node has all of them: HSDP)
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = LINKS))]
    pub sharding: ShardingKey,
    /// Transfers do not hide behind computing
    #[cfg_attr(feature = "clap", arg(long, help_heading = LINKS))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_overlap: bool,
    /// Slow devices: how many times as long their work takes, as in device:3=1.5
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT=FACTOR,..", value_delimiter = ',', help_heading = NOISE))]
    #[serde(deserialize_with = "one_or_many::deserialize", skip_serializing_if = "Vec::is_empty")]
    pub slowdown: Vec<Slowdown>,
    /// Random durations of layers, as in pass=lognormal:0.05; the laws are those of
    /// `debubble simulate`
    #[cfg_attr(feature = "clap", arg(long, value_name = "pass=LAW", help_heading = NOISE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterOf>,
    /// Rare stalls: the probability that a layer lasts longer, and by how much, as in 0.001:50ms
    #[cfg_attr(feature = "clap", arg(long, value_name = "PROBABILITY:TIME", help_heading = NOISE))]
    #[cfg_attr(feature = "clap", arg(allow_hyphen_values = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

/// Heading in the help of links between devices.
#[cfg(feature = "clap")]
const LINKS: &str = "Links";
/// Heading in the help of what makes durations differ.
#[cfg(feature = "clap")]
const NOISE: &str = "Stragglers and noise";

impl Default for Keys {
    fn default() -> Self {
        Self {
            devices: vec![8],
            minibatch_size: vec![1, 2, 4, 8],
            packing_ratio: Vec::new(),
            max_tokens: Vec::new(),
            lengths: LengthsKey::default(),
            cost: CostKey::default(),
            method: Vec::new(),
            communication: Vec::new(),
            minibatches: 100,
            seed: 0,
            layers: 28,
            parameters: None,
            bandwidth: None,
            latency: None,
            owners: None,
            pull_bandwidth: None,
            devices_per_node: None,
            node_bandwidth: None,
            sharding: ShardingKey::default(),
            no_overlap: false,
            slowdown: Vec::new(),
            jitter: None,
            stall: None,
        }
    }
}

impl Keys {
    /// The size of all parameters as they travel, if they do.
    pub const fn parameters(&self) -> Option<Bytes> {
        self.parameters
    }

    /// The number of minibatches that are drawn.
    pub const fn minibatches(&self) -> u64 {
        self.minibatches
    }

    /// The layers of the model.
    pub const fn layers(&self) -> u64 {
        self.layers
    }

    /// The ways asked for; LB-Mini with collectives only where both are named.
    pub fn ways(&self) -> Vec<Way> {
        let methods: Vec<Method> = match self.method.as_slice() {
            [] => Method::ALL.into(),
            named => named.iter().map(|key| key.method()).collect(),
        };
        let communications: Vec<Communication> = match self.communication.as_slice() {
            [] => Communication::ALL.into(),
            named => named.iter().map(|key| key.communication()).collect(),
        };
        let named = !self.method.is_empty() && !self.communication.is_empty();
        let mut ways: Vec<Way> = Vec::new();
        for &method in &methods {
            for &communication in &communications {
                let way = Way { method, communication };
                let runs = named || method.is_even() || communication == Communication::OnDemand;
                if runs && !ways.contains(&way) {
                    ways.push(way);
                }
            }
        }
        ways
    }

    /// The first key that is given of links, slow devices and noise, which only simulations have.
    pub fn simulated(&self) -> Option<&'static str> {
        let given = [
            ("parameters", self.parameters.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
            ("latency", self.latency.is_some()),
            ("owners", self.owners.is_some()),
            ("pull-bandwidth", self.pull_bandwidth.is_some()),
            ("devices-per-node", self.devices_per_node.is_some()),
            ("node-bandwidth", self.node_bandwidth.is_some()),
            ("sharding", self.sharding != ShardingKey::default()),
            ("no-overlap", self.no_overlap),
            ("slowdown", !self.slowdown.is_empty()),
            ("jitter", self.jitter.is_some()),
            ("stall", self.stall.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
    }
}
