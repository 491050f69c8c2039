//! Why a run ended before its time.

use std::time::Duration;

use thiserror::Error;

use runtime::DeviceError;
use runtime::RendezvousError;

/// Why a run came to nothing: the first cause, as far as a device could hear of it.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Failure {
    /// Devices that did not come together.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A device that could not go on.
    #[error("device {rank}: {error}")]
    Device {
        /// Its rank.
        rank: usize,
        /// The error that stopped it.
        error: DeviceError,
    },
    /// A gradient that is NaN, infinite, or 2^20 and more.
    #[error(
        "device {rank}: a gradient of minibatch {minibatch} is no number, or too large to be summed"
    )]
    Gradient {
        /// The device that computed it.
        rank: usize,
        /// The minibatch, from 0.
        minibatch: u32,
    },
    /// A device that is gone.
    #[error("device {rank} is lost: {what}")]
    Lost {
        /// Its rank.
        rank: usize,
        /// How it was seen.
        what: String,
    },
    /// A device that sent what it should not have.
    #[error("device {rank} is out of order: {what}")]
    OutOfOrder {
        /// Its rank.
        rank: usize,
        /// Its message.
        what: String,
    },
    /// Devices that were waited for too long.
    #[error("device {rank} waited {timeout:?} for {what} from devices {from:?} in vain")]
    Stuck {
        /// The device that waited.
        rank: usize,
        /// The value it waited for.
        what: String,
        /// The devices that did not send it.
        from: Vec<usize>,
        /// How long it waited.
        timeout: Duration,
    },
    /// A device that stopped and said why.
    #[error("device {rank} stopped: {message}")]
    Elsewhere {
        /// Its rank.
        rank: usize,
        /// Its words.
        message: String,
    },
    /// A thread that could not be started.
    #[error("device {rank} cannot start a thread: {message}")]
    Thread {
        /// Its rank.
        rank: usize,
        /// The message of the system.
        message: String,
    },
}
