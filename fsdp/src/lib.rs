//! Data-parallel post-training over FSDP: how the samples of a minibatch are packed into
//! microbatches, and what collectives or on-demand communication make of it (ODC, arXiv 2601.19362).
//!
//! Every device computes all layers for samples of its own, and owns a share of the parameters. With
//! collectives all devices meet at every layer of every microbatch, and each waits for the slowest;
//! with on-demand communication they pull parameters and push gradients point to point, and meet
//! once per minibatch.
//!
//! [`rl`] has a step of reinforcement learning around such training: rollouts by engines that generate,
//! log-probabilities, updates.
//!
//! A [`Packing`] assigns samples to devices and microbatches by one of the published [`Method`]s; a
//! [`Machine`] times it under a kind of [`Communication`]; a [`Study`] repeats both over many
//! minibatches whose [`Lengths`] are drawn.
//!
//! ```
//! use fsdp::{Communication, CostModel, Machine, Method, Packing};
//! use pipeline::Nanos;
//!
//! let lengths = [9_000, 1_000, 8_000, 2_000, 3_000, 3_000, 7_000, 6_000];
//! let model = CostModel::linear(Nanos(1_000))?;
//! let packing = Packing::new(Method::LocalSort, &lengths, 2, 10_000, model)?;
//! let times: Vec<Nanos> = lengths.iter().map(|&s| model.time(s)).collect::<Result<_, _>>()?;
//! let machine = Machine::new(2, 28)?;
//! let together = machine.step(&packing, &times, Communication::Collectives, 0)?;
//! let apart = machine.step(&packing, &times, Communication::OnDemand, 0)?;
//! assert!(apart.time <= together.time);
//! # Ok::<(), fsdp::FsdpError>(())
//! ```

mod collectives;
mod cost;
mod error;
mod lengths;
mod links;
mod on_demand;
mod packing;
mod partition;
pub mod rl;
mod step;
mod study;
mod work;

pub use cost::CostModel;
pub use error::FsdpError;
pub use lengths::{Lengths, Summary};
pub use links::{Buffers, Links, Nodes, PullLimit, Sharding};
pub use packing::{MAX_DEVICES, MAX_LENGTH, MAX_SAMPLES, Method, Packing};
pub use partition::equal_parts;
pub use step::{Communication, MAX_LAYERS, Machine, StepTimes};
pub use study::{MAX_MINIBATCHES, Study, Tally, Way};

#[cfg(test)]
mod tests;
