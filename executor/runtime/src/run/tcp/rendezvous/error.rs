//! Why a rendezvous failed.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

/// Why a rendezvous failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RendezvousError {
    /// The world size is not the number of stages.
    #[error("{world} processes for {stages} stages: start one for each stage")]
    World {
        /// Processes.
        world: usize,
        /// Stages of the schedule.
        stages: usize,
    },
    /// An empty token.
    #[error("the token is empty: give all processes of the run the same secret")]
    NoToken,
    /// An address that cannot be listened at.
    #[error("cannot listen at {address}: {message}")]
    Bind {
        address: SocketAddr,
        /// The message of the system.
        message: String,
    },
    /// A host name without an address.
    #[error("{host} has no address: {message}")]
    Name {
        /// The name.
        host: String,
        /// The message of the system.
        message: String,
    },
    /// A process that does not answer.
    #[error("rank {rank} at {address} did not answer within {waited:.1?}: {message}")]
    Unreachable {
        rank: usize,
        address: String,
        /// Time since the first attempt.
        waited: Duration,
        /// The error of the last attempt.
        message: String,
    },
    /// Ranks that did not connect in time.
    #[error(
        "ranks {ranks:?} did not come within {waited:.1?}{}",
        .turned_away.as_ref().map(|who| format!("; turned away: {who}")).unwrap_or_default()
    )]
    Missing {
        /// The missing ranks.
        ranks: Vec<usize>,
        /// Time waited.
        waited: Duration,
        /// The last caller that was refused, and why.
        turned_away: Option<String>,
    },
    /// A process with another token.
    #[error("rank {rank} has another token: all processes of a run need the same one")]
    Token { rank: usize },
    /// A process with another configuration.
    #[error("rank {rank} has another {what}: {there}, here {here}")]
    Differs {
        rank: usize,
        /// The part that differs.
        what: &'static str,
        /// The value of this process.
        here: String,
        /// The value of that process.
        there: String,
    },
    /// An unexpected rank, such as one that has connected already.
    #[error("a process calls itself rank {rank}, which is not due: start each rank once")]
    Rank { rank: usize },
}
