//! Times the kernels and links that the executor runs, and keeps the results as a
//! [`Profile`](profile::Profile) from which the simulator predicts the executor's runs.
//!
//! Taking samples ([`sample`](mod@sample)) is apart from the statistics of a series of samples
//! ([`profile::statistics`]), and both from the costs of a pipeline that follow ([`profile::predict`]). [`kernels`],
//! [`links`] and [`measure`] say what is timed.
//!
//! ```
//! use profile::Fit;
//! use profile::statistics::Summary;
//!
//! let summary = Summary::of(&[1010, 1000, 1020, 990, 1005, 1000]).ok_or("no samples")?;
//! assert_eq!((summary.median, summary.interval), (1002, Some((990, 1020))));
//!
//! // Latency and bandwidth of a link from the times of two message sizes.
//! let link = Fit::of(&[(0, 5_000), (1 << 20, 105_000)]).ok_or("one size only")?;
//! assert_eq!((link.latency, link.per_mib), (5_000, 100_000));
//! # Ok::<(), &str>(())
//! ```

pub mod background_load;
pub mod baseline;
pub mod check;
mod clock;
pub mod handover;
pub mod kernels;
pub mod links;
pub mod machine;
pub mod measure;
pub mod sample;
