//! How long one minibatch takes, and how much of that devices wait.

use std::sync::Arc;

use pipeline::{Nanos, Pass, Slot, Span, Timeline};
use sim::straggler::Stragglers;

use crate::error::{FsdpError, count};
use crate::links::Links;
use crate::packing::Packing;
use crate::work::{Layer, Passes, Work};
use crate::{collectives, on_demand};

/// The most layers of a model.
pub const MAX_LAYERS: u64 = 1 << 10;

/// How parameters get to where they are needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Communication {
    /// All-gathers and reduce-scatters: all devices meet at every layer.
    Collectives,
    /// Point-to-point pulls and pushes: devices meet at the end of the minibatch.
    OnDemand,
}

impl Communication {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Collectives, Self::OnDemand];

    /// The name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collectives => "collectives",
            Self::OnDemand => "on-demand",
        }
    }
}

/// The devices that run minibatches, and their links.
#[derive(Clone, Debug)]
pub struct Machine {
    devices: usize,
    layers: u16,
    links: Option<Links>,
    stragglers: Option<Arc<Stragglers>>,
}

/// When the devices were done with a minibatch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepTimes {
    /// The end of the last of them.
    pub time: Nanos,
    /// How long each of them computed.
    pub busy: Vec<Nanos>,
}

impl StepTimes {
    /// The sum of what devices computed, in nanoseconds.
    #[must_use]
    pub fn total_busy(&self) -> u128 {
        self.busy.iter().map(|busy| u128::from(busy.0)).sum()
    }

    /// Share of the time in which the average device waits; 0 of no time.
    #[must_use]
    pub fn bubble_rate(&self) -> f64 {
        bubble_rate(self.total_busy(), u128::from(self.time.0) * self.busy.len() as u128)
    }
}

/// Share of `available` that is not `busy`; 0 of nothing.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn bubble_rate(busy: u128, available: u128) -> f64 {
    if available == 0 {
        return 0.0;
    }
    available.saturating_sub(busy) as f64 / available as f64
}

impl Machine {
    /// `devices` for a model of `layers`, all alike, over links that take no time.
    pub fn new(devices: usize, layers: u64) -> Result<Self, FsdpError> {
        count("devices", devices as u64, 1, crate::packing::MAX_DEVICES)?;
        let layers = count("layers", layers, 1, MAX_LAYERS)?;
        let layers = u16::try_from(layers).unwrap_or(u16::MAX);
        Ok(Self { devices, layers, links: None, stragglers: None })
    }

    /// The machine with transfers over `links`.
    pub fn with_links(mut self, links: Links) -> Result<Self, FsdpError> {
        links.check(self.devices)?;
        self.links = Some(links);
        Ok(self)
    }

    /// A copy with slow devices and noise. Every device counts as a stage, every layer of a
    /// microbatch as a pass; a minibatch is a replica.
    #[must_use]
    pub fn with_stragglers(mut self, stragglers: Stragglers) -> Self {
        self.stragglers = Some(Arc::new(stragglers));
        self
    }

    /// The links, unless transfers take no time.
    #[must_use]
    pub const fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    /// Number of devices.
    #[must_use]
    pub const fn devices(&self) -> usize {
        self.devices
    }

    /// Times minibatch number `minibatch`, packed as `packing`, samples taking `samples` each.
    ///
    /// Over links that take no time, collectives take the sum over microbatches and layers of the
    /// slowest device's time, and on-demand communication the longest sum of a device (arXiv
    /// 2601.19362).
    pub fn step(
        &self,
        packing: &Packing,
        samples: &[Nanos],
        communication: Communication,
        minibatch: u64,
    ) -> Result<StepTimes, FsdpError> {
        self.passes(packing, samples, communication, (minibatch, Passes::Training))
    }

    /// The same of a forward alone, as log-probabilities need it: samples take `samples` each, and no
    /// gradients travel.
    pub fn forward(
        &self,
        packing: &Packing,
        samples: &[Nanos],
        communication: Communication,
        minibatch: u64,
    ) -> Result<StepTimes, FsdpError> {
        self.passes(packing, samples, communication, (minibatch, Passes::Forward))
    }

