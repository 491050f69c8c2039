//! PipeOffload: a pipeline alone beside tensor groups of 8, on the models of its table 2.

use pipeline::{Bytes, CopyTimes, Family, Footprint, Footprints, Nanos};
use plan::{
    Attention, Cluster, Costed, Inputs, Loss, Machine, Recipe, Recompute, Setup, Sizes,
    Transformer, number,
};
use serde::Deserialize;
use sim::Replay;

use super::super::rows::{MOST, gpt, recipe, set_up};

/// The vocabulary that follows from the numbers of parameters, with one table for both ends.
const VOCABULARY: u64 = 32_000;
/// Bandwidth of a device to the host, in bytes per second.
const HOST: u64 = 15_000_000_000;

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
    /// The most that a device holds, all together.
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

    /// The step of `family` on stages of `tensor` devices each, with sequence parallelism, and as many
    /// chunks as there are layers for; one chunk holds no layer but the embedding, one but the head.
    ///
    /// Times are the planner's; sizes of activations and the host's link are the paper's. By replay:
    /// stages share no wire, and a late copy delays its backward.
    pub fn step(
        &self,
        family: Family,
        tensor: u64,
        sequence: u64,
        machine: &Machine,
    ) -> Result<OffloadStep, String> {
        self.check(tensor)?;
        let model = self.transformer(sequence)?;
        let stages = self.gpus / tensor.max(1);
        let chunks = family.about().chunks.of(Some((self.layers + 2) / stages.max(1)));
        let setup = Setup { family, ..set_up([1, tensor, stages], 1, chunks, Recompute::None) };
        let parallel = Recipe { sequence_parallel: true, loss: Loss::Fused, ..recipe(self.batch) };
        let machine = Machine { memory: Bytes(1 << 60), measured: None, ..machine.clone() };
        let cluster = Cluster { parts: vec![(machine.clone(), setup.devices())] };
        let ground = Inputs::new(&model, &parallel, &cluster);
        let costed = ground.cost(&setup).map_err(|error| error.to_string())?;
        let costed = self.kept(costed, sequence, tensor);
        let evaluation = ground.evaluate(&costed, &mut Replay::new());
        let evaluation = evaluation.map_err(|error| error.to_string())?;
        let seconds = number(evaluation.step.0) / 1e9;
        let flops = model.model_flops() * number(self.batch) * number(sequence);
        let mfu = flops / (seconds * machine.peak * number(setup.devices()));
        Ok(OffloadStep { family, seconds, mfu, memory: evaluation.fullest().1.sum() })
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
