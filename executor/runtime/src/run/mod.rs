//! Runs a plan: every stage runs its order, slot by slot, and sends the values that it makes.
//!
//! [`stage`] is the loop; it sends to other stages through a [`link`] and receives through its
//! [`inbox`]. [`crossing`] is the boundary between two steps. Stages are the [`threads`] of one
//! process, or one process each, over [`tcp`].

mod barrier;
mod board;
mod boundary;
mod clock;
mod copies;
mod copy_turns;
mod crossing;
mod failure;
mod inbox;
mod launch;
mod link;
mod parts;
mod plan;
mod raw;
mod replicas;
mod stage;
mod tcp;
mod threads;
mod timed;
mod transfers;
mod update_order;
mod updates;

pub use board::{Awaited, Chain, Doing, Sighting};
pub use boundary::Boundary;
pub use clock::nanos_since;
pub use copy_turns::PlannedCopy;
pub use failure::Failure;
pub use launch::{Launch, LaunchError};
pub use plan::{MAX_MEASURED, MAX_TIMEOUT, Plan, PlanError};
pub use tcp::{Connections, ProcessGroup, RendezvousSettings, init_process_group, take, write_all};
pub use tcp::{Rendezvous, RendezvousError, free_ports, join, join_directly};
pub use threads::{run, run_until};
pub use timed::Timed;
pub use transfers::{Direction, P2pAction, Transfers};
