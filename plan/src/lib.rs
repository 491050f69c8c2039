//! Which set-up trains a model on which machines: how long a step takes, what it holds, what the
//! training costs.
//!
//! A [`Transformer`] and a [`Setup`] on a [`Cluster`] make the costs of a pipeline problem by
//! formulas whose constants were fitted to published measurements; its order is made and timed by
//! the same rooms as every other question. No file and no clock in here.
#![allow(clippy::doc_markdown)] // Names of models and symbols of papers.

mod bound;
mod costed;
mod costing;
mod cut;
mod evaluate;
mod finalist;
mod goodput;
mod inputs;
mod kind;
mod layer;
mod layout;
mod limits;
mod machine;
mod memory;
mod model;
mod noise;
mod orders;
mod room;
mod search;
mod setup;
mod shards;
mod space;
mod split;
mod times;

pub use costed::{Costed, Overflow, Rejected};
pub use cut::{Cut, Loss};
pub use evaluate::Evaluation;
pub use finalist::{Finalist, FinalistError};
pub use goodput::Failures;
pub use inputs::Inputs;
pub use kind::{Kind, Reach, Sharding};
pub use layer::{LayerTimes, head, layer};
pub use layout::Layout;
pub use machine::{Efficiency, Machine, Measured, Price, Reliability, all_reduce, gathered};
pub use memory::{Parameters, Share, StageMemory, footprint, resident};
pub use model::{
    Attention, Biases, Experts, ModelError, Norm, Recompute, Sizes, Transformer, number,
};
pub use noise::{Noise, NoiseError, SlowDevice, Straggler, drawn, percentiles, percentiles_with};
pub use orders::Orders;
pub use room::Room;
pub use search::{
    Found, NO_MEMORY, NOT_RUN, PRUNED, STOPPED, Watch, run_with, search, search_with,
};
pub use setup::{Boundary, Cluster, Recipe, Setup, Split, Unfit, Zero, check};
pub use space::{MAX_SETUPS, Space};
pub use times::{Times, nanos};

#[cfg(test)]
mod tests;
