//! PipeOffload: a pipeline alone against tensor groups of 8, on the models of its table 2.

use pipeline::{Bytes, CopyTimes, Family, Footprint, Footprints, LayerLayout, Nanos};
use plan::{
    Attention, Cluster, Costed, Efficiency, Inputs, Loss, Machine, Recipe, Recompute, Setup, Sizes,
    Split, Transformer, number,
};
use serde::Deserialize;
use sim::Replay;

use super::super::rows::{MOST, gpt, recipe, set_up};

/// The vocabulary that follows from the numbers of parameters, with one table for both ends.
const VOCABULARY: u64 = 32_000;
/// Bandwidth of a device to the host, in bytes per second.
const HOST: u64 = 15_000_000_000;
/// Share of the peak that FlashAttention-2 reaches on A100 in training: 160 TFLOP/s, by what its two models take
/// longer at 8k than at 2k (Dao 2023, arXiv 2307.08691, table 1; causal pairs). Its kernels reach 182 to 189 from 4k
/// to 16k (figure 4d). The machine's own share is that of a sequence of 2,048.
const FLASH: f64 = 0.51;
/// Bandwidth of a node to others, in bytes per second: four NICs of 200 Gbit/s for eight devices (`NCCL_IB_HCA` in
/// the authors' examples/test_all_schedules.sh; ODC, arXiv 2601.19362, of the same lab: 800 Gbit/s of a node).
const NODE_NETWORK: f64 = 100e9;

/// A model of table 2 on the devices that it was trained on.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OffloadModel {
    /// Its name in the table.
    pub model: String,
    /// Number of GPUs.
    pub gpus: u64,
    /// Number of layers.
    pub layers: u64,
    /// Attention heads.
    pub heads: u64,
    /// Groups of keys and values.
    pub query_groups: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Sequences of a step.
    pub batch: u64,
    /// The sequence length at which it was compared with tensor groups, in figure 11, if it was.
    pub compared_seq: Option<u64>,
}

/// The bytes that a layer keeps of one sequence: 20 s h bytes once LayerNorm, GeLU and dropout are computed
/// again, of which 4 s h are keys and values, as many as there are groups of queries.
pub fn layer_bytes(hidden: u64, heads: u64, query_groups: u64, sequence: u64) -> u64 {
    let numbers = sequence.saturating_mul(hidden);
    let shared = numbers.saturating_mul(4).saturating_mul(query_groups) / heads.max(1);
    numbers.saturating_mul(16).saturating_add(shared)
}

/// A step on all devices, as the planner predicts it.
#[derive(Clone, Copy, Debug)]
pub struct OffloadStep {
    /// The schedule of its stages.
    pub family: Family,
    /// Duration of the step, in seconds.
    pub seconds: f64,
    /// The share of the peak rate that model FLOPs take.
    pub mfu: f64,
    /// The most that activations take on a device, which is what the paper compares.
    pub memory: Bytes,
}

impl OffloadModel {
    /// Checks that no size is out of all bounds, so that sums of them are small.
    fn check(&self, tensor: u64) -> Result<(), String> {
        let Self { gpus, layers, heads, query_groups, hidden, batch, .. } = *self;
        let sizes = [gpus / tensor.max(1), gpus, layers, heads, query_groups, hidden, batch];
        match sizes.into_iter().find(|size| !(1..=MOST).contains(size)) {
            Some(size) => Err(format!("a size or group of {size}: from 1 to {MOST}")),
            None => Ok(()),
        }
    }

    fn transformer(&self, sequence: u64) -> Result<Transformer, String> {
        let Self { layers, hidden, heads, query_groups, .. } = *self;
        let gpt = gpt(Attention::Flash, hidden, heads, layers, VOCABULARY, sequence)?;
        // Groups of queries share keys and values; positions have no table.
        let sizes = Sizes { kv_heads: query_groups, positions: 0, ..(*gpt).clone() };
        Transformer::new(sizes).map_err(|error| error.to_string())
    }

