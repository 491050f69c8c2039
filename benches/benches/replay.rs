//! How many passes per second an existing schedule is timed at: what every sweep and search pays
//! per question.

use std::hint::black_box;

use benches::{FULL, overlapped, problem};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::Family;
use sim::Replay;

fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay, p=32 m=256");
    for family in [Family::OneFOneB, Family::ZbH1, Family::Zb2p, Family::ZbV] {
        let problem = problem(family, FULL);
        let schedule = family.schedule(&problem).expect("a legal question");
        group.throughput(Throughput::Elements(schedule.passes() as u64));
        let mut replay = Replay::new();
        group.bench_function(family.name(), |bencher| {
            bencher.iter(|| replay.metrics(black_box(&schedule), problem.costs()));
        });
    }
}

/// Pairs of chains of segments: the composition of each kind of pair is worked out once.
fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay of pairs, p=32 m=256");
    for family in [Family::DualPipe, Family::DualPipeV] {
        let problem = overlapped(family, FULL);
        let schedule = family.schedule(&problem).expect("a legal question");
        group.throughput(Throughput::Elements(schedule.passes() as u64));
        let mut replay = Replay::new();
        group.bench_function(family.name(), |bencher| {
            bencher.iter(|| replay.metrics(black_box(&schedule), problem.costs()));
        });
    }
}

criterion_group!(benches, replay, pairs);
criterion_main!(benches);
