//! A GPU of this process: its context, streams, events and loaded kernels.
#![allow(unsafe_code)] // calls into the driver

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys as cu;

use super::caching_allocator::{BlockPool, StreamId};
use super::call::{driver, lock};
use super::element::Element;
use super::probe::{self, DeviceInfo};
use super::program::{Program, compiled};
use runtime::DeviceError;

/// A GPU: one per process and ordinal, shared by all stages on it, for the life of the process. Its
/// primary context is never released: cuBLASLt and loaded kernels may keep objects in it.
pub(crate) struct Gpu {
    pub(crate) info: DeviceInfo,
    pub(crate) device: cu::CUdevice,
    /// The primary context.
    pub(crate) context: cu::CUcontext,
    pub(crate) pool: Mutex<Pool>,
    events: Mutex<Vec<RawEvent>>,
    timed_events: Mutex<Vec<RawEvent>>,
    programs: Mutex<HashMap<&'static str, Arc<Program>>>,
    owners: AtomicU64,
    /// GPUs for which peer access was tried.
    reached: Mutex<Vec<usize>>,
}

struct RawEvent(cu::CUevent);

// SAFETY: handles of the driver may be used on any thread; what changes is behind locks.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}: {})", self.info.ordinal, self.info.name)
    }
}

impl Gpu {
    /// GPU number `ordinal`: one instance per process.
    pub(crate) fn open(ordinal: usize) -> Result<Arc<Self>, DeviceError> {
        static OPEN: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());
        let mut open = lock(&OPEN);
        if let Some(gpu) = open.iter().find(|gpu| gpu.info.ordinal == ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let (device, info) = probe::find(ordinal)?;
        let mut context = ptr::null_mut();
        // SAFETY: the driver has begun.
        driver("cuDevicePrimaryCtxRetain", unsafe {
            cu::cuDevicePrimaryCtxRetain(&mut context, device)
        })?;
        let gpu = Arc::new(Self {
            info,
            device,
            context,
            pool: Mutex::default(),
            events: Mutex::default(),
            timed_events: Mutex::default(),
            programs: Mutex::default(),
            owners: AtomicU64::new(0),
            reached: Mutex::default(),
        });
        open.push(Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Makes the context of this GPU current on this thread.
    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        // SAFETY: the context lives as long as this.
        driver("cuCtxSetCurrent", unsafe { cu::cuCtxSetCurrent(self.context) })
    }

    /// Its kernels for elements `E`.
    pub(crate) fn program<E: Element>(&self) -> Result<Arc<Program>, DeviceError> {
        let mut programs = lock(&self.programs);
        if let Some(program) = programs.get(E::NAME) {
            return Ok(Arc::clone(program));
        }
        self.bind()?;
        let program = Arc::new(Program::load(&compiled::<E>(self.info.capability)?)?);
        programs.insert(E::NAME, Arc::clone(&program));
        Ok(program)
    }

    /// An id for a new stream.
    pub(crate) fn new_stream_id(&self) -> StreamId {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Enables peer access from this GPU, whose context is current, to the memory of `other`, if
    /// the two are linked; otherwise copies go through the host.
    pub(crate) fn reach(&self, other: &Self) -> Result<(), DeviceError> {
        let mut reached = lock(&self.reached);
        if reached.contains(&other.info.ordinal) {
            return Ok(());
        }
        let mut linked = 0;
        // SAFETY: both devices are there, and the context of the other lives.
        unsafe {
            let asked = cu::cuDeviceCanAccessPeer(&mut linked, self.device, other.device);
            driver("cuDeviceCanAccessPeer", asked)?;
            if linked != 0 {
                match cu::cuCtxEnablePeerAccess(other.context, 0) {
                    cu::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
                    result => driver("cuCtxEnablePeerAccess", result)?,
                }
            }
        }
        reached.push(other.info.ordinal);
        Ok(())
    }

    fn shelf(&self, timed: bool) -> &Mutex<Vec<RawEvent>> {
        if timed { &self.timed_events } else { &self.events }
    }

    /// An event from the pool, or a new one.
    pub(crate) fn event(self: &Arc<Self>, timed: bool) -> Result<Event, DeviceError> {
        let used = lock(self.shelf(timed)).pop();
        let raw = match used {
            Some(RawEvent(raw)) => raw,
            None => {
                self.bind()?;
                let flags = match timed {
                    true => cu::CUevent_flags_enum::CU_EVENT_DEFAULT,
                    false => cu::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING,
                };
                let mut raw = ptr::null_mut();
                // SAFETY: a context is current.
                driver("cuEventCreate", unsafe { cu::cuEventCreate(&mut raw, flags as u32) })?;
                raw
            }
        };
        Ok(Event { raw, timed, gpu: Arc::clone(self) })
    }
}

/// A CUDA event. Returns to the pool of its GPU when dropped: a stream that waits for it keeps
/// waiting for the record of that time.
pub(crate) struct Event {
    raw: cu::CUevent,
    timed: bool,
    gpu: Arc<Gpu>,
}

// SAFETY: handles of the driver may be used on any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.raw)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        lock(self.gpu.shelf(self.timed)).push(RawEvent(self.raw));
    }
}

