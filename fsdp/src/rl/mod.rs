//! A step of reinforcement learning (GRPO, PPO): engines generate responses, log-probabilities are
//! computed, the policy is updated, and the engines get its weights.
//!
//! An [`Engine`] is one replica that generates with continuous batching; [`Rollout`] draws prompts and
//! responses, and deals them to the replicas; [`Training`] packs what they generated and times forwards
//! and updates, over FSDP or on [`Pipelines`]; [`Steps`] repeats all of it. [`Factors`] bring phases to the times of a
//! measured step.
//!
//! Engine times are whole picoseconds, so that the same question has the same bytes everywhere.

mod engine;
mod factors;
mod pipelines;
mod rollout;
mod steps;
mod training;

pub use engine::{Engine, EngineRun, Request, Times};
pub use factors::Factors;
pub use pipelines::{ChunkCosts, PassCost, Pipelines};
pub use rollout::{MAX_REQUESTS, Rollout, RolloutRun};
pub use steps::{Beside, Mean, Placement, Steps};
pub use training::{Forwards, TrainedStep, Trainer, Training};

#[cfg(test)]
mod tests;
