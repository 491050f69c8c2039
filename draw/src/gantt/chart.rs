//! One schedule of a picture of timelines.

use pipeline::{Costs, Timeline};
use sim::HostCopy;

/// One schedule of a picture.
pub struct Chart<'a> {
    /// The title above it.
    pub title: &'a str,
    /// When its passes run.
    pub timeline: &'a Timeline,
    /// The name of a row, such as a stage.
    pub row: &'a str,
    /// The copies to the host and back, below the passes of their stage.
    pub copies: &'a [HostCopy],
    /// Costs of passes: where they are chains of segments, the communication stream of each stage is
    /// drawn below its passes.
    pub costs: Option<&'a Costs>,
}

impl Chart<'_> {
    /// Whether its passes have segments.
    pub(super) fn has_segments(&self) -> bool {
        self.costs.is_some_and(|costs| costs.overlap().is_some())
    }
}
