//! Searches for the cheapest order of passes of a pipeline under a memory limit, and bounds how cheap
//! any order can be.
//!
//! An [`Instance`] is the problem: a shape, the durations and memory of its passes, a memory limit for
//! each stage, and the [`Objective`]. [`search`] starts from the published schedules that fit and
//! improves on them by list scheduling, forward-backward improvement and simulated annealing.
//! [`bounds`] has the lower bounds, each with its proof; where the cost of a [`Found`] schedule equals
//! its bound, the schedule is optimal.
//!
//! ```
//! use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
//! use search::{Effort, Instance, Objective, search};
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let times = PassTimes::new(Nanos(10), Nanos(11), Nanos(7));
//! let costs = Costs::uniform(shape, times, Nanos(1));
//! let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(7) };
//! let instance = Instance::new(
//!     shape,
//!     Placement::Looped,
//!     costs,
//!     Footprints::uniform(shape, held),
//!     Some(Limits::new(shape, &[Bytes(80)])?), // As much as 1F1B holds on its first stage.
//!     Objective::Span,
//! )?;
//! let found = search(&instance, Effort::default(), |_| (), &|| false)?;
//! assert!(found.is_optimal());
//! assert!(found.best_published().is_some_and(|one| found.cost <= one.cost));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod bounds;

mod annealing;
mod chain;
mod chance;
mod check;
mod climb;
mod compiled_instance;
pub mod encoder;
mod error;
mod forward_backward;
mod found;
mod graph;
mod grid;
mod head;
mod instance;
mod joint;
mod list_scheduler;
mod local;
mod marks;
mod microbatch_order;
mod nominal;
mod on_hardware;
mod overlapped;
mod rounds;
mod run;
mod running;
mod search;
mod side_by_side;
mod start;
mod timing;
mod tune;
mod under_noise;
mod unequal;

/// The name under which an order that is found by search stands among schedules.
pub const NAME: &str = "zb-auto";

pub use climb::{Evaluation, Evaluator, SIDE_BY_SIDE, climb};
pub use error::{
    MAX_CHUNKS_PER_STAGE, MAX_PAIRED_CHUNKS, MAX_PASSES, MAX_PASSES_UNDER_NOISE, MAX_TIME,
    SearchError,
};
pub use found::{Effort, Found, Milestone, Phase, Progress};
pub use graph::{GraphFound, GraphSearch};
pub use instance::{Instance, Objective};
pub use joint::{
    BestPublished, Choice, FoundJointly, Jointly, Neighbour, NeighbourhoodEffort, Space,
    probe_neighbourhood, search_jointly,
};
pub use microbatch_order::{Evaluate, order_microbatches};
pub use on_hardware::{
    ArgumentOnHardware, BoundOnHardware, Figure, FiguresOnHardware, FoundOnHardware, OnHardware,
    idle_link_times, search_on_hardware, where_no_link_is_shared,
};
pub use running::Running;
pub use search::search;
pub use start::Published;
pub use under_noise::{
    BoundUnderNoise, Difference, FoundUnderNoise, HeldOut, HeldOutOrders, Statistic, UnderNoise,
    ValidatedOrder, bound_under_noise, replica_times, search_under_noise, training,
};

/// How many times the usual number of random cases the laws of searches are tried on.
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // A test has no question.
fn times_as_many() -> u32 {
    std::env::var("DEBUBBLE_CASES").map_or(1, |times| times.parse().unwrap())
}
