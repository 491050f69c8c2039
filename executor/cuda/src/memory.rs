//! Memory of a GPU, handed out and taken back without waiting for it.
//!
//! Memory that is freed goes to the shelf of the stream that used it last, which may use it again
//! at once. Only when the GPU is full does a stream wait for another.
#![allow(unsafe_code)] // calls into the driver

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys as cu;
use pipeline::Bytes;

use super::caching_allocator::{BlockPool, FreeBlock, StreamId, rounded};
use super::call::{driver, failed, lock};
use super::device::{Event, Gpu, Queue};
use runtime::DeviceError;

/// The freed memory of a GPU, and the streams there are.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    blocks: BlockPool<Event>,
    streams: Vec<Queue>,
}

/// How long a GPU that is full may take to end what has been begun.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_micros(100);

thread_local! {
    /// Allocations made on this thread, of GPUs and of pinned memory.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How many allocations this thread has made, of any GPU and of pinned memory. Each can hold up all
/// that runs on a GPU, so that none should be made in a step that is timed.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// An allocation is made on this thread.
pub(super) fn count_allocation() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

/// Memory of the GPU, if there is any left.
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
    /// A stream there is.
    pub(crate) fn enter(&mut self, queue: Queue) {
        self.streams.push(queue);
    }

    /// A stream that is no more, its work done. Behind the last one freed memory goes back to the
    /// driver: what comes next may need other sizes.
    pub(crate) fn retire(&mut self, owner: StreamId) {
        self.streams.retain(|queue| queue.owner != owner);
        self.blocks.retire(owner);
        if self.streams.is_empty() {
            self.release();
        }
    }

    /// Gives all freed memory back to the driver, once nothing runs.
    fn release(&mut self) {
        for freed in self.blocks.drain() {
            // SAFETY: allocated by `allocate`, and no longer used.
            let _ = unsafe { cu::cuMemFree_v2(freed.address) };
        }
    }

    /// Memory of `bytes`, rounded, for `queue`.
    fn take(&mut self, gpu: &Arc<Gpu>, bytes: usize, queue: Queue) -> Result<u64, DeviceError> {
        if let Some(freed) = self.blocks.take_ready(bytes, queue.owner, Event::is_past) {
            return Ok(freed.address);
        }
        if let Some(address) = allocate(bytes)? {
            return Ok(address);
        }
        if let Some(freed) = self.blocks.take_any(bytes, queue.owner) {
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

    /// Waits for all that has been begun, so that nobody uses what has been freed. No longer than
    /// `timeout`: a transfer that is begun may wait for another process, and that one for this.
    pub(super) fn wait_for_all(
        &self,
        gpu: &Arc<Gpu>,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let marks = self.streams.iter().map(|stream| stream.mark(gpu, false));
        let marks = marks.collect::<Result<Vec<_>, _>>()?;
        let since = Instant::now();
        for mark in &marks {
            while !mark.has_passed()? {
                if since.elapsed() > timeout {
                    let message = format!("its memory is full, and it is busy after {timeout:?}");
                    return Err(failed("waiting for the GPU", message));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Makes `queue` wait until nobody else uses `freed`.
    fn wait_for(
        &self,
        gpu: &Arc<Gpu>,
        freed: &FreeBlock<Event>,
        queue: Queue,
    ) -> Result<(), DeviceError> {
        if let Some(mark) = &freed.after {
            queue.wait_for(mark)?;
        }
        let owner = freed.owner.filter(|owner| *owner != queue.owner);
        match owner.and_then(|owner| self.streams.iter().find(|stream| stream.owner == owner)) {
            Some(stream) => queue.wait_for(&stream.mark(gpu, false)?),
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

/// Memory of a GPU, used by one stream at a time.
#[derive(Debug)]
pub(crate) struct Memory {
    gpu: Arc<Gpu>,
    address: u64,
    /// As asked for.
    bytes: usize,
    /// Who uses it.
    user: Queue,
    /// Whose shelf it goes back to.
    home: Queue,
    /// Whether it was allocated for what comes from elsewhere.
    lands: bool,
    /// A use by another stream that it must not be freed before.
    after: Option<Event>,
}

impl Memory {
    /// `bytes` of `gpu` for `queue`, of unspecified content.
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
            lands: false,
            after: None,
        })
    }

    /// The same for what comes from elsewhere by `queue`.
    pub(crate) fn receive_buffer(mut self) -> Self {
        self.lands = true;
        self
    }

    /// Where it is.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Which GPU it is of.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// From now on `queue`, of the same GPU, uses it. It keeps what a stage computed. What landed
    /// from elsewhere goes back to the stream it landed by, behind a mark: so the next to land waits
    /// for the last use of this memory alone, not for all that `queue` does.
    pub(crate) fn take_by(&mut self, queue: Queue) {
        self.user = queue;
        if !self.lands {
            self.home = queue;
        }
    }

    /// It may be used again only after `event`, of any GPU.
    pub(crate) fn keep_until(&mut self, event: Event) {
        self.after = Some(event);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(size) = rounded(self.bytes) else { return };
        let mut pool = lock(&self.gpu.pool);
        let is_there = |queue: Queue| pool.streams.iter().any(|known| known.owner == queue.owner);
        let mut freed = FreeBlock { address: self.address, owner: None, after: self.after.take() };
        if is_there(self.home) {
            freed.owner = Some(self.home.owner);
        }
        if self.user != self.home && is_there(self.user) {
            // Both marks are needed, and one is kept: the other is waited for by the user first.
            let waited = freed.after.take().map_or(Ok(()), |mark| self.user.wait_for(&mark));
            match waited.and_then(|()| self.user.mark(&self.gpu, false)) {
                Ok(mark) => freed.after = Some(mark),
                // A device that failed computes no more.
                Err(_) => return,
            }
        }
        pool.blocks.put(size, freed);
    }
}

/// `len` values of type `T` on a GPU, beginning at an address that suits any access.
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

    /// The same for what comes from elsewhere by `queue`.
    pub(crate) fn receive_buffer(
        gpu: &Arc<Gpu>,
        len: usize,
        queue: Queue,
    ) -> Result<Self, DeviceError> {
        let Self { memory, len, values } = Self::new(gpu, len, queue)?;
        Ok(Self { memory: memory.receive_buffer(), len, values })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of value `from`, if it and all of the `count` from there on are within.
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
