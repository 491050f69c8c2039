//! How long it takes to pack one large minibatch for FSDP, and how many small ones a second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fsdp::{Communication, CostModel, Lengths, Machine, Method, Packing, Study, Way};

const LONGEST: u32 = 64_000;

/// Samples and devices of the large minibatch.
const LARGE: (usize, usize) = (4_096, 512);

fn lengths() -> Lengths {
    Lengths::long_tail(8_000, LONGEST, 1.0).expect("legal lengths")
}

fn packing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packing, 4096 samples for 512 devices");
    group.throughput(Throughput::Elements(LARGE.0 as u64)).sample_size(10);
    let samples = lengths().draw(1, 0, LARGE.0);
    for method in Method::ALL {
        group.bench_function(method.name(), |bencher| {
            bencher.iter(|| {
                let model = CostModel::FIT_7B;
                Packing::new(method, &samples, LARGE.1, u64::from(LONGEST), model)
                    .expect("a packing")
            });
        });
    }
    group.finish();
}

fn study(criterion: &mut Criterion) {
    let study = Study {
        machine: Machine::new(8, 28).expect("a machine"),
        lengths: lengths(),
        model: CostModel::FIT_1_5B,
        minibatch: 4,
        limit: u64::from(LONGEST),
        minibatches: 4_096,
        seed: 1,
    };
    let way = |method, communication| Way { method, communication };
    let ways = [
        way(Method::LbMicro, Communication::Collectives),
        way(Method::LbMicro, Communication::OnDemand),
        way(Method::LbMini, Communication::OnDemand),
    ];
    let mut group = criterion.benchmark_group("minibatches of 32 samples for 8 devices, 3 ways");
    group.throughput(Throughput::Elements(study.minibatches)).sample_size(10);
    group.bench_function("all threads", |bencher| {
        bencher.iter(|| study.run(&ways, || ()).expect("a study"));
    });
    group.finish();
}

criterion_group!(benches, packing, study);
criterion_main!(benches);