impl Event {
    /// Whether it has completed; false on a device that failed.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.query(), Ok(true))
    }

    /// Whether it has completed.
    pub(crate) fn query(&self) -> Result<bool, DeviceError> {
        // SAFETY: the event lives.
        match unsafe { cu::cuEventQuery(self.raw) } {
            cu::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => driver("cuEventQuery", result).map(|()| true),
        }
    }

    /// Waits until it has completed.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the event lives.
        driver("cuEventSynchronize", unsafe { cu::cuEventSynchronize(self.raw) })
    }

    /// Milliseconds from `earlier` to this event, both with timing and completed.
    pub(crate) fn ms_since(&self, earlier: &Self) -> Result<f32, DeviceError> {
        let mut ms = 0.0;
        // SAFETY: both events live.
        driver("cuEventElapsedTime", unsafe {
            cu::cuEventElapsedTime_v2(&mut ms, earlier.raw, self.raw)
        })?;
        Ok(ms)
    }
}

/// A CUDA stream, by its handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queue {
    pub(crate) raw: cu::CUstream,
    /// Its id in the allocator.
    pub(crate) id: StreamId,
}

// SAFETY: streams may be used on any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Records `event`, of the same GPU.
    pub(crate) fn record(self, event: &Event) -> Result<(), DeviceError> {
        // SAFETY: stream and event live.
        driver("cuEventRecord", unsafe { cu::cuEventRecord(event.raw, self.raw) })
    }

    /// Records a new event.
    pub(crate) fn record_event(self, gpu: &Arc<Gpu>, timed: bool) -> Result<Event, DeviceError> {
        let event = gpu.event(timed)?;
        self.record(&event)?;
        Ok(event)
    }

    /// Makes all later work of the stream wait for `event`, of any GPU.
    pub(crate) fn wait_for(self, event: &Event) -> Result<(), DeviceError> {
        // SAFETY: stream and event live.
        driver("cuStreamWaitEvent", unsafe { cu::cuStreamWaitEvent(self.raw, event.raw, 0) })
    }

    /// Whether its work is done.
    #[cfg(feature = "nccl")]
    pub(crate) fn is_idle(self) -> Result<bool, DeviceError> {
        // SAFETY: the stream lives.
        match unsafe { cu::cuStreamQuery(self.raw) } {
            cu::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => driver("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Waits until its work is done.
    pub(crate) fn synchronize(self) -> Result<(), DeviceError> {
        // SAFETY: the stream lives.
        driver("cuStreamSynchronize", unsafe { cu::cuStreamSynchronize(self.raw) })
    }
}

/// The free blocks and the streams of a GPU.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(super) blocks: BlockPool<Event>,
    pub(super) streams: Vec<Queue>,
}

impl Pool {
    /// Registers a stream.
    pub(crate) fn enter(&mut self, queue: Queue) {
        self.streams.push(queue);
    }

    /// Removes a stream, whose work is done. After the last one, free blocks go back to the driver:
    /// later stages may need other sizes.
    pub(crate) fn retire(&mut self, stream: StreamId) {
        self.streams.retain(|queue| queue.id != stream);
        self.blocks.retire(stream);
        if self.streams.is_empty() {
            self.release();
        }
    }

    /// Returns all free blocks to the driver. No work may be using them.
    pub(super) fn release(&mut self) {
        for freed in self.blocks.drain() {
            // SAFETY: allocated by the driver, and no longer used.
            let _ = unsafe { cu::cuMemFree_v2(freed.address) };
        }
    }
}

/// A stream, destroyed with this.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) queue: Queue,
    gpu: Arc<Gpu>,
}

impl Stream {
    /// A non-blocking stream over all of `gpu`.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let mut raw = ptr::null_mut();
        let flags = cu::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        driver("cuStreamCreate", unsafe { cu::cuStreamCreate(&mut raw, flags) })?;
        Ok(Self::adopt(gpu, raw))
    }

    /// Takes ownership of `raw`, a stream of `gpu`.
    pub(crate) fn adopt(gpu: &Arc<Gpu>, raw: cu::CUstream) -> Self {
        let queue = Queue { raw, id: gpu.new_stream_id() };
        lock(&gpu.pool).enter(queue);
        Self { queue, gpu: Arc::clone(gpu) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // Blocks that it freed become free for all streams when its work is done. A device that
        // failed runs no more work.
        let _ = self.queue.synchronize();
        lock(&self.gpu.pool).retire(self.queue.id);
        // SAFETY: created by `new`, or given to `adopt` for good.
        let _ = unsafe { cu::cuStreamDestroy_v2(self.queue.raw) };
    }
}
