//! Fully sharded data-parallel training (FSDP): with collectives, in which all devices synchronize
//! at every layer, or with on-demand communication (ODC, arXiv 2601.19362), where devices pull
//! parameters from their owners and push gradients to them, and synchronize once a minibatch.
//!
//! Every device is a process, or a thread of its own, with connections to all others. A [`Plan`]
//! assigns samples to devices and microbatches; [`join`] runs one device among the others,
//! [`serial()`] the whole run on one device. Gradients are sent and accumulated as integers in units
//! of 2^-40, so that the order of additions changes no weight: both kinds of communication, any
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
