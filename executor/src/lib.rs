//! Makes a timeline happen: one worker per stage runs the passes of a schedule, in its order, on
//! real devices, hands values on over links, and measures when every pass ran and what it waited
//! for.
//!
//! A [`Worker`] computes the passes of one stage. What it computes with are [`Ops`], the kernels of
//! a device. Neither knows the schedule: the order, and who hands what to whom, come from
//! [`pipeline`] alone.
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod backend;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda/absent.rs"]
mod cuda;
mod data;
mod error;
mod execution;
mod measured;
mod model;
mod ops;
mod random;
mod reference;
mod run;
mod target;
mod worker;

pub use backend::{About, Backend, Devices, OpenError, Options, Transport};
pub use cpu::backend::ONE_CORE;
pub use cpu::{Cpu, Real};
pub use data::{Batch, Batches, DataError, Random, Text};
pub use error::DeviceError;
pub use execution::{Against, Check, Executed, Execution, ExecutionError, Task};
pub use measured::Measured;
pub use model::{
    Activations, Backwarded, Buffer, BuildError, Device, Embedding, Forwarded, Gpt, Head,
    HeadBackwarded, HeadForwarded, Layer, Layout, Model, ModelError, Parameters, Training, Undo,
    footprints, initial, needs, reference_needs,
};
pub use ops::{AdamW, At, Gemm, Heads, Moments, Ops};
pub use reference::Reference;
pub use run::{
    Awaited, Boundary, Chain, Doing, Failure, Launch, LaunchError, MAX_MEASURED, MAX_PATIENCE,
    Meeting, MeetingError, Plan, PlanError, Post, Sighting, Timed, Transfers, Way, join,
    join_directly, run,
};
pub use target::{Cut, HostCopy, Target, TargetOptions, WithTarget};
pub use worker::{Direct, Norm, Trainer, Wire, Worker};
