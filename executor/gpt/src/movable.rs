//! Buffers whose content can be copied to the host and back.

use std::any::Any;

use runtime::DeviceError;

/// The content of a part of a buffer, in host memory.
pub type OnHost = Box<dyn Any + Send>;

/// A buffer of a device whose first elements can be copied to the host, freed, and copied back, on
/// any thread.
pub trait Movable: Send {
    /// Number of elements.
    fn elements(&self) -> usize;

    /// Bytes of an element.
    fn element_bytes(&self) -> usize;

    /// Copies its first `count` elements to the host.
    fn copy_out(&self, count: usize) -> Result<OnHost, DeviceError>;

    /// Frees its first `count` elements, all of which have been copied.
    fn free(&mut self, count: usize) -> Result<(), DeviceError>;

    /// Allocates memory for the elements of `host` again, and copies them back in front of the
    /// rest.
    fn copy_back(&mut self, host: OnHost) -> Result<(), DeviceError>;
}
