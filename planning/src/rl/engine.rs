//! Engines that generate, by a roofline of decoding.

use fsdp::rl::{Engine, Times};
use plan::{LayerKind, Mixer, Precision, number};
use question::diagnostic::Diagnostic;
use question::values::packing::PlacementKey;

use super::{Reader, wrong};
use crate::samples::HALF;

/// Share of a device's memory that an engine has: half beside training, as verl's `gpu_memory_utilization`,
/// and nine tenths on devices of its own, as vLLM's.
const MEMORY: [f64; 2] = [0.5, 0.9];
/// Memory of a device that an engine needs beside weights, keys and values: activations of a batch.
const WORKSPACE: f64 = 1e9;
/// Seconds of a decode step that neither reading nor computing explains, unless the question says: scheduling,
/// sampling, launches. By verl's steps on 64 and 128 H20, whose rollouts last as long as the longest response,
/// and by the 31 ms of a token of Qwen2.5-72B on two H100 (tt-inference-server, issue 143).
const STEP: f64 = 3e-3;
/// Seconds of an all-reduce of a tensor group in it, of which a layer has two.
const ALL_REDUCE: f64 = 10e-6;
/// Responses that are drawn for a mean length.
const DRAWN: usize = 1 << 12;
/// Picoseconds of a second.
const PICOSECONDS: f64 = 1e12;
/// What an engine holds and reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EngineFacts {
    /// Bytes of keys and values of a token, over all devices of an engine.
    pub token_bytes: f64,
    /// Tokens whose keys and values fit.
    pub capacity: u64,
    /// Tokens per second with as many sequences of mean context as it takes.
    pub rate: f64,
}

impl Reader<'_> {
    /// Bytes of keys and values of a token over all layers, and by how many devices they are shared.
    fn cache(&self) -> (f64, f64) {
        let model = &self.samples.model;
        let layers = model.counts(0..model.layers);
        let of_layer = match model.latent {
            Some(latent) => latent.keys + latent.rotary,
            None => model.kv_size(),
        };
        let attends = |kind: LayerKind| match kind.mixer {
            Mixer::Full | Mixer::Window => number(of_layer) * HALF,
            Mixer::Mamba | Mixer::Linear | Mixer::None => 0.0,
        };
        let shared = if model.latent.is_some() { 1 } else { model.kv_heads.min(self.keys.tensor) };
        (layers.sum_of(model.layer_kinds(), attends), number(shared.max(1)))
    }

    /// An engine: what it holds, and how long it takes by a roofline.
    pub(super) fn engine(&self, generating: u64) -> Result<(Engine, EngineFacts), Diagnostic> {
        let model = &self.samples.model;
        let machine = &self.samples.machine;
        if model.indexer.is_some() {
            let message = "the model has an indexer: how long engines with sparse attention take is not known";
            let cure = "name a model whose attention goes to all tokens, such as deepseek-v3";
            return Err(wrong("model", message.to_owned()).with_help(cure));
        }
        let tensor = number(self.keys.tensor);
        let (token_bytes, shared) = self.cache();
        let of_device = token_bytes / shared;
        let weights = number(self.samples.bytes().0) / tensor;
        let share = self.memory_share()?;
        let left = share * number(machine.memory.0) - weights - WORKSPACE;
        let capacity = if of_device > 0.0 { left / of_device } else { left };
        if capacity < number(self.longest()) {
            let message = format!(
                "{share} of the memory of {} devices does not hold the weights of the model and the keys and \
                 values of one sample of {} tokens",
                self.keys.tensor,
                self.longest()
            );
            let cure = "give a larger --tensor or --engine-memory, or shorter --response-lengths";
            return Err(wrong("engine-memory", message).with_help(cure));
        }
        // The table of embeddings is looked up, not read, but for models whose head it is.
        let table = if model.head_parameters() > 0 { model.embedding_parameters() } else { 0 };
        let read = number(model.parameters() - table) * HALF / tensor;
        let body = number(model.active_parameters() - model.embedding_parameters())
            - number(model.head_parameters());
        let active = number(model.active_parameters() - table);
        let flops = machine.rate(Precision::Bf16) * tensor;
        let attending = model.counts(0..model.layers).sum_of(model.layer_kinds(), |kind| {
            f64::from(u8::from(matches!(kind.mixer, Mixer::Full | Mixer::Window)))
        });
        let reduced = number(model.hidden) * HALF * 2.0 * number(model.layers);
        let members = self.keys.tensor;
        let reduce = plan::all_reduce(reduced, members, machine.tensor_ring(members), 0.0);
        let step = self.keys.step_latency.map_or(STEP, |given| number(given.0) / 1e9);
        let reduces = if members > 1 { 2.0 * ALL_REDUCE } else { 0.0 };
        let seconds = [
            machine.stream(read),
            machine.stream(of_device),
            2.0 * active / flops,
            reduce,
            step + number(model.layers) * reduces,
        ];
        let (factor, rate) = self.measured_rate(seconds, capacity, generating)?;
        let [weights, context, compute, sequence, step] =
            seconds.map(|seconds| picoseconds(seconds * factor));
        let prefill = picoseconds(2.0 * body / flops + reduce);
        let pair = 4.0 * number(model.query_size()) * attending / (machine.flash() * tensor);
        let prefill_pair = picoseconds(pair);
        let times = Times { weights, context, compute, sequence, step, prefill, prefill_pair };
        let capacity = whole(capacity);
        let engine = Engine { times, capacity, sequences: self.keys.max_sequences };
        Ok((engine, EngineFacts { token_bytes, capacity, rate }))
    }

    fn memory_share(&self) -> Result<f64, Diagnostic> {
        let separate = usize::from(self.keys.placement == PlacementKey::Separate);
        let share = self.keys.engine_memory.unwrap_or(MEMORY[separate]);
        match (0.01..=1.0).contains(&share) {
            true => Ok(share),
            false => Err(wrong(
                "engine-memory",
                format!("--engine-memory is {share}: a share of the memory, from 0.01 to 1"),
            )),
        }
    }

    /// The factor on times of decoding by a measured rate, or 1; and the rate of a full batch of mean contexts,
    /// in tokens per second.
    fn measured_rate(
        &self,
        [weights, context, compute, sequence, step]: [f64; 5],
        capacity: f64,
        generating: u64,
    ) -> Result<(f64, f64), Diagnostic> {
        let [prompt, response] = self.lengths.each_ref().map(|lengths| {
            let drawn = lengths.draw(self.keys.seed, 0, DRAWN);
            drawn.iter().map(|&length| f64::from(length)).sum::<f64>() / number(DRAWN as u64)
        });
        // A sequence has half of its response on the mean.
        let mean = prompt + response / 2.0;
        let replicas = number((generating / self.keys.tensor).max(1));
        let own = number(self.keys.prompts.saturating_mul(self.keys.responses)) / replicas;
        let most = number(self.keys.max_sequences.max(1)).min(capacity / mean).min(own).max(1.0);
        let reading = weights + context * mean * most;
        let time = reading.max(compute * most) + sequence * most + step;
        let by_formulas = most / time;
        match self.keys.generation_rate {
            None => Ok((1.0, by_formulas)),
            Some(rate) if (1e-3..=1e9).contains(&rate) => Ok((by_formulas / rate, rate)),
            Some(rate) => Err(wrong(
                "generation-rate",
                format!("--generation-rate is {rate}: tokens per second, from 0.001 to 1e9"),
            )),
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
fn picoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * PICOSECONDS).ceil() as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A cast of floats saturates.
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}
