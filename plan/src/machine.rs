//! The hardware that a model is trained on: devices, nodes and links, the share of their peak rates
//! that is reached, their prices and how often they fail.

use pipeline::Bytes;
use sim::cluster::Host;

use crate::model::number;
use crate::partition::Partition;
use crate::precision::Precision;
use crate::rates::Efficiency;
use crate::software::Tuning;
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
    /// The part of the memory that no framework can give out: the context of CUDA, buffers of NCCL, and fragmentation.
    pub reserve: Bytes,
    /// Peak rate of 16-bit matrix products, FLOP/s, without sparsity.
    pub peak: f64,
    /// Peak rate of 8-bit matrix products, FLOP/s, without sparsity, where there are any.
    pub peak_fp8: Option<f64>,
    /// Peak rate of 4-bit matrix products, FLOP/s, without sparsity, where there are any.
    pub peak_fp4: Option<f64>,
    /// Whether products take numbers with a scale for each 32, of 8 bits, and for each 16, of 4.
    pub block_formats: BlockFormats,
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
    /// The measured set-ups that its efficiencies were calibrated by; none for those of a built-in file.
    pub calibrated: Vec<CalibratedRun>,
}

/// A measured set-up that a machine is calibrated by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibratedRun {
    /// The parameters of its model.
    pub parameters: u64,
    /// Its format of products.
    pub precision: Precision,
    /// Its software, where that was given.
    pub tuning: Option<Tuning>,
    /// Its groups and the state that they shard, as [`Setup::groups`](crate::Setup::groups) has them.
    pub groups: [u64; 5],
    /// Whether predictions of it are so far off that the model lacks something of the run: then it says nothing of the
    /// errors on other set-ups.
    pub is_unexplained: bool,
}

impl CalibratedRun {
    /// Whether it is a run of a model of so many `parameters`, with these products and this software. Software that a run
    /// does not name is the user's own.
    #[must_use]
    pub fn is_of(&self, parameters: u64, precision: Precision, tuning: Option<Tuning>) -> bool {
        let has_own_rates = |tuning| matches!(tuning, Some(Tuning::Stock | Tuning::Torchtitan));
        let is_open = !has_own_rates(self.tuning) && tuning != Some(Tuning::Torchtitan);
        let software = self.tuning == tuning || is_open;
        let is_alike = self.parameters == parameters && self.precision == precision;
        is_alike && software && !self.is_unexplained
    }
}

/// A layer and the ends of a model, timed on one device that shares nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Sequences of a microbatch.
    pub microbatch: u64,
    pub layer: Times,
    /// Embeddings and head.
    pub ends: Times,
}

impl Measured {
    /// Whether the measurement applies to `partition`.
    #[must_use]
    pub fn is_of(&self, partition: Partition) -> bool {
        partition.tensor == 1
            && partition.context == 1
            && partition.expert == 1
            && partition.microbatch == self.microbatch
    }
}

/// Formats with a scale for each block of numbers that the products of a device take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockFormats {
    /// MXFP8 (OCP Microscaling Formats 1.0).
    pub mxfp8: bool,
    /// NVFP4.
    pub nvfp4: bool,
}

/// The price of an hour of a device, in dollars.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    pub on_demand: f64,
    /// Reserved for long.
    pub reserved: Option<f64>,
    /// Spot price, and preemptions per hour.
    pub spot: Option<(f64, f64)>,
}

