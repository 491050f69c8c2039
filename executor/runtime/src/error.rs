//! The errors of a device.

use pipeline::Bytes;
use thiserror::Error;

/// Why a device cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DeviceError {
    /// No GPU at all, or no driver of one.
    #[error("there is no GPU: {what} is missing: {cure}")]
    NoGpu {
        /// The part that is missing.
        what: String,
        /// The remedy.
        cure: String,
    },
    /// A device, a library or a version of a driver that is not there.
    #[error("{what} is missing: {cure}")]
    Missing {
        /// The part that is missing.
        what: String,
        /// The remedy.
        cure: String,
    },
    /// Memory that the device does not have.
    #[error("out of memory on {device}: {asked} more asked for, {free} free")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// How much was asked for at once.
        asked: Bytes,
        /// How much was left.
        free: Bytes,
    },
    /// A call into a driver or library that failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The function that was called.
        call: &'static str,
        message: String,
    },
    /// A value that a pass needs and that the caller never sent.
    #[error("{what} is not available")]
    NotAtHand {
        /// The value, or the kept activations of a pass.
        what: String,
    },
}
