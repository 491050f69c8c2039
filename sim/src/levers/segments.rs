//! Communication within passes.

use pipeline::overlap::Overlap;

use super::{Baseline, Place, Variants};

/// Communication of segments that takes no time, where any does: the most that hiding more of it, or
/// faster links between experts, can be worth.
pub(super) fn hidden(baseline: &Baseline<'_>, _: Place) -> Variants {
    let costs = baseline.simulation.costs();
    if !costs.overlap().is_some_and(Overlap::communicates) {
        return Ok(Vec::new());
    }
    let name = "communication of segments takes no time".to_owned();
    Ok(vec![baseline.with_costs(name, costs.clone().without_segment_communication())?])
}
