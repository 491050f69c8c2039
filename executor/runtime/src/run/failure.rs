//! Why a run ended early.

use std::time::Duration;

use pipeline::Slot;
use thiserror::Error;

use super::board::Chain;
use super::plan::PlanError;
use super::tcp::RendezvousError;
use crate::error::DeviceError;

/// Why a run failed: the first cause, on any stage.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Failure {
    /// A plan that cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A device error.
    #[error("stage {stage}{}: {error}", at(*.slot, *.step))]
    Device {
        stage: usize,
        /// The step, if it had begun one.
        step: Option<u32>,
        /// The slot that it was running.
        slot: Option<Slot>,
        /// The error that stopped it.
        error: DeviceError,
    },
    /// A thread that panicked.
    #[error("stage {stage} broke down: {message}")]
    Panicked {
        stage: usize,
        /// The message of the panic.
        message: String,
    },
    /// A thread that could not be started.
    #[error("no thread for stage {stage}: {message}; use fewer stages in one process")]
    Thread {
        stage: usize,
        /// The message of the system.
        message: String,
    },
    /// A stage that waited longer than the timeout.
    #[error("nothing came for {timeout:.1?}: {chain}")]
    Stuck {
        /// The longest wait of a stage.
        timeout: Duration,
        /// The chain of waits.
        chain: Chain,
    },
    /// A failed rendezvous.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// A process that disconnected during the run.
    #[error("stage {stage} is lost: {what}")]
    Lost {
        stage: usize,
        /// The state of the connection.
        what: String,
    },
    /// The reason that another process gave when it stopped.
    #[error("{message}")]
    Elsewhere {
        /// The stage that reported it.
        stage: usize,
        /// Its failure as text.
        message: String,
    },
    /// A stage that violated the schedule.
    #[error("stage {stage} does not keep to the schedule: {what}")]
    OutOfOrder {
        stage: usize,
        /// The violation.
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
    /// A failure of this stage.
    Failed(Failure),
    /// Another stage failed, and reports its own failure.
    Stopped,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
