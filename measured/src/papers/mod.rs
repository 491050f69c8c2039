//! Predictions of published runs, with the omissions of their tables: a file for each paper.

mod megatron;
pub mod pipeoffload;
mod vocabulary;
mod vtrain;
pub mod zero_bubble;

pub(super) use megatron::{korthikanti, sharded, table_1};
pub(super) use vocabulary::vocabulary;
pub(super) use vtrain::vtrain;
pub(super) use zero_bubble::{post_validation, zero_bubble};
