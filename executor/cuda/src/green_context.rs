//! Green contexts: multiprocessors of a GPU with streams of their own.
#![allow(unsafe_code)] // calls into the driver

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys as cu;

use super::call::{driver, failed};
use super::device::{Gpu, Stream};
use runtime::DeviceError;

/// The minimum size and the alignment of a partition, in multiprocessors, where the driver does not
/// report them, by compute capability (CUDA C++ Programming Guide, green contexts;
/// `cuDevSmResourceSplitByCount` in the driver API).
const fn limits_of(capability: (i32, i32)) -> (u32, u32) {
    match capability {
        (..=6, _) => (1, 1),
        (7, _) => (2, 2),
        (8, _) => (4, 2),
        _ => (8, 8),
    }
}

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
    pub(crate) gpu: Arc<Gpu>,
}

// SAFETY: handles of the driver may be used on any thread.
unsafe impl Send for GreenContext {}
// SAFETY: as above.
unsafe impl Sync for GreenContext {}

impl Drop for GreenContext {
    fn drop(&mut self) {
        // SAFETY: created by `green_context`; its streams hold it, and are gone.
        let _ = unsafe { cu::cuGreenCtxDestroy(self.raw) };
    }
}

impl std::fmt::Debug for GreenContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GreenContext({:?})", self.gpu)
    }
}

/// A stream on its own multiprocessors.
pub(crate) struct Partition {
    pub(crate) stream: Stream,
    pub(crate) context: Arc<GreenContext>,
    pub(crate) multiprocessors: u32,
}

const SM: cu::CUdevResourceType = cu::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;

/// Splits the multiprocessors of `gpu` into `stages` equal parts.
pub(crate) fn cut(gpu: &Gpu, stages: u32) -> Result<(Vec<cu::CUdevResource>, u32), DeviceError> {
    // SAFETY: all zeros is a resource (of no kind); the driver writes it before it is read, and at
    // most as many parts as fit the buffer of the given length.
    unsafe {
        let mut all = MaybeUninit::<cu::CUdevResource>::zeroed().assume_init();
        let got = cu::cuDeviceGetDevResource(gpu.device, &mut all, SM);
        driver("cuDeviceGetDevResource", got)?;
        let sm = all.__bindgen_anon_1.sm;
        let known = |value, default| if value == 0 { default } else { value };
        let limits = limits_of(gpu.info.capability);
        let least = known(sm.minSmPartitionSize, limits.0);
        let alignment = known(sm.smCoscheduledAlignment, limits.1);
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
        let got = parts.first().map_or(each, |part| part.__bindgen_anon_1.sm.smCount);
        Ok((parts, got))
    }
}

/// A green context of `part`.
pub(crate) fn green_context(
    gpu: &Arc<Gpu>,
    part: &mut cu::CUdevResource,
) -> Result<GreenContext, DeviceError> {
    gpu.bind()?;
    // SAFETY: a part made by `cut`; every handle is written before it is used.
    unsafe {
        let mut description = ptr::null_mut();
        let described = cu::cuDevResourceGenerateDesc(&mut description, part, 1);
        driver("cuDevResourceGenerateDesc", described)?;
        let mut raw = ptr::null_mut();
        let flags = cu::CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
        let made = cu::cuGreenCtxCreate(&mut raw, description, gpu.device, flags);
        driver("cuGreenCtxCreate", made)?;
        Ok(GreenContext { raw, gpu: Arc::clone(gpu) })
    }
}

/// A new stream on the multiprocessors of `context`.
pub(crate) fn stream_on(context: &GreenContext) -> Result<Stream, DeviceError> {
    context.gpu.bind()?;
    let mut stream = ptr::null_mut();
    let flags = cu::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the context lives; the handle is written before it is used.
    driver("cuGreenCtxStreamCreate", unsafe {
        cu::cuGreenCtxStreamCreate(&mut stream, context.raw, flags, 0)
    })?;
    Ok(Stream::adopt(&context.gpu, stream))
}

/// Probes a green context with the calls that stages make: stream waits between it and another
/// stream in both directions, and timing.
pub(crate) fn try_out(context: &GreenContext) -> Result<(), DeviceError> {
    let gpu = &context.gpu;
    let (stream, elsewhere) = (stream_on(context)?, Stream::new(gpu)?);
    let here = stream.queue;
    let start = here.record_event(gpu, true)?;
    elsewhere.queue.wait_for(&here.record_event(gpu, false)?)?;
    here.wait_for(&elsewhere.queue.record_event(gpu, false)?)?;
    let end = here.record_event(gpu, true)?;
    end.wait()?;
    here.synchronize()?;
    let took = end.ms_since(&start)?;
    match took >= 0.0 {
        true => Ok(()),
        false => Err(failed("cuEventElapsedTime", format!("{took} ms in a part of the GPU"))),
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
        // An A100 in 8 parts, and an H100.
        let of_chip = |all, capability| {
            let (least, alignment) = limits_of(capability);
            equal_share(all, 8, least, alignment)
        };
        assert_eq!(of_chip(108, (8, 0)), Some(12));
        assert_eq!(of_chip(132, (9, 0)), Some(16));
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
