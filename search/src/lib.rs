//! The best order of passes for a pipeline under a memory limit.

#![forbid(unsafe_code)]

mod instance;

pub use instance::{Instance, Objective};
