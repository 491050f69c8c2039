//! Published figures beside ours.
pub mod accuracy;
