//! Lower bounds on the objective, where one is proved.

use pipeline::Nanos;
use sim::straggler::Stragglers;

use super::Statistic;
use crate::instance::Instance;

/// A lower bound on the objective of any order, and why it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpectedBound {
    /// The bound.
    pub cost: Nanos,
}

/// A bound.
pub(super) fn expected(_: &Instance, _: &Stragglers, _: Statistic) -> Option<ExpectedBound> {
    None
}
