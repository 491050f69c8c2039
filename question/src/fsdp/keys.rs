//! The keys of a question about packing and communication.

pub(super) mod settings;

use std::path::{Path, PathBuf};

use fsdp::{Communication, CostModel, Method, Way};
use pipeline::{Bandwidth, Bytes, Nanos};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::file;
use crate::keys::table::{Lists, keys};
use crate::kinds::InputKind;
use crate::values::noise::{JitterOf, Slowdown, Stall};
use crate::values::packing::{
    CommunicationKey, CostKey, LengthsKey, MethodKey, PackingRatio, RecomputeKey, ShardingKey,
};

/// Heading in the help of a model on a machine.
const MODEL: &str = "Model and machine";
/// Layers where nothing says how many there are.
const LAYERS: u64 = 28;
/// Heading in the help of links between devices.
const LINKS: &str = "Links";
/// Heading in the help of what makes durations differ.
const NOISE: &str = "Stragglers and noise";

keys! {
    /// A question about packing and communication.
    pub struct FsdpKeys as "Keys": "The question", Lists::OfValues;

    /// Data-parallel devices, N
    devices: Vec<usize>, label: "Data-parallel devices", value: "N,..", default: Some("8");
    /// Samples of a minibatch per device
    minibatch_size: Vec<u64>, label: "Samples of a minibatch per device", value: "N,..",
        default: Some("1,2,4,8");
    /// The most tokens of a microbatch over those of the longest sample [default: 1]
    packing_ratio: Vec<PackingRatio>, label: "Packing ratio", value: "RATIO,..";
    /// The most tokens of a microbatch
    max_tokens: Vec<u64>, label: "Tokens of a microbatch", value: "TOKENS,..";
    /// How long samples are, in tokens: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST,
    /// longtail:LEAST-MOST:INDEX (Pareto), file:FILE (drawn from it) or in-order:FILE; of a file in CSV, JSONL
    /// or Parquet a column, as in file:data.parquet:length
    lengths: LengthsKey, label: "Lengths of samples (tokens)", value: "LAW",
        default: Some("longtail:8000-64000:1");
    /// Forward and backward time of a sample of s tokens: 1.5b or 7b (ODC's fits), linear:TIME per
    /// token, or quadratic:A,B for A (s/32000)^2 + B (s/32000) seconds [default: by --model and --machine, or
    /// 1.5b]
    cost: Option<CostKey>, label: "Cost of a sample", value: "MODEL";
    /// Packing methods: local-sort, lb-micro, lb-mini [default: all]
    method: Vec<MethodKey>, label: "Packing", value: "METHOD,..";
    /// collectives or on-demand [default: both; only on-demand for lb-mini]
    communication: Vec<CommunicationKey>, label: "Communication", value: "HOW,..";
    /// How many minibatches to draw
    minibatches: u64, label: "Minibatches", value: "N", default: Some("100");
    /// Seed of all chance
    seed: u64, label: "Seed", value: "N", default: Some("0");
    /// Layers of the model: how often devices meet in a microbatch, forward and backward [default: those of
    /// --model, or 28]
    layers: Option<u64>, label: "Layers", value: "L";
    /// The model, with --machine: a config.json of Hugging Face, or a name such as qwen2.5-7b; costs, layers and
    /// parameters follow from it
    model: Option<PathBuf>, label: "Model", value: "MODEL", heading: MODEL;
    /// The machine, with --model: a built-in one such as a100-80g, or a file; costs and links follow from it
    machine: Option<String>, label: "Machine", value: "MACHINE", heading: MODEL;
    /// Activations that the backward computes again, for costs by --model: full (of whole layers) or none
    recompute: RecomputeKey, label: "Recomputation", value: "WHAT", heading: MODEL,
        default: Some("full");
    /// Size of all parameters as they travel [default: none, transfers take no time]
    parameters: Option<Bytes>, label: "Size of all parameters", value: "SIZE", heading: LINKS;
    /// Of every device, in and out, as in 50GB/s or 400Gbit/s
    bandwidth: Option<Bandwidth>, label: "Bandwidth of a device", value: "RATE", heading: LINKS;
    /// Of one message [default: 0ns]
    latency: Option<Nanos>, label: "Latency of a message", value: "TIME", heading: LINKS;
    /// Devices that own parameters in on-demand communication [default: all]
    owners: Option<usize>, label: "Devices that own parameters", value: "N", heading: LINKS;
    /// Largest bandwidth of a pull or push of one device with on-demand communication, if a ring gets more: owners
    /// are accessed in turn, over links of pairs [default: --bandwidth]
    pull_bandwidth: Option<Bandwidth>, label: "Bandwidth of a pull", value: "RATE", heading: LINKS;
    /// Devices of a node [default: all]
    devices_per_node: Option<usize>, label: "Devices of a node", value: "N", heading: LINKS;
    /// Of each node to all other nodes, in and out, shared by its devices, as in 800Gbit/s
    node_bandwidth: Option<Bandwidth>, label: "Bandwidth of a node", value: "RATE", heading: LINKS;
    /// Over which devices parameters are divided: full (all, FSDP) or hybrid (those of a node, and every
    /// node has all of them: HSDP)
    sharding: ShardingKey, label: "Sharding", value: "HOW", heading: LINKS, default: Some("full");
    /// Transfers do not hide behind computing
    no_overlap: bool, label: "Without overlap of transfers", heading: LINKS;
    /// Slow devices: how many times as long their work takes, as in device:3=1.5
    slowdown: Vec<Slowdown>, label: "Slow devices", value: "WHAT=FACTOR,..", heading: NOISE;
    /// Random durations of layers, as in pass=lognormal:0.05; the laws are those of
    /// `debubble simulate`
    jitter: Option<JitterOf>, label: "Jitter of layers", value: "pass=LAW", heading: NOISE;
    /// Rare stalls: the probability that a layer takes longer, and the extra time, as in 0.001:50ms
    stall: Option<Stall>, label: "Stalls", value: "PROBABILITY:TIME", heading: NOISE;
}

impl FsdpKeys {
    /// The keys of the file at `path`, whose paths are relative to its folder.
    pub fn read(context: &Context<'_>, path: &Path) -> Result<Self, Diagnostic> {
        let mut keys: Self = file::read(context, path, InputKind::Question("fsdp"))?;
        keys.machine = keys.machine.map(|name| file::machine_beside(context, path, name));
        keys.model = keys.model.map(|name| file::beside(context, path, name));
        keys.lengths.file_in(path.parent().unwrap_or(Path::new("")));
        Ok(keys)
    }

    /// The size of all parameters as they travel, if they do.
    pub const fn parameters(&self) -> Option<Bytes> {
        self.parameters
    }

    /// The number of minibatches that are drawn.
    pub const fn minibatches(&self) -> u64 {
        self.minibatches
    }

    /// The layers of the model.
    pub fn layers(&self) -> u64 {
        self.layers.unwrap_or(LAYERS)
    }

    /// The cost of samples.
    pub fn cost_model(&self) -> CostModel {
        self.cost.as_ref().map_or(CostModel::FIT_1_5B, CostKey::model)
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

    /// The first key that is given of a model on a machine, links, slow devices and noise, which only
    /// simulations have.
    pub fn simulated(&self) -> Option<&'static str> {
        let mut given = self.given_rows();
        given.find(|row| [MODEL, LINKS, NOISE].contains(&row.heading)).map(|row| row.name)
    }
}
