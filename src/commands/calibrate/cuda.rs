//! Calibrating a GPU, or one of the equal parts that stages on it have.

use std::io::Write;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use calibrate::measure::{MeasureError, device_link_times, hand_over_times};
use calibrate::sample::{Rule, Source};
use executor::DeviceError;
use executor::cuda::{Bf16, Cuda, DeviceInfo, Element, HostCopies, Parts, devices};
use pipeline::Bytes;
use profile::{Link, LinkKind, Machine};

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
    /// All of them, where what is timed is a part.
    parts: Option<Arc<Parts>>,
    peak: usize,
    element: PhantomData<E>,
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
    let shares = (asked.partition.unwrap_or(1), asked.neighbours()?);
    let target = Part::<E>::open(info, other, shares, asked.hidden)?;
    asked.run_on(&target, element, Some(memory), out)
}

impl<E: Element> Part<E> {
    /// One of `parts` parts of a GPU, `neighbours` others of which compute.
    fn open(
        info: DeviceInfo,
        other: Option<DeviceInfo>,
        (parts, neighbours): (usize, usize),
        hidden: usize,
    ) -> Result<Self, Error> {
        if parts == 0 {
            return Err(Error::question("--partition must be at least 1"));
        }
        let cut = |parts| Parts::cut(info.ordinal, parts).map(Arc::new);
        let parts = match (parts > 1).then(|| cut(parts)).transpose() {
            Ok(parts) => parts,
            Err(missing @ (DeviceError::Missing { .. } | DeviceError::NoGpu { .. })) => {
                return Err(refused(&missing));
            }
            Err(why) => {
                let message = format!("--partition {parts}: {why}");
                let cure = "give a smaller --partition; stages that share a GPU as a whole have no \
                            times of their own";
                return Err(Error::question(message).with_help(cure));
            }
        };
        let peak = hidden.saturating_mul(4).clamp(256, 8192);
        let part = Self { info, other, parts, peak, element: PhantomData };
        part.note(neighbours);
        // Kernels are compiled before anything is timed.
        part.ops().map_err(|error| refused(&error))?;
        Ok(part)
    }

    /// Says what of the GPU is timed, and what meanwhile the rest of it does.
    fn note(&self, neighbours: usize) {
        let Some(parts) = &self.parts else { return };
        let idle = parts.count() - 1 - neighbours;
        let others = match (neighbours, idle) {
            (0, _) => "the others are idle: caches and memory are theirs too in a run (--workers \
                       lets them compute)"
                .to_owned(),
            (_, 0) => "the others compute".to_owned(),
            _ => format!("{neighbours} other parts compute and {idle} are idle"),
        };
        note(&format!(
            "timing {} of {} multiprocessors, while {others}",
            parts.multiprocessors(),
            self.info.multiprocessors
        ));
    }

    /// Kernels of two neighbouring stages, the second on another GPU if one is given.
    fn ends(&self, other: Option<&DeviceInfo>) -> Result<[Cuda<E>; 2], DeviceError> {
        if let Some(other) = other {
            return Ok([Cuda::whole(self.info.ordinal)?, Cuda::whole(other.ordinal)?]);
        }
        let parts = match &self.parts {
            Some(parts) => Arc::clone(parts),
            None => Arc::new(Parts::cut(self.info.ordinal, 2)?),
        };
        Ok([parts.kernels(0)?, parts.kernels(1)?])
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

    fn peak(&self) -> usize {
        self.peak
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
