//! Answers as pictures, one file for each question.

pub mod explain;
pub mod fsdp;
pub mod plan;
pub mod reproduce;
pub mod search;
pub mod simulate;
pub mod sweep;
