//! A set-up: the parallel degrees, schedule and options with which a model is trained on a cluster.

use pipeline::{Bytes, Choice, Family, Vocabulary};
use search::Objective;
use thiserror::Error;

use crate::experts::Imbalance;
use crate::machine::{CalibratedRun, Machine};
use crate::memory_budget::MemoryBudget;
use crate::model::{Recompute, Transformer, number};
use crate::offload::Offload;
use crate::optimizer::{Optimizer, Update};
use crate::partition::{Loss, Partition};
use crate::precision::Precision;
use crate::software::{Options, Software};

/// Most passes of a set-up: the memory of many orders side by side stays below a gigabyte.
pub(crate) const MAX_PASSES: u64 = 2_000_000;

/// The state that data-parallel replicas shard instead of holding all of it each (Rajbhandari et
/// al. 2020, arXiv 1910.02054).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Zero {
    /// Nothing.
    None,
    /// The optimizer's state: stage 1, Megatron's distributed optimizer.
    Optimizer,
    /// Gradients too: stage 2.
    Gradients,
    /// Parameters too: stage 3, FSDP.
    Parameters,
}

impl Zero {
    /// All stages, from 0.
    pub const ALL: [Self; 4] = [Self::None, Self::Optimizer, Self::Gradients, Self::Parameters];

    /// Its number, from 0 to 3.
    #[must_use]
    pub const fn stage(self) -> u8 {
        self as u8
    }

    /// The stage of that number.
    #[must_use]
    pub fn numbered(stage: u64) -> Option<Self> {
        usize::try_from(stage).ok().and_then(|stage| Self::ALL.get(stage).copied())
    }
}

/// Lifetime of parameters that were gathered from other replicas, and of gradients before they are
/// reduced, where replicas shard them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Reshard {
    /// Parameters are freed after every pass and gathered again for the next; gradients are reduced
    /// after the backward of every microbatch.
    #[default]
    AfterForward,
    /// Parameters stay gathered for the whole step, and gradients are accumulated unsharded and reduced
    /// after the last microbatch, as PyTorch FSDP does in a pipeline.
    Never,
    /// The same, but the unsharded gradients of a chunk are allocated at its first backward and freed
    /// after its last, where they are reduced.
    AfterLast,
}

impl Reshard {
    pub const ALL: [Self; 3] = [Self::AfterForward, Self::Never, Self::AfterLast];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfterForward => "after-forward",
            Self::Never => "never",
            Self::AfterLast => "after-last",
        }
    }

    /// The variant of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Split of layers into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Split {
    /// Equally many to each as far as possible; the rest goes to the middle, so that the first and the
    /// last, which have the ends of the model, are the lighter ones.
    Even,
    /// So that the slowest stage is as fast as can be, with the ends of the model and the devices
    /// of each stage counted.
    Balanced,
    /// As [`Inputs::layout`](crate::Inputs::layout) says; as many to each where it says nothing.
    Layout,
    /// By search, together with the order or at other places than the balanced ones:
    /// [`Costed::layers`](crate::Costed::layers) says how. Where nothing has been searched yet, as [`Split::Balanced`].
    Searched,
}

impl Split {
    /// Whether the layers of each chunk are given, by the question or by a search, rather than set by a rule.
    #[must_use]
    pub const fn is_given(self) -> bool {
        matches!(self, Self::Layout | Self::Searched)
    }
}

