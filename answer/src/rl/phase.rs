//! Simulated phases of a step, as a log has them.

use fsdp::rl::{Factors, Mean};
use imports::step_log::Fact;

/// A phase of a step: its name, a log's time of it, its simulated time, and its factor.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) fact: Fact,
    pub(super) time: fn(&Mean) -> u128,
    pub(super) factor: fn(&mut Factors) -> &mut f64,
    /// The key by which the question has it.
    pub(super) key: Option<&'static str>,
}

/// Those that are simulated, in their order.
pub(super) const PHASES: [Phase; 7] = [
    Phase {
        name: "rollout",
        fact: Fact::Rollout,
        time: |of| of.rollout,
        factor: |of| &mut of.rollout,
        key: None,
    },
    Phase {
        name: "old log-probabilities",
        fact: Fact::Old,
        time: |of| of.old,
        factor: |of| &mut of.old,
        key: Some("no-old-log-probs"),
    },
    Phase {
        name: "reference log-probabilities",
        fact: Fact::Reference,
        time: |of| of.reference,
        factor: |of| &mut of.reference,
        key: Some("reference"),
    },
    Phase {
        name: "values",
        fact: Fact::Values,
        time: |of| of.values,
        factor: |of| &mut of.values,
        key: Some("critic"),
    },
    Phase {
        name: "update",
        fact: Fact::Update,
        time: |of| of.update,
        factor: |of| &mut of.update,
        key: None,
    },
    Phase {
        name: "update of the critic",
        fact: Fact::Critic,
        time: |of| of.critic,
        factor: |of| &mut of.critic,
        key: Some("critic"),
    },
    Phase {
        name: "weights to engines",
        fact: Fact::Sync,
        time: |of| of.sync,
        factor: |of| &mut of.sync,
        key: None,
    },
];
