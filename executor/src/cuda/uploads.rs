//! Copies from the host to a GPU.
#![allow(unsafe_code)] // calls into the driver

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::{Event, Gpu, Queue};
use crate::error::DeviceError;

/// Memory of the host that the GPU reads while the host goes on.
pub(crate) struct Pinned {
    address: *mut u8,
    bytes: usize,
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
    /// So many bytes; a context is current.
    pub(crate) fn new(bytes: usize) -> Result<Self, DeviceError> {
        let mut address = ptr::null_mut();
        // SAFETY: a context is current.
        driver("cuMemHostAlloc", unsafe {
            cu::cuMemHostAlloc(&mut address, bytes, cu::CU_MEMHOSTALLOC_PORTABLE)
        })?;
        if address.is_null() {
            return Err(failed("cuMemHostAlloc", "no address"));
        }
        Ok(Self { address: address.cast(), bytes })
    }

    /// Where they begin.
    pub(crate) const fn address(&self) -> *mut u8 {
        self.address
    }
}

/// Copies to the GPU that the host need not wait for: each goes through a piece of pinned memory
/// that is used again when the copy is done.
#[derive(Default)]
pub(crate) struct Uploads {
    pieces: Vec<(Pinned, Event)>,
}

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Pieces before the host waits for the oldest.
const PIECES: usize = 64;

impl Uploads {
    fn piece(&mut self) -> Result<Pinned, DeviceError> {
        if let Some(at) = self.pieces.iter().position(|(_, copied)| copied.is_past()) {
            return Ok(self.pieces.swap_remove(at).0);
        }
        if self.pieces.len() < PIECES {
            return Pinned::new(PIECE);
        }
        let (pinned, copied) = self.pieces.swap_remove(0);
        copied.wait()?;
        Ok(pinned)
    }

    /// Begins to copy `bytes` to `to`, in the order of `queue`.
    ///
    /// # Safety
    /// `to` is memory of `gpu`, which is bound, with room for them.
    pub(crate) unsafe fn copy(
        &mut self,
        gpu: &Arc<Gpu>,
        queue: Queue,
        bytes: &[u8],
        to: u64,
    ) -> Result<(), DeviceError> {
        let mut to = to;
        for part in bytes.chunks(PIECE) {
            let pinned = self.piece()?;
            debug_assert!(part.len() <= pinned.bytes);
            // SAFETY: the piece has room for the part, and is free again only behind the event.
            driver("cuMemcpyHtoDAsync", unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), pinned.address, part.len());
                cu::cuMemcpyHtoDAsync_v2(to, pinned.address.cast(), part.len(), queue.raw)
            })?;
            to += part.len() as u64;
            let copied = queue.mark(gpu, false);
            match copied {
                Ok(copied) => self.pieces.push((pinned, copied)),
                Err(error) => {
                    let _ = queue.settle();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
