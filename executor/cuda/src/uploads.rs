//! Asynchronous copies from the host to a GPU.
#![allow(unsafe_code)] // calls into the driver

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::{Event, Gpu, Queue};
use super::memory::count_allocation;
use runtime::DeviceError;

/// Pinned host memory, which the GPU reads asynchronously.
pub(crate) struct Pinned {
    address: *mut u8,
}

// SAFETY: plain memory, owned.
unsafe impl Send for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`.
        let _ = unsafe { cu::cuMemFreeHost(self.address.cast()) };
    }
}

impl Pinned {
    /// Allocates `bytes`; a context is current.
    pub(crate) fn new(bytes: usize) -> Result<Self, DeviceError> {
        count_allocation();
        let mut address = ptr::null_mut();
        // SAFETY: a context is current.
        driver("cuMemHostAlloc", unsafe {
            cu::cuMemHostAlloc(&mut address, bytes, cu::CU_MEMHOSTALLOC_PORTABLE)
        })?;
        if address.is_null() {
            return Err(failed("cuMemHostAlloc", "no address"));
        }
        Ok(Self { address: address.cast() })
    }

    pub(crate) const fn address(&self) -> *mut u8 {
        self.address
    }
}

/// Asynchronous copies to the GPU: each goes through a piece of pinned memory, which is reused
/// after the copy. All pieces are allocated at once, before the first step, since pinning memory
/// can stall all work on the GPU.
pub(crate) struct Uploads {
    pinned: Pinned,
    /// Idle pieces, by their number.
    idle: Vec<usize>,
    /// Pieces in use, the oldest first, and the event after each copy.
    busy: VecDeque<(usize, Event)>,
}

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Number of pieces before the host waits for the oldest: more than the values of all passes in the
/// launch queue.
const PIECES: usize = 24;

impl Uploads {
    /// Allocates the pieces; a context is current.
    pub(crate) fn new() -> Result<Self, DeviceError> {
        let pinned = Pinned::new(PIECE * PIECES)?;
        Ok(Self { pinned, idle: (0..PIECES).rev().collect(), busy: VecDeque::new() })
    }

    /// An idle piece; `wait` waits for the oldest where all are in use.
    fn piece(
        &mut self,
        wait: impl Fn(&Event) -> Result<(), DeviceError>,
    ) -> Result<usize, DeviceError> {
        if let Some(piece) = self.idle.pop() {
            return Ok(piece);
        }
        // Copies on two streams may end in another order than they were enqueued.
        let past = self.busy.iter().position(|(_, copied)| copied.is_complete());
        let found = self.busy.remove(past.unwrap_or(0));
        let (piece, copied) = found.ok_or_else(|| failed("uploading", "no piece of memory"))?;
        if past.is_none() {
            wait(&copied)?;
        }
        Ok(piece)
    }

    /// Enqueues copies of `bytes` to `to` on `queue`; `wait` waits for an event.
    ///
    /// # Safety
    /// `to` is memory of `gpu`, which is bound, with room for them.
    pub(crate) unsafe fn copy(
        &mut self,
        gpu: &Arc<Gpu>,
        queue: Queue,
        bytes: &[u8],
        to: u64,
        wait: impl Fn(&Event) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut to = to;
        for part in bytes.chunks(PIECE) {
            let piece = self.piece(&wait)?;
            // SAFETY: the piece lies within the pinned memory, has room for the part, and is free
            // again only behind the event.
            driver("cuMemcpyHtoDAsync", unsafe {
                let address = self.pinned.address.add(piece * PIECE);
                ptr::copy_nonoverlapping(part.as_ptr(), address, part.len());
                cu::cuMemcpyHtoDAsync_v2(to, address.cast(), part.len(), queue.raw)
            })?;
            to += part.len() as u64;
            match queue.record_event(gpu, false) {
                Ok(copied) => self.busy.push_back((piece, copied)),
                Err(error) => {
                    let _ = queue.synchronize();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
