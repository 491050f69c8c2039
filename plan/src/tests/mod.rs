//! Models, machines and set-ups of the tests.

mod costs;
mod documents;
mod finalists;
mod frozen;
mod kinds;
mod machines;
mod memory;
mod memory_budget;
mod optimizers;
mod order_search;
mod published;
mod search;
mod sparse;
mod streams;
mod unsure;

use crate::BlockFormats;
use pipeline::{Bandwidth, Bytes, Family};
use sim::cluster::Host;

use crate::{
    Attention, Biases, Boundary, Efficiency, Imbalance, Loss, Machine, MemoryBudget, Norm, Offload,
    Optimizer, Precision, Price, Recipe, Recompute, Reliability, Reshard, Setup, Sizes, Software,
    Split, Transformer, Zero,
};

fn gpt(layers: u64, hidden: u64, heads: u64) -> Sizes {
    Sizes {
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_size: hidden / heads,
        ffn: 4 * hidden,
        gated: false,
        vocabulary: 51_200,
        sequence: 2048,
        positions: 2048,
        experts: None,
        tied: true,
        biases: Biases { qkv: true, output: true, mlp: true },
        norm: Norm::Layer,
        qk_norm: false,
        attention: Attention::Core,
        ..Sizes::default()
    }
}

fn llama(
    layers: u64,
    hidden: u64,
    [heads, kv_heads]: [u64; 2],
    ffn: u64,
    vocabulary: u64,
) -> Sizes {
    Sizes {
        kv_heads,
        ffn,
        gated: true,
        vocabulary,
        positions: 0,
        tied: false,
        biases: Biases::default(),
        norm: Norm::Rms,
        attention: Attention::Flash,
        ..gpt(layers, hidden, heads)
    }
}

fn machine() -> Machine {
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
        host: Some(Host {
            bandwidth: Bandwidth::new(30_000_000_000).unwrap(),
            devices_per_link: 2,
        }),
        efficiency: Efficiency {
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
        },
        price: Price { on_demand: 2.0, reserved: None, spot: None },
        reliability: Reliability { hours_between_failures: 5e4, restart: 600.0, checkpoint: 2e9 },
        measured: None,
        calibrated: Vec::new(),
    }
}

fn recipe(batch: u64) -> Recipe {
    Recipe {
        batch,
        gradient_bytes: 4,
        optimizer: Optimizer::ADAM_W,
        weight_bytes: 2,
        logit_bytes: 6,
        fp8_activation_input: false,
        offload: Offload::NONE,
        sequence_parallel: true,
        scatter_gather: true,
        overlap_gradients: true,
        overlap_parameters: false,
        loss: Loss::Separate,
        boundary: Boundary::Barrier,
        reserved: Bytes(1 << 30),
        memory_budget: MemoryBudget::default(),
        precision: Precision::Bf16,
        head: Precision::Bf16,
        software: Software::default(),
        imbalance: Imbalance::default(),
        attended: 1.0,
    }
}

fn setup([data, tensor, pipeline]: [u64; 3]) -> Setup {
    Setup {
        data,
        tensor,
        pipeline,
        context: 1,
        expert: 1,
        expert_tensor: 1,
        zero: Zero::Optimizer,
        reshard: Reshard::AfterForward,
        shard_groups: 1,
        microbatch: 1,
        chunks: 1,
        family: Family::OneFOneB,
        searched: false,
        recompute: Recompute::None,
        split: Split::Balanced,
        vocabulary_parallel: false,
        options: crate::Options::default(),
    }
}

fn model(sizes: Sizes) -> Transformer {
    Transformer::new(sizes).unwrap()
}
