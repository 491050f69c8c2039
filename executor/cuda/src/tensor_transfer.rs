//! How tensors come and go.
#![allow(unsafe_code)] // calls into the driver

use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::Event;
use super::element::Element;
use super::memory::Buffer;
use super::stage::Cuda;
use runtime::DeviceError;

/// A tensor on its way to another stage, and the event behind which it is ready.
#[derive(Debug)]
pub struct TensorTransfer<E> {
    pub(crate) tensor: Buffer<E>,
    pub(crate) ready: Event,
}

impl<E: Element> Cuda<E> {
    /// A mark behind `tensor`.
    pub(crate) fn send_tensor(&self, tensor: Buffer<E>) -> Result<TensorTransfer<E>, DeviceError> {
        self.gpu.bind()?;
        Ok(TensorTransfer { ready: self.compute.queue.mark(&self.gpu, false)?, tensor })
    }

    /// A buffer to land in on the second stream, not before its last use is over.
    pub(crate) fn receive_buffer(&self, len: usize) -> Result<Buffer<E>, DeviceError> {
        Buffer::receive_buffer(&self.gpu, len, self.transfer.queue)
    }

    /// Takes what was handed on: as it is on the same GPU, else a copy made beside the kernels.
    pub(crate) fn receive_tensor(
        &self,
        transfer: TensorTransfer<E>,
    ) -> Result<Buffer<E>, DeviceError> {
        let TensorTransfer { mut tensor, ready } = transfer;
        self.gpu.bind()?;
        if Arc::ptr_eq(tensor.memory.gpu(), &self.gpu) {
            self.compute.queue.wait_for(&ready)?;
            tensor.memory.take_by(self.compute.queue);
            return Ok(tensor);
        }
        self.gpu.reach(tensor.memory.gpu())?;
        let mut here = self.receive_buffer(tensor.len())?;
        let (queue, bytes) = (self.transfer.queue, tensor.memory.bytes());
        queue.wait_for(&ready)?;
        if bytes > 0 {
            let (to, from) = (here.memory.address(), tensor.memory.address());
            let theirs = tensor.memory.gpu().context;
            // SAFETY: both buffers have this many bytes, each of its GPU; the source is not used
            // again before the mark below.
            driver("cuMemcpyPeerAsync", unsafe {
                cu::cuMemcpyPeerAsync(to, self.gpu.context, from, theirs, bytes, queue.raw)
            })?;
        }
        tensor.memory.keep_until(queue.mark(&self.gpu, false)?);
        self.compute.queue.wait_for(&queue.mark(&self.gpu, false)?)?;
        here.memory.take_by(self.compute.queue);
        Ok(here)
    }

    /// Lets kernels begun from now on wait until `transfer` is made, on whatever GPU.
    pub(crate) fn wait_for_value(&self, transfer: &TensorTransfer<E>) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        self.compute.queue.wait_for(&transfer.ready)
    }

    /// The bytes of what was handed on, copied beside the kernels.
    pub(crate) fn packed(&self, transfer: &TensorTransfer<E>) -> Result<Vec<u8>, DeviceError> {
        self.transfer.queue.wait_for(&transfer.ready)?;
        self.download(&transfer.tensor, &self.transfer)
    }

    /// The inverse.
    pub(crate) fn unpacked(&mut self, bytes: &[u8]) -> Result<TensorTransfer<E>, DeviceError> {
        if !bytes.len().is_multiple_of(E::BYTES) {
            return Err(failed("unpack", format!("{} bytes are not whole elements", bytes.len())));
        }
        let tensor = self.receive_buffer(bytes.len() / E::BYTES)?;
        let queue = self.transfer.queue;
        // SAFETY: the buffer has just this size.
        unsafe { self.copy_up(queue, bytes, tensor.memory.address())? };
        Ok(TensorTransfer { ready: queue.mark(&self.gpu, false)?, tensor })
    }
}
