//! The steps of the devices through layers and microbatches, and how long each takes.

use pipeline::{Kind, Nanos, Pass, PassTimes};
use sim::straggler::NoiseSample;

use crate::error::FsdpError;
use crate::packing::Packing;

/// One layer of one microbatch, forward or backward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layer {
    pub(crate) microbatch: usize,
    /// Its number; a backward runs through them from the last to the first.
    pub(crate) layer: u16,
    pub(crate) is_backward: bool,
}

/// What devices do with the layers of a microbatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passes {
    /// Forward and backward.
    Training,
    /// Forward alone, as log-probabilities need it.
    Forward,
}

/// The work of the devices in one minibatch.
pub(crate) struct Work<'a> {
    /// The nominal time of each microbatch of each device, in nanoseconds.
    times: Vec<Vec<u64>>,
    layers: u16,
    passes: Passes,
    noise: Option<NoiseSample<'a>>,
}

impl<'a> Work<'a> {
    /// The work of `packing`, samples taking `samples` each.
    pub(crate) fn new(
        packing: &Packing,
        samples: &[Nanos],
        layers: u16,
        passes: Passes,
        noise: Option<NoiseSample<'a>>,
    ) -> Result<Self, FsdpError> {
        let sum = |sum: u64, sample: &Nanos| sum.checked_add(sample.0);
        samples.iter().try_fold(0, sum).ok_or(FsdpError::Overflow)?;
        let time = |items: &Vec<u32>| items.iter().map(|&item| samples[item as usize].0).sum();
        let device = |device: &Vec<Vec<u32>>| device.iter().map(time).collect();
        let times = packing.devices().iter().map(device).collect();
        Ok(Self { times, layers, passes, noise })
    }

    /// The nominal time of each microbatch of each device, in nanoseconds.
    pub(crate) fn times(&self) -> &[Vec<u64>] {
        &self.times
    }

    pub(crate) const fn is_noisy(&self) -> bool {
        self.noise.is_some()
    }

    /// Whether gradients travel.
    pub(crate) fn has_backward(&self) -> bool {
        self.passes == Passes::Training
    }

    /// How often a microbatch passes each layer.
    fn rounds(&self) -> usize {
        if self.has_backward() { 2 } else { 1 }
    }

    /// Number of layers that each of `microbatches` passes, forward and backward.
    pub(crate) fn layers(&self, microbatches: usize) -> usize {
        microbatches * self.rounds() * usize::from(self.layers)
    }

    /// Layer number `index` of a device in the order in which it does them.
    pub(crate) fn layer(&self, index: usize) -> Layer {
        let layers = usize::from(self.layers);
        let of_microbatch = self.rounds() * layers;
        let (microbatch, within) = (index / of_microbatch, index % of_microbatch);
        let is_backward = within >= layers;
        let layer = if is_backward { 2 * layers - 1 - within } else { within };
        Layer { microbatch, layer: u16::try_from(layer).unwrap_or(u16::MAX), is_backward }
    }

    /// How long `device` takes for `layer` if it begins at `start`: a third of the microbatch's
    /// time goes forward, the rest backward, as matrix products have it, and all layers are equal.
    /// A forward alone has all of the time.
    pub(crate) fn duration(&self, device: usize, layer: Layer, start: u64) -> u64 {
        let all = Nanos(self.times[device][layer.microbatch]);
        let forward = if self.has_backward() { all.share(0, 3) } else { all };
        let phase = if layer.is_backward { all - forward } else { forward };
        let nominal = phase.share(u64::from(layer.layer), u64::from(self.layers));
        let Some(noise) = self.noise else { return nominal.0 };
        let kind = if layer.is_backward { Kind::B } else { Kind::F };
        let microbatch = u32::try_from(layer.microbatch).unwrap_or(u32::MAX);
        let pass = Pass { kind, chunk: layer.layer, microbatch };
        let times = PassTimes::new(nominal, nominal, Nanos(0));
        noise.pass_duration(times, device, pass, start)
    }
}
