//! One stage on a GPU: its streams, launches and copies.
#![allow(unsafe_code)] // calls into the driver

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::clock;
use super::device::{Event, Gpu, Queue, Stream};
use super::element::{Element, decode, encode};
use super::gemm::{Blas, Places};
use super::green_context::{GreenContext, Partition};
use super::kernels::Kernels;
use super::launch::Launch;
use super::launch_queue_depth::LaunchQueueDepth;
use super::layout::column_major;
use super::memory::Buffer;
use super::program::Program;
use super::tokens::lay_out;
use super::uploads::Uploads;
use gpt::Gemm;
use runtime::DeviceError;

/// The kernels of one stage on a GPU, or on a part of one.
///
/// Kernels are enqueued on one stream, so that they run in the order of the calls; transfers from
/// other GPUs and from the host run on a second stream. Used by one thread at a time.
// Fields are dropped in this order: streams after the objects that wait for them, the green context
// last.
pub struct Cuda<E: Element> {
    /// The communicator with stages in other processes.
    #[cfg(feature = "nccl")]
    pub(crate) peers: Option<super::nccl::Peers>,
    pub(crate) kernels: Kernels,
    program: Arc<Program>,
    blas: Blas,
    pub(crate) uploads: Uploads,
    base: Base,
    stamps: Vec<Event>,
    queue_depth: LaunchQueueDepth,
    /// Kernels and products launched so far.
    launched: Cell<u64>,
    pub(crate) compute: Stream,
    pub(crate) transfer: Stream,
    _partition: Option<Arc<GreenContext>>,
    pub(crate) gpu: Arc<Gpu>,
    element: std::marker::PhantomData<E>,
}

impl<E: Element> fmt::Debug for Cuda<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({}, {:?})", E::NAME, self.gpu)
    }
}

/// An event, and its time by the host's clock.
struct Base {
    event: Event,
    at: Instant,
}

/// Tries at a base, of which the one with the shortest interruption of the host counts.
const TRIES: usize = 8;

/// Token numbers on a GPU, in their order and sorted.
#[derive(Debug)]
pub struct Tokens {
    pub(crate) words: Buffer<u32>,
    pub(crate) len: usize,
    pub(crate) runs: usize,
    /// Minimum number of table rows for them.
    pub(crate) vocabulary: usize,
}

impl Tokens {
    /// The address of the first `rows`, if there are so many and all are below `columns`.
    pub(crate) fn up_to(
        &self,
        what: &'static str,
        rows: usize,
        columns: usize,
    ) -> Result<u64, DeviceError> {
        if rows > self.len || self.vocabulary > columns {
            let (len, vocabulary) = (self.len, self.vocabulary);
            let message = format!("{len} tokens below {vocabulary} for {rows} rows of {columns}");
            return Err(failed(what, message));
        }
        Ok(self.words.memory.address())
    }

    /// Checks that they are whole sequences of `sequence` tokens.
    pub(crate) fn are_sequences(
        &self,
        what: &'static str,
        sequence: usize,
    ) -> Result<(), DeviceError> {
        match self.len.is_multiple_of(sequence) {
            true => Ok(()),
            false => {
                Err(failed(what, format!("{} tokens are not sequences of {sequence}", self.len)))
            }
        }
    }
}

impl<E: Element> Cuda<E> {
    /// The kernels of one stage on the whole GPU number `ordinal`.
    pub fn whole(ordinal: usize) -> Result<Self, DeviceError> {
        Self::new(&Gpu::open(ordinal)?, None)
    }

    /// The kernels on `partition` of `gpu`, or on the whole GPU.
    pub(crate) fn new(gpu: &Arc<Gpu>, partition: Option<Partition>) -> Result<Self, DeviceError> {
        gpu.bind()?;
        let program = gpu.program::<E>()?;
        let (compute, context, multiprocessors) = match partition {
            Some(part) => (part.stream, Some(part.context), Some(part.multiprocessors)),
            None => (Stream::new(gpu)?, None, None),
        };
        let multiprocessors = multiprocessors.and_then(|count| i32::try_from(count).ok());
        Ok(Self {
            #[cfg(feature = "nccl")]
            peers: None,
            kernels: Kernels::new(E::BYTES),
            program,
            blas: Blas::new(gpu, compute.queue, multiprocessors)?,
            uploads: Uploads::new()?,
            base: base(gpu, &compute)?,
            stamps: Vec::new(),
            queue_depth: LaunchQueueDepth::default(),
            launched: Cell::new(0),
            compute,
            transfer: Stream::new(gpu)?,
            _partition: context,
            gpu: Arc::clone(gpu),
            element: std::marker::PhantomData,
        })
    }

