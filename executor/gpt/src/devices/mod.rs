//! Devices that stages run on: their properties, selection and interface.

mod cuda;
mod timed;

use std::fmt;

use profile::Element;
use runtime::{DeviceError, Overheads};
use thiserror::Error;

use crate::execution::{Executed, Execution, ExecutionError};
use crate::transport::Transport;

pub use cuda::{CUDA, CUDA_TIMED, QUEUES};
pub use timed::{Clock, TIMED};

/// The facts of a kind of device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct About {
    /// The name by which it is selected.
    pub name: &'static str,
    /// An alias of the name.
    pub alias: Option<&'static str>,
    /// The work of passes there, for the help of `debubble execute`.
    pub runs: &'static str,
    /// The subject of measurements there, for the help of `debubble calibrate`; `None` where there is nothing to time.
    pub is_timed: Option<&'static str>,
    /// The name in results of a device without its own name.
    pub title: &'static str,
    /// The number formats that tensors may have, the default first; empty where nothing is computed.
    pub elements: &'static [Element],
    /// How values may travel between processes, the default first.
    pub transports: &'static [Transport],
    /// Whether stages use cores and memory of the host.
    pub is_host: bool,
    /// Whether there are numbered units, which can be selected, partitioned and shared.
    pub has_units: bool,
    /// An environment variable that its driver reads when the program starts, and its value for a pipeline.
    pub variable: Option<(&'static str, &'static str)>,
}

/// Which devices of a kind are opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number format of tensors: one of [`About::elements`].
    pub element: Element,
    /// The numbers of the units, in the order in which stages are assigned to them; all if empty.
    pub units: Vec<usize>,
    /// Whether stages may share a unit that cannot be partitioned.
    pub may_share: bool,
}

/// Why devices cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    /// A kind of device that is not built in.
    #[error("this debubble was built without {what}")]
    NotBuilt {
        /// The feature that it was built without.
        what: &'static str,
        /// The remedy.
        cure: &'static str,
    },
    /// A device, driver or library that is missing or fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A unit that does not exist.
    #[error("there is no GPU {unit}: there are {units}")]
    NoUnit {
        /// Its number.
        unit: usize,
        /// Number of units.
        units: usize,
    },
    /// A partition of a unit into no parts.
    #[error("a device cannot be cut into 0 parts")]
    NoParts,
    /// A unit that cannot be partitioned into so many parts.
    #[error("{error}")]
    Uncut {
        /// The error of the device.
        error: DeviceError,
        /// Number of parts.
        parts: usize,
    },
    /// A kind of device without anything to time.
    #[error("there is nothing to time: passes take the given times")]
    NothingToTime,
    /// A unit that is named twice.
    #[error("GPU {unit} is named twice")]
    Twice {
        /// Its number.
        unit: usize,
    },
}

/// Opened devices of one kind.
pub trait Devices: fmt::Debug {
    /// The name, in profiles, of the device that computes a stage.
    fn name(&self) -> &str;

    /// Whether a profile that was measured on `device` is of one of these devices.
    fn is_named(&self, device: &str) -> bool {
        device == self.name()
    }

    /// The most of `stages` stages that compute concurrently on their shared resources.
    fn side_by_side(&self, stages: usize) -> usize;

    /// The host's overhead for `stages` stages of one process; `None` where passes run on the host.
    fn overheads(&self, stages: usize) -> Result<Option<Overheads>, ExecutionError> {
        let _ = stages;
        Ok(None)
    }

    /// Runs the stages of this process.
    fn execute(&self, execution: &Execution) -> Result<Executed, ExecutionError>;
}
