//! Dead workers of data-parallel pipelines: what is left of a step, and of the throughput of a training.
//!
//! Each stage of a pipeline has a peer with the same weights in every other data-parallel pipeline. Where a
//! worker is dead, its peers run its passes beside their own: activations and gradients travel between
//! pipelines, no weight does (ReCycle, Gandhi et al., SOSP 2024, arXiv 2405.14009). [`Pipelines::rerouted`]
//! makes the order of every live worker, [`bound()`] says what no order undercuts, and [`Policy`] compares that
//! with leaving whole pipelines out and with waiting for spares.
//!
//! ```
//! use failures::{Dead, Deal, Pipelines, Rerouting, Worker};
//! use pipeline::{Bytes, Costs, Family, Footprint, Footprints, Nanos, PassTimes, Problem, Shape};
//!
//! let shape = Shape::new(4, 1, 6)?;
//! let one = Nanos(1_000_000);
//! let problem = Problem::new(shape, Costs::uniform(shape, PassTimes::new(one, one, one), Nanos(0)))?;
//! let schedule = Family::OneFOneB.schedule(&problem)?;
//! let held = Footprint { until_backward: Bytes(1), until_weight: Bytes(1) };
//! let footprints = Footprints::uniform(shape, held);
//! let (costs, optimizer) = (problem.costs(), Nanos(0));
//! let (schedule, footprints) = (&schedule, &footprints);
//! let three = Pipelines { schedule, costs, footprints, pipelines: 3, peer_hop: None, optimizer };
//! let dead = Dead::new(3, 4, &[Worker { pipeline: 0, stage: 1 }])?;
//! let how = Rerouting { deal: Deal::Balanced, split: true, limits: &[Bytes(9); 4], effort: 1 };
//! let step = three.rerouted(&dead, &how, &|| false)?;
//! // Nine microbatches in place of six, in the bubbles of 1F1B: no longer than with all workers.
//! assert_eq!(three.healthy()?.step, Nanos(27_000_000));
//! assert_eq!(step.staggered, Nanos(27_000_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bound;
mod chain;
mod dead;
mod deal;
mod error;
mod period;
mod pipelines;
mod policy;
mod step;
mod worker;

pub use bound::{Bound, bound};
pub use dead::{Dead, MAX_PIPELINES, MAX_WORKERS};
pub use deal::Deal;
pub use error::FailureError;
pub use pipelines::{MAX_PASSES, Pipelines};
pub use policy::{Goodput, Policy, Rates, borne};
pub use step::{Ran, Rerouting, Step};
pub use worker::Worker;

#[cfg(test)]
mod monte_carlo;
#[cfg(test)]
mod tests;
