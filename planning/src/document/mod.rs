//! The tables of a question, as they are written.

mod setup;
mod sizes;

use std::fmt;
use std::path::PathBuf;

use pipeline::{Bandwidth, Bytes, LayerLayout, Nanos};
use question::keys::read::text;
use question::keys::table::{Lists, keys};
use question::values::imbalance::ImbalanceKey;
use question::values::noise::{Slowdown, Stall, Straggler};
use question::values::packing::LengthsKey;
use question::values::segments::ContentionKey;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

pub use self::setup::SetupDocument;
pub use self::sizes::SizesDocument;

/// A question for the planner, as `PLAN.toml` writes it: typed, but not yet checked.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    /// The title of the answer.
    #[cfg_attr(feature = "schema", schemars(title = "Title"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model: a `config.json` of Hugging Face, relative to the question, or its sizes.
    #[cfg_attr(feature = "schema", schemars(title = "Model"))]
    pub model: ModelDocument,
    /// The tokens of a sample [default: those of the `config.json`, at most 4096; for a table of
    /// sizes it must be given].
    #[cfg_attr(feature = "schema", schemars(title = "Sequence length (tokens)"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How attention is computed: `flash`, in tiles, or `core`, with scores in memory
    /// [default: flash].
    #[cfg_attr(feature = "schema", schemars(title = "Attention kernel"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["flash", "core"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<String>,
    /// The tokens to train on.
    #[cfg_attr(feature = "schema", schemars(title = "Training tokens"))]
    pub tokens: f64,
    /// The samples of a global batch.
    #[cfg_attr(feature = "schema", schemars(title = "Global batch (samples)"))]
    pub batch: u64,
    /// The days after which training must be done [default: no deadline].
    #[cfg_attr(feature = "schema", schemars(title = "Deadline (days)"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_days: Option<f64>,
    /// The dollars that training may cost [default: no limit].
    #[cfg_attr(feature = "schema", schemars(title = "Budget (dollars)"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// The odds with which a plan must meet deadline-days and budget, by published trainings
    /// [default: 0.5, even odds].
    #[cfg_attr(feature = "schema", schemars(title = "Odds of deadline and budget"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How many times as long as its steps training takes, for restarts, evaluation and what else is not a step: odds
    /// are then those of trainings that take so long in the median [default: 1, with odds around the median of
    /// published trainings].
    #[cfg_attr(feature = "schema", schemars(title = "Contingency factor"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contingency: Option<f64>,
    /// The rate at which storage takes a checkpoint from all devices together
    /// [default: as fast as they write].
    #[cfg_attr(feature = "schema", schemars(title = "Bandwidth of checkpoints"))]
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub storage: Option<Bandwidth>,
    /// The price that is paid for machines: `on-demand`, `reserved` or `spot`
    /// [default: on-demand].
    #[cfg_attr(feature = "schema", schemars(title = "Price of machines"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["on-demand", "reserved", "spot"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The training framework that must run the plan: `megatron`, `torchtitan` or `any`
    /// [default: any].
    #[cfg_attr(feature = "schema", schemars(title = "Training framework"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["megatron", "torchtitan", "any"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The number of plans that are printed for each cluster [default: 3].
    #[cfg_attr(feature = "schema", schemars(title = "Plans per cluster"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<u64>,
    /// The network between the devices as it was measured, of all clusters, which then have one kind of machine: the output of
    /// nccl-tests or rccl-tests, or a CSV with columns collective, ranks, nodes, bytes and busbw
    /// [default: the rates of the machine].
    #[cfg_attr(feature = "schema", schemars(title = "Measured network"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<PathBuf>,
    /// The clusters to choose from.
    #[cfg_attr(feature = "schema", schemars(title = "Machines"))]
    pub cluster: Vec<ClusterDocument>,
    /// One set-up to answer, in place of a search [default: those of `[search]` are tried].
    #[cfg_attr(feature = "schema", schemars(title = "One set-up to answer"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupDocument>,
    /// The set-ups that are tried.
    #[cfg_attr(feature = "schema", schemars(title = "Set-ups to try"))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub search: SearchDocument,
    /// The recipe of training.
    #[cfg_attr(feature = "schema", schemars(title = "Recipe of training"))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub training: TrainingDocument,
    /// Documents that are packed into the sequences.
    #[cfg_attr(feature = "schema", schemars(title = "Documents in sequences"))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub lengths: LengthsDocument,
    /// How durations differ, and slow devices.
    #[cfg_attr(feature = "schema", schemars(title = "Noise and slow devices"))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise: NoiseDocument,
}

