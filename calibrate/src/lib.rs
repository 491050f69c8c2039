//! Times the very kernels and links that the executor runs, and keeps what it found as a
//! [`Profile`](profile::Profile), from which the simulator predicts what the executor will do.
//!
//! Measuring ([`sample`](mod@sample)) is apart from what series of samples say
//! ([`profile::statistics`]), and both from what follows for a pipeline ([`profile::predict`]).

pub mod background_load;
pub mod baseline;
pub mod check;
mod clock;
pub mod handover;
pub mod kernels;
pub mod links;
pub mod machine;
pub mod measure;
pub mod sample;
