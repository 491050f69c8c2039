//! Predicts when the passes of a schedule run.
//!
//! [`Replay`] times an order under fixed costs and links that are never shared; [`timed`] does the
//! same where every pass and hop takes its own time.

mod replay;
pub mod timed;

pub use replay::Replay;
