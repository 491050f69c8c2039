//! The hardware that a model is trained on: devices, nodes and links, the share of their peak rates
//! that is reached, their prices and how often they fail.

use pipeline::Bytes;
use sim::cluster::Host;

use crate::cut::Cut;
use crate::model::number;
use crate::precision::Precision;
use crate::times::Times;

/// A kind of device in its node, as a cluster is made of it. Rates are per second.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// The name in files and tables.
    pub name: String,
    /// The type of its devices, as published measurements name it.
    pub device: Option<String>,
    /// Memory of a device, as frameworks see it.
    pub memory: Bytes,
    /// The part of the memory that no framework can give out: the context of CUDA, buffers of NCCL,
    /// and fragmentation.
    pub reserve: Bytes,
    /// Peak rate of 16-bit matrix products, FLOP/s, without sparsity.
    pub peak: f64,
    /// Peak rate of 8-bit matrix products, FLOP/s, without sparsity, where there are any.
    pub peak_fp8: Option<f64>,
    /// Peak rate of 4-bit matrix products, FLOP/s, without sparsity, where there are any.
    pub peak_fp4: Option<f64>,
    /// Bytes per second to and from memory.
    pub bandwidth: f64,
    /// Devices of a node: those of one host.
    pub node: u64,
    /// Devices that share fast links: those of a node, or of all nodes of a rack that one fabric joins.
    pub domain: u64,
    /// Bytes per second of each device to the others of its domain, in each direction.
    pub link: f64,
    /// Bytes per second of each device to other domains, in each direction: that of its own NIC.
    pub network: f64,
    /// The power that a device may draw, in watts, if that is known.
    pub watts: Option<f64>,
    /// How devices reach the memory of their host, if that is known.
    pub host: Option<Host>,
    /// The share of these rates that devices reach.
    pub efficiency: Efficiency,
    /// The price of its devices.
    pub price: Price,
    /// How often they fail.
    pub reliability: Reliability,
    /// Times of the question's model as they were measured on it, in place of the formulas wherever
    /// they are of the same cut.
    pub measured: Option<Measured>,
}

/// A layer and the ends of a model, timed on one device that shares nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Sequences of a microbatch.
    pub microbatch: u64,
    /// A layer.
    pub layer: Times,
    /// Embeddings and head.
    pub ends: Times,
}

impl Measured {
    /// Whether it says what a device takes that is cut as `cut`.
    #[must_use]
    pub fn is_of(&self, cut: Cut) -> bool {
        cut.tensor == 1 && cut.context == 1 && cut.expert == 1 && cut.microbatch == self.microbatch
    }
}

/// The share of its rates that a machine reaches: a roofline with ramps, its constants fitted to
/// measured iterations or assumed, as the machine's file says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// Share of the peak rate that large matrix products reach.
    pub matmul: f64,
    /// Elements of a product's result that fill the device once more: the last wave of tiles is not
    /// full. A product of M x N results takes as long as one of M N + this many.
    pub fill: f64,
    /// The inner size that a product loses to its beginning and end: K takes as long as K + this.
    pub depth: f64,
    /// Share of the peak rate that fused attention (`FlashAttention`) reaches.
    pub flash: f64,
    /// Share of the memory bandwidth that streaming kernels reach.
    pub memory: f64,
    /// Share of the link bandwidth that rings of collectives inside a domain reach.
    pub link: f64,
    /// Share of the network bandwidth that rings over domains reach while gradients are reduced.
    pub ring: f64,
    /// Of that, what is left where several rings have several members on each node, and meet on its
    /// NICs.
    pub shared_ring: f64,
    /// Share of a node's whole network bandwidth that one collective of a tensor group over nodes
    /// reaches.
    pub tensor_network: f64,
    /// Share of the network bandwidth that one transfer between stages reaches.
    pub hop: f64,
    /// Time that a collective takes besides its bytes, in seconds.
    pub collective_latency: f64,
    /// Time that a transfer between stages takes besides its bytes, in seconds.
    pub hop_latency: f64,
    /// Time of the host to launch all kernels of a layer's forward, forward again and backward, in
    /// seconds: what a layer takes at least.
    pub launch: f64,
    /// How many times as long that takes with collectives in between.
    pub launch_tensor: f64,
}

/// The price of an hour of a device, in dollars.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// On demand.
    pub on_demand: f64,
    /// Reserved for long.
    pub reserved: Option<f64>,
    /// Spot, with how often an hour a device is taken away.
    pub spot: Option<(f64, f64)>,
}

/// How often devices fail and what that takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reliability {
    /// Mean time between failures of one device, with its share of node and network, in hours.
    pub hours_between_failures: f64,
    /// Time from a failure until the job computes again, in seconds.
    pub restart: f64,
    /// Bytes per second at which one device writes a checkpoint.
    pub checkpoint: f64,
}

