//! The target of a calibration: a core, a GPU, or one of the equal parts that stages on it have.

use profile::{LinkKind, Machine};

use crate::ops::Ops;
use runtime::DeviceError;

/// Which device, and how much of it, is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetOptions {
    /// The number format of tensors: one of [`About::elements`](crate::About::elements).
    pub element: profile::Element,
    /// The number of the unit.
    pub unit: usize,
    /// One of how many equal parts of it; 1 for all of it.
    pub parts: usize,
}

/// A part of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// How many such parts there are.
    pub parts: usize,
    /// The multiprocessors of each.
    pub multiprocessors: u32,
    /// The multiprocessors of all of it.
    pub of: u32,
}

/// The target of a calibration, and what only it knows of itself.
pub trait Target {
    /// Its kernels.
    type Ops: Ops + 'static;

    /// Kernels of one stage.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn ops(&self) -> Result<Self::Ops, DeviceError>;

    /// Kernels of the stages that compute beside it, by their number from 0.
    fn neighbours(
        &self,
    ) -> impl Fn(usize) -> Result<Self::Ops, DeviceError> + Clone + Send + 'static;

    /// Rows and columns of the product that shows what it does at its best, for a model of width
    /// `hidden`.
    fn peak(&self, hidden: usize) -> usize;

    /// Adds to `machine` what is known of the target.
    fn describe(&self, machine: Machine) -> Machine;

    /// Its memory in bytes; `None` where it has that of the host.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Which part of a device it is, if it is not all of one.
    fn cut(&self) -> Option<Cut> {
        None
    }

    /// Whether it has links of `kind` that only the device knows.
    fn has(&self, kind: LinkKind) -> bool {
        let _ = kind;
        false
    }

    /// Kernels of two neighbouring stages, the second on another device for
    /// [`LinkKind::Peer`].
    ///
    /// # Errors
    /// Whatever stops the devices, or none of that `kind`.
    fn ends(&self, kind: LinkKind) -> Result<[Self::Ops; 2], DeviceError> {
        Err(no_link(kind))
    }

    /// A measurement that copies so many bytes to pinned memory of the host and back, and gives the
    /// nanoseconds of both ways.
    ///
    /// # Errors
    /// Whatever stops the device, or if it has no memory of its own.
    fn host_copies(&self, bytes: usize) -> Result<Box<dyn HostCopy>, DeviceError> {
        let _ = bytes;
        Err(no_link(LinkKind::HostCopy))
    }
}

/// Copies between a device and pinned memory of the host.
pub trait HostCopy {
    /// Copies there and back; the nanoseconds of each.
    ///
    /// # Errors
    /// Whatever stops the device.
    fn time(&mut self) -> Result<[u64; 2], DeviceError>;
}

/// An operation on a target, whatever its kernels.
pub trait WithTarget {
    /// The result of the operation.
    type Output;

    /// Does it.
    fn run<T: Target>(self, target: &T) -> Self::Output;
}

fn no_link(kind: LinkKind) -> DeviceError {
    DeviceError::NotAtHand { what: format!("a link {}", kind.name()) }
}
