//! How long a step of many microbatches takes to answer, from the question to its times: by the whole order, and by the
//! period of the order. Processor time, on one core.
//! Run with `cargo bench --package debubble-benches --bench steady`.

mod processor_time;

use std::hint::black_box;

use benches::{Size, problem};
use criterion::{Criterion, criterion_group, criterion_main};
use pipeline::{Costs, Family, Metrics, Nanos, PassTimes, Problem};
use processor_time::ProcessorTime;
use sim::{Repeating, Replay};

/// The same problem with stages that differ by up to `most` nanoseconds.
fn unequal(problem: Problem, most: u64) -> Problem {
    let costs = problem.costs();
    let more = |at: u64| Nanos(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).0 % (most + 1);
    let longer = |(at, times): (u64, &PassTimes)| {
        let [forward, input, weight] =
            [times.forward, times.backward_input, times.backward_weight].map(|time| time.0);
        PassTimes::new(Nanos(forward + more(at)), Nanos(input), Nanos(weight))
    };
    let chunks = (1..).zip(costs.chunks()).map(longer).collect();
    let costs = Costs::new(chunks, Nanos(0)).with_hops(costs.hops().clone());
    problem.with_costs(costs).expect("legal costs")
}

/// A way to time a step.
type Way = fn(Family, &Problem) -> Metrics;

fn by_order(family: Family, problem: &Problem) -> Metrics {
    let schedule = family.schedule(problem).expect("a legal question");
    Replay::new().metrics(&schedule, problem.costs()).expect("legal costs")
}

fn by_period(family: Family, problem: &Problem) -> Metrics {
    let period = family.period(problem).expect("an order that repeats");
    let few = problem.clone().with_microbatches(period.shown_by).expect("few microbatches");
    let schedule = family.schedule(&few).expect("a legal question");
    let all = problem.shape().microbatches();
    let repeating = Repeating::of(&schedule, period.microbatches, all).expect("it repeats");
    repeating.metrics(problem.costs()).expect("legal costs")
}

fn steps(criterion: &mut Criterion<ProcessorTime>) {
    for (stages, most) in [(8, 0), (8, 100_000), (32, 0), (32, 100_000)] {
        let mut group = criterion.benchmark_group(format!("steps, p={stages}, +{most} ns"));
        group.sample_size(10);
        for family in [Family::OneFOneB, Family::ZbH1, Family::Interleaved, Family::VHalf] {
            for microbatches in [1_024, 100_000] {
                let problem = unequal(problem(family, Size { stages, microbatches }), most);
                let ways: [(&str, Way); 2] = [("order", by_order), ("period", by_period)];
                assert_eq!(by_order(family, &problem), by_period(family, &problem));
                for (name, way) in ways {
                    let id = format!("{}, m={microbatches}, by {name}", family.name());
                    group.bench_function(id, |bencher| {
                        bencher.iter(|| black_box(way(family, &problem)));
                    });
                }
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = steps
}
criterion_main!(benches);
