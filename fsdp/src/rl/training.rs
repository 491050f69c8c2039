//! What training does with the responses of a step: forwards for log-probabilities, and updates.

use pipeline::Nanos;

use super::pipelines::{GroupTimes, Pipelines};
use crate::cost::CostModel;
use crate::error::{FsdpError, count};
use crate::packing::Packing;
use crate::step::Machine;
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

/// The groups of devices that train, each on samples of its own.
#[derive(Clone, Debug)]
pub enum Trainer {
    /// FSDP: devices that share each sequence count as one device. With the forward of a sample alone.
    Fsdp(Machine, CostModel),
    /// Replicas that are pipelines.
    Pipelines(Pipelines),
}

/// The training of a step.
#[derive(Clone, Debug)]
pub struct Training {
    /// The groups, and their links.
    pub trainer: Trainer,
    /// Forward and backward of a sample, by a group: what microbatches are balanced by.
    pub model: CostModel,
    /// How samples are packed, and how FSDP moves parameters.
    pub way: Way,
    /// The most tokens of a microbatch of a group.
    pub limit: u64,
    /// The same of a forward alone, which keeps no activations.
    pub forward_limit: u64,
    /// Responses of an update.
    pub update: u64,
    /// How often the responses of a step are gone through.
    pub epochs: u64,
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
    /// Number of groups.
    #[must_use]
    pub const fn groups(&self) -> usize {
        match &self.trainer {
            Trainer::Fsdp(machine, _) => machine.devices(),
            Trainer::Pipelines(pipelines) => pipelines.replicas,
        }
    }

    /// How many of `responses` are trained on: all groups get equally many samples of an update.
    #[must_use]
    pub fn trained(&self, responses: usize) -> usize {
        responses - responses % self.groups().max(1)
    }

    /// The times of training on `samples`, in tokens: forwards over all of them, then updates of `update` samples; the last may have
    /// fewer. `step` numbers the step, for noise.
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
            trained.busy += times.busy * u128::from(epochs);
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

    fn update(&self, lengths: &[u32], step: u64) -> Result<(GroupTimes, u64), FsdpError> {
        let packing = self.packed(lengths, self.model, self.limit)?;
        let microbatches = packing.devices().iter().map(|device| device.len() as u64).sum();
        let times = match &self.trainer {
            Trainer::Pipelines(pipelines) => pipelines.update(&packing, lengths)?,
            Trainer::Fsdp(machine, _) => {
                let samples = times(lengths, self.model)?;
                let run = machine.step(&packing, &samples, self.way.communication, step)?;
                GroupTimes { time: run.time, busy: run.total_busy() }
            }
        };
        Ok((times, microbatches))
    }

    fn forward(&self, lengths: &[u32], step: u64) -> Result<Nanos, FsdpError> {
        let run = match &self.trainer {
            Trainer::Pipelines(pipelines) => {
                let packing = self.packed(lengths, self.model, self.forward_limit)?;
                pipelines.forward(&packing, lengths)?.time
            }
            Trainer::Fsdp(machine, forward) => {
                let packing = self.packed(lengths, *forward, self.forward_limit)?;
                let samples = times(lengths, *forward)?;
                machine.forward(&packing, &samples, self.way.communication, step)?.time
            }
        };
        Ok(run)
    }

    fn packed(&self, lengths: &[u32], model: CostModel, limit: u64) -> Result<Packing, FsdpError> {
        Packing::new(self.way.method, lengths, self.groups(), limit, model)
    }
}

/// How long `model` takes for samples of `lengths`.
fn times(lengths: &[u32], model: CostModel) -> Result<Vec<Nanos>, FsdpError> {
    lengths.iter().map(|&length| model.time(length)).collect()
}

fn sum(a: Nanos, b: Nanos) -> Result<Nanos, FsdpError> {
    a.0.checked_add(b.0).map(Nanos).ok_or(FsdpError::Overflow)
}
