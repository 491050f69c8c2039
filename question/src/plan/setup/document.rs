//! The table `[setup]`, as it is written.

use pipeline::LayerLayout;
use serde::{Deserialize, Serialize};

use crate::key_set::text;

/// One set-up, whose step and memory are told with all their parts, in place of a search.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SetupDocument {
    /// The tensor-parallel degree [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<u64>,
    /// The pipeline-parallel degree: the number of stages [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<u64>,
    /// The chunks of each stage, its virtual stages [default: those of the schedule or the layout; 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// The context-parallel degree [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Whether every microbatch deals the devices of a data x context group anew, so that each document has
    /// the fewest that hold it, at no more tokens of a device than `context` leaves it: dynamic (hybrid)
    /// context parallelism, as Megatron-LM has it; needs the table `[lengths]` [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_context: Option<bool>,
    /// The expert-parallel degree: the devices that share the experts of a layer [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert: Option<u64>,
    /// The devices that share each product of an expert [default: as many as tensor].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert_tensor: Option<u64>,
    /// The data-parallel degree [default: the devices over tensor, pipeline and context].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<u64>,
    /// The stage of ZeRO, 0 to 3: what replicas shard [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero: Option<u64>,
    /// When parameters that ZeRO 3 gathered are given up: `after-forward`, to be gathered again for every
    /// pass, or `never` in a step, with gradients that are summed whole; of these `after-last` gives up those
    /// of a chunk behind its last backward [default: never in a pipeline, else after-forward].
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["after-forward", "after-last", "never"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reshard: Option<String>,
    /// Groups of replicas of which each has all shards (HSDP) [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_groups: Option<u64>,
    /// The samples of a microbatch [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microbatch: Option<u64>,
    /// The schedule, by name; `zb-auto` is an order that is searched for this set-up, of one chunk per stage unless
    /// `chunks` says more: two lie in a V, any others looped [default: 1f1b; 1f1b-i with several chunks].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Recomputation of activations: `none`, `selective`, `full`, `full-N` for the first N layers of each
    /// chunk, or modules as Megatron-LM names them, of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe
    /// and shared_experts, or `selective_op`, the selective mode of torchtitan [default: none].
    #[serde(
        deserialize_with = "crate::one_or_many::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub recompute: Option<Vec<String>>,
    /// The layers of each chunk whose activations are recomputed, where `recompute` is `full`: the first of
    /// them [default: all].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute_layers: Option<u64>,
    /// How layers are split over stages: `even`, `balanced`, or, under `zb-auto`, `searched`: together with the
    /// order [default: even].
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["even", "balanced", "searched"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    /// `Et*4|(t*4|)*14tmL`, where E is the embedding, t a layer, m one of multi-token prediction, L the loss,
    /// and | ends a chunk.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayerLayout>,
    /// The layers of the first stage, where the other stages have equal numbers of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_stage_layers: Option<u64>,
    /// The layers of the last stage, where the other stages have equal numbers of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_stage_layers: Option<u64>,
    /// Whether all stages share the embedding and the output layer [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary_parallel: Option<bool>,
}
