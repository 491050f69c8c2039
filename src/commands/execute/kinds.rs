//! What a run may be chosen to have.

use clap::ValueEnum;

/// What computes the passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DeviceKind {
    /// Nothing: passes and hops take the times of the question, and stages, links and waits are real
    Timed,
    /// A GPT, on the cores of this machine
    Cpu,
    /// A GPT, on GPUs
    #[value(alias = "gpu")]
    Cuda,
}

/// How values travel between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Links {
    /// As bytes, by way of the hosts
    Tcp,
    /// From GPU to GPU by NCCL, a process for each GPU
    Nccl,
}

/// What a run is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Against {
    /// The model in one piece, in f64 on the CPU
    F64,
    /// The model in one piece, on the device and in the elements of the stages
    Device,
}
