//! The assignment of samples to devices and microbatches.

use std::time::Duration;

use pipeline::Bytes;
use thiserror::Error;

use crate::model::Model;
use runtime::MAX_TIMEOUT;

/// The most devices of a run, with a connection between any two.
pub const MAX_DEVICES: usize = 64;

/// The most microbatches of a run, over all devices and minibatches.
const MAX_MICROBATCHES: usize = 1 << 20;

/// How devices get parameters and reduce gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Communication {
    /// All-gathers and reduce-scatters: all devices synchronize at every layer of every microbatch.
    Collectives,
    /// Point-to-point pulls and pushes: devices synchronize at the end of every minibatch.
    OnDemand,
}

/// A minibatch: the lengths and the placement of its samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Minibatch {
    /// Length of each sample, in tokens.
    pub lengths: Vec<usize>,
    /// Sample numbers by device and microbatch, in execution order.
    pub devices: Vec<Vec<Vec<u32>>>,
}

/// Why a plan cannot be carried out.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// No minibatch, or no device, or too many of either.
    #[error("{what} must be from 1 to {most}, not {given}")]
    Count {
        /// The quantity that is counted.
        what: &'static str,
        /// The value given.
        given: usize,
        /// The largest it may be.
        most: usize,
    },
    /// Minibatches for different numbers of devices.
    #[error("minibatch {minibatch} is for {given} devices, others for {devices}")]
    Devices {
        /// The minibatch, from 0.
        minibatch: usize,
        /// Its devices.
        given: usize,
        /// Those of the first.
        devices: usize,
    },
    /// A sample that is not in exactly one microbatch.
    #[error("sample {sample} of minibatch {minibatch} is in {times} microbatches, not in one")]
    Sample {
        /// The minibatch, from 0.
        minibatch: usize,
        /// The sample, from 0.
        sample: usize,
        /// Number of microbatches that contain it.
        times: usize,
    },
    /// A sample longer than the model's sequence, or empty.
    #[error(
        "sample {sample} of minibatch {minibatch} has {length} tokens: the model takes 1 to {most}"
    )]
    Length {
        /// The minibatch, from 0.
        minibatch: usize,
        /// The sample, from 0.
        sample: usize,
        /// Its tokens.
        length: usize,
        /// The longest sequence of the model.
        most: usize,
    },
    /// A deadlock: devices that would wait in a collective for devices that have ended.
    #[error(
        "collectives would deadlock: device {device} has {others} microbatches of minibatch \
         {minibatch}, device 0 has {microbatches}"
    )]
    Deadlock {
        /// The minibatch, from 0.
        minibatch: usize,
        /// Microbatches of device 0.
        microbatches: usize,
        /// Another device.
        device: usize,
        /// Its microbatches.
        others: usize,
    },
    /// A timeout of zero, or one that is too long.
    #[error("timeout {0:?}: it must be above zero and at most {MAX_TIMEOUT:?}")]
    Timeout(Duration),
}

/// The plan of a run: model, minibatches and communication.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub(super) model: Model,
    pub(super) minibatches: Vec<Minibatch>,
    pub(super) communication: Communication,
    pub(super) seed: u64,
    pub(super) timeout: Duration,
}

impl Plan {
    /// Trains `model` on `minibatches`, whose tokens and initial weights are drawn under `seed`.
    /// The sequence of the model is the longest sample. A device waits for another at most
    /// `timeout`.
    pub fn new(
        model: Model,
        minibatches: Vec<Minibatch>,
        communication: Communication,
        seed: u64,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        if timeout.is_zero() || timeout > MAX_TIMEOUT {
            return Err(PlanError::Timeout(timeout));
        }
        count("minibatches", minibatches.len(), u32::MAX as usize)?;
        let devices = minibatches.first().map_or(0, |first| first.devices.len());
        count("devices", devices, MAX_DEVICES)?;
        let all = minibatches.iter().flat_map(|minibatch| &minibatch.devices).map(Vec::len).sum();
        count("microbatches of all devices and minibatches", all, MAX_MICROBATCHES)?;
        for (number, minibatch) in minibatches.iter().enumerate() {
            minibatch.check(number, devices, model)?;
            if communication == Communication::Collectives {
                minibatch.check_even(number)?;
            }
        }
        Ok(Self { model, minibatches, communication, seed, timeout })
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.minibatches.first().map_or(0, |first| first.devices.len())
    }

    /// The layers of the model.
    #[must_use]
    pub const fn layers(&self) -> usize {
        self.model.layers()
    }

