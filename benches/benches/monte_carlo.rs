//! How long a distribution takes: 1,000 replicas of a step under noise, on all cores.

use benches::{Size, problem};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::Family;
use sim::Simulation;
use sim::straggler::{Jitter, Stragglers};

const REPLICAS: u64 = 1000;

fn replicas(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000 replicas, p=8 m=64");
    let problem = problem(Family::ZbH1, Size { stages: 8, microbatches: 64 });
    let schedule = Family::ZbH1.schedule(&problem).expect("a legal question");
    let mut stragglers = Stragglers::new(8, 1);
    stragglers.jitter_passes(Jitter::log_normal(0.05).expect("a legal spread"));
    group.throughput(Throughput::Elements(REPLICAS * schedule.passes() as u64)).sample_size(20);
    let simulation = Simulation::new(&schedule, problem.costs(), problem.footprints());
    let simulation = simulation.under(&stragglers);
    group.bench_function("zb-h1, lognormal:0.05", |bencher| {
        bencher.iter(|| simulation.replicas(REPLICAS, || {}, || false));
    });
}

criterion_group!(benches, replicas);
criterion_main!(benches);