/// How one model is trained on one cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Setup {
    /// Replicas, d.
    pub data: u64,
    /// Devices that share each product, t; with sequence parallelism where it is more than one and
    /// [`Recipe::sequence_parallel`] says so.
    pub tensor: u64,
    /// Stages, p.
    pub pipeline: u64,
    /// Devices that share each sequence, c.
    pub context: u64,
    /// Devices among the replicas that share the experts, e.
    pub expert: u64,
    /// Devices that share each product of an expert; t by default in Megatron-LM (`--expert-tensor-parallel-size`).
    pub expert_tensor: u64,
    /// The state that replicas shard.
    pub zero: Zero,
    /// Lifetime of gathered parameters, under ZeRO 2 and 3.
    pub reshard: Reshard,
    /// Groups of replicas of which each has all shards: 1, or more for hybrid sharding (HSDP, or several
    /// instances of Megatron's distributed optimizer).
    pub shard_groups: u64,
    /// Sequences of a microbatch, b.
    pub microbatch: u64,
    /// Chunks per stage, v.
    pub chunks: u64,
    /// The schedule.
    pub family: Family,
    /// Whether the order of passes is searched for this set-up, in place of that of the family: then the family is one
    /// of split backwards that sets the placement of chunks ([`Setup::with_order_searched`]).
    pub searched: bool,
    /// Which activations are recomputed.
    pub recompute: Recompute,
    /// Split of layers into chunks.
    pub split: Split,
    /// Whether all stages share embedding and head (vocabulary parallelism, arXiv 2411.05288).
    pub vocabulary_parallel: bool,
    /// Software beside that of [`Recipe::software`].
    pub options: Options,
}

impl Setup {
    /// Devices in all.
    #[must_use]
    pub const fn devices(&self) -> u64 {
        self.data * self.tensor * self.pipeline * self.context
    }

    /// Devices that hold the same experts.
    #[must_use]
    pub const fn expert_replicas(&self) -> u64 {
        let group = self.expert * self.expert_tensor;
        let all = self.data * self.context * self.tensor;
        match all.checked_div(group) {
            Some(replicas) => replicas,
            None => all,
        }
    }

    /// Microbatches of a step on each replica, where `batch` sequences are divided without rest.
    #[must_use]
    pub fn microbatches(&self, batch: u64) -> Option<u64> {
        let together = self.microbatch.checked_mul(self.data)?;
        (together > 0 && batch > 0 && batch.is_multiple_of(together)).then(|| batch / together)
    }

    /// Tensor, pipeline, context and expert groups, and the stage of ZeRO.
    #[must_use]
    pub const fn groups(&self) -> [u64; 5] {
        [self.tensor, self.pipeline, self.context, self.expert, self.zero.stage() as u64]
    }

    /// This as a run of `model` by which a machine is calibrated.
    #[must_use]
    pub fn calibrated_run(
        &self,
        model: &Transformer,
        recipe: &Recipe,
        is_unexplained: bool,
    ) -> CalibratedRun {
        CalibratedRun {
            is_unexplained,
            parameters: model.parameters(),
            precision: recipe.precision,
            tuning: recipe.software.tuning,
            groups: self.groups(),
        }
    }

    /// Whether the schedule copies activations to the host.
    #[must_use]
    pub fn copies(&self) -> bool {
        self.family.about().choice == Choice::Offload
    }

