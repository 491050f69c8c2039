//! Predicts when the passes of a schedule run.
//!
//! [`Replay`] times an order under fixed costs and links that are never shared; [`timed`] does the
//! same where every pass and hop takes its own time, as under the noise of [`straggler`]. The
//! [`engine`] runs a schedule on a [`cluster`], where links are shared, memory is finite and steps
//! follow each other. [`monte_carlo`] says what to expect over many draws of the noise, and
//! [`explain`] why stages wait.

pub mod boundary;
pub mod cluster;
pub mod engine;
pub mod explain;
mod host_copy;
pub mod monte_carlo;
mod network;
pub mod occupancy;
mod replay;
pub mod straggler;
pub mod timed;

pub use host_copy::HostCopy;
pub use network::Sharing;
pub use replay::Replay;