impl Document {
    /// A question of nothing but its model, with one token to train on, one sample at a time.
    pub(crate) fn of_model(model: ModelDocument) -> Self {
        Self {
            title: None,
            model,
            sequence: None,
            attention: None,
            tokens: 1.0,
            batch: 1,
            deadline_days: None,
            budget: None,
            confidence: None,
            contingency: None,
            storage: None,
            price: None,
            framework: None,
            plans: None,
            network: None,
            cluster: Vec::new(),
            setup: None,
            search: SearchDocument::default(),
            training: TrainingDocument::default(),
            lengths: LengthsDocument::default(),
            noise: NoiseDocument::default(),
        }
    }
}

/// The model of a question.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // A question has one.
pub enum ModelDocument {
    /// The name of a `config.json` of Hugging Face, relative to the question.
    File(PathBuf),
    /// The sizes of a transformer.
    Sizes(SizesDocument),
}

/// By hand, so that errors within a table point at its keys.
impl<'de> Deserialize<'de> for ModelDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModelVisitor)
    }
}

struct ModelVisitor;

impl<'de> Visitor<'de> for ModelVisitor {
    type Value = ModelDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a config.json, or a table of sizes")
    }

    fn visit_str<E>(self, name: &str) -> Result<ModelDocument, E> {
        Ok(ModelDocument::File(PathBuf::from(name)))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<ModelDocument, M::Error> {
        SizesDocument::deserialize(MapAccessDeserializer::new(map)).map(ModelDocument::Sizes)
    }
}

/// A cluster: a machine and its devices, or parts of several machines.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClusterDocument {
    /// The machine: the name of one that is built in, or a file.
    #[cfg_attr(feature = "schema", schemars(title = "Machine"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The number of devices; several numbers are several clusters.
    #[cfg_attr(feature = "schema", schemars(title = "Devices"))]
    #[cfg_attr(feature = "schema", schemars(transform = question::keys::form::one_or_list))]
    #[serde(
        default,
        deserialize_with = "question::keys::read::optional_list",
        skip_serializing_if = "Option::is_none"
    )]
    pub devices: Option<Vec<u64>>,
    /// The parts of a cluster of several kinds of machines.
    #[cfg_attr(feature = "schema", schemars(title = "Parts of a mixed cluster"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartDocument>>,
    /// A profile of the model on the machine, as `debubble calibrate` writes it [default: times by formulas].
    #[cfg_attr(feature = "schema", schemars(title = "Profile of measured times"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<PathBuf>,
    /// Its network as it was measured: the output of nccl-tests or rccl-tests, or a table of bandwidths as CSV
    /// [default: `network` of the question].
    #[cfg_attr(feature = "schema", schemars(title = "Measured network"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<PathBuf>,
    /// Dollars for an hour of a device, however it is paid [default: that of the machine's file].
    #[cfg_attr(feature = "schema", schemars(title = "Price of a device-hour (dollars)"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// Machines of one kind within a cluster.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PartDocument {
    /// The machine: the name of one that is built in, or a file.
    #[cfg_attr(feature = "schema", schemars(title = "Machine"))]
    pub machine: String,
    /// The number of its devices.
    #[cfg_attr(feature = "schema", schemars(title = "Devices"))]
    pub devices: u64,
    /// Dollars for an hour of a device, however it is paid [default: that of the machine's file].
    #[cfg_attr(feature = "schema", schemars(title = "Price of a device-hour (dollars)"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