    /// A scratch buffer of `len` values, used by kernels of this stage alone.
    pub(crate) fn scratch<T>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::new(&self.gpu, len, self.compute.queue)
    }

    /// Enqueues `launches`, whose pointers the caller has checked against their buffers.
    pub(crate) fn launch(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        self.launched.set(self.launched.get() + launches.len() as u64);
        for Launch { kernel, grid, block, args } in launches {
            let mut values: Vec<u64> = args.iter().map(|arg| arg.bits()).collect();
            let mut pointers: Vec<_> =
                values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
            let ([x, y, z], [width, height, depth]) = (*grid, *block);
            // SAFETY: the kernel reads each parameter from the low bytes of its value; number and
            // types are those of its source, which the tests check for every operation.
            let result = unsafe {
                cu::cuLaunchKernel(
                    self.program.function(*kernel),
                    x,
                    y,
                    z,
                    width,
                    height,
                    depth,
                    0,
                    self.compute.queue.raw,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            driver("cuLaunchKernel", result).map_err(|error| match error {
                DeviceError::Call { call, message } => {
                    failed(call, format!("{}: {message}", kernel.name()))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    /// Enqueues a product, `a`, `b` and `c` checked against their buffers.
    pub(crate) fn multiply(
        &mut self,
        shape: Gemm,
        [a, b, c]: [u64; 3],
        accumulates: bool,
    ) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        let product =
            column_major(shape).ok_or_else(|| failed("cublasLtMatmul", format!("{shape:?}")))?;
        let at = Places { first: b, second: a, result: c };
        self.launched.set(self.launched.get() + 1);
        // SAFETY: the caller has checked the sizes.
        unsafe { self.blas.multiply::<E>(product, shape.scale, at, accumulates) }
    }

    /// Sets `bytes` at `address`, within a buffer, to zero.
    pub(crate) fn zero(&self, address: u64, bytes: usize) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        self.gpu.bind()?;
        // SAFETY: the caller has checked the size.
        driver("cuMemsetD8Async", unsafe {
            cu::cuMemsetD8Async(address, 0, bytes, self.compute.queue.raw)
        })
    }

    /// Copies `bytes` within the GPU, both checked.
    pub(crate) fn duplicate(&self, from: u64, to: u64, bytes: usize) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        self.gpu.bind()?;
        // SAFETY: the caller has checked the sizes.
        driver("cuMemcpyDtoDAsync", unsafe {
            cu::cuMemcpyDtoDAsync_v2(to, from, bytes, self.compute.queue.raw)
        })
    }

    /// Copies `bytes` to `address`, within a buffer, on the compute stream.
    pub(crate) fn upload(&mut self, bytes: &[u8], address: u64) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        // SAFETY: the caller has checked the size.
        unsafe { self.copy_up(self.compute.queue, bytes, address) }
    }

    /// The same on `queue`, a stream of this stage.
    ///
    /// # Safety
    /// There is room for `bytes` at `address`, and the GPU is bound.
    pub(super) unsafe fn copy_up(
        &mut self,
        queue: Queue,
        bytes: &[u8],
        address: u64,
    ) -> Result<(), DeviceError> {
        #[cfg(feature = "nccl")]
        let peers = self.peers.as_ref();
        let wait = |event: &Event| {
            #[cfg(feature = "nccl")]
            if let Some(peers) = peers {
                return peers.wait_until(|| event.query());
            }
            event.wait()
        };
        // SAFETY: as promised.
        unsafe { self.uploads.copy(&self.gpu, queue, bytes, address, wait) }
    }

    /// Copies all of `from` to the host, on `stream`, and waits for it.
    pub(crate) fn download<T>(
        &self,
        from: &Buffer<T>,
        stream: &Stream,
    ) -> Result<Vec<u8>, DeviceError> {
        self.gpu.bind()?;
        let mut bytes = vec![0u8; from.memory.bytes()];
        if !bytes.is_empty() {
            let (to, queue) = (bytes.as_mut_ptr().cast(), stream.queue);
            // SAFETY: both sides have this many bytes, and live until the copy is done: also when
            // waiting fails, since then nothing runs any more.
            driver("cuMemcpyDtoHAsync", unsafe {
                cu::cuMemcpyDtoHAsync_v2(to, from.memory.address(), bytes.len(), queue.raw)
            })?;
        }
        self.wait_for(stream)?;
        Ok(bytes)
    }

    /// The bytes of `from`, after the kernels enqueued so far.
    #[cfg(test)]
    pub(crate) fn bytes_of<T>(&self, from: &Buffer<T>) -> Result<Vec<u8>, DeviceError> {
        self.download(from, &self.compute)
    }

    /// The values of `from`, decoded from elements `T`.
    pub(crate) fn values<T: Element>(&self, from: &Buffer<T>) -> Result<Vec<f64>, DeviceError> {
        Ok(decode::<T>(&self.download(from, &self.compute)?))
    }

    /// The f64 of `from`.
    pub(crate) fn doubles(&self, from: &Buffer<f64>) -> Result<Vec<f64>, DeviceError> {
        let bytes = self.download(from, &self.compute)?;
        Ok(bytes.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect())
    }

    /// Copies `values` to index `from` of `to`.
    pub(crate) fn write_values<T: Element>(
        &mut self,
        values: &[f64],
        to: &Buffer<T>,
        from: usize,
    ) -> Result<(), DeviceError> {
        let address = to.at("write", from, Some(values.len()))?;
        self.upload(&encode::<T>(values), address)
    }

    /// Token numbers, copied to the GPU.
    pub(crate) fn new_tokens(&mut self, tokens: &[u32]) -> Result<Tokens, DeviceError> {
        let layout =
            lay_out(tokens).ok_or_else(|| failed("tokens", "more rows than 32 bits count"))?;
        let words = self.scratch(layout.words.len())?;
        let bytes: Vec<u8> = layout.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.upload(&bytes, words.memory.address())?;
        let vocabulary = layout.greatest.map_or(0, |greatest| greatest as usize + 1);
        Ok(Tokens { words, len: layout.len, runs: layout.runs, vocabulary })
    }

    /// Waits for both streams.
    pub(crate) fn synchronize_all(&self) -> Result<(), DeviceError> {
        self.wait_for(&self.compute)?;
        self.wait_for(&self.transfer)
    }

    /// Waits for one of its streams; at most the communicator's timeout where its work depends on
    /// other processes.
    fn wait_for(&self, stream: &Stream) -> Result<(), DeviceError> {
        #[cfg(feature = "nccl")]
        if let Some(peers) = &self.peers {
            return peers.wait_until(|| stream.queue.is_idle());
        }
        stream.queue.synchronize()
    }

    /// Records a timestamp.
    pub(crate) fn new_stamp(&mut self) -> Result<(), DeviceError> {
        self.gpu.bind()?;
        self.stamps.push(self.compute.queue.record_event(&self.gpu, true)?);
        Ok(())
    }

    /// Waits while the launch queue is too deep; called between two passes, each of two timestamps.
    pub(crate) fn keep_pace(&mut self) -> Result<(), DeviceError> {
        if let Some(end) = self.stamps.len().checked_sub(1) {
            self.queue_depth.begun(end, self.launched.get());
        }
        while let Some(end) = self.queue_depth.next() {
            self.wait_for_event(&self.stamps[end])?;
        }
        Ok(())
    }

    /// Waits until `event` has completed, with the same limit.
    fn wait_for_event(&self, event: &Event) -> Result<(), DeviceError> {
        #[cfg(feature = "nccl")]
        if let Some(peers) = &self.peers {
            return peers.wait_until(|| event.query());
        }
        event.wait()
    }

    /// The timestamps since the last call, and a new base: so the error of the host's clock against
    /// the device's does not grow, and the driver's times stay small.
    pub(crate) fn all_stamps(&mut self, epoch: Instant) -> Result<Vec<u64>, DeviceError> {
        let stamps = std::mem::take(&mut self.stamps);
        self.queue_depth.drained(self.launched.get());
        let event = |i: usize| if i == 0 { &self.base.event } else { &stamps[i - 1] };
        let times = clock::unroll(stamps.len(), |i, j| event(j).ms_since(event(i)))?;
        let since = |ns: &f64| clock::since(epoch, self.base.at, *ns);
        let times = times.iter().map(since).collect();
        self.base = base(&self.gpu, &self.compute)?;
        Ok(times)
    }
}

impl<E: Element> Drop for Cuda<E> {
    fn drop(&mut self) {
        // Buffers freed here may still be read by enqueued kernels.
        let _ = self.gpu.bind();
        let settled = self.synchronize_all();
        #[cfg(feature = "nccl")]
        if settled.is_err() {
            // Transfers blocked by a lost process end when the communicator is aborted.
            self.peers = None;
        }
        if settled.is_err() {
            let _ = self.synchronize_all();
        }
    }
}

/// Records an event in an idle stream between two readings of the host's clock, which bound its
/// time.
fn base(gpu: &Arc<Gpu>, stream: &Stream) -> Result<Base, DeviceError> {
    let mut best: Option<(std::time::Duration, Base)> = None;
    for _ in 0..TRIES {
        stream.queue.synchronize()?;
        let before = Instant::now();
        let event = stream.queue.record_event(gpu, true)?;
        event.wait()?;
        let width = before.elapsed();
        if best.as_ref().is_none_or(|(least, _)| width < *least) {
            best = Some((width, Base { event, at: before + width / 2 }));
        }
    }
    best.map(|(_, base)| base).ok_or_else(|| failed("cuEventRecord", "no time was taken"))
}

#[cfg(test)]
mod tests {
    use super::super::element::Bf16;
    use super::*;

    #[test]
    fn stages_and_what_they_hand_on_may_change_threads() {
        fn may_change_threads<T: Send + 'static>() {}
        may_change_threads::<Cuda<Bf16>>();
        may_change_threads::<Cuda<f32>>();
        may_change_threads::<super::super::tensor_transfer::TensorTransfer<Bf16>>();
        may_change_threads::<Tokens>();
    }
}
