//! The hardware that a model is trained on: devices, nodes and links, the share of their peak rates
//! that is reached, their prices and how often they fail.

use pipeline::Bytes;
use sim::cluster::Host;

use crate::model::{Transformer, number};
use crate::partition::Partition;
use crate::precision::Precision;
use crate::setup::{Recipe, Setup};
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
    /// The part of the memory that no framework can give out: the context of CUDA, buffers of NCCL,
    /// and fragmentation.
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
    /// Its groups and the state that they shard, as [`Setup::groups`] has them.
    pub groups: [u64; 5],
    /// Whether predictions of it are so far off that the model lacks something of the run: then it says nothing of the
    /// errors on other set-ups.
    pub is_unexplained: bool,
}

impl CalibratedRun {
    /// A run of `setup`.
    #[must_use]
    pub fn new(model: &Transformer, recipe: &Recipe, setup: &Setup, is_unexplained: bool) -> Self {
        Self {
            is_unexplained,
            parameters: model.parameters(),
            precision: recipe.precision,
            tuning: recipe.software.tuning,
            groups: setup.groups(),
        }
    }

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
    /// A layer.
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

/// The share of its rates that a machine reaches: a roofline with ramps, its constants fitted to
/// measured iterations or assumed, as the machine's file says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// Share of the peak rate that large matrix products reach.
    pub matmul: f64,
    /// Rate of products and attention relative to other machines of the generation with another power
    /// limit; no rate is above its peak.
    pub power: f64,
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
    /// Factor on it where several rings have several members on each node, and share its NICs.
    pub shared_ring: f64,
    /// The same as `ring`, of collectives that run layer by layer in every microbatch: ZeRO 3.
    pub sharded_ring: f64,
    /// Share of a node's whole network bandwidth that one collective of a tensor group over nodes
    /// reaches.
    pub tensor_network: f64,
    /// Share of the network bandwidth that one transfer between stages reaches.
    pub hop: f64,
    /// Latency of a collective, in seconds.
    pub collective_latency: f64,
    /// Latency of a transfer between stages, in seconds.
    pub hop_latency: f64,
    /// Time of the host to launch all kernels of a layer's forward, recomputation and backward, in
    /// seconds: the least time of a layer.
    pub launch: f64,
    /// Factor on it with collectives in between.
    pub launch_tensor: f64,
    /// Rate of products of 16 bits that all tokens meet, over that of experts in 16 bits, the head and the
    /// router.
    pub bf16: f64,
    /// Share of the 8-bit peak that products with one scale for a tensor reach, over `matmul`.
    pub fp8: f64,
    /// The same with a scale for each block.
    pub fp8_block: f64,
    /// The same with a scale for each 32 numbers.
    pub mxfp8: f64,
    /// The same of the 4-bit peak.
    pub nvfp4: f64,
    /// Rate of the products of many experts in one kernel, over that of plain ones.
    pub grouped: f64,
    /// Rate of products of the head and the router, over that of plain ones in 16 bits.
    pub head: f64,
    /// Ratio of the backward of fused attention to the forward: 2.5 by its FLOPs, five products in
    /// place of two (Dao 2023, arXiv 2307.08691, section 3.1).
    pub flash_backward: f64,
    /// Ratio of the time of elementwise kernels, with the gaps between them, to that of their bytes.
    pub elementwise: f64,
    /// The same where no compiler fuses them, over that.
    pub eager: f64,
    /// Factor on the compute time of Megatron-LM with its defaults over the tuned recipes that the
    /// other rates are fitted to ([`crate::Tuning::Stock`]).
    pub stock: f64,
    /// Factor on the traffic of the activation function of experts where it is not fused.
    pub unfused_activation: f64,
    /// Factor on the time of experts and the elementwise kernels around them where these are fused.
    pub fused_experts: f64,
    /// Share of the collectives of tensor groups that nothing hides.
    pub tensor_exposed: f64,
    /// The same where they run beside products.
    pub tensor_overlapped: f64,
    /// Share of the transfers between stages that nothing hides where they run beside other chunks.
    pub stage_overlapped: f64,
    /// Share of the exchange of context groups that nothing hides.
    pub context_exposed: f64,
    /// Share of the link bandwidth that all-to-alls of experts reach.
    pub expert_link: f64,
    /// Share of the network bandwidth that they reach.
    pub expert_network: f64,
    /// Share of them that nothing hides where they run beside another microbatch.
    pub expert_overlapped: f64,
    /// Share of the network bandwidth that rings of the gradients of experts reach.
    pub expert_ring: f64,
    /// The same as `launch` of a layer with experts.
    pub launch_experts: f64,
    /// Factor on the time of launches with multi-head latent attention.
    pub launch_latent: f64,
    /// Latency of a layer with experts, forward and backward together, in seconds.
    pub expert_latency: f64,
    /// Latency of a stage for a microbatch, in seconds, where no CUDA graph launches it.
    pub pass_latency: f64,
    /// Latency of a step, in seconds.
    pub step_latency: f64,
    /// Added to [`Self::step_latency`] for each doubling of the devices beyond 64, in seconds: the
    /// slowest of many.
    pub step_doubling: f64,
}

impl Efficiency {
    /// A machine that reaches all its rates and hides nothing: the reference for measured ones.
    pub const IDEAL: Self = Self {
        matmul: 1.0,
        power: 1.0,
        fill: 0.0,
        depth: 0.0,
        flash: 1.0,
        memory: 1.0,
        link: 1.0,
        ring: 1.0,
        shared_ring: 1.0,
        sharded_ring: 1.0,
        tensor_network: 1.0,
        hop: 1.0,
        collective_latency: 0.0,
        hop_latency: 0.0,
        launch: 0.0,
        launch_tensor: 1.0,
        bf16: 1.0,
        fp8: 1.0,
        fp8_block: 1.0,
        mxfp8: 1.0,
        nvfp4: 1.0,
        grouped: 1.0,
        head: 1.0,
        flash_backward: 2.5,
        elementwise: 1.0,
        eager: 1.0,
        stock: 1.0,
        unfused_activation: 1.0,
        fused_experts: 1.0,
        tensor_exposed: 1.0,
        tensor_overlapped: 1.0,
        stage_overlapped: 1.0,
        context_exposed: 1.0,
        expert_link: 1.0,
        expert_network: 1.0,
        expert_overlapped: 1.0,
        expert_ring: 1.0,
        launch_experts: 0.0,
        launch_latent: 1.0,
        expert_latency: 0.0,
        pass_latency: 0.0,
        step_latency: 0.0,
        step_doubling: 0.0,
    };
}

impl Efficiency {
    /// Whether constants of the software that hides exchanges are known, as they are of machines on which it was
    /// measured.
    #[must_use]
    pub fn has_hidden_exchanges(&self) -> bool {
        self.expert_overlapped < 1.0 && self.tensor_overlapped < self.tensor_exposed
    }
}

/// The price of an hour of a device, in dollars.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// On demand.
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
    /// A node is taken whole. Of a domain of many nodes a job takes as many devices as divide it,
    /// the same number of each: 64 of the 72 of a rack where its groups are powers of two, which is
    /// how clusters of such racks are scheduled. Where no more than half of a domain divides it, its
    /// domains are full but for the last.
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

    /// Bytes per second of each member of a ring of `members` that lie `stride` devices apart: the
    /// link's inside a domain. Over domains, the ring crosses with the NICs of all its members there;
    /// where more rings do the same with several members each, they share what is left
    /// ([`Efficiency::shared_ring`]).
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
