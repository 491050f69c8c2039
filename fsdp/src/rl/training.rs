//! What FSDP does with the responses of a step: forwards for log-probabilities, and updates.

use pipeline::Nanos;

use crate::cost::CostModel;
use crate::error::{FsdpError, count};
use crate::packing::Packing;
use crate::step::{Machine, StepTimes};
use crate::study::Way;

/// The most epochs over the responses of a step.
const MAX_EPOCHS: u64 = 1_000;

/// Forwards of a step, each over all responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forwards {
    /// Log-probabilities by the policy as it generated.
    pub old: bool,
    /// Log-probabilities by a reference model.
    pub reference: bool,
    /// Values by a critic, which is updated beside the policy.
    pub critic: bool,
}

/// Training over FSDP: groups of devices that share each sequence count as one device.
#[derive(Clone, Debug)]
pub struct Training {
    /// The groups, and their links.
    pub machine: Machine,
    /// Forward and backward of a sample, by a group.
    pub model: CostModel,
    /// The forward alone.
    pub forward: CostModel,
    /// How samples are packed, and how parameters travel.
    pub way: Way,
    /// The most tokens of a microbatch of a group.
    pub limit: u64,
    /// The same of a forward alone, which keeps no activations.
    pub forward_limit: u64,
    /// Responses of an update.
    pub update: u64,
    /// How often the responses of a step are gone through.
    pub epochs: u64,
    /// The forwards.
    pub forwards: Forwards,
}

/// The times of a step's training.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TrainedStep {
    /// The old log-probabilities.
    pub old: Nanos,
    /// The reference's.
    pub reference: Nanos,
    /// The critic's values.
    pub values: Nanos,
    /// All updates of the policy.
    pub update: Nanos,
    /// All updates of the critic.
    pub critic: Nanos,
    /// Number of updates of the policy.
    pub updates: u64,
    /// Microbatches of all groups in all updates.
    pub microbatches: u64,
    /// What groups computed in updates of the policy, in nanoseconds, of all together.
    pub busy: u128,
}

impl Training {
    /// How many of `responses` are trained on: all groups get equally many samples of an update.
    #[must_use]
    pub fn trained(&self, responses: usize) -> usize {
        responses - responses % self.machine.devices()
    }

    /// The times of training on `samples`, in tokens: forwards over all of them, then updates of `update` samples; the last may have
    /// fewer. `step` numbers the step, for noise.
    ///
    /// # Errors
    /// If samples cannot be packed, or the clock overflows.
    pub fn run(&self, samples: &[u32], step: u64) -> Result<TrainedStep, FsdpError> {
        count("epochs", self.epochs, 1, MAX_EPOCHS)?;
        let size = usize::try_from(self.update.max(1)).unwrap_or(usize::MAX);
        let Forwards { old, reference, critic } = self.forwards;
        let mut trained = TrainedStep::default();
        let has_forwards = (old || reference || critic) && !samples.is_empty();
        let forward = if has_forwards { self.forward(samples, step)? } else { Nanos(0) };
        for minibatch in samples.chunks(size) {
            let (times, microbatches) = self.update(minibatch, step)?;
            // Every epoch packs the same minibatches.
            let epochs = self.epochs;
            let all = times.time.0.checked_mul(epochs).ok_or(FsdpError::Overflow)?;
            trained.update = sum(trained.update, Nanos(all))?;
            trained.busy += times.total_busy() * u128::from(epochs);
            trained.updates += epochs;
            trained.microbatches += microbatches * epochs;
        }
        let if_asked = |is_asked: bool, time: Nanos| if is_asked { time } else { Nanos(0) };
        Ok(TrainedStep {
            old: if_asked(old, forward),
            reference: if_asked(reference, forward),
            values: if_asked(critic, forward),
            critic: if_asked(critic, trained.update),
            ..trained
        })
    }

    fn update(&self, lengths: &[u32], step: u64) -> Result<(StepTimes, u64), FsdpError> {
        let (packing, times) = self.packed(lengths, self.model, self.limit)?;
        let microbatches = packing.devices().iter().map(|device| device.len() as u64).sum();
        let times = self.machine.step(&packing, &times, self.way.communication, step)?;
        Ok((times, microbatches))
    }

    fn forward(&self, lengths: &[u32], step: u64) -> Result<Nanos, FsdpError> {
        let (packing, times) = self.packed(lengths, self.forward, self.forward_limit)?;
        Ok(self.machine.forward(&packing, &times, self.way.communication, step)?.time)
    }

    fn packed(
        &self,
        lengths: &[u32],
        model: CostModel,
        limit: u64,
    ) -> Result<(Packing, Vec<Nanos>), FsdpError> {
        let devices = self.machine.devices();
        let packing = Packing::new(self.way.method, lengths, devices, limit, model)?;
        let times = lengths.iter().map(|&length| model.time(length));
        Ok((packing, times.collect::<Result<_, _>>()?))
    }
}

fn sum(a: Nanos, b: Nanos) -> Result<Nanos, FsdpError> {
    a.0.checked_add(b.0).map(Nanos).ok_or(FsdpError::Overflow)
}
