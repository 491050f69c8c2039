//! What a measured step says of simulated phases.

use pipeline::Nanos;

use super::rollout::RolloutRun;
use super::training::TrainedStep;

/// Measured times of phases over their simulated ones, each positive or 0, and the time of what is not simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factors {
    /// Of generation.
    pub rollout: f64,
    /// Of old log-probabilities.
    pub old: f64,
    /// Of the reference's.
    pub reference: f64,
    /// Of values of the critic.
    pub values: f64,
    /// Of updates of the policy.
    pub update: f64,
    /// Of updates of the critic.
    pub critic: f64,
    /// Of weights to the engines.
    pub sync: f64,
    /// What a step has besides its phases.
    pub rest: Nanos,
}

impl Default for Factors {
    /// Phases as they are simulated, and nothing besides.
    fn default() -> Self {
        Self {
            rollout: 1.0,
            old: 1.0,
            reference: 1.0,
            values: 1.0,
            update: 1.0,
            critic: 1.0,
            sync: 1.0,
            rest: Nanos(0),
        }
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast saturates.
fn scaled(time: u64, factor: f64) -> u64 {
    (time as f64 * factor).round() as u64
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast saturates.
fn scaled_sum(time: u128, factor: f64) -> u128 {
    (time as f64 * factor).round() as u128
}

impl Factors {
    /// `run` with the measured times.
    pub(super) fn rollout(&self, run: RolloutRun) -> RolloutRun {
        let of = |time: u64| scaled(time, self.rollout);
        RolloutRun {
            time: of(run.time),
            tail: of(run.tail),
            prefill: of(run.prefill),
            idle: scaled_sum(run.idle, self.rollout),
            ..run
        }
    }

    /// `step` with the measured times.
    pub(super) fn training(&self, step: TrainedStep) -> TrainedStep {
        let of = |time: Nanos, factor: f64| Nanos(scaled(time.0, factor));
        TrainedStep {
            old: of(step.old, self.old),
            reference: of(step.reference, self.reference),
            values: of(step.values, self.values),
            update: of(step.update, self.update),
            critic: of(step.critic, self.critic),
            busy: scaled_sum(step.busy, self.update),
            ..step
        }
    }

    /// The measured time of weights to the engines, which are simulated in `sync`, and what else a step has, in
    /// nanoseconds.
    pub(super) fn beside(&self, sync: u128) -> (u128, u128) {
        (scaled_sum(sync, self.sync), u128::from(self.rest.0))
    }
}