    /// Layers of each of `chunks`, as the authors deal them (`get_offset` of their legacy/model/transformer.py): one
    /// to each, but none to the last, which has the head, nor then to the first of them, as far as there are too few.
    fn dealt(&self, chunks: u64) -> Option<LayerLayout> {
        let none = chunks.checked_sub(self.layers)?;
        let has_one = |at: u64| none == 0 || at + 1 >= none && at + 1 != chunks;
        LayerLayout::of((0..chunks).map(|at| u64::from(has_one(at))).collect()).ok()
    }

    /// The step of `family`, of interleaved chunks, on stages of `tensor` devices each, with sequence parallelism,
    /// and as few chunks as leave at most one layer to each (section 5).
    ///
    /// Times are the planner's, with the paper's attention and network; sizes of activations and the host's link
    /// are the paper's. By replay: stages share no wire, and a late copy delays its backward.
    pub fn step(
        &self,
        family: Family,
        tensor: u64,
        sequence: u64,
        machine: &Machine,
    ) -> Result<OffloadStep, String> {
        self.check(tensor)?;
        let model = self.transformer(sequence)?;
        let stages = (self.gpus / tensor.max(1)).max(1);
        let chunks = self.layers.div_ceil(stages);
        let setup = set_up([1, tensor, stages], 1, chunks, Recompute::None);
        let setup = Setup { family, split: Split::Layout, ..setup };
        let parallel = Recipe { sequence_parallel: true, loss: Loss::Fused, ..recipe(self.batch) };
        let machine = Machine {
            memory: Bytes(1 << 60),
            measured: None,
            efficiency: Efficiency { flash: FLASH, ..machine.efficiency },
            // All devices of a tensor group send at once.
            network: machine.network.min(NODE_NETWORK / number(tensor.max(1))),
            ..machine.clone()
        };
        let cluster = Cluster { parts: vec![(machine.clone(), setup.devices())] };
        let layout = self.dealt(stages * chunks);
        let ground = Inputs { layout: layout.as_ref(), ..Inputs::new(&model, &parallel, &cluster) };
        let costed = ground.cost(&setup).map_err(|error| error.to_string())?;
        let costed = self.kept(costed, sequence, tensor);
        let evaluation = ground.evaluate(&costed, &mut Replay::new());
        let evaluation = evaluation.map_err(|error| error.to_string())?;
        let seconds = number(evaluation.step.0) / 1e9;
        let flops = model.model_flops() * number(self.batch) * number(sequence);
        let mfu = flops / (seconds * machine.peak * number(setup.devices()));
        let memory = evaluation.memory.iter().map(|stage| stage.activations).max();
        Ok(OffloadStep { family, seconds, mfu, memory: memory.unwrap_or_default() })
    }

    /// `costed` with the paper's bytes of activations, and its link to the host.
    fn kept(&self, costed: Costed, sequence: u64, tensor: u64) -> Costed {
        let Self { hidden, heads, query_groups, .. } = *self;
        let layer = layer_bytes(hidden, heads, query_groups, sequence) / tensor.max(1);
        let bytes: Vec<Bytes> =
            costed.layers.iter().map(|layers| Bytes(layers.saturating_mul(layer))).collect();
        let held = |&bytes: &Bytes| Footprint { until_backward: bytes, until_weight: bytes };
        let footprints = Footprints::new(bytes.iter().map(held).collect());
        let way = |bytes: &Bytes| {
            let nanos = u128::from(bytes.0) * 1_000_000_000 / u128::from(HOST);
            let time = Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            CopyTimes { out: time, back: time }
        };
        let is_copied = costed.setup.copies();
        let copies: Vec<CopyTimes> = bytes.iter().filter(|_| is_copied).map(way).collect();
        let Costed { costs, apart, ordering, .. } = costed.clone();
        let [costs, apart, ordering] =
            [costs, apart, ordering].map(|costs| costs.with_copies(copies.clone()));
        Costed { costs, apart, ordering, footprints, ..costed }
    }
}