/// Failure rate of devices, and the cost of a failure.
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
    /// The same machine, calibrated by `runs`: where these did not run as [`Tuning::Stock`], its rates are those of the
    /// software that ran, and defaults take no longer.
    #[must_use]
    pub fn calibrated_by(self, runs: Vec<CalibratedRun>) -> Self {
        let is_own = runs.iter().any(|run| run.tuning != Some(Tuning::Stock));
        let stock = if is_own { 1.0 } else { self.efficiency.stock };
        Self { efficiency: Efficiency { stock, ..self.efficiency }, calibrated: runs, ..self }
    }

    /// Time of `batch` products of an M x K and a K x N matrix that run together, in seconds: their
    /// operations at the rate of large products, with M N and K enlarged by the losses at the edges
    /// ([`Efficiency::fill`], [`Efficiency::depth`]).
    #[must_use]
    pub fn matmul(&self, sizes: [f64; 3], batch: f64) -> f64 {
        self.product(sizes, batch, self.rate(Precision::Bf16))
    }

    /// The same at `rate` FLOP/s.
    #[must_use]
    pub fn product(&self, [m, n, k]: [f64; 3], batch: f64, rate: f64) -> f64 {
        let Efficiency { fill, depth, .. } = self.efficiency;
        2.0 * (batch * m * n + fill) * (k + depth) / rate
    }

    /// FLOP/s of large products of `precision`; that of 16 bits where the machine has no peak for it.
    #[must_use]
    pub fn rate(&self, precision: Precision) -> f64 {
        let rates = &self.efficiency;
        let share = match precision {
            Precision::Bf16 => 1.0,
            Precision::Fp8 => rates.fp8,
            Precision::Fp8Block => rates.fp8_block,
            Precision::MxFp8 => rates.mxfp8,
            Precision::NvFp4 => rates.nvfp4,
        };
        let peak = self.peak_of(precision);
        let (peak, share) = peak.map_or((self.peak, 1.0), |peak| (peak, share));
        peak * (share * rates.matmul * rates.power).min(1.0)
    }

    /// The same of plain products: those that all tokens meet, or a single expert.
    #[must_use]
    pub fn plain_rate(&self, precision: Precision) -> f64 {
        let is_16 = self.peak_of(precision).is_none() || precision == Precision::Bf16;
        self.rate(precision) * if is_16 { self.efficiency.bf16 } else { 1.0 }
    }

    /// FLOP/s of fused attention, which stays in 16 bits.
    #[must_use]
    pub fn flash(&self) -> f64 {
        let rates = &self.efficiency;
        self.peak * (rates.flash * rates.power).min(1.0)
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
            Precision::Fp8 | Precision::Fp8Block => self.peak_fp8,
            Precision::MxFp8 if self.block_formats.mxfp8 => self.peak_fp8,
            Precision::NvFp4 if self.block_formats.nvfp4 => self.peak_fp4,
            Precision::MxFp8 | Precision::NvFp4 => None,
        }
    }

    /// How many devices of a job of `devices` share fast links where it is spread over domains.
    ///
    /// A node is taken whole. Of a domain of many nodes a job takes as many devices as divide it, the same number of
    /// each: 64 of the 72 of a rack where its groups are powers of two, which is how clusters of such racks are
    /// scheduled. Where no more than half of a domain divides it, its domains are full but for the last.
    #[must_use]
    pub fn block(&self, devices: u64) -> u64 {
        if self.domain > self.node { fitting(devices, self.domain) } else { self.domain.max(1) }
    }

    /// Members of a group, with neighbours `stride` devices apart, that share fast links: in a domain
    /// of many nodes, a number that divides the group ([`Machine::block`]).
    #[must_use]
    pub fn members_in_node(&self, members: u64, stride: u64) -> u64 {
        let members = members.max(1);
        let most = (self.domain / stride.max(1)).clamp(1, members);
        if self.domain > self.node { fitting(members, most) } else { most }
    }

    /// Whether a group of `members`, with neighbours `stride` devices apart, is inside a domain.
    fn is_inside(&self, members: u64, stride: u64) -> bool {
        members.saturating_mul(stride) <= self.domain
    }

    /// Bytes per second of each member of a ring of `members` that lie `stride` devices apart: the link's inside a
    /// domain. Over domains, the ring crosses with the NICs of all its members there; where more rings do the same with
    /// several members each, they share what is left ([`Efficiency::shared_ring`]).
    #[must_use]
    pub fn ring(&self, members: u64, stride: u64) -> f64 {
        self.ring_of(self.efficiency.ring, members, stride)
    }

    /// The same while parameters are gathered, and gradients reduced, for every layer and microbatch.
    #[must_use]
    pub fn sharded_ring(&self, members: u64, stride: u64) -> f64 {
        self.ring_of(self.efficiency.sharded_ring, members, stride)
    }

    fn ring_of(&self, ring: f64, members: u64, stride: u64) -> f64 {
        let Efficiency { link, shared_ring, .. } = self.efficiency;
        let inside = self.link * link;
        if self.is_inside(members, stride) {
            return inside;
        }
        let here = self.members_in_node(members, stride);
        let shared = if here > 1 && stride > 1 { shared_ring } else { 1.0 };
        inside.min(self.network * ring * number(here) * shared)
    }

    /// Bytes per second of an all-reduce among the `members` of a tensor group, which are neighbours.
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

    /// Time of a transfer of `bytes` between two stages, in seconds; over the network where it leaves the domain.
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

/// Time of an all-reduce of `bytes` over a ring of `members`, in seconds: 2 (n-1)/n of them pass each device (Thakur et
/// al. 2005, *Optimization of Collective Communication Operations in MPICH*).
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
