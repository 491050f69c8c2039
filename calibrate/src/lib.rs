//! Times the very kernels and links that the executor runs, and keeps what it found as a
//! [`Profile`], from which the simulator predicts what the executor will do.
//!
//! Measuring ([`sample`](mod@sample)) is apart from what series of samples say
//! ([`statistics`]), and both from what follows for a pipeline ([`costs`]).

pub mod background_load;
pub mod baseline;
pub mod check;
mod clock;
pub mod costs;
pub mod fit;
pub mod handover;
pub mod kernels;
pub mod links;
pub mod machine;
pub mod measure;
pub mod profile;
pub mod sample;
pub mod statistics;

pub use costs::{CostsError, Predicted, optimizer, predict};
pub use profile::{Profile, ProfileError};