keys! {
    /// The set-ups that are tried. Keys that are left out follow from the model and each cluster.
    pub struct SearchDocument: "", Lists::OfValues;

    /// Tensor-parallel degrees [default: powers of two up to the devices of a node, or 8 where more
    /// share fast links].
    tensor: Option<Vec<u64>>, label: "Tensor parallelism (t)";
    /// Pipeline-parallel degrees [default: divisors of the devices up to the layers, at most 128].
    pipeline: Option<Vec<u64>>, label: "Pipeline parallelism (p)";
    /// Context-parallel degrees [default: powers of two that leave each device 8,192 tokens of a sequence or more, at
    /// most 64].
    context: Option<Vec<u64>>, label: "Context parallelism (c)";
    /// Expert-parallel degrees [default: powers of two up to the experts, at most 64].
    expert: Option<Vec<u64>>, label: "Expert parallelism (e)";
    /// Stages of ZeRO, 0 to 3 [default: 1, 3].
    zero: Option<Vec<u64>>, label: "ZeRO stages (z)";
    /// Samples of a microbatch [default: 1, 2, 4, 8].
    microbatch: Option<Vec<u64>>, label: "Microbatch sizes (b)";
    /// Chunks per stage, for schedules that take several [default: 2, 3, 4, 6, 8].
    chunks: Option<Vec<u64>>, label: "Chunks per stage (v)";
    /// Schedules, by name; `zb-auto` searches orders for the best set-ups, as they share devices under the other
    /// schedules: one chunk per stage, two in a V, or as many as the best has [default: of 1f1b, 1f1b-i, zb-h1,
    /// zb-v, v-half, po-h, vocab-1, v-half-vocab-1 and zb-auto those that the framework runs].
    schedule: Option<Vec<String>>, label: "Schedules";
    /// Recomputation of activations: `none`, `selective` or `full` [default: all; selective with core attention
    /// alone].
    recompute: Option<Vec<String>>, label: "Recomputation";
    /// How layers are split over stages: `even`, `balanced`, or `searched`: together with the order where that is
    /// searched, else balanced [default: searched].
    split: Option<Vec<String>>, label: "Split of layers";
    /// The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    /// `Et*4|(t*4|)*14t*4L`, where E is the embedding, t a layer, L the loss, and | ends a chunk.
    layout: Option<LayerLayout>, label: "Layers of each chunk";
    /// Whether all stages share the embedding and the output layer [default: false].
    vocabulary_parallel: Option<Vec<bool>>, label: "Vocabulary parallelism";
    /// Software that `[training]` leaves out: `all` turns on CUDA graphs, the dispatcher and the overlap of experts
    /// and of tensor groups where the framework and the machine have them, and `offload` for set-ups that fit only
    /// with it;
    /// `as given` leaves all off
    /// [default: all; as given with tuning = stock].
    software: Option<String>, label: "Software left open by the recipe", words: &["all", "as given"];
    /// The most memory that may be predicted of a device, without a margin for the error of predictions [default:
    /// what the device leaves, less that error].
    memory_cap: Option<Bytes>, label: "Memory cap of a device";
}

