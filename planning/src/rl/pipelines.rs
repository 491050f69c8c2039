//! Training of a step on pipelines: `strategy = "megatron"`.

use std::ops::Range;

use fsdp::CostModel;
use fsdp::rl::{ChunkCosts, PassCost, Pipelines};
use pipeline::Nanos;
use plan::{Partition, gathered, number};
use question::diagnostic::Diagnostic;
use question::rl::RlKeys;
use question::values::packing::{CommunicationKey, OrderKey, StrategyKey};

use super::{fault, passes, wrong};
use crate::samples::{ALONE, HALF, Samples, constants, per_token};

/// Chunks of a stage of an interleaved pipeline where nothing is said.
const CHUNKS: u64 = 2;
/// Bytes of a gradient as Megatron-LM reduces it in verl: 32 bits.
const GRADIENT: f64 = 4.0;

/// The pipelines that `keys` ask for.
pub(super) struct Reader<'a> {
    pub(super) keys: &'a RlKeys,
    pub(super) samples: &'a Samples,
    /// Devices that train.
    pub(super) devices: u64,
    /// Tokens of a microbatch of a replica.
    pub(super) limit: u64,
}

/// Devices that work on the same samples: a replica, or those that share each sequence.
pub(super) fn group(keys: &RlKeys) -> u64 {
    match keys.strategy {
        StrategyKey::Fsdp => keys.sequence_parallel,
        StrategyKey::Megatron => {
            keys.pipeline.saturating_mul(keys.train_tensor).saturating_mul(keys.context)
        }
    }
}

/// Devices that share the tokens of a sequence.
pub(super) const fn shared(keys: &RlKeys) -> u64 {
    match keys.strategy {
        StrategyKey::Fsdp => keys.sequence_parallel,
        StrategyKey::Megatron => keys.context,
    }
}

/// Devices that share each product of an expert.
pub(super) fn expert_tensor(keys: &RlKeys, samples: &Samples) -> u64 {
    let dense = if samples.model.experts.is_some() { keys.train_tensor } else { 1 };
    keys.expert_tensor.unwrap_or(dense)
}

/// Refuses keys of the one strategy that only the other one has.
pub(super) fn check_strategy(keys: &RlKeys) -> Result<(), Diagnostic> {
    if keys.strategy == StrategyKey::Megatron {
        if keys.sequence_parallel != 1 {
            let message = "--sequence-parallel (Ulysses) is of --strategy fsdp".to_owned();
            return Err(wrong("sequence-parallel", message)
                .with_help("take --context for devices that share each sequence"));
        }
        if keys.communication != CommunicationKey::Collectives {
            let message = "--communication on-demand is of --strategy fsdp: pipelines exchange gradients once in an update";
            return Err(wrong("communication", message.to_owned()));
        }
        return Ok(());
    }
    let given = [
        ("pipeline", keys.pipeline != 1),
        ("train-tensor", keys.train_tensor != 1),
        ("context", keys.context != 1),
        ("expert", keys.expert != 1),
        ("expert-tensor", keys.expert_tensor.is_some()),
        ("schedule", keys.schedule != OrderKey::OneFOneB),
        ("chunks", keys.chunks.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("--{key} needs --strategy megatron");
            Err(wrong(key, message).with_help("add --strategy megatron"))
        }
    }
}

/// The layers of each of `chunks` chunks in model order, as equal in number as they can be.
pub(super) fn dealt(layers: u64, chunks: u64) -> Vec<Range<u64>> {
    (0..chunks).map(|at| at * layers / chunks..(at + 1) * layers / chunks).collect()
}

