//! Runs a schedule for real: one worker per stage runs its passes in order on a real device, sends
//! values to other stages over links, and measures when every pass ran and what it waited for. The
//! parts are crates: `runtime` runs workers, `gpt` trains a model on them, `cuda` has its kernels
//! for NVIDIA GPUs.
//!
//! A [`Worker`] computes the passes of one stage; its kernels are the [`Ops`] of a device. Neither
//! knows the schedule: the order and the transfers between stages come from crate `pipeline` alone.
//! [`run()`] runs all stages as threads of one process, [`join`] the stages of one process among
//! several. [`Gpt`] trains a transformer on such workers, [`Reference`] is the same model without a
//! pipeline, to check it against, and [`Timed`] is a worker whose passes take their time and
//! compute nothing. A [`Backend`] is a kind of device: it opens [`Devices`], which run an
//! [`Execution`], training and comparison with the serial reference included, and the [`Target`]
//! whose kernels are timed for a profile.
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
// Running on devices needs clocks, library files, sockets and environment variables.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod backend;

pub use backend::Backend;
#[cfg(feature = "cuda")]
pub use cuda;
pub use gpt::*;
pub use runtime::*;
