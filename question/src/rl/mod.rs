//! The question of a step of reinforcement learning: rollout, log-probabilities, updates.

use std::path::{Path, PathBuf};

use pipeline::Nanos;

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::file;
use crate::keys::table::{Lists, keys};
use crate::kinds::InputKind;
use crate::values::packing::{
    CommunicationKey, CostKey, LengthsKey, MethodKey, OrderKey, PlacementKey, RecomputeKey,
    StrategyKey,
};

/// Heading in the help of what engines generate.
const ROLLOUT: &str = "Rollout";
/// Heading in the help of where both parts run.
const PLACEMENT: &str = "Placement";
/// Heading in the help of what stands between rollout and update.
const FORWARDS: &str = "Rewards and log-probabilities";
/// Heading in the help of updates.
const UPDATE: &str = "Update";
/// Heading in the help of updates on pipelines.
const PIPELINES: &str = "Update on pipelines (strategy megatron)";

keys! {
    /// A question about a step of reinforcement learning.
    pub struct RlKeys as "Keys": "The question", Lists::OfValues;

    /// The model that is trained: a config.json of Hugging Face, or a name such as qwen2.5-7b
    model: Option<PathBuf>, label: "Model", value: "MODEL";
    /// The machine: a built-in one such as h100, or a file
    machine: Option<String>, label: "Machine", value: "MACHINE";
    /// All devices
    devices: u64, label: "Devices", value: "N", default: Some("8");
    /// Prompts of a step
    prompts: u64, label: "Prompts of a step", value: "N", default: Some("128");
    /// Responses to each prompt
    responses: u64, label: "Responses to a prompt", value: "N", default: Some("8");
    /// How long prompts are, in tokens: uniform:LEAST-MOST, lognormal:MEDIAN:SIGMA:MOST,
    /// longtail:LEAST-MOST:INDEX, file:FILE or in-order:FILE, as `debubble fsdp --lengths` has them
    prompt_lengths: LengthsKey, label: "Lengths of prompts (tokens)", value: "LAW",
        default: Some("lognormal:150:0.5:1024");
    /// How long responses are, in tokens, in the same way; the longest is the limit of generation
    response_lengths: LengthsKey, label: "Lengths of responses (tokens)", value: "LAW",
        default: Some("lognormal:1000:0.9:8192");
    /// Steps that the mean is over
    steps: u64, label: "Steps", value: "N", default: Some("4");
    /// Seed of all lengths
    seed: u64, label: "Seed", value: "N", default: Some("0");
    /// Log of the run that is asked about, of verl, slime or NeMo-RL: its lengths are taken, and its phases calibrate
    /// those of the answer
    log: Option<PathBuf>, label: "Log of the run", value: "LOG";
    /// Tensor-parallel devices of an engine
    tensor: u64, label: "Tensor parallelism of an engine", value: "N", heading: ROLLOUT, default: Some("1");
    /// Share of a device's memory that an engine has for weights, keys and values [default: 0.5; 0.9 on separate
    /// devices]
    engine_memory: Option<f64>, label: "Memory share of an engine", value: "SHARE", heading: ROLLOUT;
    /// The most sequences that an engine generates at a time
    max_sequences: u64, label: "Sequences of an engine at a time", value: "N", heading: ROLLOUT,
        default: Some("256");
    /// Overhead of a decode step on top of memory reads and compute: scheduling, sampling, launches; more without
    /// CUDA graphs [default: 3ms]
    step_latency: Option<Nanos>, label: "Latency of a decode step", value: "TIME", heading: ROLLOUT;
    /// Tokens per second that an engine generates with as many sequences as it takes, as measured [default: by
    /// formulas]
    generation_rate: Option<f64>, label: "Measured tokens per second of an engine", value: "RATE",
        heading: ROLLOUT;
    /// The most tokens that a response gets in a step: longer ones go on in the next (partial rollouts)
    /// [default: all]
    rollout_budget: Option<u32>, label: "Tokens of a response in a step", value: "TOKENS", heading: ROLLOUT;
    /// Where rollout and training run: colocated (the same devices, in turn) or separate (separate devices in
    /// parallel, one step off-policy)
    placement: PlacementKey, label: "Placement", value: "HOW", heading: PLACEMENT, default: Some("colocated");
    /// The devices of the rollout where it is separate [default: half of them]
    rollout_devices: Option<u64>, label: "Devices of the rollout", value: "N", heading: PLACEMENT;
    /// How long new weights take to the engines [default: their bytes over the links]
    sync: Option<Nanos>, label: "Weights to engines (time)", value: "TIME", heading: PLACEMENT;
    /// How long devices take to change between rollout and training, and back: offloading, waking
    /// [default: 0ns]
    switch: Option<Nanos>, label: "Change between rollout and training", value: "TIME", heading: PLACEMENT;
    /// Time of rewards after the rollout [default: 0ns]
    reward: Option<Nanos>, label: "Rewards (time)", value: "TIME", heading: FORWARDS;
    /// Log-probabilities of the policy before the update are not computed, as with one update of a step
    no_old_log_probs: bool, label: "Without old log-probabilities", heading: FORWARDS;
    /// Log-probabilities of a reference model, for a KL term
    reference: bool, label: "Reference log-probabilities", heading: FORWARDS;
    /// A critic of the same size, as in PPO: values before the update, and its own updates
    critic: bool, label: "Critic", heading: FORWARDS;
    /// Training: fsdp, or megatron (pipelines with tensor, context and expert parallelism)
    strategy: StrategyKey, label: "Training", value: "NAME", heading: UPDATE, default: Some("fsdp");
    /// Prompts of an update, with all their responses [default: all of a step]
    mini_batch: Option<u64>, label: "Prompts of an update", value: "N", heading: UPDATE;
    /// How often the responses of a step are gone through
    epochs: u64, label: "Epochs of a step", value: "N", heading: UPDATE, default: Some("1");
    /// The most tokens of a microbatch of a device [default: those of the longest sample, shared by a
    /// sequence-parallel or context-parallel group]
    max_tokens: Option<u64>, label: "Tokens of a microbatch", value: "TOKENS", heading: UPDATE;
    /// The same where log-probabilities are computed [default: as max-tokens]
    log_prob_max_tokens: Option<u64>, label: "Tokens of a log-probability microbatch", value: "TOKENS",
        heading: UPDATE;
    /// Packing method: local-sort, lb-micro or lb-mini
    method: MethodKey, label: "Packing", value: "METHOD", heading: UPDATE, default: Some("lb-micro");
    /// collectives or on-demand, which lb-mini needs
    communication: CommunicationKey, label: "Communication", value: "HOW", heading: UPDATE,
        default: Some("collectives");
    /// Devices that share each sequence (Ulysses)
    sequence_parallel: u64, label: "Sequence parallelism (Ulysses)", value: "N", heading: UPDATE,
        default: Some("1");
    /// Activations that the backward computes again: full (of whole layers) or none
    recompute: RecomputeKey, label: "Recomputation", value: "WHAT", heading: UPDATE, default: Some("full");
    /// Rank of adapters on frozen weights (LoRA), on all products of layers: these alone are trained
    /// [default: no adapters]
    lora_rank: Option<u64>, label: "Rank of adapters (LoRA)", value: "N", heading: UPDATE;
    /// Forward and backward time of a sample on a device, instead of formulas: quadratic:A,B and more, as
    /// `debubble fsdp --cost` has them
    cost: Option<CostKey>, label: "Cost of a sample", value: "MODEL", heading: UPDATE;
    /// Pipeline stages of a replica
    pipeline: u64, label: "Pipeline stages", value: "N", heading: PIPELINES, default: Some("1");
    /// Tensor-parallel devices of a stage, which share activations too (sequence parallelism)
    train_tensor: u64, label: "Tensor parallelism of training", value: "N", heading: PIPELINES,
        default: Some("1");
    /// Context-parallel devices: those that share each sequence
    context: u64, label: "Context parallelism", value: "N", heading: PIPELINES, default: Some("1");
    /// Devices that share the experts of a layer
    expert: u64, label: "Expert parallelism", value: "N", heading: PIPELINES, default: Some("1");
    /// Devices that share each expert [default: as train-tensor]
    expert_tensor: Option<u64>, label: "Tensor parallelism of experts", value: "N", heading: PIPELINES;
    /// Order of passes in a pipeline: 1f1b, 1f1b-i (interleaved) or zb-h1
    schedule: OrderKey, label: "Schedule", value: "NAME", heading: PIPELINES, default: Some("1f1b");
    /// Chunks of layers on a stage of an interleaved pipeline [default: 2]
    chunks: Option<u64>, label: "Chunks of a stage", value: "N", heading: PIPELINES;
}

impl RlKeys {
    /// The keys in `text`, the file at `path`, whose paths are relative to its folder.
    pub fn of_text(context: &Context<'_>, path: &Path, text: &str) -> Result<Self, Diagnostic> {
        let mut keys: Self = file::of_text(context, path, text, InputKind::Question("rl"))?;
        keys.machine = keys.machine.map(|name| file::machine_beside(context, path, name));
        keys.model = keys.model.map(|name| file::beside(context, path, name));
        let folder = path.parent().unwrap_or(Path::new(""));
        keys.log = keys.log.map(|name| folder.join(name));
        keys.prompt_lengths.file_in(folder);
        keys.response_lengths.file_in(folder);
        Ok(keys)
    }
}