impl Reader<'_> {
    /// The pipelines, and the cost of a sample on a replica, which microbatches are balanced by.
    pub(super) fn read(&self) -> Result<(Pipelines, CostModel), Diagnostic> {
        let partition = self.partition()?;
        let chunks = self.chunks()?;
        let costs = match &self.keys.cost {
            Some(given) => self.given(given.model(), &chunks)?,
            None => self.samples.chunks(self.limit, partition, self.keys.recompute, &chunks),
        };
        let model = sum(&costs)?;
        let machine = &self.samples.machine;
        // The tensor group shares what travels, and so does the context group.
        let bytes = HALF * number(self.samples.model.hidden)
            / (number(partition.tensor) * number(partition.context));
        // Stages are the outermost groups of devices.
        let leaves = self.devices > machine.domain;
        let rate = if leaves { machine.hop_outside() } else { machine.hop_inside() };
        let pipelines = Pipelines {
            replicas: usize::try_from(self.replicas()).unwrap_or(usize::MAX),
            stages: self.keys.pipeline,
            schedule: self.keys.schedule.family(),
            chunks: costs,
            hop_latency: plan::nanos(machine.efficiency.hop_latency),
            hop_token: bytes / rate,
            exchange: self.exchange(partition, &chunks),
        };
        Ok((pipelines, model))
    }

    fn replicas(&self) -> u64 {
        self.devices / group(self.keys).max(1)
    }

    /// How a stage is shared, checked.
    fn partition(&self) -> Result<Partition, Diagnostic> {
        let RlKeys { pipeline, train_tensor, context, expert, .. } = *self.keys;
        let expert_tensor = expert_tensor(self.keys, self.samples);
        let sizes = [
            ("pipeline", pipeline),
            ("train-tensor", train_tensor),
            ("context", context),
            ("expert", expert),
            ("expert-tensor", expert_tensor),
        ];
        if let Some((key, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(wrong(key, format!("--{key} must be 1 or more")));
        }
        let sequence_parallel = train_tensor > 1;
        let partition = Partition {
            tensor: train_tensor,
            context,
            expert,
            expert_tensor,
            sequence_parallel,
            ..ALONE
        };
        self.check(partition).map_err(|(key, message)| wrong(key, message))?;
        Ok(partition)
    }

    /// The key that is wrong, and why, if devices, heads and experts cannot be divided so.
    fn check(&self, partition: Partition) -> Result<(), (&'static str, String)> {
        let Partition { tensor, context, expert, expert_tensor, .. } = partition;
        let (devices, pipeline, group) = (self.devices, self.keys.pipeline, group(self.keys));
        let heads = self.samples.model.heads;
        let experts = self.samples.model.experts.map_or(1, |experts| experts.count);
        let stage = devices / pipeline;
        if !devices.is_multiple_of(group) {
            let message = format!(
                "a replica has {pipeline} x {tensor} x {context} = {group} devices (--pipeline, --train-tensor, \
                 --context), which do not divide the {devices} that train"
            );
            return Err(("pipeline", message));
        }
        if !heads.is_multiple_of(tensor) {
            let message =
                format!("--train-tensor {tensor} does not divide the {heads} attention heads");
            return Err(("train-tensor", message));
        }
        if !experts.is_multiple_of(expert) {
            let message = format!("--expert {expert} does not divide {experts} experts of a layer");
            return Err(("expert", message));
        }
        if !stage.is_multiple_of(expert.saturating_mul(expert_tensor)) {
            let message = format!(
                "--expert {expert} x --expert-tensor {expert_tensor} does not divide the {stage} devices of a stage of \
                 all replicas"
            );
            return Err(("expert", message));
        }
        Ok(())
    }

    /// The layers of each chunk in model order, as equal in number as they can be.
    fn chunks(&self) -> Result<Vec<Range<u64>>, Diagnostic> {
        let RlKeys { pipeline, schedule, chunks, .. } = *self.keys;
        let per_stage = match (schedule, chunks) {
            (OrderKey::Interleaved, given) => given.unwrap_or(CHUNKS),
            (_, None | Some(1)) => 1,
            (_, Some(_)) => {
                let message =
                    format!("--chunks needs an interleaved schedule, not {}", schedule.name());
                return Err(wrong("chunks", message).with_help("add --schedule 1f1b-i"));
            }
        };
        let layers = self.samples.model.layers;
        let all = pipeline.saturating_mul(per_stage);
        if all == 0 || all > layers {
            let message = format!(
                "{layers} layers for {pipeline} stages of {per_stage} chunks: each needs a layer"
            );
            let key = if per_stage == 1 { "pipeline" } else { "chunks" };
            return Err(wrong(key, message));
        }
        Ok(dealt(layers, all))
    }

    /// The part of each chunk of the cost of a sample on a device, by its layers.
    fn given(
        &self,
        model: CostModel,
        chunks: &[Range<u64>],
    ) -> Result<Vec<ChunkCosts>, Diagnostic> {
        let RlKeys { train_tensor, context, .. } = *self.keys;
        let Some(constants) = model.constants() else {
            let message = "--strategy megatron takes quadratic costs alone".to_owned();
            return Err(wrong("cost", message)
                .with_help("write quadratic:0,B, with B seconds for 32000 tokens"));
        };
        let [squares, tokens] = per_token(constants);
        let devices = number(train_tensor) * number(context);
        let layers = number(self.samples.model.layers);
        let [f, b, w] = passes(self.keys);
        let chunk = |chunk: &Range<u64>| {
            let part = number(chunk.end - chunk.start) / (layers * devices);
            let of = |share: f64| PassCost {
                squares: squares * part * share,
                tokens: tokens * part * share,
            };
            ChunkCosts { forward: of(f), backward_input: of(b), backward_weight: of(w) }
        };
        Ok(chunks.iter().map(chunk).collect())
    }

    /// The exchange at the end of an update on the stage that has most: gradients are reduced and scattered, and
    /// parameters gathered (the distributed optimizer), behind the last microbatch, as verl sets it.
    fn exchange(&self, partition: Partition, chunks: &[Range<u64>]) -> Nanos {
        let machine = &self.samples.machine;
        let stages = usize::try_from(self.keys.pipeline).unwrap_or(usize::MAX);
        let devices = self.devices / self.keys.pipeline;
        let Partition { tensor, expert, expert_tensor, .. } = partition;
        let of_stage = |stage: usize| {
            let [dense, experts] = self.trained(stage, stages, chunks);
            let part = |parameters: f64, shared: u64| {
                let members = devices / shared;
                let rate = machine.ring(members, shared);
                gathered((GRADIENT + HALF) * parameters / number(shared), members, rate)
            };
            part(dense, tensor) + part(experts, expert * expert_tensor)
        };
        plan::nanos((0..stages.min(chunks.len())).map(of_stage).fold(0.0, f64::max))
    }

    /// Parameters of `stage` that are trained, outside of experts and of these.
    fn trained(&self, stage: usize, stages: usize, chunks: &[Range<u64>]) -> [f64; 2] {
        let model = &self.samples.model;
        let own = || chunks.iter().skip(stage).step_by(stages);
        if self.keys.lora_rank.is_some() {
            let layers: u64 = own().map(|chunk| chunk.end - chunk.start).sum();
            let all = number(model.trained_parameters());
            return [all * number(layers) / number(model.layers), 0.0];
        }
        let first = if stage == 0 { model.embedding_parameters() } else { 0 };
        let last = if stage + 1 == stages { model.head_parameters() } else { 0 };
        let counts = own().map(|chunk| model.counts(chunk.clone()));
        counts.fold([number(first + last), 0.0], |[dense, experts], counts| {
            let kinds = model.layer_kinds();
            [
                dense + counts.sum_of(kinds, |kind| number(model.parameters_of(kind).dense)),
                experts + counts.sum_of(kinds, |kind| number(model.parameters_of(kind).experts)),
            ]
        })
    }
}

/// The cost of a sample on all chunks, forward and backward.
fn sum(chunks: &[ChunkCosts]) -> Result<CostModel, Diagnostic> {
    let passes = chunks.iter().flat_map(ChunkCosts::passes);
    let [squares, tokens] = passes
        .fold([0.0; 2], |[squares, tokens], cost| [squares + cost.squares, tokens + cost.tokens]);
    let [a, b] = constants([squares, tokens]);
    CostModel::quadratic(a, b).map_err(|error| fault(&error).about("cost"))
}
