//! Asks how to train a model of 7 billion parameters on 16 GPUs: the three fastest parallel
//! configurations with what they hold.
//!
//! `cargo run --example ask_for_a_plan`
#![allow(clippy::print_stdout)] // A program that prints its answer.

use std::error::Error;

use pipeline::{Bytes, Family};
use plan::{
    Attention, Biases, BlockFormats, Boundary, Cluster, Efficiency, Imbalance, Inputs, Loss,
    Machine, MemoryBudget, Norm, Optimizer, Precision, Price, Recipe, Recompute, Reliability,
    Sizes, Software, Space, Split, Transformer, Zero, number, search,
};

fn llama_7b() -> Sizes {
    Sizes {
        layers: 32,
        hidden: 4_096,
        heads: 32,
        kv_heads: 32,
        head_size: 128,
        ffn: 11_008,
        gated: true,
        vocabulary: 32_000,
        sequence: 4_096,
        positions: 0,
        experts: None,
        tied: false,
        biases: Biases::default(),
        norm: Norm::Rms,
        qk_norm: false,
        attention: Attention::Flash,
        ..Sizes::default()
    }
}

/// H100 with 80 GB, eight to a node; `scenarios/machines/h100.toml` says where the numbers are from.
fn h100() -> Machine {
    Machine {
        name: "h100".to_owned(),
        device: None,
        memory: Bytes(84_932_999_577),
        reserve: Bytes(4_000_000_000),
        peak: 989e12,
        peak_fp8: Some(1979e12),
        peak_fp4: None,
        block_formats: BlockFormats::default(),
        bandwidth: 3350e9,
        node: 8,
        domain: 8,
        link: 450e9,
        network: 50e9,
        watts: None,
        host: None,
        efficiency: Efficiency {
            matmul: 0.65,
            fill: 1.85e6,
            depth: 48.2,
            flash: 0.4,
            memory: 0.7847,
            link: 0.744,
            ring: 0.294,
            shared_ring: 1.0,
            tensor_network: 0.453,
            hop: 0.866,
            collective_latency: 34e-6,
            hop_latency: 250e-6,
            launch: 3150e-6,
            launch_tensor: 1.077,
            ..Efficiency::IDEAL
        },
        price: Price { on_demand: 2.9, reserved: Some(2.0), spot: None },
        reliability: Reliability { hours_between_failures: 5e4, restart: 600.0, checkpoint: 2e9 },
        measured: None,
        calibrated: Vec::new(),
    }
}

fn recipe() -> Recipe {
    Recipe {
        batch: 256,
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
        loss: Loss::Fused,
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

fn space() -> Space {
    Space {
        tensor: vec![1, 2, 4, 8],
        pipeline: vec![1, 2, 4, 8],
        context: vec![1],
        expert: vec![1],
        zero: vec![Zero::Optimizer],
        microbatch: vec![1, 2],
        chunks: vec![2, 4],
        families: vec![Family::OneFOneB, Family::Interleaved, Family::ZbH1],
        recompute: vec![Recompute::None, Recompute::Full],
        split: vec![Split::Balanced],
        vocabulary_parallel: vec![false],
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (model, recipe) = (Transformer::new(llama_7b())?, recipe());
    let cluster = Cluster { parts: vec![(h100(), 16)] };
    let inputs = Inputs::new(&model, &recipe, &cluster);
    let setups = space().setups(&cluster).ok_or("too many set-ups")?;
    let found = search(&inputs, &setups, 3, &|_| ());
    println!("{} set-ups, {} of them simulated", setups.len(), found.simulated);
    for evaluation in &found.best {
        let setup = evaluation.costed.setup;
        let (stage, held) = evaluation.fullest();
        println!(
            "d {} t {} p {} v {} b {}, {}, recompute {}: {:.2} s per step, {:.1} GiB on stage {stage}",
            setup.data,
            setup.tensor,
            setup.pipeline,
            setup.chunks,
            setup.microbatch,
            setup.family.name(),
            setup.recompute.name(),
            number(evaluation.step.0) / 1e9,
            number(held.sum().0) / number(1 << 30),
        );
    }
    for (reason, count) in &found.left_out {
        println!("{count} left out: {reason}");
    }
    Ok(())
}