    #[must_use]
    pub fn minibatches(&self) -> &[Minibatch] {
        &self.minibatches
    }

    /// A text that must be equal on all devices.
    pub(super) fn words(&self) -> String {
        let Self { model, minibatches, communication, seed, .. } = self;
        format!("{model:?} {minibatches:?} {communication:?} {seed}")
    }

    /// Estimated bytes of all devices and the serial run together: weights, optimizer state and
    /// accumulated gradients twice, one unsharded layer on every device, and the activations of the
    /// largest microbatch of each.
    #[must_use]
    pub fn needs(&self) -> Bytes {
        let parameters = self.model.parameters() as u64;
        let embedding = (self.model.vocabulary() + self.model.sequence()) as u64;
        let hidden = self.model.hidden() as u64;
        let unit = (12 * hidden.saturating_mul(hidden) + 13 * hidden).max(embedding * hidden);
        let of_devices = (0..self.devices()).map(|device| {
            let of = |minibatch: &Minibatch| {
                let microbatches = minibatch.devices.get(device).into_iter().flatten();
                let kept = |samples: &Vec<u32>| {
                    let lengths = samples.iter().map(|&sample| minibatch.length(sample));
                    lengths.fold(0, |sum: u64, length| sum.saturating_add(self.kept(length)))
                };
                microbatches.map(kept).max().unwrap_or(0)
            };
            self.minibatches.iter().map(of).max().unwrap_or(0)
        });
        let kept = of_devices.fold(0, u64::saturating_add);
        // Weights, master weights, two moments and accumulated gradients, of all devices and of the
        // serial run; and all weights once more for the comparison.
        let states = parameters.saturating_mul(2 * (4 * 4 + 8) + 4);
        let units = unit.saturating_mul(32).saturating_mul(self.devices() as u64 + 1);
        Bytes(kept.saturating_mul(2).saturating_add(states).saturating_add(units))
    }

    /// Bytes of the activations that forwards keep of a sample.
    fn kept(&self, length: usize) -> u64 {
        let [length, hidden, heads, layers, vocabulary] = [
            length,
            self.model.hidden(),
            self.model.heads(),
            self.model.layers(),
            self.model.vocabulary(),
        ]
        .map(|size| size as u64);
        let of_layer = (16 * hidden).saturating_add(heads.saturating_mul(length));
        let of_token = of_layer.saturating_mul(layers).saturating_add(2 * vocabulary);
        of_token.saturating_mul(length).saturating_mul(4)
    }
}

impl Minibatch {
    /// The tokens of all samples.
    pub(super) fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// The tokens of `sample`.
    pub(super) fn length(&self, sample: u32) -> usize {
        self.lengths.get(sample as usize).copied().unwrap_or(0)
    }

    fn check(&self, minibatch: usize, devices: usize, model: Model) -> Result<(), PlanError> {
        if self.devices.len() != devices {
            return Err(PlanError::Devices { minibatch, given: self.devices.len(), devices });
        }
        count("samples of a minibatch", self.lengths.len(), u32::MAX as usize)?;
        let most = model.sequence();
        let wrong = |length: &usize| !(1..=most).contains(length);
        if let Some(sample) = self.lengths.iter().position(wrong) {
            let length = self.lengths[sample];
            return Err(PlanError::Length { minibatch, sample, length, most });
        }
        let mut times = vec![0usize; self.lengths.len()];
        for &sample in self.devices.iter().flatten().flatten() {
            let sample = sample as usize;
            match times.get_mut(sample) {
                Some(times) => *times += 1,
                None => return Err(PlanError::Sample { minibatch, sample, times: 0 }),
            }
        }
        match times.iter().position(|&times| times != 1) {
            Some(sample) => Err(PlanError::Sample { minibatch, sample, times: times[sample] }),
            None => Ok(()),
        }
    }

    fn check_even(&self, minibatch: usize) -> Result<(), PlanError> {
        let microbatches = self.devices.first().map_or(0, Vec::len);
        let uneven = self.devices.iter().position(|device| device.len() != microbatches);
        let fault = |device: usize| {
            let others = self.devices[device].len();
            PlanError::Deadlock { minibatch, microbatches, device, others }
        };
        uneven.map_or(Ok(()), |device| Err(fault(device)))
    }
}

fn count(what: &'static str, given: usize, most: usize) -> Result<(), PlanError> {
    match (1..=most).contains(&given) {
        true => Ok(()),
        false => Err(PlanError::Count { what, given, most }),
    }
}
