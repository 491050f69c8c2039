//! The links between devices, and how the parameters lie on them.

use pipeline::{Bandwidth, Bytes, Nanos};

use crate::error::{FsdpError, count};
use crate::packing::MAX_DEVICES;

/// How parameters and gradients travel. Every device has one port in and one out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Links {
    /// The rate of each port.
    pub bandwidth: Bandwidth,
    /// The latency of one message.
    pub latency: Nanos,
    /// The parameters of all layers; the gradients are as large.
    pub parameters: Bytes,
    /// The number of devices that own parameters in on-demand communication, equally many each: the
    /// first ones; all devices by default. With collectives every device owns its share.
    pub owners: Option<usize>,
    /// The most that a pull or a push of one device gets, where that is less than its port: owners
    /// are asked one after the other over links of pairs, while a ring keeps all links of a device
    /// busy.
    pub pull_bandwidth: Option<Bandwidth>,
    /// The nodes that the devices sit on; all sit on one by default.
    pub nodes: Option<Nodes>,
    /// Whether transfers hide behind computing: the next layer is fetched, and gradients are sent,
    /// while a layer computes.
    pub overlap: bool,
}

/// Nodes of equally many devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// The number of devices of a node.
    pub devices: usize,
    /// The rate of a node to all others, in and out, which its devices share.
    pub bandwidth: Bandwidth,
    /// Over which devices the parameters are divided.
    pub sharding: Sharding,
}

/// Over which devices parameters are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharding {
    /// Over all of them (FSDP).
    Full,
    /// Over those of a node, and every node has all of them (HSDP): gradients are summed over the
    /// nodes with an all-reduce.
    Hybrid,
}

/// The bottleneck of pulls when all devices pull at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PullLimit {
    /// The ports, which bound rings as well.
    Ports,
    /// The rate of a pull, [`Links::pull_bandwidth`].
    Pulls,
    /// The ports of the few owners.
    Owners,
    /// The links between nodes: every device pulls for itself over them, while a ring carries each
    /// parameter once into every node.
    Nodes,
}

impl Links {
    /// Checks the links between `devices`.
    pub(crate) fn check(&self, devices: usize) -> Result<(), FsdpError> {
        count("devices", devices as u64, 1, MAX_DEVICES)?;
        count("owners", self.owners(devices) as u64, 1, devices as u64)?;
        let Some(nodes) = self.nodes else { return Ok(()) };
        count("devices of a node", nodes.devices as u64, 1, devices as u64)?;
        if !devices.is_multiple_of(nodes.devices) {
            return Err(FsdpError::Nodes { devices, of_node: nodes.devices });
        }
        // On nodes every device owns its share.
        count("owners on nodes", self.owners(devices) as u64, devices as u64, devices as u64)?;
        Ok(())
    }

    pub(crate) fn owners(&self, devices: usize) -> usize {
        self.owners.unwrap_or(devices)
    }

    /// The number of devices that share one copy of the parameters, of all `devices`.
    #[must_use]
    pub fn group(&self, devices: usize) -> usize {
        match self.nodes {
            Some(Nodes { devices, sharding: Sharding::Hybrid, .. }) => devices,
            _ => devices,
        }
    }

    /// The nodes, if parameters travel between several of them at every layer.
    pub(crate) fn crossed(&self, devices: usize) -> Option<Nodes> {
        self.nodes.filter(|nodes| nodes.sharding == Sharding::Full && nodes.devices < devices)
    }

    /// The parameters of one of `layers`, rounded up.
    pub(crate) fn of_layer(&self, layers: u16) -> u64 {
        self.parameters.0.div_ceil(u64::from(layers.max(1)))
    }

    /// How long a ring takes to gather one of `layers` over the devices that share it, or to reduce
    /// and scatter its gradients: (N-1) messages of 1/N of it, one after the other (Thakur,
    /// Rabenseifner and Gropp, 2005), as fast as the slowest link on the way.
    pub(crate) fn ring(&self, layers: u16, devices: usize) -> u64 {
        let own = self.bandwidth.bytes_per_second();
        let rate =
            self.crossed(devices).map_or(own, |nodes| own.min(nodes.bandwidth.bytes_per_second()));
        let group = self.group(devices) as u64;
        self.messages(self.of_layer(layers), group, group.saturating_sub(1), rate)
    }

    /// How long the nodes take to sum `bytes` of gradients, of which every device has a share: a ring
    /// of 2 (K-1) messages of 1/K for K nodes. Nothing where all devices share one copy.
    pub(crate) fn all_reduce(&self, bytes: u64, devices: usize) -> u64 {
        match self.nodes {
            Some(nodes) if nodes.sharding == Sharding::Hybrid => {
                let count = (devices / nodes.devices) as u64;
                let rate = nodes.bandwidth.bytes_per_second();
                self.messages(bytes, count, 2 * count.saturating_sub(1), rate)
            }
            _ => 0,
        }
    }

    /// How long `count` messages of one of `parts` of `bytes` take, one after the other.
    fn messages(&self, bytes: u64, parts: u64, count: u64, rate: u64) -> u64 {
        let part = u128::from(bytes).div_ceil(u128::from(parts.max(1)));
        let message =
            u128::from(self.latency.0) + (part * 1_000_000_000).div_ceil(u128::from(rate));
        u64::try_from(message * u128::from(count)).unwrap_or(u64::MAX)
    }

    /// Bytes per second of each of `transfers` under way between `devices`, and what bounds it: owners
    /// and nodes are equally loaded, so that all transfers get the same.
    pub(crate) fn pull_rate(&self, devices: usize, transfers: usize) -> (u128, PullLimit) {
        let transfers = transfers.max(1) as u128;
        let port = u128::from(self.bandwidth.bytes_per_second());
        let owners = self.owners(devices);
        let shared = port * owners as u128 / transfers;
        let ports = if owners < devices { PullLimit::Owners } else { PullLimit::Ports };
        let pulls = self.pull_bandwidth.map(|pull| u128::from(pull.bytes_per_second()));
        let nodes = self.crossed(devices).map(|nodes| {
            // Of what a device pulls, the part that lies on other nodes.
            let (elsewhere, all) = ((devices - nodes.devices) as u128, (devices - 1) as u128);
            let node = u128::from(nodes.bandwidth.bytes_per_second());
            let count = (devices / nodes.devices) as u128;
            node * count.min(transfers) * all / (transfers * elsewhere)
        });
        let mut slowest = (port, PullLimit::Ports);
        let others = [(Some(shared), ports), (pulls, PullLimit::Pulls), (nodes, PullLimit::Nodes)];
        for (rate, limit) in others {
            if let Some(rate) = rate.filter(|rate| *rate < slowest.0) {
                slowest = (rate, limit);
            }
        }
        (slowest.0.max(1), slowest.1)
    }

    /// The bottleneck of pulls when all of `devices` pull at once.
    #[must_use]
    pub fn pull_limit(&self, devices: usize) -> PullLimit {
        self.pull_rate(devices, devices).1
    }
}

/// The buffers of on-demand communication for parameters of a size M over N devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers {
    /// The buffer of one client on a server: M/N, rounded up.
    pub per_client: Bytes,
    /// The buffers of all clients on a server.
    pub per_server: Bytes,
}

impl Buffers {
    /// The buffers for `parameters` over `devices`.
    #[must_use]
    pub const fn of(parameters: Bytes, devices: usize) -> Self {
        let devices = if devices == 0 { 1 } else { devices as u64 };
        let per_client = Bytes(parameters.0.div_ceil(devices));
        Self { per_client, per_server: Bytes(per_client.0.saturating_mul(devices)) }
    }
}
