//! Data-parallel training whose parameters are divided among devices: with collectives, for which all
//! devices meet at every layer, or with on-demand communication (ODC, arXiv 2601.19362), where devices
//! pull parameters from their owners and push gradients to them, and meet once a minibatch.
//!
//! Every device is a process, or a thread of its own, with connections to all others. A [`Plan`] says
//! which samples each of them computes, in which microbatches; [`join`] does the work of one device among
//! the others, [`serial`] that of all of them in one piece. Gradients travel and are summed up as whole
//! numbers of 2^-40, so that no order of summing them changes a weight: both kinds of communication, any
//! packing and the serial run end with the same bits.

mod device;
mod failure;
mod mesh;
mod owner;
mod plan;
mod serial;
mod step;
#[cfg(test)]
mod tests;
mod units;
mod wire;

pub use device::{MeasuredRun, StepTimes, join};
pub use failure::Failure;
pub use plan::{Communication, MAX_DEVICES, Minibatch, Plan, PlanError};
pub use serial::{Serial, serial};