keys! {
    /// The recipe of training.
    pub struct TrainingDocument: "", Lists::OfValues;

    /// Whose software runs the step: `tuned`, Megatron-LM by a vendor's recipe for the model and the machine, or
    /// `stock`,
    /// with its defaults, which overlap less [default: the times of tuned, with the error of both].
    tuning: Option<String>, label: "Tuning of the software", words: &["tuned", "stock"];
    /// The rank of adapters beside frozen weights (LoRA): these alone are trained [default: no adapters].
    lora_rank: Option<u64>, label: "Rank of adapters (LoRA)";
    /// The products with adapters: `attention`, `mlp` or `all-linear`, or names of Megatron-Bridge (linear_qkv,
    /// linear_proj, linear_fc1, linear_fc2), of PEFT (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj),
    /// of mixers (in_proj, out_proj) or of torchtitan (wq, wk, wv, wo, w1, w2, w3) [default: attention and mlp].
    lora_modules: Option<Vec<String>>, label: "Products with adapters";
    /// Parts whose weights are not trained, and which have no adapters: `embedding`, `head`, or layers by their
    /// numbers from 0, such as `layers:0-23` [default: none; with lora-rank all weights but adapters].
    frozen: Option<Vec<String>>, label: "Frozen parts";
    /// Bytes of gradients per parameter [default: 4].
    gradient_bytes: Option<u64>, label: "Gradient bytes per parameter";
    /// The optimizer: `adamw`, `muon`, which keeps one moment of the matrices of layers and makes it orthogonal by five
    /// iterations of Newton and Schulz, with adamw for the rest, or `sgd` with momentum [default: adamw].
    optimizer: Option<String>, label: "Optimizer", words: &["adamw", "muon", "sgd"];
    /// Bytes of optimizer state per parameter [default: 12; 8 with sgd, and of layers with muon].
    optimizer_bytes: Option<u64>, label: "Optimizer bytes per parameter";
    /// The share of the parameters whose optimizer state is in the memory of the host, which updates them
    /// [default: 0].
    optimizer_offload: Option<f64>, label: "Optimizer state on the host";
    /// The time in which the host updates a billion parameters of a device [default: 1.28s, by published steps of an
    /// H100].
    host_update: Option<Nanos>, label: "Update of a billion parameters by the host";
    /// Bytes of a layer's weight as products read it; 1 where 8-bit weights have no transposed copy
    /// [default: 2].
    weight_bytes: Option<u64>, label: "Weight bytes per parameter";
    /// Bytes of a logit while the loss is computed [default: 6; 12 with torchtitan].
    logit_bytes: Option<u64>, label: "Bytes of a logit";
    /// Whether the input of the activation function of MLPs and experts is kept in 8 bits [default: false].
    fp8_activation_input: Option<bool>, label: "Activation inputs in 8 bits";
    /// Inputs of parts of each layer that wait for the backward in the memory of the host: any of attn_norm,
    /// qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1 and moe_act, as Megatron-LM names them; attn_proj only
    /// with core_attn [default: none].
    offload: Option<Vec<String>>, label: "Inputs offloaded to the host";
    /// Whether a compiler or kernels written by hand fuse what is elementwise; torchtitan without
    /// `torch.compile` runs it kernel by kernel [default: true].
    compiled: Option<bool>, label: "Fused elementwise kernels";
    /// The format of the large matrix products of layers: `bf16`, `fp8` with a scale for a tensor,
    /// `fp8-blockwise`, `mxfp8` or `nvfp4`; attention, router and norms stay wider [default: bf16].
    precision: Option<String>, label: "Precision of layers", words: &["bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4"];
    /// The format of the product with the vocabulary [default: bf16].
    head_precision: Option<String>, label: "Precision of the output layer",
        words: &["bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4"];
    /// The launches that CUDA graphs replace: `none`, `partial`, those of attention and router, or `full`,
    /// those of a whole step [default: none].
    cuda_graphs: Option<String>, label: "CUDA graphs", words: &["none", "partial", "full"];
    /// The modules whose static buffers partial graphs hold, as Megatron-LM names them: any of attn, mlp, moe,
    /// moe_router, moe_preprocess and mamba. They change memory; launches are those of attention and router
    /// [default: attn and moe_router, as far as the model has them].
    cuda_graph_modules: Option<Vec<String>>, label: "Modules in CUDA graphs";
    /// How tokens get to their experts: `alltoall`, once for each expert, or `deepep` or `hybridep`, once to
    /// each node [default: alltoall].
    dispatcher: Option<String>, label: "Token dispatcher", words: &["alltoall", "deepep", "hybridep"];
    /// Whether all-to-alls of experts run beside the compute of another microbatch [default: false].
    overlap_experts: Option<bool>, label: "Overlap of expert all-to-alls";
    /// Whether a forward and a backward that a schedule pairs share two streams, segment by segment, so that what
    /// is hidden of the all-to-alls of experts comes of the order of passes: for dualpipe, dualpipe-v, stp,
    /// 1f1b-overlap and 1f1b-i-overlap, in place of overlap-experts [default: false].
    two_streams: Option<bool>, label: "Two streams for paired passes";
    /// Contention of the streams with two-streams: the share of the compute that all-to-alls take while
    /// they run beside, and how many times as long these then take; or the name of such constants
    /// [default: 0.152,1, 20 of 132 multiprocessors, with deepep and hybridep; megatron-hopper with alltoall].
    contention: Option<ContentionKey>, label: "Contention of the two streams";
    /// Whether collectives of tensor groups run beside the products that they belong to [default: false].
    overlap_tensor: Option<bool>, label: "Overlap of tensor-parallel collectives";
    /// Whether stages go on while their outputs travel to other stages: where a stage has several chunks, as in
    /// Megatron-LM; with one chunk it waits for each transfer
    /// [default: true on machines with products of 8 bits].
    overlap_transfers: Option<bool>, label: "Overlap of pipeline transfers";
    /// Whether parameters are gathered beside the passes that need others, and each chunk exchanges its own
    /// beside those of others [default: true on machines with products of 8 bits].
    overlap_parameters: Option<bool>, label: "Overlap of parameter gathers";
    /// Whether the kernels around experts are fused, as in Megatron-LM from its releases of 2026 on
    /// [default: true on machines with products of 8 bits].
    fused_experts: Option<bool>, label: "Fused expert kernels";
    /// How keys and values reach all devices of a context group: `ring`, part by part beside attention, or
    /// `all-gather`, all before it [default: ring].
    context_exchange: Option<String>, label: "Exchange of context groups", words: &["ring", "all-gather"];
    /// How many times as much the fullest device of an expert group has to do as if all experts were chosen
    /// alike, 1 where routing is forced into balance; or how popular experts are, of which that follows:
    /// `zipf:EXPONENT`, `lognormal:SIGMA`, or a file of measured counts, such as `file:counts.csv`, relative to
    /// the question. A step then takes the mean of layers and microbatches; memory, and the P95 of a step, what
    /// 95 % of them do not exceed [default: 1].
    imbalance: Option<ImbalanceKey>, label: "Imbalance of experts";
    /// The rows that an expert takes of each device, over those with all experts chosen alike; tokens that come
    /// to a full expert are dropped, as with Megatron-LM's `--moe-expert-capacity-factor`
    /// [default: none is dropped].
    capacity_factor: Option<f64>, label: "Capacity factor of experts";
    /// Whether every expert gets as many rows as it takes, with padding for those that lack, as with
    /// Megatron-LM's `--moe-pad-expert-input-to-capacity` [default: false].
    pad_to_capacity: Option<bool>, label: "Padding to expert capacity";
    /// Whether tensor-parallel groups share the sequence between their layers [default: true].
    sequence_parallel: Option<bool>, label: "Sequence parallelism";
    /// Whether the reduction of gradients is overlapped with backward passes [default: true].
    overlap_gradients: Option<bool>, label: "Overlap of gradient reduction";
    /// How the loss is computed: `separate` or `fused` [default: separate].
    loss: Option<String>, label: "Loss kernel", words: &["separate", "fused"];
    /// How stages wait for each other between steps: `barrier` or `post-validation`
    /// [default: barrier].
    boundary: Option<String>, label: "Step boundary", words: &["barrier", "post-validation"];
    /// Memory that the framework and its libraries take of a device [default: 1GiB].
    reserved: Option<Bytes>, label: "Memory reserved by the framework";
}

