//! Calibrating a GPU, or one of the equal parts that stages on it have.

use std::io::Write;
use std::time::{Duration, Instant};

use calibrate::measure::{MeasureError, device_link_times, hand_over_times};
use calibrate::profile::{self, Link, LinkKind, Machine};
use calibrate::sample::{Rule, Source};
use executor::DeviceError;
use executor::cuda::{Bf16, Cuda, DeviceInfo, Element, HostCopies, Sharing, devices, split};
use pipeline::Bytes;

use super::target::Target;
use super::{Calibrate, LinkArg};
use crate::commands::note;
use crate::error::Error;
use crate::gpus::{ElementKind, available, refused};

/// A GPU, or a part of one, and what tensors on it hold.
struct Part<E: Element> {
    info: DeviceInfo,
    /// Another GPU, where there is one.
    other: Option<DeviceInfo>,
    parts: usize,
    multiprocessors: u32,
    peak: usize,
    /// Keeps the GPU open, with its kernels compiled.
    _whole: Cuda<E>,
}

/// Links that are timed where nobody asks for others.
pub fn links() -> Vec<LinkArg> {
    let mut links = vec![LinkArg::HandOver, LinkArg::HostCopy];
    if devices().is_ok_and(|all| all.len() > 1) {
        links.insert(1, LinkArg::Peer);
    }
    links
}

/// Calibrates what `asked` says.
pub fn run(asked: &Calibrate, out: &mut dyn Write) -> Result<(), Error> {
    match asked.element.unwrap_or(ElementKind::Bf16) {
        ElementKind::Bf16 => run_in::<Bf16>(asked, profile::Element::Bf16, out),
        ElementKind::F32 => run_in::<f32>(asked, profile::Element::F32, out),
    }
}

fn run_in<E: Element>(
    asked: &Calibrate,
    element: profile::Element,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let Some(info) = available(&[asked.gpu.unwrap_or(0)])?.pop() else {
        return Err(Error::question("--device cuda: there is no GPU"));
    };
    let other = available(&[])?.into_iter().find(|other| other.ordinal != info.ordinal);
    if other.is_none() {
        asked.refuse_links(|kind| kind == LinkKind::Peer, "a second GPU")?;
    }
    let memory = info.memory.0;
    let target = Part::<E>::open(info, other, asked.partition.unwrap_or(1), asked.hidden)?;
    asked.run_on(&target, element, Some(memory), out)
}

impl<E: Element> Part<E> {
    /// One of `parts` parts of a GPU.
    fn open(
        info: DeviceInfo,
        other: Option<DeviceInfo>,
        parts: usize,
        hidden: usize,
    ) -> Result<Self, Error> {
        if parts == 0 {
            return Err(Error::question("--partition must be at least 1"));
        }
        let whole = Cuda::whole(info.ordinal).map_err(|error| refused(&error))?;
        let multiprocessors = match split::<E>(info.ordinal, parts) {
            Err(error) => return Err(refused(&error)),
            Ok((_, Sharing::Whole)) => info.multiprocessors,
            Ok((_, Sharing::Partitioned { multiprocessors })) => multiprocessors,
            Ok((_, Sharing::Shared { why })) => {
                let message = format!("--partition {parts}: {why}");
                let cure = "give a smaller --partition; stages that share a GPU as a whole have no \
                            times of their own";
                return Err(Error::question(message).with_help(cure));
            }
        };
        if parts > 1 {
            note(&format!(
                "timing {multiprocessors} of {} multiprocessors, while the others are idle: caches \
                 and memory are theirs too in a run",
                info.multiprocessors
            ));
        }
        let peak = hidden.saturating_mul(4).clamp(256, 8192);
        Ok(Self { info, other, parts, multiprocessors, peak, _whole: whole })
    }

    /// Kernels of two neighbouring stages, the second on another GPU if one is given.
    fn ends(&self, other: Option<&DeviceInfo>) -> Result<[Cuda<E>; 2], DeviceError> {
        if let Some(other) = other {
            return Ok([Cuda::whole(self.info.ordinal)?, Cuda::whole(other.ordinal)?]);
        }
        let (stages, _) = split(self.info.ordinal, self.parts.max(2))?;
        let mut stages = stages.into_iter();
        let none = || DeviceError::NotAtHand { what: "a second stage".to_owned() };
        Ok([stages.next().ok_or_else(none)?, stages.next().ok_or_else(none)?])
    }
}

impl<E: Element> Target for Part<E> {
    type Ops = Cuda<E>;

    fn ops(&self) -> Result<Cuda<E>, DeviceError> {
        let (stages, _) = split(self.info.ordinal, self.parts)?;
        let none = || DeviceError::NotAtHand { what: "a part of the GPU".to_owned() };
        stages.into_iter().next().ok_or_else(none)
    }

    fn peak(&self) -> usize {
        self.peak
    }

    fn describe(&self, machine: Machine) -> Machine {
        let DeviceInfo { name, multiprocessors: all, driver, clock_khz, .. } = &self.info;
        let device = match self.parts {
            1 => format!("{name}, {all} multiprocessors"),
            parts => {
                let each = self.multiprocessors;
                format!("{name}, one of {parts} parts: {each} of {all} multiprocessors")
            }
        };
        let clocks = Some(format!("at most {} MHz", clock_khz / 1000));
        Machine { device, driver: Some(driver.clone()), clocks, ..machine }
    }

    fn link(
        &self,
        kind: LinkKind,
        message: Bytes,
        overhead: u64,
        rule: &Rule,
        done: &mut dyn FnMut(),
    ) -> Result<Option<Link>, MeasureError> {
        let other = self.other.as_ref();
        match kind {
            LinkKind::HandOver => {
                let ends = || self.ends(None);
                hand_over_times(kind, message, overhead, rule, ends, done).map(Some)
            }
            LinkKind::Peer if other.is_some() => {
                let ends = || self.ends(other);
                hand_over_times(kind, message, overhead, rule, ends, done).map(Some)
            }
            LinkKind::HostCopy => {
                let make = |bytes| {
                    let copies = HostCopies::new(Cuda::<E>::whole(self.info.ordinal)?, bytes)?;
                    Ok(Pinned { copies, began: Instant::now() })
                };
                device_link_times(kind, message, overhead, rule, make, done).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Copies to and from pinned memory: one series of both.
struct Pinned<E: Element> {
    copies: HostCopies<E>,
    began: Instant,
}

impl<E: Element> Source for Pinned<E> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        let [there, back] = self.copies.time()?;
        series[0].push(u64::midpoint(there, back));
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}
