//! The best order of passes for a pipeline under a memory limit.

#![forbid(unsafe_code)]

pub mod bounds;

mod chain;
mod chance;
mod compiled_instance;
mod forward_backward;
mod head;
mod instance;
mod list;
mod local;
mod rounds;
mod run;
mod start;
mod timing;
mod tune;

pub use instance::{Instance, Objective};
pub use run::{
    Effort, Found, MAX_CHUNKS_PER_STAGE, MAX_PASSES, MAX_TIME, Progress, SearchError, search,
};
pub use start::Published;
