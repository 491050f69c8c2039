//! Workers, and how they are named.

use std::fmt;

/// A worker: the devices of one stage of one data-parallel pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Worker {
    /// Its pipeline, from 0.
    pub pipeline: u32,
    /// Its stage, from 0.
    pub stage: u32,
}

impl fmt::Display for Worker {
    /// Prints `PIPELINE.STAGE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pipeline, self.stage)
    }
}
