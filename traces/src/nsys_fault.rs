//! Why a report of Nsight Systems is not read.

use thiserror::Error;

/// The most bytes of a line, but for that of the table.
pub(crate) const MAX_LINE: usize = 1 << 20;
/// The most texts of a table.
pub(crate) const MAX_TEXTS: usize = 1 << 20;

/// The reason why a report of Nsight Systems is not read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NsysFault {
    /// A line that no report has.
    #[error(
        "line {line} has {bytes} bytes: no event of Nsight Systems has more than {MAX_LINE}; export the report again"
    )]
    LongLine { line: usize, bytes: usize },
    /// A text in no table.
    #[error(
        "line {line} names text {text}, which is not in the table `data` above it: export the report again \
         with `nsys export --type jsonlines --separate-strings false`"
    )]
    NoText { line: usize, text: i64 },
    /// More texts than are taken.
    #[error("line {line}: a table of more than {MAX_TEXTS} texts: record fewer steps")]
    ManyTexts { line: usize },
    /// No range that names a pass.
    #[error(
        "it is a report of Nsight Systems without NVTX ranges of named passes: record with `nsys profile \
         --trace=cuda,nvtx`, and name passes with torch.cuda.nvtx.range(\"PP:<chunk>F<microbatch>\"), B, or I and W"
    )]
    NoPasses,
    /// Kernels without the calls that launch them.
    #[error(
        "its kernels have no calls that launch them (TraceProcessEvent): record with `nsys profile --trace=cuda,nvtx`"
    )]
    NoLaunches,
    /// A pass without a kernel.
    #[error(
        "line {line}: the pass {name} launches no kernel, as in CUDA graphs: its time on the GPU is not known"
    )]
    NoKernels { line: usize, name: String },
    /// Several reports.
    #[error(
        "times of a report of Nsight Systems count from its own begin: profile all ranks of the run in one, as \
         with `nsys profile torchrun ..` on one machine"
    )]
    Several,
}