    /// The name of the schedule: that of the family, or of all orders that are searched.
    #[must_use]
    pub fn schedule_name(&self) -> &'static str {
        if self.searched { search::NAME } else { self.family.name() }
    }

    /// A family of split backwards with the placement of a searched order of `chunks` chunks per stage:
    /// two in a V, any other number looped.
    #[must_use]
    pub const fn placed_by_chunks(chunks: u64) -> Family {
        match chunks {
            1 => Family::ZbH1,
            2 => Family::ZbV,
            _ => Family::Gis,
        }
    }

    /// The same with a searched order of `chunks` chunks per stage, placed by [`Setup::placed_by_chunks`].
    #[must_use]
    pub fn with_order_searched(self, chunks: u64) -> Self {
        let family = Self::placed_by_chunks(chunks);
        // Where the name of a schedule puts the vocabulary on all stages, it does so in shards of its own.
        let shared = self.vocabulary_parallel && self.family.vocabulary() == Vocabulary::Whole;
        Self { family, chunks, searched: true, vocabulary_parallel: shared, ..self }
    }

    /// Whether this and `other` divide devices, microbatches and state alike, with any schedules and software.
    #[must_use]
    pub fn divides_as(&self, other: &Self) -> bool {
        let Self { family, searched, chunks, options, .. } = *other;
        Self { family, searched, chunks, options, ..*self } == *other
    }

    /// The activations that are copied to the host by `recipe` and by its own options.
    #[must_use]
    pub const fn offload(&self, recipe: &Recipe) -> Offload {
        recipe.offload.and(self.options.offload)
    }

    /// The same without the copies to the host of its options.
    #[must_use]
    pub const fn without_offload(self) -> Self {
        Self { options: Options { offload: Offload::NONE, ..self.options }, ..self }
    }

    /// The software that runs it by `recipe`.
    #[must_use]
    pub fn software(&self, recipe: &Recipe) -> Software {
        recipe.software.with(self.options)
    }

    /// How one device of a stage sees the model.
    #[must_use]
    pub fn partition(&self, recipe: &Recipe) -> Partition {
        Partition {
            tensor: self.tensor,
            context: self.context,
            expert: self.expert,
            expert_tensor: self.expert_tensor,
            microbatch: self.microbatch,
            sequence_parallel: recipe.sequence_parallel && self.tensor > 1,
            loss: recipe.loss,
        }
    }

    /// Distance in devices between neighbouring stages: ranks are assigned to tensor, context, data and
    /// pipeline groups in this order, as in Megatron-LM.
    #[must_use]
    pub const fn stage_stride(&self) -> u64 {
        self.tensor * self.context * self.data
    }

    /// The stage and the replica of device `device` of the cluster, from 0.
    #[must_use]
    pub const fn place_of(&self, device: u64) -> [u64; 2] {
        let of_stage = device % self.stage_stride();
        [device / self.stage_stride(), of_stage / (self.tensor * self.context)]
    }
}

/// The settings that all set-ups of a question share.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    /// Sequences of a step over all replicas, B.
    pub batch: u64,
    pub gradient_bytes: u64,
    pub optimizer: Optimizer,
    /// Bytes of a weight of a layer as products read it: 2 in 16 bits; in 8 bits 1, and 1 more where a
    /// transposed copy is kept, as Hopper's products need it. Embeddings and head stay in 16 bits.
    pub weight_bytes: u64,
    /// Bytes of a logit while the loss is computed: 6 in Megatron-LM, 16 bits and 32 for softmax; 12 with
    /// PyTorch's cross entropy, which has logits, their logarithms and their gradients in 32 bits at once.
    pub logit_bytes: u64,
    /// Whether the input of the activation function of an MLP or an expert is kept in 8 bits
    /// (`activation_func_fp8_input_store` of Megatron Core).
    pub fp8_activation_input: bool,
    /// Activations that are copied to the host between F and B.
    pub offload: Offload,
    /// Whether tensor groups share the activations between products too.
    pub sequence_parallel: bool,
    /// Whether each device of a tensor group sends its share of a value to the next stage, which
    /// gathers them again (Narayanan et al. 2021, section 4.1).
    pub scatter_gather: bool,
    /// Whether gradients are reduced while the last microbatch's backward runs.
    pub overlap_gradients: bool,
    /// Whether parameters are gathered while forwards of other chunks run; with
    /// [`overlap_gradients`](Self::overlap_gradients), each chunk exchanges its own beside the passes of other chunks.
    pub overlap_parameters: bool,
    /// How the loss is computed.
    pub loss: Loss,
    /// How stages meet between steps.
    pub boundary: Boundary,
    /// The memory of the framework on each device beside the model: workspaces of its libraries, and
    /// buffers of tensors in flight.
    pub reserved: Bytes,
    /// The part of a device's memory that may be used.
    pub memory_budget: MemoryBudget,
    /// The format of matrix products.
    pub precision: Precision,
    /// The format of the head's product: 16 bits in most recipes.
    pub head: Precision,
    /// Optimisations of the software.
    pub software: Software,
    /// Load imbalance of the experts.
    pub imbalance: Imbalance,
    /// Of the pairs of tokens of a causal sequence, the share that attend to each other: 1 where a
    /// sequence is one document.
    pub attended: f64,
}

