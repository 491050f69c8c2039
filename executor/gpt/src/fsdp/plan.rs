//! Which samples each device computes, in which microbatches.

use std::time::Duration;

use pipeline::Bytes;
use thiserror::Error;

use crate::model::Model;
use runtime::MAX_TIMEOUT;

/// The most devices of a run: every two of them have a connection.
pub const MAX_DEVICES: usize = 64;

/// The most microbatches of a run, over all devices and minibatches.
const MAX_MICROBATCHES: usize = 1 << 20;

/// How parameters get to where they are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Communication {
    /// All-gathers and reduce-scatters: all devices meet at every layer of every microbatch.
    Collectives,
    /// Pulls and pushes from device to device: they meet at the end of every minibatch.
    OnDemand,
}

/// A minibatch: how long its samples are, and where they are computed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Minibatch {
    /// The tokens of each sample.
    pub lengths: Vec<usize>,
    /// The numbers of the samples, by device and by microbatch, in the order in which they run.
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
        /// In how many microbatches it is.
        times: usize,
    },
    /// A sample that the model has no positions for, or without tokens.
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
    /// Devices that would wait in a collective for those that have ended.
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
    /// No time to wait, or more than anyone would.
    #[error("patience {0:?}: it must be above zero and at most {MAX_TIMEOUT:?}")]
    Timeout(Duration),
}

/// What devices compute together: a model, its minibatches, and how they communicate.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub(super) model: Model,
    pub(super) minibatches: Vec<Minibatch>,
    pub(super) communication: Communication,
    pub(super) seed: u64,
    pub(super) timeout: Duration,
}

impl Plan {
    /// Trains `model` on `minibatches`, whose tokens and the weights at the start are drawn under
    /// `seed`. The sequence of the model is the longest that a sample may be. A device waits for
    /// another at most `timeout`.
    ///
    /// # Errors
    /// Counts out of range, samples that are not in one microbatch each or longer than the model
    /// takes, and unequal numbers of microbatches with collectives.
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

    /// How many devices there are.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.minibatches.first().map_or(0, |first| first.devices.len())
    }

    /// The layers of the model.
    #[must_use]
    pub const fn layers(&self) -> usize {
        self.model.layers()
    }

    /// The minibatches.
    #[must_use]
    pub fn minibatches(&self) -> &[Minibatch] {
        &self.minibatches
    }

    /// The same in words, which all devices must agree on.
    pub(super) fn words(&self) -> String {
        let Self { model, minibatches, communication, seed, .. } = self;
        format!("{model:?} {minibatches:?} {communication:?} {seed}")
    }

    /// About how much memory all devices and the serial run need together: weights, optimizer and
    /// sums of gradients twice, a whole layer in pieces on every device, and what forwards keep of
    /// the largest microbatch of each.
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
        // Weights, master weights, two moments and sums, of all devices and of the serial run; and
        // the weights of all once more, where they are compared.
        let states = parameters.saturating_mul(2 * (4 * 4 + 8) + 4);
        let units = unit.saturating_mul(32).saturating_mul(self.devices() as u64 + 1);
        Bytes(kept.saturating_mul(2).saturating_add(states).saturating_add(units))
    }

    /// Bytes that forwards keep of a sample.
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
