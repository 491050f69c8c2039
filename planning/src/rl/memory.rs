//! The set-up of the training of a step, as the planner holds it against the memory of a device.

use pipeline::LayerLayout;
use plan::{
    Boundary, Cluster, Imbalance, Inputs, Loss, Machine, MemoryBudget, Offload, Optimizer,
    Precision, Recipe, Reshard, Setup, Software, Split, Transformer, Zero,
};
use question::values::packing::StrategyKey;

use super::{Reader, pipelines};
use crate::samples::recompute_of;
use crate::training::RESERVED;

/// Microbatches for each stage of a pipeline: with this many, stages hold the most that they ever do.
const MICROBATCHES: u64 = 4;

/// Tokens of a microbatch beyond which no device holds one.
const MOST_TOKENS: u64 = 1 << 30;

/// The training of the policy as a set-up of the planner.
pub struct TrainingSetup {
    model: Transformer,
    /// The recipe; the error of its memory is none until it is set.
    pub recipe: Recipe,
    cluster: Cluster,
    layout: Option<LayerLayout>,
    /// The set-up.
    pub setup: Setup,
}

impl TrainingSetup {
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.cluster.parts[0].0
    }

    /// The inputs of the cost formulas.
    #[must_use]
    pub fn inputs(&self) -> Inputs<'_> {
        let inputs = Inputs::new(&self.model, &self.recipe, &self.cluster);
        Inputs { layout: self.layout.as_ref(), ..inputs }
    }
}

impl Reader<'_> {
    /// The training on `devices` devices in microbatches of `tokens` tokens of a replica. Engines are taken to free their
    /// memory while the policy is trained.
    pub(super) fn training_setup(&self, devices: u64, tokens: u64, chunks: u64) -> TrainingSetup {
        let keys = self.keys;
        let is_fsdp = keys.strategy == StrategyKey::Fsdp;
        let group = pipelines::group(keys).max(1);
        let context = pipelines::shared(keys).max(1);
        let (data, pipeline) = ((devices / group).max(1), keys.pipeline.max(1));
        let setup = Setup {
            data,
            tensor: keys.train_tensor,
            pipeline,
            context,
            expert: keys.expert,
            expert_tensor: pipelines::expert_tensor(keys, &self.samples),
            zero: if is_fsdp { Zero::Parameters } else { Zero::Optimizer },
            reshard: if is_fsdp { Reshard::AfterForward } else { Reshard::Never },
            shard_groups: 1,
            microbatch: 1,
            chunks: (chunks / pipeline).max(1),
            family: keys.schedule.family(),
            searched: false,
            recompute: recompute_of(keys.recompute),
            split: Split::Layout,
            vocabulary_parallel: false,
            options: plan::Options::default(),
        };
        let microbatches = if pipeline > 1 { MICROBATCHES * pipeline } else { 1 };
        let layers = pipelines::dealt(self.samples.model.layers, chunks);
        let layers = layers.iter().map(|chunk| chunk.end - chunk.start).collect();
        TrainingSetup {
            // Causal balance cuts a sequence into two parts for each device.
            model: self
                .samples
                .model
                .with_sequence(tokens.clamp(1, MOST_TOKENS).next_multiple_of(2 * context)),
            recipe: recipe(data.saturating_mul(microbatches)),
            cluster: Cluster { parts: vec![(self.samples.machine.clone(), devices)] },
            layout: LayerLayout::of(layers).ok(),
            setup,
        }
    }
}

/// The recipe of an update of `batch` sequences: mixed precision with Adam, gradients reduced beside the backward.
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
        reserved: RESERVED,
        memory_budget: MemoryBudget::default(),
        precision: Precision::Bf16,
        head: Precision::Bf16,
        software: Software { eager: true, ..Software::default() },
        imbalance: Imbalance::default(),
        attended: 1.0,
    }
}
