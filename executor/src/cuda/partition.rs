//! Several stages on one GPU: each has multiprocessors of its own, by a green context, so that the
//! passes of one stage never take those of another, and a bubble leaves its part idle. Caches,
//! memory and copy engines are shared still.
#![allow(unsafe_code)] // calls into the driver

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::{Gpu, Stream};
use super::element::Element;
use super::stage::Cuda;
use crate::error::DeviceError;

/// How the stages of a GPU share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// One stage has all of it.
    Whole,
    /// Each stage has this many multiprocessors of its own.
    Partitioned {
        /// Multiprocessors of each stage.
        multiprocessors: u32,
    },
    /// All stages share all multiprocessors: passes that run at a time slow each other.
    Shared {
        /// Why they have none of their own.
        why: String,
    },
}

/// The least of a partition, and what partitions are multiples of, where the driver does not say:
/// those of compute capability 9.0.
const HOPPER: (u32, u32) = (8, 8);

/// Multiprocessors of each of `stages` equal partitions of `all`, in multiples of `alignment` and no
/// less than `least`; `None` if there are not enough.
fn equal_share(all: u32, stages: u32, least: u32, alignment: u32) -> Option<u32> {
    let alignment = alignment.max(1);
    let each = all.checked_div(stages)? / alignment * alignment;
    (each >= least.max(1)).then_some(each)
}

/// A green context, destroyed with this.
pub(crate) struct GreenContext {
    raw: cu::CUgreenCtx,
    // Its resources are those of the primary context, which must outlive it.
    _gpu: Arc<Gpu>,
}

// SAFETY: handles of the driver may be used on any thread.
unsafe impl Send for GreenContext {}

impl Drop for GreenContext {
    fn drop(&mut self) {
        // SAFETY: created by `green_contexts`; its stream is gone before.
        let _ = unsafe { cu::cuGreenCtxDestroy(self.raw) };
    }
}

/// A stream on multiprocessors of its own.
pub(crate) struct Partition {
    pub(crate) stream: Stream,
    pub(crate) context: GreenContext,
    pub(crate) multiprocessors: u32,
}

const SM: cu::CUdevResourceType = cu::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;

/// Cuts the multiprocessors of `gpu` into `stages` equal parts.
fn cut(gpu: &Gpu, stages: u32) -> Result<(Vec<cu::CUdevResource>, u32), DeviceError> {
    // SAFETY: all zeros is a resource (of no kind); the driver writes it before it is read, and as
    // many of the parts as it is told there is room for.
    unsafe {
        let mut all = MaybeUninit::<cu::CUdevResource>::zeroed().assume_init();
        let got = cu::cuDeviceGetDevResource(gpu.device, &mut all, SM);
        driver("cuDeviceGetDevResource", got)?;
        let sm = all.__bindgen_anon_1.sm;
        let known = |value, default| if value == 0 { default } else { value };
        let least = known(sm.minSmPartitionSize, HOPPER.0);
        let alignment = known(sm.smCoscheduledAlignment, HOPPER.1);
        let each = equal_share(sm.smCount, stages, least, alignment).ok_or_else(|| {
            let parts = format!("{} multiprocessors cannot be cut into {stages} parts", sm.smCount);
            failed("cuDevSmResourceSplitByCount", format!("{parts} of at least {least}"))
        })?;
        let zeroed = MaybeUninit::<cu::CUdevResource>::zeroed().assume_init();
        let mut parts = vec![zeroed; stages as usize];
        let mut count = stages;
        let first = parts.as_mut_ptr();
        let done =
            cu::cuDevSmResourceSplitByCount(first, &mut count, &all, ptr::null_mut(), 0, each);
        driver("cuDevSmResourceSplitByCount", done)?;
        if count < stages {
            let message = format!("{count} parts of {each} multiprocessors instead of {stages}");
            return Err(failed("cuDevSmResourceSplitByCount", message));
        }
        Ok((parts, each))
    }
}

