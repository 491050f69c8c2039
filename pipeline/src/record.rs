//! Steps as they were recorded while a schedule ran.

use crate::pass::{Slot, Value};
use crate::timeline::{Span, Timeline};
use crate::units::Nanos;

/// One slot as it ran. Times since the start of the step, by one clock over all stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// The slot that ran.
    pub slot: Slot,
    /// When the last value it needs from another stage was here; `None` if it needs none.
    pub arrived: Option<(Value, Nanos)>,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}

/// One step as it ran.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// The slots of each stage, in order.
    pub stages: Vec<Vec<Measurement>>,
    /// When each stage was done with the step: its passes, its share of the norm, the optimizer.
    pub ends: Vec<Nanos>,
    /// The loss summed over the microbatches, if something was computed.
    pub loss: Option<f64>,
    /// When the step began, counted from the beginning of the first step measured: the first start
    /// of any slot. Steps overlap where the boundary lets them.
    pub began: Nanos,
}

impl Step {
    /// When the slots ran.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        let span = |m: &Measurement| Span { slot: m.slot, start: m.start, end: m.end };
        Timeline { stages: self.stages.iter().map(|s| s.iter().map(span).collect()).collect() }
    }
}
