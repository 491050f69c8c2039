//! Copies between a GPU and pinned host memory, timed by the GPU.
#![allow(unsafe_code)] // calls into the driver

use cudarc::driver::sys as cu;

use super::call::driver;
use super::element::Element;
use super::memory::Buffer;
use super::stage::Cuda;
use super::uploads::Pinned;
use runtime::DeviceError;

/// A buffer of pinned host memory and one of the same size on a GPU.
// Fields are dropped in this order: the copies' buffers are freed once `cuda` is idle.
pub struct HostCopies<E: Element> {
    cuda: Cuda<E>,
    buffer: Buffer<u8>,
    pinned: Pinned,
}

impl<E: Element> std::fmt::Debug for HostCopies<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostCopies({} bytes, {:?})", self.buffer.len(), self.cuda)
    }
}

impl<E: Element> HostCopies<E> {
    /// Buffers of `bytes`, at least one, for the GPU of `cuda`.
    pub fn new(cuda: Cuda<E>, bytes: usize) -> Result<Self, DeviceError> {
        cuda.gpu.bind()?;
        let buffer = cuda.scratch(bytes.max(1))?;
        let pinned = Pinned::new(bytes.max(1))?;
        Ok(Self { cuda, buffer, pinned })
    }

    /// Nanoseconds of a copy to the GPU and of one back.
    pub fn time(&mut self) -> Result<[u64; 2], DeviceError> {
        let Self { cuda, buffer, pinned } = self;
        let (gpu, queue) = (&cuda.gpu, cuda.compute.queue);
        gpu.bind()?;
        let (device, host, bytes) = (buffer.memory.address(), pinned.address(), buffer.len());
        let start = queue.record_event(gpu, true)?;
        // SAFETY: both sides have this many bytes, and live until the stream has been waited for
        // below: a call that fails leaves nothing running that is not waited for by `cuda`'s end.
        unsafe {
            let there = cu::cuMemcpyHtoDAsync_v2(device, host.cast(), bytes, queue.raw);
            driver("cuMemcpyHtoDAsync", there)?;
        }
        let between = queue.record_event(gpu, true)?;
        // SAFETY: as above.
        unsafe {
            let back = cu::cuMemcpyDtoHAsync_v2(host.cast(), device, bytes, queue.raw);
            driver("cuMemcpyDtoHAsync", back)?;
        }
        let end = queue.record_event(gpu, true)?;
        end.wait()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let nanoseconds = |ms: f32| (f64::from(ms) * 1e6).round() as u64;
        Ok([between.ms_since(&start)?, end.ms_since(&between)?].map(nanoseconds))
    }
}
