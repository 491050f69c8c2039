//! The dependencies between the operations of a step, before they are a graph.

use std::ops::Range;

use pipeline::{Placement, Shape};

use crate::operation::Operation;
use crate::reader::Sends;

/// An operation that another one waits for, besides those that it runs together with.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// The other operation, by its place in the step.
    pub(crate) on: u32,
    /// Whether its start is enough.
    pub(crate) start_is_enough: bool,
    /// The edge whose hop passes from then on until it can start, by its place in
    /// [`crate::graph::Graph::edges`]; [`ALONE`] if none does.
    pub(crate) edge: u32,
}

impl Wait {
    /// Its time, where edges have these `hops`.
    pub(crate) fn hop(&self, hops: &[u64]) -> u64 {
        hops.get(self.edge as usize).copied().unwrap_or(0)
    }
}

/// Operations that several ranks do together.
pub(crate) struct Meeting {
    /// Where its operations stand in [`crate::graph::Graph::members`].
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The one that comes last in [`crate::graph::Graph::order`].
    pub(crate) last: u32,
}

/// No meeting, no edge.
pub(crate) const ALONE: u32 = u32::MAX;

/// A step while its graph is made: its operations rank by rank, each rank's by start.
pub(crate) struct Parts<'a> {
    pub(crate) operations: &'a [Operation],
    /// The places of each rank's operations.
    pub(crate) ranks: Vec<Range<usize>>,
    pub(crate) shape: Shape,
    pub(crate) placement: Placement,
    pub(crate) sends: Sends,
}

/// Operations, each with one that it waits for.
pub(crate) type Waits = Vec<(u32, Wait)>;
