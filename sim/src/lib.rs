//! Predicts when the passes of a schedule run.
//!
//! A [`Simulation`] holds a schedule with its costs, its [`Hardware`] and its noise, and knows which
//! clock times it; a [`Study`] is what one run of it comes to. [`Replay`] times an order under fixed
//! costs and links that are never shared; [`timed`] does the same where every pass and hop takes its own
//! time, as under the noise of [`straggler`]. The [`engine`] runs a schedule on a [`cluster`], where
//! links are shared, memory is finite and steps follow each other. [`monte_carlo`] says what to expect
//! over many draws of the noise, [`explain`] why stages wait, and [`levers`] what changes would be
//! worth.

pub mod boundary;
pub mod cluster;
mod copies;
pub mod engine;
pub mod explain;
mod hardware;
pub mod levers;
pub mod monte_carlo;
mod network;
pub mod occupancy;
mod replay;
mod simulation;
pub mod straggler;
pub mod timed;

pub use copies::HostCopy;
pub use hardware::Hardware;
pub use network::Sharing;
pub use replay::Replay;
pub use simulation::{EngineRuns, FasterLinks, Kept, Simulation, SimulationError, Study, Wants};