keys! {
    /// How durations differ, and slow devices.
    pub struct NoiseDocument: "", Lists::OfTexts;

    /// The coefficient of variation of the durations of passes [default: 0.03].
    jitter: Option<f64>, label: "Jitter of passes";
    /// Rare stalls: the probability that a pass takes longer, and the extra time, as in `0.001:50ms`
    /// [default: none].
    stall: Option<Stall>, label: "Rare stalls";
    /// Stragglers: the probability that a device is slow in a step, and how slow, as in `0.0001:1.5`
    /// [default: none].
    straggler: Option<Straggler>, label: "Stragglers";
    /// Devices that are always slow, as in `device:3=1.5` [default: none].
    slowdown: Option<Vec<Slowdown>>, label: "Slow devices";
    /// The number of replicas over which steps are averaged [default: 200].
    replicas: Option<u64>, label: "Replicas (Monte Carlo)";
    /// The seed of all chance [default: 0].
    seed: Option<u64>, label: "Random seed";
}

/// Whether a table says nothing, and need not be written.
fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}

keys! {
    /// Documents that are packed into sequences; tokens attend to those of their own alone.
    pub struct LengthsDocument: "", Lists::OfValues;

    /// The lengths of documents in tokens, of which what goes beyond the end of a sequence goes on in the
    /// next: a distribution, such as `lognormal:800:1.2:131072`, or a file, such
    /// as `file:lengths.txt`, relative to the question [default: a sequence is one document].
    documents: Option<LengthsKey>, label: "Lengths of documents";
    /// The seed by which lengths are drawn [default: 0].
    seed: Option<u64>, label: "Random seed";
}
