//! Steps one after the other, and their mean.

use pipeline::Nanos;

use super::factors::Factors;
use super::rollout::{Response, Rollout, RolloutRun};
use super::training::{TrainedStep, Trainer, Training};
use crate::error::{FsdpError, count};

/// The most steps.
const MAX_STEPS: u64 = 10_000;
/// The most steps that a response takes.
const MAX_WARM_UP: u64 = 1_000;
/// Picoseconds of a nanosecond.
const PICOSECONDS: u64 = 1_000;

/// Where rollout and training run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// On the same devices, in turn.
    Colocated,
    /// On devices of their own: the rollout of a step beside the training on the step before, which is one
    /// step off-policy.
    Separate,
}

/// What is neither rollout nor training.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Beside {
    /// Rewards, behind the rollout.
    pub reward: Nanos,
    /// Weights that go from training to the engines.
    pub sync: Nanos,
    /// Devices that change from rollout to training and back, where both share them.
    pub switch: Nanos,
}

/// Steps of one question.
#[derive(Clone, Debug)]
pub struct Steps {
    /// What is generated.
    pub rollout: Rollout,
    /// What is trained.
    pub training: Training,
    /// Where.
    pub placement: Placement,
    /// The rest of a step.
    pub beside: Beside,
    /// Number of steps that the mean is over.
    pub steps: u64,
    /// What a measured run says of the phases, if there is one.
    pub factors: Option<Factors>,
}

/// Sums over steps.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mean {
    /// Number of steps.
    pub steps: u64,
    /// All of them, in nanoseconds.
    pub time: u128,
    pub rollout: u128,
    pub reward: u128,
    /// Old log-probabilities.
    pub old: u128,
    /// Log-probabilities of the reference.
    pub reference: u128,
    /// Values of the critic.
    pub values: u128,
    /// Updates of the policy.
    pub update: u128,
    /// Updates of the critic.
    pub critic: u128,
    /// Weights to the engines, and devices that change between rollout and training.
    pub sync: u128,
    /// Whatever else a measured step has.
    pub rest: u128,
    /// From when nine of ten responses of a rollout were done to its end.
    pub tail: u128,
    /// What replicas waited for the slowest, of all together.
    pub engine_idle: u128,
    /// The time of prefills of the average replica.
    pub prefill: u128,
    pub replicas: u64,
    /// Responses that were done, and trained on.
    pub responses: u64,
    /// Tokens of their prompts and of themselves.
    pub tokens: u64,
    /// Tokens that were generated.
    pub generated: u64,
    /// Decode steps of all replicas.
    pub decode_steps: u64,
    /// The most sequences of a replica.
    pub peak: u64,
    /// Sequences that were preempted.
    pub preemptions: u64,
    /// Updates of the policy.
    pub updates: u64,
    /// Their microbatches of all groups.
    pub microbatches: u64,
    /// What groups computed in updates, of all together.
    pub update_busy: u128,
    /// Groups of devices that train.
    pub groups: u64,
}

impl Steps {
    /// Checks what does not depend on lengths.
    pub fn check(&self) -> Result<(), FsdpError> {
        count("steps", self.steps, 1, MAX_STEPS)?;
        let responses = self.rollout.requests()?;
        let warm_up = self.rollout.warm_up();
        if warm_up > MAX_WARM_UP {
            return Err(FsdpError::Budget { steps: warm_up, most: MAX_WARM_UP });
        }
        if let Trainer::Pipelines(pipelines) = &self.training.trainer {
            pipelines.check()?;
        }
        let update = count("responses of an update", self.training.update, 1, responses)?;
        match responses.is_multiple_of(update) {
            true => Ok(()),
            false => Err(FsdpError::Updates { responses, update }),
        }
    }

    /// The sums over all steps. `done` hears of every step; once `stop` is true, the rest is left out, but
    /// for the first.
    pub fn run(&self, done: impl Fn(), stop: impl Fn() -> bool) -> Result<Mean, FsdpError> {
        self.check()?;
        let mut mean = Mean::default();
        let mut carried: Vec<Response> = Vec::new();
        let mut waiting: Vec<u32> = Vec::new();
        let warm_up = self.rollout.warm_up();
        for at in 0..warm_up.saturating_add(self.steps) {
            if mean.steps > 0 && stop() {
                break;
            }
            // Steps that count draw the same lengths with a budget and without.
            let step = at.wrapping_sub(warm_up);
            let rollout = self.rollout.run(step, &mut carried)?;
            if at < warm_up {
                continue;
            }
            let mut samples = std::mem::take(&mut waiting);
            samples.extend(&rollout.samples);
            let trained = match self.rollout.budget {
                // Responses that groups cannot share equally are trained on in the next step.
                Some(_) => self.training.trained(samples.len()),
                None => samples.len(),
            };
            waiting.extend(&samples[trained..]);
            let samples = &samples[..trained];
            let training = self.training.run(samples, step)?;
            let (rollout, training) = match self.factors {
                None => (rollout, training),
                Some(factors) => (factors.rollout(rollout), factors.training(training)),
            };
            mean.add(self, &rollout, &training, samples)?;
            done();
        }
        Ok(mean)
    }
}

impl Mean {
    fn add(
        &mut self,
        of: &Steps,
        rollout: &RolloutRun,
        trained: &TrainedStep,
        samples: &[u32],
    ) -> Result<(), FsdpError> {
        let Beside { reward, sync, switch } = of.beside;
        let generating = rollout.time.div_ceil(PICOSECONDS);
        let forwards = [trained.old, trained.reference, trained.values];
        let training = forwards.into_iter().chain([trained.update, trained.critic]);
        let training = training.map(|time| u128::from(time.0)).sum::<u128>();
        let generation = u128::from(generating) + u128::from(reward.0);
        let (both, sync) = match of.placement {
            Placement::Colocated => {
                (generation + training, u128::from(sync.0) + u128::from(switch.0))
            }
            Placement::Separate => (generation.max(training), u128::from(sync.0)),
        };
        let (sync, rest) = of.factors.map_or((sync, 0), |factors| factors.beside(sync));
        let step = both + sync + rest;
        u64::try_from(step).map_err(|_| FsdpError::Overflow)?;
        let pico = u128::from(PICOSECONDS);
        self.steps += 1;
        self.time += step;
        self.rollout += u128::from(generating);
        self.reward += u128::from(reward.0);
        self.old += u128::from(trained.old.0);
        self.reference += u128::from(trained.reference.0);
        self.values += u128::from(trained.values.0);
        self.update += u128::from(trained.update.0);
        self.critic += u128::from(trained.critic.0);
        self.sync += sync;
        self.rest += rest;
        self.tail += u128::from(rollout.tail) / pico;
        self.engine_idle += rollout.idle / pico;
        self.prefill += u128::from(rollout.prefill) / pico;
        self.replicas = of.rollout.replicas;
        self.responses += samples.len() as u64;
        self.tokens += samples.iter().map(|&tokens| u64::from(tokens)).sum::<u64>();
        self.generated += rollout.tokens;
        self.decode_steps += rollout.steps;
        self.peak = self.peak.max(rollout.peak);
        self.preemptions += rollout.preemptions;
        self.updates += trained.updates;
        self.microbatches += trained.microbatches;
        self.update_busy += trained.busy;
        self.groups = of.training.groups() as u64;
        Ok(())
    }

    /// The mean time of a response that is trained on, in nanoseconds: what levers are compared by. None
    /// where none was.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_response(&self) -> Option<f64> {
        (self.responses > 0).then(|| self.time as f64 / self.responses as f64)
    }
}
