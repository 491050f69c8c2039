//! The order of passes as a mixed-integer linear program, as published with Zero Bubble: written out for
//! any solver, and solved with a proof that can be replayed.
//!
//! A [`Model`] is the program of an [`Instance`](search::Instance) of crate `search`: binaries for the order of pairs of
//! passes on a stage, end times, and memory as sums along the order. [`Model::lp`] and [`Model::mps`]
//! write it. [`solve`] finds its optimum by branch and bound over the same binaries, and keeps the
//! branching log ([`Proof`](search::bounds::Proof)), which crate `certificate` checks with code of its own.
//!
//! ```
//! use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
//! use search::{Effort, Instance, Objective, search};
//!
//! let shape = Shape::new(3, 1, 6)?;
//! let four = Nanos(4);
//! let times = PassTimes::new(four, four, four);
//! let held = Footprint { until_backward: Bytes(10), until_weight: Bytes(5) };
//! let instance = Instance::new(
//!     shape,
//!     Placement::Looped,
//!     Costs::uniform(shape, times, Nanos(1)),
//!     Footprints::uniform(shape, held),
//!     Some(Limits::new(shape, &[Bytes(21)])?),
//!     Objective::Span,
//! )?;
//! let found = search(&instance, Effort::default(), |_| (), &|| false)?;
//! let known = search::bounds::best(&instance).cost;
//! assert!(known < found.cost); // No simple argument shows that it is the best,
//! let answer = ilp::solve(&instance, found.schedule, known, u64::MAX, |_, _, _| (), &|| false)?;
//! assert_eq!(answer.end, ilp::End::Proved); // but no order costs less.
//! assert!(answer.proof.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::doc_markdown)] // M_B and M_W are the paper's symbols.

mod branch;
mod compiled_instance;
mod memory_bounds;
mod model;
mod neighbourhoods;
#[cfg(test)]
mod proved;
mod solve;
#[cfg(test)]
mod tests;
mod time_unit;
mod unsuitable;
mod warm_start;
mod windows;
mod write;

pub use model::{Model, Row, Variable, binaries};
pub use neighbourhoods::{NEIGHBOURHOOD_STEPS, improve};
pub use solve::{Answer, BRIEF_STEPS, End, MOST_NODES, check, is_small, is_solved_briefly, solve};
pub use unsuitable::{MOST_BINARIES, MOST_PASSES, Unsuitable};
pub use warm_start::{start_from, warm_start};