    fn passes(
        &self,
        packing: &Packing,
        samples: &[Nanos],
        communication: Communication,
        (minibatch, passes): (u64, Passes),
    ) -> Result<StepTimes, FsdpError> {
        let work = self.work(packing, samples, minibatch, passes)?;
        if self.links.is_none() && !work.is_noisy() {
            return even_pace(packing, &work, communication);
        }
        let mut busy = vec![Nanos(0); work.times().len()];
        let time = self.run(packing, &work, communication, |device, _, _, duration| {
            busy[device] = Nanos(busy[device].0.saturating_add(duration));
        })?;
        Ok(StepTimes { time, busy })
    }

    /// When each device computes what: a span for every layer of every microbatch, as a forward or
    /// a whole backward.
    pub fn timeline(
        &self,
        packing: &Packing,
        samples: &[Nanos],
        communication: Communication,
        minibatch: u64,
    ) -> Result<Timeline, FsdpError> {
        let work = self.work(packing, samples, minibatch, Passes::Training)?;
        let mut stages = vec![Vec::new(); work.times().len()];
        self.run(packing, &work, communication, |device, layer: Layer, start, duration| {
            let chunk = u16::try_from(device).unwrap_or(u16::MAX);
            let microbatch = u32::try_from(layer.microbatch).unwrap_or(u32::MAX);
            let make = if layer.is_backward { Pass::bw } else { Pass::f };
            let (slot, end) = (Slot::from(make(chunk, microbatch)), start.saturating_add(duration));
            stages[device].push(Span { slot, start: Nanos(start), end: Nanos(end) });
        })?;
        Ok(Timeline { stages })
    }

    fn work(
        &self,
        packing: &Packing,
        samples: &[Nanos],
        minibatch: u64,
        passes: Passes,
    ) -> Result<Work<'_>, FsdpError> {
        let planned = packing.devices().len();
        count("devices of the plan", planned as u64, self.devices as u64, self.devices as u64)?;
        let packed: usize = packing.devices().iter().flatten().map(Vec::len).sum();
        count("times of samples", samples.len() as u64, packed as u64, packed as u64)?;
        let noise = self.stragglers.as_ref().map(|noise| noise.sample(minibatch, 0));
        Work::new(packing, samples, self.layers, passes, noise)
    }

    fn run(
        &self,
        packing: &Packing,
        work: &Work<'_>,
        communication: Communication,
        did: impl FnMut(usize, Layer, u64, u64),
    ) -> Result<Nanos, FsdpError> {
        let (layers, links) = (self.layers, self.links.as_ref());
        let time = match (communication, links) {
            (Communication::Collectives, _) => {
                collectives::run(work, layers, links, packing.common_microbatches()?, did)
            }
            (Communication::OnDemand, Some(links)) => on_demand::run_over(work, layers, links, did),
            (Communication::OnDemand, None) => on_demand::run(work, did),
        };
        // The end of the clock means overflow.
        if time == u64::MAX { Err(FsdpError::Overflow) } else { Ok(Nanos(time)) }
    }
}

/// The times where all layers of a microbatch take equally long and nothing else takes time: whole
/// microbatches give the same result as their layers, without the rounding.
fn even_pace(
    packing: &Packing,
    work: &Work<'_>,
    communication: Communication,
) -> Result<StepTimes, FsdpError> {
    let times = work.times();
    // Neither is more than the sum of all samples, which the clock tells.
    let busy: Vec<Nanos> = times.iter().map(|device| Nanos(device.iter().sum())).collect();
    let time = match communication {
        Communication::OnDemand => busy.iter().copied().max().unwrap_or_default(),
        Communication::Collectives => {
            let slowest = |microbatch: usize| times.iter().map(|device| device[microbatch]).max();
            let microbatches = packing.common_microbatches()?;
            Nanos((0..microbatches).filter_map(slowest).sum())
        }
    };
    Ok(StepTimes { time, busy })
}
