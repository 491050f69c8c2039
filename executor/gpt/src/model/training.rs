//! Initial weights and optimizer.

use thiserror::Error;

use crate::model::ModelError;
use crate::ops::AdamW;
use runtime::{DeviceError, Undo};

/// Initial weights and optimizer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Training {
    /// The seed of the initial weights.
    pub seed: u64,
    /// The optimizer.
    pub rule: AdamW,
    /// How an update is undone.
    pub undo: Undo,
}

/// Why a stage cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BuildError {
    /// A model that does not fit the schedule.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A device error, such as too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Sequences that cannot be cut into these segments, or an order in which segments do not
    /// follow each other.
    #[error("{segments} segments of a sequence: {what}")]
    Segments {
        /// Number of segments.
        segments: u32,
        /// The reason.
        what: String,
    },
    /// A stage that the schedule does not have.
    #[error("there is no stage {stage}: the schedule has {stages}")]
    NoSuchStage {
        /// The stage, from 0.
        stage: usize,
        /// Number of stages.
        stages: usize,
    },
    /// A vocabulary that leaves a stage without a token.
    #[error(
        "the vocabulary of {vocabulary} leaves stage {stage} without a token: shards of the output \
         layer take a larger --vocabulary or fewer stages"
    )]
    EmptyShard {
        /// The stage, from 0.
        stage: usize,
        /// Number of tokens.
        vocabulary: usize,
    },
    /// An optimizer parameter out of its range.
    #[error("{what} must be {range}")]
    Optimizer {
        /// The parameter.
        what: &'static str,
        /// Its valid range.
        range: &'static str,
    },
}

impl Training {
    /// Checks the parameters of the optimizer.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } = self.rule;
        let is_size = |x: f64| x.is_finite() && x >= 0.0;
        let is_decay = |x: f64| match self.undo {
            Undo::Inverse => x > 0.0 && x < 1.0,
            Undo::Snapshot => (0.0..1.0).contains(&x),
        };
        let decays = match self.undo {
            Undo::Inverse => "above 0 (it is divided by to take an update back) and below 1",
            Undo::Snapshot => "at least 0 and below 1",
        };
        let checks = [
            ("the learning rate", is_size(learning_rate), "0 or a positive number"),
            ("beta1", is_decay(beta1), decays),
            ("beta2", is_decay(beta2), decays),
            ("epsilon", epsilon.is_finite() && epsilon > 0.0, "a positive number"),
            ("the weight decay", is_size(weight_decay), "0 or a positive number"),
            (
                "the learning rate times the weight decay",
                learning_rate * weight_decay < 1.0,
                "below 1",
            ),
        ];
        match checks.into_iter().find(|(_, is_good, _)| !is_good) {
            Some((what, _, range)) => Err(BuildError::Optimizer { what, range }),
            None => Ok(()),
        }
    }
}
