//! Why a run ended before its time.

use std::time::Duration;

use pipeline::Slot;
use thiserror::Error;

use super::board::Chain;
use super::plan::PlanError;
use super::tcp::RendezvousError;
use crate::error::DeviceError;

/// Why a run came to nothing: the first cause, wherever it arose.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Failure {
    /// A plan that cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A device that could not go on.
    #[error("stage {stage}{}: {error}", at(*.slot, *.step))]
    Device {
        /// The stage.
        stage: usize,
        /// The step, if it had begun one.
        step: Option<u32>,
        /// The slot that it was running.
        slot: Option<Slot>,
        /// The error that stopped it.
        error: DeviceError,
    },
    /// A thread that broke down.
    #[error("stage {stage} broke down: {message}")]
    Panicked {
        /// The stage.
        stage: usize,
        /// The message of the panic.
        message: String,
    },
    /// A thread that could not be started.
    #[error("no thread for stage {stage}: {message}; use fewer stages in one process")]
    Thread {
        /// The stage.
        stage: usize,
        /// The message of the system.
        message: String,
    },
    /// A stage that waited longer than the timeout.
    #[error("nothing came for {timeout:.1?}: {chain}")]
    Stuck {
        /// How long a stage waits at most.
        timeout: Duration,
        /// Who waited for whom.
        chain: Chain,
    },
    /// Processes that did not come together.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A process that went away in the middle of the run.
    #[error("stage {stage} is lost: {what}")]
    Lost {
        /// The stage.
        stage: usize,
        /// The state of the connection.
        what: String,
    },
    /// The reason that another process gave when it stopped.
    #[error("{message}")]
    Elsewhere {
        /// The stage that said so.
        stage: usize,
        /// Its failure, in words.
        message: String,
    },
    /// A stage that did what the schedule does not say.
    #[error("stage {stage} does not keep to the schedule: {what}")]
    OutOfOrder {
        /// The stage.
        stage: usize,
        /// The fault of the other side.
        what: String,
    },
}

fn at(slot: Option<Slot>, step: Option<u32>) -> String {
    let step = step.map(|step| format!(", step {step}")).unwrap_or_default();
    let slot = slot.map(|slot| format!(", {slot}")).unwrap_or_default();
    format!("{step}{slot}")
}

/// Why a stage stops.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Halt {
    /// Something happened here.
    Failed(Failure),
    /// Another stage, which says why itself, failed.
    Stopped,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
