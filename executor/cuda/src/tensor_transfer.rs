//! Transfers of tensors between stages of a process, and to and from bytes.
#![allow(unsafe_code)] // calls into the driver

use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::Event;
use super::element::Element;
use super::memory::Buffer;
use super::stage::Cuda;
use runtime::DeviceError;

/// A tensor in transfer to another stage, and the event after which it is ready.
#[derive(Debug)]
pub struct TensorTransfer<E> {
    pub(crate) tensor: Buffer<E>,
    pub(crate) ready: Event,
}

impl<E: Element> Cuda<E> {
    /// Releases `tensor` with an event after the kernels enqueued so far.
    pub(crate) fn send_tensor(&self, tensor: Buffer<E>) -> Result<TensorTransfer<E>, DeviceError> {
        self.gpu.bind()?;
        Ok(TensorTransfer { ready: self.compute.queue.record_event(&self.gpu, false)?, tensor })
    }

    /// A receive buffer on the transfer stream, free of earlier uses.
    pub(crate) fn receive_buffer(&self, len: usize) -> Result<Buffer<E>, DeviceError> {
        Buffer::receive_buffer(&self.gpu, len, self.transfer.queue)
    }

    /// Receives a tensor: without a copy on the same GPU, otherwise by a peer copy on the transfer
    /// stream.
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
        tensor.memory.keep_until(queue.record_event(&self.gpu, false)?);
        self.compute.queue.wait_for(&queue.record_event(&self.gpu, false)?)?;
        here.memory.take_by(self.compute.queue);
        Ok(here)
    }

    /// Makes kernels enqueued from now on wait until `transfer` is ready, on whatever GPU.
    pub(crate) fn wait_for_value(&self, transfer: &TensorTransfer<E>) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        self.compute.queue.wait_for(&transfer.ready)
    }

    /// The bytes of a tensor, copied on the transfer stream.
    pub(crate) fn packed(&self, transfer: &TensorTransfer<E>) -> Result<Vec<u8>, DeviceError> {
        self.transfer.queue.wait_for(&transfer.ready)?;
        self.download(&transfer.tensor, &self.transfer)
    }

    /// The inverse of [`Self::packed`].
    pub(crate) fn unpacked(&mut self, bytes: &[u8]) -> Result<TensorTransfer<E>, DeviceError> {
        if !bytes.len().is_multiple_of(E::BYTES) {
            return Err(failed("unpack", format!("{} bytes are not whole elements", bytes.len())));
        }
        let tensor = self.receive_buffer(bytes.len() / E::BYTES)?;
        let queue = self.transfer.queue;
        // SAFETY: the buffer has just this size.
        unsafe { self.copy_up(queue, bytes, tensor.memory.address())? };
        Ok(TensorTransfer { ready: queue.record_event(&self.gpu, false)?, tensor })
    }
}
