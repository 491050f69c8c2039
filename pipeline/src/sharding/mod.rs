//! Collectives of parameters and gradients among data-parallel replicas, behind the passes of a stage.
//!
//! They belong to a chunk, not to a pass, and run on a stream of their stage, one after the other, beside
//! its passes. One begins when its stream is free and so many slots of the stage have ended; a pass waits
//! for the parameters of its chunk, and a step ends when the last gradient has been reduced.
//!
//! | | parameters | gradients |
//! |---|---|---|
//! | [`Sharding::Optimizer`] (ZeRO-1) | gathered once, as the step begins, chunk behind chunk in the order of their first use | reduced once, behind the last W or BW of a chunk |
//! | [`Sharding::Gradients`] (ZeRO-2) | the same | reduced behind every W and BW, since no stage keeps them whole |
//! | [`Sharding::Fsdp`] (ZeRO-3) | gathered before they are used, with a look-ahead, and dropped by [`Reshard`] | reduced once, as `torch` does in pipelines |
//!
//! These are the actions of `torch.distributed.pipelining`, one to one: `UNSHARD` is [`ParameterAct::Gather`],
//! `RESHARD` is [`ParameterAct::Reshard`], `REDUCE_GRAD` is [`ParameterAct::Reduce`], set behind the last W
//! or full backward of a chunk. Its lowering (`_add_unshard_reshard`) keeps the `max_active_stages`
//! different chunks that a stage uses next, 3 by default, and drops all others:
//! [`Reshard::AfterUse`] with a look-ahead of one less, 2.

mod act;
mod derive;
mod times;

use std::fmt;

pub use act::ParameterAct;
pub use times::{ParameterTimes, exposed};

use crate::order::Order;

/// When parameters that were gathered are dropped again (FSDP).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Reshard {
    /// Behind their last use in the step: what torchtitan does in pipelines, where
    /// `reshard_after_forward` is off.
    #[default]
    Never,
    /// As soon as the chunk is not among those that the look-ahead holds, as `torch` lowers its
    /// schedules: they are gathered again before the next use, such as the first B.
    AfterUse,
}

impl Reshard {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Never, Self::AfterUse];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AfterUse => "after-use",
        }
    }
}

/// State that is sharded over the data-parallel replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharding {
    /// The state of the optimizer: ZeRO-1, the distributed optimizer.
    Optimizer,
    /// That and the gradients: ZeRO-2.
    Gradients,
    /// That and the parameters: ZeRO-3, FSDP.
    Fsdp {
        /// Number of chunks that are gathered ahead, beside the one that runs.
        prefetch: u16,
        /// When parameters are dropped.
        reshard: Reshard,
    },
}

/// One operation on the stream of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParameterOp {
    /// Kind of operation.
    pub act: ParameterAct,
    /// The chunk.
    pub chunk: u16,
    /// Number of slots of the stage that must have ended before it may begin.
    pub after: u32,
}

impl fmt::Display for ParameterOp {
    /// As `torch` writes it, and the slots behind which it may begin: `2UNSHARD@7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@{}", self.chunk, self.act.name(), self.after)
    }
}

/// The stream of a stage.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct StageOps {
    ops: Vec<ParameterOp>,
    /// By slot, how many of them must be over before it.
    needs: Vec<u32>,
}

/// The collectives of a schedule, on one stream of each stage; valid from the moment they exist, since
/// they are only made from a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterOps {
    sharding: Sharding,
    stages: Vec<StageOps>,
}

impl ParameterOps {
    /// Those of `orders` under `sharding`.
    pub(crate) fn of(orders: &[Order], sharding: Sharding) -> Self {
        let stages = orders.iter().map(|order| derive::stage(order, sharding)).collect();
        Self { sharding, stages }
    }

    /// The sharded state.
    #[must_use]
    pub const fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// The operations of `stage` in the order of its stream.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn stage(&self, stage: usize) -> &[ParameterOp] {
        &self.stages[stage].ops
    }

    /// Number of operations of `stage` that must be over before its slot `slot`, counted from 0, may begin: those
    /// at the head of its stream. A pass of the vocabulary waits for none.
    ///
    /// # Panics
    /// If there is no such stage or slot.
    #[must_use]
    #[inline]
    pub fn before(&self, stage: usize, slot: usize) -> usize {
        self.stages[stage].needs[slot] as usize
    }

    /// How often each chunk of `stage` is gathered and reduced in a step, in all.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn count(&self, stage: usize, act: ParameterAct) -> usize {
        self.stages[stage].ops.iter().filter(|op| op.act == act).count()
    }

    /// The most that `stage` holds of gathered parameters at once, where those of a chunk are `size`: from
    /// when a gather may begin until the chunk is dropped, or the step ends.
    ///
    /// # Panics
    /// If there is no such stage.
    #[must_use]
    pub fn most_gathered(&self, stage: usize, size: impl Fn(u16) -> u64) -> u64 {
        let (mut held, mut most) = (0u64, 0);
        for op in &self.stages[stage].ops {
            match op.act {
                ParameterAct::Gather => held = held.saturating_add(size(op.chunk)),
                ParameterAct::Reshard => held = held.saturating_sub(size(op.chunk)),
                ParameterAct::Reduce => {}
            }
            most = most.max(held);
        }
        most
    }
}

#[cfg(test)]
mod tests;
