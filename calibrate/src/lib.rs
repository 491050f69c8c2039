//! Times the kernels and links that the executor runs, and keeps the results as a
//! [`Profile`](profile::Profile), from which the simulator predicts the executor's runs.
//!
//! [`sample`](mod@sample) repeats a measurement until its medians are known well enough; [`kernels`],
//! [`links`] and [`measure`] say what is timed, [`baseline`] what measuring itself costs;
//! [`calibration`] does all of it on a device that it opens. The statistics of the samples, and the
//! costs of a pipeline that follow from a profile, are those of crate `profile`.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! use calibrate::sample::{Rule, Source, sample};
//! use profile::Summary;
//!
//! /// A kernel that takes 1,000 ns, read by a clock that adds 50 ns.
//! struct Kernel(u64);
//!
//! impl Source for Kernel {
//!     type Error = Infallible;
//!
//!     fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), Infallible> {
//!         self.0 += 1_050;
//!         series[0].push(1_050);
//!         Ok(())
//!     }
//!
//!     fn elapsed(&mut self) -> Duration {
//!         Duration::from_nanos(self.0)
//!     }
//! }
//!
//! let rule = Rule {
//!     warm_up: 3,
//!     rise: Duration::ZERO,
//!     at_least: 10,
//!     at_most: 100,
//!     half_width: 0.01,
//!     time: Duration::from_secs(1),
//! };
//! let samples = sample(&mut Kernel(0), 1, 50, &rule)?;
//! assert_eq!(samples[0].len(), 10);
//! assert_eq!(Summary::of(&samples[0]).map(|one| one.median), Some(1_000));
//! # Ok::<(), Infallible>(())
//! ```
// Measuring takes a clock, and the description of the machine that the system has.
#![allow(clippy::disallowed_methods)]

pub mod background_load;
pub mod baseline;
pub mod calibration;
pub mod check;
mod clock;
pub mod handover;
pub mod kernels;
pub mod links;
pub mod machine;
pub mod measure;
pub mod sample;
