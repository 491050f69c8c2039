//! Sweeps on the disk: a journal that survives an interruption, the lock on it, and Parquet.

pub mod journal;
mod lock;
pub mod parquet;
pub mod preflight;