impl Machine {
    /// Time of `batch` products of an M x K and a K x N matrix that run together, in seconds: their
    /// operations at the rate of large products, over M N and K enlarged by what is lost at the
    /// edges ([`Efficiency::fill`], [`Efficiency::depth`]).
    #[must_use]
    pub fn matmul(&self, [m, n, k]: [f64; 3], batch: f64) -> f64 {
        let Efficiency { matmul, fill, depth, .. } = self.efficiency;
        2.0 * (batch * m * n + fill) * (k + depth) / (self.peak * matmul)
    }

    /// Time of a kernel that reads and writes `bytes`, in seconds.
    #[must_use]
    pub fn stream(&self, bytes: f64) -> f64 {
        bytes / (self.bandwidth * self.efficiency.memory)
    }

    /// Peak rate of matrix products in `precision`, FLOP/s; nothing where the device has none. All
    /// 8-bit formats share one rate, for scales are applied beside the products.
    #[must_use]
    pub const fn peak_of(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Bf16 => Some(self.peak),
            Precision::Fp8 | Precision::Fp8Block | Precision::MxFp8 => self.peak_fp8,
            Precision::NvFp4 => self.peak_fp4,
        }
    }

    /// How many devices of a job of `devices` share fast links where it is spread over domains.
    ///
    /// A node is taken whole. Of a domain of many nodes a job takes as many devices as divide it,
    /// the same number of each: 64 of the 72 of a rack where its groups are powers of two, which is
    /// how clusters of such racks are scheduled. Where no more than half of a domain divides it, its
    /// domains are full but for the last.
    #[must_use]
    pub fn block(&self, devices: u64) -> u64 {
        if self.domain > self.node { fitting(devices, self.domain) } else { self.domain.max(1) }
    }

    /// How many members of a group whose neighbours lie `stride` devices apart share fast links: in
    /// a domain of many nodes, a number that divides the group ([`Machine::block`]).
    #[must_use]
    pub fn members_in_node(&self, members: u64, stride: u64) -> u64 {
        let members = members.max(1);
        let most = (self.domain / stride.max(1)).clamp(1, members);
        if self.domain > self.node { fitting(members, most) } else { most }
    }

    /// Whether a group of `members` whose neighbours lie `stride` devices apart is inside a domain.
    fn is_inside(&self, members: u64, stride: u64) -> bool {
        members.saturating_mul(stride) <= self.domain
    }

    /// Bytes per second of each member of a ring of `members` that lie `stride` devices apart: the
    /// link's inside a domain. Over domains, the ring crosses with the NICs of all its members there;
    /// where more rings do the same with several members each, they share what is left
    /// ([`Efficiency::shared_ring`]).
    #[must_use]
    pub fn ring(&self, members: u64, stride: u64) -> f64 {
        let Efficiency { link, ring, shared_ring, .. } = self.efficiency;
        let inside = self.link * link;
        if self.is_inside(members, stride) {
            return inside;
        }
        let here = self.members_in_node(members, stride);
        let shared = if here > 1 && stride > 1 { shared_ring } else { 1.0 };
        inside.min(self.network * ring * number(here) * shared)
    }

    /// Bytes per second of an all-reduce among the `members` of a tensor group, which are
    /// neighbours.
    #[must_use]
    pub fn tensor_ring(&self, members: u64) -> f64 {
        if self.is_inside(members, 1) {
            return self.link * self.efficiency.link;
        }
        let here = self.members_in_node(members, 1);
        self.network * number(here) * self.efficiency.tensor_network
    }

    /// Bytes per second that a transfer between two stages of a domain reaches.
    #[must_use]
    pub fn hop_inside(&self) -> f64 {
        self.link * self.efficiency.link
    }

    /// Bytes per second that a transfer between two stages reaches over the network.
    #[must_use]
    pub fn hop_outside(&self) -> f64 {
        self.network * self.efficiency.hop
    }

    /// Time of a transfer of `bytes` between two stages, in seconds; over the network where it
    /// leaves the domain.
    #[must_use]
    pub fn hop(&self, bytes: f64, leaves: bool) -> f64 {
        let rate = if leaves { self.hop_outside() } else { self.hop_inside() };
        bytes / rate + self.efficiency.hop_latency
    }
}

/// The largest divisor of `whole` up to `most`, if it is more than half of that; else `most`.
fn fitting(whole: u64, most: u64) -> u64 {
    let divides = |size: &u64| whole.is_multiple_of(*size);
    (most / 2 + 1..=most).rev().find(divides).unwrap_or(most).max(1)
}

/// Time of an all-reduce of `bytes` over a ring of `members`, in seconds: 2 (n-1)/n of them pass
/// each device (Thakur et al. 2005, *Optimization of Collective Communication Operations in
/// MPICH*).
#[must_use]
pub fn all_reduce(bytes: f64, members: u64, rate: f64, latency: f64) -> f64 {
    if members < 2 {
        return 0.0;
    }
    2.0 * gathered(bytes, members, rate) + latency
}

/// Time of an all-gather or a reduce-scatter of `bytes` in all, in seconds: (n-1)/n of them pass.
#[must_use]
pub fn gathered(bytes: f64, members: u64, rate: f64) -> f64 {
    let n = number(members.max(1));
    (n - 1.0) / n * bytes / rate
}
