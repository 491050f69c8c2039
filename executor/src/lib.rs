//! Runs a schedule for real: one worker per stage runs its passes in order on a real device, hands
//! values to other stages over links, and measures when every pass ran and what it waited for.
//!
//! A [`Worker`] computes the passes of one stage; its kernels are the [`Ops`] of a device. Neither
//! knows the schedule: the order, and which stage hands which value to which, come from crate
//! `pipeline` alone. [`run()`] runs all stages as threads of one process, [`join`] the stages of one
//! process among several. [`Gpt`] trains a transformer on such workers, [`Reference`] the same one in
//! one piece to check it against, and [`Timed`] is a worker that only takes its time.
//! A [`Backend`] is a kind of device: it opens [`Devices`], which run an [`Execution`], training and
//! comparison with the serial reference included, and the [`Target`] whose kernels are timed for a
//! profile.
//!
//! ```
//! use std::sync::Arc;
//!
//! use executor::{Plan, Timed, run};
//! use pipeline::{Costs, Family, Metrics, Nanos, PassTimes, Problem, Shape};
//!
//! let shape = Shape::new(2, 1, 4)?;
//! let us = Nanos(100_000);
//! let times = PassTimes::new(us, us, us);
//! let costs = Costs::uniform(shape, times, Nanos(0));
//! let schedule = Family::OneFOneB.schedule(&Problem::new(shape, costs.clone())?)?;
//! let worker = Timed::new(Arc::new(costs));
//! let measured = run(&Plan::new(schedule, 1)?, move |_| Ok(worker.clone()))?;
//! let makespan = Metrics::of(&measured.steps[0].timeline()).makespan();
//! assert!(makespan >= Nanos(1_500_000)); // (m + p - 1)(F + B + W)
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
// Running on devices takes clocks, files of libraries, sockets and the environment.
#![allow(clippy::disallowed_methods)]
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
pub mod fsdp;
mod measured;
mod model;
mod ops;
mod random;
mod reference;
mod run;
mod segment_kernels;
mod stale;
mod target;
mod worker;

pub use backend::{About, Backend, Devices, OpenError, Options, Transport};
pub use cpu::backend::ONE_CORE;
pub use cpu::{Cpu, Real};
pub use data::{Batch, Batches, DataError, Random, Text};
pub use error::DeviceError;
pub use execution::{Against, Check, Executed, Execution, ExecutionError, Task};
pub use measured::{HostBound, Measured, MeasuredCopy, Overheads};
pub use model::{
    Activations, Backwarded, Buffer, BuildError, Device, Embedding, Forwarded, Gpt, Head,
    HeadBackwarded, HeadForwarded, Layer, Layout, Model, ModelError, Movable, OnHost, Parameters,
    Recomputed, ShardOps, ShardSizes, Training, Undo, Updates, Versions, footprints, initial, kept,
    needs, reference_needs,
};
pub use ops::{AdamW, At, Gemm, Heads, Moments, Ops};
pub use reference::Reference;
pub use run::{
    Awaited, Boundary, Chain, Doing, Failure, Launch, LaunchError, MAX_MEASURED, MAX_PATIENCE,
    Meeting, MeetingError, Plan, PlanError, PlannedCopy, Post, Sighting, Timed, Transfers, Way,
    free_ports, join, join_directly, run, run_until,
};
pub use segment_kernels::SegmentKernels;
pub use stale::Stale;
pub use target::{Cut, HostCopy, Target, TargetOptions, WithTarget};
pub use worker::{Direct, Norm, Offload, Trainer, Wire, Worker};
