//! Pairs of passes on two streams.

use pipeline::overlap::Contention;
use pipeline::{Family, Nanos, PassTimes};
use sim::Replay;

use super::{llama, machine, model, recipe, setup};
use crate::{
    Cluster, Costed, Experts, Inputs, Recipe, Recompute, Setup, Sizes, Software, Transformer, Zero,
};

fn with_experts() -> Transformer {
    let experts = Some(Experts { count: 32, top_k: 4, shared: 1024 });
    model(Sizes { experts, mtp: 1, ..llama(16, 2048, [16, 8], 1024, 32_000) })
}

/// The costs of `setup`, with two streams under `contention` or with one.
fn costed(model: &Transformer, setup: &Setup, contention: Option<Contention>) -> Costed {
    let cluster = Cluster { parts: vec![(machine(), setup.devices())] };
    let software = Software { streams: contention, ..Software::default() };
    let recipe = Recipe { software, ..recipe(64) };
    Inputs::new(model, &recipe, &cluster).cost(setup).unwrap()
}

fn setups() -> Vec<Setup> {
    let plain = Setup { expert: 8, ..setup([8, 1, 4]) };
    let families = [
        (Family::DualPipe, 1),
        (Family::DualPipeV, 2),
        (Family::OneFOneBOverlap, 1),
        (Family::InterleavedOverlap, 2),
    ];
    let mut all = Vec::new();
    for (family, chunks) in families {
        for recompute in [Recompute::None, Recompute::Full, Recompute::First(1)] {
            for zero in [Zero::Optimizer, Zero::Parameters] {
                all.push(Setup { family, chunks, recompute, zero, ..plain });
            }
        }
    }
    all
}

/// Run one after the other, segments take the time of passes, to a nanosecond for each of them.
#[test]
fn segments_add_up_to_passes() {
    let model = with_experts();
    for setup in setups() {
        let one = costed(&model, &setup, None);
        let two = costed(&model, &setup, Some(Contention::NONE));
        for (costs, segments) in [(&one.costs, &two.costs), (&one.apart, &two.apart)] {
            assert!(segments.overlap().is_some_and(|overlap| overlap.communicates()));
            for (pass, sum) in costs.chunks().iter().zip(segments.chunks()) {
                let all = |times: &PassTimes| {
                    [times.forward, times.backward_input, times.backward_weight]
                };
                for (Nanos(pass), Nanos(sum)) in all(pass).into_iter().zip(all(sum)) {
                    assert!(sum.abs_diff(pass) <= 100, "{setup:?}: {pass} {sum}");
                }
            }
        }
        assert_eq!(one.ordering, two.ordering);
        assert_eq!(one.footprints, two.footprints);
    }
}

/// Overlap on two streams makes no step longer, and none shorter than the bound; contention between the
/// streams does not make it shorter.
#[test]
fn streams_hide_no_more_than_there_is() {
    let model = with_experts();
    let mut replay = Replay::new();
    for setup in setups() {
        let cluster = Cluster { parts: vec![(machine(), setup.devices())] };
        let mut step = |streams: Option<Contention>| {
            let software = Software { streams, ..Software::default() };
            let recipe = Recipe { software, ..recipe(64) };
            let inputs = Inputs::new(&model, &recipe, &cluster);
            let costed = inputs.cost(&setup).unwrap();
            let (metrics, _) = costed.timed(&costed.schedule().unwrap(), &mut replay).unwrap();
            let step = costed.step(&metrics);
            assert!(inputs.least(&costed) <= step, "{setup:?}");
            step
        };
        let held = Contention::new(150, 1000).unwrap();
        let steps = [Some(Contention::NONE), Some(held), None].map(&mut step);
        assert!(steps[0] < steps[1] && steps[1] < steps[2], "{setup:?}: {steps:?}");
    }
}
