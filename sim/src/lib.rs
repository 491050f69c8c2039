//! Predicts when the passes of a schedule run, and why stages wait.
//!
//! A [`Simulation`] holds a schedule with its costs, its [`Hardware`] and its noise, and knows which
//! clock times it; a [`Study`] holds the results of one run of it. [`Replay`] times an order under
//! fixed durations and links that are never shared, in one pass along it; [`timed`] does the same
//! where every pass and hop has a duration of its own, as under the noise of [`straggler`],
//! [`lanes`] times one order in many scenarios at once, and [`contention`] where durations depend on how many stages are busy. The event
//! [`engine`] runs a schedule on a [`cluster`], where transfers share links, device memory is finite
//! and steps follow each other. [`monte_carlo`] gives the distribution of step times over many samples
//! of the noise, [`occupancy`] the memory of each device over time, [`explain`] the causes of idle
//! time, [`streams`] what the two streams of devices do in slots, and [`levers`] the step times that
//! changes of hardware, costs or memory would give.
//!
//! Time is counted in whole nanoseconds, so that the same question has the same answer on any
//! machine and any number of threads.
//!
//! ```
//! use pipeline::{Costs, Family, Nanos, PassTimes, Problem, Shape};
//! use sim::Replay;
//!
//! let shape = Shape::new(4, 1, 8)?;
//! let ms = Nanos(1_000_000);
//! let times = PassTimes::new(ms, ms, ms);
//! let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0)))?;
//! let schedule = Family::OneFOneB.schedule(&problem)?;
//! let metrics = Replay::new().metrics(&schedule, problem.costs())?;
//! assert_eq!(metrics.makespan(), Nanos(33_000_000)); // (m + p - 1)(F + B + W)
//! # Ok::<(), pipeline::Fault>(())
//! ```
#![warn(missing_docs)]

pub mod boundary;
pub mod cluster;
pub mod contention;
pub mod encoder;
pub mod engine;
mod expert_group;
pub mod explain;
pub mod graph;
mod hardware;
mod host_copy;
pub mod lanes;
pub mod levers;
pub mod monte_carlo;
mod network;
pub mod occupancy;
mod replay;
mod running;
mod sharded;
mod simulation;
mod steady;
pub mod straggler;
pub mod streams;
pub mod timed;

pub use expert_group::{ExpertGroup, ExpertGroupError, Load};
pub use hardware::Hardware;
pub use host_copy::HostCopy;
pub use network::Sharing;
pub use replay::Replay;
pub use running::running_step;
pub use sharded::ParameterSpan;
pub use simulation::{Details, EngineRuns, FasterLinks, Kept, Simulation, SimulationError, Study};
pub use steady::Repeating;
