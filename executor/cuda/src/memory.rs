//! A caching allocator for GPU memory, without synchronization.
//!
//! A freed block goes to the free list of the stream that used it last, which may reuse it at once.
//! Only when the GPU is full does a stream wait for another.
#![allow(unsafe_code)] // calls into the driver

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys as cu;
use pipeline::Bytes;

use super::caching_allocator::{FreeBlock, rounded};
use super::call::{driver, failed, lock};
use super::device::{Event, Gpu, Pool, Queue};
use runtime::DeviceError;

/// The longest wait for the enqueued work of a full GPU.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Polling interval of that wait.
const POLL: Duration = Duration::from_micros(100);

thread_local! {
    /// Allocations of this thread: of GPU memory and of pinned host memory.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Number of allocations of this thread, of any GPU and of pinned host memory. Each can stall all
/// work on a GPU, so that a timed step should make none.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Counts an allocation of this thread.
pub(super) fn count_allocation() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

/// Allocates memory of the GPU; `None` if it is full.
fn allocate(bytes: usize) -> Result<Option<u64>, DeviceError> {
    count_allocation();
    let mut address = 0;
    // SAFETY: a context is current.
    match unsafe { cu::cuMemAlloc_v2(&mut address, bytes) } {
        cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
        other => driver("cuMemAlloc", other).map(|()| Some(address)),
    }
}

impl Pool {
    /// A block of `bytes`, a rounded size, for `queue`.
    fn take(&mut self, gpu: &Arc<Gpu>, bytes: usize, queue: Queue) -> Result<u64, DeviceError> {
        if let Some(freed) = self.blocks.take_ready(bytes, queue.id, Event::is_complete) {
            return Ok(freed.address);
        }
        if let Some(address) = allocate(bytes)? {
            return Ok(address);
        }
        if let Some(freed) = self.blocks.take_any(bytes, queue.id) {
            self.wait_for(gpu, &freed, queue)?;
            return Ok(freed.address);
        }
        self.wait_for_all(gpu, TIMEOUT)?;
        self.release();
        match allocate(bytes)? {
            Some(address) => Ok(address),
            None => Err(out_of_memory(gpu, bytes)),
        }
    }

    /// Waits for all enqueued work, so that no free block is in use, at most `timeout`: an enqueued
    /// transfer may wait for another process, and that process for this one.
    pub(super) fn wait_for_all(
        &self,
        gpu: &Arc<Gpu>,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let events = self.streams.iter().map(|stream| stream.record_event(gpu, false));
        let events = events.collect::<Result<Vec<_>, _>>()?;
        let since = Instant::now();
        for event in &events {
            while !event.query()? {
                if since.elapsed() > timeout {
                    let message = format!("its memory is full, and it is busy after {timeout:?}");
                    return Err(failed("waiting for the GPU", message));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Makes `queue` wait for the last uses of `freed`.
    fn wait_for(
        &self,
        gpu: &Arc<Gpu>,
        freed: &FreeBlock<Event>,
        queue: Queue,
    ) -> Result<(), DeviceError> {
        if let Some(event) = &freed.after {
            queue.wait_for(event)?;
        }
        let stream = freed.stream.filter(|stream| *stream != queue.id);
        match stream.and_then(|id| self.streams.iter().find(|queue| queue.id == id)) {
            Some(stream) => queue.wait_for(&stream.record_event(gpu, false)?),
            None => Ok(()),
        }
    }
}

fn out_of_memory(gpu: &Gpu, bytes: usize) -> DeviceError {
    let (mut free, mut total) = (0, 0);
    // SAFETY: a context is current. Where it fails, nothing is known to be free.
    let _ = unsafe { cu::cuMemGetInfo_v2(&mut free, &mut total) };
    DeviceError::OutOfMemory {
        device: format!("GPU {} ({})", gpu.info.ordinal, gpu.info.name),
        asked: Bytes(bytes as u64),
        free: Bytes(free as u64),
    }
}

/// A block of GPU memory, used by one stream at a time.
#[derive(Debug)]
pub(crate) struct Memory {
    gpu: Arc<Gpu>,
    address: u64,
    /// Requested size.
    bytes: usize,
    /// The stream that uses it.
    user: Queue,
    /// The stream to whose free list it returns.
    home: Queue,
    /// Whether it is a receive buffer.
    is_receive_buffer: bool,
    /// An event after a use by another stream, before which it must not be reused.
    after: Option<Event>,
}

impl Memory {
    /// A block of `bytes` of `gpu` for `queue`, of unspecified content.
    pub(crate) fn new(gpu: &Arc<Gpu>, bytes: usize, queue: Queue) -> Result<Self, DeviceError> {
        let size = rounded(bytes).ok_or_else(|| failed("cuMemAlloc", format!("{bytes} bytes")))?;
        gpu.bind()?;
        let address = lock(&gpu.pool).take(gpu, size, queue)?;
        Ok(Self {
            gpu: Arc::clone(gpu),
            address,
            bytes,
            user: queue,
            home: queue,
            is_receive_buffer: false,
            after: None,
        })
    }

    /// The same as a receive buffer of `queue`.
    pub(crate) fn receive_buffer(mut self) -> Self {
        self.is_receive_buffer = true;
        self
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Its requested size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Hands the block over to `queue`, of the same GPU. A computed block later returns to the free
    /// list of `queue`. A receive buffer returns to the stream that received it, behind an event:
    /// so the next transfer waits for the last use of this block alone, not for all work of
    /// `queue`.
    pub(crate) fn take_by(&mut self, queue: Queue) {
        self.user = queue;
        if !self.is_receive_buffer {
            self.home = queue;
        }
    }

    /// Delays its reuse until `event`, of any GPU.
    pub(crate) fn keep_until(&mut self, event: Event) {
        self.after = Some(event);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(size) = rounded(self.bytes) else { return };
        let mut pool = lock(&self.gpu.pool);
        let is_there = |queue: Queue| pool.streams.iter().any(|known| known.id == queue.id);
        let mut freed = FreeBlock { address: self.address, stream: None, after: self.after.take() };
        if is_there(self.home) {
            freed.stream = Some(self.home.id);
        }
        if self.user != self.home && is_there(self.user) {
            // Both events are needed, but a block keeps one: the user's stream waits for the other
            // first.
            let waited = freed.after.take().map_or(Ok(()), |event| self.user.wait_for(&event));
            match waited.and_then(|()| self.user.record_event(&self.gpu, false)) {
                Ok(event) => freed.after = Some(event),
                // A device that failed runs no more work.
                Err(_) => return,
            }
        }
        pool.blocks.put(size, freed);
    }
}

/// `len` values of type `T` on a GPU, at an address aligned for any access.
#[derive(Debug)]
pub struct Buffer<T> {
    pub(crate) memory: Memory,
    len: usize,
    values: PhantomData<T>,
}

impl<T> Buffer<T> {
    /// `len` values, of unspecified content, for `queue`.
    pub(crate) fn new(gpu: &Arc<Gpu>, len: usize, queue: Queue) -> Result<Self, DeviceError> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| failed("cuMemAlloc", format!("{len} values")))?;
        Ok(Self { memory: Memory::new(gpu, bytes, queue)?, len, values: PhantomData })
    }

    /// The same as a receive buffer of `queue`.
    pub(crate) fn receive_buffer(
        gpu: &Arc<Gpu>,
        len: usize,
        queue: Queue,
    ) -> Result<Self, DeviceError> {
        let Self { memory, len, values } = Self::new(gpu, len, queue)?;
        Ok(Self { memory: memory.receive_buffer(), len, values })
    }

    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of value `from`, if that value and the `count` values from there on are within
    /// the buffer.
    pub(crate) fn at(
        &self,
        what: &'static str,
        from: usize,
        count: Option<usize>,
    ) -> Result<u64, DeviceError> {
        let end = count.and_then(|count| from.checked_add(count));
        match end {
            Some(end) if end <= self.len => {
                Ok(self.memory.address() + (from * size_of::<T>()) as u64)
            }
            _ => {
                let asked = end.map_or("more than memory".to_owned(), |end| end.to_string());
                Err(failed(what, format!("a buffer of {} is short of {asked}", self.len)))
            }
        }
    }
}
