//! Kernels whose values go to other processes from device to device, without the host.

use std::time::Duration;

use runtime::{DeviceError, Direct, Wire};

use crate::model::Gpt;
use crate::ops::Ops;

/// Kernels that send and receive tensors themselves, as NCCL does: both ends take part in every
/// transfer.
pub trait DirectOps: Ops {
    /// A unique id of the communicator (as of `ncclGetUniqueId`): one stage makes it, and all of
    /// them join by it.
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError>;

    /// Joins the `ranks` stages that have the unique id `name`, as rank `rank`. Waits for each at
    /// most `timeout`.
    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<(), DeviceError>;

    /// Begins all transfers as one group: sends to ranks, and a tensor of `len` elements from each
    /// rank of `from`. Returns the received tensors in order; they may still be in transfer.
    fn exchange(
        &mut self,
        sends: Vec<(usize, Self::Transfer)>,
        from: &[usize],
        len: usize,
    ) -> Result<Vec<Self::Transfer>, DeviceError>;
}

impl<O: DirectOps> Direct for Gpt<O> {
    fn unique_id(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.ops_mut().unique_id()
    }

    fn join(
        &mut self,
        name: &[u8],
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        self.ops_mut().join(name, rank, ranks, timeout)
    }

    fn exchange(
        &mut self,
        sends: Vec<(usize, Self::Value)>,
        from: &[usize],
    ) -> Result<Vec<Self::Value>, DeviceError> {
        let bytes = self.value_bytes();
        let ops = self.ops_mut();
        let len = bytes / ops.element_bytes();
        ops.exchange(sends, from, len)
    }
}
