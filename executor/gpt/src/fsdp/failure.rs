//! Why a run ended early.

use std::time::Duration;

use thiserror::Error;

use runtime::DeviceError;
use runtime::RendezvousError;

/// Why a run failed: the first cause that a device has learned of.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Failure {
    /// A failed rendezvous.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A device error.
    #[error("device {rank}: {error}")]
    Device {
        rank: usize,
        /// The error that stopped it.
        error: DeviceError,
    },
    /// A gradient that is NaN, infinite, or 2^20 and more.
    #[error(
        "device {rank}: a gradient of minibatch {minibatch} is not a number, or too large to be summed"
    )]
    Gradient {
        /// The device that computed it.
        rank: usize,
        /// The minibatch, from 0.
        minibatch: u32,
    },
    /// A disconnected device.
    #[error("device {rank} is lost: {what}")]
    Lost {
        rank: usize,
        /// The symptom.
        what: String,
    },
    /// A device that violated the protocol.
    #[error("device {rank} is out of order: {what}")]
    OutOfOrder {
        rank: usize,
        /// The violation.
        what: String,
    },
    /// A timeout.
    #[error("device {rank} waited {timeout:?} for {what} from devices {from:?} in vain")]
    Stuck {
        /// The device that waited.
        rank: usize,
        /// The value it waited for.
        what: String,
        /// The devices that did not send it.
        from: Vec<usize>,
        /// Time waited.
        timeout: Duration,
    },
    /// A device that stopped and reported the reason.
    #[error("device {rank} stopped: {message}")]
    Elsewhere {
        rank: usize,
        /// The reason.
        message: String,
    },
    /// A thread that could not be started.
    #[error("device {rank} cannot start a thread: {message}")]
    Thread {
        rank: usize,
        /// The message of the system.
        message: String,
    },
}
