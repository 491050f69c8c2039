//! A GPU, or one of its equal partitions, as the target of a calibration.

use std::marker::PhantomData;
use std::sync::Arc;

use profile::{Element as Kind, LinkKind, Machine};

use super::{Bf16, Cuda, DeviceInfo, Element, HostCopies, Parts, chosen, devices};
use gpt::{Cut, HostCopy, OpenError, Target, TargetOptions, WithTarget};
use runtime::DeviceError;

/// A GPU, or a partition of one, for tensors of elements `E`.
struct Part<E: Element> {
    info: DeviceInfo,
    /// Another GPU, if there is one.
    other: Option<DeviceInfo>,
    /// All partitions, if the target is one of them.
    parts: Option<Arc<Parts>>,
    element: PhantomData<E>,
}

/// Links that are timed by default.
pub fn links() -> Vec<LinkKind> {
    let mut links = vec![LinkKind::HandOver, LinkKind::HostCopy];
    if devices().is_ok_and(|all| all.len() > 1) {
        links.insert(1, LinkKind::Peer);
    }
    links
}

/// Runs `with` on the target that `options` select.
pub fn with_target<W: WithTarget>(
    options: &TargetOptions,
    with: W,
) -> Result<W::Output, OpenError> {
    match options.element {
        Kind::Bf16 => Part::<Bf16>::open(options).map(|part| with.run(&part)),
        Kind::F32 => Part::<f32>::open(options).map(|part| with.run(&part)),
    }
}

impl<E: Element> Part<E> {
    fn open(options: &TargetOptions) -> Result<Self, OpenError> {
        let TargetOptions { unit, parts, .. } = *options;
        let Some(info) = chosen(&[unit])?.pop() else {
            return Err(OpenError::NoUnit { unit, units: 0 });
        };
        let other = devices()?.into_iter().find(|other| other.ordinal != info.ordinal);
        let cut = |parts| Parts::cut(info.ordinal, parts).map(Arc::new);
        let parts = match parts {
            0 => return Err(OpenError::NoParts),
            1 => None,
            parts => match cut(parts) {
                Ok(parts) => Some(parts),
                Err(missing @ (DeviceError::Missing { .. } | DeviceError::NoGpu { .. })) => {
                    return Err(missing.into());
                }
                Err(error) => return Err(OpenError::Uncut { error, parts }),
            },
        };
        Ok(Self { info, other, parts, element: PhantomData })
    }
}

impl<E: Element> Target for Part<E> {
    type Ops = Cuda<E>;

    fn ops(&self) -> Result<Cuda<E>, DeviceError> {
        match &self.parts {
            Some(parts) => parts.kernels(0),
            None => Cuda::whole(self.info.ordinal),
        }
    }

    fn neighbours(
        &self,
    ) -> impl Fn(usize) -> Result<Cuda<E>, DeviceError> + Clone + Send + 'static {
        let parts = self.parts.clone();
        move |neighbour| {
            let none = || DeviceError::NotAtHand { what: "a part for a neighbour".to_owned() };
            parts.as_ref().ok_or_else(none)?.kernels(neighbour + 1)
        }
    }

    fn peak(&self, hidden: usize) -> usize {
        hidden.saturating_mul(4).clamp(256, 8192)
    }

    fn describe(&self, machine: Machine) -> Machine {
        let DeviceInfo { name, multiprocessors: all, driver, clock_khz, .. } = &self.info;
        let device = match &self.parts {
            None => format!("{name}, {all} multiprocessors"),
            Some(parts) => {
                let (each, parts) = (parts.multiprocessors(), parts.count());
                format!("{name}, one of {parts} parts: {each} of {all} multiprocessors")
            }
        };
        let clocks = Some(format!("at most {} MHz", clock_khz / 1000));
        Machine { device, driver: Some(driver.clone()), clocks, ..machine }
    }

    fn memory(&self) -> Option<u64> {
        Some(self.info.memory.0)
    }

    fn cut(&self) -> Option<Cut> {
        self.parts.as_ref().map(|parts| Cut {
            parts: parts.count(),
            multiprocessors: parts.multiprocessors(),
            of: self.info.multiprocessors,
        })
    }

    fn has(&self, kind: LinkKind) -> bool {
        match kind {
            LinkKind::HandOver | LinkKind::HostCopy => true,
            LinkKind::Peer => self.other.is_some(),
            LinkKind::Queue | LinkKind::Tcp | LinkKind::Copy | LinkKind::Nccl => false,
        }
    }

    fn ends(&self, kind: LinkKind) -> Result<[Cuda<E>; 2], DeviceError> {
        if let Some(other) = self.other.as_ref().filter(|_| kind == LinkKind::Peer) {
            return Ok([Cuda::whole(self.info.ordinal)?, Cuda::whole(other.ordinal)?]);
        }
        let parts = match &self.parts {
            Some(parts) => Arc::clone(parts),
            None => Arc::new(Parts::cut(self.info.ordinal, 2)?),
        };
        Ok([parts.kernels(0)?, parts.kernels(1)?])
    }

    fn host_copies(&self, bytes: usize) -> Result<Box<dyn HostCopy>, DeviceError> {
        let kernels = Cuda::<E>::whole(self.info.ordinal)?;
        Ok(Box::new(HostCopies::new(kernels, bytes)?))
    }
}

impl<E: Element> HostCopy for HostCopies<E> {
    fn time(&mut self) -> Result<[u64; 2], DeviceError> {
        Self::time(self)
    }
}
