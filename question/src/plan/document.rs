//! The tables of a question, as they are written.

use std::fmt;
use std::path::PathBuf;

use pipeline::{Bytes, LayerLayout};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::key_set::{list, text};
use crate::noise::syntax::{Slowdown, Stall, Straggler};

/// A question for the planner, as `PLAN.toml` writes it: typed, but not yet checked.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    /// The title of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model: a `config.json` of Hugging Face, relative to the question, or its sizes.
    pub model: ModelDocument,
    /// The tokens of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How attention is computed: `flash`, in tiles, or `core`, with scores in memory.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["flash", "core"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<String>,
    /// The tokens to train on.
    pub tokens: f64,
    /// The samples of a global batch.
    pub batch: u64,
    /// The days after which training must be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_days: Option<f64>,
    /// The price that is paid for machines: `on-demand`, `reserved` or `spot`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["on-demand", "reserved", "spot"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The training framework that must run the plan: `megatron`, `torchtitan` or `any`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["megatron", "torchtitan", "any"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The number of plans that are told for each cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<u64>,
    /// The clusters to choose from.
    pub cluster: Vec<ClusterDocument>,
    /// The set-ups that are tried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub search: SearchDocument,
    /// The recipe of training.
    #[serde(default, skip_serializing_if = "is_default")]
    pub training: TrainingDocument,
    /// How durations differ, and slow devices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noise: NoiseDocument,
}

/// The model of a question.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Clone, PartialEq, Debug)]
#[serde(untagged)]
pub enum ModelDocument {
    /// The name of a `config.json` of Hugging Face, relative to the question.
    File(PathBuf),
    /// The sizes of a transformer.
    Sizes(SizesDocument),
}

/// By hand, so that what is wrong in a table is said where it stands.
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

/// The sizes of a transformer.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SizesDocument {
    /// Transformer layers.
    pub layers: u64,
    /// The hidden size h.
    pub hidden: u64,
    /// The attention heads a.
    pub heads: u64,
    /// The heads of keys and values, for grouped-query attention; as many as `heads` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// The size of a head; the hidden size over the heads unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_size: Option<u64>,
    /// Whether queries and keys are normalised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qk_norm: Option<bool>,
    /// The width of the MLP, or of one expert; 4 h for plain MLPs unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// Whether the MLP has a gate, as SwiGLU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gated: Option<bool>,
    /// The size V of the vocabulary.
    pub vocabulary: u64,
    /// The learned positions; none unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<u64>,
    /// The experts of a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<u64>,
    /// The experts that a token is sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Whether the embedding and the output layer share their weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<bool>,
    /// Whether linear layers have biases; plain MLPs do, gated ones do not unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biases: Option<bool>,
}

/// A cluster: a machine and its devices, or parts of several machines.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClusterDocument {
    /// The machine: the name of one that is built in, or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The number of devices; several numbers are several clusters.
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_list))]
    #[serde(
        default,
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub devices: Option<Vec<u64>>,
    /// The parts of a cluster of several kinds of machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartDocument>>,
    /// A profile of the model on the machine, as `debubble calibrate` writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<PathBuf>,
}

/// Machines of one kind within a cluster.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PartDocument {
    /// The machine: the name of one that is built in, or a file.
    pub machine: String,
    /// The number of its devices.
    pub devices: u64,
}

/// The set-ups that are tried. Keys that are left out follow from the model and each cluster.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SearchDocument {
    /// Tensor-parallel degrees.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub tensor: Option<Vec<u64>>,
    /// Pipeline-parallel degrees.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub pipeline: Option<Vec<u64>>,
    /// Context-parallel degrees.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub context: Option<Vec<u64>>,
    /// Expert-parallel degrees.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub expert: Option<Vec<u64>>,
    /// Stages of ZeRO, 0 to 3.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub zero: Option<Vec<u64>>,
    /// Samples of a microbatch.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub microbatch: Option<Vec<u64>>,
    /// Chunks per stage, for schedules that take several.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub chunks: Option<Vec<u64>>,
    /// Schedules, by name.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub schedule: Option<Vec<String>>,
    /// Recomputation of activations: `none`, `selective` or `full`.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub recompute: Option<Vec<String>>,
    /// How layers are split over stages: `even` or `balanced`.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub split: Option<Vec<String>>,
    /// The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    /// `Et*4|(t*4|)*14t*4L`, where E is the embedding, t a layer, L the loss, and | ends a chunk.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayerLayout>,
    /// Whether all stages share the embedding and the output layer.
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub vocabulary_parallel: Option<Vec<bool>>,
    /// The most memory that a plan may hold of a device.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub memory_cap: Option<Bytes>,
}

/// The recipe of training.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrainingDocument {
    /// Bytes of gradients per parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_bytes: Option<u64>,
    /// Bytes of optimizer state per parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_bytes: Option<u64>,
    /// Whether tensor-parallel groups share the sequence between their layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_parallel: Option<bool>,
    /// Whether the reduction of gradients is overlapped with backward passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_gradients: Option<bool>,
    /// How the loss is computed: `separate` or `fused`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["separate", "fused"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// How stages wait for each other between steps: `barrier` or `post-validation`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["barrier", "post-validation"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    /// Memory that the framework and its libraries take of a device.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
}

/// How durations differ, and slow devices.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NoiseDocument {
    /// The coefficient of variation of the durations of passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Rare stalls: the probability that a pass lasts longer, and by how much, as in `0.001:50ms`.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Stragglers: the probability that a device is slow in a step, and how slow, as in `0.0001:1.5`.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub straggler: Option<Straggler>,
    /// Devices that are always slow, as in `device:3=1.5`.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Vec<Slowdown>>,
    /// The number of replicas over which steps are averaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u64>,
    /// The seed of all chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Whether a table says nothing, and need not be written.
fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}
