//! A device that counts the bytes of live activations.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pipeline::Bytes;

use crate::ops::Ops;
use runtime::DeviceError;

/// Bytes of a token number.
pub(crate) const TOKEN_BYTES: usize = 4;

/// Bytes of an element of an accumulator beside tensors of `element_bytes`: f32 at least.
pub(crate) const fn sum_bytes(element_bytes: usize) -> usize {
    if element_bytes < 4 { 4 } else { element_bytes }
}

/// Bytes of activations: element count times element bytes of every buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activations {
    /// Currently held. Between two passes: kept by earlier passes for later ones.
    pub held: Bytes,
    /// Peak between two passes: the peak of [`pipeline::Memory`].
    pub kept_peak: Bytes,
    /// Overall peak, with buffers that live within a pass only.
    pub peak: Bytes,
}

#[derive(Debug, Default)]
struct Counter {
    held: AtomicU64,
    kept_peak: AtomicU64,
    peak: AtomicU64,
}

/// Counts its bytes as held while it lives.
#[derive(Debug)]
struct Share {
    bytes: u64,
    counter: Arc<Counter>,
}

impl Share {
    fn new(bytes: usize, counter: &Arc<Counter>) -> Self {
        let bytes = bytes as u64;
        let held = counter.held.fetch_add(bytes, Relaxed) + bytes;
        counter.peak.fetch_max(held, Relaxed);
        Self { bytes, counter: Arc::clone(counter) }
    }
}

impl Share {
    /// Counts `bytes` from now on.
    fn recount(&mut self, bytes: u64) {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            let held = self.counter.held.fetch_add(more, Relaxed) + more;
            self.counter.peak.fetch_max(held, Relaxed);
        } else {
            self.counter.held.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counter.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// A buffer of the device, counted while it lives.
#[derive(Debug)]
pub struct Buffer<T> {
    data: T,
    share: Share,
}

/// The value that a pass makes for a neighbouring chunk, if there is one.
pub(crate) type Made<O> = Option<Buffer<<O as Ops>::Tensor>>;

impl<T> Buffer<T> {
    /// The bare buffer, which is no longer counted.
    pub fn release(self) -> T {
        self.data
    }

    /// The counted bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.share.bytes
    }

    /// Counts `bytes` for it from now on: a part of it was freed or allocated again.
    pub(crate) fn recount(&mut self, bytes: u64) {
        self.share.recount(bytes);
    }
}

impl<T> Deref for Buffer<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

/// Kernels, and a count of the activations made with them.
#[derive(Debug)]
pub struct Device<O> {
    /// The kernels.
    pub ops: O,
    counter: Arc<Counter>,
}

impl<O: Ops> Device<O> {
    /// A device without buffers.
    pub fn new(ops: O) -> Self {
        Self { ops, counter: Arc::default() }
    }

    /// The bytes held in buffers of this device.
    pub fn activations(&self) -> Activations {
        let bytes = |count: &AtomicU64| Bytes(count.load(Relaxed));
        Activations {
            held: bytes(&self.counter.held),
            kept_peak: bytes(&self.counter.kept_peak),
            peak: bytes(&self.counter.peak),
        }
    }

    /// Marks the end of a pass: the bytes held now are kept for later passes.
    pub(crate) fn end_pass(&self) {
        self.counter.kept_peak.fetch_max(self.counter.held.load(Relaxed), Relaxed);
    }

    /// A tensor of `len` elements, of unspecified content.
    pub fn tensor(&mut self, len: usize) -> Result<Buffer<O::Tensor>, DeviceError> {
        let data = self.ops.tensor(len)?;
        Ok(self.adopt(data, len))
    }

    /// Counts a tensor of `len` elements that was allocated elsewhere.
    pub fn adopt(&self, data: O::Tensor, len: usize) -> Buffer<O::Tensor> {
        self.counted(data, len * self.ops.element_bytes())
    }

    /// An accumulator of `len` zeros.
    pub(crate) fn accumulator(
        &mut self,
        len: usize,
    ) -> Result<Buffer<O::Accumulator>, DeviceError> {
        let data = self.ops.accumulator(len)?;
        Ok(self.counted(data, len * sum_bytes(self.ops.element_bytes())))
    }

    /// Token numbers, copied to the device.
    pub fn tokens(&mut self, tokens: &[u32]) -> Result<Buffer<O::Tokens>, DeviceError> {
        let data = self.ops.tokens(tokens)?;
        Ok(self.counted(data, tokens.len() * TOKEN_BYTES))
    }

    fn counted<T>(&self, data: T, bytes: usize) -> Buffer<T> {
        Buffer { data, share: Share::new(bytes, &self.counter) }
    }
}
