//! Partitions a GPU: each stage has its own multiprocessors, by a green context, so that the passes
//! of one stage never use those of another, and a bubble leaves its partition idle. Caches, memory
//! and copy engines are shared still.

use std::sync::Arc;

use super::device::Gpu;
use super::element::Element;
use super::green_context::{GreenContext, Partition, cut, green_context, stream_on, try_out};
use super::stage::Cuda;
use runtime::DeviceError;

/// How the stages of a GPU share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// One stage has the whole GPU.
    Whole,
    /// Each stage has this many multiprocessors.
    Partitioned {
        /// Multiprocessors of each stage.
        multiprocessors: u32,
    },
    /// All stages share all multiprocessors: concurrent passes slow each other.
    Shared,
}

/// A GPU split into equal partitions.
#[derive(Debug)]
pub struct Parts {
    contexts: Vec<Arc<GreenContext>>,
    multiprocessors: u32,
}

impl Parts {
    /// GPU number `ordinal` in `count` partitions.
    pub fn cut(ordinal: usize, count: usize) -> Result<Self, DeviceError> {
        let gpu = Gpu::open(ordinal)?;
        let (mut parts, multiprocessors) = cut(&gpu, u32::try_from(count).unwrap_or(u32::MAX))?;
        let contexts = parts.iter_mut().map(|part| green_context(&gpu, part).map(Arc::new));
        let contexts = contexts.collect::<Result<Vec<_>, _>>()?;
        contexts.iter().try_for_each(|context| try_out(context))?;
        Ok(Self { contexts, multiprocessors })
    }

    /// Multiprocessors of each partition.
    #[must_use]
    pub const fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Number of partitions.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.contexts.len()
    }

    /// The kernels of a stage on partition number `part`; several stages may share one.
    pub fn kernels<E: Element>(&self, part: usize) -> Result<Cuda<E>, DeviceError> {
        let none = || DeviceError::NotAtHand { what: format!("part {part} of the GPU") };
        let context = Arc::clone(self.contexts.get(part).ok_or_else(none)?);
        let (stream, gpu) = (stream_on(&context)?, Arc::clone(&context.gpu));
        let multiprocessors = self.multiprocessors;
        Cuda::new(&gpu, Some(Partition { stream, context, multiprocessors }))
    }
}

/// The kernels of `stages` stages on GPU number `ordinal`, each on its own multiprocessors, and how
/// they share it. If the driver or the GPU cannot split it into so many partitions, that is an
/// error, unless they `may_share` the whole GPU.
///
/// Every stage has two streams. Beyond four stages, set `CUDA_DEVICE_MAX_CONNECTIONS=32` before the
/// program starts: the driver has 8 hardware queues to a GPU by default, and streams that share one
/// wait for each other.
pub fn split<E: Element>(
    ordinal: usize,
    stages: usize,
    may_share: bool,
) -> Result<(Vec<Cuda<E>>, Sharing), DeviceError> {
    let shared = || (0..stages).map(|_| Cuda::whole(ordinal)).collect::<Result<Vec<_>, _>>();
    if stages <= 1 {
        return Ok((shared()?, Sharing::Whole));
    }
    match Parts::cut(ordinal, stages) {
        Ok(parts) => {
            let all = (0..stages).map(|part| parts.kernels(part)).collect::<Result<_, _>>()?;
            Ok((all, Sharing::Partitioned { multiprocessors: parts.multiprocessors }))
        }
        Err(_) if may_share => Ok((shared()?, Sharing::Shared)),
        Err(error) => Err(error),
    }
}
