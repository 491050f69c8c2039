//! Predicts when the passes of a schedule run.
//!
//! [`Replay`] times an order under fixed costs and links that are never shared.

mod replay;

pub use replay::Replay;
