//! The predictions of published runs, with what their tables leave out: a file for each paper.

mod megatron;
mod vocabulary;
mod vtrain;
mod zero_bubble;

pub(super) use megatron::{korthikanti, sharded, table_1};
pub(super) use vocabulary::vocabulary;
pub(super) use vtrain::vtrain;
pub(super) use zero_bubble::zero_bubble;
