//! The target of a calibration: a core, a GPU, or one of its equal partitions.

use profile::{LinkKind, Machine};

use crate::ops::Ops;
use runtime::DeviceError;

/// The device, and the part of it, that is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetOptions {
    /// The number format of tensors: one of [`About::elements`](crate::About::elements).
    pub element: profile::Element,
    /// The number of the unit.
    pub unit: usize,
    /// Number of equal parts, one of which is timed; 1 for the whole unit.
    pub parts: usize,
}

/// A part of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Number of parts.
    pub parts: usize,
    /// Multiprocessors of each part.
    pub multiprocessors: u32,
    /// Multiprocessors of the device.
    pub of: u32,
}

/// The target of a calibration, and its own properties.
pub trait Target {
    /// Its kernels.
    type Ops: Ops + 'static;

    /// Kernels of one stage.
    fn ops(&self) -> Result<Self::Ops, DeviceError>;

    /// Kernels of the concurrent stages, by their number from 0.
    fn neighbours(
        &self,
    ) -> impl Fn(usize) -> Result<Self::Ops, DeviceError> + Clone + Send + 'static;

    /// Rows and columns of the product for its peak throughput, for a model of width `hidden`.
    fn peak(&self, hidden: usize) -> usize;

    /// Adds the properties of the target to `machine`.
    fn describe(&self, machine: Machine) -> Machine;

    /// Its memory in bytes; `None` where it uses that of the host.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// The part of a device that it is; `None` if it is a whole device.
    fn cut(&self) -> Option<Cut> {
        None
    }

    /// Whether it has links of `kind`, which only the device knows.
    fn has(&self, kind: LinkKind) -> bool {
        let _ = kind;
        false
    }

    /// Kernels of two neighbouring stages, the second on another device for
    /// [`LinkKind::Peer`].
    fn ends(&self, kind: LinkKind) -> Result<[Self::Ops; 2], DeviceError> {
        Err(no_link(kind))
    }

    /// A measurement of copies of `bytes` bytes to pinned host memory and back.
    fn host_copies(&self, bytes: usize) -> Result<Box<dyn HostCopy>, DeviceError> {
        let _ = bytes;
        Err(no_link(LinkKind::HostCopy))
    }
}

/// Copies between a device and pinned memory of the host.
pub trait HostCopy {
    /// Copies there and back. Returns the nanoseconds of each.
    fn time(&mut self) -> Result<[u64; 2], DeviceError>;
}

/// An operation on a target with any kernels.
pub trait WithTarget {
    /// The result of the operation.
    type Output;

    /// Runs the operation.
    fn run<T: Target>(self, target: &T) -> Self::Output;
}

fn no_link(kind: LinkKind) -> DeviceError {
    DeviceError::NotAtHand { what: format!("a link {}", kind.name()) }
}
