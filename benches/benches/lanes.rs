//! How many passes per second an order is timed at in many scenarios at once, and in many replicas of noise, beside
//! one after the other. All on one core; processor time, for other work of the machine does not count.
//! Run with `cargo bench --package debubble-benches --bench lanes`.

mod processor_time;

use std::hint::black_box;

use benches::{Size, problem};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::{Costs, Family, Nanos};
use processor_time::ProcessorTime;
use sim::lanes::{CompiledOrder, NoisyOrder, REPLICAS, SCENARIOS, Scenarios};
use sim::straggler::{Jitter, Stragglers};
use sim::{Replay, timed};

const SIZES: [Size; 3] = [
    Size { stages: 8, microbatches: 32 },
    Size { stages: 32, microbatches: 256 },
    Size { stages: 128, microbatches: 1024 },
];

/// Costs that differ from scenario to scenario.
fn scenarios(costs: &Costs) -> Vec<Costs> {
    let longer = |by: u64| costs.clone().with_hops(costs.hops().map(|hop| hop + Nanos(by)));
    (0..SCENARIOS as u64).map(longer).collect()
}

fn replays(criterion: &mut Criterion<ProcessorTime>) {
    for size in SIZES {
        let name = format!("scenarios, p={} m={}", size.stages, size.microbatches);
        let mut group = criterion.benchmark_group(name);
        for family in [Family::OneFOneB, Family::ZbH1, Family::ZbV] {
            let problem = problem(family, size);
            let schedule = family.schedule(&problem).expect("a legal question");
            let all = scenarios(problem.costs());
            group.throughput(Throughput::Elements((SCENARIOS * schedule.passes()) as u64));
            group.sample_size(20);
            let mut replay = Replay::new();
            group.bench_function(format!("{}, one after the other", family.name()), |bencher| {
                bencher.iter(|| {
                    for costs in &all {
                        black_box(replay.metrics(&schedule, costs)).expect("legal costs");
                    }
                });
            });
            let order = CompiledOrder::new(&schedule).expect("an order for lanes");
            let mut lanes = Scenarios::new(&order);
            group.bench_function(format!("{}, lanes", family.name()), |bencher| {
                bencher.iter(|| {
                    for (lane, costs) in all.iter().enumerate() {
                        assert_eq!(lanes.set(lane, costs), Ok(true));
                    }
                    black_box(lanes.replay())
                });
            });
            group.throughput(Throughput::Elements(schedule.passes() as u64));
            group.bench_function(format!("{}, compiled", family.name()), |bencher| {
                bencher.iter(|| black_box(CompiledOrder::new(&schedule)));
            });
        }
    }
}

fn replicas(criterion: &mut Criterion<ProcessorTime>) {
    for (stages, microbatches) in [(8, 64), (32, 256)] {
        let mut group = criterion.benchmark_group(format!("replicas, p={stages} m={microbatches}"));
        for family in [Family::OneFOneB, Family::ZbH1] {
            let problem = problem(family, Size { stages, microbatches });
            let schedule = family.schedule(&problem).expect("a legal question");
            let costs = problem.costs();
            let mut noise = Stragglers::new(schedule.shape().stages(), 1);
            noise.jitter_passes(Jitter::log_normal(0.05).expect("a legal spread"));
            group.throughput(Throughput::Elements((REPLICAS * schedule.passes()) as u64));
            group.sample_size(20);
            group.bench_function(format!("{}, one after the other", family.name()), |bencher| {
                bencher.iter(|| {
                    for replica in 0..REPLICAS as u64 {
                        let timing = noise.sample(replica, 0).timing(costs);
                        black_box(timed::metrics(&schedule, &timing));
                    }
                });
            });
            let order = NoisyOrder::new(&schedule, costs, &noise).expect("an order for lanes");
            let mut tables = order.tables();
            group.bench_function(format!("{}, lanes", family.name()), |bencher| {
                bencher.iter(|| black_box(order.replay(&mut tables, 0)));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = replays, replicas
}
criterion_main!(benches);
