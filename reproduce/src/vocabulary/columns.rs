//! The columns of measurements, and the cells in them.

use super::super::cell::{Basis, Cell, Figure};
use super::super::check::{Check, Evidence};

pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) check: Check,
    /// The quantities that predictions are computed from.
    pub(super) from: &'static str,
}

pub(super) const ITERATION: Column = Column {
    name: "iteration ms",
    check: Check::Relative(0.025),
    from: "the measured times of each stage, S : T as their FLOPs, barriers that take no time",
};
pub(super) const SCALING_OUTPUT: Column = Column {
    name: "scaling of the output layer %",
    check: Check::Relative(0.02),
    from: "what each algorithm does more, what is done once for every pass, more than one node",
};
pub(super) const SCALING_INPUT: Column = Column {
    name: "scaling of the input layer %",
    check: Check::Relative(0.1),
    from: "the numbers of an activation that every shard handles, in addition to its part of the gradients",
};
pub(super) const MEMORY: Column = Column {
    name: "memory GB",
    check: Check::Relative(0.03),
    from: "16 bytes per parameter of a stage, 34bsh per layer and microbatch of the peak, and what a pass \
           works in",
};
pub(super) const DIFFERENCE: Column = Column {
    name: "memory over VOCAB-2 GB",
    check: Check::Relative(0.03),
    from: "34bsh per layer and microbatch that the peak has more",
};
pub(super) const GAIN: Column = Column {
    name: "MFU over BASELINE",
    check: Check::GainOfRatio,
    from: "the times of layers, the vocabulary layers and hops by the constants below; of several nodes with \
           the hops of one",
};
pub(super) const GAIN_OVER_REDIS: Column = Column { name: "MFU over REDIS", ..GAIN };
const EQUAL: Check = Check::Absolute(0.0);

/// Whether a row is one of those to which constants of its prediction were fitted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Fitted,
    HeldOut,
}

impl Fit {
    pub(super) const fn of(fitted: bool) -> Self {
        if fitted { Self::Fitted } else { Self::HeldOut }
    }

    pub(super) const fn convention(self) -> &'static str {
        match self {
            Self::Fitted => FITTED,
            Self::HeldOut => "measured",
        }
    }
}

/// The convention of a measurement to which constants were fitted.
pub(super) const FITTED: &str = "measured, fitted to";

pub(super) const PEAK: &str = "peak M_B";
/// How many pairs of methods the prediction puts in another order.
pub(super) const RANKING: &str = "pairs in another order";

impl Column {
    /// A measurement with `digits` decimals.
    pub(super) fn figure(&self, row: String, fit: Fit, published: f64, digits: usize) -> Figure {
        let evidence = Evidence::measured(fit == Fit::Fitted);
        let basis = Basis::new(fit.convention(), evidence, self.check);
        Figure::new(row, self.name, basis, published).digits(digits)
    }
}

/// A count that must equal the published one.
pub(super) fn exact(
    row: String,
    column: &str,
    (convention, evidence): (&'static str, Evidence),
    [published, ours]: [f64; 2],
) -> Cell {
    Figure::new(row, column, Basis::new(convention, evidence, EQUAL), published).beside(ours)
}