impl Recipe {
    /// The same where predicted memory may reach what is as likely to fit as not.
    #[must_use]
    pub fn as_likely_as_not(&self) -> Self {
        Self { memory_budget: self.memory_budget.as_likely_as_not(), ..self.clone() }
    }
}

/// How stages meet between steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// All wait for the last: a step takes the makespan.
    Barrier,
    /// Post-validation that never fails (Zero Bubble, section 4): a step takes the longest span of a
    /// stage by replay, and by the engine what three steps in a row take.
    PostValidation,
}

impl Boundary {
    /// The name in files, as in those of simulations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::PostValidation => "post-validation",
        }
    }

    /// Objective that makes a step short.
    #[must_use]
    pub const fn objective(self) -> Objective {
        match self {
            Self::Barrier => Objective::Makespan,
            Self::PostValidation => Objective::Span,
        }
    }

    /// The boundary of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Barrier, Self::PostValidation].into_iter().find(|one| one.name() == name)
    }
}

/// Why a set-up is none, before anything is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum Unfit {
    /// The number of devices is not that of the cluster.
    #[error("the groups do not multiply to the devices")]
    Devices,
    /// Heads, groups of queries, width or vocabulary cannot be shared by t.
    #[error("tensor parallelism does not divide heads, KV heads or FFN")]
    Tensor,
    /// The sequence cannot be cut into c parts for c devices twice (causal balance).
    #[error("context parallelism does not divide the sequence")]
    Context,
    /// The experts, or the replicas, cannot be shared by e.
    #[error("expert parallelism does not divide experts or replicas")]
    Expert,
    /// The replicas cannot be divided into groups that each hold all shards.
    #[error("groups of shards do not divide the replicas")]
    Shards,
    /// Replicas divide gradients or parameters, and the optimizer updates whole matrices.
    #[error("Muon updates whole matrices, which ZeRO 2 and 3 divide")]
    Optimizer,
    /// The optimizer's state is on the host, of each replica all of it.
    #[error("the optimizer's state on the host needs ZeRO 1, as in Megatron-LM")]
    HostOptimizer,
    /// The batch is not a multiple of b d.
    #[error("the batch is not a multiple of microbatch size and replicas")]
    Batch,
    /// Fewer layers than chunks need.
    #[error("more chunks than layers")]
    Layers,
    /// The stages cannot be assigned to kinds of devices in proportion.
    #[error("stages cannot be divided among the kinds of devices")]
    Mixed,
    /// It copies to the host, by its schedule or by [`Recipe::offload`].
    #[error("copies to the host, on devices whose link to it is not known")]
    Host,
    /// Copies to the host that take longer than the passes beside them, in a search.
    #[error("copies to the host take longer than passes")]
    Exposed,
    /// A set-up that both recomputes activations and copies to the host, in a search that has set-ups without copies.
    #[error("offload: not needed, activations are recomputed")]
    Needless,
    /// More passes than are simulated for a plan.
    #[error("more than {} passes", MAX_PASSES)]
    TooLarge,
    /// A step that takes years: a machine is far too slow.
    #[error("a step of more than 30 years of work")]
    Endless,
}

