//! The columns of measurements, and the cells in them.

use measured::accuracy;

use super::super::cell::{Cell, Check};

/// A column of measurements.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The largest error of a prediction that matches, as a share of the measurement.
    pub(super) tolerance: f64,
    /// The quantities that predictions are computed from.
    pub(super) from: &'static str,
}

pub(super) const ITERATION: Column = Column {
    name: "iteration ms",
    tolerance: 0.025,
    from: "the measured times of each stage, S : T as their FLOPs, barriers that take no time",
};
pub(super) const SCALING_OUTPUT: Column = Column {
    name: "scaling of the output layer %",
    tolerance: 0.02,
    from: "what each algorithm does more, what is done once for every pass, more than one node",
};
pub(super) const SCALING_INPUT: Column = Column {
    name: "scaling of the input layer %",
    tolerance: 0.1,
    from: "the numbers of an activation that every shard handles, beside its part of the gradients",
};
pub(super) const MEMORY: Column = Column {
    name: "memory GB",
    tolerance: 0.03,
    from: "16 bytes per parameter of a stage, 34bsh per layer and microbatch of the peak, and what a pass \
           works in",
};
pub(super) const DIFFERENCE: Column = Column {
    name: "memory over VOCAB-2 GB",
    tolerance: 0.03,
    from: "34bsh per layer and microbatch that the peak has more",
};
pub(super) const GAIN: Column = Column {
    name: "MFU over BASELINE",
    tolerance: 0.05,
    from: "the times of layers, the vocabulary layers and hops by the constants below; of several nodes with \
           the hops of one",
};
/// The same over REDIS.
pub(super) const GAIN_OVER_REDIS: Column = Column { name: "MFU over REDIS", ..GAIN };
/// The same of several nodes, whose hops no timer of the profile has.
pub(super) const GAIN_OF_NODES: Column = Column { tolerance: 0.08, ..GAIN };

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

/// The peak in microbatches.
pub(super) const PEAK: &str = "peak M_B";
/// How many pairs of methods the prediction puts in another order.
pub(super) const RANKING: &str = "pairs in another order";

impl Column {
    /// A measurement with `digits` behind the point, beside `ours`.
    pub(super) fn cell(
        &self,
        row: String,
        fit: Fit,
        published: f64,
        ours: f64,
        digits: usize,
    ) -> Cell {
        let check = Check::of(accuracy::error(ours, published).abs() <= self.tolerance);
        Cell { digits, ..Cell::new(row, self.name, fit.convention(), [published, ours], check) }
    }
}

/// A count that must equal the published one.
pub(super) fn exact(
    row: String,
    column: &str,
    convention: &'static str,
    [published, ours]: [f64; 2],
) -> Cell {
    #[allow(clippy::float_cmp)] // Both are whole.
    let check = Check::of(ours == published);
    Cell::new(row, column, convention, [published, ours], check)
}
