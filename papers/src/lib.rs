//! Published tables, figures and measurements, beside what debubble computes.

pub mod accuracy;
pub mod measured;
pub mod reproduce;
