//! The best order of passes for a pipeline under a memory limit.

#![forbid(unsafe_code)]

pub mod bounds;
mod instance;

pub use instance::{Instance, Objective};
