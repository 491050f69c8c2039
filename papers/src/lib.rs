//! Published tables, figures and measurements, beside what debubble computes.

pub mod accuracy;
mod built_in;
pub mod measured;
pub mod reproduce;
