//! Causes of the bubble, critical path and levers of a case.

mod explanation;
pub mod levers;
pub mod quantities;
pub mod report;
mod streams;

pub use explanation::Explanation;
