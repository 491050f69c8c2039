//! The arguments that hold for each kind of pipeline are those that the book lists.

use std::collections::BTreeSet;

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Limits, MicrobatchWork, Nanos, PassTimes, Placement,
    Shape, Work,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::bounds::{Prover, all};
use crate::{Instance, Objective};

const BOOK: &str = include_str!("../../../../docs/explanation/bounds.md");

/// What the book calls each kind, with its placement, its chunks per stage, and what it adds to costs.
type Kind = (&'static str, Placement, u64, fn(Costs) -> Costs);

const KINDS: [Kind; 6] = [
    ("one chunk per stage", Placement::Looped, 1, |costs| costs),
    ("several chunks per stage, looped", Placement::Looped, 2, |costs| costs),
    ("two chunks per stage in a V", Placement::Vee, 2, |costs| costs),
    ("whole backwards that take less", Placement::Looped, 1, |costs| {
        let whole = |times: &PassTimes| {
            let longer = times.backward_input.max(times.backward_weight);
            PassTimes { backward: Some(longer + Nanos(1)), ..*times }
        };
        let times = costs.chunks().iter().map(whole).collect();
        costs.with_chunks(times)
    }),
    ("recomputation on all stages", Placement::Looped, 1, |costs| {
        let chunks = costs.chunks().len();
        costs.with_recompute(vec![Some(Nanos(2)); chunks])
    }),
    ("microbatches that differ", Placement::Looped, 1, |costs| {
        let work = |factor: f64| Work::new(factor, factor, factor).unwrap();
        let factors = [1.0, 1.5, 1.25].into_iter().cycle().take(9).map(work).collect();
        costs.with_microbatch_work(MicrobatchWork::new(factors))
    }),
];

/// Pipelines of 9 microbatches, most of them short of memory.
fn drawn(kind: Kind) -> impl Strategy<Value = Instance> {
    let times = prop::collection::vec([1..12u64, 1..12u64, 1..12u64], 8);
    let rest = (0..3u64, 2..9u64, 1..=20u64, 0..40u64, any::<bool>(), any::<bool>());
    (2..=4u64, times, rest).prop_map(move |(stages, times, rest)| {
        let (_, placement, chunks, add) = kind;
        let (hop, held, until_weight, spare, alike, makespan) = rest;
        let shape = Shape::new(stages, chunks, 9).unwrap();
        let of = |chunk: u16| {
            let [f, b, w] = times[if alike { 0 } else { usize::from(chunk) }].map(Nanos);
            PassTimes::new(f, b, w)
        };
        let costs = add(Costs::new((0..shape.chunks()).map(of).collect(), Nanos(hop)));
        let one = Footprint { until_backward: Bytes(20), until_weight: Bytes(until_weight) };
        let limits = Limits::new(shape, &[Bytes(20 * chunks * held + spare)]).unwrap();
        let objective = if makespan { Objective::Makespan } else { Objective::Span };
        let footprints = Footprints::uniform(shape, one);
        Instance::new(shape, placement, costs, footprints, Some(limits), objective).unwrap()
    })
}

/// The arguments of the row of `kind` in the book.
fn listed(kind: &str) -> BTreeSet<&'static str> {
    let row = BOOK.lines().find_map(|line| line.strip_prefix(&format!("| {kind} | "))).unwrap();
    row.split('`').skip(1).step_by(2).collect()
}

#[test]
fn arguments_hold_for_the_kinds_that_the_book_lists() {
    let mut wrong = Vec::new();
    for kind in KINDS {
        let mut runner = TestRunner::deterministic();
        let mut found: BTreeSet<&str> = BTreeSet::new();
        for _ in 0..400 {
            let instance = drawn(kind).new_tree(&mut runner).unwrap().current();
            found.extend(all(&instance).iter().map(|bound| bound.argument.name()));
            if Prover::of(&instance, Nanos(0)).is_some() {
                found.extend(["windows", "prefixes", "branching"]);
            }
        }
        if found != listed(kind.0) {
            let names: Vec<String> = found.iter().map(|name| format!("`{name}`")).collect();
            wrong.push(format!("| {} | {} |", kind.0, names.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "the book lists other arguments:\n{}", wrong.join("\n"));
}
