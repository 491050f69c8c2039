//! Checks that the steps left out would have had no effect.

use proptest::prelude::*;

use super::*;
use crate::costs::{Costs, Footprints};
use crate::units::Nanos;

/// Every way to fill gaps and every allowance, each built to its end: the published procedure.
fn of_all(problem: &Problem) -> Result<Schedule, Fault> {
    let unlimited = Limits::new(problem.shape(), &[Bytes(u64::MAX)])?;
    let limits = problem.limits(Placement::Vee)?.unwrap_or(unlimited);
    let work = work(problem);
    let mut best: Option<Built> = None;
    for fill in FILLS {
        let mut allowance = vec![0; work.len()];
        let mut least_idle = u64::MAX;
        loop {
            let none = Bar { idle: u64::MAX, span: u64::MAX };
            let build = Build::new(problem, &limits, fill, &allowance, &work);
            let Ok(built) = build.all(none)? else { panic!("given up without a reason") };
            let max_idle = built.idle.iter().copied().max().unwrap_or(0);
            let improved = max_idle < least_idle;
            least_idle = max_idle;
            allowance = built.idle.iter().map(|idle| max_idle - idle).collect();
            if best.as_ref().is_none_or(|best| built.span < best.span) {
                best = Some(built);
            }
            if !improved {
                break;
            }
        }
    }
    let orders = best.map(|best| best.orders).unwrap_or_default();
    Schedule::new(problem.shape(), Placement::Vee, orders)
}

fn times(most: u64) -> impl Strategy<Value = PassTimes> {
    let nanos = move || (1..=most).prop_map(Nanos);
    (nanos(), nanos(), nanos()).prop_map(|(forward, backward_input, backward_weight)| {
        PassTimes::new(forward, backward_input, backward_weight)
    })
}

/// Stages that differ little or much, transfers, and memory for one to many microbatches.
fn problem() -> impl Strategy<Value = Problem> {
    let shape = (1u64..7, 1u64..25);
    (shape, times(40), prop::collection::vec(times(40), 12), 0..30u64, any::<bool>(), 0..5u64)
        .prop_map(|((p, m), same, each, hop, alike, limit)| {
            let shape = Shape::new(p, 2, m).unwrap();
            let chunks = usize::from(shape.chunks());
            let times = if alike { vec![same; chunks] } else { each[..chunks].to_vec() };
            let footprint = Footprint { until_backward: Bytes(3), until_weight: Bytes(2) };
            let problem = Problem::new(shape, Costs::new(times, Nanos(hop)))
                .and_then(|all| all.with_footprints(Footprints::uniform(shape, footprint)))
                .unwrap();
            match limit {
                0 => problem,
                some => problem.with_limit(Limit::Bytes(Bytes(some * (2 + 3 * p)))),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3000)
    })]

    #[test]
    fn what_is_not_built_would_not_have_been_kept(problem in problem()) {
        prop_assert_eq!(schedule(&problem), of_all(&problem));
    }
}
