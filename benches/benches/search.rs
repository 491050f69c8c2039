//! The time of a search of default effort, on one thread, so that figures compare. Run with
//! `RAYON_NUM_THREADS=1 cargo bench --package debubble-benches --bench search`.

use benches::{FULL, Size, problem};
use criterion::{Criterion, criterion_group, criterion_main};
use pipeline::{Bytes, Family, Limits, Placement};
use search::{Effort, Instance, Objective, search};

/// The problem of `family`, with room for `quarters` quarters of p microbatches.
fn instance(family: Family, size: Size, quarters: u64) -> Instance {
    let problem = problem(family, size);
    let (shape, placement) = (problem.shape(), family.about().placement);
    let unit = problem.footprints().by_stage(shape, placement)[0];
    let limits = Limits::new(shape, &[Bytes(unit.0 * size.stages * quarters / 4)]);
    let (costs, footprints) = (problem.costs().clone(), problem.footprints().clone());
    let limits = Some(limits.expect("one limit"));
    Instance::new(shape, placement, costs, footprints, limits, Objective::Span)
        .expect("a legal question")
}

fn searches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search, default effort");
    group.sample_size(10);
    let small = Size { stages: 8, microbatches: 32 };
    let large = Size { stages: 128, microbatches: 1024 };
    for (name, family, size, quarters) in [
        ("p=8 m=32, 0.5p", Family::ZbHeuristic, small, 2),
        ("p=8 m=32, 2p", Family::ZbHeuristic, small, 8),
        ("p=32 m=256, 0.75p", Family::ZbHeuristic, FULL, 3),
        ("p=32 m=256, 2p", Family::ZbHeuristic, FULL, 8),
        ("p=32 m=256, V at 1p", Family::ZbV, FULL, 4),
        ("p=128 m=1024, 0.75p", Family::ZbHeuristic, large, 3),
    ] {
        let instance = instance(family, size, quarters);
        assert_ne!(instance.placement, Placement::Mirrored);
        group.bench_function(name, |bencher| {
            bencher.iter(|| search(&instance, Effort::default(), |_| {}, &|| false));
        });
    }
}

criterion_group!(all, searches);
criterion_main!(all);
