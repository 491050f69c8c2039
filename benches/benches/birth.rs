//! How many passes per second a family orders and `Schedule::new` proves valid: what a question
//! costs before it is timed. Run with `cargo bench --package debubble-benches --bench birth`.

use benches::{FULL, Size, problem};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pipeline::{Family, Schedule};
use sim::Replay;

fn birth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build and validate, p=32 m=256");
    for family in [Family::OneFOneB, Family::ZbH1, Family::Zb2p, Family::ZbV, Family::VHalf] {
        let problem = problem(family, FULL);
        let schedule = family.schedule(&problem).expect("a legal question");
        group.throughput(Throughput::Elements(schedule.passes() as u64));
        group.bench_function(family.name(), |bencher| bencher.iter(|| family.schedule(&problem)));
        if family == Family::ZbH1 {
            group.bench_function("zb-h1, validate alone", |bencher| {
                bencher.iter_batched(
                    || schedule.orders().to_vec(),
                    |orders| Schedule::new(schedule.shape(), schedule.placement(), orders),
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

/// The time that a user waits: V-Half at p = 32, m = 128, ordered and timed, and the whole search
/// of the adaptive V at p = 8, m = 32.
fn blocks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("building blocks, ordered and timed");
    group.sample_size(20);
    for (family, stages, microbatches) in
        [(Family::VMin, 32, 128), (Family::VHalf, 32, 128), (Family::VAdaptive, 8, 32)]
    {
        let problem = problem(family, Size { stages, microbatches });
        let name = format!("{}, p={stages} m={microbatches}", family.name());
        let mut replay = Replay::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let schedule = family.schedule(&problem).expect("a legal question");
                replay.metrics(&schedule, problem.costs())
            });
        });
    }
}

/// Whether building stays linear: 25 million passes.
fn large(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build and validate, p=1024 m=8192");
    let problem = problem(Family::ZbH1, Size { stages: 1024, microbatches: 8192 });
    group.sample_size(10).throughput(Throughput::Elements(3 * 1024 * 8192));
    group.bench_function("zb-h1", |bencher| bencher.iter(|| Family::ZbH1.schedule(&problem)));
}

criterion_group!(benches, birth, blocks, large);
criterion_main!(benches);
