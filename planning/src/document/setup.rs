//! The table `[setup]`, as it is written.

use pipeline::LayerLayout;
use question::keys::table::{Lists, keys};

keys! {
    /// One set-up, with all parts of its step and memory, instead of a search.
    pub struct SetupDocument: "", Lists::OfValues;

    /// The tensor-parallel degree [default: 1].
    tensor: Option<u64>, label: "Tensor parallelism (t)";
    /// The pipeline-parallel degree: the number of stages [default: 1].
    pipeline: Option<u64>, label: "Pipeline parallelism (p)";
    /// The chunks of each stage, its virtual stages [default: those of the schedule or the layout; 1].
    chunks: Option<u64>, label: "Chunks per stage (v)";
    /// The context-parallel degree [default: 1].
    context: Option<u64>, label: "Context parallelism (c)";
    /// Whether every microbatch deals the devices of a data x context group anew, so that each document has
    /// the fewest that hold it, at no more tokens of a device than `context` leaves it: dynamic (hybrid)
    /// context parallelism, as Megatron-LM has it; needs the table `[lengths]` [default: false].
    dynamic_context: Option<bool>, label: "Dynamic context parallelism";
    /// The expert-parallel degree: the devices that share the experts of a layer [default: 1].
    expert: Option<u64>, label: "Expert parallelism (e)";
    /// The devices that share each product of an expert [default: as many as tensor].
    expert_tensor: Option<u64>, label: "Tensor parallelism of experts (te)";
    /// The data-parallel degree [default: the devices over tensor, pipeline and context].
    data: Option<u64>, label: "Data parallelism (d)";
    /// The stage of ZeRO, 0 to 3: what replicas shard [default: 1].
    zero: Option<u64>, label: "ZeRO stage (z)";
    /// When parameters that ZeRO 3 gathered are given up: `after-forward`, to be gathered again for every
    /// pass, or `never` in a step, with gradients that are summed whole; of these `after-last` gives up those
    /// of a chunk behind its last backward [default: never in a pipeline, else after-forward].
    reshard: Option<String>, label: "Release of gathered parameters", words: &["after-forward", "after-last", "never"];
    /// Groups of replicas of which each has all shards (HSDP) [default: 1].
    shard_groups: Option<u64>, label: "Shard groups, HSDP (g)";
    /// The samples of a microbatch [default: 1].
    microbatch: Option<u64>, label: "Microbatch size (b)";
    /// The schedule, by name; `zb-auto` is an order that is searched for this set-up, of one chunk per stage unless
    /// `chunks` says more: two lie in a V, any others looped [default: 1f1b; 1f1b-i with several chunks].
    schedule: Option<String>, label: "Schedule";
    /// Recomputation of activations: `none`, `selective`, `full`, `full-N` for the first N layers of each
    /// chunk, or modules as Megatron-LM names them, of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe
    /// and shared_experts, or `selective_op`, the selective mode of torchtitan [default: none].
    recompute: Option<Vec<String>>, label: "Recomputation";
    /// The layers of each chunk whose activations are recomputed, where `recompute` is `full`: the first of
    /// them [default: all].
    recompute_layers: Option<u64>, label: "Recomputed layers per chunk";
    /// How layers are split over stages: `even`, `balanced`, or, under `zb-auto`, `searched`: together with the
    /// order [default: even].
    split: Option<String>, label: "Split of layers", words: &["even", "balanced", "searched"];
    /// The layers of each chunk in model order, as Megatron-LM writes them, in place of `split`: as in
    /// `Et*4|(t*4|)*14tmL`, where E is the embedding, t a layer, m one of multi-token prediction, L the loss,
    /// and | ends a chunk.
    layout: Option<LayerLayout>, label: "Layers of each chunk";
    /// The layers of the first stage, where the other stages have equal numbers of them.
    first_stage_layers: Option<u64>, label: "Layers of the first stage";
    /// The layers of the last stage, where the other stages have equal numbers of them.
    last_stage_layers: Option<u64>, label: "Layers of the last stage";
    /// Whether all stages share the embedding and the output layer [default: false].
    vocabulary_parallel: Option<bool>, label: "Vocabulary parallelism";
}
