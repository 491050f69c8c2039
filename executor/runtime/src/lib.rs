//! Runs a schedule for real: one worker per stage runs its passes in order, sends values to other
//! stages over links, and measures when every pass ran and what it waited for.
//!
//! A [`Worker`] computes the passes of one stage. It does not know the schedule: the order and the
//! transfers between stages come from crate `pipeline` alone. [`run()`] runs all stages as threads
//! of one process, [`join`] the stages of one process among several. [`Timed`] is a worker whose
//! passes take their time and compute nothing.
// Running on devices needs clocks, library files, sockets and environment variables.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod error;
mod measured;
mod run;
mod weights;
mod worker;

pub use error::DeviceError;
pub use measured::{HostBound, Measured, MeasuredCopy, Overheads};
pub use run::{
    Awaited, Boundary, Chain, Direction, Doing, Failure, Launch, LaunchError, MAX_MEASURED,
    MAX_TIMEOUT, P2pAction, Plan, PlanError, PlannedCopy, Rendezvous, RendezvousError, Sighting,
    Timed, Transfers, free_ports, join, join_directly, nanos_since, run, run_until,
};
/// Processes that meet over TCP, for runs that are not pipelines.
pub mod tcp {
    pub use crate::run::{
        Connections, ProcessGroup, RendezvousSettings, init_process_group, take, write_all,
    };
}
pub use weights::{Undo, Updates, Versions};
pub use worker::{Direct, Norm, Offload, Trainer, Wire, Worker};
