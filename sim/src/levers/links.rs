//! Faster links.

use pipeline::{Nanos, Schedule};

use super::{Baseline, Place, Variant, Variants};
use crate::simulation::FasterLinks;

/// Links twice as fast, where anything is sent that takes time: all of them, or the one between two
/// stages.
pub(super) fn faster(baseline: &Baseline<'_>, place: Place) -> Variants {
    let costs = baseline.simulation.costs();
    if costs.hops().longest() == Nanos(0) && baseline.simulation.hardware().is_none() {
        return Ok(Vec::new());
    }
    let (name, links, schedule) = match place {
        Place::Link(a, b) => {
            (format!("link {a}-{b} twice as fast"), FasterLinks::Between(a, b), None)
        }
        Place::Whole | Place::Stage(_) => {
            let half = costs.hops().map(|hop| Nanos(hop.0.div_ceil(2)));
            let ordered = costs.clone().with_hops(half);
            let name = "all links twice as fast".to_owned();
            (name, FasterLinks::All, baseline.rebuilt(&ordered))
        }
    };
    Ok(vec![Variant { name, links, schedule, ..Variant::default() }])
}

/// The pairs of stages between which values travel.
pub(super) fn neighbours(schedule: &Schedule) -> Vec<Place> {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let mut pairs: Vec<[usize; 2]> = (1..shape.chunks())
        .map(|chunk| [chunk - 1, chunk].map(|chunk| placement.stage(shape, chunk, 0)))
        .map(|[a, b]| [a.min(b), a.max(b)])
        .filter(|[a, b]| a != b)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.into_iter().map(|[a, b]| Place::Link(a, b)).collect()
}
