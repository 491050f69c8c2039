//! Profiles of a machine: the durations of a transformer's passes, of its optimizer and of the links between stages, as
//! `debubble calibrate` writes them ([`Profile`]); profiles of a trainer: the durations of its own chunks, as they were
//! recorded ([`TrainerProfile`]); and the costs of a pipeline that follow from either.
//!
//! There is no clock, thread or file in here: a profile is text that was read elsewhere.
//! [`statistics`] summarises a series of samples, [`predict`] gives the costs of a pipeline.
//!
//! ```
//! use profile::{Profile, Quantity, predict};
//! use pipeline::{Nanos, Shape};
//!
//! # fn example(text: &str) -> Result<(), Box<dyn std::error::Error>> {
//! // A model of 24 layers, of the shape that was measured, on 4 stages.
//! let profile = Profile::parse(text)?;
//! let predicted = predict(&profile, 24, Shape::new(4, 1, 16)?)?;
//! println!("a forward pass of stage 0 takes {}", predicted.costs.chunks()[0].forward);
//! # Ok(())
//! # }
//!
//! let samples = Quantity::of(vec![1_000, 1_010, 990, 1_000, 1_020, 1_000, 980]).unwrap();
//! assert_eq!(samples.median(), Nanos(1_000));
//! assert_eq!(samples.verdict(0.02).to_string(), "tight");
//! ```

mod costs;
mod document;
mod error;
mod fit;
mod form;
mod limits;
mod link;
mod model;
mod profile;
mod quantities;
mod quantity;
mod shape;
mod size;
pub mod statistics;
#[cfg(test)]
mod tests;
mod trainer;

pub use costs::{CostsError, Predicted, optimizer, predict};
pub use document::{AnyProfile, VERSION};
pub use error::ProfileError;
pub use fit::Fit;
pub use limits::{MAX_BYTES, MAX_NANOS, MAX_SAMPLES};
pub use link::{Link, LinkKind, Message};
pub use model::{Model, ModelError};
pub use profile::{Machine, Optimizer, Part, Profile};
pub use quantity::Quantity;
pub use shape::{Element, ModelShape};
pub use statistics::{Summary, Verdict};
pub use trainer::{
    Backward, Facts, RecordedChunk, RecordedError, Resident, TrainerCosts, TrainerError,
    TrainerProfile, Unsplit,
};
