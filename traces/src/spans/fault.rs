//! Why spans of OpenTelemetry are not the passes of a pipeline.

use thiserror::Error;

/// The flags that make Megatron-LM export what is read.
const EXPORT: &str =
    "MEGATRON_OTEL_SPAN_GROUPS=per_step,microbatch MEGATRON_OTEL_EXPORT_STRATEGY=all_ranks";

/// The reason why spans of OpenTelemetry are not read as the steps of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpanFault {
    /// No span of a pass.
    #[error(
        "it has spans of OpenTelemetry, but no megatron.microbatch.forward and .backward in a \
         megatron.train.iteration ({skipped} are something else): export them with {EXPORT}"
    )]
    NoPasses {
        /// Spans of something else.
        skipped: usize,
    },
    /// No pipeline all of whose ranks have spans.
    #[error(
        "spans of {given} of the {world} ranks of the run are there, with no whole pipeline of {stages}: \
         export those of all ranks with {EXPORT}, and give all files in one go"
    )]
    Ranks { given: usize, world: u32, stages: u32 },
    /// Sizes that do not divide the number of ranks.
    #[error(
        "{world} ranks are not {replicas} replicas of pipelines of {stages}: dl.world_size, \
         dl.data_parallel.size and dl.pipeline_parallel.size disagree"
    )]
    Sizes { world: u32, replicas: u32, stages: u32 },
    /// Spans of two runs, or of one run whose sizes changed.
    #[error(
        "it has spans of several runs, {first:?} and {other:?}, or of a run whose sizes changed: keep those \
         of one nemo.run.id"
    )]
    Runs { first: String, other: String },
    /// A step that a rank did twice, as after a restart.
    #[error(
        "rank {rank} has step {step} twice, as after a restart: keep the spans of one of the two"
    )]
    StepTwice { rank: u32, step: u64 },
    /// No step with all its passes on all ranks.
    #[error(
        "no step has all its passes on all ranks, the same number on each: rank {rank} has {forwards} forward and \
         {backwards} backward passes of {microbatches} microbatches in step {step}; a full queue drops spans: \
         raise OTEL_BSP_MAX_QUEUE_SIZE"
    )]
    NoWholeStep { rank: u32, step: u64, forwards: usize, backwards: usize, microbatches: u32 },
    /// An order of passes that Megatron-core does not run.
    #[error(
        "in step {step}, rank {rank} runs {first} forward passes before its first backward pass, which is \
         no order of Megatron-core's 1F1B or interleaved 1F1B with {stages} stages, {chunks} chunks per \
         stage and {microbatches} microbatches: nothing says which passes these are"
    )]
    Order {
        rank: u32,
        step: u64,
        /// Forward passes before the first backward pass.
        first: usize,
        stages: u32,
        /// Chunks of a stage.
        chunks: u32,
        microbatches: u32,
    },
}
