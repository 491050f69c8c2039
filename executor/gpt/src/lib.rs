//! A GPT that is trained on the stages of a pipeline.
//!
//! [`Gpt`] computes the passes of one stage with the kernels of a device, its [`Ops`];
//! [`Reference`] is the same model on one device, the reference for tests. An [`Execution`] trains
//! on [`Devices`], whose properties are here; a [`Target`] is the device whose kernels are timed
//! for a profile.
// Running on devices needs clocks, library files, sockets and environment variables.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod cpu;
mod data;
mod devices;
mod direct_ops;
mod execution;
pub mod fsdp;
mod model;
mod movable;
mod operands;
mod ops;
mod random;
mod reference;
mod segment_kernels;
mod stale;
mod target;
mod transport;

pub use cpu::backend::{CPU, Core, Cores, F32_TOLERANCE, ONE_CORE, links};
pub use cpu::{Cpu, Real};
pub use data::{Batch, Batches, DataError, Random, Text};
pub use devices::{About, CUDA, CUDA_TIMED, Clock, Devices, OpenError, Options, QUEUES, TIMED};
pub use direct_ops::DirectOps;
pub use execution::{
    Against, Check, Executed, Execution, ExecutionError, Joins, Seen, Task, Watched,
};
pub use model::{
    Activations, Backwarded, Buffer, BuildError, Device, Embedding, Forwarded, Gpt, Head,
    HeadBackwarded, HeadForwarded, Layer, Layout, Model, ModelError, Parameters, Recomputed,
    ShardOps, ShardSizes, Training, footprints, initial, kept, needs, reference_needs,
};
pub use movable::{Movable, OnHost};
pub use operands::{At, Gemm, Heads};
pub use ops::{AdamW, Moments, Ops};
pub use reference::Reference;
pub use segment_kernels::SegmentKernels;
pub use stale::Stale;
pub use target::{Cut, HostCopy, Target, TargetOptions, WithTarget};
pub use transport::Transport;
