//! How many set-ups a second of processor time the planner costs, how many it orders and times, and
//! how many it decides where bounds set the slow ones aside.

mod processor_time;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::{Bytes, Family};
use plan::{
    Attention, Biases, BlockFormats, Boundary, Cluster, Efficiency, Imbalance, Inputs, Loss,
    Machine, MemoryBudget, Norm, Optimizer, Orders, Precision, Price, Recipe, Recompute,
    Reliability, Setup, Sizes, Software, Space, Split, Transformer, Zero, search,
};
use processor_time::ProcessorTime;
use sim::Replay;

/// A device of about an A100's sizes, eight to a node.
fn machine() -> Machine {
    let efficiency = Efficiency {
        matmul: 0.79,
        fill: 1.5e6,
        depth: 48.0,
        flash: 0.5,
        memory: 0.78,
        link: 0.74,
        ring: 0.3,
        shared_ring: 1.0,
        tensor_network: 0.45,
        hop: 0.87,
        collective_latency: 34e-6,
        hop_latency: 250e-6,
        launch: 3.4e-3,
        launch_tensor: 1.08,
        ..Efficiency::IDEAL
    };
    Machine {
        name: "a100".to_owned(),
        device: None,
        memory: Bytes(80_000_000_000),
        reserve: Bytes(0),
        peak: 312e12,
        peak_fp8: None,
        peak_fp4: None,
        block_formats: BlockFormats::default(),
        bandwidth: 2039e9,
        node: 8,
        domain: 8,
        link: 300e9,
        network: 25e9,
        watts: None,
        host: None,
        efficiency,
        price: Price { on_demand: 2.0, reserved: None, spot: None },
        reliability: Reliability { hours_between_failures: 5e4, restart: 600.0, checkpoint: 2e9 },
        measured: None,
        calibrated: Vec::new(),
    }
}

/// GPT-3 175B.
fn model() -> Transformer {
    let sizes = Sizes {
        layers: 96,
        hidden: 12_288,
        heads: 96,
        kv_heads: 96,
        head_size: 128,
        ffn: 49_152,
        gated: false,
        vocabulary: 51_200,
        sequence: 2048,
        positions: 2048,
        experts: None,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        qk_norm: false,
        attention: Attention::Flash,
        ..Sizes::default()
    };
    Transformer::new(sizes).expect("a model")
}

fn space() -> Space {
    Space {
        tensor: vec![1, 2, 4, 8],
        pipeline: vec![4, 8, 16, 32],
        context: vec![1],
        expert: vec![1],
        zero: vec![Zero::Optimizer],
        microbatch: vec![1, 2, 4],
        chunks: vec![2, 3],
        families: vec![Family::OneFOneB, Family::Interleaved, Family::ZbH1, Family::ZbV],
        recompute: vec![Recompute::None, Recompute::Full],
        split: vec![Split::Balanced],
        vocabulary_parallel: vec![false],
    }
}

fn plans(criterion: &mut Criterion<ProcessorTime>) {
    let recipe = Recipe {
        batch: 1536,
        gradient_bytes: 4,
        optimizer: Optimizer::ADAM_W,
        weight_bytes: 2,
        logit_bytes: 6,
        fp8_activation_input: false,
        offload: plan::Offload::NONE,
        sequence_parallel: true,
        scatter_gather: true,
        overlap_gradients: true,
        overlap_parameters: false,
        loss: Loss::Separate,
        boundary: Boundary::Barrier,
        reserved: Bytes(4_000_000_000),
        memory_budget: MemoryBudget::default(),
        precision: Precision::Bf16,
        head: Precision::Bf16,
        software: Software::default(),
        imbalance: Imbalance::default(),
        attended: 1.0,
    };
    let (model, cluster) = (model(), Cluster { parts: vec![(machine(), 512)] });
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let setups = space().setups(&cluster).expect("few set-ups");
    let fitting: Vec<Setup> = setups
        .iter()
        .copied()
        .filter(|setup| {
            let costed = inputs.cost(setup).ok();
            costed.is_some_and(|costed| inputs.evaluate(&costed, &mut Replay::new()).is_ok())
        })
        .collect();
    let mut group = criterion.benchmark_group("GPT-3 on 512 devices, one core");
    group.throughput(Throughput::Elements(setups.len() as u64));
    group.bench_function("costed", |bencher| {
        bencher.iter(|| setups.iter().filter(|setup| inputs.cost(setup).is_ok()).count());
    });
    group.throughput(Throughput::Elements(fitting.len() as u64)).sample_size(10);
    group.bench_function("ordered and timed", |bencher| {
        let (mut replay, orders) = (Replay::new(), Orders::default());
        bencher.iter(|| {
            let step = |setup: &Setup| {
                let costed = inputs.cost(setup).expect("it divides");
                inputs.evaluate_in(&costed, &mut replay, &orders).expect("it fits").step
            };
            fitting.iter().map(step).min()
        });
    });
    group.throughput(Throughput::Elements(setups.len() as u64));
    group.bench_function("decided, with bounds", |bencher| {
        bencher.iter(|| search(&inputs, &setups, 3, &|_| {}).simulated);
    });
    group.finish();
}

criterion_group!(
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = plans
);
criterion_main!(benches);
