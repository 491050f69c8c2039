//! The search as a whole.

use crate::bounds;
use crate::check::{check, passes};
use crate::error::SearchError;
use crate::found::{Effort, Found, Progress};
use crate::instance::Instance;
use crate::run::run;
use crate::side_by_side::Stop;
use crate::start::Starts;
use crate::unequal;

/// Searches for the cheapest schedule of `instance`. The result is never worse than a published
/// schedule that fits.
///
/// `progress` is called after each round. `stop` is called often, from several threads: once it
/// returns true, the search ends with the best schedule so far. As long as it returns false, the same
/// instance and effort give the same result on any number of threads.
///
/// # Errors
/// If no order fits the limits, or the instance is too large or has a mirrored placement.
pub fn search(
    instance: &Instance,
    effort: Effort,
    progress: impl FnMut(Progress),
    stop: Stop<'_>,
) -> Result<Found, SearchError> {
    check(instance)?;
    if let Some(work) = instance.costs.microbatch_work() {
        return unequal::search((instance, work), effort, progress, stop);
    }
    if instance.costs.overlap().is_some_and(|overlap| !overlap.communicates()) {
        // Without communication a pair takes the sum of its passes.
        let apart = Instance { costs: instance.costs.clone().apart(), ..instance.clone() };
        return search(&apart, effort, progress, stop);
    }
    let from = (bounds::best(instance), Starts::All);
    run(instance, from, None, (effort.seed, effort.steps(passes(instance))), Some(progress), stop)
}

#[cfg(test)]
mod tests {
    use pipeline::{
        Bytes, Costs, Footprint, Footprints, Kind, Limits, Nanos, PassTimes, Placement, Shape,
    };

    use super::*;
    use crate::Objective;

    /// The order found with R under a limit fits it, is no worse than the published ones, and is near its bound.
    #[test]
    fn recomputation_is_placed_by_the_search() {
        let shape = Shape::new(3, 1, 6).unwrap();
        let one = Nanos(10);
        let times = PassTimes::new(one, one, one);
        let costs = Costs::uniform(shape, times, Nanos(3)).with_recompute(vec![Some(one); 3]);
        let held = Footprint { until_backward: Bytes(20), until_weight: Bytes(6) };
        let footprints = Footprints::uniform(shape, held).with_kept(vec![Some(Bytes(2)); 3]);
        let limits = Limits::new(shape, &[Bytes(60)]).unwrap();
        let instance = Instance::new(
            shape,
            Placement::Looped,
            costs,
            footprints,
            Some(limits.clone()),
            Objective::Span,
        )
        .unwrap();
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        let memory = pipeline::Memory::of(&found.schedule, &instance.footprints).unwrap();
        assert_eq!(memory.over(&limits), None);
        assert!(found.bound.cost <= found.cost);
        assert!(found.cost <= found.best_published().unwrap().cost);
        let recomputed = found.schedule.orders().iter().flat_map(|order| order.passes());
        assert_eq!(recomputed.filter(|pass| pass.kind == Kind::R).count(), 18);
        // Each stage does 6 (F + B + W + R), and more than that is shown.
        assert!(found.bound.cost > Nanos(240), "{:?}", found.bound);
        // The path shows 242; that F comes in whole ones shows nothing where R may fill what is left.
        let gap = found.cost - found.bound.cost;
        assert!(50 * gap.0 <= found.bound.cost.0, "{} {}", found.cost, found.schedule);
    }
}
