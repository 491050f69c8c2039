//! The argument of meetings beside optima that windows and trees prove, and beside round trips alone.

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Hops, Limits, Nanos, PassTimes, Placement, Shape,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::bounds::{Argument, all};
use crate::{Effort, Instance, Objective, search};

/// Times of F, B, W of a stage and the hop before it.
type Times = (u64, u64, u64, u64);

/// A pipeline whose first stage holds `held` microbatches and no W beside.
fn instance(
    (held, microbatches): (u64, u64),
    times: &[Times],
    (until_weight, spare): (u64, u64),
) -> Instance {
    let shape = Shape::new(times.len() as u64, 1, microbatches).unwrap();
    let of = |&(f, b, w, _): &Times| PassTimes::new(Nanos(f), Nanos(b), Nanos(w));
    let hops: Vec<Nanos> = times[1..].iter().map(|&(_, _, _, hop)| Nanos(hop)).collect();
    let hops = Hops::new(shape, &hops).unwrap();
    let costs = Costs::uniform(shape, PassTimes::default(), Nanos(0))
        .with_chunks(times.iter().map(of).collect())
        .with_hops(hops);
    let one = Footprint { until_backward: Bytes(20), until_weight: Bytes(until_weight) };
    let limits = Limits::new(shape, &[Bytes(20 * held + spare % until_weight)]).unwrap();
    let footprints = Footprints::uniform(shape, one);
    let span = Objective::Span;
    Instance::new(shape, Placement::Looped, costs, footprints, Some(limits), span).unwrap()
}

fn bound(instance: &Instance, is: fn(Argument) -> bool) -> Option<Nanos> {
    all(instance).into_iter().find(|bound| is(bound.argument)).map(|bound| bound.cost)
}

#[test]
fn no_optimum_is_below_the_meetings() {
    let one = (3..12u64, 3..12u64, 2..9u64, 0..2u64);
    let equal = (2..=4usize, one.clone()).prop_map(|(stages, one)| vec![one; stages]);
    let unequal = prop::collection::vec(one, 2..=4);
    let times = prop_oneof![equal, unequal];
    let drawn = (times, 2..=3u64, 2..=6u64, 1..=20u64, 0..20u64);
    let mut runner = TestRunner::deterministic();
    let (mut proved, mut raised, mut reached) = (0, 0, 0);
    for _ in 0..250 {
        let (times, held, more, until_weight, spare) =
            drawn.new_tree(&mut runner).unwrap().current();
        let instance = instance((held, held + more), &times, (until_weight, spare));
        let meetings = bound(&instance, |own| matches!(own, Argument::Meetings { .. }));
        let cycles = bound(&instance, |own| matches!(own, Argument::Cycles { .. }));
        let Some(meetings) = meetings else { continue };
        let found = search(&instance, Effort::default(), |_| {}, &|| false).unwrap();
        assert!(meetings <= found.cost, "{times:?} {held} {more}: {meetings} {}", found.cost);
        raised += u32::from(cycles.is_some_and(|cycles| cycles < meetings));
        reached += u32::from(meetings == found.cost);
        proved += u32::from(found.is_optimal());
    }
    println!("{proved} proved, {raised} above round trips, {reached} equal the optimum");
    assert!(proved >= 100 && raised >= 20, "{proved} {raised} {reached}");
}

/// In the long run a round of K microbatches takes p g + e + x e / (x + e), where round trips alone say p g + e.
#[test]
fn rounds_take_longer_than_round_trips() {
    let times = [(11_347, 11_248, 8_132, 377); 4];
    let of = |microbatches| {
        let instance = instance((3, microbatches), &times, (9, 0));
        let meetings = bound(&instance, |own| matches!(own, Argument::Meetings { .. })).unwrap();
        let cycles = bound(&instance, |own| matches!(own, Argument::Cycles { .. })).unwrap();
        [cycles, meetings].map(|bound| bound.0 as f64)
    };
    let [few, many] = [of(300), of(600)];
    let [cycles, meetings] = [0, 1].map(|at| (many[at] - few[at]) / 300.0);
    let (g, e) = (11_347.0 + 11_248.0 + 2.0 * 377.0, 8_132.0 - 2.0 * 377.0);
    let x = g - 4.0 * 377.0 - e;
    let expected = (4.0 * g + e + x * e / (x + e)) / 3.0;
    assert!((meetings / expected - 1.0).abs() < 1e-3, "{meetings} {expected}");
    assert!((cycles / ((4.0 * g + e) / 3.0) - 1.0).abs() < 1e-3, "{cycles}");
}
