//! Why the passes of a trace that names none cannot be inferred.

use thiserror::Error;

/// The reason why the passes of a trace of `torch.profiler` that names none cannot be inferred.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NotInferred {
    /// No node that autograd evaluates.
    #[error(
        "rank {rank} has no nodes of autograd (autograd::engine::evaluate_function) whose operators are in \
         the trace; they need ProfilerActivity.CPU"
    )]
    NoAutograd { rank: u32 },
    /// No message to or from another rank.
    #[error("rank {rank} has no sends and receives between its passes (c10d::send, c10d::recv_)")]
    NoSends { rank: u32 },
    /// A forward pass with messages inside it.
    #[error("rank {rank} has messages inside a forward pass, which may be two")]
    Pieces { rank: u32 },
    /// A backward pass in more parts than B and W.
    #[error("rank {rank} has a backward pass in {parts} parts, which are more than B and W")]
    Parts {
        rank: u32,
        /// Number of parts.
        parts: usize,
    },
    /// Values of one kind that go to two ranks.
    #[error(
        "rank {rank} sends {value} to rank {} and to rank {}: stages are not a chain", peers[0], peers[1]
    )]
    Peers {
        rank: u32,
        /// Outputs or gradients.
        value: &'static str,
        /// The ranks that it sends to.
        peers: [u32; 2],
    },
    /// Several values at once, of which nothing says whose they are.
    #[error("rank {rank} sends several values at once, and the trace does not say of which passes")]
    Senders { rank: u32 },
    /// A pass without a kernel in a trace with kernels.
    #[error("rank {rank} has a pass that launches no kernel, as in CUDA graphs")]
    NoKernels { rank: u32 },
    /// Ranks that are not a chain of stages.
    #[error("by what they send, the ranks are not pipelines from a first to a last stage")]
    Ranks,
    /// Passes that make no whole steps.
    #[error(
        "rank {rank} has {passes} forward passes in {steps} steps; torch.profiler marks steps where \
         its step() is called"
    )]
    Steps {
        rank: u32,
        /// Number of forward passes.
        passes: usize,
        /// Number of steps.
        steps: usize,
    },
    /// Values that do not go from stage to stage in the same order.
    #[error(
        "in step {step}, values do not go from rank to rank in one order, as in 1F1B and interleaved 1F1B"
    )]
    Chain { step: u64 },
    /// Some files of the run name passes.
    #[error("other files of the run name theirs")]
    SomeNamed,
}
