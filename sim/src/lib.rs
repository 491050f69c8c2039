//! Predicts when the passes of a schedule run.
//!
//! [`Replay`] times an order under fixed costs and links that are never shared; [`timed`] does the
//! same where every pass and hop takes its own time. The [`engine`] runs a schedule on a
//! [`cluster`], where links are shared, memory is finite and steps follow each other.

pub mod boundary;
pub mod cluster;
pub mod engine;
mod network;
pub mod occupancy;
mod replay;
pub mod timed;

pub use network::Sharing;
pub use replay::Replay;