/// Checks divisibility.
pub fn check(
    setup: &Setup,
    model: &Transformer,
    recipe: &Recipe,
    cluster: &Cluster,
) -> Result<(), Unfit> {
    let Setup { data, tensor, pipeline, context, expert, expert_tensor, .. } = *setup;
    let groups = [data, tensor, pipeline, context];
    let devices = groups.iter().try_fold(1, |product: u64, size| product.checked_mul(*size));
    if devices != Some(cluster.devices()) {
        return Err(Unfit::Devices);
    }
    if model.experts.is_some() && !model.ffn.is_multiple_of(expert_tensor) {
        return Err(Unfit::Expert);
    }
    // The width of experts is shared by their own groups.
    let shared_experts = model.experts.map(|experts| experts.shared);
    let ffn = match shared_experts {
        Some(shared) => model.dense_ffn.unwrap_or(0).max(shared),
        None => model.ffn,
    };
    // Fewer heads of keys and values than t are held by several devices.
    let repeated = tensor.is_multiple_of(model.kv_heads) && tensor > model.kv_heads;
    let keys = model.kv_heads.is_multiple_of(tensor) || repeated;
    if !(model.heads.is_multiple_of(tensor) && ffn.is_multiple_of(tensor) && keys) {
        return Err(Unfit::Tensor);
    }
    if context > 1 && !model.sequence.is_multiple_of(2 * context) {
        return Err(Unfit::Context);
    }
    let experts = model.experts.map_or(1, |experts| experts.count);
    // Experts are distributed over the devices of a stage, however these divide tensors and sequences.
    let (devices, group) = (data * context * tensor, expert.saturating_mul(expert_tensor));
    if !experts.is_multiple_of(expert) || !(group == 1 || devices.is_multiple_of(group)) {
        return Err(Unfit::Expert);
    }
    if data == 0 || setup.shard_groups == 0 || !data.is_multiple_of(setup.shard_groups) {
        return Err(Unfit::Shards);
    }
    if recipe.optimizer.update == Update::Muon && setup.zero > Zero::Optimizer {
        return Err(Unfit::Optimizer);
    }
    if recipe.optimizer.on_host > 0.0 && setup.zero == Zero::None {
        return Err(Unfit::HostOptimizer);
    }
    if setup.microbatches(recipe.batch).is_none() {
        return Err(Unfit::Batch);
    }
    let chunks = pipeline * setup.chunks;
    // The first and the last chunk may be left to the ends of the model alone; a layout may leave any without a layer.
    let is_given = setup.split == Split::Layout;
    if !is_given && chunks > model.layers + if chunks > 2 { 2 } else { 0 } {
        return Err(Unfit::Layers);
    }
    cluster.machine_of_stages(pipeline).map(|_| ()).ok_or(Unfit::Mixed)
}

/// Kinds of devices, and how many of each: stages are assigned to them in this order.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// Each kind with its number of devices, at least one of each.
    pub parts: Vec<(Machine, u64)>,
}

impl Cluster {
    /// Devices in all.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.parts.iter().map(|(_, devices)| devices).sum()
    }

    /// The name of the kind, or of all kinds with a plus.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.parts.iter().map(|(kind, _)| kind.name.as_str()).collect();
        names.join("+")
    }

    /// The number of devices, and the name.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.devices(), self.name())
    }

    /// The kind of device of each of `stages` stages, if each kind has whole stages.
    #[must_use]
    pub fn machine_of_stages(&self, stages: u64) -> Option<Vec<usize>> {
        let all = self.devices();
        let mut kinds = Vec::new();
        for (kind, (_, devices)) in self.parts.iter().enumerate() {
            let share = stages.checked_mul(*devices)?;
            if all == 0 || !share.is_multiple_of(all) {
                return None;
            }
            let share = usize::try_from(share / all).ok()?;
            kinds.extend(std::iter::repeat_n(kind, share));
        }
        Some(kinds)
    }

    /// Dollars for an hour of all devices, by `price`.
    #[must_use]
    pub fn hourly(&self, price: impl Fn(&Machine) -> f64) -> f64 {
        self.parts.iter().map(|(kind, devices)| price(kind) * number(*devices)).sum()
    }
}