/// A stream on `part` alone.
fn partition(gpu: &Arc<Gpu>, part: &mut cu::CUdevResource) -> Result<Partition, DeviceError> {
    gpu.bind()?;
    // SAFETY: a part made by `cut`; every handle is written before it is used.
    let (context, stream, multiprocessors) = unsafe {
        let mut description = ptr::null_mut();
        let described = cu::cuDevResourceGenerateDesc(&mut description, part, 1);
        driver("cuDevResourceGenerateDesc", described)?;
        let mut raw = ptr::null_mut();
        let flags = cu::CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
        let made = cu::cuGreenCtxCreate(&mut raw, description, gpu.device, flags);
        driver("cuGreenCtxCreate", made)?;
        let context = GreenContext { raw, _gpu: Arc::clone(gpu) };
        let mut stream = ptr::null_mut();
        let flags = cu::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let made = cu::cuGreenCtxStreamCreate(&mut stream, raw, flags, 0);
        driver("cuGreenCtxStreamCreate", made)?;
        (context, stream, part.__bindgen_anon_1.sm.smCount)
    };
    Ok(Partition { stream: Stream::adopt(gpu, stream), context, multiprocessors })
}

/// Marks in a partition and waits for them elsewhere and here, as stages will.
fn try_out(gpu: &Arc<Gpu>, partition: &Partition) -> Result<(), DeviceError> {
    let (here, elsewhere) = (partition.stream.queue, Stream::new(gpu)?);
    elsewhere.queue.wait_for(&here.mark(gpu, false)?)?;
    here.wait_for(&elsewhere.queue.mark(gpu, false)?)?;
    here.mark(gpu, true)?.wait()?;
    here.settle()
}

fn partitions(gpu: &Arc<Gpu>, stages: u32) -> Result<(Vec<Partition>, u32), DeviceError> {
    let (mut parts, each) = cut(gpu, stages)?;
    let made: Vec<Partition> =
        parts.iter_mut().map(|part| partition(gpu, part)).collect::<Result<_, _>>()?;
    made.iter().try_for_each(|one| try_out(gpu, one))?;
    Ok((made, each))
}

/// The kernels of `stages` stages on GPU number `ordinal`, each on multiprocessors of its own where
/// the driver and the GPU allow, and how they share it.
///
/// Every stage has two streams. Beyond four stages, `CUDA_DEVICE_MAX_CONNECTIONS=32` should be in the
/// environment before the program starts: the driver has 8 queues to a GPU otherwise, and streams
/// that share one wait for each other.
///
/// # Errors
/// No such GPU, or something of CUDA is missing; or a call failed that all of them need.
pub fn split<E: Element>(
    ordinal: usize,
    stages: usize,
) -> Result<(Vec<Cuda<E>>, Sharing), DeviceError> {
    let gpu = Gpu::open(ordinal)?;
    if stages <= 1 {
        let whole = (0..stages).map(|_| Cuda::new(&gpu, None)).collect::<Result<_, _>>()?;
        return Ok((whole, Sharing::Whole));
    }
    let number = u32::try_from(stages).unwrap_or(u32::MAX);
    match partitions(&gpu, number) {
        Ok((parts, multiprocessors)) => {
            let all = parts.into_iter().map(|part| Cuda::new(&gpu, Some(part)));
            Ok((all.collect::<Result<_, _>>()?, Sharing::Partitioned { multiprocessors }))
        }
        Err(error) => {
            let all = (0..stages).map(|_| Cuda::new(&gpu, None)).collect::<Result<_, _>>()?;
            Ok((all, Sharing::Shared { why: error.to_string() }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_aligned_equal_and_no_less_than_the_least() {
        let share = |all, stages| equal_share(all, stages, 8, 8);
        assert_eq!([1, 2, 3, 4, 8, 16].map(|p| share(132, p)), [128, 64, 40, 32, 16, 8].map(Some));
        assert_eq!(share(132, 17), None);
        assert_eq!(share(132, 0), None);
        assert_eq!(share(132, u32::MAX), None);
        assert_eq!(equal_share(108, 7, 2, 2), Some(14));
        assert_eq!(equal_share(16, 4, 0, 0), Some(4));
    }

    #[test]
    fn shares_fit_the_gpu() {
        for (all, stages) in (1..200).flat_map(|all| (1..40).map(move |stages| (all, stages))) {
            if let Some(each) = equal_share(all, stages, 4, 2) {
                assert!(each * stages <= all && each >= 4 && each % 2 == 0);
            }
        }
    }
}
