//! How many events per second the engine handles while transfers contend for NICs, in both ways of
//! sharing, and how it compares with replay of the same schedule where nothing is contended.

use std::hint::black_box;

use benches::{FULL, problem};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::{Bandwidth, Bytes, Family, Nanos, Schedule};
use sim::cluster::{Cluster, ClusterSpec, Inter, Intra, Seating, Seats};
use sim::engine::{Communication, Messages, NominalDurations, run};
use sim::{Hardware, Replay, Sharing};

/// Four nodes of eight devices, one NIC for every four devices, stages in turn over the nodes so
/// that every hop crosses the fabric.
fn busy() -> Cluster {
    let gb = |count: u64| Bandwidth::new(count * 1_000_000_000).expect("a legal bandwidth");
    Cluster::new(ClusterSpec {
        nodes: 4,
        devices_per_node: 8,
        memory: None,
        intra: Intra { bandwidth: gb(300), latency: Nanos(2_000) },
        inter: Inter {
            nics: 2,
            bandwidth: gb(25),
            latency: Nanos(5_000),
            oversubscription_percent: 100,
        },
        host: None,
    })
    .expect("a legal cluster")
}

fn engine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine, p=32 m=256");
    let problem = problem(Family::ZbH1, FULL);
    let schedule: Schedule = Family::ZbH1.schedule(&problem).expect("a legal question");
    // What 3 samples of the model hand on, in 2 bytes; five times that is more than the NICs carry.
    let message = 3 * 1024 * 6144 * 2;
    for (name, cluster, sharing, bytes) in [
        ("ideal", Cluster::ideal(32, Nanos(460_000)), Sharing::Fair, message),
        ("contended, fair", busy(), Sharing::Fair, message),
        ("contended, queued", busy(), Sharing::Queue, message),
        ("overloaded, fair", busy(), Sharing::Fair, 5 * message),
    ] {
        let seats = Seats::new(&cluster, 32, &Seating::AcrossNodes).expect("enough devices");
        let hardware = Hardware {
            communication: Communication { sharing, ..Communication::default() },
            messages: Messages { bytes: Bytes(bytes) },
            ..Hardware::new(cluster, seats)
        };
        let job = hardware.job(&schedule, problem.costs(), problem.footprints());
        let events = run(&job, &NominalDurations).expect("nothing to get stuck on").events;
        group.throughput(Throughput::Elements(events));
        group.bench_function(name, |bencher| {
            bencher.iter(|| run(black_box(&job), &NominalDurations));
        });
    }
    let mut replay = Replay::new();
    group.throughput(Throughput::Elements(schedule.passes() as u64));
    group.bench_function("replay instead", |bencher| {
        bencher.iter(|| replay.timeline(black_box(&schedule), problem.costs()));
    });
}

criterion_group!(benches, engine);
criterion_main!(benches);
