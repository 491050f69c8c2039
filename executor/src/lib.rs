//! Makes a timeline happen: one worker per stage runs the passes of a schedule, in its order, on
//! real devices, hands values on over links, and measures when every pass ran and what it waited
//! for.
//!
//! A [`Worker`] computes the passes of one stage. What it computes with are [`Ops`], the kernels of
//! a device. Neither knows the schedule: the order, and who hands what to whom, come from
//! [`pipeline`] alone.

#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod model;
mod ops;
mod record;
mod worker;

pub use error::DeviceError;
pub use model::{Model, ModelError};
pub use ops::{AdamW, At, Gemm, Heads, Moments, Ops};
pub use record::{Measured, Measurement, Step};
pub use worker::{Norm, Trainer, Wire, Worker};
